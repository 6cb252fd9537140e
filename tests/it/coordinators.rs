//! FindCoordinator: which broker a key belongs to, in every version and for every kind of key.

use std::time::{Duration, Instant};

use compat_tests::Connection;
use compat_tests::broker::is_kafka;
use compat_tests::requests::text;
use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use protocol::ErrorCode;

use crate::harness::{Scene, connect, error, shared};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;

/// Makes the topic of groups, which Apache Kafka does while clients ask again and again.
fn ensure_coordinator(connection: &mut Connection) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while ask(connection, 4, GROUP, &["any"])[0].error_code != 0 {
        assert!(Instant::now() < deadline, "a coordinator is found");
    }
}

/// The rows of the answer; below v4 its only one.
fn ask(connection: &mut Connection, version: i16, key_type: i8, keys: &[&str]) -> Vec<Coordinator> {
    let request = FindCoordinatorRequest::default();
    let request = if version == 0 { request } else { request.with_key_type(key_type) };
    if version >= 4 {
        let request = request.with_coordinator_keys(keys.iter().map(|key| text(key)).collect());
        return connection.call(version, &request).coordinators;
    }
    let response: FindCoordinatorResponse =
        connection.call(version, &request.with_key(text(keys[0])));
    let row = Coordinator::default()
        .with_key(text(keys[0]))
        .with_error_code(response.error_code)
        .with_node_id(response.node_id)
        .with_host(response.host)
        .with_port(response.port);
    vec![row]
}

#[test]
fn every_version_finds_the_broker_of_a_group() {
    let mut connection = connect();
    ensure_coordinator(&mut connection);
    for version in 0..=6 {
        let keys: &[&str] = if version < 4 { &["group"] } else { &["group", "another", ""] };
        let rows = ask(&mut connection, version, GROUP, keys);
        assert_eq!(rows.iter().map(|row| &*row.key).collect::<Vec<_>>(), keys, "v{version}");
        for row in rows {
            assert_eq!(error(row.error_code), ErrorCode::None, "v{version}");
            assert_eq!(row.port, i32::from(shared().address().port()), "v{version}");
            assert_eq!(&*row.host, "127.0.0.1", "v{version}");
        }
    }
    assert_eq!(ask(&mut connection, 4, GROUP, &[]), []);
}

#[test]
fn the_first_question_makes_the_topic_of_groups() {
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    assert_eq!(
        error(connection.describe_topic("__consumer_offsets").error_code),
        ErrorCode::UnknownTopicOrPartition
    );
    ensure_coordinator(&mut connection);
    let topic = connection.describe_topic("__consumer_offsets");
    assert_eq!(error(topic.error_code), ErrorCode::None);
    assert!(topic.is_internal);
    assert_eq!(topic.partitions.len(), if is_kafka() { topic.partitions.len() } else { 50 });
}

#[test]
fn share_groups_have_a_coordinator_type_of_their_own_from_version_six_on() {
    let mut connection = connect();
    let key = "group:AAAAAAAAAAAAAAAAAAAAAQ:0";
    let early = ask(&mut connection, 5, SHARE, &[key]);
    assert_eq!(error(early[0].error_code), ErrorCode::InvalidRequest);
    if is_kafka() {
        return;
    }
    let row = &ask(&mut connection, 6, SHARE, &[key])[0];
    assert_eq!(error(row.error_code), ErrorCode::InvalidRequest);
    assert_eq!((row.node_id.0, row.port), (-1, -1));
}

#[test]
fn transactions_are_told_that_their_coordinator_is_not_available() {
    if is_kafka() {
        return;
    }
    let mut connection = connect();
    for version in 1..=6 {
        let row = &ask(&mut connection, version, TRANSACTION, &["t"])[0];
        assert_eq!(error(row.error_code), ErrorCode::CoordinatorNotAvailable, "v{version}");
        assert_eq!((row.node_id.0, row.port), (-1, -1), "v{version}");
    }
}
