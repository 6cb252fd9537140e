//! What can go wrong in storage, a variant for each thing that a caller branches on.

/// An error of the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// The disk is full (ENOSPC, or the reserve is reached). Appends resume when space returns.
    #[error("no space left: {0}")]
    NoSpace(String),
    /// The store stopped for good (a failed fsync, say): the process must end.
    #[error("the store has stopped: {0}")]
    Stopped(String),
    /// Bytes on disk do not match their checksums; the range cannot be served.
    #[error("corrupt: {0}")]
    Corrupt(String),
    /// Any other I/O error of a read.
    #[error("I/O error: {0}")]
    Io(String),
    /// Offset below the log start or above the end.
    #[error("offset {requested} is outside {log_start_offset}..{log_end_offset}")]
    OffsetOutOfRange {
        /// Asked for.
        requested: i64,
        /// First offset that can be read.
        log_start_offset: i64,
        /// First offset not yet written.
        log_end_offset: i64,
    },
    /// The entries asked for were purged.
    #[error("entry {index} was purged")]
    Purged {
        /// Asked for.
        index: u64,
    },
    /// The group was removed.
    #[error("group {0} is gone")]
    GroupGone(u64),
    /// Another process holds the directory.
    #[error("{0}")]
    Locked(String),
}

impl From<std::io::Error> for StorageError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull => StorageError::NoSpace(error.to_string()),
            _ => StorageError::Io(error.to_string()),
        }
    }
}

impl StorageError {
    pub(crate) fn from_thread(error: &std::io::Error) -> StorageError {
        StorageError::Io(format!("cannot start a thread: {error}"))
    }
}
