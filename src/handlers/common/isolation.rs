//! How far a client may see into a log.
//!
//! Pure: no I/O, no clock, no randomness.

use cluster::replica::ReplicaOffsets;
use protocol::types::Offset;

/// `isolation_level` of Fetch and ListOffsets (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolationLevel {
    /// Everything committed to the log, of open and aborted transactions too.
    ReadUncommitted,
    /// Only what lies before the first open transaction.
    ReadCommitted,
}

impl IsolationLevel {
    /// As the request says it.
    #[must_use]
    pub fn from_wire(level: i8) -> Self {
        if level == 1 { Self::ReadCommitted } else { Self::ReadUncommitted }
    }

    /// The first offset that the client may not see.
    #[must_use]
    pub fn upper_bound(self, offsets: &ReplicaOffsets) -> Offset {
        match self {
            Self::ReadUncommitted => offsets.high_watermark,
            Self::ReadCommitted => offsets.last_stable_offset,
        }
    }
}
