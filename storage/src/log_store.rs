//! The only door to the store: the logs of all groups, append, read, truncate, purge, votes and
//! small state, over one journal and one index.
//!
//! Nothing here blocks on the disk but the reads: writes are queued to the journal's writer and
//! complete through callbacks.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use protocol::record_batch::RecordBatch;
use protocol::types::{LeaderEpoch, Offset, Timestamp};

use crate::StorageError;

/// One Raft group's log; 0 is the metadata log, partitions have numbers that are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

/// Term and index of a Raft entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId {
    /// Raft term, also the partition's leader epoch.
    pub term: u64,
    /// Raft index.
    pub index: u64,
}

/// A Raft vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Vote {
    /// Term voted in.
    pub term: u64,
    /// For whom.
    pub node_id: Option<u64>,
    /// Whether a quorum granted it.
    pub committed: bool,
}

/// What an entry carries.
#[derive(Debug, Clone)]
pub enum EntryBody {
    /// Record batches. Given to `append` as the producer sent them: the store assigns offsets and
    /// leader epoch (= term). Read back as they lie on disk.
    Batches(Vec<RecordBatch>),
    /// Anything else; `kind` is the caller's (blank, membership, command), below 16.
    Opaque {
        /// The caller's tag.
        kind: u8,
        /// The caller's bytes.
        bytes: Bytes,
    },
}

/// An entry, to append or read back.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its place in the Raft log.
    pub id: EntryId,
    /// Its content.
    pub body: EntryBody,
}

/// What is known of an entry without reading its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHead {
    /// Its place in the Raft log.
    pub id: EntryId,
    /// The caller's tag for an opaque entry, `None` for record batches.
    pub opaque_kind: Option<u8>,
    /// The offset behind this entry (unchanged by opaque entries).
    pub next_offset: Offset,
    /// Bytes of the payload on disk.
    pub size_bytes: u32,
}

/// When an append counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once `fdatasync` returned.
    Fsync,
    /// Once the operating system has the bytes.
    Os,
}

/// Called once, from the journal's writer; must not block.
pub type Completion = Box<dyn FnOnce(Result<(), StorageError>) + Send>;

/// The ends of a Raft log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogState {
    /// Last entry that was purged.
    pub last_purged: Option<EntryId>,
    /// Last entry, or the last purged one when nothing is left.
    pub last: Option<EntryId>,
    /// The vote.
    pub vote: Option<Vote>,
}

/// The ends of a partition's offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOffsets {
    /// First offset that may be read.
    pub log_start_offset: Offset,
    /// First offset not yet appended.
    pub log_end_offset: Offset,
}

/// A run of record bytes, in order, whole batches.
#[derive(Debug, Clone)]
pub enum RecordSlice {
    /// In memory.
    Memory(Bytes),
    /// In a journal file (kept open, and alive, by the handle).
    File {
        /// The open file.
        file: Arc<std::fs::File>,
        /// Where in the file.
        position: u64,
        /// How many bytes.
        length: usize,
    },
}

/// What a read yields.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// The bytes, in order.
    pub slices: Vec<RecordSlice>,
    /// Sum of the slices' lengths.
    pub size_bytes: usize,
}

/// How much to read.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimit {
    /// Read no batch that starts at or beyond this offset (high watermark, last stable offset).
    pub upper_bound: Offset,
    /// Stop before the batch that would exceed this.
    pub max_bytes: usize,
    /// Return the first batch even if it alone exceeds `max_bytes` (KIP-74).
    pub min_one_batch: bool,
}

/// A record found by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimestampOffset {
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Its offset.
    pub offset: Offset,
    /// Epoch of its batch.
    pub leader_epoch: LeaderEpoch,
}

/// The store.
#[derive(Clone)]
pub struct LogStore {}

/// One group's log; a cheap handle.
#[derive(Clone)]
pub struct GroupLog {}

// CONTRACT (owner: storage/log_store). Signatures that cluster/ calls; more may be added.
#[allow(missing_docs, unused_variables)]
impl LogStore {
    /// The group's log, made empty if it does not exist (nothing is written before the first append).
    pub fn group(&self, id: GroupId) -> GroupLog { todo!() }
    /// Every group that has anything on disk.
    pub fn group_ids(&self) -> Vec<GroupId> { todo!() }
    /// Forgets a group: its entries are dead, its files go when nothing else lives in them.
    pub fn remove_group(&self, id: GroupId, done: Completion) { todo!() }
    /// Flushes the index so that recovery starts here.
    pub fn checkpoint(&self) -> Result<(), StorageError> { todo!() }
    /// Completes what is queued, syncs, checkpoints, and stops the writer. Idempotent.
    pub fn close(&self) -> Result<(), StorageError> { todo!() }
    /// `Some(reason)` once the store has stopped for good (a failed sync).
    pub fn stopped(&self) -> Option<String> { todo!() }
}

#[allow(missing_docs, unused_variables)]
impl GroupLog {
    pub fn id(&self) -> GroupId { todo!() }
    /// Queues entries. They are readable when this returns (before they are durable). `written` is
    /// called when the operating system has the bytes, `durable` when `durability` is met.
    /// Indexes must follow on from the last one.
    pub fn append(&self, entries: Vec<Entry>, durability: Durability, written: Option<Completion>, durable: Completion)
        -> Result<(), StorageError> { todo!() }
    /// Drops every entry behind `index` (exclusive); offsets go back with it.
    pub fn truncate_after(&self, index: Option<u64>, done: Completion) -> Result<(), StorageError> { todo!() }
    /// Drops every entry up to `id`, inclusive. The log start offset moves at least behind them.
    pub fn purge(&self, id: EntryId, done: Completion) -> Result<(), StorageError> { todo!() }
    /// Saves the vote, always synced.
    pub fn save_vote(&self, vote: Vote, done: Completion) -> Result<(), StorageError> { todo!() }
    /// A small durable value of this group (snapshot metadata, membership, ...), through the journal.
    pub fn put_state(&self, key: &[u8], value: Bytes, done: Completion) -> Result<(), StorageError> { todo!() }
    pub fn get_state(&self, key: &[u8]) -> Result<Option<Bytes>, StorageError> { todo!() }
    /// Raises the log start offset (also to within an entry); never lowers it. Durable with the next sync.
    pub fn set_log_start_offset(&self, offset: Offset) -> Result<(), StorageError> { todo!() }

    pub fn log_state(&self) -> LogState { todo!() }
    pub fn offsets(&self) -> LogOffsets { todo!() }
    /// Bytes of the entries that are not purged.
    pub fn size_bytes(&self) -> u64 { todo!() }
    /// Entries with their bytes, from memory or disk, whole, at least one, at most about `max_bytes`.
    pub fn entries(&self, range: Range<u64>, max_bytes: usize) -> Result<Vec<Entry>, StorageError> { todo!() }
    /// Entries without their bytes.
    pub fn heads(&self, range: Range<u64>) -> Result<Vec<EntryHead>, StorageError> { todo!() }
    pub fn entry_id(&self, index: u64) -> Result<Option<EntryId>, StorageError> { todo!() }
    /// Whole batches from the one that contains `from` on.
    pub fn read(&self, from: Offset, limit: ReadLimit) -> Result<Records, StorageError> { todo!() }
    /// First record at or after `timestamp` with an offset in `log_start..upper_bound` (record granularity).
    pub fn offset_for_timestamp(&self, timestamp: Timestamp, upper_bound: Offset)
        -> Result<Option<TimestampOffset>, StorageError> { todo!() }
    /// The record with the largest timestamp below `upper_bound` (ListOffsets -3).
    pub fn offset_of_max_timestamp(&self, upper_bound: Offset) -> Result<Option<TimestampOffset>, StorageError> { todo!() }
    /// KIP-320: the largest epoch <= `epoch`, and the start offset of the next one or the log end
    /// (`LeaderEpochFileCache.endOffsetFor`); `None` = unknown (-1, -1).
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> { todo!() }
    /// Epoch of the last appended batch.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> { todo!() }
    /// Epoch of the batch at `offset`.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> { todo!() }
    /// The offset that the log should start at by time and size retention, if it should move:
    /// exact to the batch. `retention_ms`/`retention_bytes` `None` = unlimited. Looks at nothing at
    /// or beyond `upper_bound`.
    pub fn plan_retention(&self, now: Timestamp, retention_ms: Option<i64>, retention_bytes: Option<i64>, upper_bound: Offset)
        -> Result<Option<Offset>, StorageError> { todo!() }
    /// The last entry that lies wholly below `offset` (what may be purged), if any.
    pub fn last_entry_below(&self, offset: Offset) -> Result<Option<EntryId>, StorageError> { todo!() }
    /// The leader's view of the producers: a copy, as of the last appended entry.
    pub fn producer_state(&self) -> Result<crate::producer_state::ProducerState, StorageError> { todo!() }
    /// Serialised producer state as of entry `index` (for a snapshot), and its installation.
    pub fn producer_snapshot_at(&self, index: u64) -> Result<Bytes, StorageError> { todo!() }
    /// Replaces the log by nothing up to `id` (snapshot install): next entry follows `id`, offsets
    /// continue at `next_offset`.
    pub fn install_snapshot(&self, id: EntryId, next_offset: Offset, producers: Bytes, epochs: Vec<(LeaderEpoch, Offset)>, done: Completion)
        -> Result<(), StorageError> { todo!() }
}
