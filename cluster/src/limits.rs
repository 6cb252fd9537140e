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

/// How long a group waits before its stopped Raft instance is opened again.
pub(crate) const REOPEN_DELAY: Duration = Duration::from_secs(1);

/// Producer ids fetched at once from the metadata log.
pub(crate) const PRODUCER_ID_BLOCK: i64 = 1000;

/// Entries after which the metadata log is replaced by a snapshot.
pub(crate) const METADATA_SNAPSHOT_ENTRIES: u64 = 1000;

/// Partitions that one topic may have: what a broker is meant to carry in all.
pub(crate) const MAX_PARTITIONS: usize = 10_000;
