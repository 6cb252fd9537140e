//! One group on one partition: what is kept of it, and every figure that follows.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::types::{LeaderEpoch, Offset, Timestamp};
use storage::log_store::NextRecord;

use super::Known;
use super::growth::{Growth, Look, Rates};
use super::ledger::{Ledger, Loss, LossCause};
use super::window::{CommitWindow, Status};
use crate::coordinator::shard::{Now, Steady};

/// A group that reads faster than is produced by less than this share of it is not catching up:
/// the difference is noise.
const CATCHING_UP: f64 = 0.01;

/// What a group committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The next offset to be read.
    pub offset: Offset,
    /// The epoch of the last record that was read, or -1.
    pub leader_epoch: LeaderEpoch,
    /// When, by the record of the commit.
    pub at: Timestamp,
}

/// The ends of a partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnds {
    /// First offset that can be read.
    pub log_start_offset: Offset,
    /// The offset behind the last that a consumer may see: high watermark or last stable offset.
    pub end_offset: Offset,
    /// The high watermark, by which the log grows whoever looks at it.
    pub high_watermark: Offset,
    /// Bytes of records ever appended.
    pub end_position: u64,
}

/// What the topic keeps; `None` = without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// `retention.ms`
    pub ms: Option<i64>,
    /// `retention.bytes`
    pub bytes: Option<i64>,
}

/// Everything that is known of a group on a partition, or why it is not.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// The last commit.
    pub commit: Commit,
    /// First offset that can be read.
    pub log_start_offset: Known<Offset>,
    /// The end that lag is counted to.
    pub end_offset: Known<Offset>,
    /// Records that are there and not read.
    pub lag_records: Known<u64>,
    /// Age of the next unread record.
    pub lag_seconds: Known<f64>,
    /// Records read a second.
    pub commit_rate: Known<f64>,
    /// Records produced a second.
    pub produce_rate: Known<f64>,
    /// Until everything is read, at these rates.
    pub drain_seconds: Known<f64>,
    /// Until the next unread record is deleted.
    pub time_to_loss_seconds: Known<f64>,
    /// Burrow's verdict.
    pub status: Known<Status>,
    /// Records that were deleted before the group had read them.
    pub lost_records: u64,
    /// The last ranges of them.
    pub lost: Vec<Loss>,
}

/// The answer to a look for the next record.
#[derive(Debug, Clone, Copy)]
struct Looked {
    from: Offset,
    below: Offset,
    found: Known<Option<NextRecord>>,
}

/// What is kept of a group on a partition: of fixed size, whatever happens.
#[derive(Debug, Clone)]
pub struct GroupPartition {
    commit: Commit,
    window: CommitWindow,
    growth: Growth,
    ledger: Ledger,
    looked: Option<Looked>,
}

impl GroupPartition {
    /// A group's first commit that is seen.
    #[must_use]
    pub fn new(now: Now, commit: Commit, log: Option<&LogEnds>) -> GroupPartition {
        let mut partition = GroupPartition {
            commit,
            window: CommitWindow::default(),
            growth: Growth::default(),
            ledger: Ledger::new(next_to_read(&commit)),
            looked: None,
        };
        partition.on_commit(now, commit, log);
        partition
    }

    /// The group committed. `log` is what the log was like then; `None` while commits of the past
    /// are read back.
    pub fn on_commit(&mut self, now: Now, commit: Commit, log: Option<&LogEnds>) {
        let at = match log {
            Some(log) => {
                self.notice(now, log);
                now.steady
            }
            // As long ago as the wall clock says, on the clock that does not jump.
            None => Steady(now.steady.0.saturating_sub((now.wall.0 - commit.at.0).max(0))),
        };
        self.commit = commit;
        self.ledger.on_read(next_to_read(&commit));
        self.window.push(at, next_to_read(&commit), log.map(|log| self.lag_records(log)));
    }

    /// The log start was moved.
    pub fn on_log_start(&mut self, log_start_offset: Offset, at: Timestamp, cause: LossCause) {
        self.ledger.on_log_start(log_start_offset, at, cause);
    }

    /// The offset whose record must be looked for before the figures are known, if it was not
    /// looked for yet; answered by [`GroupPartition::on_looked`].
    #[must_use]
    pub fn wants_record_from(&self, log: &LogEnds) -> Option<Offset> {
        let from = self.unread_from(log);
        (from < log.end_offset && self.next_record(log).is_none()).then_some(from)
    }

    /// The first record at or behind `from`, of those below `below`.
    pub fn on_looked(&mut self, from: Offset, below: Offset, found: Known<Option<NextRecord>>) {
        self.looked = Some(Looked { from, below, found });
    }

    /// Every figure, as of now.
    pub fn evaluate(&mut self, now: Now, log: Known<&LogEnds>, retention: Retention) -> Figures {
        let mut figures = Figures {
            commit: self.commit,
            log_start_offset: log.map(|log| log.log_start_offset),
            end_offset: log.map(|log| log.end_offset),
            lag_records: log.map(|log| self.lag_records(log)),
            lag_seconds: log.map(|_| 0.0),
            commit_rate: self.window.rate(now.steady).ok_or("the group has committed only once"),
            produce_rate: log.map(|_| 0.0),
            drain_seconds: log.map(|_| 0.0),
            time_to_loss_seconds: log.map(|_| 0.0),
            status: log.map(|_| Status::Ok),
            lost_records: 0,
            lost: Vec::new(),
        };
        if let Ok(log) = log {
            self.notice(now, log);
            let lag = self.lag_records(log);
            let rates = self.growth.rates(look(now, log));
            let rates = rates.ok_or("the log was not watched for a second yet");
            figures.lag_seconds = self.lag_seconds(now, log);
            figures.produce_rate = rates.map(|rates| rates.records);
            let status = self.window.status(now.steady, lag);
            figures.status = Ok(status);
            figures.drain_seconds = match status {
                Status::Stop => Err("the group has stopped committing"),
                _ => drain_seconds(lag, figures.commit_rate, figures.produce_rate),
            };
            figures.time_to_loss_seconds = self.time_to_loss(now, log, retention, rates);
        }
        figures.lost_records = self.ledger.lost_records();
        figures.lost = self.ledger.ranges().copied().collect();
        figures
    }

    /// Looks at the log: how fast it grows, and whether something was deleted unnoticed.
    fn notice(&mut self, now: Now, log: &LogEnds) {
        self.growth.look(look(now, log));
        self.ledger.on_log_start(log.log_start_offset, now.wall, LossCause::Unwatched);
    }

    /// Where the group goes on reading.
    fn unread_from(&self, log: &LogEnds) -> Offset {
        next_to_read(&self.commit).max(log.log_start_offset)
    }

    fn lag_records(&self, log: &LogEnds) -> u64 {
        u64::try_from(log.end_offset.0.saturating_sub(self.unread_from(log).0)).unwrap_or(0)
    }

    /// The next unread record as far as it was looked for: `None` where it was not.
    fn next_record(&self, log: &LogEnds) -> Option<Known<Option<NextRecord>>> {
        let from = self.unread_from(log);
        let looked = self.looked.filter(|looked| looked.from <= from)?;
        match looked.found {
            // There is nothing in between, so it is the first from each offset up to its own.
            Ok(Some(record)) => (from <= record.offset).then_some(Ok(Some(record))),
            Ok(None) => (looked.below == log.end_offset).then_some(Ok(None)),
            Err(why) => {
                let same = looked.from == from && looked.below == log.end_offset;
                same.then_some(Err(why))
            }
        }
    }

    fn known_next_record(&self, log: &LogEnds) -> Known<Option<NextRecord>> {
        self.next_record(log).unwrap_or(Err("the next unread record was not looked for yet"))
    }

    fn lag_seconds(&self, now: Now, log: &LogEnds) -> Known<f64> {
        if self.lag_records(log) == 0 {
            return Ok(0.0);
        }
        match self.known_next_record(log)? {
            // Nothing but transactions' markers is left, which no consumer is given.
            None => Ok(0.0),
            Some(record) if record.timestamp.0 < 0 => {
                Err("the next unread record has no timestamp")
            }
            Some(record) => Ok(seconds(now.wall.0.saturating_sub(record.timestamp.0))),
        }
    }

    fn time_to_loss(
        &self,
        now: Now,
        log: &LogEnds,
        retention: Retention,
        rates: Known<Rates>,
    ) -> Known<f64> {
        if self.lag_records(log) == 0 {
            return Err("nothing is unread");
        }
        if retention == Retention::default() {
            return Err("the topic keeps its records without limit");
        }
        let record = self.known_next_record(log)?.ok_or("nothing is unread")?;
        let by_time = retention.ms.map(|ms| match record.expires_with.0 {
            unknown if unknown < 0 => Err("the next unread record has no timestamp"),
            made => Ok(seconds(made.saturating_add(ms).saturating_sub(now.wall.0))),
        });
        let by_size = retention.bytes.map(|bytes| {
            let kept = u64::try_from(bytes).unwrap_or(0);
            let behind = log.end_position.saturating_sub(record.batch_end_position);
            let rest = kept.saturating_sub(behind) as f64;
            if rest <= 0.0 {
                return Ok(0.0);
            }
            match rates?.bytes {
                rate if rate > 0.0 => Ok(rest / rate),
                _ => Err("retention.bytes is not reached, and the log does not grow"),
            }
        });
        match (by_time, by_size) {
            (Some(Ok(time)), Some(Ok(size))) => Ok(time.min(size)),
            (Some(Ok(first)), _) | (_, Some(Ok(first))) => Ok(first),
            (Some(Err(why)), _) | (None, Some(Err(why))) => Err(why),
            (None, None) => Err("the topic keeps its records without limit"),
        }
    }
}

/// Any number can be committed; no record is below 0.
fn next_to_read(commit: &Commit) -> Offset {
    commit.offset.max(Offset::ZERO)
}

fn look(now: Now, log: &LogEnds) -> Look {
    Look { at: now.steady, end_offset: log.high_watermark, end_position: log.end_position }
}

fn drain_seconds(lag: u64, commit_rate: Known<f64>, produce_rate: Known<f64>) -> Known<f64> {
    if lag == 0 {
        return Ok(0.0);
    }
    let (reads, grows) = (commit_rate?, produce_rate?);
    let gains = reads - grows;
    if reads <= 0.0 {
        Err("the group does not advance")
    } else if gains <= grows * CATCHING_UP {
        Err("the group reads no faster than is produced")
    } else {
        Ok(lag as f64 / gains)
    }
}

/// Milliseconds as seconds, none below zero.
fn seconds(ms: i64) -> f64 {
    ms.max(0) as f64 / 1_000.0
}
