//! What a group lost: records that were deleted before it had read them.
//!
//! Pure: no I/O, no clock, no randomness.
//!
//! A record counts as read once an offset behind it was committed, so what a group has fetched and
//! not yet committed when it is deleted counts as lost: at most what it reads between two commits.
//! What a group has read once is not lost when it rewinds to it too late.

use std::collections::VecDeque;

use protocol::types::{Offset, Timestamp};

/// Ranges that are remembered one by one; of older ones only their number.
pub const LEDGER_RANGES: usize = 8;

/// Why records were deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LossCause {
    /// `retention.ms`
    RetentionTime,
    /// `retention.bytes`
    RetentionSize,
    /// DeleteRecords.
    DeleteRecords,
    /// It happened while this broker did not watch: before it started, or led the partition.
    Unwatched,
}

impl LossCause {
    /// As it is shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            LossCause::RetentionTime => "retention.ms",
            LossCause::RetentionSize => "retention.bytes",
            LossCause::DeleteRecords => "DeleteRecords",
            LossCause::Unwatched => "unwatched",
        }
    }
}

/// A range that was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// First offset.
    pub from: Offset,
    /// Behind the last.
    pub to: Offset,
    /// When it was noticed last; the moment of the deletion but for [`LossCause::Unwatched`].
    pub at: Timestamp,
    /// Why.
    pub cause: LossCause,
}

/// The losses of a group on a partition.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    ranges: VecDeque<Loss>,
    lost_records: u64,
    /// Below, everything is either read or counted as lost.
    settled: Offset,
}

impl Ledger {
    /// A group that has read what lies below `offset`, as far as anyone knows.
    #[must_use]
    pub fn new(offset: Offset) -> Ledger {
        Ledger { settled: offset, ..Ledger::default() }
    }

    /// The group has read what lies below.
    pub fn on_read(&mut self, below: Offset) {
        self.settled = self.settled.max(below);
    }

    /// The log starts at `log_start_offset` now.
    pub fn on_log_start(&mut self, log_start_offset: Offset, at: Timestamp, cause: LossCause) {
        let from = self.settled;
        if log_start_offset <= from {
            return;
        }
        self.settled = log_start_offset;
        self.lost_records += u64::try_from(log_start_offset.0 - from.0).unwrap_or(0);
        let loss = Loss { from, to: log_start_offset, at, cause };
        match self.ranges.back_mut() {
            Some(last) if last.to == from && last.cause == cause => {
                (last.to, last.at) = (loss.to, at);
            }
            _ => {
                if self.ranges.len() == LEDGER_RANGES {
                    self.ranges.pop_front();
                }
                self.ranges.push_back(loss);
            }
        }
    }

    /// How many records, in all.
    #[must_use]
    pub fn lost_records(&self) -> u64 {
        self.lost_records
    }

    /// The last ranges, the oldest first.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = &Loss> {
        self.ranges.iter()
    }
}
