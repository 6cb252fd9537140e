//! Where a topic's partitions go: leaders and replicas spread evenly over the brokers, beginning
//! with those that have the least, and the replicas of a partition over as many racks as there are
//! (Kafka: `StripedReplicaPlacer`, which spreads by racks but looks at no load).
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};

use protocol::types::BrokerId;

use crate::ClusterError;
use crate::limits::MAX_PARTITIONS;
use crate::metadata::MetadataImage;

/// A broker that may get replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) id: BrokerId,
    pub(crate) rack: Option<String>,
    /// Partitions that it has replicas of.
    pub(crate) replicas: usize,
    /// Partitions that it is the preferred leader of.
    pub(crate) leads: usize,
}

/// The brokers that are there, with what they have already.
pub(crate) fn candidates(
    image: &MetadataImage,
    is_alive: impl Fn(BrokerId) -> bool,
) -> Vec<Candidate> {
    let mut loads: BTreeMap<BrokerId, (usize, usize)> = BTreeMap::new();
    for partition in image.topics.values().flat_map(|topic| &topic.partitions) {
        for (place, replica) in partition.replicas.iter().enumerate() {
            let (replicas, leads) = loads.entry(*replica).or_default();
            *replicas += 1;
            *leads += usize::from(place == 0);
        }
    }
    let there = image.brokers.values().filter(|broker| is_alive(broker.id));
    let candidate = there.map(|broker| {
        let (replicas, leads) = loads.get(&broker.id).copied().unwrap_or_default();
        Candidate { id: broker.id, rack: broker.rack.clone(), replicas, leads }
    });
    candidate.collect()
}

/// Replicas of each partition, the preferred leader first. `start` breaks ties, so that topics that
/// are made at once on brokers that have nothing do not all lead on the same one.
pub(crate) fn place(
    mut brokers: Vec<Candidate>,
    partitions: usize,
    replication_factor: usize,
    start: usize,
) -> Result<Vec<Vec<BrokerId>>, ClusterError> {
    check(brokers.len(), partitions, replication_factor)?;
    let count = brokers.len();
    let place_one = |partition: usize| {
        let turn = start + partition;
        // The distance from whose turn it is; followers' turns shift once per round, so that a
        // broker's partitions do not all share them.
        let distance = |index: usize, turn: usize| (index + count - turn % count) % count;
        let leader = (0..count).min_by_key(|index| {
            let broker = &brokers[*index];
            (broker.leads, broker.replicas, distance(*index, turn))
        });
        let mut chosen: Vec<usize> = leader.into_iter().collect();
        let shift = turn + 1 + partition / count;
        while chosen.len() < replication_factor {
            let racks: BTreeSet<_> = chosen.iter().map(|index| &brokers[*index].rack).collect();
            let others = (0..count).filter(|index| !chosen.contains(index));
            let next = others.min_by_key(|index| {
                let broker = &brokers[*index];
                // A broker without a rack shares it with nobody.
                let shares = broker.rack.is_some() && racks.contains(&broker.rack);
                (shares, broker.replicas, distance(*index, shift))
            });
            let Some(next) = next else { break };
            chosen.push(next);
        }
        for (place, index) in chosen.iter().enumerate() {
            brokers[*index].replicas += 1;
            brokers[*index].leads += usize::from(place == 0);
        }
        chosen.into_iter().map(|index| brokers[index].id).collect()
    };
    Ok((0..partitions).map(place_one).collect())
}

fn check(brokers: usize, partitions: usize, replication_factor: usize) -> Result<(), ClusterError> {
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
    if replication_factor > brokers {
        return Err(ClusterError::InvalidReplicationFactor(format!(
            "Replication factor: {replication_factor} larger than available brokers: {brokers}."
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brokers(count: i32) -> Vec<Candidate> {
        let candidate = |id| Candidate { id: BrokerId(id), rack: None, replicas: 0, leads: 0 };
        (1..=count).map(candidate).collect()
    }

    fn counts(placed: &[Vec<BrokerId>]) -> (BTreeMap<i32, usize>, BTreeMap<i32, usize>) {
        let (mut leads, mut holds) = (BTreeMap::new(), BTreeMap::new());
        for replicas in placed {
            *leads.entry(replicas[0].0).or_default() += 1;
            for replica in replicas {
                *holds.entry(replica.0).or_default() += 1;
            }
        }
        (leads, holds)
    }

    #[test]
    fn leaders_and_replicas_are_spread_evenly() {
        for start in 0..4 {
            let (leads, holds) = counts(&place(brokers(3), 12, 2, start).expect("placed"));
            assert_eq!(leads.into_values().collect::<Vec<_>>(), [4, 4, 4]);
            assert_eq!(holds.into_values().collect::<Vec<_>>(), [8, 8, 8]);
        }
    }

    #[test]
    fn a_brokers_partitions_do_not_all_share_their_followers() {
        let placed = place(brokers(4), 12, 2, 0).expect("placed");
        let of_first = placed.iter().filter(|replicas| replicas[0] == BrokerId(1));
        let followers: BTreeSet<_> = of_first.map(|replicas| replicas[1]).collect();
        assert!(followers.len() > 1, "{placed:?}");
    }

    #[test]
    fn no_partition_has_a_broker_twice() {
        for count in 1..6 {
            for factor in 1..=count {
                let placed = place(brokers(count), 20, factor as usize, 3).expect("placed");
                for replicas in placed {
                    let distinct: BTreeSet<_> = replicas.iter().collect();
                    assert_eq!(distinct.len(), factor as usize);
                }
            }
        }
    }

    #[test]
    fn replicas_are_on_as_many_racks_as_there_are() {
        let mut brokers = brokers(6);
        for (index, broker) in brokers.iter_mut().enumerate() {
            broker.rack = Some(["a", "a", "a", "b", "b", "c"][index].to_owned());
        }
        let rack_of = |id: &BrokerId| brokers[id.0 as usize - 1].rack.clone();
        for factor in 2..=3 {
            for replicas in place(brokers.clone(), 30, factor, 0).expect("placed") {
                let racks: BTreeSet<_> = replicas.iter().map(rack_of).collect();
                assert_eq!(racks.len(), factor, "{replicas:?}");
            }
        }
    }

    #[test]
    fn a_broker_that_has_nothing_gets_the_most() {
        let mut brokers = brokers(3);
        for broker in &mut brokers[..2] {
            (broker.replicas, broker.leads) = (10, 5);
        }
        let (leads, holds) = counts(&place(brokers, 5, 1, 0).expect("placed"));
        assert_eq!((leads, holds), (BTreeMap::from([(3, 5)]), BTreeMap::from([(3, 5)])));
    }

    #[test]
    fn what_cannot_be_placed_is_refused() {
        let refused = |partitions, factor| place(brokers(2), partitions, factor, 0).unwrap_err();
        assert!(matches!(refused(0, 1), ClusterError::InvalidPartitions(_)));
        assert!(matches!(refused(MAX_PARTITIONS + 1, 1), ClusterError::InvalidPartitions(_)));
        assert!(matches!(refused(1, 0), ClusterError::InvalidReplicationFactor(_)));
        assert!(matches!(refused(1, 3), ClusterError::InvalidReplicationFactor(_)));
    }
}
