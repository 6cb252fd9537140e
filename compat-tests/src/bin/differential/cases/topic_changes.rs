//! DeleteTopics and CreatePartitions.

use compat_tests::requests::{create_topics, metadata, topic_name};
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{ApiKey, BrokerId, CreatePartitionsRequest, DeleteTopicsRequest};
use uuid::Uuid;

use crate::case::Case;
use crate::setup::{EMPTY, NUMBERS};

/// By names, in the field that the version has for them.
fn delete(version: i16, names: &[&str]) -> DeleteTopicsRequest {
    let request = DeleteTopicsRequest::default().with_timeout_ms(10_000);
    let names = names.iter().map(|name| topic_name(name));
    if version < 6 {
        return request.with_topic_names(names.collect());
    }
    let states = names.map(|name| DeleteTopicState::default().with_name(Some(name)));
    request.with_topics(states.collect())
}

fn delete_states(states: &[(Option<&str>, Uuid)]) -> DeleteTopicsRequest {
    let states = states.iter().map(|(name, id)| {
        DeleteTopicState::default().with_name(name.map(topic_name)).with_topic_id(*id)
    });
    DeleteTopicsRequest::default().with_timeout_ms(10_000).with_topics(states.collect())
}

fn deletions() -> Vec<Case> {
    use ApiKey::DeleteTopics as Api;
    vec![
        Case::new(Api, "a topic, twice, and it is made again")
            .topic("gone", 2)
            .fresh()
            .step("delete", |m| delete(m.version, &[&m.own("gone")]))
            .step("delete again", |m| delete(m.version, &[&m.own("gone")]))
            .step("describe", |m| metadata(&[&m.own("gone")], false))
            .in_version(9)
            .settles()
            .step("create", |m| create_topics(&m.own("gone"), 3, &[]))
            .in_version(4)
            .step("describe again", |m| metadata(&[&m.own("gone")], false))
            .in_version(9)
            .settles(),
        Case::new(Api, "an unknown topic").ask(|m| delete(m.version, &["no-such-topic"])),
        Case::new(Api, "an invalid name").ask(|m| delete(m.version, &["bad name"])),
        Case::new(Api, "an empty name").ask(|m| delete(m.version, &[""])),
        Case::new(Api, "one topic twice in a request")
            .topic("gone", 1)
            .fresh()
            .step("delete", |m| delete(m.version, &[&m.own("gone"), &m.own("gone")]))
            .step("describe", |m| metadata(&[&m.own("gone")], false))
            .in_version(9),
        Case::new(Api, "good and unknown ones")
            .topic("gone", 1)
            .fresh()
            .ask(|m| delete(m.version, &["no-such-topic", &m.own("gone"), "neither"])),
        Case::new(Api, "nothing").ask(|m| delete(m.version, &[])),
        Case::new(Api, "no time")
            .topic("gone", 1)
            .fresh()
            .ask(|m| delete(m.version, &[&m.own("gone")]).with_timeout_ms(0)),
    ]
}

fn deletions_by_id() -> Vec<Case> {
    use ApiKey::DeleteTopics as Api;
    let unknown = Uuid::from_u128(5);
    vec![
        Case::new(Api, "by id")
            .versions(6..=6)
            .topic("gone", 1)
            .fresh()
            .ask(|m| delete_states(&[(None, m.id("gone"))])),
        Case::new(Api, "by unknown id")
            .versions(6..=6)
            .ask(move |_| delete_states(&[(None, unknown)])),
        Case::new(Api, "by id and name")
            .versions(6..=6)
            .topic("gone", 1)
            .fresh()
            .ask(|m| delete_states(&[(Some(&m.own("gone")), m.id("gone"))])),
        Case::new(Api, "by id and another name")
            .versions(6..=6)
            .ask(|m| delete_states(&[(Some(EMPTY), m.id(NUMBERS))])),
        Case::new(Api, "by neither id nor name")
            .versions(6..=6)
            .ask(|_| delete_states(&[(None, Uuid::nil())])),
        Case::new(Api, "one topic by id and by name")
            .versions(6..=6)
            .topic("gone", 1)
            .fresh()
            .ask(|m| delete_states(&[(Some(&m.own("gone")), Uuid::nil()), (None, m.id("gone"))])),
        Case::new(Api, "one id twice")
            .versions(6..=6)
            .topic("gone", 1)
            .fresh()
            .ask(|m| delete_states(&[(None, m.id("gone")), (None, m.id("gone"))])),
        Case::new(Api, "one unknown id twice")
            .versions(6..=6)
            .ask(move |_| delete_states(&[(None, unknown), (None, unknown)])),
        Case::new(Api, "all kinds of bad ones").versions(6..=6).topic("gone", 1).fresh().ask(
            move |m| {
                delete_states(&[
                    (None, unknown),
                    (Some("no-such-topic"), Uuid::nil()),
                    (None, Uuid::nil()),
                    (Some(EMPTY), unknown),
                    (None, m.id("gone")),
                ])
            },
        ),
    ]
}

fn grow(name: &str, count: i32, assignments: Option<&[&[i32]]>) -> CreatePartitionsTopic {
    let assignments = assignments.map(|assignments| {
        let assignments = assignments.iter().map(|brokers| {
            CreatePartitionsAssignment::default()
                .with_broker_ids(brokers.iter().copied().map(BrokerId).collect())
        });
        assignments.collect()
    });
    CreatePartitionsTopic::default()
        .with_name(topic_name(name))
        .with_count(count)
        .with_assignments(assignments)
}

fn growing(topics: Vec<CreatePartitionsTopic>) -> CreatePartitionsRequest {
    CreatePartitionsRequest::default().with_topics(topics).with_timeout_ms(10_000)
}

/// A topic of two partitions that shall have others, and what it has afterwards.
fn grown(name: &str, count: i32, assignments: Option<&'static [&'static [i32]]>) -> Case {
    Case::new(ApiKey::CreatePartitions, name)
        .topic("own", 2)
        .fresh()
        .step("grow", move |m| growing(vec![grow(&m.own("own"), count, assignments)]))
        .step("describe", |m| metadata(&[&m.own("own")], false))
        .in_version(9)
        .settles()
}

fn partitions() -> Vec<Case> {
    use ApiKey::CreatePartitions as Api;
    vec![
        grown("more", 4, None),
        grown("as many", 2, None),
        grown("fewer", 1, None),
        grown("none", 0, None),
        grown("minus one", -1, None),
        grown("assigned", 4, Some(&[&[1], &[1]])),
        grown("assigned too few", 4, Some(&[&[1]])),
        grown("assigned too many", 3, Some(&[&[1], &[1]])),
        grown("assigned none", 3, Some(&[])),
        grown("assigned to an unknown broker", 3, Some(&[&[77]])),
        grown("assigned to one broker twice", 3, Some(&[&[1, 1]])),
        grown("assigned to nobody", 3, Some(&[&[]])),
        Case::new(Api, "an unknown topic").ask(|_| growing(vec![grow("no-such-topic", 3, None)])),
        Case::new(Api, "an invalid name").ask(|_| growing(vec![grow("bad name", 3, None)])),
        Case::new(Api, "an empty name").ask(|_| growing(vec![grow("", 3, None)])),
        Case::new(Api, "no topics").ask(|_| growing(vec![])),
        Case::new(Api, "one topic twice")
            .topic("own", 1)
            .fresh()
            .ask(|m| growing(vec![grow(&m.own("own"), 2, None), grow(&m.own("own"), 3, None)])),
        Case::new(Api, "one topic twice beside another")
            .topic("own", 1)
            .fresh()
            .topic("other", 1)
            .ask(|m| {
                growing(vec![
                    grow(&m.own("own"), 2, None),
                    grow(&m.own("other"), 2, None),
                    grow(&m.own("own"), 3, None),
                ])
            }),
        Case::new(Api, "only validated")
            .topic("own", 1)
            .fresh()
            .step("validate", |m| {
                growing(vec![grow(&m.own("own"), 2, None)]).with_validate_only(true)
            })
            .step("describe", |m| metadata(&[&m.own("own")], false))
            .in_version(9),
        Case::new(Api, "no time")
            .topic("own", 1)
            .fresh()
            .ask(|m| growing(vec![grow(&m.own("own"), 2, None)]).with_timeout_ms(0)),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = deletions();
    cases.extend(deletions_by_id());
    cases.extend(partitions());
    cases
}
