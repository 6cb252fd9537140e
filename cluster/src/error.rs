//! What can go wrong in the cluster crate, a variant for each thing that a caller branches on.
#![allow(missing_docs)]

use protocol::types::{BrokerId, LeaderEpoch};

/// Why a batch was not appended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum AppendError {
    #[error("not the leader")]
    NotLeader { leader: Option<BrokerId>, leader_epoch: LeaderEpoch },
    #[error("sequence is not the next one")]
    OutOfOrderSequence,
    #[error("producer epoch is older than the one known")]
    InvalidProducerEpoch,
    #[error("fewer in-sync replicas than min.insync.replicas")]
    NotEnoughReplicas,
    #[error("too many appends are waiting")]
    Busy,
    #[error("the partition is gone")]
    Gone,
    #[error(transparent)]
    Storage(#[from] storage::StorageError),
}

/// Why a partition cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    #[error("not the leader")]
    NotLeader { leader: Option<BrokerId>, leader_epoch: LeaderEpoch },
    #[error("the partition is gone")]
    Gone,
    #[error(transparent)]
    Storage(#[from] storage::StorageError),
}

/// Why a metadata command was not carried out.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum ClusterError {
    #[error("topic {0} exists already")]
    TopicExists(String),
    #[error("topic {0} does not exist")]
    UnknownTopic(String),
    #[error("no topic with id {0}")]
    UnknownTopicId(uuid::Uuid),
    #[error("invalid topic name: {0}")]
    InvalidTopicName(String),
    #[error("invalid partitions: {0}")]
    InvalidPartitions(String),
    #[error("invalid replication factor: {0}")]
    InvalidReplicationFactor(String),
    #[error("invalid replica assignment: {0}")]
    InvalidReplicaAssignment(String),
    #[error("unknown broker {0}")]
    UnknownBroker(i32),
    #[error("the metadata log has no leader now")]
    NoController,
    #[error("storage: {0}")]
    Storage(String),
    #[error("shutting down")]
    ShuttingDown,
}
