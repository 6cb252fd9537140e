//! Members of a KIP-848 group that speak the classic protocol: what they are told by JoinGroup,
//! SyncGroup and Heartbeat is the group's epoch and their part of its assignment.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeSet;

use protocol::consumer_protocol::Subscription;
use protocol::error_code::ErrorCode;

use super::heartbeat::{check_size, reconcile, replace, update_member};
use super::leave::fence;
use super::migration::{assignment_bytes, can_downgrade, downgrade, owned_partitions};
use super::target::update_target;
use super::{Draft, Refusal, schedule_session};
use crate::coordinator::group::classic::CONSUMER_PROTOCOL_TYPE;
use crate::coordinator::group::event::{
    GroupId, GroupReply, Heartbeat, JoinGroup, JoinGroupReply, JoinProtocol, LeaveGroup,
    LeaveGroupReply, LeavingMember, LeftMember, MemberId, SyncGroup, SyncGroupReply,
};
use crate::coordinator::group::hard::HardConsumerGroup;
use crate::coordinator::group::record::{AssignmentState, ClassicProtocols, ConsumerMember};
use crate::coordinator::group::soft::{Decision, GroupSoft, GroupTimer};
use crate::coordinator::shard::RequestToken;

type Outcome<T> = Result<T, ErrorCode>;

fn code(refusal: Refusal) -> ErrorCode {
    refusal.error
}

/// A classic member joins, or joins again. An error goes with the member's id.
pub(crate) fn on_classic_join(
    cx: &mut Decision<'_>,
    group: &HardConsumerGroup,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: &JoinGroup,
) -> Result<(), (ErrorCode, MemberId)> {
    let is_unknown = request.member_id.is_empty();
    let instance_id = request.group_instance_id.as_deref();
    let member_id = match is_unknown {
        true => {
            let name = instance_id.unwrap_or(&request.client.client_id);
            MemberId::from(format!("{name}-{}", request.new_member_id))
        }
        false => request.member_id.clone(),
    };
    let fail = |error| (error, request.member_id.clone());
    check_size(&cx.config, group, &member_id, instance_id).map_err(|r| fail(code(r)))?;
    if !supports_protocols(group, request) {
        return Err(fail(ErrorCode::InconsistentGroupProtocol));
    }
    if is_unknown && instance_id.is_none() && request.requires_known_member_id {
        return Err((ErrorCode::MemberIdRequired, member_id));
    }
    join(cx, group, soft, token, request, &member_id).map_err(fail)
}

/// Whether one of the protocols is common to all classic members.
fn supports_protocols(group: &HardConsumerGroup, request: &JoinGroup) -> bool {
    let classic = || group.members.values().filter_map(|member| member.classic.as_ref());
    let is_common = |offered: &JoinProtocol| {
        classic().all(|classic| classic.protocols.iter().any(|own| own.name == offered.name))
    };
    request.protocol_type == CONSUMER_PROTOCOL_TYPE && request.protocols.iter().any(is_common)
}

fn join(
    cx: &mut Decision<'_>,
    group: &HardConsumerGroup,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: &JoinGroup,
    member_id: &MemberId,
) -> Outcome<()> {
    let group_id = &request.group_id;
    let first = request.protocols.first().ok_or(ErrorCode::InconsistentGroupProtocol)?;
    let subscription = Subscription::decode(&first.metadata);
    let subscription = subscription.map_err(|_| ErrorCode::InconsistentGroupProtocol)?;
    if returns_too_late(group, request, &subscription) {
        return Err(ErrorCode::UnknownMemberId);
    }
    let mut draft = Draft::new(group_id, Some(group));
    take_static_place(cx, &mut draft, request, member_id)?;
    let update = |before: &ConsumerMember| Ok(updated(before, request, &subscription));
    let has_changed = update_member(cx, soft, &mut draft, member_id, update).map_err(code)?;
    let owned = owned_partitions(&subscription.owned_partitions, &soft.topics);
    let downgrades = can_downgrade(&cx.config, group, &draft.group);
    let rebalances = downgrades && draft.group.epoch() > draft.group.target_epoch();
    if !downgrades {
        update_target(&mut draft, &cx.config, &soft.topics, cx.now.wall);
    }
    if !rebalances {
        reconcile(&mut draft, soft, member_id, has_changed, Some(&owned)).map_err(code)?;
    }
    let reply = JoinGroupReply {
        error: ErrorCode::None,
        generation_id: draft.group.member_epoch(member_id),
        protocol_type: Some(CONSUMER_PROTOCOL_TYPE.to_owned()),
        protocol_name: Some(first.name.clone()),
        leader: MemberId::from(""),
        skip_assignment: false,
        member_id: member_id.clone(),
        members: Vec::new(),
    };
    soft.to_rejoin.remove(&(group_id.clone(), member_id.clone()));
    cx.cancel_timer(GroupTimer::ConsumerJoin(group_id.clone(), member_id.clone()));
    if downgrades {
        downgrade(cx, soft, draft, rebalances);
    } else {
        soft.checked_topics.insert(group_id.clone(), soft.topics_version);
        schedule_session(cx, &draft.group, group_id, member_id);
        let sync = GroupTimer::ConsumerSync(group_id.clone(), member_id.clone());
        cx.set_timer(sync, i64::from(request.rebalance_timeout_ms));
        cx.append(draft.records);
    }
    cx.reply_durable(token, GroupReply::JoinGroup(reply));
    Ok(())
}

/// Whether it was a member and is none any more, and yet means to own partitions. Kafka takes it in
/// as a new one; but if it were given one of these partitions again it would go on where it was,
/// and commit offsets from before those of the members that had the partition in between.
fn returns_too_late(
    group: &HardConsumerGroup,
    request: &JoinGroup,
    subscription: &Subscription,
) -> bool {
    !request.member_id.is_empty()
        && !group.members.contains_key(&request.member_id)
        && subscription.owned_partitions.iter().any(|owned| !owned.partitions.is_empty())
}

/// A static member that joins without its id takes the place of the one with its name.
fn take_static_place(
    cx: &mut Decision<'_>,
    draft: &mut Draft<'_>,
    request: &JoinGroup,
    member_id: &MemberId,
) -> Outcome<()> {
    let Some(instance_id) = &request.group_instance_id else { return Ok(()) };
    let existing = draft.group.static_member_id(instance_id).cloned();
    match (existing, request.member_id.is_empty()) {
        (Some(existing), true) => replace(cx, draft, &existing, member_id),
        (None, true) => {}
        (None, false) => return Err(ErrorCode::UnknownMemberId),
        (Some(existing), false) if existing != *member_id => {
            return Err(ErrorCode::FencedInstanceId);
        }
        (Some(_), false) => {}
    }
    Ok(())
}

fn updated(
    before: &ConsumerMember,
    request: &JoinGroup,
    subscription: &Subscription,
) -> ConsumerMember {
    let own = |protocol: &JoinProtocol| JoinProtocol {
        name: protocol.name.clone(),
        metadata: bytes::Bytes::copy_from_slice(&protocol.metadata),
    };
    let names: BTreeSet<&String> = subscription.topics.iter().collect();
    ConsumerMember {
        instance_id: request.group_instance_id.clone().or_else(|| before.instance_id.clone()),
        rack_id: subscription.rack_id.clone().or_else(|| before.rack_id.clone()),
        client: request.client.clone(),
        subscribed_topic_names: names.into_iter().cloned().collect(),
        subscribed_topic_regex: None,
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        server_assignor: before.server_assignor.clone(),
        classic: Some(ClassicProtocols {
            session_timeout_ms: request.session_timeout_ms,
            protocols: request.protocols.iter().map(own).collect(),
        }),
    }
}

/// The member, if it is one, has its static name, and speaks the classic protocol.
fn classic_member<'a>(
    group: &'a HardConsumerGroup,
    member_id: &MemberId,
    instance_id: Option<&str>,
) -> Outcome<(&'a ConsumerMember, &'a ClassicProtocols)> {
    if let Some(instance_id) = instance_id {
        let existing = group.static_member_id(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
        if existing != member_id {
            return Err(ErrorCode::FencedInstanceId);
        }
    }
    let member = group.members.get(member_id).ok_or(ErrorCode::UnknownMemberId)?;
    let classic = member.classic.as_ref().ok_or(ErrorCode::UnknownMemberId)?;
    Ok((member, classic))
}

/// The member is told to join again, and has its rebalance timeout for it.
fn tell_to_rejoin(
    cx: &mut Decision<'_>,
    soft: &mut GroupSoft,
    group_id: &GroupId,
    member_id: &MemberId,
    member: &ConsumerMember,
) {
    if soft.to_rejoin.insert((group_id.clone(), member_id.clone())) {
        let timer = GroupTimer::ConsumerJoin(group_id.clone(), member_id.clone());
        cx.set_timer(timer, i64::from(member.rebalance_timeout_ms));
    }
}

/// A classic member asks for its part of the assignment.
pub(crate) fn on_classic_sync(
    cx: &mut Decision<'_>,
    group: &HardConsumerGroup,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: &SyncGroup,
) -> Outcome<()> {
    let (group_id, member_id) = (&request.group_id, &request.member_id);
    let instance_id = request.group_instance_id.as_deref();
    let (member, classic) = classic_member(group, member_id, instance_id)?;
    let current = group.current(member_id);
    let own_name = classic.protocols.first().map(|protocol| protocol.name.as_str());
    if request.generation_id != current.member_epoch {
        return Err(ErrorCode::IllegalGeneration);
    }
    if request.protocol_type.as_deref().is_some_and(|name| name != CONSUMER_PROTOCOL_TYPE)
        || request.protocol_name.is_some() && request.protocol_name.as_deref() != own_name
    {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    let owes = current.state == AssignmentState::UnrevokedPartitions;
    if group.target_epoch() > current.member_epoch && !owes {
        tell_to_rejoin(cx, soft, group_id, member_id, member);
        return Err(ErrorCode::RebalanceInProgress);
    }
    cx.cancel_timer(GroupTimer::ConsumerSync(group_id.clone(), member_id.clone()));
    schedule_session(cx, group, group_id, member_id);
    let owned = current.assigned.iter();
    let owned = owned.map(|(id, partitions)| (id, partitions.keys().map(|p| p.0).collect()));
    let reply = SyncGroupReply {
        error: ErrorCode::None,
        protocol_type: request.protocol_type.clone(),
        protocol_name: request.protocol_name.clone(),
        assignment: assignment_bytes(owned, member, &soft.topics),
    };
    cx.reply_durable(token, GroupReply::SyncGroup(reply));
    Ok(())
}

/// A classic member's sign of life; it is told to join again where it has a step to take.
pub(crate) fn on_classic_heartbeat(
    cx: &mut Decision<'_>,
    group: &HardConsumerGroup,
    soft: &mut GroupSoft,
    request: &Heartbeat,
) -> Outcome<()> {
    let (group_id, member_id) = (&request.group_id, &request.member_id);
    let instance_id = request.group_instance_id.as_deref();
    let (member, _) = classic_member(group, member_id, instance_id)?;
    let current = group.current(member_id);
    if request.generation_id != current.member_epoch {
        return Err(ErrorCode::IllegalGeneration);
    }
    schedule_session(cx, group, group_id, member_id);
    let has_a_step = current.member_epoch < group.target_epoch()
        || match current.state {
            AssignmentState::UnrevokedPartitions => true,
            AssignmentState::UnreleasedPartitions => !waits_for_others(group, member_id),
            _ => false,
        };
    if has_a_step {
        tell_to_rejoin(cx, soft, group_id, member_id, member);
        return Err(ErrorCode::RebalanceInProgress);
    }
    Ok(())
}

/// Whether any partition that the member is to get still belongs to another.
fn waits_for_others(group: &HardConsumerGroup, member_id: &MemberId) -> bool {
    let taken = group.owned_by_others(member_id);
    let target = group.targets.get(member_id).into_iter().flatten();
    let mut places = target.flat_map(|(&id, partitions)| partitions.iter().map(move |&p| (id, p)));
    places.any(|place| taken.contains(&place))
}

/// Members leave by the classic request, or an administrator removes them, whichever protocol they
/// speak.
pub(crate) fn on_classic_leave(
    cx: &mut Decision<'_>,
    group: &HardConsumerGroup,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: &LeaveGroup,
) {
    let mut leaving: Vec<MemberId> = Vec::new();
    let members = request.members.iter().map(|identity| {
        let found = leaving_member(group, identity);
        let error = found.as_ref().err().copied().unwrap_or(ErrorCode::None);
        leaving.extend(found.ok().cloned());
        LeftMember {
            member_id: identity.member_id.clone(),
            group_instance_id: identity.group_instance_id.clone(),
            error,
        }
    });
    let members = members.collect();
    leaving.sort_unstable();
    leaving.dedup();
    fence(cx, group, soft, &request.group_id, &leaving);
    let reply = LeaveGroupReply { error: ErrorCode::None, members };
    cx.reply_durable(token, GroupReply::LeaveGroup(reply));
}

fn leaving_member<'a>(
    group: &'a HardConsumerGroup,
    identity: &LeavingMember,
) -> Outcome<&'a MemberId> {
    let Some(instance_id) = &identity.group_instance_id else {
        let member = group.members.get_key_value(&identity.member_id);
        return member.map(|(member_id, _)| member_id).ok_or(ErrorCode::UnknownMemberId);
    };
    let existing = group.static_member_id(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
    match identity.member_id.is_empty() || identity.member_id == *existing {
        true => Ok(existing),
        false => Err(ErrorCode::FencedInstanceId),
    }
}
