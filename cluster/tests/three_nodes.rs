//! Three nodes in one process, over real sockets and real files: they find each other in any
//! order, any of them takes commands, and what was acknowledged outlives one of them.

#[path = "three_nodes/deafness.rs"]
mod deafness;
#[path = "three_nodes/elections.rs"]
mod elections;
#[path = "three_nodes/harness.rs"]
mod harness;
#[path = "three_nodes/lost_disk.rs"]
mod lost_disk;
#[path = "three_nodes/reassignment.rs"]
mod reassignment;
#[path = "three_nodes/throttle.rs"]
mod throttle;
#[path = "three_nodes/unclean.rs"]
mod unclean;

use std::time::Duration;

use cluster::ClusterError;
use protocol::types::Offset;

use harness::{
    Node, PATIENCE, Place, append, bytes_of, create_topic, remove_leader, start_all,
    wait_for_high_watermark,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_the_leader() {
    let place = Place::new(Duration::from_millis(400));
    let mut nodes = start_all(&place).await;
    let cluster_id = nodes[0].cluster.metadata().cluster_id.clone();
    assert!(!cluster_id.is_empty());

    // Any of them takes a command, and has what it made when it answers.
    let follower = nodes.iter().find(|n| n.cluster.controller() != Some(n.cluster.broker_id()));
    let follower = follower.expect("two follow");
    create_topic(follower).await.expect("created");
    assert!(follower.replica().is_some());
    assert_eq!(create_topic(follower).await, Err(ClusterError::TopicExists("t".into())));

    for n in 0..20 {
        assert_eq!(append(&nodes, &format!("before {n}")).await, Offset(n));
    }
    let stopped = remove_leader(&mut nodes);
    let stopped_id = stopped.cluster.broker_id().0;
    stopped.stop().await;
    for n in 20..40 {
        assert_eq!(append(&nodes, &format!("after {n}")).await, Offset(n));
    }

    let back = Node::start(&place, stopped_id).await;
    back.join().await;
    nodes.push(back);
    for node in &nodes {
        wait_for_high_watermark(node, Offset(40)).await;
        assert_eq!(node.cluster.metadata().cluster_id, cluster_id);
    }
    let bytes: Vec<_> = nodes.iter().map(bytes_of).collect();
    assert!(bytes[0].len() > 40 * 60 && bytes.iter().all(|other| *other == bytes[0]));
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_goes_down_hands_over_what_it_leads() {
    // Nobody stands for election by himself while this test runs.
    let place = Place::new(10 * PATIENCE);
    let mut nodes = start_all(&place).await;
    create_topic(&nodes[0]).await.expect("created");
    assert_eq!(append(&nodes, "before").await, Offset(0));
    remove_leader(&mut nodes).stop().await;
    let appended = tokio::time::timeout(PATIENCE, append(&nodes, "after")).await;
    assert_eq!(appended.expect("another leads"), Offset(1));
    assert!(nodes.iter().any(|n| n.cluster.controller() == Some(n.cluster.broker_id())));
    for node in nodes {
        node.stop().await;
    }
}
