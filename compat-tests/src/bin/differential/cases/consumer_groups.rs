//! A group whose partitions the broker hands out (KIP-848): its life, and what is refused.

use compat_tests::requests::{text, topic_name};
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ListGroupsRequest,
};

use super::coordinators::{commit, delete, describe, find, group_id, offsets};
use crate::case::{Case, Memory};
use crate::setup::NUMBERS;

/// Epoch of a member that joins.
const JOIN: i32 = 0;
/// Epoch of a member that leaves.
const LEAVE: i32 = -1;
/// Epoch of a static member that leaves for a while.
const LEAVE_FOR_A_WHILE: i32 = -2;

/// The first heartbeat of a member, with all that it has to say.
fn join(memory: &Memory, member_id: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group_id(&memory.own("g")))
        .with_member_id(text(member_id))
        .with_member_epoch(JOIN)
        .with_rebalance_timeout_ms(10_000)
        .with_subscribed_topic_names(Some(vec![topic_name(NUMBERS)]))
        .with_server_assignor(Some(text("uniform")))
        .with_topic_partitions(Some(vec![]))
}

/// A heartbeat in which nothing has changed.
fn heartbeat(memory: &Memory, member_id: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group_id(&memory.own("g")))
        .with_member_id(text(member_id))
        .with_member_epoch(epoch)
        .with_rebalance_timeout_ms(-1)
}

fn epoch(memory: &Memory) -> i32 {
    i32::try_from(memory.number("epoch")).unwrap_or(-1)
}

fn owning(memory: &Memory, partitions: &[i32]) -> Option<Vec<TopicPartitions>> {
    let topic = TopicPartitions::default()
        .with_topic_id(memory.id(NUMBERS))
        .with_partitions(partitions.to_vec());
    Some(vec![topic])
}

fn describe_consumers(groups: &[&str]) -> ConsumerGroupDescribeRequest {
    let names = groups.iter().map(|name| group_id(name)).collect();
    ConsumerGroupDescribeRequest::default().with_group_ids(names)
}

/// A group with one member.
fn joined(api: ApiKey, name: &str) -> Case {
    Case::new(api, name)
        .step("find", |m| find(m, 0, &[&m.own("g")]))
        .settles()
        .step("join", |m| join(m, "member"))
        .learn::<ConsumerGroupHeartbeatRequest>(|answer, memory| {
            let given = answer.member_id.as_ref().map_or("member", |id| id.as_str());
            memory.keep_text("member", given);
            memory.keep("epoch", answer.member_epoch);
        })
}

fn life(api: ApiKey) -> Case {
    joined(api, "a consumer group's life")
        .step("heartbeat", |m| heartbeat(m, &m.text("member"), epoch(m)))
        .step("heartbeat with what it owns", |m| {
            heartbeat(m, &m.text("member"), epoch(m)).with_topic_partitions(owning(m, &[0, 1, 2]))
        })
        .step("heartbeat of the past", |m| heartbeat(m, &m.text("member"), epoch(m) - 1))
        .step("heartbeat of the future", |m| heartbeat(m, &m.text("member"), epoch(m) + 7))
        .step("heartbeat of a stranger", |m| heartbeat(m, "stranger", epoch(m)))
        .step("join again", |m| join(m, &m.text("member")))
        .step("describe", |m| describe_consumers(&[&m.own("g")]))
        .step("describe as a classic one", |m| describe(&[&m.own("g")]))
        .step("list", |_| ListGroupsRequest::default())
        .only_own()
        .step("commit", |m| {
            commit(&m.own("g"), &[(NUMBERS, 0, 5, None)])
                .with_member_id(text(&m.text("member")))
                .with_generation_id_or_member_epoch(epoch(m))
        })
        .step("commit of the future", |m| {
            commit(&m.own("g"), &[(NUMBERS, 0, 5, None)])
                .with_member_id(text(&m.text("member")))
                .with_generation_id_or_member_epoch(epoch(m) + 1)
        })
        .step("commit from outside", |m| commit(&m.own("g"), &[(NUMBERS, 1, 2, None)]))
        .step("fetch", |m| offsets(m, &m.own("g"), Some(&[(NUMBERS, &[0, 1])])))
        .step("delete", |m| delete(&[&m.own("g")]))
        .step("leave of a stranger", |m| heartbeat(m, "stranger", LEAVE))
        .step("leave", |m| heartbeat(m, &m.text("member"), LEAVE))
        .step("leave again", |m| heartbeat(m, &m.text("member"), LEAVE))
        .step("describe after", |m| describe_consumers(&[&m.own("g")]))
        .step("delete after", |m| delete(&[&m.own("g")]))
        .step("describe at last", |m| describe_consumers(&[&m.own("g")]))
}

fn heartbeats() -> Vec<Case> {
    use ApiKey::ConsumerGroupHeartbeat as Api;
    type Request = ConsumerGroupHeartbeatRequest;
    let joining = |name: &str, change: fn(Request) -> Request| {
        Case::new(Api, name).ask(move |m| change(join(m, "member")))
    };
    let later = |name: &str, change: fn(Request, &Memory) -> Request| {
        joined(Api, name)
            .step("heartbeat", move |m| change(heartbeat(m, &m.text("member"), epoch(m)), m))
    };
    vec![
        joining("an empty group id", |r| r.with_group_id(group_id(""))),
        joining("no member id", |r| r.with_member_id(text(""))),
        joining("an empty instance id", |r| r.with_instance_id(Some(text("")))),
        joining("an empty rack", |r| r.with_rack_id(Some(text("")))),
        joining("no rebalance timeout", |r| r.with_rebalance_timeout_ms(-1)),
        joining("no topics", |r| r.with_subscribed_topic_names(None)),
        joining("an empty list of topics", |r| r.with_subscribed_topic_names(Some(vec![]))),
        joining("an unknown topic", |r| {
            r.with_subscribed_topic_names(Some(vec![topic_name("no-such-topic")]))
        }),
        joining("partitions of a member that joins", |r| {
            let topic = TopicPartitions::default().with_partitions(vec![0]);
            r.with_topic_partitions(Some(vec![topic]))
        }),
        joining("owned partitions are null", |r| r.with_topic_partitions(None)),
        joining("an unknown assignor", |r| r.with_server_assignor(Some(text("wildest")))),
        joining("an empty assignor", |r| r.with_server_assignor(Some(text("")))),
        joining("the range assignor", |r| r.with_server_assignor(Some(text("range")))),
        joining("no assignor", |r| r.with_server_assignor(None)),
        joining("an epoch before all", |r| r.with_member_epoch(-7)),
        joining("an epoch of no group", |r| r.with_member_epoch(3)),
        joining("leaving no group", |r| r.with_member_epoch(LEAVE)),
        joining("leaving for a while without an instance", |r| {
            r.with_member_epoch(LEAVE_FOR_A_WHILE)
        }),
        joining("a static member", |r| r.with_instance_id(Some(text("static")))),
        Case::new(Api, "a regular expression").versions(1..=1).ask(|m| {
            join(m, "member")
                .with_subscribed_topic_names(None)
                .with_subscribed_topic_regex(Some(text("fixture-num.*")))
        }),
        Case::new(Api, "a regular expression that is none").versions(1..=1).ask(|m| {
            join(m, "member")
                .with_subscribed_topic_names(None)
                .with_subscribed_topic_regex(Some(text("fixture-(")))
        }),
        later("another instance", |r, _| r.with_instance_id(Some(text("other")))),
        later("another assignor", |r, _| r.with_server_assignor(Some(text("range")))),
        later("a stranger's partitions", |r, m| r.with_topic_partitions(owning(m, &[0, 77]))),
        later("no topics any more", |r, _| r.with_subscribed_topic_names(Some(vec![]))),
        later("leaving for a while without an instance, as a member", |r, _| {
            r.with_member_epoch(LEAVE_FOR_A_WHILE)
        }),
    ]
}

fn descriptions() -> Vec<Case> {
    use ApiKey::ConsumerGroupDescribe as Api;
    vec![
        Case::new(Api, "an unknown group").ask(|_| describe_consumers(&["nobody's"])),
        Case::new(Api, "an empty group id").ask(|_| describe_consumers(&[""])),
        Case::new(Api, "one group twice").ask(|_| describe_consumers(&["a", "a"])),
        Case::new(Api, "no groups").ask(|_| describe_consumers(&[])),
        Case::new(Api, "a classic group")
            .step("commit", |m| commit(&m.own("g"), &[(NUMBERS, 0, 5, None)]))
            .step("describe", |m| describe_consumers(&[&m.own("g")])),
        joined(Api, "operations").step("describe", |m| {
            describe_consumers(&[&m.own("g")]).with_include_authorized_operations(true)
        }),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![life(ApiKey::ConsumerGroupHeartbeat), life(ApiKey::ConsumerGroupDescribe)];
    cases.extend(heartbeats());
    cases.extend(descriptions());
    cases
}
