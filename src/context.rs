//! What a handler is given: the services of the broker, and the circumstances of one request.

use std::sync::Arc;

use cluster::Cluster;
use cluster::metadata::{MetadataImage, TopicImage};
use protocol::types::Timestamp;

use crate::config::{BrokerConfig, TopicConfig};
use crate::coordinator::group_runtime::GroupCoordinator;
use crate::fetch::session::FetchSessionCache;
use crate::lag::service::LagService;

/// Everything that handlers share.
pub struct Services {
    /// Metadata and replicas.
    pub cluster: Arc<Cluster>,
    /// As given at start.
    pub config: Arc<BrokerConfig>,
    /// Incremental fetch sessions (KIP-227).
    pub fetch_sessions: parking_lot::Mutex<FetchSessionCache>,
    /// Consumer groups.
    pub groups: Arc<GroupCoordinator>,
    /// How far behind they are.
    pub lag: Arc<LagService>,
}

impl Services {
    /// The topic's configs: its own over the dynamic and static ones of the broker.
    pub fn topic_config(&self, image: &MetadataImage, topic: &TopicImage) -> TopicConfig {
        TopicConfig::resolve(&topic.configs, image, &self.config)
    }
}

/// The circumstances of one request.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// Version of the request, within the API's implemented range.
    pub api_version: i16,
    /// As the client names itself.
    pub client_id: Option<String>,
    /// Name of the listener it came in by: decides which host and port it is told.
    pub listener: Arc<str>,
    /// The local address of the connection: what is advertised where only a wildcard was
    /// configured.
    pub local_address: std::net::SocketAddr,
    /// The client.
    pub peer_address: std::net::SocketAddr,
    /// When the request was read.
    pub now: Timestamp,
}
