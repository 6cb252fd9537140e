//! The group APIs without a living member: who coordinates, offsets, lists, refusals.

use compat_tests::requests::{text, topic_name};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::{
    ApiKey, DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId,
    ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest,
};

use crate::case::{Case, Memory};
use crate::setup::{EMPTY, NUMBERS};

/// First version that asks for several keys.
const KEYS_SINCE: i16 = 4;
/// First version of OffsetFetch that asks for several groups.
const GROUPS_SINCE: i16 = 8;

pub fn group_id(name: &str) -> GroupId {
    GroupId(text(name))
}

pub fn find(memory: &Memory, key_type: i8, keys: &[&str]) -> FindCoordinatorRequest {
    let request = FindCoordinatorRequest::default();
    // Before types there were groups only.
    let request = if memory.asked_version > 0 { request.with_key_type(key_type) } else { request };
    if memory.asked_version < KEYS_SINCE {
        return request.with_key(text(keys.first().copied().unwrap_or_default()));
    }
    request.with_coordinator_keys(keys.iter().map(|key| text(key)).collect())
}

fn finding() -> Vec<Case> {
    use ApiKey::FindCoordinator as Api;
    vec![
        Case::new(Api, "a group's").ask(|m| find(m, 0, &["g"])).settles(),
        Case::new(Api, "several groups'").versions(4..=6).ask(|m| find(m, 0, &["g", "h", "g"])),
        Case::new(Api, "no group's").versions(4..=6).ask(|m| find(m, 0, &[])),
        Case::new(Api, "an empty group's").ask(|m| find(m, 0, &[""])),
        Case::new(Api, "an unknown kind's").versions(1..=6).ask(|m| find(m, 9, &["g"])),
        Case::new(Api, "a negative kind's").versions(1..=6).ask(|m| find(m, -1, &["g"])),
        Case::new(Api, "a share group's before there were any")
            .versions(1..=5)
            .ask(|m| find(m, 2, &["g:AAAAAAAAAAAAAAAAAAAAAQ:0"])),
    ]
}

/// Topic, partition, offset, metadata.
pub type Commit<'a> = (&'a str, i32, i64, Option<&'a str>);

/// A commit from outside of a group.
pub fn commit(group: &str, rows: &[Commit]) -> OffsetCommitRequest {
    let topics = rows.iter().map(|(topic, partition, offset, metadata)| {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(*partition)
            .with_committed_offset(*offset)
            .with_committed_metadata(metadata.map(text));
        OffsetCommitRequestTopic::default()
            .with_name(topic_name(topic))
            .with_partitions(vec![partition])
    });
    OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.collect())
}

/// The offsets of a group: of some partitions, or all there are.
pub fn offsets(
    memory: &Memory,
    group: &str,
    rows: Option<&[(&str, &[i32])]>,
) -> OffsetFetchRequest {
    if memory.asked_version < GROUPS_SINCE {
        let topics = rows.map(|rows| {
            let topic = |(name, partitions): &(&str, &[i32])| {
                OffsetFetchRequestTopic::default()
                    .with_name(topic_name(name))
                    .with_partition_indexes(partitions.to_vec())
            };
            rows.iter().map(topic).collect()
        });
        return OffsetFetchRequest::default().with_group_id(group_id(group)).with_topics(topics);
    }
    let topics = rows.map(|rows| {
        let topic = |(name, partitions): &(&str, &[i32])| {
            OffsetFetchRequestTopics::default()
                .with_name(topic_name(name))
                .with_partition_indexes(partitions.to_vec())
        };
        rows.iter().map(topic).collect()
    });
    let group =
        OffsetFetchRequestGroup::default().with_group_id(group_id(group)).with_topics(topics);
    OffsetFetchRequest::default().with_groups(vec![group])
}

/// Commits to a group of its own, and what it has then.
fn committed(name: &str, rows: &'static [Commit<'static>]) -> Case {
    Case::new(ApiKey::OffsetCommit, name)
        .step("commit", move |m| commit(&m.own("g"), rows))
        .step("fetch", |m| offsets(m, &m.own("g"), Some(&[(NUMBERS, &[0, 1, 2]), (EMPTY, &[0])])))
        .step("fetch all", |m| offsets(m, &m.own("g"), None))
}

fn commits() -> Vec<Case> {
    use ApiKey::OffsetCommit as Api;
    const LONG: &str = include_str!("coordinators.rs");
    vec![
        committed("an offset", &[(NUMBERS, 0, 5, Some("m"))]),
        committed("two offsets", &[(NUMBERS, 0, 5, Some("")), (EMPTY, 0, 0, None)]),
        committed("one partition twice", &[(NUMBERS, 0, 5, None), (NUMBERS, 0, 6, None)]),
        committed("an offset beyond the end", &[(NUMBERS, 0, 500, None)]),
        committed("a negative offset", &[(NUMBERS, 0, -7, None)]),
        committed("offset -1", &[(NUMBERS, 0, -1, None)]),
        committed("an unknown topic", &[("no-such-topic", 0, 5, None)]),
        committed("an invalid topic", &[("bad name", 0, 5, None)]),
        committed("an unknown partition", &[(NUMBERS, 9, 5, None)]),
        committed("a negative partition", &[(NUMBERS, -1, 5, None)]),
        committed("good and bad ones", &[(NUMBERS, 9, 5, None), (EMPTY, 0, 1, None)]),
        committed("metadata too long", &[(NUMBERS, 0, 5, Some(LONG)), (NUMBERS, 1, 5, None)]),
        committed("nothing", &[]),
        // It brings a group into being that has no name.
        Case::new(Api, "an empty group id").alone().ask(|_| commit("", &[(NUMBERS, 0, 5, None)])),
        Case::new(Api, "a generation of no group").ask(|m| {
            commit(&m.own("g"), &[(NUMBERS, 0, 5, None)]).with_generation_id_or_member_epoch(3)
        }),
        Case::new(Api, "a member of no group")
            .ask(|m| commit(&m.own("g"), &[(NUMBERS, 0, 5, None)]).with_member_id(text("nobody"))),
        Case::new(Api, "a member and a generation of no group").ask(|m| {
            commit(&m.own("g"), &[(NUMBERS, 0, 5, None)])
                .with_member_id(text("nobody"))
                .with_generation_id_or_member_epoch(1)
        }),
        Case::new(Api, "an instance of no group").versions(7..=9).ask(|m| {
            commit(&m.own("g"), &[(NUMBERS, 0, 5, None)])
                .with_group_instance_id(Some(text("static")))
        }),
        Case::new(Api, "a leader epoch").versions(6..=9).step("commit", |m| {
            let mut request = commit(&m.own("g"), &[(NUMBERS, 0, 5, None)]);
            request.topics[0].partitions[0].committed_leader_epoch = 4;
            request
        }),
    ]
}

fn fetches() -> Vec<Case> {
    use ApiKey::OffsetFetch as Api;
    let of = |name: &str, rows: &'static [(&'static str, &'static [i32])]| {
        Case::new(Api, name).ask(move |m| offsets(m, "nobody's", Some(rows)))
    };
    vec![
        of("an unknown group", &[(NUMBERS, &[0, 1])]),
        of("an unknown topic", &[("no-such-topic", &[0])]),
        of("an invalid topic", &[("bad name", &[0])]),
        of("an unknown partition", &[(NUMBERS, &[77, -1])]),
        of("a partition twice", &[(NUMBERS, &[0, 0])]),
        of("no partitions", &[(NUMBERS, &[])]),
        of("no topics", &[]),
        Case::new(Api, "all of an unknown group")
            .versions(2..=9)
            .ask(|m| offsets(m, "nobody's", None)),
        Case::new(Api, "an empty group id").ask(|m| offsets(m, "", Some(&[(NUMBERS, &[0])]))),
        Case::new(Api, "stable ones")
            .versions(7..=9)
            .ask(|m| offsets(m, "nobody's", Some(&[(NUMBERS, &[0])])).with_require_stable(true)),
        Case::new(Api, "no groups").versions(8..=9).ask(|_| OffsetFetchRequest::default()),
        Case::new(Api, "one group twice").versions(8..=9).ask(|m| {
            let one = offsets(m, "nobody's", Some(&[(NUMBERS, &[0])])).groups;
            OffsetFetchRequest::default().with_groups([one.clone(), one].concat())
        }),
        Case::new(Api, "of a member that is none").versions(9..=9).ask(|m| {
            let mut request = offsets(m, "nobody's", Some(&[(NUMBERS, &[0])]));
            request.groups[0].member_id = Some(text("nobody"));
            request.groups[0].member_epoch = 3;
            request
        }),
    ]
}

pub fn describe(groups: &[&str]) -> DescribeGroupsRequest {
    DescribeGroupsRequest::default().with_groups(groups.iter().map(|name| group_id(name)).collect())
}

pub fn delete(groups: &[&str]) -> DeleteGroupsRequest {
    let names = groups.iter().map(|name| group_id(name)).collect();
    DeleteGroupsRequest::default().with_groups_names(names)
}

pub fn delete_offsets(group: &str, rows: &[(&str, &[i32])]) -> OffsetDeleteRequest {
    let topics = rows.iter().map(|(name, partitions)| {
        let partition =
            |index: &i32| OffsetDeleteRequestPartition::default().with_partition_index(*index);
        OffsetDeleteRequestTopic::default()
            .with_name(topic_name(name))
            .with_partitions(partitions.iter().map(partition).collect())
    });
    OffsetDeleteRequest::default().with_group_id(group_id(group)).with_topics(topics.collect())
}

fn lists() -> Vec<Case> {
    use ApiKey::{DeleteGroups, DescribeGroups, ListGroups, OffsetDelete};
    let listed = |states: &'static [&'static str], types: &'static [&'static str]| {
        ListGroupsRequest::default()
            .with_states_filter(states.iter().map(|state| text(state)).collect())
            .with_types_filter(types.iter().map(|kind| text(kind)).collect())
    };
    let offset_deletion = |name: &str, rows: &'static [(&'static str, &'static [i32])]| {
        Case::new(OffsetDelete, name)
            .step("commit", |m| commit(&m.own("g"), &[(NUMBERS, 0, 5, None), (EMPTY, 0, 1, None)]))
            .step("delete", move |m| delete_offsets(&m.own("g"), rows))
            .step("fetch all", |m| offsets(m, &m.own("g"), None))
    };
    vec![
        Case::new(DescribeGroups, "an unknown group").ask(|_| describe(&["nobody's"])),
        Case::new(DescribeGroups, "an empty group id").ask(|_| describe(&[""])),
        Case::new(DescribeGroups, "one group twice").ask(|_| describe(&["a", "a"])),
        Case::new(DescribeGroups, "no groups").ask(|_| describe(&[])),
        Case::new(DescribeGroups, "operations")
            .versions(3..=6)
            .ask(|_| describe(&["nobody's"]).with_include_authorized_operations(true)),
        Case::new(DeleteGroups, "an unknown group").ask(|_| delete(&["nobody's"])),
        Case::new(DeleteGroups, "an empty group id").ask(|_| delete(&[""])),
        Case::new(DeleteGroups, "one group twice").ask(|_| delete(&["a", "a"])),
        Case::new(DeleteGroups, "no groups").ask(|_| delete(&[])),
        Case::new(DeleteGroups, "one with offsets")
            .step("commit", |m| commit(&m.own("g"), &[(NUMBERS, 0, 5, None)]))
            .step("describe", |m| describe(&[&m.own("g")]))
            .step("delete", |m| delete(&[&m.own("g"), "nobody's"]))
            .step("fetch all", |m| offsets(m, &m.own("g"), None))
            .step("delete again", |m| delete(&[&m.own("g")])),
        Case::new(ListGroups, "an unknown state").versions(4..=5).ask(move |_| listed(&["?"], &[])),
        Case::new(ListGroups, "dead ones").versions(4..=5).ask(move |_| listed(&["Dead"], &[])),
        Case::new(ListGroups, "an unknown type").versions(5..=5).ask(move |_| listed(&[], &["?"])),
        Case::new(ListGroups, "share groups").versions(5..=5).ask(move |_| listed(&[], &["share"])),
        offset_deletion("an offset", &[(NUMBERS, &[0])]),
        offset_deletion("offsets of several", &[(NUMBERS, &[0, 1]), (EMPTY, &[0])]),
        offset_deletion("an unknown topic's", &[("no-such-topic", &[0])]),
        offset_deletion("an unknown partition's", &[(NUMBERS, &[77])]),
        offset_deletion("one twice", &[(NUMBERS, &[0, 0])]),
        offset_deletion("none", &[]),
        Case::new(OffsetDelete, "an unknown group's")
            .ask(|_| delete_offsets("nobody's", &[(NUMBERS, &[0])])),
        Case::new(OffsetDelete, "an empty group id's")
            .ask(|_| delete_offsets("", &[(NUMBERS, &[0])])),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = finding();
    cases.extend(commits());
    cases.extend(fetches());
    cases.extend(lists());
    cases
}
