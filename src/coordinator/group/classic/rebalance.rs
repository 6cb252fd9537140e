//! A classic rebalance: asking everyone to join again, waiting, and the next generation.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::Bytes;
use protocol::error_code::ErrorCode;

use super::member::schedule_session;
use super::state::{ClassicGroup, InitialDelay};
use super::sync::propagate_assignment;
use crate::coordinator::group::event::{GroupReply, GroupState, JoinGroupReply, MemberId};
use crate::coordinator::group::record::GroupRecord;
use crate::coordinator::group::soft::{Decision, GroupTimer};

/// A JoinGroup that failed.
pub(crate) fn join_error(member_id: MemberId, error: ErrorCode) -> GroupReply {
    GroupReply::JoinGroup(JoinGroupReply {
        error,
        generation_id: -1,
        protocol_type: None,
        protocol_name: None,
        leader: MemberId::from(""),
        skip_assignment: false,
        member_id,
        members: Vec::new(),
    })
}

/// A JoinGroup of the current generation.
pub(super) fn joined(group: &ClassicGroup, member_id: &MemberId) -> JoinGroupReply {
    let members = match group.is_leader(member_id) {
        true => group.joined_members(),
        false => Vec::new(),
    };
    JoinGroupReply {
        error: ErrorCode::None,
        generation_id: group.generation_id,
        protocol_type: group.protocol_type.clone(),
        protocol_name: group.protocol_name.clone(),
        leader: group.leader().cloned().unwrap_or_else(|| MemberId::from("")),
        skip_assignment: false,
        member_id: member_id.clone(),
        members,
    }
}

/// Begins a rebalance where none is under way, or ends the join phase where everyone is there.
pub(super) fn rebalance_or_complete_join(cx: &mut Decision<'_>, group: &mut ClassicGroup) {
    if group.can_rebalance() {
        prepare_rebalance(cx, group);
    } else {
        maybe_complete_join(cx, group);
    }
}

/// Asks everyone to join again.
pub(crate) fn prepare_rebalance(cx: &mut Decision<'_>, group: &mut ClassicGroup) {
    if group.is_in(GroupState::CompletingRebalance) {
        for (_, member) in group.members_mut() {
            member.assignment = Bytes::new();
        }
        propagate_assignment(cx, group, ErrorCode::RebalanceInProgress);
    }
    group.pending_sync.clear();
    cx.cancel_timer(GroupTimer::ClassicSync(group.group_id.clone()));
    let is_initial = group.is_in(GroupState::Empty);
    group.transition_to(GroupState::PreparingRebalance, cx.now.wall);
    group.new_member_added = false;
    if is_initial {
        // The group is new: others are likely to come in a moment.
        let delay_ms = cx.config.initial_rebalance_delay_ms.max(0);
        let remaining_ms = group.rebalance_timeout_ms().saturating_sub(delay_ms).max(0);
        if delay_ms == 0 {
            complete_join(cx, group);
        } else {
            wait_for_more(cx, group, InitialDelay { delay_ms, remaining_ms });
        }
    } else if group.has_all_members_joined() {
        complete_join(cx, group);
    } else {
        wait_for_members(cx, group);
    }
}

fn wait_for_more(cx: &mut Decision<'_>, group: &mut ClassicGroup, delay: InitialDelay) {
    group.initial_delay = Some(delay);
    let timer = GroupTimer::ClassicJoin(group.group_id.clone());
    cx.set_timer(timer, i64::from(delay.delay_ms));
}

fn wait_for_members(cx: &mut Decision<'_>, group: &mut ClassicGroup) {
    group.initial_delay = None;
    let timer = GroupTimer::ClassicJoin(group.group_id.clone());
    cx.set_timer(timer, i64::from(group.rebalance_timeout_ms()));
}

/// The join phase has waited long enough, or an initial rebalance may wait for more.
pub(crate) fn on_join_timer(cx: &mut Decision<'_>, group: &mut ClassicGroup) {
    if !group.is_in(GroupState::PreparingRebalance) {
        return;
    }
    match group.initial_delay {
        Some(delay) if group.new_member_added && delay.remaining_ms != 0 => {
            group.new_member_added = false;
            let delay_ms = cx.config.initial_rebalance_delay_ms.min(delay.remaining_ms);
            let remaining_ms = (delay.remaining_ms - delay.delay_ms).max(0);
            wait_for_more(cx, group, InitialDelay { delay_ms, remaining_ms });
        }
        _ => complete_join(cx, group),
    }
}

/// Ends the join phase where everyone is there; an initial rebalance waits for its time.
pub(super) fn maybe_complete_join(cx: &mut Decision<'_>, group: &mut ClassicGroup) {
    let is_due = group.is_in(GroupState::PreparingRebalance) && !group.is_in_initial_rebalance();
    if is_due && group.has_all_members_joined() {
        complete_join(cx, group);
    }
}

/// Ends the join phase with those who are there.
pub(super) fn complete_join(cx: &mut Decision<'_>, group: &mut ClassicGroup) {
    group.initial_delay = None;
    cx.cancel_timer(GroupTimer::ClassicJoin(group.group_id.clone()));
    for member_id in group.absent_dynamic_members() {
        group.remove(&member_id);
        cx.cancel_timer(GroupTimer::ClassicSession(group.group_id.clone(), member_id));
    }
    if !group.elect_joined_leader() && !group.members().is_empty() {
        // Static members only, and none of them has joined: until their sessions end, they are
        // waited for.
        wait_for_members(cx, group);
        return;
    }
    group.init_next_generation(cx.now.wall);
    if group.is_in(GroupState::Empty) {
        let metadata = group.to_metadata();
        cx.append(vec![GroupRecord::Classic(group.group_id.clone(), Some(metadata))]);
        return;
    }
    let member_ids: Vec<MemberId> = group.members().keys().cloned().collect();
    for member_id in member_ids {
        if let Some(token) = group.take_awaiting_join(&member_id) {
            let reply = joined(group, &member_id);
            cx.reply(token, GroupReply::JoinGroup(reply));
        }
        if let Some(member) = group.member_mut(&member_id) {
            member.is_new = false;
        }
        schedule_session(cx, group, &member_id);
        group.pending_sync.insert(member_id);
    }
    let timer = GroupTimer::ClassicSync(group.group_id.clone());
    cx.set_timer(timer, i64::from(group.rebalance_timeout_ms()));
}
