//! Fetch: where it starts, how much it takes, how long it waits.

use std::time::{Duration, Instant};

use compat_tests::Connection;
use compat_tests::batches::{batch, records, split};
use compat_tests::broker::is_kafka;
use compat_tests::requests::{FETCH_VERSION, fetch, only_fetched, topic_name};
use kafka_protocol::messages::FetchRequest;
use kafka_protocol::messages::fetch_request::FetchPartition;
use protocol::ErrorCode;

use crate::harness::{connect, error};

/// Longer than a test may take: what answers sooner was woken.
const LONG_WAIT_MS: i32 = 25_000;

fn topic_of_three(connection: &mut Connection, name: &str) {
    connection.create_topic(name, 1);
    connection.append(name, 0, batch(&["0", "1", "2"]));
    connection.append(name, 0, batch(&["3", "4", "5"]));
    connection.append(name, 0, batch(&["6", "7", "8"]));
}

#[test]
fn begins_with_the_batch_that_holds_the_offset() {
    let mut connection = connect();
    topic_of_three(&mut connection, "fetch-middle");
    let data = connection.fetch("fetch-middle", 0, 4);
    assert_eq!(error(data.error_code), ErrorCode::None);
    assert_eq!((data.high_watermark, data.last_stable_offset, data.log_start_offset), (9, 9, 0));
    let batches = split(data.records.as_ref());
    assert_eq!(batches[0].header().base_offset.0, 3);
    let values: Vec<_> =
        records(data.records.as_ref()).into_iter().filter_map(|r| r.value).collect();
    assert_eq!(values, ["3", "4", "5", "6", "7", "8"]);
}

#[test]
fn beyond_the_end_is_out_of_range_and_the_end_itself_is_empty() {
    let mut connection = connect();
    topic_of_three(&mut connection, "fetch-range");
    for offset in [10, 1_000_000, -1] {
        let data = connection.fetch("fetch-range", 0, offset);
        assert_eq!(error(data.error_code), ErrorCode::OffsetOutOfRange, "{offset}");
    }
    let data = connection.fetch("fetch-range", 0, 9);
    assert_eq!(error(data.error_code), ErrorCode::None);
    assert!(data.records.unwrap_or_default().is_empty());
}

#[test]
fn an_unknown_topic_or_partition_is_said_so() {
    let mut connection = connect();
    connection.create_topic("fetch-known", 1);
    for (topic, partition) in [("fetch-unknown", 0), ("fetch-known", 1)] {
        let data = connection.fetch(topic, partition, 0);
        assert_eq!(error(data.error_code), ErrorCode::UnknownTopicOrPartition, "{topic}");
    }
}

#[test]
fn waits_as_long_as_it_was_told_when_nothing_comes() {
    let mut connection = connect();
    topic_of_three(&mut connection, "fetch-wait");
    let started = Instant::now();
    let request = fetch("fetch-wait", 0, 9).with_max_wait_ms(300);
    let response = connection.call(FETCH_VERSION, &request);
    assert!(only_fetched(&response).records.clone().unwrap_or_default().is_empty());
    assert!(started.elapsed() >= Duration::from_millis(300), "{:?}", started.elapsed());
}

#[test]
fn a_waiting_fetch_is_told_that_its_topic_was_deleted() {
    for round in 0..10 {
        let name = format!("fetch-deleted-{round}");
        let mut connection = connect();
        topic_of_three(&mut connection, &name);
        let request = fetch(&name, 0, 9).with_max_wait_ms(LONG_WAIT_MS);
        connection.send(FETCH_VERSION, &request).expect("sent");
        assert_eq!(error(connect().delete_topic(&name)), ErrorCode::None);
        let (_, response) = connection.receive::<FetchRequest>(FETCH_VERSION).expect("answered");
        let told = error(only_fetched(&response).error_code);
        assert_eq!(told, ErrorCode::UnknownTopicOrPartition, "round {round}");
    }
}

#[test]
fn a_waiting_fetch_is_woken_by_a_produce() {
    let mut connection = connect();
    topic_of_three(&mut connection, "fetch-woken");
    let request = fetch("fetch-woken", 0, 9).with_max_wait_ms(LONG_WAIT_MS);
    connection.send(FETCH_VERSION, &request).expect("sent");
    let started = Instant::now();
    connect().append("fetch-woken", 0, batch(&["9"]));
    let (_, response) = connection.receive::<FetchRequest>(FETCH_VERSION).expect("an answer");
    assert!(started.elapsed() < Duration::from_millis(LONG_WAIT_MS as u64 / 2));
    assert_eq!(records(only_fetched(&response).records.as_ref())[0].offset.0, 9);
}

#[test]
fn a_waiting_fetch_collects_the_least_that_it_was_told_to() {
    let mut connection = connect();
    connection.create_topic("fetch-min", 1);
    let large = "x".repeat(600);
    let request = fetch("fetch-min", 0, 0).with_max_wait_ms(LONG_WAIT_MS).with_min_bytes(1000);
    connection.send(FETCH_VERSION, &request).expect("sent");
    let mut producer = connect();
    producer.append("fetch-min", 0, batch(&[&large]));
    producer.append("fetch-min", 0, batch(&[&large]));
    let (_, response) = connection.receive::<FetchRequest>(FETCH_VERSION).expect("an answer");
    assert_eq!(split(only_fetched(&response).records.as_ref()).len(), 2);
    // What is there goes out at the end of the wait, however little it is.
    let request = fetch("fetch-min", 0, 1).with_max_wait_ms(200).with_min_bytes(1_000_000);
    let response = connection.call(FETCH_VERSION, &request);
    assert_eq!(split(only_fetched(&response).records.as_ref()).len(), 1);
}

#[test]
fn an_error_in_a_partition_ends_the_wait() {
    let mut connection = connect();
    topic_of_three(&mut connection, "fetch-error");
    let started = Instant::now();
    let request = fetch("fetch-error", 0, 99).with_max_wait_ms(LONG_WAIT_MS);
    let response = connection.call(FETCH_VERSION, &request);
    assert_eq!(error(only_fetched(&response).error_code), ErrorCode::OffsetOutOfRange);
    assert!(started.elapsed() < Duration::from_millis(LONG_WAIT_MS as u64 / 2));
}

#[test]
fn the_first_batch_comes_whole_however_small_the_limits_are() {
    let mut connection = connect();
    connection.create_topic("fetch-first", 2);
    let large = "x".repeat(5_000);
    for partition in [0, 1] {
        connection.append("fetch-first", partition, batch(&[&large]));
        connection.append("fetch-first", partition, batch(&[&large]));
    }
    let partition = |index| {
        FetchPartition::default()
            .with_partition(index)
            .with_current_leader_epoch(-1)
            .with_last_fetched_epoch(-1)
            .with_log_start_offset(-1)
            .with_partition_max_bytes(100)
    };
    let mut request = fetch("fetch-first", 0, 0).with_max_bytes(100);
    request.topics[0].partitions = vec![partition(0), partition(1)];
    let response = connection.call(FETCH_VERSION, &request);
    let batches: Vec<_> = response.responses[0]
        .partitions
        .iter()
        .map(|data| split(data.records.as_ref()).len())
        .collect();
    assert_eq!(batches.iter().sum::<usize>(), 1, "one batch in all, and that whole: {batches:?}");
}

#[test]
fn a_partition_gives_no_more_than_its_limit_once_it_has_given_a_batch() {
    let mut connection = connect();
    connection.create_topic("fetch-limit", 1);
    for _ in 0..20 {
        connection.append("fetch-limit", 0, batch(&["x".repeat(1_000)]));
    }
    let mut request = fetch("fetch-limit", 0, 0);
    request.topics[0].partitions[0].partition_max_bytes = 5_500;
    let response = connection.call(FETCH_VERSION, &request);
    let bytes = only_fetched(&response).records.clone().unwrap_or_default().len();
    assert!((1_000..=5_500).contains(&bytes), "{bytes} bytes");
    assert_eq!(split(only_fetched(&response).records.as_ref()).len(), 5);
}

#[test]
fn leader_epochs_of_the_past_and_of_the_future_are_told_apart() {
    let mut connection = connect();
    topic_of_three(&mut connection, "fetch-epoch");
    let current = connection.describe_topic("fetch-epoch").partitions[0].leader_epoch;
    let mut with_epoch = |epoch| {
        let mut request = fetch("fetch-epoch", 0, 0);
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        error(only_fetched(&connection.call(FETCH_VERSION, &request)).error_code)
    };
    assert_eq!(with_epoch(current), ErrorCode::None);
    assert_eq!(with_epoch(current + 1), ErrorCode::UnknownLeaderEpoch);
    if current > 0 {
        assert_eq!(with_epoch(current - 1), ErrorCode::FencedLeaderEpoch);
    }
}

#[test]
fn every_version_of_fetch_gives_the_same_records() {
    let mut connection = connect();
    topic_of_three(&mut connection, "fetch-versions");
    let topic_id = connection.describe_topic("fetch-versions").topic_id;
    for version in 4..=18 {
        let mut request = fetch("fetch-versions", 0, 0);
        if version >= 13 {
            request.topics[0].topic_id = topic_id;
            request.topics[0].topic = topic_name("");
        }
        let response = connection.call(version, &request);
        let back = records(only_fetched(&response).records.as_ref());
        assert_eq!(back.len(), 9, "v{version}");
        assert!(back.iter().map(|r| r.offset.0).eq(0..9), "v{version}");
    }
    let mut request = fetch("", 0, 0);
    request.topics[0].topic_id = uuid::Uuid::from_u128(7);
    let response = connection.call(13, &request);
    assert_eq!(error(only_fetched(&response).error_code), ErrorCode::UnknownTopicId);
}

#[test]
fn read_committed_sees_what_no_transaction_holds_back() {
    let mut connection = connect();
    topic_of_three(&mut connection, "fetch-committed");
    let request = fetch("fetch-committed", 0, 0).with_isolation_level(1);
    let response = connection.call(FETCH_VERSION, &request);
    let data = only_fetched(&response);
    assert_eq!(records(data.records.as_ref()).len(), 9);
    assert_eq!(data.last_stable_offset, 9);
    assert_eq!(data.aborted_transactions.clone().unwrap_or_default(), []);
}

/// A value of 900,000 bytes.
fn large(n: usize) -> String {
    format!("{n:0>10}").repeat(90_000)
}

#[test]
fn a_backlog_is_read_after_the_memory_has_forgotten_it() {
    if is_kafka() {
        return;
    }
    // More than any in-memory tail of one partition: the beginning comes from the journal.
    let mut connection = connect();
    connection.create_topic("fetch-backlog", 1);
    let count = 100;
    for n in 0..count {
        connection.append("fetch-backlog", 0, batch(&[large(n)]));
    }
    let all = connection.read_all("fetch-backlog", 0, 0).expect("read");
    assert_eq!(all.len(), count);
    for (n, (offset, value)) in all.iter().enumerate() {
        assert_eq!(*offset, n as i64);
        assert!(value == large(n).as_bytes(), "offset {n}");
    }
}
