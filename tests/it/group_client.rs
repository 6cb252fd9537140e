//! A member of a classic group, request by request, and what an administrator asks of groups.

use std::time::{Duration, Instant};

use bytes::Bytes;
use compat_tests::requests::{text, topic_name};
use compat_tests::{Broker, Connection};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest,
    OffsetFetchRequest, SyncGroupRequest, SyncGroupResponse, describe_groups_response,
    list_groups_response,
};
use protocol::ErrorCode;

use crate::harness::error;

pub const JOIN_VERSION: i16 = 9;
pub const SYNC_VERSION: i16 = 5;
const HEARTBEAT_VERSION: i16 = 4;
const LEAVE_VERSION: i16 = 5;
const COMMIT_VERSION: i16 = 8;
const FETCH_VERSION: i16 = 8;

/// How long a broker may take to load its groups.
const READY_WITHIN: Duration = Duration::from_secs(30);

pub fn group_id(group: &str) -> GroupId {
    GroupId(text(group))
}

/// Asks until the answer is not merely that the coordinator is not there yet.
pub fn once_ready(mut ask: impl FnMut() -> ErrorCode) -> ErrorCode {
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        match ask() {
            ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
                if Instant::now() < deadline => {}
            error => return error,
        }
    }
}

/// Makes sure that the group has a coordinator that answers.
pub fn ensure_coordinator(connection: &mut Connection, group: &str) {
    let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
    let found = once_ready(|| error(connection.call(4, &find).coordinators[0].error_code));
    assert_eq!(found, ErrorCode::None, "{group} has a coordinator");
    let described = once_ready(|| error(describe(connection, group).error_code));
    assert_eq!(described, ErrorCode::None, "{group} is loaded");
}

pub fn describe(
    connection: &mut Connection,
    group: &str,
) -> describe_groups_response::DescribedGroup {
    let request = DescribeGroupsRequest::default().with_groups(vec![group_id(group)]);
    connection.call(5, &request).groups.remove(0)
}

/// The listed groups, by name.
pub fn list(
    connection: &mut Connection,
    states: &[&str],
) -> Vec<list_groups_response::ListedGroup> {
    let request = ListGroupsRequest::default()
        .with_states_filter(states.iter().map(|state| text(state)).collect());
    let mut groups = Vec::new();
    let listed = once_ready(|| {
        let response = connection.call(5, &request);
        groups = response.groups;
        error(response.error_code)
    });
    assert_eq!(listed, ErrorCode::None, "groups are listed");
    groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
    groups
}

pub fn delete(connection: &mut Connection, group: &str) -> ErrorCode {
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id(group)]);
    error(connection.call(2, &request).results[0].error_code)
}

/// A commit for one partition.
pub fn commit_request(
    group: &str,
    topic: &str,
    partition: i32,
    offset: i64,
    metadata: &str,
) -> OffsetCommitRequest {
    let row = OffsetCommitRequestPartition::default()
        .with_partition_index(partition)
        .with_committed_offset(offset)
        .with_committed_metadata(Some(text(metadata)));
    let topic =
        OffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(vec![row]);
    OffsetCommitRequest::default().with_group_id(group_id(group)).with_topics(vec![topic])
}

/// Commits without being a member.
pub fn commit(
    connection: &mut Connection,
    group: &str,
    topic: &str,
    partition: i32,
    offset: i64,
) -> ErrorCode {
    let request = commit_request(group, topic, partition, offset, "");
    let response = connection.call(COMMIT_VERSION, &request);
    error(response.topics[0].partitions[0].error_code)
}

/// The remembered offset; -1 for none.
pub fn committed(connection: &mut Connection, group: &str, topic: &str, partition: i32) -> i64 {
    let topics = OffsetFetchRequestTopics::default()
        .with_name(topic_name(topic))
        .with_partition_indexes(vec![partition]);
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(group_id(group))
        .with_topics(Some(vec![topics]));
    let request = OffsetFetchRequest::default().with_groups(vec![group]);
    let mut offset = -1;
    let fetched = once_ready(|| {
        let mut response = connection.call(FETCH_VERSION, &request);
        let group = response.groups.remove(0);
        if let Some(topic) = group.topics.first() {
            assert_eq!(topic.partitions[0].error_code, 0, "the row is no error");
            offset = topic.partitions[0].committed_offset;
        }
        error(group.error_code)
    });
    assert_eq!(fetched, ErrorCode::None, "offsets are fetched");
    offset
}

/// A member of a classic group.
pub struct Member {
    pub connection: Connection,
    pub group: String,
    pub id: String,
    pub instance_id: Option<String>,
    pub generation: i32,
    pub session_timeout_ms: i32,
}

impl Member {
    /// A member that has not joined.
    pub fn new(broker: &Broker, group: &str) -> Member {
        let mut connection = broker.connect();
        ensure_coordinator(&mut connection, group);
        Member {
            connection,
            group: group.to_owned(),
            id: String::new(),
            instance_id: None,
            generation: -1,
            session_timeout_ms: 10_000,
        }
    }

    /// The same with a static name.
    pub fn with_instance_id(mut self, instance_id: &str) -> Member {
        self.instance_id = Some(instance_id.to_owned());
        self
    }

    pub fn join_request(&self) -> JoinGroupRequest {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(Bytes::from_static(b"subscription"));
        JoinGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_session_timeout_ms(self.session_timeout_ms)
            .with_rebalance_timeout_ms(60_000)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.as_deref().map(text))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol])
    }

    /// Sends a join; a new member gets its id first (KIP-394).
    pub fn send_join(&mut self) {
        if self.id.is_empty() && self.instance_id.is_none() {
            let response = self.connection.call(JOIN_VERSION, &self.join_request());
            assert_eq!(error(response.error_code), ErrorCode::MemberIdRequired);
            self.id = response.member_id.to_string();
        }
        let request = self.join_request();
        self.connection.send(JOIN_VERSION, &request).expect("the join is sent");
    }

    /// Takes the answer to a join.
    pub fn receive_join(&mut self) -> JoinGroupResponse {
        let answer = self.connection.receive::<JoinGroupRequest>(JOIN_VERSION);
        let response = answer.expect("a join is answered").1;
        self.generation = response.generation_id;
        self.id = response.member_id.to_string();
        response
    }

    pub fn join(&mut self) -> JoinGroupResponse {
        self.send_join();
        let response = self.receive_join();
        assert_eq!(error(response.error_code), ErrorCode::None, "{} joins", self.id);
        response
    }

    pub fn sync_request(&self, assignments: &[(&str, &'static [u8])]) -> SyncGroupRequest {
        let row = |(member_id, assignment): &(&str, &'static [u8])| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(member_id))
                .with_assignment(Bytes::from_static(assignment))
        };
        SyncGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.as_deref().map(text))
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("range")))
            .with_assignments(assignments.iter().map(row).collect())
    }

    pub fn sync(&mut self, assignments: &[(&str, &'static [u8])]) -> SyncGroupResponse {
        let request = self.sync_request(assignments);
        self.connection.call(SYNC_VERSION, &request)
    }

    /// Joins a group that nobody else is in, and assigns itself something.
    pub fn join_alone(&mut self) {
        let joined = self.join();
        assert_eq!(joined.members.len(), 1, "nobody else is in the group");
        let id = self.id.clone();
        let synced = self.sync(&[(&id, b"everything")]);
        assert_eq!(error(synced.error_code), ErrorCode::None);
        assert_eq!(&synced.assignment[..], b"everything");
    }

    pub fn heartbeat(&mut self) -> ErrorCode {
        let request = HeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.as_deref().map(text));
        error(self.connection.call(HEARTBEAT_VERSION, &request).error_code)
    }

    /// Sends heartbeats until one is answered like this.
    pub fn heartbeat_until(&mut self, wanted: ErrorCode) {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let got = self.heartbeat();
            if got == wanted {
                return;
            }
            assert_eq!(got, ErrorCode::None, "while {wanted} is waited for");
            assert!(Instant::now() < deadline, "{wanted} does not come");
        }
    }

    pub fn commit(&mut self, topic: &str, partition: i32, offset: i64) -> ErrorCode {
        let request = commit_request(&self.group, topic, partition, offset, "by a member")
            .with_generation_id_or_member_epoch(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.as_deref().map(text));
        let response = self.connection.call(COMMIT_VERSION, &request);
        error(response.topics[0].partitions[0].error_code)
    }

    pub fn leave(&mut self) -> ErrorCode {
        let member = MemberIdentity::default().with_member_id(text(&self.id));
        let request = LeaveGroupRequest::default()
            .with_group_id(group_id(&self.group))
            .with_members(vec![member]);
        let response = self.connection.call(LEAVE_VERSION, &request);
        assert_eq!(error(response.error_code), ErrorCode::None);
        error(response.members[0].error_code)
    }
}
