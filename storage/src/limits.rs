//! Every bound of the store, by name, in one place.

/// A journal file is closed and the next one begun once it is this long.
pub const JOURNAL_FILE_BYTES: u64 = 256 << 20;

/// Bytes that appends may have queued before further ones wait for the writer.
pub const QUEUE_BYTES: usize = 64 << 20;

/// Payload bytes that one round of the writer takes from the queue (it takes one item at least).
pub const ROUND_BYTES: usize = 8 << 20;

/// The largest payload of one journal record; a header that says more is damaged.
pub const RECORD_PAYLOAD_BYTES: u32 = 1 << 30;

/// Record bytes of all groups together that are kept in memory for readers near the log's end.
pub const TAIL_BYTES: usize = 32 << 20;

/// Journal bytes after which the index is flushed: what a start has to replay at most.
pub const CHECKPOINT_BYTES: u64 = 256 << 20;

/// Time without an append after which the index is flushed and the in-memory tail let go.
pub const CHECKPOINT_IDLE_MS: u64 = 10_000;

/// Every so many entries of a group have a row in the sparse offset index.
pub const OFFSET_ROW_INTERVAL: u64 = 32;

/// Extents of a catch-up reader that the disk is told about in advance.
pub const READ_AHEAD_EXTENTS: u64 = 64;

/// Extents smaller than this, and no further apart than `COALESCE_GAP_BYTES`, are read from the
/// file in one go instead of being handed out one by one.
pub const COALESCE_EXTENT_BYTES: usize = 16 << 10;

/// See `COALESCE_EXTENT_BYTES`.
pub const COALESCE_GAP_BYTES: u64 = 1 << 10;

/// Journal files that are held open for readers.
pub const OPEN_FILES: usize = 256;

/// Appends are refused while the disk has less than this left (or a sixteenth of what it had at
/// the start, if that is less): votes, deletions and the index still need room.
pub const RESERVE_BYTES: u64 = 64 << 20;

/// The least that `RESERVE_BYTES` is scaled down to.
pub const RESERVE_MIN_BYTES: u64 = 4 << 20;

/// A file of this length is kept to be given up when a write finds the disk full all the same.
pub const RESERVE_FILE_BYTES: u64 = 16 << 20;

/// Free space is looked at again after so many appended bytes.
pub const SPACE_CHECK_BYTES: u64 = 4 << 20;

/// A batch is decompressed into no more than this when a time is looked up in it.
pub const DECOMPRESSED_BATCH_BYTES: usize = 256 << 20;

/// Unsynced journal bytes after which the system is asked to begin writing them, so that the sync
/// of a full file does not hold up the writer.
pub const WRITEBACK_BYTES: u64 = 8 << 20;

/// Entries that a look for the next record steps over at most (those without records, say).
pub const NEXT_RECORD_ENTRIES: u64 = 256;
