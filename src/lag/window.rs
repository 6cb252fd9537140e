//! The last commits of a group on a partition: how fast it reads, and whether it is well, by the
//! rules of LinkedIn's Burrow.
//!
//! Pure: no I/O, no clock, no randomness.
//!
//! The rules, over the commits of the window and the lag that each had when it was made:
//! 1. Where the lag is zero, now or at any commit, all is well.
//! 2. `Rewind`: an offset is smaller than the one before it.
//! 3. `Stop`: the last commit is longer ago than the window is long.
//! 4. `Stall`: commits come, and their offset does not change.
//! 5. `Warn`: offsets advance, and the lag does not shrink from any commit to the next.
//!
//! A commit whose lag is not known (it was made before this broker watched) proves neither that the
//! group has caught up nor that it falls behind.

use protocol::types::Offset;

use crate::coordinator::shard::Steady;

/// Commits that are remembered.
pub const WINDOW_COMMITS: usize = 10;
/// Commits closer together than this share a place in the window, so that a group that commits
/// after every record is not judged by its last milliseconds.
const MIN_DISTANCE_MS: i64 = 1_000;
/// A group is not called stopped earlier than this, however short its window is: a rebalance takes
/// that long.
const STOP_AFTER_MS: i64 = 30_000;
/// Fewer commits say nothing about a trend.
const TREND_COMMITS: usize = 3;

/// How a group fares on a partition, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// It keeps up.
    Ok,
    /// It reads, and falls behind or at least does not catch up.
    Warn,
    /// It has stopped committing.
    Stop,
    /// It commits the same offset again and again.
    Stall,
    /// It went back.
    Rewind,
}

impl Status {
    /// As Burrow writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::Warn => "WARN",
            Status::Stop => "STOP",
            Status::Stall => "STALL",
            Status::Rewind => "REWIND",
        }
    }

    /// As Burrow numbers it (0 is its NOTFOUND, 3 its ERR for a whole group).
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Status::Ok => 1,
            Status::Warn => 2,
            Status::Stop => 4,
            Status::Stall => 5,
            Status::Rewind => 6,
        }
    }
}

/// A commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Point {
    at: Steady,
    offset: Offset,
    /// Records behind it when it was made; `None` where that was not seen.
    lag_records: Option<u64>,
}

/// The last commits, the oldest first.
#[derive(Debug, Clone, Default)]
pub struct CommitWindow {
    points: Vec<Point>,
}

impl CommitWindow {
    /// Takes a commit in.
    pub fn push(&mut self, at: Steady, offset: Offset, lag_records: Option<u64>) {
        let at = self.points.last().map_or(at, |last| at.max(last.at));
        let point = Point { at, offset, lag_records };
        if let [.., before, last] = self.points.as_mut_slice()
            && at.0 - before.at.0 < MIN_DISTANCE_MS
            && before.offset <= last.offset
            && last.offset <= offset
        {
            let was_zero = last.lag_records == Some(0);
            *last = point;
            // That it had caught up in between must not be forgotten.
            last.lag_records = if was_zero { Some(0) } else { lag_records };
            return;
        }
        if self.points.len() == WINDOW_COMMITS {
            self.points.remove(0);
        } else {
            // No more than what is used: there is one window for each group and partition.
            self.points.reserve_exact(1);
        }
        self.points.push(point);
    }

    /// Records read a second, by the commits of the window; slower and slower while none comes that
    /// would be due. `None` with fewer than two commits.
    #[must_use]
    pub fn rate(&self, now: Steady) -> Option<f64> {
        let [first, .., last] = self.points.as_slice() else { return None };
        let span_ms = last.at.0 - first.at.0;
        let interval_ms = span_ms / (self.points.len() as i64 - 1);
        let overdue_ms = (now.0 - last.at.0 - interval_ms).max(0);
        let elapsed_ms = span_ms + overdue_ms;
        if elapsed_ms <= 0 {
            return None;
        }
        let advances = self.points.windows(2).map(|pair| pair[1].offset.0 - pair[0].offset.0);
        let advanced: f64 = advances.map(|records| records.max(0) as f64).sum();
        Some(advanced * 1_000.0 / elapsed_ms as f64)
    }

    /// How the group fares, with that many records unread now.
    #[must_use]
    pub fn status(&self, now: Steady, lag_records: u64) -> Status {
        let points = self.points.as_slice();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return Status::Ok };
        if lag_records == 0 || points.iter().any(|point| point.lag_records == Some(0)) {
            return Status::Ok;
        }
        let pairs = || points.windows(2).map(|pair| (pair[0], pair[1]));
        if pairs().any(|(before, after)| after.offset < before.offset) {
            return Status::Rewind;
        }
        if now.0 - last.at.0 > (last.at.0 - first.at.0).max(STOP_AFTER_MS) {
            return Status::Stop;
        }
        if points.len() < TREND_COMMITS {
            return Status::Ok;
        }
        if pairs().all(|(before, after)| after.offset == before.offset) {
            return Status::Stall;
        }
        let falls_behind = pairs().all(|(before, after)| {
            matches!((before.lag_records, after.lag_records), (Some(a), Some(b)) if b >= a)
        });
        if falls_behind { Status::Warn } else { Status::Ok }
    }

    /// How many commits it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty()
    }
}
