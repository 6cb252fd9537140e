//! A client that speaks KIP-848.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::error_code::ErrorCode;
use protocol::types::PartitionId;

use super::GROUP;
use super::positions::{Identity, Positions};
use super::world::{Context, Fate, topic_id};
use crate::coordinator::group::event::{
    Client, ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, GroupReply, GroupRequest,
    MemberId, TopicIdPartitions,
};

const REBALANCE_MS: i32 = 8_000;
const HEARTBEAT_MS: i64 = 1_500;
const REQUEST_MS: i64 = 4_000;

#[derive(Debug)]
pub(super) struct ConsumerClient {
    has_joined: bool,
    member_id: MemberId,
    epoch: i32,
    positions: Positions,
    /// What it is to own.
    assignment: BTreeSet<i32>,
    /// The report that is under way, and until when it waits for the answer.
    waits_for: Option<(u64, i64)>,
    /// The answer may be lost: the next report says everything.
    says_all: bool,
    next_report_ms: i64,
}

impl ConsumerClient {
    pub(super) fn new(cx: &mut Context<'_>) -> Self {
        let member_id = format!("m{}-{}", cx.index, cx.network.unique());
        ConsumerClient {
            has_joined: false,
            member_id: MemberId::from(member_id),
            epoch: 0,
            positions: Positions::default(),
            assignment: BTreeSet::new(),
            waits_for: None,
            says_all: false,
            next_report_ms: cx.network.now_ms,
        }
    }

    pub(super) fn tick(&mut self, cx: &mut Context<'_>) {
        let now_ms = cx.network.now_ms;
        if self.waits_for.is_some_and(|(_, until)| until < now_ms) {
            self.waits_for = None;
            self.says_all = true;
        }
        let owes = !self.positions.owned().is_subset(&self.assignment);
        if owes && self.has_joined && cx.network.chance(0.1) {
            // It has finished with what it is to give up, and says so.
            self.positions.keep(&self.assignment);
            self.next_report_ms = now_ms;
        }
        if self.waits_for.is_none() && now_ms >= self.next_report_ms {
            self.report(cx);
        } else if !owes && self.has_joined && cx.network.chance(0.2) {
            let me = Identity {
                index: cx.index,
                member_id: self.member_id.clone(),
                instance_id: cx.instance_id.clone(),
                epoch: self.epoch,
                is_modern: true,
            };
            self.positions.use_offsets(cx.network, &me);
        }
    }

    fn heartbeat(&self, cx: &Context<'_>, member_epoch: i32) -> ConsumerGroupHeartbeat {
        let partitions: Vec<PartitionId> =
            self.positions.owned().into_iter().map(PartitionId).collect();
        let has_none = member_epoch == 0 || partitions.is_empty();
        let owned = TopicIdPartitions { topic_id: topic_id(), partitions };
        let says_all = member_epoch == 0 || self.says_all;
        let by_name = cx.index.is_multiple_of(2);
        ConsumerGroupHeartbeat {
            group_id: Arc::from(GROUP),
            member_id: self.member_id.clone(),
            new_member_id: String::new(),
            member_epoch,
            instance_id: cx.instance_id.clone(),
            rack_id: None,
            rebalance_timeout_ms: if says_all { REBALANCE_MS } else { -1 },
            subscribed_topic_names: match by_name {
                true => says_all.then(|| vec!["t".to_owned()]),
                false => says_all.then(Vec::new),
            },
            subscribed_topic_regex: (!by_name && says_all).then(|| "[st]".to_owned()),
            server_assignor: None,
            topic_partitions: Some(if has_none { Vec::new() } else { vec![owned] }),
            client: Client::default(),
            requires_own_member_id: true,
        }
    }

    fn report(&mut self, cx: &mut Context<'_>) {
        let request = self.heartbeat(cx, self.epoch);
        let sent = cx.network.send(cx.index, &GroupRequest::ConsumerGroupHeartbeat(request));
        self.waits_for = Some((sent.token, cx.network.now_ms + REQUEST_MS));
        // A request goes out twice only when a connection broke in between. What the answer to the
        // first one said may be lost then, and a client says all anew.
        self.says_all = sent.twice;
    }

    pub(super) fn leave(&self, cx: &mut Context<'_>) {
        if !self.has_joined {
            return;
        }
        let for_a_while = cx.instance_id.is_some() && cx.network.chance(0.7);
        let request = self.heartbeat(cx, if for_a_while { -2 } else { -1 });
        cx.network.send(cx.index, &GroupRequest::ConsumerGroupHeartbeat(request));
    }

    pub(super) fn on_reply(
        &mut self,
        cx: &mut Context<'_>,
        token: u64,
        reply: &GroupReply,
    ) -> Fate {
        match reply {
            GroupReply::OffsetFetch(reply) => self.positions.on_fetched(token, reply),
            GroupReply::ConsumerGroupHeartbeat(reply)
                if self.waits_for.is_some_and(|(awaited, _)| awaited == token) =>
            {
                self.waits_for = None;
                self.next_report_ms = cx.network.now_ms + HEARTBEAT_MS;
                return self.on_answer(cx, reply);
            }
            _ => {}
        }
        Fate::LivesOn
    }

    fn on_answer(&mut self, cx: &Context<'_>, reply: &ConsumerGroupHeartbeatReply) -> Fate {
        let now_ms = cx.network.now_ms;
        match reply.error {
            ErrorCode::None => {
                self.has_joined = true;
                self.epoch = reply.member_epoch;
                if let Some(assignment) = &reply.assignment {
                    let partitions = assignment.iter().flat_map(|topic| &topic.partitions);
                    self.assignment = partitions.map(|partition| partition.0).collect();
                    self.positions.take(&self.assignment);
                    self.next_report_ms = now_ms;
                }
            }
            ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId => {
                self.start_over();
                self.next_report_ms = now_ms;
            }
            // Whoever had the name is not given up yet.
            ErrorCode::UnreleasedInstanceId => self.next_report_ms = now_ms + 1_000,
            ErrorCode::GroupIdNotFound => self.start_over(),
            ErrorCode::FencedInstanceId => return Fate::Ends,
            error => panic!("member {} got {error}: {:?}", cx.index, reply.error_message),
        }
        Fate::LivesOn
    }

    fn start_over(&mut self) {
        self.positions.clear();
        self.assignment.clear();
        self.epoch = 0;
    }

    /// What it consumes, and in which epoch, once it has come to rest.
    pub(super) fn settled(&self) -> Option<(i32, BTreeSet<i32>)> {
        let owned = self.positions.owned();
        let is_settled = self.positions.are_known() && owned == self.assignment;
        is_settled.then_some((self.epoch, owned))
    }
}
