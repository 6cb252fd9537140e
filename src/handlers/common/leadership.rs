//! Leader epochs as requests and answers carry them: fencing (KIP-320), and the current leader in
//! answers that send a client elsewhere (KIP-951).

use cluster::metadata::MetadataImage;
use cluster::replica::Replica;
use protocol::error_code::ErrorCode;
use protocol::types::{BrokerId, LeaderEpoch, Offset};

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
    check_leader_epoch(believed, replica.leadership().leader_epoch)?;
    if replica.is_leader() { Ok(()) } else { Err(ErrorCode::NotLeaderOrFollower) }
}

/// The largest epoch that is not above `epoch`, and where it ends. A leader knows of its own epoch
/// before it has appended anything in it; of later ones it knows nothing.
#[must_use]
pub fn end_offset_for_epoch(
    replica: &Replica,
    epoch: LeaderEpoch,
) -> Option<(LeaderEpoch, Offset)> {
    let current = replica.leadership().leader_epoch;
    match epoch.cmp(&current) {
        std::cmp::Ordering::Greater => None,
        std::cmp::Ordering::Equal => Some((epoch, replica.offsets().log_end_offset)),
        std::cmp::Ordering::Less => replica.end_offset_for_epoch(epoch),
    }
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

/// Address of a broker, for the `node_endpoints` of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// Which broker.
    pub id: BrokerId,
    /// As it is advertised on the client's listener.
    pub host: String,
    /// As it is advertised on the client's listener.
    pub port: u16,
    /// Its rack.
    pub rack: Option<String>,
}

/// Where clients of `listener` reach `broker`, if it is alive and has that listener.
#[must_use]
pub fn node_address(
    image: &MetadataImage,
    broker: BrokerId,
    listener: &str,
) -> Option<NodeAddress> {
    let registered = image.brokers.get(&broker)?;
    let endpoint = registered.endpoints.iter().find(|endpoint| endpoint.listener == listener)?;
    Some(NodeAddress {
        id: broker,
        host: endpoint.host.clone(),
        port: endpoint.port,
        rack: registered.rack.clone(),
    })
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
