//! Metadata and DescribeTopicPartitions.

use compat_tests::requests::{metadata, topic_name};
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{ApiKey, DescribeTopicPartitionsRequest, MetadataRequest};
use uuid::Uuid;

use crate::case::{Case, Memory};
use crate::setup::{COMPACTED, EMPTY, NUMBERS};

fn names(names: &[&str]) -> MetadataRequest {
    metadata(names, false)
}

fn by_id(id: Uuid, name: Option<&str>) -> MetadataRequest {
    let topic = MetadataRequestTopic::default().with_topic_id(id).with_name(name.map(topic_name));
    MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(false)
}

fn own_and_new(memory: &Memory) -> MetadataRequest {
    metadata(&[&memory.own("auto"), EMPTY], true)
}

pub fn cases() -> Vec<Case> {
    use ApiKey::Metadata as Api;
    let long = "x".repeat(250);
    let longest = "x".repeat(249);
    let mut cases = vec![
        Case::new(Api, "known topics").ask(|_| names(&[NUMBERS, EMPTY, COMPACTED])),
        Case::new(Api, "one topic twice").ask(|_| names(&[EMPTY, EMPTY])),
        Case::new(Api, "an unknown topic").ask(|_| names(&["no-such-topic"])),
        Case::new(Api, "known, unknown and invalid ones")
            .ask(|_| names(&[EMPTY, "no-such-topic", "bad name", NUMBERS])),
        Case::new(Api, "no topics").versions(1..=13).ask(|_| names(&[])),
        Case::new(Api, "a topic that is made by asking").ask(own_and_new),
        Case::new(Api, "an invalid topic that would be made by asking")
            .ask(|_| metadata(&["bad name"], true)),
        Case::new(Api, "a longest name").ask(move |_| names(&[&longest])),
        Case::new(Api, "a name too long that would be made by asking")
            .ask(move |_| metadata(&[&long], true)),
        Case::new(Api, "an empty name").ask(|_| names(&[""])),
        Case::new(Api, "an empty name that would be made by asking").ask(|_| metadata(&[""], true)),
        Case::new(Api, "two dots").ask(|_| metadata(&[".."], true)),
        Case::new(Api, "one dot").ask(|_| metadata(&["."], true)),
        Case::new(Api, "cluster operations")
            .versions(8..=10)
            .ask(|_| names(&[]).with_include_cluster_authorized_operations(true)),
        Case::new(Api, "topic operations").versions(8..=13).ask(|_| {
            names(&[EMPTY, "no-such-topic"]).with_include_topic_authorized_operations(true)
        }),
        Case::new(Api, "by id").versions(12..=13).ask(|m| by_id(m.id(NUMBERS), None)),
        Case::new(Api, "by unknown id").versions(12..=13).ask(|_| by_id(Uuid::from_u128(77), None)),
        Case::new(Api, "by id and name")
            .versions(12..=13)
            .ask(|m| by_id(m.id(NUMBERS), Some(NUMBERS))),
        Case::new(Api, "by id and another name")
            .versions(12..=13)
            .ask(|m| by_id(m.id(NUMBERS), Some(EMPTY))),
        Case::new(Api, "by id before ids could be asked for")
            .versions(10..=11)
            .ask(|m| by_id(m.id(NUMBERS), None)),
        Case::new(Api, "by id with a name before ids could be asked for")
            .versions(10..=11)
            .ask(|m| by_id(m.id(NUMBERS), Some(NUMBERS))),
        Case::new(Api, "neither id nor name").versions(12..=13).ask(|_| by_id(Uuid::nil(), None)),
        Case::new(Api, "a null name").versions(10..=13).ask(|_| by_id(Uuid::nil(), None)),
        Case::new(Api, "an id and a name of two topics").versions(12..=13).ask(|m| {
            let topics = vec![
                MetadataRequestTopic::default().with_topic_id(m.id(NUMBERS)).with_name(None),
                MetadataRequestTopic::default().with_name(Some(topic_name(EMPTY))),
            ];
            MetadataRequest::default()
                .with_topics(Some(topics))
                .with_allow_auto_topic_creation(false)
        }),
        Case::new(Api, "an internal topic that nobody made")
            .ask(|_| names(&["__share_group_state"])),
    ];
    cases.extend(topic_partitions());
    cases
}

fn describe(
    topics: &[&str],
    limit: i32,
    cursor: Option<(&str, i32)>,
) -> DescribeTopicPartitionsRequest {
    let topics =
        topics.iter().map(|name| TopicRequest::default().with_name(topic_name(name))).collect();
    let cursor = cursor.map(|(name, partition)| {
        Cursor::default().with_topic_name(topic_name(name)).with_partition_index(partition)
    });
    DescribeTopicPartitionsRequest::default()
        .with_topics(topics)
        .with_response_partition_limit(limit)
        .with_cursor(cursor)
}

fn topic_partitions() -> Vec<Case> {
    use ApiKey::DescribeTopicPartitions as Api;
    type Row = (&'static str, &'static [&'static str], i32, Option<(&'static str, i32)>);
    let rows: [Row; 15] = [
        ("known topics", &[NUMBERS, EMPTY], 2_000, None),
        ("an unknown topic", &["no-such-topic"], 2_000, None),
        ("known and unknown", &["no-such-topic", EMPTY, "aaa"], 2_000, None),
        ("an invalid name", &["bad name"], 2_000, None),
        ("an empty name", &[""], 2_000, None),
        ("one topic twice", &[EMPTY, EMPTY], 2_000, None),
        ("a limit of one", &[NUMBERS, EMPTY], 1, None),
        ("a limit of two", &[NUMBERS, EMPTY], 2, None),
        ("a limit of zero", &[NUMBERS], 0, None),
        ("a negative limit", &[NUMBERS], -1, None),
        ("a cursor inside", &[NUMBERS, EMPTY], 2_000, Some((NUMBERS, 1))),
        ("a cursor behind the last partition", &[NUMBERS], 2_000, Some((NUMBERS, 9))),
        ("a cursor at an unknown topic", &[NUMBERS], 2_000, Some(("zzz", 0))),
        ("a cursor at an unknown topic before", &[NUMBERS], 2_000, Some(("aaa", 0))),
        ("a negative cursor", &[NUMBERS], 2_000, Some((NUMBERS, -1))),
    ];
    rows.into_iter()
        .map(|(name, topics, limit, cursor)| {
            Case::new(Api, name).ask(move |_| describe(topics, limit, cursor))
        })
        .collect()
}
