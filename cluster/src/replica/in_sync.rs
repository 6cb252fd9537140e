//! Which replicas follow closely: those that had caught up with the leader's log at some moment of
//! the last `replica.lag.time.max.ms` (Kafka: `Partition.isFollowerInSync`).
//!
//! A follower has caught up as of a moment when it holds all that the leader held then. So the
//! leader remembers how long its log was at some moments of the recent past.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeSet, VecDeque};

use protocol::types::{BrokerId, LeaderEpoch};

/// Moments that are remembered within the allowed lag.
const SAMPLES: u64 = 10;

/// How far a follower is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Follower {
    pub(super) id: BrokerId,
    /// The last entry that it is known to have.
    pub(super) matched: Option<u64>,
    /// When the message was sent that it has answered last.
    pub(super) acked_at_ms: Option<u64>,
}

/// What a leader remembers, in one reign.
#[derive(Debug)]
pub(super) struct InSync {
    epoch: LeaderEpoch,
    since_ms: u64,
    /// Those that were in sync before, as far as is known: they are until they have had the time
    /// to show otherwise.
    before: BTreeSet<BrokerId>,
    /// Moments, and the last entry of the log then.
    samples: VecDeque<(u64, Option<u64>)>,
}

impl Default for InSync {
    fn default() -> Self {
        InSync {
            epoch: LeaderEpoch::UNKNOWN,
            since_ms: 0,
            before: BTreeSet::new(),
            samples: VecDeque::new(),
        }
    }
}

impl InSync {
    pub(super) fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// A reign begins.
    pub(super) fn begin(&mut self, epoch: LeaderEpoch, now_ms: u64, before: BTreeSet<BrokerId>) {
        *self = InSync { epoch, since_ms: now_ms, before, samples: VecDeque::new() };
    }

    /// Those of `followers` that follow closely, the log's last entry being `last` now.
    pub(super) fn in_sync(
        &mut self,
        now_ms: u64,
        lag_max_ms: u64,
        last: Option<u64>,
        followers: &[Follower],
    ) -> BTreeSet<BrokerId> {
        self.sample(now_ms, lag_max_ms, last);
        let is_close = |follower: &&Follower| {
            let caught_up_at = self.caught_up_at(follower, last);
            caught_up_at.is_some_and(|at| now_ms.saturating_sub(at) <= lag_max_ms)
        };
        followers.iter().filter(is_close).map(|follower| follower.id).collect()
    }

    fn sample(&mut self, now_ms: u64, lag_max_ms: u64, last: Option<u64>) {
        let is_due =
            self.samples.back().is_none_or(|(at, _)| now_ms >= at + (lag_max_ms / SAMPLES).max(1));
        if !is_due {
            return;
        }
        // The youngest of those that are too old says the same as all before it.
        while self.samples.get(1).is_some_and(|(at, _)| at + lag_max_ms < now_ms) {
            self.samples.pop_front();
        }
        self.samples.push_back((now_ms, last));
    }

    fn caught_up_at(&self, follower: &Follower, last: Option<u64>) -> Option<u64> {
        let shown = match follower.matched {
            None => None,
            matched if matched >= last => follower.acked_at_ms,
            matched => {
                let held = self.samples.iter().rev().find(|(_, last)| *last <= matched);
                held.map(|(at, _)| *at)
            }
        };
        let granted = self.before.contains(&follower.id).then_some(self.since_ms);
        shown.max(granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG_MAX_MS: u64 = 1_000;

    fn follower(matched: u64, acked_at_ms: u64) -> Follower {
        Follower { id: BrokerId(2), matched: Some(matched), acked_at_ms: Some(acked_at_ms) }
    }

    fn reign(before: &[i32]) -> InSync {
        let mut in_sync = InSync::default();
        in_sync.begin(LeaderEpoch(1), 0, before.iter().copied().map(BrokerId).collect());
        in_sync
    }

    fn follows(in_sync: &mut InSync, now_ms: u64, last: u64, follower: Follower) -> bool {
        !in_sync.in_sync(now_ms, LAG_MAX_MS, Some(last), &[follower]).is_empty()
    }

    #[test]
    fn one_that_has_everything_is_in_sync_as_long_as_it_answers() {
        let mut reign = reign(&[]);
        assert!(follows(&mut reign, 5_000, 10, follower(10, 4_500)));
        assert!(!follows(&mut reign, 5_000, 10, follower(10, 3_500)));
    }

    #[test]
    fn one_that_is_always_a_little_behind_is_in_sync() {
        let mut reign = reign(&[]);
        // A hundred entries a second, half a second behind.
        for now in (2_000..10_000).step_by(10) {
            let last = now / 10;
            let is_close = follows(&mut reign, now, last, follower(last - 50, now));
            assert!(is_close || now < 3_000, "at {now}");
        }
    }

    #[test]
    fn one_that_falls_behind_is_out_after_the_allowed_lag_and_back_when_it_has_caught_up() {
        let mut reign = reign(&[]);
        for now in (0..5_000).step_by(50) {
            let is_close = follows(&mut reign, now, 10 + now, follower(10, now));
            assert_eq!(is_close, now <= LAG_MAX_MS, "at {now}");
        }
        assert!(!follows(&mut reign, 5_000, 6_000, follower(3_800, 5_000)));
        assert!(follows(&mut reign, 5_010, 6_000, follower(6_000, 5_010)));
    }

    #[test]
    fn a_new_leader_believes_for_a_while_that_who_was_in_sync_still_is() {
        let mut reign = reign(&[2]);
        let silent = |id| Follower { id: BrokerId(id), matched: None, acked_at_ms: None };
        let mut at = |now| reign.in_sync(now, LAG_MAX_MS, Some(10), &[silent(2), silent(3)]);
        assert_eq!(at(500), BTreeSet::from([BrokerId(2)]));
        assert_eq!(at(1_500), BTreeSet::new());
    }
}
