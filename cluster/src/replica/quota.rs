//! What replication throttles decide: which replicas they are for, who may be slowed at all, and
//! how long a sender waits for its rate (Kafka: `ReplicationQuotaManager`).
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeSet;

use protocol::types::{BrokerId, PartitionId};

/// The replicas of a topic that are throttled: `leader.replication.throttled.replicas` and
/// `follower.replication.throttled.replicas`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ThrottledReplicas {
    /// None of them.
    #[default]
    Nothing,
    /// All of them.
    All,
    /// These.
    Some(BTreeSet<(PartitionId, BrokerId)>),
}

impl ThrottledReplicas {
    /// `*`, or pairs of partition and broker, as `0:1,0:2`. What is no pair is left out: values are
    /// checked where they are given.
    #[must_use]
    pub fn parse(value: &str) -> ThrottledReplicas {
        if value.trim() == "*" {
            return ThrottledReplicas::All;
        }
        let pair = |pair: &str| {
            let (partition, broker) = pair.trim().split_once(':')?;
            Some((PartitionId(partition.parse().ok()?), BrokerId(broker.parse().ok()?)))
        };
        let pairs: BTreeSet<_> = value.split(',').filter_map(pair).collect();
        if pairs.is_empty() { ThrottledReplicas::Nothing } else { ThrottledReplicas::Some(pairs) }
    }

    /// Whether the replica of a partition on a broker is one of them.
    #[must_use]
    pub fn covers(&self, partition: PartitionId, broker: BrokerId) -> bool {
        match self {
            ThrottledReplicas::Nothing => false,
            ThrottledReplicas::All => true,
            ThrottledReplicas::Some(pairs) => pairs.contains(&(partition, broker)),
        }
    }
}

/// Whether a follower may be kept waiting for what it lacks. Not one that is in sync (as by Kafka),
/// and none without which there would be no majority in sync: producers would wait with it.
pub(super) fn may_be_slowed(node: u64, voters: &[BTreeSet<u64>], in_sync: &BTreeSet<u64>) -> bool {
    let is_spared = |voters: &BTreeSet<u64>| {
        !voters.contains(&node) || voters.intersection(in_sync).count() > voters.len() / 2
    };
    !in_sync.contains(&node) && voters.iter().all(is_spared)
}

/// A rate that is kept by waiting: what was taken is owed, and is paid back with time. Nothing may
/// be taken while something is owed, so that however much is taken at once, no more than the rate
/// goes through on average; time in which nothing is taken earns nothing.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes per second; `None` = as many as there are.
    rate: Option<u64>,
    /// In thousandths of a byte, as of `at_ms`.
    owed: u64,
    at_ms: u64,
}

/// A rate beyond this is none (Kafka's default is the largest number that there is).
const UNLIMITED: u64 = i64::MAX.unsigned_abs();

/// What a rate of 0 waits for, again and again.
const FOREVER_MS: u64 = 60_000;

impl Pace {
    pub(super) fn unlimited() -> Pace {
        Pace { rate: None, owed: 0, at_ms: 0 }
    }

    /// Another rate; what is owed is paid back by it.
    pub(super) fn set_rate(&mut self, now_ms: u64, bytes_per_second: u64) {
        self.pay(now_ms);
        self.rate = (bytes_per_second < UNLIMITED).then_some(bytes_per_second);
        if self.rate.is_none() {
            self.owed = 0;
        }
    }

    /// How long until something may be taken.
    pub(super) fn wait_ms(&mut self, now_ms: u64) -> u64 {
        self.pay(now_ms);
        match self.rate {
            None => 0,
            Some(0) => FOREVER_MS,
            Some(rate) => self.owed.div_ceil(rate),
        }
    }

    pub(super) fn take(&mut self, now_ms: u64, bytes: u64) {
        self.pay(now_ms);
        if self.rate.is_some() {
            self.owed = self.owed.saturating_add(bytes.saturating_mul(1_000));
        }
    }

    fn pay(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.at_ms);
        self.at_ms = self.at_ms.max(now_ms);
        // Bytes a second are thousandths of a byte a millisecond.
        let paid = self.rate.unwrap_or(0).saturating_mul(elapsed_ms);
        self.owed = self.owed.saturating_sub(paid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[u64]) -> BTreeSet<u64> {
        ids.iter().copied().collect()
    }

    /// How long it takes until so many pieces have gone, each as soon as it may.
    fn send(pace: &mut Pace, from_ms: u64, pieces: u64, bytes: u64) -> u64 {
        let mut now_ms = from_ms;
        for _ in 0..pieces {
            now_ms += pace.wait_ms(now_ms);
            pace.take(now_ms, bytes);
        }
        now_ms + pace.wait_ms(now_ms) - from_ms
    }

    #[test]
    fn what_goes_through_takes_as_long_as_the_rate_says() {
        for (rate, pieces, bytes) in [(1_000, 10, 1_000), (1_000_000, 3, 1 << 20), (7, 2, 100)] {
            let mut pace = Pace::unlimited();
            pace.set_rate(5, rate);
            let expected_ms = pieces * bytes * 1_000 / rate;
            let took_ms = send(&mut pace, 5, pieces, bytes);
            assert!((expected_ms..=expected_ms + pieces).contains(&took_ms), "{took_ms}");
        }
    }

    #[test]
    fn idle_time_earns_nothing() {
        let mut pace = Pace::unlimited();
        pace.set_rate(0, 1_000);
        assert_eq!(send(&mut pace, 1_000_000, 5, 1_000), 5_000);
    }

    #[test]
    fn many_small_pieces_within_a_millisecond_add_up() {
        let mut pace = Pace::unlimited();
        pace.set_rate(0, 1_000_000);
        (0..1_000).for_each(|_| pace.take(0, 10));
        assert_eq!(pace.wait_ms(0), 10);
    }

    #[test]
    fn another_rate_counts_from_now_on() {
        let mut pace = Pace::unlimited();
        pace.take(0, 1 << 40);
        assert_eq!(pace.wait_ms(0), 0);
        pace.set_rate(0, 1_000);
        pace.take(0, 10_000);
        assert_eq!(pace.wait_ms(1_000), 9_000);
        pace.set_rate(1_000, 9_000);
        assert_eq!(pace.wait_ms(1_000), 1_000);
        pace.set_rate(1_000, UNLIMITED);
        assert_eq!(pace.wait_ms(1_000), 0);
        pace.set_rate(1_000, 0);
        assert_eq!(pace.wait_ms(1 << 40), FOREVER_MS);
    }

    #[test]
    fn who_is_in_sync_or_needed_for_a_majority_is_not_slowed() {
        let three = [set(&[1, 2, 3])];
        assert!(!may_be_slowed(3, &three, &set(&[1, 2, 3])));
        assert!(may_be_slowed(3, &three, &set(&[1, 2])));
        assert!(!may_be_slowed(3, &three, &set(&[1])));
        assert!(may_be_slowed(4, &three, &set(&[1])), "it has no vote");
        let joint = [set(&[1]), set(&[1, 2])];
        assert!(!may_be_slowed(2, &joint, &set(&[1])));
    }

    #[test]
    fn replicas_are_told_by_partition_and_broker() {
        let some = ThrottledReplicas::parse("0:1, 2:3");
        let covers = |partition, broker| some.covers(PartitionId(partition), BrokerId(broker));
        assert!(covers(0, 1) && covers(2, 3) && !covers(0, 3) && !covers(2, 1));
        assert_eq!(ThrottledReplicas::parse("*"), ThrottledReplicas::All);
        assert_eq!(ThrottledReplicas::parse(""), ThrottledReplicas::Nothing);
        assert!(ThrottledReplicas::All.covers(PartitionId(7), BrokerId(9)));
    }
}
