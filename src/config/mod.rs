//! Configuration: a table of Kafka's keys and our own, typed views of it, and the sources it is
//! read from.
#![allow(missing_docs, unused_variables)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cluster::metadata::MetadataImage;
use protocol::types::BrokerId;
use storage::log_store::Durability;

/// One listener.
#[derive(Debug, Clone, PartialEq)]
pub struct ListenerConfig {
    pub name: String,
    /// Empty host = every address, IPv6 and IPv4.
    pub host: String,
    pub port: u16,
    /// PLAINTEXT here; others are refused at start until they are built.
    pub security_protocol: String,
    /// Advertised host and port; `None` = derived (never empty, never a wildcard).
    pub advertised: Option<(String, u16)>,
}

/// The broker's configuration, checked.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    pub node_id: BrokerId,
    pub cluster_id: Option<String>,
    pub rack: Option<String>,
    pub listeners: Vec<ListenerConfig>,
    /// First of `log.dirs`.
    pub log_dir: PathBuf,
    pub http_listener: Option<String>,
    pub durability: Durability,
    pub num_partitions: i32,
    pub default_replication_factor: i16,
    pub auto_create_topics_enable: bool,
    pub delete_topic_enable: bool,
    pub socket_request_max_bytes: usize,
    pub max_connections: usize,
    pub max_connections_per_ip: usize,
    pub connections_max_idle: Duration,
    /// Bytes of requests in flight: for the broker (`queued.max.request.bytes`), and for one connection.
    pub queued_max_request_bytes: usize,
    pub fetch_max_bytes: usize,
    pub max_fetch_session_slots: usize,
    pub log_retention_check_interval: Duration,
    pub producer_id_expiration: Duration,
    /// Every key with its value, as given or by default, and where it came from: for DescribeConfigs.
    pub values: BTreeMap<String, ConfigValue>,
}

/// A value and its source.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigValue {
    pub value: Option<String>,
    /// Given in file, environment or on the command line; else the default.
    pub is_static: bool,
}

/// A topic's configuration, resolved and typed.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    pub max_message_bytes: usize,
    pub cleanup_delete: bool,
    pub cleanup_compact: bool,
    pub retention_ms: Option<i64>,
    pub retention_bytes: Option<i64>,
    /// `None` = producer.
    pub compression_type: Option<String>,
    pub log_append_time: bool,
    pub timestamp_before_max_ms: i64,
    pub timestamp_after_max_ms: i64,
    pub min_insync_replicas: usize,
    pub segment_bytes: usize,
    pub durability: Durability,
}

// CONTRACT (owner: admin).
impl TopicConfig {
    /// The topic's own values over the dynamic broker ones in `image` over the static ones.
    pub fn resolve(own: &BTreeMap<String, String>, image: &MetadataImage, broker: &BrokerConfig) -> TopicConfig { todo!() }
}

impl BrokerConfig {
    /// Reads `server.properties` (if given), then environment (`KAFKA_X_Y` and `KAFKA_CFG_X_Y`), then overrides
    /// (`key=value`). Returns the unknown keys too. An error names the key, the value and what is allowed.
    pub fn load(file: Option<&std::path::Path>, environment: &[(String, String)], overrides: &[String])
        -> Result<(BrokerConfig, Vec<String>), String> { todo!() }
}
