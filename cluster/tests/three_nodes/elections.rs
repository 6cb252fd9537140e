//! Who leads and who follows is known everywhere; preferred replicas lead again when asked.

use std::time::Duration;

use cluster::replica::Leadership;
use cluster::{AppendError, ElectionOutcome};
use protocol::types::{BrokerId, Offset, PartitionId};

use crate::harness::{
    IDS, Node, PATIENCE, Place, TOPIC, append, batch, create_topic, create_topic_on, eventually,
    remove_leader, start_all,
};

/// `None` as long as the node has not heard of the topic.
fn seen_by(node: &Node) -> Option<Leadership> {
    let image = node.cluster.metadata();
    let partition = image.topic_by_id(TOPIC)?.partition(PartitionId(0))?;
    Some(node.cluster.leadership(TOPIC, partition))
}

async fn see(what: &str, node: &Node, check: impl Fn(&Leadership) -> bool) -> Leadership {
    let seen = || seen_by(node).filter(|leadership| check(leadership));
    eventually(what, seen).await
}

fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leads_is_known_where_there_is_no_replica() {
    let place = Place::new(Duration::from_millis(400));
    let mut nodes = start_all(&place).await;
    create_topic_on(&nodes[0], &[&[1, 2]]).await.expect("created");
    let outsider = nodes.iter().position(|n| n.cluster.broker_id() == BrokerId(3));
    let outsider = nodes.remove(outsider.expect("there"));
    let in_sync = |l: &Leadership| l.leader.is_some() && l.in_sync_replicas == brokers(&[1, 2]);
    let before = see("leader with its follower", &outsider, in_sync).await;
    assert_eq!(append(&nodes, "a").await, Offset(0));
    assert_eq!(seen_by(&outsider).expect("known").leader, before.leader);

    let gone = remove_leader(&mut nodes);
    let gone_id = gone.cluster.broker_id();
    gone.stop().await;
    let left = |l: &Leadership| l.in_sync_replicas.len() == 1 && l.leader != Some(gone_id);
    let after = see("replica that is left", &outsider, left).await;
    assert!(!outsider.cluster.is_alive(gone_id) && !after.in_sync_replicas.contains(&gone_id));
    assert!(after.leader_epoch >= before.leader_epoch);

    let back = Node::start(&place, gone_id.0).await;
    back.join().await;
    nodes.push(back);
    see("both in sync again", &outsider, in_sync).await;
    assert!(outsider.cluster.is_alive(gone_id));
    for node in nodes.into_iter().chain([outsider]) {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_preferred_replica_leads_again_when_asked() {
    let place = Place::new(Duration::from_millis(400));
    let mut nodes = start_all(&place).await;
    create_topic(&nodes[0]).await.expect("created");
    assert_eq!(append(&nodes, "before").await, Offset(0));
    let partition = vec![(TOPIC, PartitionId(0))];
    let elect = async |node: &Node| node.cluster.elect_preferred(partition.clone(), PATIENCE).await;
    assert_eq!(elect(&nodes[0]).await, [ElectionOutcome::NotNeeded]);

    let preferred = nodes.iter().position(|n| n.cluster.broker_id() == BrokerId(1));
    nodes.remove(preferred.expect("there")).stop().await;
    see("leader that is left", &nodes[0], |l| l.leader.is_some_and(|id| id != BrokerId(1))).await;
    see("absence", &nodes[0], |l| !l.in_sync_replicas.contains(&BrokerId(1))).await;
    assert_eq!(elect(&nodes[0]).await, [ElectionOutcome::NotAvailable]);

    let back = Node::start(&place, 1).await;
    back.join().await;
    nodes.push(back);
    for node in &nodes {
        see("all in sync", node, |l| l.in_sync_replicas == brokers(&IDS)).await;
    }
    // Any broker can be asked, also one that neither leads nor shall.
    let follower = nodes
        .iter()
        .find(|n| n.cluster.broker_id() != BrokerId(1) && !n.replica().expect("there").is_leader());
    assert_eq!(elect(follower.expect("one follows")).await, [ElectionOutcome::Elected]);
    assert_eq!(append(&nodes, "after").await, Offset(1));
    assert_eq!(elect(&nodes[0]).await, [ElectionOutcome::NotNeeded]);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leadership_is_balanced_again_after_a_broker_has_come_back() {
    let mut place = Place::new(Duration::from_millis(400));
    place.rebalance_interval = Some(Duration::from_millis(300));
    let mut nodes = start_all(&place).await;
    create_topic(&nodes[0]).await.expect("created");
    see("preferred leader", &nodes[0], |l| l.leader == Some(BrokerId(1))).await;
    let preferred = nodes.iter().position(|n| n.cluster.broker_id() == BrokerId(1));
    nodes.remove(preferred.expect("there")).stop().await;
    see("other leader", &nodes[0], |l| l.leader.is_some_and(|id| id != BrokerId(1))).await;
    let back = Node::start(&place, 1).await;
    back.join().await;
    nodes.push(back);
    see("preferred leader", &nodes[0], |l| l.leader == Some(BrokerId(1))).await;
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_who_wants_all_replicas_needs_min_insync_replicas() {
    let mut place = Place::new(Duration::from_millis(400));
    place.min_insync_replicas = 3;
    let mut nodes = start_all(&place).await;
    create_topic(&nodes[0]).await.expect("created");
    for node in &nodes {
        see("all in sync", node, |l| l.in_sync_replicas == brokers(&IDS)).await;
    }
    assert_eq!(append(&nodes, "all").await, Offset(0));
    let leader = remove_leader(&mut nodes);
    nodes.pop().expect("a follower").stop().await;
    see("two in sync", &leader, |l| l.in_sync_replicas.len() == 2).await;
    let replica = leader.replica().expect("there");
    let refused = replica.append(batch("all")).committed().await;
    assert!(matches!(refused, Err(AppendError::NotEnoughReplicas)), "{refused:?}");
    let written = replica.append_to_leader(batch("one")).written().await.expect("written");
    assert_eq!(written.base_offset, Offset(1));
    for node in nodes.into_iter().chain([leader]) {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_but_one_hands_over_to_the_last_and_not_to_the_dead() {
    // Nobody stands for election by himself while this test runs.
    let place = Place::new(10 * PATIENCE);
    let mut nodes = start_all(&place).await;
    create_topic(&nodes[0]).await.expect("created");
    assert_eq!(append(&nodes, "before").await, Offset(0));
    let leader = remove_leader(&mut nodes);
    assert_eq!(leader.cluster.broker_id(), BrokerId(1));
    // The next in line is dead, and nobody has had the time to miss its answers.
    let next = nodes.iter().position(|n| n.cluster.broker_id() == BrokerId(2));
    nodes.remove(next.expect("there")).abort().await;
    let dead = BrokerId(2);
    eventually("notice of death", || (!leader.cluster.is_alive(dead)).then_some(())).await;
    leader.stop().await;
    let last = nodes.pop().expect("the last one");
    let leads = last.replica().expect("there").leadership().leader == Some(BrokerId(3));
    assert!(leads, "{:?}", last.replica().expect("there").leadership());
    last.stop().await;
}
