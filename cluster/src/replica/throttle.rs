//! The replication throttles of this broker: what it sends as a leader and takes as a follower,
//! over all partitions with throttled replicas.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use protocol::types::BrokerId;

use super::handle::Shared;
use super::quota::{Pace, may_be_slowed};
use crate::metadata::MetadataImage;
use crate::raft::{Clock, Pacing, broker_id};

const LEADER_RATE: &str = "leader.replication.throttled.rate";
const FOLLOWER_RATE: &str = "follower.replication.throttled.rate";

/// Both rates, shared by all partitions.
pub(crate) struct Throttle {
    broker_id: BrokerId,
    clock: Clock,
    leader: Mutex<Pace>,
    follower: Mutex<Pace>,
    version: AtomicU64,
}

impl Throttle {
    pub(crate) fn new(broker_id: BrokerId) -> Throttle {
        Throttle {
            broker_id,
            clock: Clock::start(),
            leader: Mutex::new(Pace::unlimited()),
            follower: Mutex::new(Pace::unlimited()),
            version: AtomicU64::new(0),
        }
    }

    /// Takes up the rates that are set. As in Kafka only what is set while brokers run counts, and
    /// nothing in a broker's file.
    pub(crate) fn set_rates(&self, image: &MetadataImage) {
        let now_ms = self.clock.elapsed_ms();
        for (pace, key) in [(&self.leader, LEADER_RATE), (&self.follower, FOLLOWER_RATE)] {
            let set = image.dynamic_broker_config(self.broker_id, key);
            let rate = set.and_then(|value| value.trim().parse().ok()).unwrap_or(u64::MAX);
            pace.lock().set_rate(now_ms, rate);
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    fn wait(&self, pace: &Mutex<Pace>) -> Duration {
        Duration::from_millis(pace.lock().wait_ms(self.clock.elapsed_ms()))
    }

    fn take(&self, pace: &Mutex<Pace>, bytes: u64) {
        pace.lock().take(self.clock.elapsed_ms(), bytes);
    }
}

impl Shared {
    /// Whether this broker's sending and another one's receiving of the partition is throttled.
    fn throttles(&self, to: BrokerId) -> (bool, bool) {
        let settings = self.settings.lock();
        let partition = self.id.partition;
        (
            settings.leader_throttled.covers(partition, self.environment.broker_id),
            settings.follower_throttled.covers(partition, to),
        )
    }
}

impl Pacing for Shared {
    fn pause(&self, node_id: u64) -> Option<Duration> {
        let to = broker_id(node_id)?;
        let (by_leader, by_follower) = self.throttles(to);
        if !by_leader && !by_follower {
            return None;
        }
        let group = self.open_group()?;
        let partition = self.partition();
        let in_sync = self.in_sync(&group).into_iter().map(|id| partition.node_id(id)).collect();
        if !may_be_slowed(node_id, &group.members().voters, &in_sync) {
            return None;
        }
        let throttle = &self.environment.throttle;
        // A follower's own rate is kept by the follower, which hears from all leaders.
        Some(if by_leader { throttle.wait(&throttle.leader) } else { Duration::ZERO })
    }

    fn on_sent(&self, bytes: u64) {
        let own = self.environment.broker_id;
        if self.throttles(own).0 {
            let throttle = &self.environment.throttle;
            throttle.take(&throttle.leader, bytes);
        }
    }

    fn rates_version(&self) -> u64 {
        self.environment.throttle.version.load(Ordering::Acquire)
    }

    fn on_received(&self, bytes: u64) -> Duration {
        if !self.throttles(self.environment.broker_id).1 {
            return Duration::ZERO;
        }
        let throttle = &self.environment.throttle;
        throttle.take(&throttle.follower, bytes);
        throttle.wait(&throttle.follower)
    }
}
