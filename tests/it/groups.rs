//! Classic consumer groups: who is in, in which generation, and what becomes of it when members or
//! the broker die.

use std::time::{Duration, Instant};

use compat_tests::broker::is_kafka;
use compat_tests::requests::text;
use kafka_protocol::messages::{
    ApiVersionsRequest, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest,
};
use protocol::ErrorCode;

use crate::group_client::{
    JOIN_VERSION, Member, committed, delete, describe, ensure_coordinator, group_id, list,
    once_ready,
};
use crate::harness::{Scene, connect, error, shared};

#[test]
fn two_members_share_a_group() {
    let mut first = Member::new(shared(), "shared-by-two");
    first.join_alone();
    let mut second = Member::new(shared(), "shared-by-two");
    second.send_join();
    first.heartbeat_until(ErrorCode::RebalanceInProgress);
    let of_first = first.join();
    let of_second = second.receive_join();
    assert_eq!(error(of_second.error_code), ErrorCode::None);
    assert_eq!((first.generation, second.generation), (2, 2));
    assert_eq!((&*of_first.leader, &*of_second.leader), (&*first.id, &*first.id));
    assert_eq!(of_first.protocol_name.as_deref(), Some("range"));
    // Only the leader is told who is in the group.
    assert_eq!((of_first.members.len(), of_second.members.len()), (2, 0));
    assert!(of_first.members.iter().all(|member| &member.metadata[..] == b"subscription"));

    let sync = second.sync_request(&[]);
    second.connection.send(5, &sync).expect("the sync is sent");
    let assignments = [(&*first.id.clone(), &b"a"[..]), (&*second.id.clone(), &b"b"[..])];
    let synced = first.sync(&assignments);
    assert_eq!((error(synced.error_code), &synced.assignment[..]), (ErrorCode::None, &b"a"[..]));
    let (_, synced) = second.connection.receive::<SyncGroupRequest>(5).expect("an answer");
    assert_eq!((error(synced.error_code), &synced.assignment[..]), (ErrorCode::None, &b"b"[..]));
    assert_eq!((first.heartbeat(), second.heartbeat()), (ErrorCode::None, ErrorCode::None));

    let described = describe(&mut first.connection, "shared-by-two");
    assert_eq!((&*described.group_state, &*described.protocol_data), ("Stable", "range"));
    let hosts: Vec<_> = described.members.iter().map(|member| &*member.client_host).collect();
    assert_eq!(hosts, ["/127.0.0.1", "/127.0.0.1"]);
    assert_eq!(second.leave(), ErrorCode::None);
    first.heartbeat_until(ErrorCode::RebalanceInProgress);
    assert_eq!(first.join().members.len(), 1);
}

#[test]
fn a_member_that_falls_silent_is_removed_after_its_session_timeout() {
    let scene = Scene::start_with(|options| {
        options
            .with("group.min.session.timeout.ms", "100")
            .with("group.initial.rebalance.delay.ms", "0")
    });
    let mut alive = Member::new(&scene.broker, "silence");
    alive.join_alone();
    let mut silent = Member::new(&scene.broker, "silence");
    silent.session_timeout_ms = 500;
    silent.send_join();
    alive.heartbeat_until(ErrorCode::RebalanceInProgress);
    assert_eq!(alive.join().members.len(), 2);
    silent.receive_join();
    let assignments = [(&*alive.id.clone(), &b"a"[..]), (&*silent.id.clone(), &b"b"[..])];
    assert_eq!(error(alive.sync(&assignments).error_code), ErrorCode::None);
    assert_eq!(error(silent.sync(&[]).error_code), ErrorCode::None);
    let silent_since = Instant::now();
    alive.heartbeat_until(ErrorCode::RebalanceInProgress);
    assert!(silent_since.elapsed() >= Duration::from_millis(400), "it had its time");
    assert_eq!(alive.join().members.len(), 1);
    assert_eq!(silent.heartbeat(), ErrorCode::UnknownMemberId);
}

#[test]
fn members_go_on_in_their_generation_after_the_broker_was_killed() {
    let scene = Scene::start();
    let mut member = Member::new(&scene.broker, "survives");
    member.connection.create_topic("read-by-survivors", 1);
    member.join_alone();
    assert_eq!(member.commit("read-by-survivors", 0, 7), ErrorCode::None);
    let scene = scene.restart_after_kill();
    member.connection = scene.broker.connect();
    // Nobody is asked to join again, and the offset is the committed one.
    let heartbeat = once_ready(|| member.heartbeat());
    assert_eq!(heartbeat, ErrorCode::None);
    let described = once_ready(|| error(describe(&mut member.connection, "survives").error_code));
    assert_eq!(described, ErrorCode::None);
    let described = describe(&mut member.connection, "survives");
    assert_eq!((&*described.group_state, described.members.len()), ("Stable", 1));
    assert_eq!(&*described.members[0].member_id, &*member.id);
    assert_eq!(&described.members[0].member_assignment[..], b"everything");
    assert_eq!(member.heartbeat(), ErrorCode::None);
    assert_eq!(committed(&mut member.connection, "survives", "read-by-survivors", 0), 7);
    assert_eq!(member.commit("read-by-survivors", 0, 8), ErrorCode::None);
    assert_eq!(committed(&mut member.connection, "survives", "read-by-survivors", 0), 8);
}

#[test]
fn a_static_member_that_returns_keeps_its_place_and_fences_its_older_self() {
    let mut member = Member::new(shared(), "static").with_instance_id("one");
    member.join_alone();
    let mut returned = Member::new(shared(), "static").with_instance_id("one");
    let joined = returned.join();
    assert_eq!(joined.generation_id, member.generation, "there is no rebalance");
    assert_ne!(returned.id, member.id);
    assert_eq!(member.heartbeat(), ErrorCode::FencedInstanceId);
    let synced = returned.sync(&[]);
    assert_eq!(error(synced.error_code), ErrorCode::None);
    assert_eq!(&synced.assignment[..], b"everything");
    assert_eq!(returned.heartbeat(), ErrorCode::None);
}

#[test]
fn requests_behind_a_waiting_join_are_answered_after_it() {
    let mut first = Member::new(shared(), "pipelined");
    first.join_alone();
    let mut second = Member::new(shared(), "pipelined");
    second.send_join();
    let behind = second.connection.send(0, &ApiVersionsRequest::default()).expect("it is sent");
    first.heartbeat_until(ErrorCode::RebalanceInProgress);
    first.join();
    assert_eq!(error(second.receive_join().error_code), ErrorCode::None);
    let (answered, _) = second.connection.receive::<ApiVersionsRequest>(0).expect("an answer");
    assert_eq!(answered, behind);
}

#[test]
fn a_group_is_deleted_when_nobody_is_in_it() {
    let mut member = Member::new(shared(), "to-be-deleted");
    member.connection.create_topic("read-by-the-deleted", 1);
    member.join_alone();
    assert_eq!(member.commit("read-by-the-deleted", 0, 3), ErrorCode::None);
    let mut admin = connect();
    assert_eq!(delete(&mut admin, "to-be-deleted"), ErrorCode::NonEmptyGroup);
    assert_eq!(member.leave(), ErrorCode::None);
    let is_listed = |admin: &mut _| {
        list(admin, &["Empty"]).iter().any(|group| &**group.group_id == "to-be-deleted")
    };
    assert!(is_listed(&mut admin));
    assert_eq!(delete(&mut admin, "to-be-deleted"), ErrorCode::None);
    assert!(!is_listed(&mut admin));
    assert_eq!(committed(&mut admin, "to-be-deleted", "read-by-the-deleted", 0), -1);
    assert_eq!(delete(&mut admin, "to-be-deleted"), ErrorCode::GroupIdNotFound);
}

#[test]
fn lists_name_states_and_types_and_are_filtered_by_them() {
    let mut member = Member::new(shared(), "listed");
    member.join_alone();
    let mut admin = connect();
    let listed = |groups: Vec<kafka_protocol::messages::list_groups_response::ListedGroup>| {
        groups.into_iter().find(|group| &**group.group_id == "listed")
    };
    let group = listed(list(&mut admin, &[])).expect("it is listed");
    assert_eq!((&*group.group_state, &*group.group_type), ("Stable", "classic"));
    assert_eq!(&*group.protocol_type, "consumer");
    assert!(listed(list(&mut admin, &["stable"])).is_some());
    assert!(listed(list(&mut admin, &["Empty", "Dead"])).is_none());
}

#[test]
fn every_version_of_join_makes_a_member() {
    for version in 0..=JOIN_VERSION {
        let mut member = Member::new(shared(), &format!("joined-by-v{version}"));
        let mut request = member.join_request();
        if version == 0 {
            request.rebalance_timeout_ms = -1;
        }
        let mut response = member.connection.call(version, &request);
        if version >= 4 {
            assert_eq!(error(response.error_code), ErrorCode::MemberIdRequired, "v{version}");
            request.member_id = response.member_id;
            response = member.connection.call(version, &request);
        }
        assert_eq!(error(response.error_code), ErrorCode::None, "v{version}");
        assert_eq!(response.generation_id, 1, "v{version}");
        assert_eq!(response.protocol_name.as_deref(), Some("range"), "v{version}");
        let protocol_type = (version >= 7).then_some("consumer");
        assert_eq!(response.protocol_type.as_deref(), protocol_type, "v{version}");
    }
}

#[test]
fn groups_without_a_name_and_strange_timeouts_are_refused() {
    let mut connection = connect();
    ensure_coordinator(&mut connection, "any");
    let invalid = ErrorCode::InvalidGroupId;
    for version in 0..=5 {
        let leave = connection.call(version, &LeaveGroupRequest::default());
        assert_eq!(error(leave.error_code), invalid, "v{version}");
    }
    let heartbeat = connection.call(4, &HeartbeatRequest::default());
    assert_eq!(error(heartbeat.error_code), invalid);
    let sync = connection.call(4, &SyncGroupRequest::default());
    assert_eq!(error(sync.error_code), invalid);
    // From v5 on a sync has to name its protocol, and that is looked at first.
    let sync = connection.call(5, &SyncGroupRequest::default());
    assert_eq!(error(sync.error_code), ErrorCode::InconsistentGroupProtocol);
    for version in [0, 6, 9] {
        let join = connection.call(version, &JoinGroupRequest::default());
        assert_eq!(error(join.error_code), invalid, "v{version}");
    }
    let join = JoinGroupRequest::default()
        .with_group_id(group_id("timeouts"))
        .with_protocol_type(text("consumer"));
    for session_timeout_ms in [0, 5_999, 1_800_001] {
        let join = join.clone().with_session_timeout_ms(session_timeout_ms);
        let joined = connection.call(5, &join);
        assert_eq!(error(joined.error_code), ErrorCode::InvalidSessionTimeout);
    }
}

#[test]
fn stopping_does_not_wait_for_members_that_wait_for_each_other() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start();
    let mut first = Member::new(&scene.broker, "stopped");
    first.join_alone();
    let mut second = Member::new(&scene.broker, "stopped");
    second.send_join();
    first.heartbeat_until(ErrorCode::RebalanceInProgress);
    let started_at = Instant::now();
    assert!(scene.broker.terminate().success());
    assert!(started_at.elapsed() < Duration::from_secs(4), "nobody is waited for");
    assert_eq!(error(second.receive_join().error_code), ErrorCode::NotCoordinator);
}
