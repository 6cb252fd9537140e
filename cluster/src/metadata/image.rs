//! `MetadataImage`: an immutable snapshot of everything the metadata log says.
//!
//! Pure: no I/O, no clock, no randomness.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::types::{BrokerId, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

/// What the metadata log says, as of one of its entries. Cloning is cheap (maps of `Arc`s).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MetadataImage {
    /// Made by the first node that ever started, kept for good.
    pub cluster_id: String,
    pub brokers: Arc<BTreeMap<BrokerId, BrokerImage>>,
    pub topics: Arc<BTreeMap<String, Arc<TopicImage>>>,
    pub topic_names: Arc<BTreeMap<TopicId, String>>,
    /// Dynamic broker configs: key `None` is the cluster-wide default.
    pub broker_configs: Arc<BTreeMap<Option<BrokerId>, BTreeMap<String, String>>>,
    /// Next number for a partition's Raft group; never reused. Starts at 1 (0 is this log).
    pub next_group_id: u64,
    /// First producer id not yet handed out to any broker.
    pub next_producer_id: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BrokerImage {
    pub id: BrokerId,
    pub rack: Option<String>,
    /// Advertised, per listener name.
    pub endpoints: Vec<EndpointImage>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndpointImage {
    pub listener: String,
    pub host: String,
    pub port: u16,
    /// PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.
    pub security_protocol: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TopicImage {
    pub name: String,
    pub id: TopicId,
    /// Index = partition number.
    pub partitions: Vec<PartitionImage>,
    /// Only what was set on the topic.
    pub configs: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionImage {
    pub id: PartitionId,
    /// Its Raft group.
    pub group: u64,
    pub replicas: Vec<BrokerId>,
}

impl MetadataImage {
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(name)
    }
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.get(self.topic_names.get(&id)?)
    }
}

impl TopicImage {
    pub fn partition(&self, id: PartitionId) -> Option<&PartitionImage> {
        self.partitions.get(usize::try_from(id.0).ok()?)
    }
    /// `__consumer_offsets`, `__transaction_state` and their kind.
    pub fn is_internal(&self) -> bool {
        self.name.starts_with("__")
    }
}
