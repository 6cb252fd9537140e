//! How long a request waits for its change to be on the replicas it asks for.

use std::time::Duration;

use crate::limits::OWN_DISK_WAIT;

/// A request's timeout bounds its wait for other brokers. What this broker does itself is done by
/// the time Kafka begins to count (`DelayedProduce` and `DelayedDeleteRecords` are complete at the
/// first try with one replica), so a client that waits for nobody is still answered with success.
#[must_use]
pub fn replication_wait(timeout_ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0)).max(OWN_DISK_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_of_zero_still_waits_for_the_own_disk() {
        assert_eq!(replication_wait(0), OWN_DISK_WAIT);
        assert_eq!(replication_wait(-1), OWN_DISK_WAIT);
        assert_eq!(replication_wait(30_000), Duration::from_secs(30));
    }
}
