//! ListOffsets: the special timestamps, and times down to the record.

use compat_tests::Connection;
use compat_tests::batches::{batch, builder, sealed, start_ms};
use compat_tests::requests::list_offsets;
use kafka_protocol::messages::OffsetForLeaderEpochRequest;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{BrokerId, ListOffsetsRequest};
use protocol::ErrorCode;
use protocol::compression::Codec;
use protocol::record_batch::BatchBuilder;
use protocol::types::Timestamp;

use crate::harness::{connect, error};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

/// Offset and timestamp.
fn ask(connection: &mut Connection, version: i16, topic: &str, timestamp: i64) -> (i64, i64) {
    let response = connection.call(version, &list_offsets(topic, 0, timestamp));
    let found = &response.topics[0].partitions[0];
    assert_eq!(error(found.error_code), ErrorCode::None, "{timestamp}");
    (found.offset, found.timestamp)
}

#[test]
fn the_ends_of_a_log() {
    let mut connection = connect();
    connection.create_topic("offsets-ends", 1);
    for version in 1..=10 {
        assert_eq!(ask(&mut connection, version, "offsets-ends", LATEST), (0, -1), "v{version}");
        assert_eq!(ask(&mut connection, version, "offsets-ends", EARLIEST), (0, -1), "v{version}");
    }
    connection.append("offsets-ends", 0, batch(&["a", "b", "c"]));
    for version in 1..=10 {
        assert_eq!(ask(&mut connection, version, "offsets-ends", LATEST), (3, -1), "v{version}");
        assert_eq!(ask(&mut connection, version, "offsets-ends", EARLIEST), (0, -1), "v{version}");
    }
    assert_eq!(ask(&mut connection, 8, "offsets-ends", EARLIEST_LOCAL), (0, -1));
    assert_eq!(ask(&mut connection, 9, "offsets-ends", LATEST_TIERED).0, -1);
}

#[test]
fn the_offset_of_the_largest_timestamp() {
    let mut connection = connect();
    connection.create_topic("offsets-max", 1);
    assert_eq!(ask(&mut connection, 7, "offsets-max", MAX_TIMESTAMP), (-1, -1), "empty");
    connection.append("offsets-max", 0, batch(&["a", "b", "c"]));
    let late = BatchBuilder::new()
        .record(Timestamp(start_ms() + 100), None, Some(b"d"))
        .record(Timestamp(start_ms() + 900), None, Some(b"e"))
        .record(Timestamp(start_ms() + 50), None, Some(b"f"));
    connection.append("offsets-max", 0, sealed(late));
    connection.append("offsets-max", 0, batch(&["g"]));
    assert_eq!(ask(&mut connection, 7, "offsets-max", MAX_TIMESTAMP), (4, start_ms() + 900));
}

#[test]
fn a_time_finds_the_first_record_that_is_not_older() {
    let mut connection = connect();
    for (codec, topic) in [
        (Codec::None, "offsets-time"),
        (Codec::Gzip, "offsets-time-gzip"),
        (Codec::Zstd, "offsets-time-zstd"),
    ] {
        connection.create_topic(topic, 1);
        for hundred in 0..3 {
            let records = (0..100).fold(BatchBuilder::new(), |records, n| {
                records.record(Timestamp(start_ms() + 1_000 * hundred + 10 * n), None, Some(b"x"))
            });
            connection.append(topic, 0, sealed(records.codec(codec)));
        }
        let mut at = |milliseconds| ask(&mut connection, 5, topic, start_ms() + milliseconds);
        assert_eq!(at(-5_000), (0, start_ms()));
        assert_eq!(at(0), (0, start_ms()));
        assert_eq!(at(1), (1, start_ms() + 10));
        assert_eq!(at(415), (42, start_ms() + 420));
        assert_eq!(at(1_420), (142, start_ms() + 1_420));
        assert_eq!(at(991), (100, start_ms() + 1_000));
        assert_eq!(at(2_990), (299, start_ms() + 2_990));
        assert_eq!(at(2_991), (-1, -1));
    }
}

#[test]
fn times_out_of_order_find_the_first_offset_and_not_the_nearest_time() {
    let mut connection = connect();
    connection.create_topic("offsets-order", 1);
    let times = [50, 10, 70, 20, 60];
    let records = times.iter().fold(BatchBuilder::new(), |records, time| {
        records.record(Timestamp(start_ms() + time), None, Some(b"x"))
    });
    connection.append("offsets-order", 0, sealed(records));
    let mut at =
        |milliseconds| ask(&mut connection, 5, "offsets-order", start_ms() + milliseconds).0;
    assert_eq!((at(10), at(50), at(51), at(70), at(71)), (0, 0, 2, 2, -1));
}

#[test]
fn an_unknown_partition_is_said_so() {
    let mut connection = connect();
    connection.create_topic("offsets-known", 1);
    for (topic, partition) in [("offsets-known", 5), ("offsets-unknown", 0)] {
        let found = connection.offset_of(topic, partition, LATEST);
        assert_eq!(error(found.error_code), ErrorCode::UnknownTopicOrPartition);
        assert_eq!(found.offset, -1);
    }
}

#[test]
fn two_requests_for_one_partition_are_one_too_many() {
    let mut connection = connect();
    connection.create_topic("offsets-twice", 1);
    let mut request: ListOffsetsRequest = list_offsets("offsets-twice", 0, LATEST);
    let again = request.topics[0].partitions[0].clone();
    request.topics[0].partitions.push(again);
    let response = connection.call(5, &request);
    for partition in &response.topics[0].partitions {
        assert_eq!(error(partition.error_code), ErrorCode::InvalidRequest);
    }
}

#[test]
fn leader_epochs_have_their_end_offsets() {
    let mut connection = connect();
    connection.create_topic("offsets-epochs", 1);
    connection.append("offsets-epochs", 0, sealed(builder(&["a", "b"])));
    let current = connection.describe_topic("offsets-epochs").partitions[0].leader_epoch;
    for version in 2..=4 {
        let mut ask = |epoch| {
            let partition = OffsetForLeaderPartition::default()
                .with_partition(0)
                .with_current_leader_epoch(-1)
                .with_leader_epoch(epoch);
            let topic = OffsetForLeaderTopic::default()
                .with_topic(compat_tests::requests::topic_name("offsets-epochs"))
                .with_partitions(vec![partition]);
            let request = OffsetForLeaderEpochRequest::default()
                .with_replica_id(BrokerId(-1))
                .with_topics(vec![topic]);
            let found = connection.call(version, &request).topics[0].partitions[0].clone();
            assert_eq!(error(found.error_code), ErrorCode::None);
            (found.leader_epoch, found.end_offset)
        };
        assert_eq!(ask(current), (current, 2), "v{version}");
        assert_eq!(ask(current + 1), (-1, -1), "v{version}");
    }
}
