//! ListOffsets: the ends of a log, and offsets by time.

use compat_tests::batches::{batch, start_ms};
use compat_tests::requests::{produce, topic_name};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{ApiKey, BrokerId, ListOffsetsRequest};

use crate::case::{Case, Memory};
use crate::setup::{COMPACTED, EMPTY, LOG_APPEND_TIME, NUMBERS, TRIMMED, timed};

fn row(partition: i32, timestamp: i64) -> ListOffsetsPartition {
    ListOffsetsPartition::default()
        .with_partition_index(partition)
        .with_current_leader_epoch(-1)
        .with_timestamp(timestamp)
}

fn request(topic: &str, partitions: Vec<ListOffsetsPartition>) -> ListOffsetsRequest {
    let topic =
        ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(partitions);
    ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
}

fn epoch(memory: &Memory, distance: i32) -> ListOffsetsRequest {
    let partition = row(0, -1).with_current_leader_epoch(memory.leader_epoch + distance);
    request(NUMBERS, vec![partition])
}

pub fn cases() -> Vec<Case> {
    use ApiKey::ListOffsets as Api;
    let mut cases = Vec::new();
    for topic in [NUMBERS, EMPTY, TRIMMED, COMPACTED] {
        for timestamp in [-1, -2, -3, -4, -5, -6, -7, -100, i64::MIN, i64::MAX, 0] {
            let name = format!("{topic} at {timestamp}");
            cases.push(Case::new(Api, name).ask(move |_| request(topic, vec![row(0, timestamp)])));
        }
    }
    // Batches are at 0, 1,000 … 4,000 ms, with a second record 10 ms later.
    for at in [-1, 0, 1, 9, 10, 11, 999, 1_000, 1_005, 1_010, 3_010, 4_000, 4_010, 4_011] {
        let name = format!("{at} ms after the first record");
        cases.push(
            Case::new(Api, name).ask(move |_| request(NUMBERS, vec![row(0, start_ms() + at)])),
        );
    }
    for at in [0, 2, 4, 5] {
        let name = format!("{at} ms into a compressed batch");
        cases.push(
            Case::new(Api, name).ask(move |_| request(NUMBERS, vec![row(1, start_ms() + at)])),
        );
    }
    for at in [3_999, 4_000, 4_001, 0] {
        let name = format!("{at} ms in a log whose start was deleted");
        cases.push(
            Case::new(Api, name).ask(move |_| request(TRIMMED, vec![row(0, start_ms() + at)])),
        );
    }
    cases.extend(arguments());
    cases
}

fn arguments() -> Vec<Case> {
    use ApiKey::ListOffsets as Api;
    vec![
        Case::new(Api, "the largest timestamp of a compressed batch")
            .ask(|_| request(NUMBERS, vec![row(1, -3)])),
        Case::new(Api, "the end of a log with the broker's time")
            .ask(|_| request(LOG_APPEND_TIME, vec![row(0, -1)])),
        Case::new(Api, "an unknown topic").ask(|_| request("no-such-topic", vec![row(0, -1)])),
        Case::new(Api, "an invalid topic").ask(|_| request("bad name", vec![row(0, -1)])),
        Case::new(Api, "an unknown partition").ask(|_| request(NUMBERS, vec![row(3, -1)])),
        Case::new(Api, "a negative partition").ask(|_| request(NUMBERS, vec![row(-1, -1)])),
        Case::new(Api, "good and bad partitions")
            .ask(|_| request(NUMBERS, vec![row(2, -1), row(77, -1), row(0, -2)])),
        Case::new(Api, "a partition twice").ask(|_| request(NUMBERS, vec![row(0, -1), row(0, -2)])),
        Case::new(Api, "no partitions").ask(|_| request(NUMBERS, vec![])),
        Case::new(Api, "no topics").ask(|_| request(NUMBERS, vec![]).with_topics(vec![])),
        Case::new(Api, "read committed")
            .versions(2..=10)
            .ask(|_| request(NUMBERS, vec![row(0, -1)]).with_isolation_level(1)),
        Case::new(Api, "read committed, by time")
            .versions(2..=10)
            .ask(|_| request(NUMBERS, vec![row(0, start_ms() + 4_000)]).with_isolation_level(1)),
        Case::new(Api, "an unknown isolation level")
            .versions(2..=10)
            .ask(|_| request(NUMBERS, vec![row(0, -1)]).with_isolation_level(7)),
        Case::new(Api, "of a follower")
            .ask(|_| request(NUMBERS, vec![row(0, -1)]).with_replica_id(BrokerId(1))),
        Case::new(Api, "of the debugging replica")
            .ask(|_| request(NUMBERS, vec![row(0, -1)]).with_replica_id(BrokerId(-2))),
        Case::new(Api, "the current epoch").versions(4..=10).ask(|m| epoch(m, 0)),
        Case::new(Api, "a newer epoch").versions(4..=10).ask(|m| epoch(m, 1)),
        Case::new(Api, "the last epoch there is")
            .versions(4..=10)
            .ask(|m| epoch(m, i32::MAX - m.leader_epoch)),
        Case::new(Api, "a negative epoch")
            .versions(4..=10)
            .ask(|_| request(NUMBERS, vec![row(0, -1).with_current_leader_epoch(-9)])),
        Case::new(Api, "records out of the order of time")
            .topic("unordered", 1)
            .step("write", |m| produce(&m.own("unordered"), 0, unordered(), -1))
            .in_version(9)
            .step("largest", |m| request(&m.own("unordered"), vec![row(0, -3)]))
            .step("late", |m| request(&m.own("unordered"), vec![row(0, start_ms() + 400)]))
            .step("early", |m| request(&m.own("unordered"), vec![row(0, start_ms() + 50)]))
            .step("later write", |m| produce(&m.own("unordered"), 0, batch(&["z"]), -1))
            .in_version(9)
            .step("largest still", |m| request(&m.own("unordered"), vec![row(0, -3)])),
    ]
}

fn unordered() -> bytes::Bytes {
    // 500 ms, 400, 300 …
    timed(500, -100, &["a", "b", "c", "d", "e"])
}
