//! The whole write vocabulary of the metadata log.
//!
//! Pure: no I/O, no clock, no randomness.
#![allow(missing_docs)]

use std::collections::BTreeMap;

use protocol::types::{BrokerId, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

use super::image::BrokerImage;
use crate::ClusterError;

/// One change. Everything random or timed (ids, placement) is decided before it is proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum MetadataCommand {
    /// Sets the cluster id if none is set.
    InitCluster { cluster_id: String },
    RegisterBroker { broker: BrokerImage },
    CreateTopic {
        name: String,
        id: TopicId,
        /// Replicas of each partition, in order.
        assignment: Vec<Vec<BrokerId>>,
        configs: BTreeMap<String, String>,
    },
    DeleteTopic { id: TopicId },
    CreatePartitions {
        topic: TopicId,
        /// Replicas of the partitions to add.
        added: Vec<Vec<BrokerId>>,
    },
    /// Replaces a topic's own configs (the caller merged them).
    SetTopicConfigs { topic: TopicId, configs: BTreeMap<String, String> },
    /// Replaces the dynamic configs of a broker, or the cluster-wide default (`None`).
    SetBrokerConfigs { broker: Option<BrokerId>, configs: BTreeMap<String, String> },
    /// Hands out the next block of producer ids.
    AllocateProducerIds { broker: BrokerId, count: i64 },
}

/// What a carried-out command says back.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandOutcome {
    Done,
    TopicCreated { id: TopicId, partitions: Vec<PartitionId> },
    ProducerIds { first: i64, count: i64 },
}

/// A command's answer.
pub type CommandResult = Result<CommandOutcome, ClusterError>;
