//! A partition whose majority is dead for good goes on with who is left, when it is told to.

use compat_tests::broker::is_kafka;
use compat_tests::requests::{CREATE_TOPICS_VERSION, METADATA_VERSION, metadata, topic_name};
use compat_tests::{Broker, Connection};
use kafka_protocol::messages::ElectLeadersRequest;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use protocol::ErrorCode;

use crate::cluster::{TOPIC, Trio, assigned, eventually};
use crate::cluster_changes::wait_until_done;
use crate::configs::alter_resource;
use crate::harness::error;

fn elect_unclean(connection: &mut Connection) -> ErrorCode {
    let topic = TopicPartitions::default().with_topic(topic_name(TOPIC)).with_partitions(vec![0]);
    let request = ElectLeadersRequest::default()
        .with_election_type(1)
        .with_topic_partitions(Some(vec![topic]))
        .with_timeout_ms(30_000);
    let answer = connection.call(2, &request);
    assert_eq!(error(answer.error_code), ErrorCode::None);
    error(answer.replica_election_results[0].partition_result[0].error_code)
}

#[test]
fn a_partition_without_a_majority_goes_on_with_one_replica_when_its_topic_allows_that() {
    if is_kafka() {
        return;
    }
    let mut trio = Trio::start();
    let created = trio.anyone().call(CREATE_TOPICS_VERSION, &assigned(TOPIC, &[&[1, 2]]));
    assert_eq!(error(created.topics[0].error_code), ErrorCode::None);
    for n in 0..10 {
        assert_eq!(trio.append(0, &format!("value {n}")), n);
    }
    let before = trio.see("leader", 3, |rows| rows[0].leader_id.0 > 0)[0].leader_epoch;
    assert_eq!(elect_unclean(&mut trio.anyone()), ErrorCode::ElectionNotNeeded);
    let killed = trio.brokers.remove(&1).expect("there").kill();
    eventually("death that is noticed", || {
        let known = trio.brokers[&3].connect().call(METADATA_VERSION, &metadata(&[], false));
        (known.brokers.len() == 2).then_some(())
    });
    let refused = elect_unclean(&mut trio.brokers[&3].connect());
    assert_eq!(refused, ErrorCode::EligibleLeadersNotAvailable);
    let allowed = [("unclean.leader.election.enable", 0, Some("true"))];
    let altered = alter_resource(&mut trio.brokers[&3].connect(), 2, TOPIC, &allowed);
    assert_eq!(altered, ErrorCode::None);

    assert_eq!(elect_unclean(&mut trio.brokers[&3].connect()), ErrorCode::None);
    for id in [2, 3] {
        trio.see("survivor that leads", id, |rows| {
            let row = &rows[0];
            let is_alone = row.isr_nodes.len() == 1 && row.offline_replicas.len() == 1;
            row.leader_id.0 == 2 && is_alone && row.leader_epoch > before + 1_000
        });
    }
    assert_eq!(trio.append(0, "without the other"), 10);
    let held = trio.brokers[&3].metric("highwater_unclean_leader_elections_total");
    assert_eq!(held, Some(1.0));
    assert!(trio.brokers[&2].log().contains("unclean leader election"));

    trio.brokers.insert(1, Broker::start(killed));
    wait_until_done(&trio);
    trio.see("both in sync", 3, |rows| rows[0].isr_nodes.len() == 2);
    assert_eq!(elect_unclean(&mut trio.anyone()), ErrorCode::ElectionNotNeeded);
    let survivor = trio.brokers.remove(&2).expect("there").kill();
    trio.brokers.insert(2, Broker::start(survivor));
    assert_eq!(trio.append(0, "after"), 11);
    let values = trio.values_of(0);
    let expected = (0..10).map(|n| format!("value {n}"));
    let expected = expected.chain(["without the other".to_owned(), "after".to_owned()]);
    assert_eq!(values, expected.collect::<Vec<_>>());
}
