//! What is too much is refused, and costs the shard nothing.

use std::sync::Arc;

use bytes::Bytes;
use protocol::error_code::ErrorCode;
use protocol::types::{LeaderEpoch, Offset, PartitionId, TopicId};

use super::harness::{Machine, Outcome};
use crate::coordinator::group::event::{
    Client, GroupConfig, GroupReply, GroupRequest, JoinGroup, JoinProtocol, OffsetCommit,
    OffsetCommitPartition, OffsetCommitTopic, SyncGroup,
};
use crate::coordinator::group::{GroupSoft, limits};

fn machine() -> Machine {
    let config = GroupConfig { initial_rebalance_delay_ms: 0, ..GroupConfig::default() };
    Machine::new(GroupSoft::new(Arc::new(config), Arc::default()))
}

fn join(group_id: &str) -> JoinGroup {
    let metadata = Bytes::from_static(b"metadata");
    JoinGroup {
        group_id: Arc::from(group_id),
        member_id: Arc::from(""),
        group_instance_id: None,
        client: Client { client_id: "c".to_owned(), client_host: "/host".to_owned() },
        new_member_id: "1".to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![JoinProtocol { name: "range".to_owned(), metadata }],
        reason: None,
        requires_known_member_id: false,
        supports_skipping_assignment: false,
    }
}

fn join_errors(outcomes: &[Outcome]) -> Vec<ErrorCode> {
    let errors = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Replied(_, GroupReply::JoinGroup(reply), _) => Some(reply.error),
        _ => None,
    });
    errors.collect()
}

#[test]
fn names_that_no_record_can_carry_are_refused() {
    let mut machine = machine();
    let long = "x".repeat(limits::NAME_BYTES + 1);
    let refused = machine.request(1, GroupRequest::JoinGroup(join(&long)));
    assert_eq!(join_errors(&refused), [ErrorCode::InvalidGroupId]);
    let mut request = join("g");
    request.group_instance_id = Some("x".repeat(limits::NAME_BYTES));
    let refused = machine.request(2, GroupRequest::JoinGroup(request));
    assert_eq!(join_errors(&refused), [ErrorCode::InvalidRequest]);
    let mut request = join("g");
    request.protocols[0].name = long;
    let refused = machine.request(3, GroupRequest::JoinGroup(request));
    assert_eq!(join_errors(&refused), [ErrorCode::InvalidRequest]);
}

#[test]
fn an_assignment_too_large_for_a_batch_is_refused_and_begun_anew() {
    let mut machine = machine();
    machine.request(1, GroupRequest::JoinGroup(join("g")));
    let assignment = Bytes::from(vec![0; limits::CLASSIC_GROUP_BYTES]);
    let sync = SyncGroup {
        group_id: Arc::from("g"),
        generation_id: 1,
        member_id: Arc::from("c-1"),
        group_instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments: vec![(Arc::from("c-1"), assignment)],
    };
    let outcomes = machine.request(2, GroupRequest::SyncGroup(sync));
    let [Outcome::Replied(_, GroupReply::SyncGroup(reply), _)] = &outcomes[..] else {
        panic!("nothing is appended: {outcomes:?}");
    };
    assert_eq!(reply.error, ErrorCode::UnknownServerError);
}

#[test]
fn a_large_commit_is_split_and_answered_once() {
    let mut machine = machine();
    let rows = (0..2_500).map(|partition| OffsetCommitPartition {
        partition: PartitionId(partition),
        offset: Offset(1),
        leader_epoch: LeaderEpoch(-1),
        metadata: None,
    });
    let topic = OffsetCommitTopic {
        topic: "t".to_owned(),
        topic_id: TopicId::default(),
        partitions: rows.collect(),
    };
    let commit = OffsetCommit {
        group_id: Arc::from("g"),
        generation_id_or_member_epoch: -1,
        member_id: Arc::from(""),
        group_instance_id: None,
        retention_time_ms: None,
        supports_member_epochs: true,
        topics: vec![topic],
    };
    let outcomes = machine.request(1, GroupRequest::OffsetCommit(commit));
    let appends = outcomes.iter().filter(|o| matches!(o, Outcome::Appended(_))).count();
    assert_eq!((appends, outcomes.len()), (3, 4));
    assert_eq!(machine.hard.group("g").unwrap().offset_count(), 2_500);
}

#[test]
fn members_that_never_come_back_with_their_id_are_bounded() {
    let mut machine = machine();
    let mut last = Vec::new();
    for number in 0..=limits::PENDING_MEMBERS as u64 {
        let mut request = join("g");
        request.new_member_id = number.to_string();
        request.requires_known_member_id = true;
        last = machine.request(number, GroupRequest::JoinGroup(request));
    }
    assert_eq!(join_errors(&last), [ErrorCode::GroupMaxSizeReached]);
}
