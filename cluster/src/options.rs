//! What a node is started with, and what its replicas must know of the configuration.

use std::sync::Arc;
use std::time::Duration;

use protocol::types::{BrokerId, Timestamp};
use storage::log_store::{Durability, LogStore};
use uuid::Uuid;

use crate::controller::presence::PresenceTiming;
use crate::metadata::{BrokerImage, MetadataImage, TopicImage};
use crate::raft::Timing;
use crate::replica::ThrottledReplicas;
use crate::transport::PeerTransport;

/// What a partition's replica must know of its topic's configs, resolved by the broker.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplicaSettings {
    /// When an append counts as durable.
    pub durability: Durability,
    /// `None` = unlimited. Only where `cleanup.policy` has `delete`.
    pub retention_ms: Option<i64>,
    /// `None` = unlimited. Only where `cleanup.policy` has `delete`.
    pub retention_bytes: Option<i64>,
    /// Replicas that must follow closely for an append.
    pub min_insync_replicas: usize,
    /// Whose sending is throttled while the follower is not in sync.
    pub leader_throttled: ThrottledReplicas,
    /// Whose receiving is, while they are not in sync.
    pub follower_throttled: ThrottledReplicas,
}

/// Resolves a topic's settings from its image and the brokers' configs.
pub type ResolveSettings =
    Arc<dyn Fn(&MetadataImage, &TopicImage) -> ReplicaSettings + Send + Sync>;

/// What a node is started with.
pub struct ClusterOptions {
    /// This broker, as it registers itself.
    pub broker: BrokerImage,
    /// Used by the very first start only; generated when `None`.
    pub cluster_id: Option<String>,
    /// The broker's store.
    pub store: LogStore,
    /// Resolves a topic's settings from its image (configs of topic, dynamic and static broker).
    pub settings: ResolveSettings,
    /// How often retention is looked at, at the least.
    pub retention_check_interval: Duration,
    /// Idempotent producers that are silent for longer are forgotten.
    pub producer_id_expiration: Duration,
    /// Milliseconds since the epoch; the broker's clock.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Fresh ids; the broker's randomness.
    pub new_uuid: Arc<dyn Fn() -> Uuid + Send + Sync>,
}

/// The other nodes, for a cluster of several.
pub struct PeerOptions {
    /// The brokers that vote on metadata, this one among them.
    pub voters: Vec<BrokerId>,
    /// How they are reached.
    pub transport: Arc<dyn PeerTransport>,
    /// Time between a leader's heartbeats.
    pub heartbeat: Duration,
    /// A follower that hears nothing for a random time between these stands for election.
    pub election_timeout: std::ops::Range<Duration>,
    /// How often a broker shows the controller that it is there.
    pub presence_heartbeat: Duration,
    /// A broker that does not for so long is taken for dead.
    pub session_timeout: Duration,
    /// A follower that has not caught up for so long is not in sync.
    pub replica_lag_max: Duration,
    /// How often leadership is given back to preferred replicas; `None` = never.
    pub rebalance_interval: Option<Duration>,
}

impl PeerOptions {
    /// With the clocks that suit brokers with many partitions.
    #[must_use]
    pub fn new(voters: Vec<BrokerId>, transport: Arc<dyn PeerTransport>) -> PeerOptions {
        let timing = Timing::default();
        let election_timeout = timing.election_min..timing.election_max;
        PeerOptions {
            voters,
            transport,
            heartbeat: timing.heartbeat,
            election_timeout,
            presence_heartbeat: Duration::from_secs(2),
            session_timeout: Duration::from_secs(9),
            replica_lag_max: Duration::from_secs(30),
            rebalance_interval: None,
        }
    }

    pub(crate) fn timing(&self) -> Timing {
        Timing {
            heartbeat: self.heartbeat,
            election_min: self.election_timeout.start,
            election_max: self.election_timeout.end,
        }
    }

    pub(crate) fn presence_timing(&self) -> PresenceTiming {
        PresenceTiming { heartbeat: self.presence_heartbeat, session_timeout: self.session_timeout }
    }
}
