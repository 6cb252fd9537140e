//! A replica that is added to a throttled partition is caught up at the rate, and nobody waits for
//! it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cluster::metadata::MetadataCommand;
use cluster::replica::ThrottledReplicas;
use protocol::types::{BrokerId, Offset};

use crate::harness::{Node, Place, append, create_topic_on, start_all};
use crate::reassignment::{check_same, partition, reassign, wait_until_on};

const RECORD_BYTES: usize = 64 * 1024;
const RECORDS: i64 = 48;
/// What goes out at once, so what may go out before anything has been waited for.
const MESSAGE_BYTES: u64 = 1024 * 1024;

async fn set_rate(node: &Node, key: &str, rate: Option<u64>) {
    let configs: BTreeMap<_, _> =
        rate.iter().map(|rate| (key.to_owned(), rate.to_string())).collect();
    let command = MetadataCommand::SetBrokerConfigs { broker: None, configs };
    node.cluster.submit(command).await.expect("set");
}

#[allow(clippy::disallowed_methods, reason = "a rate has to be seen to be kept")]
async fn is_caught_up_at_the_rate(key: &str) {
    let mut place = Place::new(Duration::from_millis(400));
    place.throttled = ThrottledReplicas::All;
    let nodes = start_all(&place).await;
    create_topic_on(&nodes[0], &[&[1]]).await.expect("created");
    let value = "v".repeat(RECORD_BYTES);
    for n in 0..RECORDS {
        assert_eq!(append(&nodes, &value).await, Offset(n));
    }
    // An hour for what there is: whoever waited for it would be seen to.
    set_rate(&nodes[0], key, Some(1_000)).await;
    let began_at = Instant::now();
    reassign(&nodes[0], Some(&[1, 2])).await.expect("accepted");
    for n in 0..10 {
        assert_eq!(append(&nodes, "meanwhile").await, Offset(RECORDS + n));
    }
    assert!(partition(&nodes[0]).expect("there").is_reassigning());
    let rate = 2 * MESSAGE_BYTES;
    set_rate(&nodes[0], key, Some(rate)).await;
    wait_until_on(&nodes, &[1, 2]).await;
    let waited_for = (RECORDS as u64 * RECORD_BYTES as u64 - MESSAGE_BYTES) * 1_000 / rate;
    assert!(began_at.elapsed() >= Duration::from_millis(waited_for), "{:?}", began_at.elapsed());
    check_same(&nodes, &[1, 2], Offset(RECORDS + 10)).await;

    // Who is in sync is not slowed, whatever is set.
    set_rate(&nodes[0], key, Some(1)).await;
    for n in 10..20 {
        assert_eq!(append(&nodes, &value).await, Offset(RECORDS + n));
    }
    check_same(&nodes, &[1, 2], Offset(RECORDS + 20)).await;
    // The rate is gone while a replica waits for it.
    reassign(&nodes[0], Some(&[1, 2, 3])).await.expect("accepted");
    set_rate(&nodes[0], key, None).await;
    wait_until_on(&nodes, &[1, 2, 3]).await;
    let node = &nodes[0];
    assert_eq!(node.cluster.metadata().dynamic_broker_config(BrokerId(1), key), None);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_keeps_its_rate() {
    is_caught_up_at_the_rate("leader.replication.throttled.rate").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_keeps_its_rate() {
    is_caught_up_at_the_rate("follower.replication.throttled.rate").await;
}
