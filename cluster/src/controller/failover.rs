//! Who takes over from a broker whose process has ended, and to whom one that ends hands over.
//!
//! A process that dies closes its sockets. Its followers need not wait for an election timeout
//! then: once nobody listens at its address any more, the first of a group's other replicas, in
//! the order of preference, stands for election at once, and the next ones a moment later, should
//! it not win.

use std::time::Duration;

use protocol::types::BrokerId;

use super::metadata_log::MetadataLog;
use crate::limits::{HAND_OVER_TIMEOUT, TAKE_OVER_STEP};
use crate::raft::{RaftGroup, broker_id, spawn};
use crate::replica::lifecycle;
use crate::replica::registry::Registry;

/// One group with its voters, as nodes, in the order of preference.
pub(crate) struct Led {
    pub(crate) group: RaftGroup,
    pub(crate) nodes: Vec<u64>,
}

/// The groups of this broker, the metadata log's first.
pub(crate) fn groups(log: &MetadataLog, voters: &[BrokerId], registry: &Registry) -> Vec<Led> {
    let metadata = Led {
        group: log.group().clone(),
        nodes: voters.iter().copied().map(lifecycle::node_id).collect(),
    };
    let replicas = registry.all();
    let open = replicas.iter().filter_map(|replica| {
        let partition = replica.partition();
        let voters = partition.settled_replicas();
        let nodes: Vec<u64> = voters.into_iter().map(|id| partition.node_id(id)).collect();
        replica.group().filter(|_| nodes.len() > 1).map(|group| Led { group, nodes })
    });
    std::iter::once(metadata).chain(open).collect()
}

/// Takes over whatever `ended` has led, where this broker is next in line.
pub(crate) fn take_over(own: BrokerId, ended: BrokerId, groups: Vec<Led>) {
    for led in groups {
        let leader = led.group.leader_state().leader;
        let Some(leader) = leader.filter(|node| broker_id(*node) == Some(ended)) else { continue };
        let voters: Vec<BrokerId> = led.nodes.iter().copied().filter_map(broker_id).collect();
        let Some(place) = place_in_line(own, ended, &voters) else { continue };
        spawn(async move {
            tokio::time::sleep(TAKE_OVER_STEP * place).await;
            led.group.take_over_from(leader).await;
        });
    }
}

/// How many stand for election before this broker.
fn place_in_line(own: BrokerId, ended: BrokerId, voters: &[BrokerId]) -> Option<u32> {
    let mut others = voters.iter().filter(|id| **id != ended);
    others.position(|id| *id == own).and_then(|place| u32::try_from(place).ok())
}

/// Hands over everything that this broker leads to who is there, and waits until others lead it,
/// for a moment.
pub(crate) async fn hand_over_all(
    window: Duration,
    is_alive: impl Fn(BrokerId) -> bool,
    groups: Vec<Led>,
) {
    let led: Vec<Led> = groups.into_iter().filter(|led| led.group.is_leader()).collect();
    let mut handing_over = Vec::new();
    for led in &led {
        let own = led.group.node_id();
        let in_sync = led.group.in_sync(window);
        let is_there = |node: &u64| broker_id(*node).is_some_and(&is_alive);
        let candidates = led.nodes.iter().copied().filter(is_there);
        if let Some(to) = candidates.filter(|id| *id != own).find(|id| in_sync.contains(id)) {
            led.group.hand_over(to).await;
            handing_over.push(led.group.wait_for_other_leader());
        }
    }
    // The successor may need this broker's vote, so it must not go before the other has won.
    let handed_over = futures::future::join_all(handing_over);
    if tokio::time::timeout(HAND_OVER_TIMEOUT, handed_over).await.is_err() {
        tracing::warn!("some partitions were not handed over: they wait for an election");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_those_left_goes_first() {
        let voters = [3, 1, 2].map(BrokerId);
        let place = |own, ended| place_in_line(BrokerId(own), BrokerId(ended), &voters);
        assert_eq!((place(1, 3), place(2, 3)), (Some(0), Some(1)));
        assert_eq!((place(3, 1), place(2, 1)), (Some(0), Some(1)));
        assert_eq!(place(4, 1), None);
    }
}
