//! `Cluster`: everything of one node, wired: the metadata group, the registry of replicas, the
//! controller.
#![allow(missing_docs, unused_variables)]

use std::sync::Arc;
use std::time::Duration;

use protocol::types::{BrokerId, PartitionId, TopicId};
use storage::log_store::{Durability, LogStore};
use tokio::sync::watch;

use crate::metadata::command::CommandOutcome;
use crate::metadata::{BrokerImage, MetadataCommand, MetadataImage, TopicImage};
use crate::replica::Replica;
use crate::{ClusterError, ReadError};

/// What a partition's replica must know of its topic's configs, resolved by the broker.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaSettings {
    pub durability: Durability,
    /// `None` = unlimited. Only where `cleanup.policy` has `delete`.
    pub retention_ms: Option<i64>,
    pub retention_bytes: Option<i64>,
    pub min_insync_replicas: usize,
}

pub struct ClusterOptions {
    /// This broker, as it registers itself.
    pub broker: BrokerImage,
    /// Used by the very first start only; generated when `None`.
    pub cluster_id: Option<String>,
    pub store: LogStore,
    /// Resolves a topic's settings from its image (configs of topic, dynamic and static broker).
    pub settings: Arc<dyn Fn(&MetadataImage, &TopicImage) -> ReplicaSettings + Send + Sync>,
    pub retention_check_interval: Duration,
    pub producer_id_expiration: Duration,
    /// Milliseconds since the epoch; the broker's clock.
    pub now: Arc<dyn Fn() -> protocol::types::Timestamp + Send + Sync>,
    /// Fresh ids; the broker's randomness.
    pub new_uuid: Arc<dyn Fn() -> uuid::Uuid + Send + Sync>,
}

/// One node of the cluster.
pub struct Cluster {}

// CONTRACT (owner: cluster).
impl Cluster {
    /// Recovers, forms the metadata group, registers the broker; ready to serve when it returns.
    pub async fn start(options: ClusterOptions) -> Result<Arc<Cluster>, ClusterError> { todo!() }
    pub fn broker_id(&self) -> BrokerId { todo!() }
    /// The current image.
    pub fn metadata(&self) -> Arc<MetadataImage> { todo!() }
    pub fn watch_metadata(&self) -> watch::Receiver<Arc<MetadataImage>> { todo!() }
    /// Carries out a command: answers once it is durable, applied on this node, and what it
    /// created can be served.
    pub async fn submit(&self, command: MetadataCommand) -> Result<CommandOutcome, ClusterError> { todo!() }
    /// Places `partitions` x `replication_factor` on the brokers that exist. Errors as Kafka:
    /// InvalidPartitions, InvalidReplicationFactor.
    pub fn plan_assignment(&self, partitions: usize, replication_factor: usize) -> Result<Vec<Vec<BrokerId>>, ClusterError> { todo!() }
    /// The local replica; `Gone` when topic or partition is unknown here.
    pub fn replica(&self, topic: TopicId, partition: PartitionId) -> Result<Arc<Replica>, ReadError> { todo!() }
    /// The metadata leader, if known.
    pub fn controller(&self) -> Option<BrokerId> { todo!() }
    /// A producer id never handed out before (from this broker's block).
    pub async fn next_producer_id(&self) -> Result<protocol::types::ProducerId, ClusterError> { todo!() }
    /// Closes every group; the store stays open.
    pub async fn shutdown(&self) { todo!() }
}
