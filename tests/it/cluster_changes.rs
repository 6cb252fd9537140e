//! Partitions move between processes, and processes join the cluster and leave it.

use compat_tests::broker::is_kafka;
use compat_tests::requests::{CREATE_TOPICS_VERSION, METADATA_VERSION, metadata, topic_name};
use compat_tests::{Broker, Connection};
use kafka_protocol::messages::add_raft_voter_request::Listener;
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kafka_protocol::messages::{
    AddRaftVoterRequest, AlterPartitionReassignmentsRequest, BrokerId, DescribeQuorumRequest,
    ListPartitionReassignmentsRequest, RemoveRaftVoterRequest, UnregisterBrokerRequest,
};
use protocol::ErrorCode;

use crate::cluster::{IDS, TOPIC, Trio, assigned, eventually};
use crate::configs::alter_resource;
use crate::harness::{connect, error};

fn reassign(connection: &mut Connection, partition: i32, target: Option<&[i32]>) -> ErrorCode {
    let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
    let row = ReassignablePartition::default()
        .with_partition_index(partition)
        .with_replicas(target.map(ids));
    let topic =
        ReassignableTopic::default().with_name(topic_name(TOPIC)).with_partitions(vec![row]);
    let request = AlterPartitionReassignmentsRequest::default()
        .with_timeout_ms(10_000)
        .with_topics(vec![topic]);
    let answer = connection.call(1, &request);
    assert_eq!(error(answer.error_code), ErrorCode::None);
    error(answer.responses[0].partitions[0].error_code)
}

pub fn wait_until_done(trio: &Trio) {
    let request = ListPartitionReassignmentsRequest::default().with_topics(None);
    eventually("end of the reassignments", || {
        let listed = trio.anyone().call(0, &request);
        listed.topics.is_empty().then_some(())
    });
}

#[test]
fn partitions_move_with_their_records_though_a_broker_is_killed_on_the_way() {
    if is_kafka() {
        return;
    }
    let mut trio = Trio::start();
    let placed: [&[i32]; 3] = [&[1], &[2], &[3]];
    let created = trio.anyone().call(CREATE_TOPICS_VERSION, &assigned(TOPIC, &placed));
    assert_eq!(error(created.topics[0].error_code), ErrorCode::None);
    for partition in 0..3 {
        for n in 0..20 {
            assert_eq!(trio.append(partition, &format!("value {n}")), n);
        }
    }
    let targets: [&[i32]; 3] = [&[2, 3], &[3, 1], &[1, 2]];
    for (partition, target) in (0..).zip(targets) {
        let accepted = reassign(&mut trio.brokers[&3].connect(), partition, Some(target));
        assert_eq!(accepted, ErrorCode::None);
    }
    let killed = trio.brokers.remove(&1).expect("there").kill();
    trio.brokers.insert(1, Broker::start(killed));
    wait_until_done(&trio);
    for id in IDS {
        trio.see("replicas where they shall be", id, |rows| {
            rows.iter().zip(targets).all(|(row, target)| {
                let replicas: Vec<i32> = row.replica_nodes.iter().map(|id| id.0).collect();
                replicas == target && row.isr_nodes.len() == 2 && row.leader_id.0 > 0
            })
        });
    }
    let expected: Vec<String> = (0..20).map(|n| format!("value {n}")).collect();
    for partition in 0..3 {
        assert_eq!(trio.values_of(partition), expected);
        assert_eq!(trio.append(partition, "after"), 20);
    }
    let unchanged = reassign(&mut trio.anyone(), 0, None);
    assert_eq!(unchanged, ErrorCode::NoReassignmentInProgress);
    let unknown = reassign(&mut trio.anyone(), 0, Some(&[7]));
    assert_eq!(unknown, ErrorCode::InvalidReplicaAssignment);
}

/// What `kafka-reassign-partitions --throttle` sets, and `--verify` takes back.
fn throttle(trio: &Trio, rate: Option<&str>) {
    let operation = i8::from(rate.is_none());
    let replicas = |list| rate.map(|_| list);
    let set = |id: i32, kind, name: &str, changes: &[(&str, i8, Option<&str>)]| {
        let altered = alter_resource(&mut trio.brokers[&id].connect(), kind, name, changes);
        assert_eq!(altered, ErrorCode::None);
    };
    let leaders = ("leader.replication.throttled.replicas", operation, replicas("0:1"));
    let followers = ("follower.replication.throttled.replicas", operation, replicas("0:2"));
    set(3, 2, TOPIC, &[leaders, followers]);
    for id in IDS {
        let leader = ("leader.replication.throttled.rate", operation, rate);
        let follower = ("follower.replication.throttled.rate", operation, rate);
        set(id, 4, &id.to_string(), &[leader, follower]);
    }
}

#[test]
fn a_reassignment_waits_for_its_throttle_and_producers_do_not() {
    if is_kafka() {
        return;
    }
    let trio = Trio::start();
    let created = trio.anyone().call(CREATE_TOPICS_VERSION, &assigned(TOPIC, &[&[1]]));
    assert_eq!(error(created.topics[0].error_code), ErrorCode::None);
    // More than what goes out at once.
    let value = "v".repeat(100_000);
    for n in 0..25 {
        assert_eq!(trio.append(0, &value), n);
    }
    throttle(&trio, Some("10"));
    assert_eq!(reassign(&mut trio.anyone(), 0, Some(&[2])), ErrorCode::None);
    for n in 25..50 {
        assert_eq!(trio.append(0, &value), n);
    }
    let request = ListPartitionReassignmentsRequest::default().with_topics(None);
    assert_eq!(trio.anyone().call(0, &request).topics.len(), 1, "it is under way for days");
    throttle(&trio, None);
    wait_until_done(&trio);
    trio.see("new leader", 3, |rows| rows[0].leader_id.0 == 2 && rows[0].isr_nodes.len() == 1);
    assert_eq!(trio.values_of(0), vec![value; 50]);
}

fn quorum(connection: &mut Connection) -> (Vec<i32>, Vec<i32>) {
    let topic = TopicData::default()
        .with_topic_name(topic_name("__cluster_metadata"))
        .with_partitions(vec![PartitionData::default()]);
    let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
    let answer = connection.call(2, &request);
    assert_eq!(error(answer.error_code), ErrorCode::None);
    let row = &answer.topics[0].partitions[0];
    assert!(row.leader_id.0 > 0 && row.high_watermark > 0, "{row:?}");
    let ids = |replicas: &[kafka_protocol::messages::describe_quorum_response::ReplicaState]| {
        replicas.iter().map(|replica| replica.replica_id.0).collect()
    };
    (ids(&row.current_voters), ids(&row.observers))
}

#[test]
fn voters_that_are_configured_stay_who_they_are() {
    let mut connection = connect();
    let directory = uuid::Uuid::from_u128(1);
    let listener = Listener::default().with_name("CONTROLLER".into()).with_port(9093);
    let add = AddRaftVoterRequest::default()
        .with_cluster_id(None)
        .with_voter_id(4)
        .with_voter_directory_id(directory)
        .with_listeners(vec![listener]);
    let code = connection.call(0, &add).error_code;
    assert_eq!(error(code), ErrorCode::UnsupportedVersion);
    let remove = RemoveRaftVoterRequest::default()
        .with_cluster_id(None)
        .with_voter_id(1)
        .with_voter_directory_id(directory);
    let code = connection.call(0, &remove).error_code;
    assert_eq!(error(code), ErrorCode::UnsupportedVersion);
    let code = connection.call(0, &remove.with_voter_id(-1)).error_code;
    assert_eq!(error(code), ErrorCode::InvalidRequest);
    let add = add.with_cluster_id(Some("of others".into()));
    assert_eq!(error(connection.call(0, &add).error_code), ErrorCode::InconsistentClusterId);
}

fn unregister(connection: &mut Connection, id: i32) -> ErrorCode {
    let request = UnregisterBrokerRequest::default().with_broker_id(BrokerId(id));
    error(connection.call(0, &request).error_code)
}

#[test]
fn a_broker_beyond_the_voters_joins_takes_partitions_and_leaves() {
    if is_kafka() {
        return;
    }
    let mut trio = Trio::start();
    assert_eq!(quorum(&mut trio.anyone()), (vec![1, 2, 3], vec![]));
    trio.brokers.insert(4, Broker::start(trio.fourth()));
    assert_eq!(quorum(&mut trio.brokers[&4].connect()), (vec![1, 2, 3], vec![4]));
    let created = trio.brokers[&2].connect();
    let created = { created }.call(CREATE_TOPICS_VERSION, &assigned(TOPIC, &[&[4, 1], &[4, 2]]));
    assert_eq!(error(created.topics[0].error_code), ErrorCode::None);
    for id in [1, 2, 3, 4] {
        trio.see("partitions that the fourth leads", id, |rows| {
            rows.iter().all(|row| row.leader_id.0 == 4)
        });
    }
    for partition in 0..2 {
        assert_eq!(trio.append(partition, "there"), 0);
    }
    // It comes back with what it had, at another port for the others.
    let fourth = trio.brokers.remove(&4).expect("there").kill();
    trio.brokers.insert(4, Broker::start(fourth));
    for partition in 0..2 {
        assert_eq!(trio.append(partition, "again"), 1);
        let target = Some(&IDS[..]);
        assert_eq!(reassign(&mut trio.anyone(), partition, target), ErrorCode::None);
    }
    wait_until_done(&trio);
    assert!(trio.brokers.remove(&4).expect("there").terminate().success());
    assert_eq!(unregister(&mut trio.anyone(), 4), ErrorCode::None);
    assert_eq!(unregister(&mut trio.anyone(), 4), ErrorCode::BrokerIdNotRegistered);
    eventually("cluster of three", || {
        let brokers = trio.anyone().call(METADATA_VERSION, &metadata(&[], false)).brokers;
        let (voters, observers) = quorum(&mut trio.anyone());
        (brokers.len() == 3 && voters.len() == 3 && observers.is_empty()).then_some(())
    });
    for partition in 0..2 {
        assert_eq!(trio.values_of(partition), ["there", "again"]);
    }
}
