//! Nodes in one process, over real sockets and real files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cluster::metadata::{BrokerImage, MetadataCommand};
use cluster::replica::{Replica, ThrottledReplicas};
use cluster::transport::{Identity, TcpPeers, serve_peers};
use cluster::{AppendError, Cluster, ClusterError, ClusterOptions, PeerOptions, ReplicaSettings};
use protocol::record_batch::{BatchBuilder, RecordBatch};
use protocol::types::{BrokerId, Offset, PartitionId, Timestamp, TopicId};
use storage::StorageError;
use storage::log_store::{Durability, LogStore, LogStoreOptions, ReadLimit};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::deafness::Ears;

pub const IDS: [i32; 3] = [1, 2, 3];
pub const TOPIC: TopicId = TopicId(Uuid::from_u128(7));
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Where the nodes are.
pub struct Place {
    dir: TempDir,
    pub addresses: BTreeMap<BrokerId, String>,
    election_timeout: Duration,
    pub min_insync_replicas: usize,
    pub rebalance_interval: Option<Duration>,
    pub throttled: ThrottledReplicas,
}

impl Place {
    /// Ports that were free a moment ago.
    pub fn new(election_timeout: Duration) -> Place {
        let listeners =
            IDS.map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let addresses = IDS.iter().zip(&listeners).map(|(id, listener)| {
            (BrokerId(*id), listener.local_addr().expect("bound").to_string())
        });
        let (dir, addresses) = (TempDir::new().expect("a directory"), addresses.collect());
        Place {
            dir,
            addresses,
            election_timeout,
            min_insync_replicas: 1,
            rebalance_interval: None,
            throttled: ThrottledReplicas::Nothing,
        }
    }

    pub fn dir_of(&self, id: i32) -> PathBuf {
        self.dir.path().join(id.to_string())
    }
}

pub struct Node {
    pub cluster: Arc<Cluster>,
    /// While it is set, the node is heard by the others and hears nothing.
    pub deaf: Arc<AtomicBool>,
    store: LogStore,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Node {
    /// Starts a node; it may wait for others in [`Node::join`].
    pub async fn start(place: &Place, id: i32) -> Node {
        let store = open_store(&place.dir_of(id)).await;
        let identity = Arc::new(Identity::new(BrokerId(id), String::new()));
        let connections = TcpPeers::new(identity.clone(), place.addresses.clone());
        let deaf = Arc::new(AtomicBool::new(false));
        let peers = PeerOptions {
            voters: place.addresses.keys().copied().collect(),
            transport: Arc::new(Ears::new(connections, &deaf)),
            heartbeat: Duration::from_millis(100),
            election_timeout: place.election_timeout..2 * place.election_timeout,
            presence_heartbeat: Duration::from_millis(500),
            session_timeout: Duration::from_secs(3),
            replica_lag_max: Duration::from_secs(2),
            rebalance_interval: place.rebalance_interval,
        };
        let mut options = options(id, store.clone());
        let mut settings = settings(place.min_insync_replicas);
        settings.leader_throttled.clone_from(&place.throttled);
        settings.follower_throttled.clone_from(&place.throttled);
        options.settings = Arc::new(move |_, _| settings.clone());
        let cluster = Cluster::start_with_peers(options, peers).await;
        let cluster = cluster.expect("started");
        let listener = TcpListener::bind(&place.addresses[&BrokerId(id)]).await.expect("bound");
        let stop = CancellationToken::new();
        let handler = Arc::new(Ears::new(cluster.clone(), &deaf));
        let serving = tokio::spawn(serve_peers(listener, identity, handler, stop.clone()));
        Node { cluster, deaf, store, stop, serving }
    }

    pub async fn join(&self) {
        let joined = self.cluster.join(image(self.cluster.broker_id()), None);
        tokio::time::timeout(PATIENCE, joined).await.expect("in time").expect("joined");
    }

    /// Stops as a process that dies: nothing is handed over.
    pub async fn abort(self) {
        self.cluster.abort().await;
        self.stop.cancel();
        self.serving.await.expect("served");
        self.store.close().expect("closed");
    }

    pub async fn stop(self) {
        self.cluster.shutdown().await;
        self.stop.cancel();
        self.serving.await.expect("served");
        self.store.close().expect("closed");
    }

    pub fn replica(&self) -> Option<Arc<Replica>> {
        self.cluster.replica(TOPIC, PartitionId(0)).ok()
    }
}

pub fn image(id: BrokerId) -> BrokerImage {
    BrokerImage { id, rack: None, endpoints: Vec::new(), peer_address: None, directory_id: None }
}

pub fn settings(min_insync_replicas: usize) -> ReplicaSettings {
    ReplicaSettings {
        durability: Durability::Fsync,
        retention_ms: None,
        retention_bytes: None,
        min_insync_replicas,
        leader_throttled: ThrottledReplicas::Nothing,
        follower_throttled: ThrottledReplicas::Nothing,
    }
}

#[allow(clippy::disallowed_methods, reason = "the test is its own source of ids")]
pub fn options(id: i32, store: LogStore) -> ClusterOptions {
    ClusterOptions {
        broker: image(BrokerId(id)),
        cluster_id: None,
        store,
        settings: Arc::new(|_, _| settings(1)),
        retention_check_interval: Duration::from_secs(300),
        producer_id_expiration: Duration::from_secs(86_400),
        now: Arc::new(now),
        new_uuid: Arc::new(Uuid::new_v4),
    }
}

#[allow(clippy::disallowed_methods, reason = "the test is its own clock")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_millis() as i64)
}

/// Opens the store, once the last task of the node before has let go of it.
pub async fn open_store(dir: &Path) -> LogStore {
    std::fs::create_dir_all(dir).expect("made");
    let opened = async {
        loop {
            match LogStore::open_dir(dir, LogStoreOptions::default()) {
                Ok(store) => return store,
                Err(StorageError::Locked(_)) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, opened).await.expect("let go of")
}

pub fn batch(value: &str) -> RecordBatch {
    BatchBuilder::new().record(now(), None, Some(value.as_bytes())).build().expect("built")
}

/// Waits until `check` yields something.
pub async fn eventually<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = check() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no {what}"))
}

/// Appends wherever the leader is, as a client does that looks again after each refusal.
pub async fn append(nodes: &[Node], value: &str) -> Offset {
    loop {
        let leader = eventually("leader", || {
            nodes.iter().filter_map(Node::replica).find(|replica| replica.is_leader())
        });
        match leader.await.append(batch(value)).committed().await {
            Ok(appended) => return appended.base_offset,
            Err(AppendError::NotLeader { .. } | AppendError::Gone) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

pub async fn wait_for_high_watermark(node: &Node, offset: Offset) {
    eventually("high watermark", || {
        let replica = node.replica()?;
        (replica.offsets().high_watermark >= offset).then_some(())
    })
    .await;
}

pub fn bytes_of(node: &Node) -> Bytes {
    let replica = node.replica().expect("there");
    let upper_bound = replica.offsets().high_watermark;
    let limit = ReadLimit { upper_bound, max_bytes: 1 << 24, min_one_batch: true };
    let records = replica.read(Offset::ZERO, limit).expect("read");
    records.read_to_bytes().expect("the files have it")
}

pub async fn create_topic(node: &Node) -> Result<(), ClusterError> {
    create_topic_on(node, &[&IDS]).await
}

pub async fn create_topic_on(node: &Node, assignment: &[&[i32]]) -> Result<(), ClusterError> {
    let replicas = |ids: &&[i32]| ids.iter().copied().map(BrokerId).collect();
    let command = MetadataCommand::CreateTopic {
        name: "t".into(),
        id: TOPIC,
        assignment: assignment.iter().map(replicas).collect(),
        configs: BTreeMap::new(),
    };
    node.cluster.submit(command).await.map(|_| ())
}

pub async fn start_all(place: &Place) -> Vec<Node> {
    let mut nodes = Vec::new();
    // The first voter comes last: it forms the metadata log at once, with all others there.
    for id in [2, 3, 1] {
        nodes.push(Node::start(place, id).await);
    }
    for node in &nodes {
        node.join().await;
    }
    for node in &nodes {
        eventually("broker", || (node.cluster.metadata().brokers.len() == 3).then_some(())).await;
    }
    nodes
}

/// Takes the node out that leads the topic.
pub fn remove_leader(nodes: &mut Vec<Node>) -> Node {
    let leader = nodes.iter().position(|n| n.replica().is_some_and(|r| r.is_leader()));
    nodes.remove(leader.expect("a leader"))
}
