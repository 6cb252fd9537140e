//! Partitions move from brokers to brokers, with their records and while they are appended to.

use std::time::Duration;

use bytes::Bytes;
use cluster::ClusterError;
use cluster::metadata::{MetadataCommand, PartitionImage};
use protocol::types::{BrokerId, Offset, PartitionId};

use crate::harness::{
    IDS, Node, Place, TOPIC, append, bytes_of, create_topic_on, eventually, start_all,
    wait_for_high_watermark,
};

pub async fn reassign(node: &Node, target: Option<&[i32]>) -> Result<(), ClusterError> {
    let target = target.map(|ids| ids.iter().copied().map(BrokerId).collect());
    let partition = PartitionId(0);
    let command = MetadataCommand::AlterPartitionReassignment { topic: TOPIC, partition, target };
    node.cluster.submit(command).await.map(|_| ())
}

/// `None` as long as the node has not heard of the topic.
pub fn partition(node: &Node) -> Option<PartitionImage> {
    let image = node.cluster.metadata();
    image.topic_by_id(TOPIC)?.partition(PartitionId(0)).cloned()
}

/// Waits until every node sees that the partition is where it shall be, and nowhere else.
pub async fn wait_until_on(nodes: &[Node], target: &[i32]) {
    for node in nodes {
        let id = node.cluster.broker_id();
        eventually("end of the reassignment", || {
            let partition = partition(node)?;
            let there: Vec<i32> = partition.replicas.iter().map(|id| id.0).collect();
            let is_here = target.contains(&id.0);
            let is_complete = !partition.is_reassigning() && there == target;
            (is_complete && node.replica().is_some() == is_here).then_some(())
        })
        .await;
    }
}

pub async fn check_same(nodes: &[Node], target: &[i32], end: Offset) -> Bytes {
    let here = nodes.iter().filter(|node| target.contains(&node.cluster.broker_id().0));
    let mut all = Vec::new();
    for node in here {
        wait_for_high_watermark(node, end).await;
        all.push(bytes_of(node));
    }
    assert!(all.iter().all(|bytes| *bytes == all[0]), "the replicas differ");
    all.swap_remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_moves_with_its_records_and_back_again() {
    let place = Place::new(Duration::from_millis(400));
    let nodes = start_all(&place).await;
    create_topic_on(&nodes[0], &[&[1]]).await.expect("created");
    let mut end = 0;
    let mut before = Bytes::new();
    // From one to another, to all, to one that was let go before, to two.
    for target in [&[1][..], &[2], &[3, 1, 2], &[1], &[2, 3], &[1, 2, 3]] {
        reassign(&nodes[2], Some(target)).await.expect("accepted");
        wait_until_on(&nodes, target).await;
        for _ in 0..5 {
            assert_eq!(append(&nodes, "value").await, Offset(end));
            end += 1;
        }
        let bytes = check_same(&nodes, target, Offset(end)).await;
        assert!(bytes.starts_with(&before), "what was there has changed");
        before = bytes;
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_acknowledged_while_replicas_change_is_kept() {
    let place = Place::new(Duration::from_millis(400));
    let nodes = start_all(&place).await;
    create_topic_on(&nodes[0], &[&[1, 2]]).await.expect("created");
    let changes = async {
        for target in [&[2, 3][..], &[1], &[3, 2, 1], &[2]] {
            reassign(&nodes[0], Some(target)).await.expect("accepted");
            wait_until_on(&nodes, target).await;
        }
    };
    let appends = async {
        let mut offsets = Vec::new();
        loop {
            offsets.push(append(&nodes, &format!("value {}", offsets.len())).await);
            let now = partition(&nodes[0]).expect("it exists");
            if now.replicas == [BrokerId(2)] && !now.is_reassigning() {
                return offsets;
            }
        }
    };
    let ((), offsets) = tokio::join!(changes, appends);
    assert!(offsets.is_sorted() && offsets.len() > 10, "{} appends", offsets.len());
    let last = *offsets.last().expect("many");
    let bytes = check_same(&nodes, &[2], last.plus(1)).await;
    for n in 0..offsets.len() {
        let value = format!("value {n}");
        assert!(bytes.windows(value.len()).any(|at| at == value.as_bytes()), "{value} is lost");
    }
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reassignment_that_cannot_end_is_cancelled() {
    let place = Place::new(Duration::from_millis(400));
    let mut nodes = start_all(&place).await;
    create_topic_on(&nodes[0], &[&[1, 2]]).await.expect("created");
    assert_eq!(append(&nodes, "before").await, Offset(0));
    assert_eq!(reassign(&nodes[0], None).await, Err(ClusterError::NoReassignment));
    let gone = nodes.iter().position(|node| node.cluster.broker_id() == BrokerId(3));
    nodes.remove(gone.expect("there")).stop().await;

    reassign(&nodes[0], Some(&[3, 1])).await.expect("accepted");
    let under_way = partition(&nodes[0]).expect("it exists");
    assert_eq!(under_way.replicas, [3, 1, 2].map(BrokerId));
    assert_eq!((under_way.adding, under_way.removing), (vec![BrokerId(3)], vec![BrokerId(2)]));
    assert_eq!(append(&nodes, "meanwhile").await, Offset(1));
    reassign(&nodes[0], None).await.expect("accepted");
    wait_until_on(&nodes, &[1, 2]).await;
    assert_eq!(append(&nodes, "after").await, Offset(2));
    let back = Node::start(&place, 3).await;
    back.join().await;
    nodes.push(back);
    wait_until_on(&nodes, &[1, 2]).await;
    let refused = reassign(&nodes[0], Some(&[1, 7])).await;
    assert!(matches!(refused, Err(ClusterError::InvalidReplicaAssignment(_))), "{refused:?}");
    assert_eq!(IDS.len(), nodes.len());
    for node in nodes {
        node.stop().await;
    }
}
