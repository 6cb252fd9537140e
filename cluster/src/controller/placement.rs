//! Where a topic's partitions go: round robin over the brokers, as Kafka places replicas when no
//! racks are known (`StripedReplicaPlacer`).
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::types::BrokerId;

use crate::ClusterError;
use crate::limits::MAX_PARTITIONS;

/// Replicas of each partition, the preferred leader first. `start` shifts the first partition's
/// leader, so that many small topics do not all lead on the same broker.
pub(crate) fn place(
    brokers: &[BrokerId],
    partitions: usize,
    replication_factor: usize,
    start: usize,
) -> Result<Vec<Vec<BrokerId>>, ClusterError> {
    if partitions == 0 {
        let message = String::from("Number of partitions must be larger than 0.");
        return Err(ClusterError::InvalidPartitions(message));
    }
    if partitions > MAX_PARTITIONS {
        let message = format!("Number of partitions must be at most {MAX_PARTITIONS}.");
        return Err(ClusterError::InvalidPartitions(message));
    }
    if replication_factor == 0 {
        let message = String::from("Replication factor must be larger than 0.");
        return Err(ClusterError::InvalidReplicationFactor(message));
    }
    if replication_factor > brokers.len() {
        return Err(ClusterError::InvalidReplicationFactor(format!(
            "Replication factor: {replication_factor} larger than available brokers: {}.",
            brokers.len()
        )));
    }
    let replicas_of = |partition: usize| {
        // Followers shift once per round, so that a broker's partitions do not all share them.
        let leader = (start + partition) % brokers.len();
        let shift =
            if brokers.len() > 2 { (partition / brokers.len()) % (brokers.len() - 1) } else { 0 };
        let follower = |i: usize| {
            let step = 1 + (shift + i - 1) % (brokers.len() - 1).max(1);
            brokers[(leader + step) % brokers.len()]
        };
        let mut replicas = vec![brokers[leader]];
        replicas.extend((1..replication_factor).map(follower));
        replicas
    };
    Ok((0..partitions).map(replicas_of).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn brokers(count: i32) -> Vec<BrokerId> {
        (1..=count).map(BrokerId).collect()
    }

    #[test]
    fn leaders_and_replicas_are_spread_evenly() {
        let placed = place(&brokers(3), 12, 2, 0).expect("placed");
        let mut leads: BTreeMap<BrokerId, usize> = BTreeMap::new();
        let mut holds: BTreeMap<BrokerId, usize> = BTreeMap::new();
        for replicas in &placed {
            *leads.entry(replicas[0]).or_default() += 1;
            for replica in replicas {
                *holds.entry(*replica).or_default() += 1;
            }
        }
        assert_eq!(leads.values().copied().collect::<Vec<_>>(), [4, 4, 4]);
        assert_eq!(holds.values().copied().collect::<Vec<_>>(), [8, 8, 8]);
    }

    #[test]
    fn no_partition_has_a_broker_twice() {
        for count in 1..6 {
            for factor in 1..=count {
                let placed = place(&brokers(count), 20, factor as usize, 3).expect("placed");
                for replicas in placed {
                    let distinct: std::collections::BTreeSet<_> = replicas.iter().collect();
                    assert_eq!(distinct.len(), factor as usize);
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_placed_is_refused() {
        let refused = |partitions, factor| place(&brokers(2), partitions, factor, 0).unwrap_err();
        assert!(matches!(refused(0, 1), ClusterError::InvalidPartitions(_)));
        assert!(matches!(refused(MAX_PARTITIONS + 1, 1), ClusterError::InvalidPartitions(_)));
        assert!(matches!(refused(1, 0), ClusterError::InvalidReplicationFactor(_)));
        assert!(matches!(refused(1, 3), ClusterError::InvalidReplicationFactor(_)));
    }
}
