//! Who leads a partition and who follows, as metadata answers say it.

use cluster::metadata::{PartitionImage, TopicImage};
use cluster::replica::handle::Leadership;
use protocol::error_code::ErrorCode;
use protocol::types::{BrokerId, LeaderEpoch};

use super::nodes::Node;
use crate::context::Services;

/// A partition's leader and replicas, for one client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    /// None, or that there is no leader that the client can reach.
    pub error: ErrorCode,
    /// -1 = none.
    pub leader: BrokerId,
    /// The leader's term.
    pub leader_epoch: LeaderEpoch,
    /// Replicas that follow closely.
    pub in_sync_replicas: Vec<BrokerId>,
    /// Replicas whose broker is not there.
    pub offline_replicas: Vec<BrokerId>,
}

/// Looks at what this broker knows, of partitions without a replica here as well.
#[must_use]
pub fn partition_state(
    services: &Services,
    topic: &TopicImage,
    partition: &PartitionImage,
    nodes: &[Node],
) -> PartitionState {
    seen_by_client(services.cluster.leadership(topic.id, partition), partition, nodes)
}

fn seen_by_client(
    leadership: Leadership,
    partition: &PartitionImage,
    nodes: &[Node],
) -> PartitionState {
    let reachable = |id: &BrokerId| nodes.iter().any(|node| node.id == *id);
    let (error, leader) = match leadership.leader {
        None => (ErrorCode::LeaderNotAvailable, BrokerId(-1)),
        Some(leader) if !reachable(&leader) => (ErrorCode::ListenerNotFound, BrokerId(-1)),
        Some(leader) => (ErrorCode::None, leader),
    };
    PartitionState {
        error,
        leader,
        leader_epoch: leadership.leader_epoch,
        in_sync_replicas: leadership.in_sync_replicas,
        offline_replicas: partition.replicas.iter().copied().filter(|id| !reachable(id)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::types::PartitionId;

    fn state(leader: Option<i32>, nodes: &[i32]) -> PartitionState {
        let partition = PartitionImage {
            id: PartitionId(0),
            group: 1,
            replicas: vec![BrokerId(1), BrokerId(2)],
            ..PartitionImage::default()
        };
        let leadership = Leadership {
            leader: leader.map(BrokerId),
            leader_epoch: LeaderEpoch(3),
            in_sync_replicas: vec![BrokerId(1)],
        };
        let node = |id: &i32| Node { id: BrokerId(*id), host: "h".into(), port: 1, rack: None };
        seen_by_client(leadership, &partition, &nodes.iter().map(node).collect::<Vec<_>>())
    }

    #[test]
    fn a_leader_that_the_client_can_reach_is_named() {
        let state = state(Some(1), &[1, 2]);
        assert_eq!((state.error, state.leader), (ErrorCode::None, BrokerId(1)));
        assert_eq!((state.leader_epoch, state.offline_replicas), (LeaderEpoch(3), vec![]));
    }

    #[test]
    fn a_leader_that_the_client_cannot_reach_is_none() {
        let unreachable = state(Some(2), &[1]);
        assert_eq!(unreachable.error, ErrorCode::ListenerNotFound);
        assert_eq!(
            (unreachable.leader, unreachable.offline_replicas),
            (BrokerId(-1), vec![BrokerId(2)])
        );
        assert_eq!(state(None, &[1, 2]).error, ErrorCode::LeaderNotAvailable);
    }
}
