//! A client that speaks the classic protocol, eager or cooperative.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use protocol::consumer_protocol::{Assignment, Subscription, TopicPartitions};
use protocol::error_code::ErrorCode;

use super::GROUP;
use super::positions::{Identity, Positions};
use super::world::{Context, Fate};
use crate::coordinator::group::event::{
    Client, GroupReply, GroupRequest, Heartbeat, JoinGroup, JoinGroupReply, JoinProtocol,
    JoinedMember, LeaveGroup, LeavingMember, MemberId, SyncGroup,
};

const SESSION_MS: i32 = 6_000;
const REBALANCE_MS: i32 = 10_000;
const HEARTBEAT_MS: i64 = 1_500;
/// How long a client waits for an answer (longer than a rebalance may take).
const REQUEST_MS: i64 = 20_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It is to join, or to join again.
    Unjoined,
    Joining,
    Syncing,
    Consuming,
}

#[derive(Debug)]
pub(super) struct ClassicClient {
    /// It keeps what it has while it joins again (KIP-429).
    is_cooperative: bool,
    member_id: MemberId,
    generation_id: i32,
    phase: Phase,
    positions: Positions,
    leads: Option<JoinGroupReply>,
    /// The request whose answer moves it on, and until when it waits.
    waits_for: Option<(u64, i64)>,
    next_heartbeat_ms: i64,
}

impl ClassicClient {
    pub(super) fn new(is_cooperative: bool) -> Self {
        ClassicClient {
            is_cooperative,
            member_id: MemberId::from(""),
            generation_id: -1,
            phase: Phase::Unjoined,
            positions: Positions::default(),
            leads: None,
            waits_for: None,
            next_heartbeat_ms: 0,
        }
    }

    fn assignor(&self) -> &'static str {
        if self.is_cooperative { "cooperative-sticky" } else { "range" }
    }

    pub(super) fn tick(&mut self, cx: &mut Context<'_>) {
        let now_ms = cx.network.now_ms;
        if self.waits_for.is_some_and(|(_, until)| until < now_ms) {
            // The client gives up on the answer, and joins again.
            self.join_again();
        }
        match self.phase {
            Phase::Unjoined => self.join(cx),
            Phase::Consuming if now_ms >= self.next_heartbeat_ms => {
                self.next_heartbeat_ms = now_ms + HEARTBEAT_MS;
                let heartbeat = Heartbeat {
                    group_id: Arc::from(GROUP),
                    generation_id: self.generation_id,
                    member_id: self.member_id.clone(),
                    group_instance_id: cx.instance_id.clone(),
                };
                cx.network.send(cx.index, &GroupRequest::Heartbeat(heartbeat));
            }
            Phase::Consuming if cx.network.chance(0.2) => {
                let me = Identity {
                    index: cx.index,
                    member_id: self.member_id.clone(),
                    instance_id: cx.instance_id.clone(),
                    epoch: self.generation_id,
                    is_modern: false,
                };
                self.positions.use_offsets(cx.network, &me);
            }
            _ => {}
        }
    }

    fn join_again(&mut self) {
        self.waits_for = None;
        self.phase = Phase::Unjoined;
        if !self.is_cooperative {
            self.positions.clear();
        }
    }

    /// Somebody else may have all that it had.
    fn start_over(&mut self) {
        *self = ClassicClient::new(self.is_cooperative);
    }

    fn wait_for(&mut self, cx: &Context<'_>, token: u64, phase: Phase) {
        self.waits_for = Some((token, cx.network.now_ms + REQUEST_MS));
        self.phase = phase;
    }

    fn join(&mut self, cx: &mut Context<'_>) {
        let owned = TopicPartitions {
            topic: "t".to_owned(),
            partitions: self.positions.owned().into_iter().collect(),
        };
        let metadata = Subscription {
            version: 2,
            topics: vec!["t".to_owned()],
            user_data: None,
            owned_partitions: vec![owned],
            generation_id: self.generation_id,
            rack_id: None,
        };
        let protocol =
            JoinProtocol { name: self.assignor().to_owned(), metadata: metadata.encode() };
        let request = JoinGroup {
            group_id: Arc::from(GROUP),
            member_id: self.member_id.clone(),
            group_instance_id: cx.instance_id.clone(),
            client: Client { client_id: format!("c{}", cx.index), client_host: "/host".to_owned() },
            new_member_id: String::new(),
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: REBALANCE_MS,
            protocol_type: "consumer".to_owned(),
            protocols: vec![protocol],
            reason: None,
            requires_known_member_id: cx.instance_id.is_none(),
            supports_skipping_assignment: cx.index.is_multiple_of(2),
        };
        let sent = cx.network.send(cx.index, &GroupRequest::JoinGroup(request));
        self.wait_for(cx, sent.token, Phase::Joining);
    }

    pub(super) fn leave(&self, cx: &mut Context<'_>) {
        let leaving = LeavingMember {
            member_id: self.member_id.clone(),
            group_instance_id: cx.instance_id.clone(),
            reason: None,
        };
        let request = LeaveGroup { group_id: Arc::from(GROUP), members: vec![leaving] };
        cx.network.send(cx.index, &GroupRequest::LeaveGroup(request));
    }

    pub(super) fn on_reply(&mut self, cx: &mut Context<'_>, token: u64, reply: GroupReply) -> Fate {
        let is_awaited = self.waits_for.is_some_and(|(awaited, _)| awaited == token);
        match reply {
            GroupReply::JoinGroup(reply) if is_awaited => return self.on_joined(cx, reply),
            GroupReply::SyncGroup(reply) if is_awaited => match reply.error {
                ErrorCode::None => self.on_assigned(cx, &reply.assignment),
                error => return self.on_error(cx, error),
            },
            GroupReply::OffsetFetch(reply) => self.positions.on_fetched(token, &reply),
            GroupReply::Heartbeat(error) if self.phase == Phase::Consuming => {
                return self.on_error(cx, error);
            }
            _ => {}
        }
        Fate::LivesOn
    }

    fn on_joined(&mut self, cx: &mut Context<'_>, reply: JoinGroupReply) -> Fate {
        match reply.error {
            ErrorCode::None => {
                self.member_id = reply.member_id.clone();
                self.generation_id = reply.generation_id;
                let leads = reply.leader == reply.member_id && !reply.skip_assignment;
                self.leads = Some(reply).filter(|reply| leads && !reply.members.is_empty());
                self.sync(cx);
            }
            ErrorCode::MemberIdRequired => {
                self.member_id = reply.member_id;
                self.phase = Phase::Unjoined;
                self.waits_for = None;
            }
            error => return self.on_error(cx, error),
        }
        Fate::LivesOn
    }

    fn sync(&mut self, cx: &mut Context<'_>) {
        let leads = self.leads.as_ref();
        let assignments = leads.map(|reply| self.assign(reply, cx.partitions)).unwrap_or_default();
        let bytes = |(member_id, partitions): (MemberId, Vec<i32>)| {
            let topic = TopicPartitions { topic: "t".to_owned(), partitions };
            let assigned_partitions = vec![topic];
            let assignment = Assignment { version: 2, assigned_partitions, user_data: None };
            (member_id, assignment.encode())
        };
        let request = SyncGroup {
            group_id: Arc::from(GROUP),
            generation_id: self.generation_id,
            member_id: self.member_id.clone(),
            group_instance_id: cx.instance_id.clone(),
            protocol_type: Some("consumer".to_owned()),
            protocol_name: Some(self.assignor().to_owned()),
            assignments: assignments.into_iter().map(bytes).collect(),
        };
        let sent = cx.network.send(cx.index, &GroupRequest::SyncGroup(request));
        self.wait_for(cx, sent.token, Phase::Syncing);
    }

    /// The leader's plan. Where members keep what they have, nobody gets what another claims.
    fn assign(&self, reply: &JoinGroupReply, partitions: i32) -> BTreeMap<MemberId, Vec<i32>> {
        let mut members: Vec<&JoinedMember> = reply.members.iter().collect();
        members.sort_by_key(|member| (&member.group_instance_id, &member.member_id));
        let shift = if self.is_cooperative { 0 } else { reply.generation_id };
        let nothing = members.iter().map(|member| (member.member_id.clone(), Vec::new()));
        let mut plan: BTreeMap<MemberId, Vec<i32>> = nothing.collect();
        for partition in 0..partitions {
            let to = members[(partition + shift) as usize % members.len()];
            let others = members.iter().filter(|member| member.member_id != to.member_id);
            if !others.into_iter().any(|other| claims(other, partition)) {
                plan.entry(to.member_id.clone()).or_default().push(partition);
            }
        }
        plan
    }

    fn on_assigned(&mut self, cx: &Context<'_>, assignment: &Bytes) {
        let assigned = assigned_partitions(assignment);
        let gives_up = !self.positions.owned().is_subset(&assigned);
        self.positions.keep(&assigned);
        self.positions.take(&assigned);
        self.waits_for = None;
        self.phase = Phase::Consuming;
        self.next_heartbeat_ms = cx.network.now_ms;
        if gives_up {
            // What it gave up can go to its next owner now.
            self.join_again();
        }
    }

    fn on_error(&mut self, cx: &mut Context<'_>, error: ErrorCode) -> Fate {
        match error {
            ErrorCode::None => {}
            ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration => self.start_over(),
            ErrorCode::RebalanceInProgress => self.join_again(),
            // Another process has its name: this one is a zombie, and ends.
            ErrorCode::FencedInstanceId => return Fate::Ends,
            error => panic!("member {} got {error}", cx.index),
        }
        Fate::LivesOn
    }

    /// What it consumes, and in which generation, once it has come to rest.
    pub(super) fn settled(&self) -> Option<(i32, BTreeSet<i32>)> {
        let is_settled = self.phase == Phase::Consuming && self.positions.are_known();
        is_settled.then(|| (self.generation_id, self.positions.owned()))
    }
}

/// The partitions in an assignment; a leader that had no plan gives empty ones.
pub(super) fn assigned_partitions(assignment: &Bytes) -> BTreeSet<i32> {
    if assignment.is_empty() {
        return BTreeSet::new();
    }
    let assignment = Assignment::decode(assignment).expect("it is one");
    let topics = assignment.assigned_partitions.iter();
    topics.flat_map(|topic| topic.partitions.iter().copied()).collect()
}

fn claims(member: &JoinedMember, partition: i32) -> bool {
    let subscription = Subscription::decode(&member.metadata).expect("it is one");
    subscription.owned_partitions.iter().any(|topic| topic.partitions.contains(&partition))
}
