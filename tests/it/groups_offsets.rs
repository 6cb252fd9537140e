//! Offsets: committed, read back, forgotten, and kept over a kill.

use std::time::{Duration, Instant};

use compat_tests::batches::{batch, records};
use compat_tests::requests::topic_name;
use kafka_protocol::messages::offset_commit_response::OffsetCommitResponsePartition;
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic,
};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetFetchRequest};
use protocol::ErrorCode;

use crate::group_client::{
    Member, commit, commit_request, committed, ensure_coordinator, group_id, once_ready,
};
use crate::harness::{Scene, connect, error};

#[test]
fn every_version_commits_and_reads_back() {
    let mut connection = connect();
    connection.create_topic("every-version", 3);
    for version in 2..=9 {
        let group = format!("commits-with-v{version}");
        ensure_coordinator(&mut connection, &group);
        let request = commit_request(&group, "every-version", 1, 40 + i64::from(version), "note");
        let response = connection.call(version, &request);
        let row = &response.topics[0].partitions[0];
        assert_eq!((row.partition_index, error(row.error_code)), (1, ErrorCode::None));
    }
    for version in 1..=7 {
        let topic = OffsetFetchRequestTopic::default()
            .with_name(topic_name("every-version"))
            .with_partition_indexes(vec![1, 2]);
        let request = OffsetFetchRequest::default()
            .with_group_id(group_id("commits-with-v5"))
            .with_topics(Some(vec![topic]));
        let response = connection.call(version, &request);
        assert_eq!(error(response.error_code), ErrorCode::None, "v{version}");
        let rows = &response.topics[0].partitions;
        assert_eq!((rows[0].committed_offset, rows[1].committed_offset), (45, -1), "v{version}");
        assert_eq!(rows[0].metadata.as_deref(), Some("note"), "v{version}");
        assert_eq!(rows[1].metadata.as_deref(), Some(""), "v{version}");
        assert_eq!((rows[0].error_code, rows[1].error_code), (0, 0), "v{version}");
    }
    for version in 8..=9 {
        let all = |group: &str| {
            OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_topics(None)
        };
        let groups = vec![all("commits-with-v8"), all("never-committed"), all("commits-with-v9")];
        let response = connection.call(version, &OffsetFetchRequest::default().with_groups(groups));
        let offsets = |at: usize| -> Vec<i64> {
            let topics = response.groups[at].topics.iter();
            topics.flat_map(|topic| topic.partitions.iter().map(|p| p.committed_offset)).collect()
        };
        assert_eq!((offsets(0), offsets(1), offsets(2)), (vec![48], vec![], vec![49]));
        assert_eq!(&**response.groups[1].group_id, "never-committed");
    }
}

#[test]
fn offsets_of_partitions_that_do_not_exist_are_refused_row_by_row() {
    let mut connection = connect();
    connection.create_topic("half-known", 1);
    ensure_coordinator(&mut connection, "half");
    let mut request = commit_request("half", "half-known", 0, 5, "");
    request.topics.extend(commit_request("half", "half-known", 1, 5, "").topics);
    request.topics.extend(commit_request("half", "never-made", 0, 5, "").topics);
    let response = connection.call(8, &request);
    let mut rows: Vec<_> = response
        .topics
        .iter()
        .flat_map(|topic| {
            let row = |p: &OffsetCommitResponsePartition| {
                (topic.name.to_string(), p.partition_index, error(p.error_code))
            };
            topic.partitions.iter().map(row).collect::<Vec<_>>()
        })
        .collect();
    rows.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let row = |topic: &str, partition, code| (topic.to_owned(), partition, code);
    let expected = [
        row("half-known", 0, ErrorCode::None),
        row("half-known", 1, unknown),
        row("never-made", 0, unknown),
    ];
    assert_eq!(rows, expected);
    assert_eq!(committed(&mut connection, "half", "half-known", 0), 5);
}

#[test]
fn what_does_not_fit_beside_an_offset_is_refused() {
    let mut connection = connect();
    connection.create_topic("noted", 1);
    ensure_coordinator(&mut connection, "notes");
    let commit = |connection: &mut compat_tests::Connection, note: &str| {
        let response = connection.call(8, &commit_request("notes", "noted", 0, 1, note));
        error(response.topics[0].partitions[0].error_code)
    };
    assert_eq!(commit(&mut connection, &"n".repeat(4096)), ErrorCode::None);
    assert_eq!(commit(&mut connection, &"n".repeat(4097)), ErrorCode::OffsetMetadataTooLarge);
}

#[test]
fn who_is_not_a_member_commits_only_where_nobody_is() {
    let mut member = Member::new(crate::harness::shared(), "guarded");
    member.connection.create_topic("guarded", 1);
    assert_eq!(commit(&mut member.connection, "guarded", "guarded", 0, 1), ErrorCode::None);
    member.join_alone();
    let mut other = connect();
    let refused = commit(&mut other, "guarded", "guarded", 0, 2);
    assert_eq!(refused, ErrorCode::UnknownMemberId);
    assert_eq!(member.commit("guarded", 0, 3), ErrorCode::None);
    member.generation += 1;
    assert_eq!(member.commit("guarded", 0, 4), ErrorCode::IllegalGeneration);
    assert_eq!(committed(&mut other, "guarded", "guarded", 0), 3);
}

#[test]
fn what_was_committed_is_there_after_a_kill() {
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    connection.create_topic("kept", 2);
    // Groups of several partitions of the coordinator's topic.
    let groups: Vec<_> = (0..20).map(|number| format!("keeper-{number}")).collect();
    for (number, group) in groups.iter().enumerate() {
        ensure_coordinator(&mut connection, group);
        for offset in 0..=number as i64 {
            assert_eq!(commit(&mut connection, group, "kept", 1, offset), ErrorCode::None);
        }
    }
    let scene = scene.restart_after_kill();
    let mut connection = scene.broker.connect();
    for (number, group) in groups.iter().enumerate() {
        assert_eq!(committed(&mut connection, group, "kept", 1), number as i64, "{group}");
        assert_eq!(committed(&mut connection, group, "kept", 0), -1, "{group}");
    }
}

#[test]
fn offsets_are_deleted_one_by_one() {
    let mut connection = connect();
    connection.create_topic("forgotten", 2);
    ensure_coordinator(&mut connection, "forgets");
    for partition in 0..2 {
        assert_eq!(commit(&mut connection, "forgets", "forgotten", partition, 9), ErrorCode::None);
    }
    let partition = |index| OffsetDeleteRequestPartition::default().with_partition_index(index);
    let topic = OffsetDeleteRequestTopic::default()
        .with_name(topic_name("forgotten"))
        .with_partitions(vec![partition(0), partition(7)]);
    let request =
        OffsetDeleteRequest::default().with_group_id(group_id("forgets")).with_topics(vec![topic]);
    let response = connection.call(0, &request);
    assert_eq!(error(response.error_code), ErrorCode::None);
    let rows = response.topics[0].partitions.iter();
    let mut rows: Vec<_> = rows.map(|p| (p.partition_index, error(p.error_code))).collect();
    rows.sort_by_key(|row| row.0);
    assert_eq!(rows, [(0, ErrorCode::None), (7, ErrorCode::UnknownTopicOrPartition)]);
    assert_eq!(committed(&mut connection, "forgets", "forgotten", 0), -1);
    assert_eq!(committed(&mut connection, "forgets", "forgotten", 1), 9);
    let nobody = request.clone().with_group_id(group_id("never-there"));
    assert_eq!(error(connection.call(0, &nobody).error_code), ErrorCode::GroupIdNotFound);
    let unnamed = request.with_group_id(group_id(""));
    assert_eq!(error(connection.call(0, &unnamed).error_code), ErrorCode::InvalidGroupId);
}

#[test]
fn offsets_of_a_deleted_topic_go() {
    let mut connection = connect();
    connection.create_topic("deleted-topic", 1);
    connection.create_topic("kept-topic", 1);
    ensure_coordinator(&mut connection, "of-the-deleted");
    for topic in ["deleted-topic", "kept-topic"] {
        assert_eq!(commit(&mut connection, "of-the-deleted", topic, 0, 4), ErrorCode::None);
    }
    assert_eq!(error(connection.delete_topic("deleted-topic")), ErrorCode::None);
    let deadline = Instant::now() + Duration::from_secs(20);
    while committed(&mut connection, "of-the-deleted", "deleted-topic", 0) != -1 {
        assert!(Instant::now() < deadline, "the offset goes with its topic");
    }
    assert_eq!(committed(&mut connection, "of-the-deleted", "kept-topic", 0), 4);
}

#[test]
fn the_topic_of_groups_is_read_like_any_other_and_written_by_nobody() {
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    connection.create_topic("observed", 1);
    ensure_coordinator(&mut connection, "observed");
    let done = once_ready(|| commit(&mut connection, "observed", "observed", 0, 11));
    assert_eq!(done, ErrorCode::None);
    let partitions = connection.describe_topic("__consumer_offsets").partitions.len();
    let fetched = (0..partitions).flat_map(|partition| {
        let data = connection.fetch("__consumer_offsets", partition as i32, 0);
        assert_eq!(error(data.error_code), ErrorCode::None);
        records(data.records.as_ref())
    });
    let keys: Vec<_> = fetched.filter_map(|record| record.key).collect();
    // Kafka's key of an offset: version 1, group, topic, partition.
    let key = b"\x00\x01\x00\x08observed\x00\x08observed\x00\x00\x00\x00";
    assert_eq!(keys.iter().filter(|found| &found[..] == key).count(), 1);
    let refused = connection.produce("__consumer_offsets", 0, batch(&["x"]));
    assert_eq!(error(refused.error_code), ErrorCode::InvalidTopicException);
}
