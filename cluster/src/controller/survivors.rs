//! Which replica goes on alone when the majority of a partition's Raft group is gone.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::types::BrokerId;
use serde::{Deserialize, Serialize};

use crate::metadata::PartitionImage;

/// What a replica has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct LogEnd {
    /// Term and index of its last entry.
    pub(crate) last: (u64, u64),
    /// The latest term that it knows of.
    pub(crate) term: u64,
}

/// The replicas of which one could go on alone; `None` where a majority is there, which elects a
/// leader by itself.
pub(crate) fn candidates(
    partition: &PartitionImage,
    is_alive: impl Fn(BrokerId) -> bool,
) -> Option<Vec<BrokerId>> {
    // While replicas change, the voters are the ones, the others, or both.
    for voters in [partition.settled_replicas(), partition.target_replicas()] {
        if voters.iter().filter(|id| is_alive(**id)).count() > voters.len() / 2 {
            return None;
        }
    }
    Some(partition.settled_replicas().into_iter().filter(|id| is_alive(*id)).collect())
}

/// The one that has most; of those that have the same the preferred one.
pub(crate) fn survivor(ends: &[(BrokerId, LogEnd)]) -> Option<BrokerId> {
    let mut best: Option<&(BrokerId, LogEnd)> = None;
    for end in ends {
        if best.is_none_or(|best| end.1.last > best.1.last) {
            best = Some(end);
        }
    }
    best.map(|(id, _)| *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn partition(replicas: &[i32], adding: &[i32], removing: &[i32]) -> PartitionImage {
        PartitionImage {
            replicas: ids(replicas),
            adding: ids(adding),
            removing: ids(removing),
            ..PartitionImage::default()
        }
    }

    fn found(partition: &PartitionImage, alive: &[i32]) -> Option<Vec<BrokerId>> {
        candidates(partition, |id| alive.contains(&id.0))
    }

    #[test]
    fn nobody_goes_on_alone_while_there_is_a_majority() {
        let three = partition(&[1, 2, 3], &[], &[]);
        assert_eq!(found(&three, &[2, 3]), None);
        assert_eq!(found(&three, &[3]), Some(ids(&[3])));
        assert_eq!(found(&three, &[]), Some(ids(&[])));
        assert_eq!(found(&partition(&[1, 2], &[], &[]), &[2]), Some(ids(&[2])));
    }

    #[test]
    fn the_new_replicas_of_a_reassignment_may_be_the_majority() {
        let moving = partition(&[4, 5, 6, 1, 2, 3], &[4, 5, 6], &[1, 2, 3]);
        assert_eq!(found(&moving, &[1, 4, 5]), None);
        assert_eq!(found(&moving, &[1, 4]), Some(ids(&[1])), "who is added may have nothing yet");
    }

    #[test]
    fn the_one_that_has_most_survives() {
        let end = |id, term, index| (BrokerId(id), LogEnd { last: (term, index), term: 9 });
        assert_eq!(survivor(&[end(1, 2, 9), end(2, 3, 1)]), Some(BrokerId(2)));
        assert_eq!(survivor(&[end(3, 2, 9), end(1, 2, 9)]), Some(BrokerId(3)));
        assert_eq!(survivor(&[]), None);
    }
}
