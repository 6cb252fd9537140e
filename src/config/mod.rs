//! Configuration: a table of Kafka's keys and our own, typed views of it, and the sources it is
//! read from.

pub mod alter;
pub mod broker;
pub mod definitions;
pub mod describe;
pub mod environment;
pub mod group;
pub mod listeners;
pub mod peer_security;
pub mod peers;
pub mod properties;
pub mod topic;
pub mod value;

pub use broker::{BrokerConfig, ConfigValue};
pub use listeners::ListenerConfig;
pub use peer_security::PeerSecurityConfig;
pub use peers::{ClusterTiming, PeerConfig};
pub use topic::TopicConfig;
