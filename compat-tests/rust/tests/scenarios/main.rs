//! The scenarios of `matrix/scenarios.toml`, for rdkafka: a test each, reported where the runner
//! wants it. The runner names them to the test binary, one after the other.

mod group;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use compat_rdkafka::{Broker, Record, Sender, TIMEOUT, take};
use group::{Group, PARTITIONS};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("fits")
}

/// Runs a scenario with a topic's name and reports it; not asked for, it does nothing.
fn scenario(name: &str, run: impl FnOnce(&Broker, &str)) {
    let variable = |name: &str| std::env::var(name).expect("the runner sets it");
    if !variable("SCENARIOS").split(' ').any(|wanted| wanted == name) {
        return;
    }
    let broker = Broker { bootstrap: variable("BOOTSTRAP") };
    let topic = format!("rust-{name}-{}", now_ms());
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&broker, &topic)));
    let result = if outcome.is_ok() { "pass" } else { "fail" };
    let results = std::fs::OpenOptions::new().create(true).append(true).open(variable("RESULTS"));
    writeln!(results.expect("a file"), "{result} {name}").expect("writes");
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

fn numbered(count: i64) -> Vec<Record> {
    (0..count).map(|i| Record::of(i.to_string())).collect()
}

fn offsets(records: &[Record]) -> Vec<i64> {
    records.iter().map(|record| record.offset).collect()
}

/// Values that count up, at offsets that do.
fn assert_numbered(records: &[Record], first: i64) {
    for (record, number) in records.iter().zip(first..) {
        let value = record.value.clone().map(String::from_utf8);
        assert_eq!((record.offset, value), (number, Some(Ok(number.to_string()))));
    }
}

/// Creates the topic, sends the record, and gets it back.
fn through_broker(broker: &Broker, topic: &str, record: Record) -> Record {
    broker.create_topic(topic, 1).expect("creates");
    let sizes = [("message.max.bytes", "1048576")];
    broker.produce(topic, &[record], &sizes).expect("produces");
    broker.consume(topic, Offset::Beginning, 1).remove(0)
}

/// Produces numbers up to `count` and reads them from `first` on.
fn counts_up(broker: &Broker, topic: &str, count: i64, first: i64) {
    broker.create_topic(topic, 1).expect("creates");
    broker.produce(topic, &numbered(count), &[]).expect("produces");
    let from = if first == 0 { Offset::Beginning } else { Offset::Offset(first) };
    let wanted = usize::try_from(count - first).expect("not negative");
    assert_numbered(&broker.consume(topic, from, wanted), first);
}

#[test]
fn create_topic() {
    scenario("create-topic", |broker, topic| {
        broker.create_topic(topic, 3).expect("creates");
        assert_eq!(broker.partitions(topic), 3);
    });
}

#[test]
fn codecs() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        scenario(&format!("codec-{codec}"), |broker, topic| round_trip(broker, topic, codec));
    }
}

fn round_trip(broker: &Broker, topic: &str, codec: &str) {
    broker.create_topic(topic, 1).expect("creates");
    // An hour ago: no record is old enough for retention.
    let start = now_ms() - 3_600_000;
    let record = |i: i64| Record {
        offset: i,
        key: Some(format!("key {i}").into_bytes()),
        timestamp: Some(start + i),
        ..Record::of(format!("value {i} {}", "x".repeat(100)))
    };
    let sent: Vec<Record> = (0..1000).map(record).collect();
    let told = broker.produce(topic, &sent, &[("compression.type", codec)]);
    assert_eq!(told.expect("produces"), offsets(&sent));
    assert_eq!(broker.consume(topic, Offset::Beginning, 1000), sent);
}

#[test]
fn headers() {
    scenario("headers", |broker, topic| {
        let header = |(key, value): (&str, Option<&str>)| (key.to_owned(), value.map(Into::into));
        let pairs = [("a", Some("1")), ("b", Some("2")), ("a", Some("3")), ("empty", Some(""))];
        let mut headers: Vec<_> = pairs.into_iter().map(header).collect();
        headers.push(header(("null", None)));
        let back =
            through_broker(broker, topic, Record { headers: headers.clone(), ..Record::of("v") });
        assert_eq!(back.headers, headers);
    });
}

#[test]
fn nulls() {
    scenario("null-key", |broker, topic| {
        let back = through_broker(broker, topic, Record::of("v"));
        assert_eq!((back.key, back.value), (None, Some(b"v".to_vec())));
    });
    scenario("null-value", |broker, topic| {
        let sent = Record { key: Some(b"k".to_vec()), ..Record::default() };
        let back = through_broker(broker, topic, sent);
        assert_eq!((back.key, back.value), (Some(b"k".to_vec()), None));
    });
}

#[test]
fn sizes() {
    scenario("record-1mb", |broker, topic| {
        let value: Vec<u8> = (0..1_000_000u64).map(|i| (i * i % 251) as u8).collect();
        let back = through_broker(broker, topic, Record::of(value.clone()));
        assert!(back.value == Some(value));
    });
    scenario("small-10000", |broker, topic| counts_up(broker, topic, 10_000, 0));
}

#[test]
fn places_to_begin() {
    scenario("from-earliest", |broker, topic| counts_up(broker, topic, 10, 0));
    scenario("from-offset", |broker, topic| counts_up(broker, topic, 10, 5));
    scenario("from-latest", from_latest);
    scenario("from-timestamp", from_timestamp);
}

fn from_latest(broker: &Broker, topic: &str) {
    broker.create_topic(topic, 1).expect("creates");
    broker.produce(topic, &numbered(10), &[]).expect("produces");
    let consumer = broker.assigned(topic, Offset::End);
    let end = Instant::now() + TIMEOUT;
    while consumer.poll(Duration::from_millis(500)).is_none() {
        assert!(Instant::now() < end, "nothing comes");
        broker.produce(topic, &[Record::of("after")], &[]).expect("produces");
    }
    broker.produce(topic, &[Record::of("after")], &[]).expect("produces");
    let record = take(&consumer, 1).remove(0);
    assert!(record.offset > 10 && record.value == Some(b"after".to_vec()));
}

fn from_timestamp(broker: &Broker, topic: &str) {
    broker.create_topic(topic, 1).expect("creates");
    let start = now_ms() - 3_600_000;
    let mut records = numbered(100);
    for (record, i) in records.iter_mut().zip(0..) {
        record.timestamp = Some(start + 10 * i);
    }
    broker.produce(topic, &records, &[]).expect("produces");
    let mut asked = TopicPartitionList::new();
    asked.add_partition_offset(topic, 0, Offset::Offset(start + 411)).expect("an offset");
    let found = broker.consumer(&[]).offsets_for_times(asked, TIMEOUT).expect("an answer");
    let found = found.find_partition(topic, 0).expect("the partition").offset();
    assert_eq!(found, Offset::Offset(42));
    assert_numbered(&broker.consume(topic, found, 1), 42);
}

#[test]
fn idempotent_restart() {
    scenario("idempotent-restart", |broker, topic| {
        broker.create_topic(topic, 1).expect("creates");
        let pairs = [("enable.idempotence", "true"), ("message.timeout.ms", "90000")];
        let mut sender = Sender::new(&broker.bootstrap, topic, &pairs);
        let send = |sender: &mut Sender| sender.send(&Record::of(sender.sent.to_string()));
        (0..200).for_each(|_| send(&mut sender));
        let command = std::env::var("RESTART_BROKER").expect("the runner sets it");
        let mut restart = Command::new("sh").args(["-c", &command]).spawn().expect("starts");
        let status = loop {
            if let Some(status) = restart.try_wait().expect("its status") {
                break status;
            }
            send(&mut sender);
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success());
        (0..200).for_each(|_| send(&mut sender));
        let count = sender.finish().expect("all are acknowledged").len();
        assert_numbered(&broker.consume(topic, Offset::Beginning, count), 0);
        let end = broker.produce(topic, &[Record::of("end")], &[]).expect("produces");
        assert_eq!(end, [i64::try_from(count).expect("fits")]);
    });
}

#[test]
fn auto_create() {
    scenario("auto-create", |broker, topic| {
        assert_eq!(broker.produce(topic, &numbered(1), &[]).expect("produces"), [0]);
        assert_numbered(&broker.consume(topic, Offset::Beginning, 1), 0);
    });
}

#[test]
fn refusals() {
    scenario("too-large", |broker, topic| {
        broker.create_topic(topic, 1).expect("creates");
        let large = Record::of(vec![7; 2_000_000]);
        let refused = broker.produce(topic, &[large], &[("message.max.bytes", "10000000")]);
        let code = RDKafkaErrorCode::MessageSizeTooLarge;
        assert_eq!(refused, Err(KafkaError::MessageProduction(code)));
        assert_eq!(broker.produce(topic, &numbered(1), &[]).expect("produces"), [0]);
    });
    scenario("invalid-name", |broker, _| {
        assert_eq!(broker.create_topic("no blanks", 1), Err(RDKafkaErrorCode::InvalidTopic));
    });
}

#[test]
fn recreate() {
    scenario("recreate", |broker, topic| {
        broker.create_topic(topic, 1).expect("creates");
        broker.produce(topic, &[Record::of("old"), Record::of("old")], &[]).expect("produces");
        broker.delete_topic(topic).expect("deletes");
        let end = Instant::now() + TIMEOUT;
        while broker.partitions(topic) > 0 {
            assert!(Instant::now() < end, "the topic does not go");
        }
        broker.create_topic(topic, 2).expect("creates");
        assert_eq!(broker.produce(topic, &numbered(1), &[]).expect("produces"), [0]);
        assert_numbered(&broker.consume(topic, Offset::Beginning, 1), 0);
        assert_eq!(broker.partitions(topic), 2);
    });
}

#[test]
fn groups() {
    scenario("group-commit", |broker, topic| {
        broker.create_topic(topic, 1).expect("creates");
        broker.produce(topic, &numbered(100), &[]).expect("produces");
        for first in [0, 50] {
            assert_numbered(&broker.group_take(topic, topic, 50), first);
            assert_eq!(broker.committed(topic, topic, 1), [first + 50]);
        }
    });
    scenario("group-share", |broker, topic| {
        let mut group = Group::start(broker, topic, "");
        group.until_shared();
        group.members.iter_mut().for_each(group::Member::leave);
        group.check_all_processed();
    });
    scenario("group-rewind", |broker, topic| {
        let mut group = Group::start(broker, topic, "");
        group.until_shared();
        for _ in 0..4 {
            group.round();
        }
        group.until_committed();
        let before = group.rounds();
        group.rewind(&format!("--to-offset {}", before - 3), before - 3);
        group.round();
        group.rewind("--undo", before);
        group.until_committed();
        group.members.iter_mut().for_each(group::Member::leave);
        group.check_all_processed();
    });
    scenario("group-takeover", |broker, topic| takeover(broker, topic, ""));
    scenario("group-static", |broker, topic| {
        let mut group = Group::start(broker, topic, "static");
        let before = group.until_shared();
        group.restart_static();
        // Whoever rejoined would have been given other partitions, or none for a while.
        let mut got = group.round();
        while got[0] != before[0] {
            assert_eq!(got[1], before[1]);
            got = group.round();
        }
        assert_eq!(got, before);
        group.members.iter_mut().for_each(group::Member::leave);
        group.check_all_processed();
    });
    scenario("group-cooperative", |broker, topic| takeover(broker, topic, "cooperative"));
    scenario("group-kip848", |broker, topic| takeover(broker, topic, "kip848"));
}

fn takeover(broker: &Broker, topic: &str, mode: &str) {
    let mut group = Group::start(broker, topic, mode);
    group.until_shared();
    group.members[0].die();
    let begun = Instant::now();
    while group.round()[1].len() != PARTITIONS as usize {
        assert!(begun.elapsed() < TIMEOUT, "nobody takes over");
    }
    // The session timeout, a heartbeat for the news, and a rebalance.
    assert!(begun.elapsed() < Duration::from_secs(12), "it took {:?}", begun.elapsed());
    group.members[1].leave();
    group.check_all_processed();
}
