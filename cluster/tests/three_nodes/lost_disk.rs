//! A node that comes back without its disk has no say until it has caught up.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::metadata::MetadataCommand;
use protocol::types::{BrokerId, Offset, TopicId};
use uuid::Uuid;

use crate::harness::{
    Node, Place, append, bytes_of, create_topic, eventually, open_store, start_all,
    wait_for_high_watermark,
};

const ELECTION: Duration = Duration::from_millis(400);

fn take(nodes: &mut Vec<Node>, id: i32) -> Node {
    let at = nodes.iter().position(|node| node.cluster.broker_id() == BrokerId(id));
    nodes.remove(at.expect("there"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_lost_its_disk_does_not_elect_who_was_away() {
    let place = Place::new(ELECTION);
    let mut nodes = start_all(&place).await;
    create_topic(&nodes[0]).await.expect("created");
    assert_eq!(append(&nodes, "held by all").await, Offset(0));
    take(&mut nodes, 1).abort().await;
    // From here on only 2 and 3 have what is acknowledged.
    assert_eq!(append(&nodes, "held by two").await, Offset(1));
    let name = String::from("later");
    let (id, assignment) = (TopicId(Uuid::from_u128(8)), vec![vec![BrokerId(2)]]);
    let later = MetadataCommand::CreateTopic { name, id, assignment, configs: BTreeMap::new() };
    nodes[0].cluster.submit(later).await.expect("created");
    take(&mut nodes, 2).abort().await;
    take(&mut nodes, 3).abort().await;
    // Once the last task of the node has let go of it.
    open_store(&place.dir_of(3)).await.close().expect("closed");
    std::fs::remove_dir_all(place.dir_of(3)).expect("its disk is gone");

    nodes.push(Node::start(&place, 1).await);
    nodes.push(Node::start(&place, 3).await);
    // Time enough for many elections.
    tokio::time::sleep(20 * ELECTION).await;
    for node in &nodes {
        assert_eq!(node.cluster.controller(), None);
        assert!(node.replica().is_none_or(|replica| !replica.is_leader()));
    }
    nodes.push(Node::start(&place, 2).await);
    for node in &nodes {
        node.join().await;
    }
    assert_eq!(append(&nodes, "held by all again").await, Offset(2));
    for node in &nodes {
        wait_for_high_watermark(node, Offset(3)).await;
        let bytes = bytes_of(node);
        assert!(bytes.windows(11).any(|at| at == b"held by two"));
        eventually("topic", || node.cluster.metadata().topic("later").map(|_| ())).await;
    }

    // It has its say again: with another one away, and that one gone for good.
    take(&mut nodes, 2).abort().await;
    assert_eq!(append(&nodes, "held by 1 and 3").await, Offset(3));
    take(&mut nodes, 1).abort().await;
    nodes.push(Node::start(&place, 2).await);
    assert_eq!(append(&nodes, "held by 3 and 2").await, Offset(4));
    for node in nodes {
        node.stop().await;
    }
}
