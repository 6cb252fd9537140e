//! Whether the disk has room for more records: producers are slowed before it is full, then
//! refused, and taken up again when space has returned.
//!
//! Pure: no I/O, no clock, no randomness.
//!
//! ```text
//!  headroom = what may still be written: min(free - reserve, budget - used)
//!
//!  0 ......... resume ......... slow .................. everything
//!  refuse  |   refuse until    |  throttle, the more    |  ok
//!          |   this is passed  |  the less is left      |
//! ```
//! The reserve is for what always has to work on a full disk: recovery, deletes, commits and the
//! index. It is a share of the disk, so that a broker also runs on a tmpfs of a few MiB.

/// A twentieth of the disk is reserved, and another twentieth is where producers are slowed.
const ZONE_SHARE: u64 = 20;
/// Neither zone is larger than this: no large disk needs more.
const MAX_ZONE_BYTES: u64 = 1 << 30;
/// The longest that a producer is told to wait.
const MAX_THROTTLE_MS: u64 = 1_000;

/// How full the disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskUsage {
    /// What the broker has written and not deleted.
    pub used_bytes: u64,
    /// What the file system still has for it.
    pub free_bytes: u64,
    /// The size of the file system.
    pub total_bytes: u64,
}

/// What to tell a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskVerdict {
    /// There is room.
    Ok,
    /// Take the records, and have the producer wait.
    Slow {
        /// For how long.
        throttle_time_ms: u32,
    },
    /// Take no records, answer with an error that clients retry.
    Refuse,
}

/// Judges the disk's usage as it changes.
#[derive(Debug, Clone)]
pub struct DiskBudget {
    /// What the broker may use; `None` for the whole disk.
    budget_bytes: Option<u64>,
    verdict: DiskVerdict,
}

impl DiskBudget {
    /// A budget of which nothing is known to be spent.
    #[must_use]
    pub fn new(budget_bytes: Option<u64>) -> DiskBudget {
        DiskBudget { budget_bytes, verdict: DiskVerdict::Ok }
    }

    /// What to tell producers from now on.
    ///
    /// Once refusing, it takes half the slow zone of headroom to take records again: else every
    /// batch that is deleted would let one in, and producers would see errors and answers by turns.
    pub fn on_usage(&mut self, usage: DiskUsage) -> DiskVerdict {
        let zone_bytes = self.zone_bytes(usage);
        let headroom_bytes = self.headroom_bytes(usage);
        let refuse_below = match self.verdict {
            DiskVerdict::Refuse => zone_bytes.div_ceil(2).max(1),
            DiskVerdict::Ok | DiskVerdict::Slow { .. } => 1,
        };
        self.verdict = if headroom_bytes < refuse_below {
            DiskVerdict::Refuse
        } else if headroom_bytes < zone_bytes {
            let missing = u128::from(zone_bytes - headroom_bytes);
            let throttle_ms = u128::from(MAX_THROTTLE_MS) * missing / u128::from(zone_bytes);
            DiskVerdict::Slow { throttle_time_ms: u32::try_from(throttle_ms.max(1)).unwrap_or(1) }
        } else {
            DiskVerdict::Ok
        };
        self.verdict
    }

    /// The last verdict.
    #[must_use]
    pub fn verdict(&self) -> DiskVerdict {
        self.verdict
    }

    /// What may still be written before producers are refused.
    #[must_use]
    pub fn headroom_bytes(&self, usage: DiskUsage) -> u64 {
        let of_disk = usage.free_bytes.saturating_sub(zone_of(usage.total_bytes));
        match self.budget_bytes {
            Some(budget_bytes) => of_disk.min(budget_bytes.saturating_sub(usage.used_bytes)),
            None => of_disk,
        }
    }

    fn zone_bytes(&self, usage: DiskUsage) -> u64 {
        zone_of(self.budget_bytes.unwrap_or(u64::MAX).min(usage.total_bytes))
    }
}

fn zone_of(size_bytes: u64) -> u64 {
    (size_bytes / ZONE_SHARE).min(MAX_ZONE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// A disk of `total_bytes` which holds nothing but what the broker wrote.
    fn usage(total_bytes: u64, free_bytes: u64) -> DiskUsage {
        DiskUsage { used_bytes: total_bytes - free_bytes, free_bytes, total_bytes }
    }

    #[test]
    fn a_disk_of_a_few_mib_can_be_used_but_for_a_tenth() {
        let mut budget = DiskBudget::new(None);
        assert_eq!(budget.on_usage(usage(4 * MIB, 4 * MIB)), DiskVerdict::Ok);
        assert_eq!(budget.on_usage(usage(4 * MIB, MIB / 2)), DiskVerdict::Ok);
        assert!(matches!(budget.on_usage(usage(4 * MIB, MIB / 4)), DiskVerdict::Slow { .. }));
        assert_eq!(budget.on_usage(usage(4 * MIB, MIB / 5)), DiskVerdict::Refuse);
    }

    #[test]
    fn a_large_disk_reserves_no_more_than_a_gib() {
        let mut budget = DiskBudget::new(None);
        assert_eq!(budget.on_usage(usage(1000 * GIB, 2 * GIB)), DiskVerdict::Ok);
        assert_eq!(budget.on_usage(usage(1000 * GIB, GIB)), DiskVerdict::Refuse);
    }

    #[test]
    fn the_throttle_grows_as_the_headroom_shrinks() {
        let throttle =
            |free_bytes| match DiskBudget::new(None).on_usage(usage(100 * GIB, free_bytes)) {
                DiskVerdict::Slow { throttle_time_ms } => throttle_time_ms,
                other => panic!("{other:?} at {free_bytes}"),
            };
        assert_eq!(throttle(2 * GIB - 1), 1);
        assert_eq!(throttle(2 * GIB - GIB / 2), 500);
        assert_eq!(throttle(GIB + 1), 999);
    }

    #[test]
    fn producers_are_taken_up_again_only_when_half_the_slow_zone_is_free() {
        let mut budget = DiskBudget::new(None);
        assert_eq!(budget.on_usage(usage(100 * GIB, GIB)), DiskVerdict::Refuse);
        assert_eq!(budget.on_usage(usage(100 * GIB, GIB + GIB / 2 - 1)), DiskVerdict::Refuse);
        let resumed = budget.on_usage(usage(100 * GIB, GIB + GIB / 2));
        assert_eq!(resumed, DiskVerdict::Slow { throttle_time_ms: 500 });
        assert_eq!(budget.on_usage(usage(100 * GIB, 2 * GIB)), DiskVerdict::Ok);
    }

    #[test]
    fn a_budget_is_kept_however_large_the_disk_is() {
        let mut budget = DiskBudget::new(Some(20 * MIB));
        let used =
            |used_bytes| DiskUsage { used_bytes, free_bytes: 50 * GIB, total_bytes: 99 * GIB };
        assert_eq!(budget.on_usage(used(19 * MIB)), DiskVerdict::Ok);
        assert!(matches!(budget.on_usage(used(19 * MIB + 1)), DiskVerdict::Slow { .. }));
        assert_eq!(budget.on_usage(used(20 * MIB)), DiskVerdict::Refuse);
        assert_eq!(budget.on_usage(used(21 * MIB)), DiskVerdict::Refuse);
        assert_eq!(budget.on_usage(used(19 * MIB)), DiskVerdict::Ok);
    }

    #[test]
    fn another_tenant_of_the_disk_can_fill_it() {
        let mut budget = DiskBudget::new(Some(20 * MIB));
        let full = DiskUsage { used_bytes: MIB, free_bytes: 0, total_bytes: 99 * GIB };
        assert_eq!(budget.on_usage(full), DiskVerdict::Refuse);
    }

    #[test]
    fn the_smallest_and_the_largest_numbers_do_no_harm() {
        let nothing = DiskUsage { used_bytes: 0, free_bytes: 0, total_bytes: 0 };
        assert_eq!(DiskBudget::new(None).on_usage(nothing), DiskVerdict::Refuse);
        let endless = DiskUsage { used_bytes: 0, free_bytes: u64::MAX, total_bytes: u64::MAX };
        assert_eq!(DiskBudget::new(None).on_usage(endless), DiskVerdict::Ok);
        assert_eq!(DiskBudget::new(Some(u64::MAX)).on_usage(endless), DiskVerdict::Ok);
        assert_eq!(DiskBudget::new(Some(0)).on_usage(endless), DiskVerdict::Refuse);
    }
}
