//! Produce: what is kept, what is refused, and what is said about it.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use compat_tests::batches::{
    at, batch, builder, compressed, patched, records, sealed, split, start_ms,
};
use compat_tests::broker::is_kafka;
use compat_tests::requests::{METADATA_VERSION, metadata, only_produced, produce, topic_name};
use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use protocol::ErrorCode;
use protocol::compression::Codec;
use protocol::record_batch::BatchBuilder;
use protocol::types::Timestamp;

use crate::harness::{Scene, connect, error};

const VERSION: i16 = 9;

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_millis()).expect("before the year 292 million")
}

#[test]
fn acks_one_and_all_answer_with_the_offset_and_acks_zero_does_not_answer() {
    let mut connection = connect();
    connection.create_topic("produce-acks", 1);
    for (acks, offset) in [(-1, 0), (1, 1)] {
        let request = produce("produce-acks", 0, batch(&["x"]), acks);
        let response = connection.call(VERSION, &request);
        let produced = only_produced(&response);
        assert_eq!(error(produced.error_code), ErrorCode::None);
        assert_eq!(produced.base_offset, offset);
        assert_eq!((produced.log_append_time_ms, produced.log_start_offset), (-1, 0));
    }
    connection.send(VERSION, &produce("produce-acks", 0, batch(&["silent"]), 0)).expect("sent");
    // The next answer on this connection is that of the next request.
    connection.call(METADATA_VERSION, &metadata(&["produce-acks"], false));
    while connection.offset_of("produce-acks", 0, -1).offset < 3 {}
    let all = connection.read_all("produce-acks", 0, 0).expect("read");
    assert_eq!(all[2], (2, Bytes::from_static(b"silent")));
}

#[test]
fn an_error_with_acks_zero_closes_the_connection() {
    let mut connection = connect();
    connection.create_topic("produce-silent-error", 1);
    let damaged = patched(&batch(&["x"]), at::CRC, &[1, 2, 3, 4]);
    connection.send(VERSION, &produce("produce-silent-error", 0, damaged, 0)).expect("sent");
    assert!(connection.is_closed_by_peer());
}

#[test]
fn other_acks_are_refused() {
    let mut connection = connect();
    connection.create_topic("produce-acks-2", 1);
    let response = connection.call(VERSION, &produce("produce-acks-2", 0, batch(&["x"]), 2));
    assert_eq!(error(only_produced(&response).error_code), ErrorCode::InvalidRequiredAcks);
}

#[test]
fn an_unknown_topic_or_partition_is_said_so() {
    let mut connection = connect();
    connection.create_topic("produce-known", 1);
    for (topic, partition) in [("produce-unknown", 0), ("produce-known", 1), ("produce-known", -1)]
    {
        let produced = connection.produce(topic, partition, batch(&["x"]));
        assert_eq!(error(produced.error_code), ErrorCode::UnknownTopicOrPartition, "{topic}");
        assert_eq!(produced.base_offset, -1);
    }
}

#[test]
fn every_batch_that_contradicts_itself_is_refused_and_none_of_it_kept() {
    let mut connection = connect();
    connection.create_topic("produce-damaged", 1);
    let good = batch(&["one", "two", "three"]);
    let two = Bytes::from([good.as_ref(), good.as_ref()].concat());
    // Its header agrees with itself: only the records, once decompressed, tell.
    let three = compressed(Codec::Lz4, &["one", "two", "three"]);
    let count_of_two = patched(&three, at::RECORD_COUNT, &[0, 0, 0, 2]);
    let count_of_two = patched(&count_of_two, at::LAST_OFFSET_DELTA, &[0, 0, 0, 1]);
    let cases = [
        ("compressed count", count_of_two, ErrorCode::InvalidRecord),
        ("CRC", patched(&good, at::CRC, &[1, 2, 3, 4]), ErrorCode::CorruptMessage),
        ("count", patched(&good, at::RECORD_COUNT, &[0, 0, 0, 2]), ErrorCode::InvalidRecord),
        ("no records", patched(&good, at::RECORD_COUNT, &[0, 0, 0, 0]), ErrorCode::InvalidRecord),
        ("delta", patched(&good, at::LAST_OFFSET_DELTA, &[0, 0, 0, 9]), ErrorCode::InvalidRecord),
        ("control", sealed(builder(&["x"]).control(true)), ErrorCode::InvalidRecord),
        ("two batches", two, ErrorCode::InvalidRecord),
    ];
    for (what, records, expected) in cases {
        let produced = connection.produce("produce-damaged", 0, records);
        assert_eq!(error(produced.error_code), expected, "{what}");
        assert_eq!(produced.base_offset, -1, "{what}");
    }
    assert_eq!(connection.append("produce-damaged", 0, good), 0, "nothing was kept");
}

#[test]
fn old_message_formats_are_refused() {
    let mut connection = connect();
    connection.create_topic("produce-magic", 1);
    let old = patched(&batch(&["x"]), at::MAGIC, &[1]);
    let produced = connection.produce("produce-magic", 0, old);
    assert!(
        matches!(
            error(produced.error_code),
            ErrorCode::InvalidRecord
                | ErrorCode::CorruptMessage
                | ErrorCode::UnsupportedForMessageFormat
        ),
        "{produced:?}"
    );
}

#[test]
fn zstd_needs_version_seven() {
    let mut connection = connect();
    connection.create_topic("produce-zstd", 1);
    let request = produce("produce-zstd", 0, compressed(Codec::Zstd, &["x"]), -1);
    let response = connection.call(6, &request);
    assert_eq!(error(only_produced(&response).error_code), ErrorCode::UnsupportedCompressionType);
    let response = connection.call(7, &request);
    assert_eq!(error(only_produced(&response).error_code), ErrorCode::None);
}

#[test]
fn a_batch_over_the_topics_limit_is_too_large() {
    let mut connection = connect();
    connection.create_topic_with("produce-large", 1, &[("max.message.bytes", "1000")]);
    let produced = connection.produce("produce-large", 0, batch(&["x".repeat(2000)]));
    assert_eq!(error(produced.error_code), ErrorCode::MessageTooLarge);
    let zeros = "0".repeat(2000);
    // What counts is the batch as it comes, compressed.
    connection.append("produce-large", 0, compressed(Codec::Gzip, &[zeros]));
}

#[test]
fn what_was_produced_comes_back_byte_for_byte_but_for_its_place() {
    let mut connection = connect();
    connection.create_topic("produce-bytes", 1);
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    for (codec, base_offset) in codecs.into_iter().zip((0..).step_by(3)) {
        let sent = compressed(codec, &["one", "two", "three"]);
        assert_eq!(connection.append("produce-bytes", 0, sent.clone()), base_offset);
        let fetched = connection.fetch("produce-bytes", 0, base_offset);
        let back = &split(fetched.records.as_ref())[0];
        assert_eq!(back.header().base_offset.0, base_offset);
        assert!(back.header().partition_leader_epoch.0 >= 0);
        // From the magic byte on, only the leader epoch stands before it and outside the CRC.
        assert_eq!(back.to_bytes()[at::MAGIC..], sent[at::MAGIC..], "{codec:?}");
        back.verify_crc().expect("the CRC is right");
    }
}

#[test]
fn headers_with_equal_keys_and_nulls_survive() {
    let mut connection = connect();
    connection.create_topic("produce-headers", 1);
    let headers: [(&str, Option<&[u8]>); 3] =
        [("same", Some(b"1")), ("same", Some(b"2")), ("null", None)];
    let sent = BatchBuilder::new()
        .record_with_headers(Timestamp(start_ms()), Some(b""), None, &headers)
        .record(Timestamp(start_ms()), None, Some(b""));
    connection.append("produce-headers", 0, sealed(sent));
    let back = records(connection.fetch("produce-headers", 0, 0).records.as_ref());
    assert_eq!((back[0].key.as_deref(), back[0].value.as_deref()), (Some(&b""[..]), None));
    assert_eq!((back[1].key.as_deref(), back[1].value.as_deref()), (None, Some(&b""[..])));
    let keys: Vec<_> =
        back[0].headers.iter().map(|h| (h.key.as_ref(), h.value.as_deref())).collect();
    assert_eq!(keys, [(&b"same"[..], Some(&b"1"[..])), (b"same", Some(b"2")), (b"null", None)]);
}

#[test]
fn log_append_time_is_stamped_and_told() {
    let mut connection = connect();
    let configs = [("message.timestamp.type", "LogAppendTime")];
    connection.create_topic_with("produce-append-time", 1, &configs);
    let before = now_ms();
    let produced = connection.produce("produce-append-time", 0, batch(&["x", "y"]));
    assert_eq!(error(produced.error_code), ErrorCode::None);
    assert!((before..=now_ms()).contains(&produced.log_append_time_ms), "{produced:?}");
    let back = records(connection.fetch("produce-append-time", 0, 0).records.as_ref());
    for record in back {
        assert_eq!(record.timestamp.0, produced.log_append_time_ms);
    }
}

#[test]
fn a_timestamp_far_in_the_future_is_refused() {
    let mut connection = connect();
    connection.create_topic("produce-future", 1);
    let with_time = |time| sealed(BatchBuilder::new().record(Timestamp(time), None, Some(b"x")));
    let produced = connection.produce("produce-future", 0, with_time(now_ms() + 2 * 3_600_000));
    assert_eq!(error(produced.error_code), ErrorCode::InvalidTimestamp);
    connection.append("produce-future", 0, with_time(now_ms() + 1_800_000));
}

#[test]
fn partitions_of_one_request_succeed_and_fail_each_for_itself() {
    let mut connection = connect();
    connection.create_topic("produce-mixed", 3);
    let data = |index, records| {
        PartitionProduceData::default().with_index(index).with_records(Some(records))
    };
    let damaged = patched(&batch(&["x"]), at::CRC, &[1, 2, 3, 4]);
    let topic =
        TopicProduceData::default().with_name(topic_name("produce-mixed")).with_partition_data(
            vec![data(0, batch(&["a"])), data(1, damaged), data(7, batch(&["b"]))],
        );
    let request = ProduceRequest::default()
        .with_acks(-1)
        .with_timeout_ms(10_000)
        .with_topic_data(vec![topic]);
    let response = connection.call(VERSION, &request);
    let mut codes: Vec<_> = response.responses[0]
        .partition_responses
        .iter()
        .map(|p| (p.index, error(p.error_code)))
        .collect();
    codes.sort_by_key(|(index, _)| *index);
    let expected = [
        (0, ErrorCode::None),
        (1, ErrorCode::CorruptMessage),
        (7, ErrorCode::UnknownTopicOrPartition),
    ];
    assert_eq!(codes, expected);
}

#[test]
fn every_version_of_produce_is_served() {
    let mut connection = connect();
    connection.create_topic("produce-versions", 1);
    let topic_id = connection.describe_topic("produce-versions").topic_id;
    for (version, offset) in (3..=13).zip(0..) {
        let mut request = produce("produce-versions", 0, batch(&[version.to_string()]), -1);
        if version >= 13 {
            request.topic_data[0].topic_id = topic_id;
            request.topic_data[0].name = topic_name("");
        }
        let response = connection.call(version, &request);
        let produced = only_produced(&response);
        assert_eq!(error(produced.error_code), ErrorCode::None, "v{version}");
        assert_eq!(produced.base_offset, offset, "v{version}");
    }
}

#[test]
fn no_record_byte_is_copied_between_socket_and_store() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    connection.create_topic("copies", 2);
    for _ in 0..20 {
        for size in [10, 1_000, 900_000] {
            connection.append("copies", 0, batch(&["x".repeat(size)]));
            connection.append("copies", 1, compressed(Codec::Lz4, &["x".repeat(size)]));
        }
    }
    connection.read_all("copies", 0, 0).expect("read");
    connection.read_all("copies", 1, 0).expect("read");
    assert_eq!(scene.broker.metric("highwater_record_bytes_copied_total").unwrap_or(0.0), 0.0);
}
