//! Consumer groups of KIP-848: the broker assigns, members follow by their heartbeats.

use std::time::{Duration, Instant};

use compat_tests::requests::{text, topic_name};
use compat_tests::{Broker, Connection};
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use protocol::ErrorCode;

use crate::group_client::{
    commit_request, committed, describe, ensure_coordinator, group_id, list, once_ready,
};
use crate::harness::{Scene, connect, error, shared};

const VERSION: i16 = 1;
const LEAVES: i32 = -1;

/// A member that owns at once what it is told to.
struct Member {
    connection: Connection,
    group: String,
    id: String,
    epoch: i32,
    topic: &'static str,
    owned: Vec<i32>,
}

impl Member {
    fn new(broker: &Broker, group: &str, id: &str, topic: &'static str) -> Member {
        let mut connection = broker.connect();
        ensure_coordinator(&mut connection, group);
        let (group, id) = (group.to_owned(), id.to_owned());
        Member { connection, group, id, epoch: 0, topic, owned: Vec::new() }
    }

    fn send(&mut self, epoch: i32) -> ConsumerGroupHeartbeatResponse {
        let topic_id = self.connection.describe_topic(self.topic).topic_id;
        let owned =
            TopicPartitions::default().with_topic_id(topic_id).with_partitions(self.owned.clone());
        let owned = if self.owned.is_empty() { Vec::new() } else { vec![owned] };
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group_id(&self.group))
            .with_member_id(text(&self.id))
            .with_member_epoch(epoch)
            .with_rebalance_timeout_ms(60_000)
            .with_subscribed_topic_names(Some(vec![topic_name(self.topic)]))
            .with_topic_partitions(Some(owned));
        self.connection.call(VERSION, &request)
    }

    fn heartbeat(&mut self) -> ErrorCode {
        let response = self.send(self.epoch);
        if response.error_code == 0 {
            self.epoch = response.member_epoch;
        }
        if let Some(assignment) = response.assignment {
            let topics = assignment.topic_partitions.into_iter();
            self.owned = topics.flat_map(|topic| topic.partitions).collect();
            self.owned.sort_unstable();
        }
        error(response.error_code)
    }
}

/// Sends heartbeats of all until each owns as many partitions as this.
fn settle(members: &mut [&mut Member], each: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while members.iter().any(|member| member.owned.len() != each) {
        assert!(Instant::now() < deadline, "the group settles");
        for member in members.iter_mut() {
            assert_eq!(member.heartbeat(), ErrorCode::None, "{}", member.id);
        }
    }
}

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
    let commit = |member: &mut Member, offset, epoch| {
        let request = commit_request("modern-survivor", "read-modernly", 1, offset, "")
            .with_generation_id_or_member_epoch(epoch)
            .with_member_id(text("only"));
        error(member.connection.call(9, &request).topics[0].partitions[0].error_code)
    };
    let epoch = member.epoch;
    assert_eq!(commit(&mut member, 5, epoch), ErrorCode::None);
    let scene = scene.restart_after_kill();
    member.connection = scene.broker.connect();
    assert_eq!(once_ready(|| member.heartbeat()), ErrorCode::None);
    assert_eq!((member.epoch, &member.owned[..]), (epoch, &[0, 1][..]));
    assert_eq!(commit(&mut member, 6, epoch), ErrorCode::None);
    assert_eq!(commit(&mut member, 7, epoch - 1), ErrorCode::StaleMemberEpoch);
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
