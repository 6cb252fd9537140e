//! What can go wrong in the cluster crate, a variant for each thing that a caller branches on.

use protocol::types::{BrokerId, LeaderEpoch};

/// Why a batch was not appended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    /// Another broker leads the partition, or none does.
    #[error("not the leader")]
    NotLeader {
        /// Who leads, if known.
        leader: Option<BrokerId>,
        /// The last known term.
        leader_epoch: LeaderEpoch,
    },
    /// The producer's sequence has a gap.
    #[error("sequence is not the next one")]
    OutOfOrderSequence,
    /// A newer incarnation of the producer is known.
    #[error("producer epoch is older than the one known")]
    InvalidProducerEpoch,
    /// `min.insync.replicas` is not met.
    #[error("fewer in-sync replicas than min.insync.replicas")]
    NotEnoughReplicas,
    /// The partition's queue is full.
    #[error("too many appends are waiting")]
    Busy,
    /// The partition was deleted, or the broker shuts down.
    #[error("the partition is gone")]
    Gone,
    /// The store refused or failed.
    #[error(transparent)]
    Storage(#[from] storage::StorageError),
}

/// Why a partition cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// Another broker leads the partition, or none does.
    #[error("not the leader")]
    NotLeader {
        /// Who leads, if known.
        leader: Option<BrokerId>,
        /// The last known term.
        leader_epoch: LeaderEpoch,
    },
    /// The partition was deleted, or is not on this broker.
    #[error("the partition is gone")]
    Gone,
    /// The store refused or failed.
    #[error(transparent)]
    Storage(#[from] storage::StorageError),
}

/// Why a metadata command was not carried out.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ClusterError {
    /// A topic of that name exists.
    #[error("topic {0} exists already")]
    TopicExists(String),
    /// No topic of that name.
    #[error("topic {0} does not exist")]
    UnknownTopic(String),
    /// No topic of that id.
    #[error("no topic with id {0}")]
    UnknownTopicId(uuid::Uuid),
    /// The name breaks Kafka's rules.
    #[error("invalid topic name: {0}")]
    InvalidTopicName(String),
    /// A number of partitions that cannot be.
    #[error("invalid partitions: {0}")]
    InvalidPartitions(String),
    /// A replication factor that cannot be met.
    #[error("invalid replication factor: {0}")]
    InvalidReplicationFactor(String),
    /// An assignment that contradicts itself or the brokers there are.
    #[error("invalid replica assignment: {0}")]
    InvalidReplicaAssignment(String),
    /// Nothing is under way that could be cancelled.
    #[error("the partition is not being reassigned")]
    NoReassignment,
    /// A broker that never registered.
    #[error("unknown broker {0}")]
    UnknownBroker(i32),
    /// The metadata log has no leader, or it is not here.
    #[error("the metadata log has no leader now")]
    NoController,
    /// The broker was told another cluster id than that of the cluster it has found.
    #[error("CLUSTER_ID is {told}, but the cluster's id is {found}")]
    ForeignCluster {
        /// By the configuration.
        told: String,
        /// In the metadata log.
        found: String,
    },
    /// The metadata leader did not answer: the command may have been carried out.
    #[error("the metadata leader did not answer")]
    Undecided,
    /// The store refused or failed.
    #[error("storage: {0}")]
    Storage(String),
    /// The broker goes down.
    #[error("shutting down")]
    ShuttingDown,
}
