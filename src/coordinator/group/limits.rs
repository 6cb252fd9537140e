//! The named limits of the group coordinator. What an operator may want to change is a config key
//! instead.
//!
//! Pure: no I/O, no clock, no randomness.

/// Groups of one shard that hold members or members about to join. Beyond it, a first join of
/// another group is answered COORDINATOR_NOT_AVAILABLE, which clients retry.
pub const LIVE_GROUPS: usize = 100_000;

/// Members of one group that were given an id and have not come back with it (KIP-394). Beyond it,
/// another is answered GROUP_MAX_SIZE_REACHED.
pub const PENDING_MEMBERS: usize = 10_000;

/// Assignors that a member may offer; more is INVALID_REQUEST.
pub const PROTOCOLS_OF_A_MEMBER: usize = 256;

/// Records of one append where the records need not stand or fall together.
pub const RECORDS_OF_AN_APPEND: usize = 1_000;

/// How long a new member's JoinGroup is kept waiting (Kafka's own value): such a member cannot
/// send heartbeats, and a client that gave up would otherwise be waited for without end.
pub const NEW_MEMBER_JOIN_TIMEOUT_MS: i32 = 5 * 60 * 1_000;

/// Bytes of a name that Kafka's records can carry.
pub const NAME_BYTES: usize = i16::MAX as usize;

/// Bytes of a regular expression once it is compiled; beyond it, the expression is invalid.
pub const REGEX_BYTES: usize = 1 << 20;

/// Bytes that a classic group's members may have in the log together: its record must fit into a
/// batch of the default `message.max.bytes`, as in Kafka.
pub const CLASSIC_GROUP_BYTES: usize = 1_000_000;
