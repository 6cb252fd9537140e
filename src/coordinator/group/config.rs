//! What an operator configures about groups: the values of Kafka's `group.*` and `offsets.*` keys
//! that the machine decides by.
//!
//! Pure: no I/O, no clock, no randomness.

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
        }
    }
}
