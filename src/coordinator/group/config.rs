//! What an operator configures about groups: the values of Kafka's `group.*` and `offsets.*` keys
//! that the machine decides by.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;

use super::event::GroupId;

/// Whether groups may change between the classic and the consumer protocol
/// (`group.consumer.migration.policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigrationPolicy {
    /// Never.
    Disabled,
    /// From consumer to classic.
    Downgrade,
    /// From classic to consumer.
    Upgrade,
    /// Both ways.
    #[default]
    Bidirectional,
}

/// The keys, each field named as its key with underscores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`
    pub max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`
    pub max_size: usize,
    /// `offset.metadata.max.bytes`
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in milliseconds
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`
    pub offsets_retention_check_interval_ms: i64,
    /// `group.consumer.session.timeout.ms`
    pub consumer_session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`
    pub consumer_heartbeat_interval_ms: i32,
    /// `group.consumer.assignment.interval.ms`
    pub consumer_assignment_interval_ms: i32,
    /// `group.consumer.max.size`
    pub consumer_max_size: usize,
    /// `group.consumer.assignors`: names of built-in ones, the default first. Others are ignored.
    pub consumer_assignors: Vec<String>,
    /// `group.consumer.migration.policy`
    pub consumer_migration_policy: MigrationPolicy,
    /// What is set on single KIP-848 groups instead.
    pub consumer_groups: BTreeMap<GroupId, ConsumerGroupConfig>,
}

/// What is set on a KIP-848 group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConsumerGroupConfig {
    /// `consumer.session.timeout.ms`
    pub session_timeout_ms: Option<i32>,
    /// `consumer.heartbeat.interval.ms`
    pub heartbeat_interval_ms: Option<i32>,
    /// `consumer.assignment.interval.ms`
    pub assignment_interval_ms: Option<i32>,
}

impl GroupConfig {
    /// After how long without a report a member of the KIP-848 group is gone.
    pub(super) fn session_timeout_ms_of(&self, group_id: &str) -> i32 {
        self.of(group_id).session_timeout_ms.unwrap_or(self.consumer_session_timeout_ms)
    }

    /// How often members of the KIP-848 group are to report.
    pub(super) fn heartbeat_interval_ms_of(&self, group_id: &str) -> i32 {
        self.of(group_id).heartbeat_interval_ms.unwrap_or(self.consumer_heartbeat_interval_ms)
    }

    /// The shortest time between two assignments of the KIP-848 group.
    pub(super) fn assignment_interval_ms_of(&self, group_id: &str) -> i32 {
        self.of(group_id).assignment_interval_ms.unwrap_or(self.consumer_assignment_interval_ms)
    }

    fn of(&self, group_id: &str) -> ConsumerGroupConfig {
        self.consumer_groups.get(group_id).copied().unwrap_or_default()
    }
}

impl Default for GroupConfig {
    /// Kafka's.
    fn default() -> Self {
        Self {
            min_session_timeout_ms: 6_000,
            max_session_timeout_ms: 1_800_000,
            initial_rebalance_delay_ms: 3_000,
            max_size: i32::MAX as usize,
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 7 * 24 * 60 * 60 * 1_000,
            offsets_retention_check_interval_ms: 600_000,
            consumer_session_timeout_ms: 45_000,
            consumer_heartbeat_interval_ms: 5_000,
            consumer_assignment_interval_ms: 1_000,
            consumer_max_size: i32::MAX as usize,
            consumer_assignors: vec!["uniform".to_owned(), "range".to_owned()],
            consumer_migration_policy: MigrationPolicy::Bidirectional,
            consumer_groups: BTreeMap::new(),
        }
    }
}
