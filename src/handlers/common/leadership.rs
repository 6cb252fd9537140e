//! Leader epochs as requests and answers carry them: fencing (KIP-320), and the current leader in
//! answers that send a client elsewhere (KIP-951).

use cluster::replica::Replica;
use protocol::error_code::ErrorCode;
use protocol::types::{BrokerId, LeaderEpoch};

/// An epoch of a request; negative says "not known".
#[must_use]
pub fn epoch_from_wire(epoch: i32) -> Option<LeaderEpoch> {
    (epoch >= 0).then_some(LeaderEpoch(epoch))
}

/// Compares the epoch that the client believes in with the partition's
/// (Kafka: `Partition.checkCurrentLeaderEpoch`).
pub fn check_leader_epoch(
    believed: Option<LeaderEpoch>,
    current: LeaderEpoch,
) -> Result<(), ErrorCode> {
    match believed {
        Some(believed) if believed < current => Err(ErrorCode::FencedLeaderEpoch),
        Some(believed) if believed > current => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}

/// Epoch first, then leadership, as Kafka checks them (`Partition.getLocalLog`).
pub fn check_leader(replica: &Replica, believed: Option<LeaderEpoch>) -> Result<(), ErrorCode> {
    check_leader_epoch(believed, replica.offsets().leader_epoch)?;
    if replica.is_leader() { Ok(()) } else { Err(ErrorCode::NotLeaderOrFollower) }
}

/// Where a client that came to the wrong broker should go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentLeader {
    /// The leader, as far as this broker knows.
    pub leader: BrokerId,
    /// Its epoch.
    pub leader_epoch: LeaderEpoch,
}

impl CurrentLeader {
    /// As the replica knows it; `None` while there is no leader.
    #[must_use]
    pub fn of(replica: &Replica) -> Option<CurrentLeader> {
        let leadership = replica.leadership();
        let leader_epoch = leadership.leader_epoch;
        leadership.leader.map(|leader| CurrentLeader { leader, leader_epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_leader_epoch_is_fenced_and_a_later_one_is_unknown() {
        let current = LeaderEpoch(5);
        assert_eq!(check_leader_epoch(None, current), Ok(()));
        assert_eq!(check_leader_epoch(Some(LeaderEpoch(5)), current), Ok(()));
        let stale = check_leader_epoch(Some(LeaderEpoch(4)), current);
        assert_eq!(stale, Err(ErrorCode::FencedLeaderEpoch));
        let later = check_leader_epoch(Some(LeaderEpoch(6)), current);
        assert_eq!(later, Err(ErrorCode::UnknownLeaderEpoch));
    }

    #[test]
    fn a_negative_epoch_is_no_epoch() {
        assert_eq!(epoch_from_wire(-1), None);
        assert_eq!(epoch_from_wire(0), Some(LeaderEpoch(0)));
    }
}
