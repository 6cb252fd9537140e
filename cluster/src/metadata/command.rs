//! The whole write vocabulary of the metadata log.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;

use protocol::types::{BrokerId, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

use super::image::BrokerImage;
use crate::ClusterError;

/// One change. Everything random or timed (ids, placement) is decided before it is proposed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum MetadataCommand {
    /// Sets the cluster id if none is set.
    InitCluster {
        /// The id.
        cluster_id: String,
    },
    /// Makes a broker known, or replaces what was known of it.
    RegisterBroker {
        /// The broker.
        broker: BrokerImage,
    },
    /// Forgets a broker; it is known again when it registers again.
    UnregisterBroker {
        /// Which.
        broker: BrokerId,
    },
    /// Makes a topic with all its partitions.
    CreateTopic {
        /// Its name.
        name: String,
        /// Its identity, fresh.
        id: TopicId,
        /// Replicas of each partition, in order.
        assignment: Vec<Vec<BrokerId>>,
        /// Its own configs, checked by the caller.
        configs: BTreeMap<String, String>,
    },
    /// Deletes a topic.
    DeleteTopic {
        /// Which.
        id: TopicId,
    },
    /// Adds partitions to a topic.
    CreatePartitions {
        /// Which.
        topic: TopicId,
        /// Replicas of the partitions to add.
        added: Vec<Vec<BrokerId>>,
    },
    /// Has a partition kept by other brokers.
    AlterPartitionReassignment {
        /// The topic.
        topic: TopicId,
        /// Its partition.
        partition: PartitionId,
        /// The brokers, the preferred leader first; `None` cancels what is under way.
        target: Option<Vec<BrokerId>>,
    },
    /// Says that a reassignment has led to where it was to lead.
    CompletePartitionReassignment {
        /// The topic.
        topic: TopicId,
        /// Its partition.
        partition: PartitionId,
        /// Which reassignment: as [`PartitionImage::altered_at`](super::PartitionImage) says.
        altered_at: u64,
    },
    /// Has one replica of a partition go on alone, with what it has; the others begin anew.
    ElectUncleanLeader {
        /// The topic.
        topic: TopicId,
        /// Its partition.
        partition: PartitionId,
        /// Which replica.
        survivor: BrokerId,
        /// No leader is known to have had a later epoch.
        epoch: u64,
        /// The replicas that were judged: as
        /// [`PartitionImage::altered_at`](super::PartitionImage) says.
        altered_at: u64,
    },
    /// Replaces a topic's own configs (the caller merged them).
    SetTopicConfigs {
        /// Which.
        topic: TopicId,
        /// All of them.
        configs: BTreeMap<String, String>,
    },
    /// Replaces the dynamic configs of a broker, or the cluster-wide default (`None`).
    SetBrokerConfigs {
        /// Which.
        broker: Option<BrokerId>,
        /// All of them.
        configs: BTreeMap<String, String>,
    },
    /// Replaces a group's own configs (the caller merged them); none of them unsets the group.
    SetGroupConfigs {
        /// Its name.
        group: String,
        /// All of them.
        configs: BTreeMap<String, String>,
    },
    /// Hands out the next block of producer ids.
    AllocateProducerIds {
        /// Who asks.
        broker: BrokerId,
        /// How many.
        count: i64,
    },
}

/// What a carried-out command says back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CommandOutcome {
    /// Nothing but that it is done.
    Done,
    /// A topic was made.
    TopicCreated {
        /// Its identity.
        id: TopicId,
        /// Its partitions.
        partitions: Vec<PartitionId>,
    },
    /// A block of producer ids was handed out.
    ProducerIds {
        /// The first of them.
        first: i64,
        /// How many.
        count: i64,
    },
}

/// A command's answer.
pub type CommandResult = Result<CommandOutcome, ClusterError>;
