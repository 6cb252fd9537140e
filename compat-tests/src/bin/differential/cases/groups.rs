//! A group with members: its whole life, and what is refused on the way.

use bytes::{BufMut, Bytes, BytesMut};
use compat_tests::requests::text;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ApiKey, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest,
    OffsetCommitRequest, SyncGroupRequest,
};

use super::coordinators::{commit, delete, delete_offsets, describe, find, group_id, offsets};
use crate::case::{Case, Memory};
use crate::setup::NUMBERS;

/// First version of SyncGroup that names the protocol.
const PROTOCOL_SINCE: i16 = 5;
/// First version of LeaveGroup for several members.
const MEMBERS_SINCE: i16 = 3;

/// A consumer's subscription, version 0.
fn subscription() -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(0);
    bytes.put_i32(1);
    bytes.put_i16(NUMBERS.len() as i16);
    bytes.put_slice(NUMBERS.as_bytes());
    bytes.put_i32(-1);
    bytes.freeze()
}

fn join(group: &str, member_id: &str) -> JoinGroupRequest {
    let protocol =
        JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(subscription());
    JoinGroupRequest::default()
        .with_group_id(group_id(group))
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_member_id(text(member_id))
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

fn sync(memory: &Memory, member_id: &str) -> SyncGroupRequest {
    let assignment = SyncGroupRequestAssignment::default()
        .with_member_id(text(member_id))
        .with_assignment(Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]));
    let request = SyncGroupRequest::default()
        .with_group_id(group_id(&memory.own("g")))
        .with_generation_id(generation(memory))
        .with_member_id(text(member_id))
        .with_assignments(vec![assignment]);
    if memory.asked_version < PROTOCOL_SINCE {
        return request;
    }
    request.with_protocol_type(Some(text("consumer"))).with_protocol_name(Some(text("range")))
}

fn generation(memory: &Memory) -> i32 {
    i32::try_from(memory.number("generation")).unwrap_or(-1)
}

fn heartbeat(memory: &Memory, member_id: &str, generation: i32) -> HeartbeatRequest {
    HeartbeatRequest::default()
        .with_group_id(group_id(&memory.own("g")))
        .with_generation_id(generation)
        .with_member_id(text(member_id))
}

fn leave(memory: &Memory, group: &str, member_ids: &[&str]) -> LeaveGroupRequest {
    let request = LeaveGroupRequest::default().with_group_id(group_id(group));
    if memory.asked_version < MEMBERS_SINCE {
        return request.with_member_id(text(member_ids[0]));
    }
    let members = member_ids.iter().map(|id| MemberIdentity::default().with_member_id(text(id)));
    request.with_members(members.collect())
}

fn commit_as(memory: &Memory, member_id: &str, generation: i32) -> OffsetCommitRequest {
    commit(&memory.own("g"), &[(NUMBERS, 0, 5, Some("m"))])
        .with_member_id(text(member_id))
        .with_generation_id_or_member_epoch(generation)
}

/// A group with one member, which leads it.
fn joined(api: ApiKey, name: &str) -> Case {
    Case::new(api, name)
        .step("find", |m| find(m, 0, &[&m.own("g")]))
        .settles()
        .step("join", |m| join(&m.own("g"), ""))
        .learn::<JoinGroupRequest>(|answer, memory| {
            memory.keep_text("member", &answer.member_id);
        })
        .step("join with the id", |m| join(&m.own("g"), &m.text("member")))
        .learn::<JoinGroupRequest>(|answer, memory| memory.keep("generation", answer.generation_id))
}

fn life(api: ApiKey) -> Case {
    joined(api, "a group's life")
        .step("heartbeat before sync", |m| heartbeat(m, &m.text("member"), generation(m)))
        .step("sync", |m| sync(m, &m.text("member")))
        .step("heartbeat", |m| heartbeat(m, &m.text("member"), generation(m)))
        .step("heartbeat of the past", |m| heartbeat(m, &m.text("member"), generation(m) - 1))
        .step("heartbeat of the future", |m| heartbeat(m, &m.text("member"), generation(m) + 1))
        .step("heartbeat of a stranger", |m| heartbeat(m, "stranger", generation(m)))
        .step("sync again", |m| sync(m, &m.text("member")))
        .step("sync of a stranger", |m| sync(m, "stranger"))
        .step("commit", |m| commit_as(m, &m.text("member"), generation(m)))
        .step("commit of the past", |m| commit_as(m, &m.text("member"), generation(m) - 1))
        .step("commit of a stranger", |m| commit_as(m, "stranger", generation(m)))
        .step("commit from outside", |m| commit(&m.own("g"), &[(NUMBERS, 1, 2, None)]))
        .step("fetch", |m| offsets(m, &m.own("g"), Some(&[(NUMBERS, &[0, 1])])))
        .step("describe", |m| describe(&[&m.own("g")]))
        .step("list", |_| ListGroupsRequest::default())
        .only_own()
        .step("delete", |m| delete(&[&m.own("g")]))
        .step("delete offsets", |m| delete_offsets(&m.own("g"), &[(NUMBERS, &[0])]))
        .step("leave of a stranger", |m| leave(m, &m.own("g"), &["stranger"]))
        .step("leave", |m| leave(m, &m.own("g"), &[&m.text("member")]))
        .step("leave again", |m| leave(m, &m.own("g"), &[&m.text("member")]))
        .step("heartbeat after", |m| heartbeat(m, &m.text("member"), generation(m)))
        .step("describe after", |m| describe(&[&m.own("g")]))
        .step("delete offsets after", |m| delete_offsets(&m.own("g"), &[(NUMBERS, &[0])]))
        .step("delete after", |m| delete(&[&m.own("g")]))
        .step("describe at last", |m| describe(&[&m.own("g")]))
}

fn joins() -> Vec<Case> {
    use ApiKey::JoinGroup as Api;
    let named = |name: &str, change: fn(JoinGroupRequest) -> JoinGroupRequest| {
        Case::new(Api, name).ask(move |m| change(join(&m.own("g"), "")))
    };
    vec![
        named("an empty group id", |join| join.with_group_id(group_id(""))),
        named("a session too short", |join| join.with_session_timeout_ms(1)),
        named("a session too long", |join| join.with_session_timeout_ms(i32::MAX)),
        named("a negative session", |join| join.with_session_timeout_ms(-1)),
        named("an unknown member", |join| join.with_member_id(text("stranger"))),
        named("no protocols", |join| join.with_protocols(vec![])),
        named("no protocol type", |join| join.with_protocol_type(text(""))),
        joined(Api, "another protocol type")
            .step("other", |m| join(&m.own("g"), "other").with_protocol_type(text("connect"))),
        joined(Api, "another protocol type, new member")
            .step("other", |m| join(&m.own("g"), "").with_protocol_type(text("connect"))),
        joined(Api, "no common protocol").step("other", |m| {
            let mut request = join(&m.own("g"), "");
            request.protocols[0].name = text("roundrobin");
            request
        }),
        Case::new(Api, "a static member, and the same again")
            .versions(5..=9)
            .step("find", |m| find(m, 0, &[&m.own("g")]))
            .settles()
            .step("join", |m| join(&m.own("g"), "").with_group_instance_id(Some(text("static"))))
            .learn::<JoinGroupRequest>(|answer, memory| {
                memory.keep("generation", answer.generation_id);
                memory.keep_text("first", &answer.member_id);
            })
            .step("sync", |m| {
                sync(m, &m.text("first")).with_group_instance_id(Some(text("static")))
            })
            .step("again", |m| join(&m.own("g"), "").with_group_instance_id(Some(text("static"))))
            .learn::<JoinGroupRequest>(|answer, memory| {
                memory.keep_text("second", &answer.member_id);
            })
            .step("heartbeat of the first", |m| {
                heartbeat(m, &m.text("first"), generation(m))
                    .with_group_instance_id(Some(text("static")))
            })
            .step("heartbeat of the second", |m| {
                heartbeat(m, &m.text("second"), generation(m))
                    .with_group_instance_id(Some(text("static")))
            })
            .step("describe", |m| describe(&[&m.own("g")])),
    ]
}

fn strangers() -> Vec<Case> {
    vec![
        Case::new(ApiKey::SyncGroup, "an unknown group").ask(|m| sync(m, "stranger")),
        Case::new(ApiKey::SyncGroup, "an empty group id")
            .ask(|m| sync(m, "stranger").with_group_id(group_id(""))),
        joined(ApiKey::SyncGroup, "another protocol").versions(5..=5).step("sync", |m| {
            sync(m, &m.text("member")).with_protocol_name(Some(text("roundrobin")))
        }),
        joined(ApiKey::SyncGroup, "another protocol type")
            .versions(5..=5)
            .step("sync", |m| sync(m, &m.text("member")).with_protocol_type(Some(text("connect")))),
        joined(ApiKey::SyncGroup, "a wrong generation")
            .step("sync", |m| sync(m, &m.text("member")).with_generation_id(generation(m) + 1)),
        Case::new(ApiKey::Heartbeat, "an unknown group").ask(|m| heartbeat(m, "stranger", 1)),
        Case::new(ApiKey::Heartbeat, "an empty group id")
            .ask(|m| heartbeat(m, "stranger", 1).with_group_id(group_id(""))),
        Case::new(ApiKey::Heartbeat, "an instance of no group")
            .versions(3..=4)
            .ask(|m| heartbeat(m, "stranger", 1).with_group_instance_id(Some(text("static")))),
        Case::new(ApiKey::LeaveGroup, "an unknown group")
            .ask(|m| leave(m, &m.own("g"), &["stranger"])),
        Case::new(ApiKey::LeaveGroup, "an empty group id").ask(|m| leave(m, "", &["stranger"])),
        joined(ApiKey::LeaveGroup, "two members, of which one is unknown")
            .versions(3..=5)
            .step("leave", |m| leave(m, &m.own("g"), &["stranger", &m.text("member")])),
        joined(ApiKey::LeaveGroup, "nobody")
            .versions(3..=5)
            .step("leave", |m| leave(m, &m.own("g"), &[])),
    ]
}

pub fn cases() -> Vec<Case> {
    use ApiKey::{
        DeleteGroups, DescribeGroups, Heartbeat, JoinGroup, LeaveGroup, ListGroups, OffsetCommit,
        OffsetDelete, OffsetFetch, SyncGroup,
    };
    let apis = [
        JoinGroup,
        SyncGroup,
        Heartbeat,
        LeaveGroup,
        OffsetCommit,
        OffsetFetch,
        DescribeGroups,
        ListGroups,
        DeleteGroups,
        OffsetDelete,
    ];
    let mut cases: Vec<Case> = apis.into_iter().map(life).collect();
    cases.extend(joins());
    cases.extend(strangers());
    cases
}
