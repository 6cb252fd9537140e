//! The only door to the store: the logs of all groups, append, read, truncate, purge, votes and
//! small state, over one journal and one index.
//!
//! Nothing here blocks on the disk but the reads: writes are queued to the journal's writer and
//! complete through callbacks.

mod log;
mod lookups;
mod open;
mod read;
pub(crate) mod shared;
pub(crate) mod state;
#[cfg(test)]
mod tests;

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use protocol::record_batch::RecordBatch;
use protocol::types::{LeaderEpoch, Offset, Timestamp};

pub use log::GroupLog;
pub use open::{LogStore, LogStoreOptions, WriterMode};
pub use shared::StoreStats;

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

impl Records {
    /// All bytes in one piece, for those who look into them; consumers are sent the slices.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read_to_bytes(&self) -> Result<Bytes, StorageError> {
        let mut bytes = BytesMut::with_capacity(self.size_bytes);
        for slice in &self.slices {
            match slice {
                RecordSlice::Memory(slice) => bytes.extend_from_slice(slice),
                RecordSlice::File { file, position, length } => {
                    let start = bytes.len();
                    bytes.resize(start + length, 0);
                    file.read_exact_at(&mut bytes[start..], *position)?;
                }
            }
        }
        Ok(bytes.freeze())
    }
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

/// The first record at or behind an offset, and what decides how long it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextRecord {
    /// Its offset: behind the one asked for where the log has a gap.
    pub offset: Offset,
    /// Its timestamp, -1 if it has none.
    pub timestamp: Timestamp,
    /// The largest timestamp up to the end of its batch. Retention by time takes whole batches, the
    /// oldest first, so the record goes when this one has expired.
    pub expires_with: Timestamp,
    /// Where its batch ends, in bytes of records ever appended: see [`GroupLog::end_position`].
    pub batch_end_position: u64,
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
