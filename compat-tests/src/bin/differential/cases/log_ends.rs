//! OffsetForLeaderEpoch and DeleteRecords.

use compat_tests::batches::batch;
use compat_tests::requests::{list_offsets, produce, topic_name};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    ApiKey, BrokerId, DeleteRecordsRequest, OffsetForLeaderEpochRequest,
};

use crate::case::{Case, Memory};
use crate::setup::{COMPACTED, EMPTY, NUMBERS, TRIMMED};

/// Partition, epoch that the client believes to be current, epoch whose end is asked for: the
/// epochs by their distance from the first, except for negative ones.
fn epochs(memory: &Memory, topic: &str, rows: &[(i32, i32, i32)]) -> OffsetForLeaderEpochRequest {
    let from = |epoch: i32| match epoch {
        epoch if epoch < 0 => epoch,
        epoch => epoch.saturating_add(memory.leader_epoch),
    };
    let partitions = rows.iter().map(|(partition, current, asked)| {
        OffsetForLeaderPartition::default()
            .with_partition(*partition)
            .with_current_leader_epoch(from(*current))
            .with_leader_epoch(from(*asked))
    });
    let topic = OffsetForLeaderTopic::default()
        .with_topic(topic_name(topic))
        .with_partitions(partitions.collect());
    OffsetForLeaderEpochRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
}

fn leader_epochs() -> Vec<Case> {
    use ApiKey::OffsetForLeaderEpoch as Api;
    type Row = (&'static str, &'static str, &'static [(i32, i32, i32)]);
    let rows: [Row; 16] = [
        ("the current epoch", NUMBERS, &[(0, -1, 0)]),
        ("an epoch of the future", NUMBERS, &[(0, -1, 1)]),
        ("the last epoch there is", NUMBERS, &[(0, -1, i32::MAX)]),
        ("a negative epoch", NUMBERS, &[(0, -1, -1)]),
        ("a very negative epoch", NUMBERS, &[(0, -1, -7)]),
        ("an empty log", EMPTY, &[(0, -1, 0)]),
        ("an empty log, in the future", EMPTY, &[(0, -1, 1)]),
        ("a log whose start was deleted", TRIMMED, &[(0, -1, 0)]),
        ("a client that is up to date", NUMBERS, &[(0, 0, 0)]),
        ("a client ahead of the leader", NUMBERS, &[(0, 1, 0)]),
        ("an unknown topic", "no-such-topic", &[(0, -1, 0)]),
        ("an unknown topic of a client with an epoch", "no-such-topic", &[(0, 0, 0)]),
        ("an unknown partition", NUMBERS, &[(9, -1, 0)]),
        ("a negative partition", NUMBERS, &[(-1, -1, 0)]),
        ("a partition twice", NUMBERS, &[(0, -1, 0), (0, -1, 1)]),
        ("no partitions", NUMBERS, &[]),
    ];
    let mut cases: Vec<Case> = rows
        .into_iter()
        .map(|(name, topic, rows)| Case::new(Api, name).ask(move |m| epochs(m, topic, rows)))
        .collect();
    cases.push(Case::new(Api, "no topics").ask(|m| epochs(m, "", &[]).with_topics(vec![])));
    cases.push(
        Case::new(Api, "of a follower")
            .versions(3..=4)
            .ask(|m| epochs(m, NUMBERS, &[(0, -1, 0)]).with_replica_id(BrokerId(1))),
    );
    cases
}

fn delete(topic: &str, rows: &[(i32, i64)]) -> DeleteRecordsRequest {
    let partitions = rows.iter().map(|(partition, offset)| {
        DeleteRecordsPartition::default().with_partition_index(*partition).with_offset(*offset)
    });
    let topic = DeleteRecordsTopic::default()
        .with_name(topic_name(topic))
        .with_partitions(partitions.collect());
    DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(5_000)
}

/// A topic with six records in three batches, and deletions from it one after another.
fn deletions(name: &str, offsets: &'static [i64]) -> Case {
    let mut case = Case::new(ApiKey::DeleteRecords, name).topic("own", 1).fresh();
    for number in 0..3 {
        case = case
            .step(&format!("write {number}"), |m| produce(&m.own("own"), 0, batch(&["a", "b"]), -1))
            .in_version(9);
    }
    for offset in offsets {
        case = case
            .step(&format!("delete to {offset}"), |m| delete(&m.own("own"), &[(0, *offset)]))
            .step(&format!("start after {offset}"), |m| list_offsets(&m.own("own"), 0, -2))
            .in_version(7)
            .step(&format!("end after {offset}"), |m| list_offsets(&m.own("own"), 0, -1))
            .in_version(7);
    }
    case.step("write again", |m| produce(&m.own("own"), 0, batch(&["c"]), -1)).in_version(9)
}

fn delete_records() -> Vec<Case> {
    use ApiKey::DeleteRecords as Api;
    vec![
        deletions("whole batches", &[2, 4]),
        deletions("into a batch", &[1, 3]),
        deletions("nothing", &[0]),
        deletions("everything", &[6]),
        deletions("up to the high watermark", &[-1]),
        deletions("backwards", &[4, 2, 4]),
        deletions("past the end", &[7]),
        deletions("a negative offset", &[-2]),
        deletions("the most negative offset", &[i64::MIN]),
        deletions("the largest offset", &[i64::MAX]),
        Case::new(Api, "an empty log").ask(|_| delete(EMPTY, &[(0, 0)])),
        Case::new(Api, "an empty log past its end").ask(|_| delete(EMPTY, &[(0, 1)])),
        Case::new(Api, "an empty log's high watermark").ask(|_| delete(EMPTY, &[(0, -1)])),
        Case::new(Api, "a compacted topic").ask(|_| delete(COMPACTED, &[(0, 1)])),
        Case::new(Api, "an unknown topic").ask(|_| delete("no-such-topic", &[(0, 1)])),
        Case::new(Api, "an invalid topic").ask(|_| delete("bad name", &[(0, 1)])),
        Case::new(Api, "an unknown partition").ask(|_| delete(NUMBERS, &[(9, 1)])),
        Case::new(Api, "a negative partition").ask(|_| delete(NUMBERS, &[(-1, 1)])),
        Case::new(Api, "bad ones beside a good one")
            .ask(|_| delete(NUMBERS, &[(9, 1), (0, 0), (1, 700)])),
        Case::new(Api, "a partition twice").ask(|_| delete(NUMBERS, &[(0, 0), (0, 100)])),
        Case::new(Api, "no partitions").ask(|_| delete(NUMBERS, &[])),
        Case::new(Api, "no topics").ask(|_| delete(NUMBERS, &[]).with_topics(vec![])),
        Case::new(Api, "no time")
            .topic("quick", 1)
            .ask(|m| delete(&m.own("quick"), &[(0, 0)]).with_timeout_ms(0)),
        Case::new(Api, "an internal topic").ask(|_| delete("__transaction_state", &[(0, 0)])),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = leader_epochs();
    cases.extend(delete_records());
    cases
}
