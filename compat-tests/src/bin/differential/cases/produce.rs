//! Produce without idempotence: arguments, damaged batches, timestamps, sizes.

use bytes::Bytes;
use compat_tests::batches::{at, batch, builder, compressed, patched, sealed, start_ms};
use compat_tests::requests::{fetch, list_offsets, metadata, topic_name};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ApiKey, ProduceRequest};
use kafka_protocol::protocol::StrBytes;
use protocol::compression::Codec;
use protocol::record_batch::BatchBuilder;
use protocol::types::Timestamp;
use uuid::Uuid;

use crate::case::{Case, Memory};
use crate::setup::{COMPACTED, EMPTY};

/// Partitions with what goes there.
pub type Rows = Vec<(i32, Option<Bytes>)>;

/// A topic of a request, named both ways; the version takes the one that it has.
pub fn rows(memory: &Memory, alias: &str, rows: Rows) -> TopicProduceData {
    let partitions = rows.into_iter().map(|(index, records)| {
        PartitionProduceData::default().with_index(index).with_records(records)
    });
    TopicProduceData::default()
        .with_name(memory.topic(alias))
        .with_topic_id(memory.id(alias))
        .with_partition_data(partitions.collect())
}

/// A request with acks=all.
pub fn request(topics: Vec<TopicProduceData>) -> ProduceRequest {
    ProduceRequest::default().with_acks(-1).with_timeout_ms(10_000).with_topic_data(topics)
}

/// Produces to a topic of the case's own with one partition.
pub fn own(memory: &Memory, records: Bytes) -> ProduceRequest {
    request(vec![rows(memory, "own", vec![(0, Some(records))])])
}

/// One batch for a topic of its own, whose log is shown afterwards.
pub fn written(name: &str, records: impl Fn() -> Bytes + Send + Sync + 'static) -> Case {
    Case::new(ApiKey::Produce, name)
        .topic("own", 1)
        .step("produce", move |m| own(m, records()))
        .step("fetch", |m| fetch(&m.own("own"), 0, 0))
        .in_version(12)
}

fn arguments() -> Vec<Case> {
    use ApiKey::Produce as Api;
    let one = || Some(batch(&["a"]));
    vec![
        written("one record", || batch(&["a"])),
        written("three records", || batch(&["a", "b", "c"])),
        written("two batches", || [batch(&["a"]), batch(&["b"])].concat().into()),
        written("no bytes", Bytes::new),
        written("a base offset of its own", || {
            patched(&batch(&["a"]), at::BASE_OFFSET, &77_i64.to_be_bytes())
        }),
        Case::new(Api, "null records")
            .versions(9..=9)
            .topic("own", 1)
            .ask(|m| request(vec![rows(m, "own", vec![(0, None)])])),
        Case::new(Api, "acks=1").topic("own", 1).ask(|m| own(m, batch(&["a"])).with_acks(1)),
        Case::new(Api, "acks=2").topic("own", 1).ask(|m| own(m, batch(&["a"])).with_acks(2)),
        Case::new(Api, "acks=-2").topic("own", 1).ask(|m| own(m, batch(&["a"])).with_acks(-2)),
        Case::new(Api, "no time")
            .topic("own", 1)
            .ask(|m| own(m, batch(&["a"])).with_timeout_ms(0).with_acks(1)),
        Case::new(Api, "acks=0")
            .topic("own", 1)
            .step("produce", |m| own(m, batch(&["a"])).with_acks(0))
            .silent()
            .step("produce again", |m| own(m, batch(&["b"])))
            .step("fetch", |m| fetch(&m.own("own"), 0, 0))
            .in_version(12),
        Case::new(Api, "acks=0 to an unknown partition")
            .topic("own", 1)
            .step("produce", move |m| request(vec![rows(m, "own", vec![(5, one())])]).with_acks(0))
            .silent()
            .step("is it open", |_| metadata(&[EMPTY], false))
            .in_version(4),
    ]
}

/// Topics and partitions that are not there, or named in odd ways.
fn places() -> Vec<Case> {
    use ApiKey::Produce as Api;
    let one = || Some(batch(&["a"]));
    vec![
        Case::new(Api, "an unknown topic")
            .ask(move |m| request(vec![rows(m, "unknown", vec![(0, one())])])),
        Case::new(Api, "an unknown id").versions(13..=13).ask(move |m| {
            let topic = rows(m, "unknown", vec![(0, one())]).with_topic_id(Uuid::from_u128(9));
            request(vec![topic])
        }),
        Case::new(Api, "an invalid topic").versions(3..=12).ask(move |m| {
            request(vec![rows(m, "unknown", vec![(0, one())]).with_name(topic_name("bad name"))])
        }),
        Case::new(Api, "an empty topic name").versions(3..=12).ask(move |m| {
            request(vec![rows(m, "unknown", vec![(0, one())]).with_name(topic_name(""))])
        }),
        Case::new(Api, "an unknown partition")
            .topic("own", 1)
            .ask(move |m| request(vec![rows(m, "own", vec![(1, one())])])),
        Case::new(Api, "a negative partition")
            .topic("own", 1)
            .ask(move |m| request(vec![rows(m, "own", vec![(-1, one())])])),
        Case::new(Api, "good and bad partitions")
            .topic("own", 2)
            .ask(move |m| request(vec![rows(m, "own", vec![(1, one()), (7, one()), (0, one())])])),
        Case::new(Api, "good and bad topics").topic("own", 1).ask(move |m| {
            request(vec![rows(m, "unknown", vec![(0, one())]), rows(m, "own", vec![(0, one())])])
        }),
        Case::new(Api, "a partition twice")
            .topic("own", 1)
            .step("produce", move |m| {
                request(vec![rows(m, "own", vec![(0, one()), (0, Some(batch(&["b", "c"])))])])
            })
            .step("end", |m| list_offsets(&m.own("own"), 0, -1))
            .in_version(7),
        Case::new(Api, "a topic twice").topic("own", 2).step("produce", move |m| {
            request(vec![rows(m, "own", vec![(0, one())]), rows(m, "own", vec![(1, one())])])
        }),
        Case::new(Api, "no partitions")
            .topic("own", 1)
            .ask(|m| request(vec![rows(m, "own", vec![])])),
        Case::new(Api, "no topics").ask(|_| request(vec![])),
        Case::new(Api, "no topics with acks=2").ask(|_| request(vec![]).with_acks(2)),
        Case::new(Api, "an internal topic").versions(3..=12).ask(move |m| {
            let topic = rows(m, "x", vec![(0, one())]).with_name(topic_name("__consumer_offsets"));
            request(vec![topic])
        }),
        Case::new(Api, "a transactional id without transactional records").topic("own", 1).ask(
            |m| {
                own(m, batch(&["a"]))
                    .with_transactional_id(Some(StrBytes::from_static_str("t").into()))
            },
        ),
    ]
}

fn damaged() -> Vec<Case> {
    let patch = |name: &str, position: usize, bytes: &'static [u8]| {
        written(name, move || patched(&batch(&["a", "b"]), position, bytes))
    };
    let cut = |name: &str, length: usize| written(name, move || batch(&["a", "b"]).slice(..length));
    vec![
        patch("a wrong CRC", at::CRC, &[1, 2, 3, 4]),
        patch("magic 0", at::MAGIC, &[0]),
        patch("magic 1", at::MAGIC, &[1]),
        patch("magic 3", at::MAGIC, &[3]),
        patch("magic -1", at::MAGIC, &[0xff]),
        patch("a batch length of 0", at::BATCH_LENGTH, &[0, 0, 0, 0]),
        patch("a batch length below a header", at::BATCH_LENGTH, &[0, 0, 0, 13]),
        patch("a negative batch length", at::BATCH_LENGTH, &[0xff, 0xff, 0xff, 0xff]),
        patch("a batch length beyond the bytes", at::BATCH_LENGTH, &[0, 0, 2, 0]),
        patch("more records than there are", at::RECORD_COUNT, &[0, 0, 0, 3]),
        patch("fewer records than there are", at::RECORD_COUNT, &[0, 0, 0, 1]),
        patch("no records but bytes", at::RECORD_COUNT, &[0, 0, 0, 0]),
        patch("a negative record count", at::RECORD_COUNT, &[0xff, 0xff, 0xff, 0xff]),
        patch("a last offset delta too large", at::LAST_OFFSET_DELTA, &[0, 0, 0, 5]),
        patch("a last offset delta too small", at::LAST_OFFSET_DELTA, &[0, 0, 0, 0]),
        patch("a negative last offset delta", at::LAST_OFFSET_DELTA, &[0xff, 0xff, 0xff, 0xff]),
        patch("codec 5", at::ATTRIBUTES, &[0, 5]),
        patch("codec 7", at::ATTRIBUTES, &[0, 7]),
        patch("gzip that is none", at::ATTRIBUTES, &[0, 1]),
        patch("zstd that is none", at::ATTRIBUTES, &[0, 4]),
        patch("the attribute of log append time", at::ATTRIBUTES, &[0, 8]),
        patch("a control batch", at::ATTRIBUTES, &[0, 0x20]),
        patch("a transactional batch without a producer", at::ATTRIBUTES, &[0, 0x10]),
        patch("the attribute of a delete horizon", at::ATTRIBUTES, &[0, 0x40]),
        patch("unknown attributes", at::ATTRIBUTES, &[0x7f, 0]),
        cut("the first byte only", 1),
        cut("half a header", 30),
        cut("a header without records", 61),
        cut("without the last byte", batch(&["a", "b"]).len() - 1),
        written("bytes behind the batch", || [&batch(&["a"])[..], &[0, 0, 0]].concat().into()),
        written("a whole batch and half of one", || {
            [batch(&["a"]), batch(&["b"]).slice(..40)].concat().into()
        }),
        written("a good batch and a bad one", || {
            [batch(&["a"]), patched(&batch(&["b"]), at::CRC, &[1, 2, 3, 4])].concat().into()
        }),
        written("no records at all", || sealed(BatchBuilder::new())),
    ]
}

fn contents() -> Vec<Case> {
    use ApiKey::Produce as Api;
    let codecs = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    let mut cases: Vec<Case> = codecs
        .into_iter()
        .map(|codec| written(&format!("{codec:?}"), move || compressed(codec, &["a", "b", "c"])))
        .collect();
    let timed =
        |timestamp: i64| sealed(BatchBuilder::new().record(Timestamp(timestamp), None, Some(b"a")));
    cases.extend([
        written("a record without a timestamp", move || timed(-1)),
        written("a record of 1970", move || timed(0)),
        written("a record of before 1970", move || timed(-2)),
        written("a record of the next day", move || timed(start_ms() + 100_000_000)),
        written("keys and nulls", || {
            let builder = BatchBuilder::new()
                .record(Timestamp(start_ms()), Some(b"k"), None)
                .record(Timestamp(start_ms()), Some(b""), Some(b""))
                .record(Timestamp(start_ms()), None, None);
            sealed(builder)
        }),
        Case::new(Api, "no key in a compacted topic")
            .ask(|m| request(vec![rows(m, COMPACTED, vec![(0, Some(batch(&["a"])))])])),
        Case::new(Api, "a key in some records of a compacted topic").ask(|m| {
            let records = BatchBuilder::new()
                .record(Timestamp(start_ms()), Some(b"k"), Some(b"v"))
                .record(Timestamp(start_ms()), None, Some(b"v"));
            request(vec![rows(m, COMPACTED, vec![(0, Some(sealed(records)))])])
        }),
        with_config("a batch too large", &[("max.message.bytes", "100")], || batch(&[[b'x'; 200]])),
        with_config("a batch as large as may be", &[("max.message.bytes", "169")], || {
            batch(&[[b'x'; 100]])
        }),
        with_config(
            "two batches that are too large together",
            &[("max.message.bytes", "100")],
            || [batch(&["a"]), batch(&["b"])].concat().into(),
        ),
        with_config("the broker's time", &[("message.timestamp.type", "LogAppendTime")], || {
            batch(&["a", "b"])
        }),
        with_config("recompressed", &[("compression.type", "gzip")], || batch(&["a", "b"])),
        with_config("decompressed", &[("compression.type", "uncompressed")], || {
            compressed(Codec::Gzip, &["a", "b"])
        }),
        with_config("too old", &[("message.timestamp.before.max.ms", "1000")], || batch(&["a"])),
        with_config("not too old", &[("message.timestamp.before.max.ms", "7200000")], || {
            batch(&["a"])
        }),
        with_config("too new", &[("message.timestamp.after.max.ms", "1000")], move || {
            timed(start_ms() + 9_000_000)
        }),
        with_config(
            "too new, of a compressed batch",
            &[("message.timestamp.after.max.ms", "1000")],
            || {
                let late = start_ms() + 9_000_000;
                sealed(builder(&["a"]).record(Timestamp(late), None, Some(b"b")).codec(Codec::Zstd))
            },
        ),
        with_config("not enough replicas", &[("min.insync.replicas", "2")], || batch(&["a"])),
    ]);
    cases
}

/// The same with a config of the topic.
fn with_config(
    name: &str,
    configs: &'static [(&'static str, &'static str)],
    records: impl Fn() -> Bytes + Send + Sync + 'static,
) -> Case {
    let mut case = written(name, records);
    case.topics[0].configs = configs;
    case
}

pub fn cases() -> Vec<Case> {
    let mut cases = arguments();
    cases.extend(places());
    cases.extend(damaged());
    cases.extend(contents());
    cases
}
