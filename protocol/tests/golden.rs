//! Bytes that Apache Kafka's own client library wrote are read, and written alike.

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, RequestKind};
use protocol::ApiSpec;
use protocol::compression::Codec;
use protocol::consumer_protocol::{Subscription, TopicPartitions};
use protocol::record_batch::{
    BatchBuilder, ControlKind, EndTxnMarker, RecordBatch, ValidationRules, validate_for_append,
};
use protocol::request::{Request, decode_request, encode_request};
use protocol::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

const GOLDEN: &str = include_str!("../src/testdata/kafka_clients_4_4_0.hex");
const NOW: Timestamp = Timestamp(1_700_000_000_000);
const VALUE: &[u8] = b"a value a value a value a value";

fn golden(name: &str) -> Bytes {
    let line = GOLDEN.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let hex = line.unwrap_or_else(|| panic!("no golden bytes named {name}"));
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(byte).collect()
}

fn batch(name: &str) -> RecordBatch {
    let mut bytes = golden(name);
    let batch = RecordBatch::split_from(&mut bytes).unwrap().unwrap();
    assert!(bytes.is_empty());
    batch
}

fn same_records(codec: Codec) -> BatchBuilder {
    BatchBuilder::new()
        .codec(codec)
        .producer(ProducerId(4000), ProducerEpoch(3), 17)
        .record(NOW, Some(b"k1"), Some(b"v1"))
        .record(Timestamp(NOW.0 + 5), None, Some(VALUE))
        .record_with_headers(
            Timestamp(NOW.0 - 10),
            Some(b"k3"),
            None,
            &[("h", Some(&[1])), ("h", None)],
        )
}

#[test]
fn batches_of_every_codec_pass_and_hold_the_same_records() {
    let expected = same_records(Codec::None).build().unwrap();
    let expected: Vec<_> = expected.records(1 << 20).unwrap().map(Result::unwrap).collect();
    for codec in Codec::ALL {
        let theirs = batch(&format!("batch_{}", codec.name()));
        assert_eq!(theirs.header().codec(), Some(codec));
        assert_eq!(theirs.header().last_sequence(), 19);
        let rules = ValidationRules::client(13, NOW);
        let validated = validate_for_append(&theirs.to_bytes(), &rules).unwrap();
        assert_eq!(validated.batch, theirs);
        let records: Vec<_> = theirs.records(1 << 20).unwrap().map(Result::unwrap).collect();
        assert_eq!(records, expected, "{codec:?}");
    }
}

#[test]
fn an_uncompressed_batch_is_built_byte_for_byte() {
    let ours = same_records(Codec::None).build().unwrap();
    assert_eq!(ours.to_bytes(), golden("batch_none"));
}

#[test]
fn a_commit_marker_is_built_byte_for_byte() {
    let marker = EndTxnMarker { kind: ControlKind::Commit, coordinator_epoch: 11 };
    let mut ours = marker.to_batch(ProducerId(9), ProducerEpoch(2), NOW).unwrap();
    ours.place(Offset(42), LeaderEpoch(5));
    assert_eq!(ours.to_bytes(), golden("marker_commit"));
    assert_eq!(EndTxnMarker::from_batch(&batch("marker_commit")).unwrap(), marker);
}

fn request(name: &str, api_key: ApiKey, api_version: i16) -> Request {
    let frame = golden(name);
    let spec = ApiSpec::new(api_key, api_version..=api_version);
    let request = decode_request(frame.clone(), &spec).unwrap();
    assert_eq!(request.head.correlation_id, 7);
    assert_eq!(request.head.client_id.as_deref(), Some("golden"));
    assert_eq!(encode_request(&request.head, &request.body).unwrap().slice(4..), frame);
    request
}

#[test]
fn requests_are_read_and_written_alike() {
    let RequestKind::ApiVersions(versions) =
        request("request_api_versions", ApiKey::ApiVersions, 4).body
    else {
        panic!("not ApiVersions")
    };
    assert_eq!(&*versions.client_software_name, "apache-kafka-java");
    let RequestKind::Metadata(metadata) = request("request_metadata", ApiKey::Metadata, 13).body
    else {
        panic!("not Metadata")
    };
    let topics = metadata.topics.unwrap();
    assert_eq!(topics[0].name.as_ref().map(|name| name.as_str()), Some("orders"));
    let RequestKind::Produce(produce) = request("request_produce", ApiKey::Produce, 13).body else {
        panic!("not Produce")
    };
    let partition = &produce.topic_data[0].partition_data[0];
    assert_eq!((produce.acks, produce.timeout_ms, partition.index), (-1, 30_000, 2));
    assert_eq!(partition.records.as_ref(), Some(&golden("batch_none")));
}

#[test]
fn a_subscription_is_read_and_written_alike() {
    let bytes = golden("subscription");
    let subscription = Subscription::decode(&bytes).unwrap();
    assert_eq!(subscription.encode(), bytes);
    assert_eq!(subscription.topics, ["orders"]);
    let owned = TopicPartitions { topic: "orders".to_owned(), partitions: vec![1] };
    assert_eq!(subscription.owned_partitions, [owned]);
    assert_eq!((subscription.generation_id, subscription.rack_id.as_deref()), (6, Some("r1")));
}
