//! DeleteRecords: the log start moves, and stays moved.

use compat_tests::Connection;
use compat_tests::batches::batch;
use compat_tests::broker::is_kafka;
use compat_tests::requests::{PRODUCE_VERSION, only_produced, produce, topic_name};
use kafka_protocol::messages::DeleteRecordsRequest;
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use protocol::ErrorCode;

use crate::harness::{Scene, connect, error};

fn delete_before(connection: &mut Connection, topic: &str, offset: i64) -> (ErrorCode, i64) {
    delete_before_within(connection, topic, offset, 20_000)
}

fn delete_before_within(
    connection: &mut Connection,
    topic: &str,
    offset: i64,
    timeout_ms: i32,
) -> (ErrorCode, i64) {
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(offset);
    let topic =
        DeleteRecordsTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let request =
        DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms);
    let response = connection.call(2, &request);
    let result = &response.topics[0].partitions[0];
    (error(result.error_code), result.low_watermark)
}

fn ten_records(connection: &mut Connection, topic: &str) {
    connection.create_topic(topic, 1);
    connection.append(topic, 0, batch(&["0", "1", "2", "3", "4"]));
    connection.append(topic, 0, batch(&["5", "6", "7", "8", "9"]));
}

#[test]
fn the_log_starts_where_it_was_told_to() {
    let mut connection = connect();
    ten_records(&mut connection, "delete-middle");
    assert_eq!(delete_before(&mut connection, "delete-middle", 7), (ErrorCode::None, 7));
    assert_eq!(connection.offset_of("delete-middle", 0, -2).offset, 7);
    let data = connection.fetch("delete-middle", 0, 6);
    assert_eq!(error(data.error_code), ErrorCode::OffsetOutOfRange);
    let rest = connection.read_all("delete-middle", 0, 7).expect("read");
    assert_eq!(rest.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [7, 8, 9]);
    // Never back.
    assert_eq!(delete_before(&mut connection, "delete-middle", 3), (ErrorCode::None, 7));
    let produced = connection.produce("delete-middle", 0, batch(&["10"]));
    assert_eq!((produced.base_offset, produced.log_start_offset), (10, 7));
}

#[test]
fn a_timeout_of_zero_does_not_outrun_the_own_disk() {
    let mut connection = connect();
    ten_records(&mut connection, "delete-at-once");
    for offset in 1..=10 {
        let deleted = delete_before_within(&mut connection, "delete-at-once", offset, 0);
        assert_eq!(deleted, (ErrorCode::None, offset));
    }
    let request = produce("delete-at-once", 0, batch(&["10"]), -1).with_timeout_ms(0);
    let response = connection.call(PRODUCE_VERSION, &request);
    assert_eq!(error(only_produced(&response).error_code), ErrorCode::None);
}

#[test]
fn minus_one_means_everything_and_offsets_go_on() {
    let mut connection = connect();
    ten_records(&mut connection, "delete-all");
    assert_eq!(delete_before(&mut connection, "delete-all", -1), (ErrorCode::None, 10));
    assert_eq!(connection.offset_of("delete-all", 0, -2).offset, 10);
    assert_eq!(connection.append("delete-all", 0, batch(&["10"])), 10);
}

#[test]
fn an_offset_outside_the_log_is_out_of_range() {
    let mut connection = connect();
    ten_records(&mut connection, "delete-range");
    for offset in [11, -2] {
        let (code, _) = delete_before(&mut connection, "delete-range", offset);
        assert_eq!(code, ErrorCode::OffsetOutOfRange, "{offset}");
    }
    let (code, _) = delete_before(&mut connection, "delete-unknown", 0);
    assert_eq!(code, ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn a_compacted_topic_is_not_cut() {
    let mut connection = connect();
    connection.create_topic_with("delete-compacted", 1, &[("cleanup.policy", "compact")]);
    let (code, _) = delete_before(&mut connection, "delete-compacted", 0);
    assert_eq!(code, ErrorCode::PolicyViolation);
}

#[test]
fn the_log_start_survives_a_crash() {
    if is_kafka() {
        // It writes log starts down once a minute.
        return;
    }
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    ten_records(&mut connection, "t");
    assert_eq!(delete_before(&mut connection, "t", 6), (ErrorCode::None, 6));
    let scene = scene.restart_after_kill();
    let mut connection = scene.broker.connect();
    assert_eq!(connection.offset_of("t", 0, -2).offset, 6);
    assert_eq!(connection.offset_of("t", 0, -1).offset, 10);
    assert_eq!(connection.read_all("t", 0, 6).expect("read").len(), 4);
}
