//! The named limits of this crate: every queue and message has one.

use std::time::Duration;

/// Entries of one partition that are appended but not yet applied. Two keep the journal's writer
/// busy; more would only make entries smaller, and an entry is what Raft's price is paid for.
pub(crate) const ENTRIES_IN_FLIGHT: usize = 2;

/// Bytes of record batches that become one entry (a single batch may be larger).
pub(crate) const ENTRY_BYTES: usize = 1024 * 1024;

/// Bytes that may wait for a partition's proposer before appends are refused as busy.
pub(crate) const QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// How often idle partitions, retention and producer expiry are looked at.
pub(crate) const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);

/// Rounds of maintenance without an append after which a single-voter partition goes dormant.
pub(crate) const IDLE_ROUNDS: u32 = 60;

/// How often a broker looks at what it leads, for the replicas that follow closely to be known.
pub(crate) const PRESENCE_SCAN: Duration = Duration::from_millis(500);

/// How long a broker gathers changes of leadership before it reports them.
pub(crate) const PRESENCE_DEBOUNCE: Duration = Duration::from_millis(10);

/// Pause before the controller is looked for again.
pub(crate) const PRESENCE_RETRY_DELAY: Duration = Duration::from_millis(100);

/// How long a report waits for the controller's answer, a question beyond what it may wait anyway.
pub(crate) const PRESENCE_TIMEOUT: Duration = Duration::from_secs(2);

/// Groups whose members a broker changes at once.
pub(crate) const MEMBER_CHANGES_AT_ONCE: usize = 16;

/// How often a broker looks for reassignments beside what changes of the metadata tell it.
pub(crate) const MEMBERS_SCAN: Duration = Duration::from_secs(1);

/// Pause before a reassignment is looked at again that waits for a replica to catch up.
pub(crate) const MEMBERS_STEP_PAUSE: Duration = Duration::from_millis(50);

/// How long one step of a reassignment may take before it is tried again.
pub(crate) const MEMBERS_STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// A replica that lacks so few entries has caught up.
pub(crate) const CLOSE_ENTRIES: u64 = 64;

/// How often a throttled replica is looked at again, whether it is still to be slowed.
pub(crate) const THROTTLE_LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Partitions that a broker hands over at once when it is asked to.
pub(crate) const HAND_OVERS_AT_ONCE: usize = 64;

/// A replica is handed leadership only if it has answered within so many heartbeats.
pub(crate) const HAND_OVER_HEARTBEATS: u32 = 3;

/// How long a group waits before its stopped Raft instance is opened again.
pub(crate) const REOPEN_DELAY: Duration = Duration::from_secs(1);

/// Producer ids fetched at once from the metadata log.
pub(crate) const PRODUCER_ID_BLOCK: i64 = 1000;

/// Entries after which the metadata log is replaced by a snapshot.
pub(crate) const METADATA_SNAPSHOT_ENTRIES: u64 = 1000;

/// Partitions that one topic may have: what a broker is meant to carry in all.
pub(crate) const MAX_PARTITIONS: usize = 10_000;

/// How long a metadata command waits for a leader, and for the leader's answer.
pub(crate) const FORWARD_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a broker waits for what another one finds in a partition's log.
pub(crate) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause before the metadata leader is looked for again.
pub(crate) const FORWARD_RETRY_DELAY: Duration = Duration::from_millis(50);

/// How long the next replica in line waits for the one before it, when a leader has ended.
pub(crate) const TAKE_OVER_STEP: Duration = Duration::from_millis(150);

/// How long a broker that goes down waits for others to lead what it has led.
pub(crate) const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a peer's message waits for a partition that is just being made here, and how often it
/// is looked for.
pub(crate) const GROUP_OPENS_TIMEOUT: Duration = Duration::from_secs(2);
/// See [`GROUP_OPENS_TIMEOUT`].
pub(crate) const GROUP_OPENS_STEP: Duration = Duration::from_millis(5);

/// How long another broker may take to say by which directory it knows this one.
pub(crate) const DIRECTORY_TIMEOUT: Duration = Duration::from_millis(500);

/// The largest message between brokers: what one produce request may carry, and its frame.
pub(crate) const PEER_FRAME_BYTES: usize = 128 * 1024 * 1024;

/// The largest introduction of a broker: of who sends more nothing is known yet.
pub(crate) const PEER_HELLO_BYTES: usize = 64 * 1024;

/// Refusals of connections that are remembered, so as not to be logged again and again.
pub(crate) const PEER_REFUSALS_REMEMBERED: usize = 64;

/// Messages with at most so many bytes of records go by the connection for what is urgent.
pub(crate) const PEER_SMALL_BYTES: usize = 4 * 1024;

/// Calls that may wait for a connection to a peer; more are refused.
pub(crate) const PEER_CALLS_QUEUED: usize = 4096;

/// Calls of one connection that a broker works on at once; at the limit it reads no more.
pub(crate) const PEER_CALLS_IN_FLIGHT: usize = 1024;

/// Resolving, connecting and introducing together.
pub(crate) const PEER_CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a connection to a peer that may have ended is watched, and how many are made.
pub(crate) const PEER_END_TIMEOUT: Duration = Duration::from_millis(500);
/// See [`PEER_END_TIMEOUT`].
pub(crate) const PEER_END_ATTEMPTS: usize = 3;

/// How long calls are refused after a connection could not be made.
pub(crate) const PEER_RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// A peer that takes no bytes for so long has its connection made anew.
pub(crate) const PEER_WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause after a connection could not be accepted.
pub(crate) const PEER_ACCEPT_DELAY: Duration = Duration::from_millis(100);
