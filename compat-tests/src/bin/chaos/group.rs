//! A member of a consumer group (the classic protocol): joins, reads what it is assigned from the
//! committed offset on, commits where it is, and does what every real client does when it is told
//! that it is out.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use compat_tests::requests::{text, topic_name};
use kafka_protocol::messages::consumer_protocol_assignment::TopicPartition;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, GroupId, HeartbeatRequest,
    JoinGroupRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use protocol::ErrorCode;

use crate::client::{BACKOFF, Client, Failure, Shared};
use crate::consumer::Reading;
use crate::history::{History, Partition};
use crate::offsets::{
    HEARTBEAT_EVERY, Membership, REST, by_topic, commit, committed, find_coordinator, group_id, ok,
    positions,
};

/// The shortest that a broker allows.
const SESSION_TIMEOUT_MS: i32 = 6_000;
/// How long a rebalance waits for a member.
const REBALANCE_TIMEOUT_MS: i32 = 5_000;
/// How long a member waits in a rebalance.
const JOINS_WITHIN: Duration = Duration::from_millis(8_000);
const JOIN_VERSION: i16 = 5;
const SYNC_VERSION: i16 = 3;
const HEARTBEAT_VERSION: i16 = 3;
/// Version of the bytes that members send each other.
const EMBEDDED_VERSION: i16 = 0;

struct Member<'a> {
    client: Client<'a>,
    group: u16,
    id: StrBytes,
    generation: i32,
    coordinator: i32,
    readings: Vec<Reading>,
    reported_at: Instant,
}

/// Takes part until the run is over, or says that everything is to be read to its end.
pub fn run(shared: &Shared, group: u16, seed: u64) -> History {
    let mut member = Member {
        client: Client::new(shared, seed),
        group,
        id: StrBytes::new(),
        generation: -1,
        coordinator: -1,
        readings: Vec::new(),
        reported_at: Instant::now(),
    };
    while !shared.is_over() && !shared.is_read_by_group(group) {
        let result = if member.generation < 0 { member.join() } else { member.work() };
        if let Err(failure) = result {
            member.failed(&failure);
        }
    }
    member.give_up_partitions();
    member.client.history
}

impl Member<'_> {
    fn failed(&mut self, failure: &Failure) {
        self.client.history.error(format!("group: {}", failure.name()));
        match failure.code() {
            Some(ErrorCode::RebalanceInProgress) => {}
            Some(ErrorCode::CoordinatorLoadInProgress) => return thread::sleep(BACKOFF),
            Some(ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) => {
                self.coordinator = -1;
                return thread::sleep(BACKOFF);
            }
            // Out of the group, or without an answer. A commit without an answer may be carried
            // out late, and must not follow one that this member makes then: it comes back as
            // another member, in another generation.
            _ => {
                self.id = StrBytes::new();
                self.coordinator = -1;
                thread::sleep(BACKOFF);
            }
        }
        self.generation = -1;
        self.give_up_partitions();
    }

    fn give_up_partitions(&mut self) {
        for reading in std::mem::take(&mut self.readings) {
            reading.end(&mut self.client.history);
        }
    }

    /// One round of polls, with reports in between.
    fn work(&mut self) -> Result<(), Failure> {
        let mut some = false;
        for index in 0..self.readings.len() {
            some |= self.readings[index].poll(&mut self.client);
            if self.reported_at.elapsed() > HEARTBEAT_EVERY {
                self.reported_at = Instant::now();
                self.commit()?;
                self.heartbeat()?;
            }
        }
        if !some {
            thread::sleep(REST);
        }
        Ok(())
    }

    fn group_id(&self) -> GroupId {
        group_id(self.group)
    }

    fn join(&mut self) -> Result<(), Failure> {
        let coordinator = self.coordinator()?;
        let topics = self.client.shared.topics.iter().map(|(topic, _)| text(topic)).collect();
        let subscription = ConsumerProtocolSubscription::default().with_topics(topics);
        let range = JoinGroupRequestProtocol::default()
            .with_name(StrBytes::from_static_str("range"))
            .with_metadata(embed(&subscription)?);
        let request = JoinGroupRequest::default()
            .with_group_id(self.group_id())
            .with_session_timeout_ms(SESSION_TIMEOUT_MS)
            .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
            .with_member_id(self.id.clone())
            .with_protocol_type(StrBytes::from_static_str("consumer"))
            .with_protocols(vec![range]);
        let answer = self.client.call_within(coordinator, JOIN_VERSION, &request, JOINS_WITHIN)?;
        if answer.error_code == i16::from(ErrorCode::MemberIdRequired) {
            self.id = answer.member_id;
            return Ok(());
        }
        ok(answer.error_code)?;
        self.id = answer.member_id;
        let assignments = if answer.leader == self.id {
            assign(self.client.shared, &answer.members)?
        } else {
            Vec::new()
        };
        let partitions = self.sync(answer.generation_id, assignments)?;
        let offsets = self.committed(&partitions)?;
        self.reported_at = Instant::now();
        self.generation = answer.generation_id;
        self.readings = offsets
            .into_iter()
            .map(|(partition, offset)| Reading::new(self.group, partition, offset))
            .collect();
        Ok(())
    }

    fn sync(
        &mut self,
        generation: i32,
        assignments: Vec<SyncGroupRequestAssignment>,
    ) -> Result<Vec<Partition>, Failure> {
        let request = SyncGroupRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(generation)
            .with_member_id(self.id.clone())
            .with_assignments(assignments);
        let coordinator = self.coordinator;
        let answer = self.client.call_within(coordinator, SYNC_VERSION, &request, JOINS_WITHIN)?;
        ok(answer.error_code)?;
        let mut bytes = answer.assignment;
        let mut partitions = Vec::new();
        if bytes.remaining() > 2 {
            let version = bytes.get_i16();
            let assignment = ConsumerProtocolAssignment::decode(&mut bytes, version);
            let assignment = assignment.map_err(|_| Failure::NoLeader)?;
            for topic in assignment.assigned_partitions {
                let shared = self.client.shared;
                let own = topic.partitions.iter();
                partitions.extend(own.filter_map(|index| shared.partition(&topic.topic, *index)));
            }
        }
        Ok(partitions)
    }

    fn committed(&mut self, partitions: &[Partition]) -> Result<BTreeMap<Partition, i64>, Failure> {
        let (group, coordinator) = (self.group, self.coordinator);
        committed(&mut self.client, group, coordinator, partitions)
    }

    fn heartbeat(&mut self) -> Result<(), Failure> {
        let request = HeartbeatRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(self.generation)
            .with_member_id(self.id.clone());
        let coordinator = self.coordinator()?;
        ok(self.client.call(coordinator, HEARTBEAT_VERSION, &request)?.error_code)
    }

    /// The coordinator, also when it has moved since this member joined.
    fn coordinator(&mut self) -> Result<i32, Failure> {
        if self.coordinator < 0 {
            self.coordinator = find_coordinator(&mut self.client, self.group)?;
        }
        Ok(self.coordinator)
    }

    fn commit(&mut self) -> Result<(), Failure> {
        let coordinator = self.coordinator()?;
        let member =
            Membership { group: self.group, member_id: self.id.clone(), epoch: self.generation };
        commit(&mut self.client, &member, coordinator, &positions(&self.readings))
    }
}

/// Partitions go to the members in turn.
fn assign(
    shared: &Shared,
    members: &[JoinGroupResponseMember],
) -> Result<Vec<SyncGroupRequestAssignment>, Failure> {
    let mut assignments = Vec::new();
    for (turn, member) in members.iter().enumerate() {
        let own = shared.partitions().filter(|p| usize::from(*p) % members.len() == turn);
        let topics = by_topic(shared, own).map(|(topic, partitions)| {
            TopicPartition::default()
                .with_topic(topic_name(topic))
                .with_partitions(partitions.into_iter().map(|(_, index)| index).collect())
        });
        let assignment =
            ConsumerProtocolAssignment::default().with_assigned_partitions(topics.collect());
        assignments.push(
            SyncGroupRequestAssignment::default()
                .with_member_id(member.member_id.clone())
                .with_assignment(embed(&assignment)?),
        );
    }
    Ok(assignments)
}

/// A message of the consumer protocol with its version in front.
fn embed(message: &impl Encodable) -> Result<Bytes, Failure> {
    let mut bytes = BytesMut::new();
    bytes.put_i16(EMBEDDED_VERSION);
    message.encode(&mut bytes, EMBEDDED_VERSION).map_err(|_| Failure::NoLeader)?;
    Ok(bytes.freeze())
}
