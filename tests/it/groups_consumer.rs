//! Consumer groups of KIP-848: the broker assigns, members follow by their heartbeats.

use kafka_protocol::messages::ConsumerGroupDescribeRequest;
use protocol::ErrorCode;

use crate::consumer_client::{LEAVES, Member, settle};
use crate::group_client::{committed, describe, ensure_coordinator, group_id, list, once_ready};
use crate::harness::{Scene, connect, error, shared};

#[test]
fn members_share_partitions_and_take_over_from_who_leaves() {
    let mut first = Member::new(shared(), "modern", "first", "shared-modernly");
    first.connection.create_topic("shared-modernly", 6);
    settle(&mut [&mut first], 6);
    let mut second = Member::new(shared(), "modern", "second", "shared-modernly");
    assert_eq!(second.heartbeat(), ErrorCode::None);
    settle(&mut [&mut first, &mut second], 3);
    let mut all = [first.owned.clone(), second.owned.clone()].concat();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4, 5], "nothing is owned twice");

    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group_id("modern")]);
    let described = first.connection.call(1, &request).groups.remove(0);
    assert_eq!(error(described.error_code), ErrorCode::None);
    assert_eq!((described.members.len(), &*described.assignor_name), (2, "uniform"));
    assert!(described.members.iter().all(|member| member.member_type == 1));
    assert!(described.members.iter().all(|member| &*member.client_host == "/127.0.0.1"));
    let listed = list(&mut first.connection, &[]);
    let listed = listed.iter().find(|group| &**group.group_id == "modern").expect("it is listed");
    assert_eq!(&*listed.group_type, "consumer");
    // For those who ask as of a classic group it is none.
    assert_eq!(&*describe(&mut first.connection, "modern").group_state, "Dead");

    assert_eq!(second.send(LEAVES).member_epoch, LEAVES);
    settle(&mut [&mut first], 6);
    assert_eq!(error(second.send(second.epoch).error_code), ErrorCode::UnknownMemberId);
}

#[test]
fn a_member_goes_on_after_the_broker_was_killed() {
    let scene = Scene::start();
    let mut member = Member::new(&scene.broker, "modern-survivor", "only", "read-modernly");
    member.connection.create_topic("read-modernly", 2);
    settle(&mut [&mut member], 2);
    let epoch = member.epoch;
    assert_eq!(member.commit(epoch, 1, 5), ErrorCode::None);
    let scene = scene.restart_after_kill();
    member.connection = scene.broker.connect();
    assert_eq!(once_ready(|| member.heartbeat()), ErrorCode::None);
    assert_eq!((member.epoch, &member.owned[..]), (epoch, &[0, 1][..]));
    assert_eq!(member.commit(epoch, 1, 6), ErrorCode::None);
    assert_eq!(member.commit(epoch - 1, 1, 7), ErrorCode::StaleMemberEpoch);
    let mut admin = scene.broker.connect();
    assert_eq!(committed(&mut admin, "modern-survivor", "read-modernly", 1), 6);
}

#[test]
fn groups_that_do_not_exist_are_an_error_of_their_row() {
    let mut connection = connect();
    ensure_coordinator(&mut connection, "any");
    let request = ConsumerGroupDescribeRequest::default()
        .with_group_ids(vec![group_id("never-there"), group_id("")]);
    let response = connection.call(1, &request);
    let code = |group: &str| {
        let row = response.groups.iter().find(|row| &**row.group_id == group);
        row.map(|row| error(row.error_code))
    };
    assert_eq!(code("never-there"), Some(ErrorCode::GroupIdNotFound));
    assert_eq!(code(""), Some(ErrorCode::InvalidGroupId));
}
