//! `Cluster`: everything of one node, wired: the metadata group, the registry of replicas, the
//! controller.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use protocol::types::{BrokerId, PartitionId, ProducerId, Timestamp, TopicId};
use storage::log_store::GroupId;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::controller::directory;
use crate::controller::elections::{self, ElectionOutcome, Elections};
use crate::controller::failover;
use crate::controller::forwarding::{self, Forwarding};
use crate::controller::isolation;
use crate::controller::members::MemberChanges;
use crate::controller::metadata_log::{
    METADATA_GROUP, MetadataLog, MetadataLogOptions, storage_error,
};
use crate::controller::placement;
use crate::controller::presence::{self, Presence};
use crate::controller::producer_ids::ProducerIdBlock;
use crate::controller::quorum::{self, Quorum};
use crate::controller::unclean::{self, UncleanElections};
use crate::limits::{
    GROUP_OPENS_STEP, GROUP_OPENS_TIMEOUT, HAND_OVER_TIMEOUT, IDLE_ROUNDS, PRODUCER_ID_BLOCK,
};
use crate::metadata::command::CommandOutcome;
use crate::metadata::{BrokerImage, MetadataCommand, MetadataImage, PartitionImage};
use crate::options::{ClusterOptions, PeerOptions};
use crate::raft::{RaftGroup, Timing, spawn};
use crate::replica::lifecycle::{Environment, node_id};
use crate::replica::registry::Registry;
use crate::replica::throttle::Throttle;
use crate::replica::{
    Leadership, LogPlaces, LogQuestion, LogStartObserver, LookupError, Replica, lookup,
};
use crate::transport::{NoPeers, PeerError, PeerHandler, PeerMessage};
use crate::{ClusterError, ReadError};

/// One node of the cluster.
pub struct Cluster {
    broker_id: BrokerId,
    /// Of the directory that the store is in.
    directory_id: String,
    metadata: Arc<MetadataLog>,
    forwarding: Arc<Forwarding>,
    presence: Arc<Presence>,
    /// Of the metadata log.
    voters: Vec<BrokerId>,
    timing: Timing,
    registry: Arc<Registry>,
    producer_ids: Mutex<ProducerIdBlock>,
    now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    new_uuid: Arc<dyn Fn() -> Uuid + Send + Sync>,
    closing: CancellationToken,
    /// Held while a group works on a peer's message.
    handling: tokio::sync::RwLock<()>,
    /// Maintenance, and what is told to and heard from the controller.
    tasks: Mutex<Vec<oneshot::Receiver<()>>>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("broker_id", &self.broker_id).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Recovers, forms the metadata group, registers the broker; ready to serve when it returns.
    pub async fn start(options: ClusterOptions) -> Result<Arc<Cluster>, ClusterError> {
        let alone = PeerOptions::new(vec![options.broker.id], Arc::new(NoPeers));
        let broker = options.broker.clone();
        let cluster_id = options.cluster_id.clone();
        let cluster = Cluster::start_with_peers(options, alone).await?;
        cluster.join(broker, cluster_id).await?;
        Ok(cluster)
    }

    /// Starts a node of a cluster of several. Returns before there is a leader, so that the node
    /// can answer its peers; [`join`](Cluster::join) then waits for one.
    pub async fn start_with_peers(
        options: ClusterOptions,
        peers: PeerOptions,
    ) -> Result<Arc<Cluster>, ClusterError> {
        let broker_id = options.broker.id;
        let timing = peers.timing();
        let forwarding = Arc::new(Forwarding {
            broker_id,
            transport: peers.transport.clone(),
            is_alone: peers.voters == [broker_id],
            voters: peers.voters.clone(),
        });
        let fresh = encode_uuid((options.new_uuid)());
        let directory_id = directory::id_of(&options.store, fresh).await.map_err(storage_error)?;
        let presence =
            Arc::new(Presence::new(broker_id, peers.presence_timing(), peers.transport.clone()));
        let metadata = MetadataLog::open(MetadataLogOptions {
            node_id: node_id(broker_id),
            voters: peers.voters.iter().copied().map(node_id).collect(),
            store: options.store.clone(),
            transport: peers.transport.clone(),
            timing,
        })
        .await?;
        let metadata = Arc::new(metadata);
        let environment = Arc::new(Environment {
            broker_id,
            directory_id: directory_id.clone(),
            store: options.store,
            transport: peers.transport,
            timing,
            presence: presence.clone(),
            is_alone: forwarding.is_alone,
            replica_lag_max: peers.replica_lag_max,
            throttle: Throttle::new(broker_id),
            idle_rounds: IDLE_ROUNDS,
            log_start_observer: OnceLock::new(),
        });
        let registry = Arc::new(Registry::new(environment, options.settings));
        metadata.attach(registry.clone());
        let cluster = Arc::new(Cluster {
            broker_id,
            directory_id,
            metadata,
            forwarding,
            presence,
            voters: peers.voters,
            timing,
            registry,
            producer_ids: Mutex::default(),
            now: options.now.clone(),
            new_uuid: options.new_uuid,
            closing: CancellationToken::new(),
            handling: tokio::sync::RwLock::new(()),
            tasks: Mutex::default(),
        });
        let registry = cluster.registry.clone();
        let (now, interval) = (options.now, options.retention_check_interval);
        let expiration = options.producer_id_expiration;
        cluster.spawn_until_closing(async move {
            registry.run_maintenance(now, interval, expiration).await;
        });
        if !cluster.forwarding.is_alone {
            cluster.spawn_presence(peers.rebalance_interval);
        }
        Ok(cluster)
    }

    fn spawn_presence(&self, rebalance_interval: Option<Duration>) {
        let (presence, log) = (self.presence.clone(), self.metadata.clone());
        self.spawn_until_closing(async move { presence.run_questions(&log).await });
        let (presence, log) = (self.presence.clone(), self.metadata.clone());
        let registry = self.registry.clone();
        self.spawn_until_closing(async move { presence.run_reports(&log, &registry).await });
        let changes = MemberChanges {
            voters: self.voters.clone(),
            log: self.metadata.clone(),
            forwarding: self.forwarding.clone(),
            registry: self.registry.clone(),
        };
        self.spawn_until_closing(async move { changes.run().await });
        let (metadata, registry) = (self.metadata.clone(), self.registry.clone());
        let Timing { heartbeat, election_max, .. } = self.timing;
        let (voters, presence) = (self.voters.clone(), self.presence.clone());
        self.spawn_until_closing(async move {
            let is_alive = |id| presence.is_alive(id);
            let groups = || failover::groups(&metadata, &voters, &registry);
            isolation::run(heartbeat, election_max, is_alive, groups).await;
        });
        if let Some(interval) = rebalance_interval {
            let elections = self.elections();
            let log = self.metadata.clone();
            self.spawn_until_closing(async move { elections.run_rebalance(&log, interval).await });
        }
    }

    fn spawn_until_closing(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (ended, end) = oneshot::channel();
        let closing = self.closing.clone();
        spawn(async move {
            tokio::select! {
                biased;
                () = closing.cancelled() => {}
                () = task => {}
            }
            ended.send(()).ok();
        });
        self.tasks.lock().push(end);
    }

    fn elections(&self) -> Elections {
        Elections {
            broker_id: self.broker_id,
            presence: self.presence.clone(),
            registry: self.registry.clone(),
            transport: self.forwarding.transport.clone(),
        }
    }

    /// Gives the cluster its id if it has none, and says where this broker is reached now; waits
    /// for a metadata leader as long as that takes. A broker that was told another cluster id than
    /// the cluster has does not join it.
    pub async fn join(
        &self,
        mut broker: BrokerImage,
        cluster_id: Option<String>,
    ) -> Result<(), ClusterError> {
        broker.directory_id = Some(self.directory_id.clone());
        if !self.voters.contains(&broker.id) {
            // The cluster has its id, and tells it to who is one of its brokers.
            let registration = MetadataCommand::RegisterBroker { broker: broker.clone() };
            self.submit_at_last(registration).await?;
        }
        if self.metadata().cluster_id.is_empty() {
            let cluster_id = cluster_id.clone().unwrap_or_else(|| encode_uuid((self.new_uuid)()));
            self.submit_at_last(MetadataCommand::InitCluster { cluster_id }).await?;
        }
        let found = self.metadata().cluster_id.clone();
        if let Some(told) = cluster_id.filter(|told| *told != found) {
            return Err(ClusterError::ForeignCluster { told, found });
        }
        if self.metadata().brokers.get(&broker.id) != Some(&broker) {
            self.submit_at_last(MetadataCommand::RegisterBroker { broker }).await?;
        }
        if !self.forwarding.is_alone {
            // Who serves clients by an old image might take a partition for its own that has moved.
            let version = self.presence.wait_until_heard().await;
            while self.metadata.wait_for_version(version).await == Err(ClusterError::Undecided) {}
        }
        Ok(())
    }

    /// Submits a command that does no harm twice, again and again until it is carried out.
    async fn submit_at_last(&self, command: MetadataCommand) -> Result<(), ClusterError> {
        loop {
            match self.submit(command.clone()).await {
                Err(ClusterError::NoController | ClusterError::Undecided) => {
                    tracing::info!("waiting for a leader of the metadata log");
                }
                result => return result.map(|_| ()),
            }
        }
    }

    /// This broker.
    pub fn broker_id(&self) -> BrokerId {
        self.broker_id
    }

    /// The current image.
    pub fn metadata(&self) -> Arc<MetadataImage> {
        self.metadata.image()
    }

    /// The image, and every later one.
    pub fn watch_metadata(&self) -> watch::Receiver<Arc<MetadataImage>> {
        self.metadata.watch()
    }

    /// Carries out a command, here or where the metadata leader is: answers once it is durable,
    /// applied on this node, and what it created here can be served.
    pub async fn submit(&self, command: MetadataCommand) -> Result<CommandOutcome, ClusterError> {
        self.forwarding.submit(&self.metadata, &command).await
    }

    /// Places `partitions` x `replication_factor` on the brokers that exist. Errors as Kafka:
    /// InvalidPartitions, InvalidReplicationFactor.
    pub fn plan_assignment(
        &self,
        partitions: usize,
        replication_factor: usize,
    ) -> Result<Vec<Vec<BrokerId>>, ClusterError> {
        let image = self.metadata();
        let start = usize::try_from(image.next_group_id).unwrap_or(0);
        let brokers = placement::candidates(&image, |id| self.is_alive(id));
        placement::place(brokers, partitions, replication_factor, start)
    }

    /// The local replica; `Gone` when topic or partition is unknown here.
    pub fn replica(
        &self,
        topic: TopicId,
        partition: PartitionId,
    ) -> Result<Arc<Replica>, ReadError> {
        self.registry.get(topic, partition).ok_or(ReadError::Gone)
    }

    /// Asks the leader of a partition, here or on another broker, what its log says.
    pub async fn look_up(&self, question: LogQuestion) -> Result<LogPlaces, LookupError> {
        let image = self.metadata();
        let topic = image.topic_by_id(question.topic);
        let partition = topic.and_then(|topic| topic.partition(question.partition));
        let partition = partition.ok_or(LookupError::NoLeader)?;
        let transport = &*self.forwarding.transport;
        let leader = self.leadership(question.topic, partition).leader;
        let places = lookup::Places { own: self.broker_id, leader, partition };
        lookup::anywhere(places, &self.registry, transport, question).await
    }

    /// Whether a broker is there, as far as is known here.
    pub fn is_alive(&self, broker: BrokerId) -> bool {
        self.presence.is_alive(broker)
    }

    /// Who leads a partition and who follows closely, also where this broker has no replica of it.
    pub fn leadership(&self, topic: TopicId, partition: &PartitionImage) -> Leadership {
        let local = self.registry.get(topic, partition.id).map(|replica| replica.leadership());
        self.presence.leadership(partition, local)
    }

    /// Changes whenever this broker learns who leads or who is there.
    pub fn watch_leadership(&self) -> watch::Receiver<u64> {
        self.presence.watch()
    }

    /// Has the preferred replicas of partitions lead them; answers for each, in order.
    pub async fn elect_preferred(
        &self,
        partitions: Vec<(TopicId, PartitionId)>,
        timeout: Duration,
    ) -> Vec<ElectionOutcome> {
        self.elections().elect_preferred(&self.metadata(), partitions, timeout).await
    }

    /// Has one replica lead with what it has, where the majority is gone and it is allowed: what
    /// only the others have is lost, also when they come back.
    pub async fn elect_unclean(
        &self,
        topic: TopicId,
        partition: PartitionId,
        is_allowed: bool,
        timeout: Duration,
    ) -> ElectionOutcome {
        let (log, forwarding) = (&self.metadata, &self.forwarding);
        let (presence, registry) = (&self.presence, &self.registry);
        let elections = UncleanElections { log, forwarding, presence, registry };
        elections.elect(topic, partition, is_allowed, timeout).await
    }

    /// The metadata log's leader, voters and observers, as the leader sees them.
    pub async fn describe_quorum(&self) -> Result<Quorum, ClusterError> {
        quorum::describe(&self.forwarding, &self.metadata, &self.now).await
    }

    /// Has `observer` told of every log start that moves from now on while this broker leads; it
    /// must not block. The first observer stays.
    pub fn observe_log_starts(&self, observer: LogStartObserver) {
        self.registry.observe_log_starts(observer);
    }

    /// The metadata leader, if known.
    pub fn controller(&self) -> Option<BrokerId> {
        self.metadata.leader().0
    }

    /// A producer id never handed out before (from this broker's block).
    pub async fn next_producer_id(&self) -> Result<ProducerId, ClusterError> {
        loop {
            if let Some(id) = self.producer_ids.lock().take() {
                return Ok(ProducerId(id));
            }
            let command = MetadataCommand::AllocateProducerIds {
                broker: self.broker_id,
                count: PRODUCER_ID_BLOCK,
            };
            if let CommandOutcome::ProducerIds { first, count } = self.submit(command).await? {
                // Two that fetch at once waste a block: ids are plenty.
                *self.producer_ids.lock() = ProducerIdBlock::new(first, count);
            }
        }
    }

    /// Answers another broker's message about a group of this one.
    pub async fn handle_peer(
        &self,
        group: GroupId,
        message: PeerMessage,
    ) -> Result<PeerMessage, PeerError> {
        if message.kind == forwarding::SUBMIT {
            return forwarding::answer(&self.metadata, &message.head).await;
        }
        if message.kind == lookup::LOOKUP {
            return lookup::answer(&self.registry, &message).await;
        }
        if message.kind == presence::HEARTBEAT {
            let answer = self.presence.answer(&self.metadata, &message);
            let going = || PeerError::Unreachable(String::from("the broker is going down"));
            return self.closing.run_until_cancelled(answer).await.unwrap_or_else(|| Err(going()));
        }
        if message.kind == quorum::DESCRIBE {
            return quorum::answer(&self.metadata, &self.now);
        }
        if message.kind == directory::ASK {
            return directory::answer(&self.metadata, &message);
        }
        if message.kind == unclean::LOG_END {
            return unclean::answer(&self.registry, &message);
        }
        if message.kind == elections::HAND_OVER {
            return self.elections().answer(&message).await;
        }
        let _handling = self.handling.read().await;
        if self.closing.is_cancelled() {
            return Err(PeerError::Unreachable(String::from("the broker is going down")));
        }
        if group == METADATA_GROUP {
            let (log, transport) = (&self.metadata, &*self.forwarding.transport);
            let (own, id) = (self.broker_id, &self.directory_id);
            directory::ask_if_new(log, own, id, transport, &message).await?;
        }
        match self.raft_group_soon(group).await {
            Some(group) => group.handle(message).await,
            None => Err(PeerError::Unreachable(format!("group {} is not open here", group.0))),
        }
    }

    /// A peer may have heard of a new partition before this broker has: its first election would
    /// fail, and the next one comes only after a timeout.
    async fn raft_group_soon(&self, group: GroupId) -> Option<RaftGroup> {
        let opened = async {
            loop {
                if let Some(open) = self.raft_group(group) {
                    return Some(open);
                }
                let is_known = group.0 < self.metadata().next_group_id;
                if is_known && self.registry.by_number(group).is_none() {
                    return None;
                }
                tokio::time::sleep(GROUP_OPENS_STEP).await;
            }
        };
        tokio::time::timeout(GROUP_OPENS_TIMEOUT, opened).await.unwrap_or(None)
    }

    #[cfg(feature = "sim")]
    pub(crate) fn has_whole_logs(&self) -> bool {
        use crate::raft::LogStanding;
        let partitions = self.registry.all().into_iter().map(|replica| replica.group());
        let groups = partitions.chain([Some(self.metadata.group().clone())]);
        groups.into_iter().all(|g| g.is_some_and(|g| g.standing() == LogStanding::Whole))
    }

    fn raft_group(&self, group: GroupId) -> Option<RaftGroup> {
        if group == METADATA_GROUP {
            return Some(self.metadata.group().clone());
        }
        self.registry.by_number(group)?.group()
    }

    /// Hands over what this broker leads, and closes every group; the store stays open.
    pub async fn shutdown(&self) {
        if !self.forwarding.is_alone {
            let groups = failover::groups(&self.metadata, &self.voters, &self.registry);
            let is_alive = |id| self.is_alive(id);
            failover::hand_over_all(self.timing.election_max, is_alive, groups).await;
        }
        self.abort().await;
    }

    /// Closes every group without handing anything over; the store stays open.
    pub async fn abort(&self) {
        self.closing.cancel();
        // A group that stops while it works on a message takes that for an error.
        drop(tokio::time::timeout(HAND_OVER_TIMEOUT, self.handling.write()).await);
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for ended in tasks {
            // Ends without a word only with the runtime.
            ended.await.ok();
        }
        self.registry.close().await;
        self.metadata.close().await;
    }
}

impl PeerHandler for Cluster {
    fn handle(
        &self,
        group: GroupId,
        message: PeerMessage,
    ) -> BoxFuture<'_, Result<PeerMessage, PeerError>> {
        Box::pin(self.handle_peer(group, message))
    }

    fn on_disconnected(&self, peer: BrokerId) {
        let ended = self.forwarding.transport.has_ended(peer);
        let (own, registry) = (self.broker_id, Arc::clone(&self.registry));
        let (metadata, voters) = (self.metadata.clone(), self.voters.clone());
        let presence = self.presence.clone();
        spawn(async move {
            if ended.await {
                tracing::warn!(broker = peer.0, "the broker's process has ended");
                presence.on_ended(peer);
                failover::take_over(own, peer, failover::groups(&metadata, &voters, &registry));
            }
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// A UUID in Kafka's spelling: 22 characters of base64 for URLs, no padding.
fn encode_uuid(uuid: Uuid) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    // 128 bits are 21 characters of six bits and one of two, which stand at its top.
    let bits = uuid.as_u128();
    let character = |position: u32| {
        let six = if position < 21 { bits >> (122 - 6 * position) } else { bits << 4 };
        char::from(ALPHABET[(six & 0x3f) as usize])
    };
    (0..22).map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_is_spelled_as_kafka_spells_it() {
        assert_eq!(encode_uuid(Uuid::from_u128(0)), "AAAAAAAAAAAAAAAAAAAAAA");
        assert_eq!(encode_uuid(Uuid::from_u128(u128::MAX)), "_____________________w");
        let uuid = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
        assert_eq!(encode_uuid(uuid), "ABEiM0RVZneImaq7zN3u_w");
    }
}
