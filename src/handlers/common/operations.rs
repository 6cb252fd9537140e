//! Which operations the client may carry out (KIP-430): without access control, all that there are.
//!
//! Pure: no I/O, no clock, no randomness.

/// As an answer says that nobody asked.
pub const NOT_ASKED: i32 = i32::MIN;

// The bits are the codes of Kafka's `AclOperation`.
const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
const CREATE: i32 = 1 << 5;
const DELETE: i32 = 1 << 6;
const ALTER: i32 = 1 << 7;
const DESCRIBE: i32 = 1 << 8;
const CLUSTER_ACTION: i32 = 1 << 9;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ALTER_CONFIGS: i32 = 1 << 11;
const IDEMPOTENT_WRITE: i32 = 1 << 12;

/// On a topic.
#[must_use]
pub fn on_topic(asked: bool) -> i32 {
    let all = READ | WRITE | CREATE | DELETE | ALTER | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
    if asked { all } else { NOT_ASKED }
}

/// On a group.
#[must_use]
pub fn on_group(asked: bool) -> i32 {
    let all = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
    if asked { all } else { NOT_ASKED }
}

/// On the cluster.
#[must_use]
pub fn on_cluster(asked: bool) -> i32 {
    let all = CREATE
        | ALTER
        | DESCRIBE
        | CLUSTER_ACTION
        | DESCRIBE_CONFIGS
        | ALTER_CONFIGS
        | IDEMPOTENT_WRITE;
    if asked { all } else { NOT_ASKED }
}
