//! JoinGroup.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::error_code::ErrorCode;

use super::member::{schedule_session, schedule_session_for};
use super::rebalance::{
    join_error, joined, maybe_complete_join, prepare_rebalance, rebalance_or_complete_join,
};
use super::state::{ClassicGroup, Member};
use super::sync::sync_error;
use crate::coordinator::group::consumer;
use crate::coordinator::group::event::{GroupReply, GroupState, JoinGroup, MemberId};
use crate::coordinator::group::hard::GroupHard;
use crate::coordinator::group::limits;
use crate::coordinator::group::record::GroupRecord;
use crate::coordinator::group::soft::{Decision, GroupSoft, GroupTimer};
use crate::coordinator::shard::RequestToken;

/// A JoinGroup with whom to answer.
struct Join<'a> {
    token: RequestToken,
    request: &'a JoinGroup,
}

impl Join<'_> {
    fn fail(&self, cx: &mut Decision<'_>, member_id: &MemberId, error: ErrorCode) {
        cx.reply(self.token, join_error(member_id.clone(), error));
    }

    fn timeouts_ms(&self) -> (i32, i32) {
        (self.request.rebalance_timeout_ms, self.request.session_timeout_ms)
    }

    fn new_member_id(&self) -> MemberId {
        let request = self.request;
        let name = request.group_instance_id.as_ref().unwrap_or(&request.client.client_id);
        MemberId::from(format!("{name}-{}", request.new_member_id))
    }
}

/// Answers what is wrong with the request itself.
fn validate(cx: &Decision<'_>, request: &JoinGroup) -> Result<(), ErrorCode> {
    let config = &cx.config;
    let timeouts_ms = config.min_session_timeout_ms..=config.max_session_timeout_ms;
    let instance_id = request.group_instance_id.as_deref();
    let new_name = instance_id.unwrap_or(&request.client.client_id);
    let mut names = request.protocols.iter().map(|protocol| &protocol.name);
    let is_too_long = new_name.len() + 1 + request.new_member_id.len() > limits::NAME_BYTES
        || request.protocol_type.len() > limits::NAME_BYTES
        || names.any(|name| name.len() > limits::NAME_BYTES);
    if request.group_id.is_empty() || request.group_id.len() > limits::NAME_BYTES {
        Err(ErrorCode::InvalidGroupId)
    } else if !timeouts_ms.contains(&request.session_timeout_ms) {
        Err(ErrorCode::InvalidSessionTimeout)
    } else if is_too_long || request.protocols.len() > limits::PROTOCOLS_OF_A_MEMBER {
        Err(ErrorCode::InvalidRequest)
    } else {
        Ok(())
    }
}

/// A member joins, or rejoins.
pub(crate) fn on_join(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: &JoinGroup,
) {
    let join = Join { token, request };
    if let Err(error) = validate(cx, request) {
        return join.fail(cx, &request.member_id, error);
    }
    let is_unknown_member = request.member_id.is_empty();
    let durable = hard.group(&request.group_id);
    match durable.and_then(|group| group.consumer.as_deref()) {
        Some(group) if !group.members.is_empty() => {
            let joined = consumer::on_classic_join(cx, group, soft, token, request);
            return match joined {
                Ok(()) => {}
                Err((error, member_id)) => join.fail(cx, &member_id, error),
            };
        }
        // An empty KIP-848 group becomes a classic one with its first classic member.
        Some(group) if is_unknown_member => {
            cx.append(consumer::tombstones(&request.group_id, group));
        }
        _ => {}
    }
    let mut group = match soft.take(hard, &request.group_id) {
        Some(group) => group,
        None if is_unknown_member && soft.classic.len() < limits::LIVE_GROUPS => {
            Box::new(ClassicGroup::new(request.group_id.clone(), cx.now.wall))
        }
        None if is_unknown_member => {
            return join.fail(cx, &request.member_id, ErrorCode::CoordinatorNotAvailable);
        }
        None => return join.fail(cx, &request.member_id, ErrorCode::UnknownMemberId),
    };
    if !accepts(cx, &group, &request.member_id) {
        group.remove(&request.member_id);
        join.fail(cx, &MemberId::from(""), ErrorCode::GroupMaxSizeReached);
        maybe_complete_join(cx, &mut group);
    } else if !group.supports_protocols(&request.protocol_type, &request.protocols) {
        join.fail(cx, &request.member_id, ErrorCode::InconsistentGroupProtocol);
    } else if is_unknown_member {
        join_new(cx, &mut group, &join);
    } else {
        join_existing(cx, &mut group, &join);
    }
    soft.put_back(group);
}

/// Whether the group has room. During a rebalance those who wait are counted, and not the members:
/// a group that has become too large loses those who rejoin last.
fn accepts(cx: &Decision<'_>, group: &ClassicGroup, member_id: &str) -> bool {
    let max_size = cx.config.max_size;
    let member = group.member(member_id);
    match group.state() {
        GroupState::PreparingRebalance => {
            member.is_some_and(Member::is_awaiting_join) || group.awaiting_join_count() < max_size
        }
        GroupState::CompletingRebalance | GroupState::Stable => {
            member.is_some() || group.members().len() < max_size
        }
        _ => true,
    }
}

fn join_new(cx: &mut Decision<'_>, group: &mut ClassicGroup, join: &Join<'_>) {
    let request = join.request;
    let new_id = join.new_member_id();
    if group.member(&new_id).is_some() || group.pending_join().contains(&new_id) {
        // The same request once more: its first copy has made the member.
        return join.fail(cx, &MemberId::from(""), ErrorCode::UnknownMemberId);
    }
    if let Some(instance_id) = &request.group_instance_id {
        match group.static_member_id(instance_id).cloned() {
            Some(old_id) => replace_static_member(cx, group, join, (&old_id, new_id)),
            None => add_member(cx, group, join, new_id),
        }
    } else if !request.requires_known_member_id {
        add_member(cx, group, join, new_id);
    } else if group.pending_join().len() >= limits::PENDING_MEMBERS {
        join.fail(cx, &MemberId::from(""), ErrorCode::GroupMaxSizeReached);
    } else {
        group.add_pending_join(new_id.clone());
        schedule_session_for(cx, group, &new_id, request.session_timeout_ms);
        join.fail(cx, &new_id, ErrorCode::MemberIdRequired);
    }
}

fn join_existing(cx: &mut Decision<'_>, group: &mut ClassicGroup, join: &Join<'_>) {
    let request = join.request;
    let member_id = &request.member_id;
    let instance_id = request.group_instance_id.as_deref();
    if instance_id.is_none() && group.pending_join().contains(member_id) {
        return add_member(cx, group, join, member_id.clone());
    }
    if let Err(error) = group.validate_member(member_id, instance_id) {
        return join.fail(cx, member_id, error);
    }
    let is_unchanged = group.member(member_id).is_some_and(|m| m.protocols == request.protocols);
    let rejoins = match group.state() {
        GroupState::PreparingRebalance => true,
        GroupState::CompletingRebalance => !is_unchanged,
        // The leader rejoins where what it assigns has changed, its topics' partitions for one.
        GroupState::Stable => group.is_leader(member_id) || !is_unchanged,
        _ => return join.fail(cx, member_id, ErrorCode::UnknownMemberId),
    };
    if rejoins {
        update_member(cx, group, join, member_id);
        rebalance_or_complete_join(cx, group);
    } else {
        // It did not get the answer, perhaps: here is the generation that it is in.
        let mut reply = joined(group, member_id);
        if group.is_in(GroupState::Stable) {
            reply.members.clear();
        }
        cx.reply(join.token, GroupReply::JoinGroup(reply));
    }
}

fn update_member(
    cx: &mut Decision<'_>,
    group: &mut ClassicGroup,
    join: &Join<'_>,
    member_id: &MemberId,
) {
    let timeouts_ms = join.timeouts_ms();
    let protocols = &join.request.protocols;
    if let Some(before) = group.update_member(member_id, protocols, timeouts_ms, join.token) {
        // Of two requests of one member that wait, the later counts.
        cx.reply(before, join_error(member_id.clone(), ErrorCode::RebalanceInProgress));
    }
}

fn add_member(
    cx: &mut Decision<'_>,
    group: &mut ClassicGroup,
    join: &Join<'_>,
    member_id: MemberId,
) {
    let request = join.request;
    let instance_id = request.group_instance_id.clone();
    let client = request.client.clone();
    let mut member = Member::new(instance_id, client, join.timeouts_ms(), &request.protocols);
    member.is_new = true;
    if group.is_in_initial_rebalance() {
        group.new_member_added = true;
    }
    if group.members().is_empty() {
        group.protocol_type = Some(request.protocol_type.clone());
    }
    group.add(member_id.clone(), member, Some(join.token));
    schedule_session_for(cx, group, &member_id, limits::NEW_MEMBER_JOIN_TIMEOUT_MS);
    rebalance_or_complete_join(cx, group);
}

/// A static member comes back without its id: it gets a new one, and whoever still uses the old
/// one is fenced (KIP-345).
fn replace_static_member(
    cx: &mut Decision<'_>,
    group: &mut ClassicGroup,
    join: &Join<'_>,
    (old_id, new_id): (&MemberId, MemberId),
) {
    let leader_before = group.leader().cloned();
    let (waiting_join, waiting_sync) = group.replace_static_member(old_id, new_id.clone());
    if let Some(token) = waiting_join {
        cx.reply(token, join_error(old_id.clone(), ErrorCode::FencedInstanceId));
    }
    if let Some(token) = waiting_sync {
        cx.reply(token, sync_error(ErrorCode::FencedInstanceId));
    }
    cx.cancel_timer(GroupTimer::ClassicSession(group.group_id.clone(), old_id.clone()));
    schedule_session(cx, group, &new_id);
    update_member(cx, group, join, &new_id);
    match group.state() {
        GroupState::Stable if group.select_protocol() == group.protocol_name => {
            let metadata = group.to_metadata();
            cx.append(vec![GroupRecord::Classic(group.group_id.clone(), Some(metadata))]);
            let mut reply = joined(group, &new_id);
            if join.request.supports_skipping_assignment {
                reply.skip_assignment = group.is_leader(&new_id);
            } else {
                // An older leader would assign anew, and no rebalance awaits its assignment: it
                // learns the id that the leader had.
                reply.members.clear();
                reply.leader = leader_before.unwrap_or_else(|| MemberId::from(""));
            }
            if let Some(token) = group.take_awaiting_join(&new_id) {
                cx.reply_durable(token, GroupReply::JoinGroup(reply));
            }
        }
        // The old id may be with the leader already, whose assignment would miss the new one.
        GroupState::Stable | GroupState::CompletingRebalance => prepare_rebalance(cx, group),
        _ => maybe_complete_join(cx, group),
    }
}
