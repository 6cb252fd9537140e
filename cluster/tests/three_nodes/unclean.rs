//! A partition whose majority is gone: one replica goes on alone when told to, and who comes back
//! follows it.

use std::time::Duration;

use cluster::ElectionOutcome;
use protocol::types::{BrokerId, LeaderEpoch, Offset, PartitionId};

use crate::harness::{
    Node, PATIENCE, Place, TOPIC, append, batch, bytes_of, create_topic, create_topic_on,
    eventually, start_all, wait_for_high_watermark,
};
use crate::reassignment::{partition, wait_until_on};

async fn elect(node: &Node) -> ElectionOutcome {
    node.cluster.elect_unclean(TOPIC, PartitionId(0), true, PATIENCE).await
}

fn take(nodes: &mut Vec<Node>, id: i32) -> Node {
    let place = nodes.iter().position(|node| node.cluster.broker_id() == BrokerId(id));
    nodes.remove(place.expect("there"))
}

async fn see_gone(nodes: &[Node], id: i32) {
    for node in nodes {
        eventually("absence", || (!node.cluster.is_alive(BrokerId(id))).then_some(())).await;
    }
}

async fn start_again(place: &Place, nodes: &mut Vec<Node>, id: i32) {
    let back = Node::start(place, id).await;
    back.join().await;
    nodes.push(back);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_dead_had_is_gone_and_they_follow_when_they_are_back() {
    let place = Place::new(Duration::from_millis(400));
    let mut nodes = start_all(&place).await;
    create_topic_on(&nodes[0], &[&[1, 2]]).await.expect("created");
    for n in 0..10 {
        assert_eq!(append(&nodes, &format!("both {n}")).await, Offset(n));
    }
    assert_eq!(elect(&nodes[0]).await, ElectionOutcome::NotNeeded);
    // The one has something that the other has not, when it dies.
    take(&mut nodes, 2).abort().await;
    let first = nodes.iter().find(|node| node.cluster.broker_id() == BrokerId(1)).expect("there");
    let replica = first.replica().expect("there");
    eventually("leader", || replica.is_leader().then_some(())).await;
    let written = replica.append_to_leader(batch("one alone")).written().await.expect("written");
    assert_eq!(written.base_offset, Offset(10));
    let epoch = replica.leadership().leader_epoch;
    drop(replica);
    start_at_once(&place, &mut nodes, 2, 1).await;
    see_gone(&nodes, 1).await;

    assert_eq!(elect(&nodes[0]).await, ElectionOutcome::Elected);
    for n in 10..20 {
        assert_eq!(append(&nodes, &format!("survivor {n}")).await, Offset(n));
    }
    let second = nodes.iter().find(|node| node.cluster.broker_id() == BrokerId(2)).expect("there");
    let survivor = second.replica().expect("there").leadership();
    assert_eq!(survivor.leader, Some(BrokerId(2)));
    assert!(survivor.leader_epoch > LeaderEpoch(epoch.0 + 900), "{survivor:?}");
    assert!(partition(second).expect("there").is_reassigning());

    start_again(&place, &mut nodes, 1).await;
    wait_until_on(&nodes, &[1, 2]).await;
    let both: Vec<_> = nodes.iter().filter(|node| node.replica().is_some()).collect();
    for node in &both {
        wait_for_high_watermark(node, Offset(20)).await;
    }
    let bytes = bytes_of(both[0]);
    assert_eq!(bytes, bytes_of(both[1]));
    assert!(!bytes.windows(9).any(|part| part == b"one alone"), "it was lost, and comes back");

    // From here on it is a group of two as any other: the survivor may go, and come back.
    assert_eq!(elect(&nodes[0]).await, ElectionOutcome::NotNeeded);
    take(&mut nodes, 2).abort().await;
    start_again(&place, &mut nodes, 2).await;
    assert_eq!(append(&nodes, "after").await, Offset(20));
    for node in nodes {
        node.stop().await;
    }
}

/// Starts a node while another one dies, so that what that one has never gets there.
async fn start_at_once(place: &Place, nodes: &mut Vec<Node>, start: i32, abort: i32) {
    take(nodes, abort).abort().await;
    start_again(place, nodes, start).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_left_alone_goes_on_when_told_to_also_after_a_restart() {
    let place = Place::new(Duration::from_millis(400));
    let mut nodes = start_all(&place).await;
    create_topic_on(&nodes[0], &[&[1, 2]]).await.expect("created");
    assert_eq!(append(&nodes, "both").await, Offset(0));
    take(&mut nodes, 2).abort().await;
    see_gone(&nodes, 2).await;
    let outsider = nodes.iter().find(|node| node.cluster.broker_id() == BrokerId(3));
    assert_eq!(elect(outsider.expect("there")).await, ElectionOutcome::Elected);
    assert_eq!(append(&nodes, "alone").await, Offset(1));
    take(&mut nodes, 1).abort().await;
    start_again(&place, &mut nodes, 1).await;
    assert_eq!(append(&nodes, "still alone").await, Offset(2));
    start_again(&place, &mut nodes, 2).await;
    wait_until_on(&nodes, &[1, 2]).await;
    for node in nodes.iter().filter(|node| node.replica().is_some()) {
        wait_for_high_watermark(node, Offset(3)).await;
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_goes_on_alone_while_a_majority_is_there() {
    let place = Place::new(Duration::from_millis(400));
    let mut nodes = start_all(&place).await;
    create_topic(&nodes[0]).await.expect("created");
    assert_eq!(append(&nodes, "all").await, Offset(0));
    take(&mut nodes, 3).abort().await;
    see_gone(&nodes, 3).await;
    assert_ne!(elect(&nodes[0]).await, ElectionOutcome::Elected);
    assert_eq!(partition(&nodes[0]).expect("there").survivor, None);
    assert_eq!(append(&nodes, "two").await, Offset(1));
    for node in nodes {
        node.stop().await;
    }
}
