//! `MetadataImage`: an immutable snapshot of everything the metadata log says.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::types::{BrokerId, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

/// The Raft group of the metadata log itself; partitions get the numbers behind it.
pub const METADATA_GROUP: u64 = 0;

/// A Raft node's number has the broker's in its low bits, and above it the number of its log, where
/// that is not the group's.
pub const NODE_ID_BROKER_BITS: u32 = 32;

/// Topics that the broker keeps its own state in (`Topic.INTERNAL_TOPICS`). Other names with two
/// leading underscores belong to users: `__debezium-heartbeat`, say.
pub const INTERNAL_TOPICS: [&str; 3] =
    ["__consumer_offsets", "__share_group_state", "__transaction_state"];

/// Kafka's name of its metadata log, which is no topic and cannot be made one.
pub const METADATA_TOPIC: &str = "__cluster_metadata";

/// What the metadata log says, as of one of its entries. Cloning is cheap (maps of `Arc`s).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetadataImage {
    /// How many changes have led to it: of two images of a cluster, the one with more is later.
    #[serde(default)]
    pub version: u64,
    /// Made by the first node that ever started, kept for good.
    pub cluster_id: String,
    /// The brokers that have registered.
    pub brokers: Arc<BTreeMap<BrokerId, BrokerImage>>,
    /// Topics by name.
    pub topics: Arc<BTreeMap<String, Arc<TopicImage>>>,
    /// Names of the topics by id.
    pub topic_names: Arc<BTreeMap<TopicId, String>>,
    /// Dynamic broker configs: key `None` is the cluster-wide default.
    #[serde(with = "broker_configs")]
    pub broker_configs: Arc<BTreeMap<Option<BrokerId>, BTreeMap<String, String>>>,
    /// What was set on groups, by their names; none that is empty.
    #[serde(default)]
    pub group_configs: Arc<BTreeMap<String, BTreeMap<String, String>>>,
    /// Next number for a partition's Raft group; never reused. Starts at 1 (0 is this log).
    pub next_group_id: u64,
    /// First producer id not yet handed out to any broker.
    pub next_producer_id: i64,
}

impl Default for MetadataImage {
    fn default() -> Self {
        Self {
            version: 0,
            cluster_id: String::new(),
            brokers: Arc::default(),
            topics: Arc::default(),
            topic_names: Arc::default(),
            broker_configs: Arc::default(),
            group_configs: Arc::default(),
            next_group_id: METADATA_GROUP + 1,
            next_producer_id: 0,
        }
    }
}

/// A broker, as it registered itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BrokerImage {
    /// Its `node.id`.
    pub id: BrokerId,
    /// Its `broker.rack`.
    pub rack: Option<String>,
    /// Advertised, per listener name.
    pub endpoints: Vec<EndpointImage>,
    /// Where the other brokers reach it, as `host:port`; `None` = where their configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_address: Option<String>,
    /// Of which directory it was when it registered: another one has nothing of what was in that.
    /// `None`: it was registered by a version that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory_id: Option<String>,
}

/// Where clients reach a broker by one of its listeners.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndpointImage {
    /// The listener's name.
    pub listener: String,
    /// The advertised host. Empty = the broker is reached by whatever address the client came to.
    pub host: String,
    /// The advertised port.
    pub port: u16,
    /// PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.
    pub security_protocol: String,
}

/// A topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicImage {
    /// Its name.
    pub name: String,
    /// Its identity; a topic of the same name made later has another one.
    pub id: TopicId,
    /// Index = partition number.
    pub partitions: Vec<PartitionImage>,
    /// Only what was set on the topic.
    pub configs: BTreeMap<String, String>,
}

/// A partition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PartitionImage {
    /// Its number within the topic.
    pub id: PartitionId,
    /// Its Raft group.
    pub group: u64,
    /// Who keeps it; the first one is the preferred leader.
    pub replicas: Vec<BrokerId>,
    /// Of these, who is being added by a reassignment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adding: Vec<BrokerId>,
    /// Of these, who leaves when the reassignment is complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removing: Vec<BrokerId>,
    /// Of these, who was about to leave and stays after all: its Raft group may have let it go
    /// already, and takes it back then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub returning: Vec<BrokerId>,
    /// Of which version the image was when it was reassigned last, so that the end of one
    /// reassignment is not taken for the end of another.
    #[serde(default)]
    pub altered_at: u64,
    /// Who has formed the Raft group, where these are not `replicas`: whoever was added since has
    /// nothing to form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub founders: Vec<BrokerId>,
    /// Under which number a replica that was added keeps its log, which is a number of its own: a
    /// broker's store uses none twice, and a replica may come back to where it was removed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub log_ids: BTreeMap<BrokerId, u64>,
    /// Which of the replicas have lost their directory, ever. A log of theirs that is empty lacks
    /// what was in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_directories: Vec<BrokerId>,
    /// Who goes on alone since the last unclean election, as long as it keeps the partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survivor: Option<Survivor>,
}

/// A replica that was made the only member of the partition's Raft group, because the majority of
/// the others is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Which.
    pub broker: BrokerId,
    /// The number that the others know it by since then, which is not its log's: whoever was in the
    /// group before calls one that nobody answers.
    pub number: u64,
    /// Its leader epoch is above this one.
    pub epoch: u64,
}

impl PartitionImage {
    /// Under which number a broker keeps the partition's log.
    #[must_use]
    pub fn log_id(&self, broker: BrokerId) -> u64 {
        self.log_ids.get(&broker).copied().unwrap_or(self.group)
    }

    /// As which node of the Raft group a broker keeps it. A replica that is added is a node that
    /// has never been, also where the broker has had one before: that one's votes and entries are
    /// forgotten, and members that do not know of its removal must not take the new one for it.
    #[must_use]
    pub fn node_id(&self, broker: BrokerId) -> u64 {
        let low = u64::try_from(broker.0).unwrap_or_default();
        let own = self.survivor_on(broker).map(|survivor| survivor.number);
        let number = own.or_else(|| self.log_ids.get(&broker).copied());
        number.map_or(low, |number| (number << NODE_ID_BROKER_BITS) | low)
    }

    /// By which number the other replicas call a broker's.
    #[must_use]
    pub fn call_number(&self, broker: BrokerId) -> u64 {
        self.survivor_on(broker).map_or_else(|| self.log_id(broker), |survivor| survivor.number)
    }

    /// The survivor of an unclean election, where it is that broker's replica.
    #[must_use]
    pub fn survivor_on(&self, broker: BrokerId) -> Option<Survivor> {
        self.survivor.filter(|survivor| survivor.broker == broker)
    }

    /// Who forms the Raft group.
    #[must_use]
    pub fn founders(&self) -> &[BrokerId] {
        if self.founders.is_empty() { &self.replicas } else { &self.founders }
    }

    /// Who has kept it before the reassignment that is under way, if one is.
    #[must_use]
    pub fn settled_replicas(&self) -> Vec<BrokerId> {
        self.replicas.iter().copied().filter(|id| !self.adding.contains(id)).collect()
    }

    /// Who keeps it when no reassignment is under way any more.
    #[must_use]
    pub fn target_replicas(&self) -> Vec<BrokerId> {
        self.replicas.iter().copied().filter(|id| !self.removing.contains(id)).collect()
    }

    /// Whether it is where an unclean election has left it: the survivor has something, and the
    /// others are added as they come back.
    #[must_use]
    pub fn is_recovering(&self) -> bool {
        self.survivor.is_some_and(|survivor| self.settled_replicas() == [survivor.broker])
    }

    /// Whether it is being reassigned.
    #[must_use]
    pub fn is_reassigning(&self) -> bool {
        [&self.adding, &self.removing, &self.returning].iter().any(|ids| !ids.is_empty())
    }
}

impl MetadataImage {
    /// Whether an empty log of a partition may be one in place of another that had entries.
    #[must_use]
    pub fn may_have_lost_log(
        &self,
        partition: &PartitionImage,
        broker: BrokerId,
        directory_id: &str,
    ) -> bool {
        let registered = self.brokers.get(&broker).and_then(|known| known.directory_id.as_deref());
        registered.is_some_and(|known| known != directory_id)
            || partition.lost_directories.contains(&broker)
    }

    /// The topic of that name.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(name)
    }

    /// The topic of that id.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.get(self.topic_names.get(&id)?)
    }

    /// The Raft groups of all partitions.
    #[must_use]
    pub fn groups(&self) -> BTreeSet<u64> {
        let topics = self.topics.values();
        topics.flat_map(|topic| topic.partitions.iter().map(|partition| partition.group)).collect()
    }

    /// The numbers of the logs that a broker keeps.
    #[must_use]
    pub fn log_ids(&self, broker: BrokerId) -> BTreeSet<u64> {
        let partitions = self.topics.values().flat_map(|topic| &topic.partitions);
        let here = partitions.filter(|partition| partition.replicas.contains(&broker));
        here.map(|partition| partition.log_id(broker)).collect()
    }

    /// How many partitions all topics have together.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.topics.values().map(|topic| topic.partitions.len()).sum()
    }

    /// The dynamic value of a broker's config: its own, or else the cluster-wide default.
    #[must_use]
    pub fn dynamic_broker_config(&self, broker: BrokerId, key: &str) -> Option<&str> {
        [Some(broker), None]
            .iter()
            .find_map(|scope| self.broker_configs.get(scope)?.get(key))
            .map(String::as_str)
    }
}

impl BrokerImage {
    /// Where clients of that listener reach the broker.
    #[must_use]
    pub fn endpoint(&self, listener: &str) -> Option<&EndpointImage> {
        self.endpoints.iter().find(|endpoint| endpoint.listener == listener)
    }
}

impl TopicImage {
    /// The partition of that number.
    #[must_use]
    pub fn partition(&self, id: PartitionId) -> Option<&PartitionImage> {
        self.partitions.get(usize::try_from(id.0).ok()?)
    }

    /// Whether the broker keeps its own state in it.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        INTERNAL_TOPICS.contains(&self.name.as_str())
    }
}

/// JSON has no null keys, so the map is written as a list of pairs.
mod broker_configs {
    use super::{Arc, BTreeMap, BrokerId};
    use serde::{Deserialize, Deserializer, Serializer};

    type Map = BTreeMap<Option<BrokerId>, BTreeMap<String, String>>;

    pub(super) fn serialize<S: Serializer>(
        map: &Arc<Map>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map.iter())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<Map>, D::Error> {
        let pairs = Vec::<(Option<BrokerId>, BTreeMap<String, String>)>::deserialize(deserializer)?;
        Ok(Arc::new(pairs.into_iter().collect()))
    }
}
