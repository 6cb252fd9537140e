//! Leader epochs as requests and answers carry them: fencing (KIP-320), and the current leader in
//! answers that send a client elsewhere (KIP-951).

use cluster::replica::Replica;
use protocol::error_code::ErrorCode;
use protocol::types::{BrokerId, LeaderEpoch};

use super::nodes::Node;

/// An epoch of a request; -1 says "not known". Any other is compared, also a negative one.
#[must_use]
pub fn epoch_from_wire(epoch: i32) -> Option<LeaderEpoch> {
    (epoch != LeaderEpoch::UNKNOWN.0).then_some(LeaderEpoch(epoch))
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

/// The brokers that an answer's rows send the client to, each once.
#[derive(Debug)]
pub struct NamedLeaders<'a> {
    reachable: &'a [Node],
    named: Vec<&'a Node>,
}

impl<'a> NamedLeaders<'a> {
    /// None yet; `reachable` are the brokers that the client may be sent to.
    #[must_use]
    pub fn among(reachable: &'a [Node]) -> NamedLeaders<'a> {
        NamedLeaders { reachable, named: Vec::new() }
    }

    /// A row has named this leader.
    pub fn name(&mut self, leader: &CurrentLeader) {
        if self.named.iter().any(|node| node.id == leader.leader) {
            return;
        }
        self.named.extend(self.reachable.iter().find(|node| node.id == leader.leader));
    }

    /// Where those that were named are reached, as the answer's own type.
    pub fn endpoints<E>(self, endpoint: impl Fn(&Node) -> E) -> Vec<E> {
        self.named.into_iter().map(endpoint).collect()
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
    fn minus_one_is_no_epoch() {
        assert_eq!(epoch_from_wire(-1), None);
        assert_eq!(epoch_from_wire(-2), Some(LeaderEpoch(-2)));
        assert_eq!(epoch_from_wire(0), Some(LeaderEpoch(0)));
    }
}
