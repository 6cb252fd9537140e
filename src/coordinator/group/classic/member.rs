//! The life of a member between rebalances: heartbeats, leaving, and its session's end.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::error_code::ErrorCode;

use super::rebalance::{
    complete_join, join_error, maybe_complete_join, rebalance_or_complete_join,
};
use super::state::{ClassicGroup, Member};
use super::sync::sync_error;
use crate::coordinator::group::event::{
    GroupReply, GroupState, Heartbeat, LeaveGroup, LeaveGroupReply, LeavingMember, LeftMember,
    MemberId,
};
use crate::coordinator::group::soft::{Decision, GroupTimer};
use crate::coordinator::shard::RequestToken;

/// The member has its session timeout from now on.
pub(crate) fn schedule_session(cx: &mut Decision<'_>, group: &ClassicGroup, member_id: &MemberId) {
    if let Some(member) = group.member(member_id) {
        schedule_session_for(cx, group, member_id, member.session_timeout_ms);
    }
}

/// The member has that long from now on.
pub(super) fn schedule_session_for(
    cx: &mut Decision<'_>,
    group: &ClassicGroup,
    member_id: &MemberId,
    timeout_ms: i32,
) {
    let timer = GroupTimer::ClassicSession(group.group_id.clone(), member_id.clone());
    cx.set_timer(timer, i64::from(timeout_ms));
}

/// A sign of life.
pub(crate) fn on_heartbeat(
    cx: &mut Decision<'_>,
    group: &ClassicGroup,
    request: &Heartbeat,
) -> ErrorCode {
    let instance_id = request.group_instance_id.as_deref();
    if let Err(error) = group.validate_member(&request.member_id, instance_id) {
        return error;
    }
    if request.generation_id != group.generation_id {
        return ErrorCode::IllegalGeneration;
    }
    match group.state() {
        GroupState::PreparingRebalance => {
            schedule_session(cx, group, &request.member_id);
            ErrorCode::RebalanceInProgress
        }
        GroupState::CompletingRebalance | GroupState::Stable => {
            schedule_session(cx, group, &request.member_id);
            ErrorCode::None
        }
        _ => ErrorCode::UnknownMemberId,
    }
}

/// Members leave, or an administrator removes them.
pub(crate) fn on_leave(
    cx: &mut Decision<'_>,
    group: &mut ClassicGroup,
    token: RequestToken,
    request: &LeaveGroup,
) {
    let mut members = Vec::with_capacity(request.members.len());
    for leaving in &request.members {
        members.push(LeftMember {
            member_id: leaving.member_id.clone(),
            group_instance_id: leaving.group_instance_id.clone(),
            error: leave(cx, group, leaving).err().unwrap_or(ErrorCode::None),
        });
    }
    if members.iter().any(|left| left.error.is_none()) {
        match group.state() {
            GroupState::Stable | GroupState::CompletingRebalance => {
                rebalance_or_complete_join(cx, group);
            }
            _ => maybe_complete_join(cx, group),
        }
    }
    let reply = LeaveGroupReply { error: ErrorCode::None, members };
    cx.reply_durable(token, GroupReply::LeaveGroup(reply));
}

fn leave(
    cx: &mut Decision<'_>,
    group: &mut ClassicGroup,
    leaving: &LeavingMember,
) -> Result<(), ErrorCode> {
    let instance_id = leaving.group_instance_id.as_deref();
    let member_id = if leaving.member_id.is_empty() {
        let member_id = instance_id.and_then(|id| group.static_member_id(id));
        member_id.cloned().ok_or(ErrorCode::UnknownMemberId)?
    } else {
        if !group.pending_join().contains(&leaving.member_id) {
            group.validate_member(&leaving.member_id, instance_id)?;
        }
        leaving.member_id.clone()
    };
    cx.cancel_timer(GroupTimer::ClassicSession(group.group_id.clone(), member_id.clone()));
    remove(cx, group, &member_id);
    Ok(())
}

/// Removes a member, and answers what it waits for: it may join again if it is alive.
fn remove(cx: &mut Decision<'_>, group: &mut ClassicGroup, member_id: &MemberId) {
    if let Some(token) = group.take_awaiting_join(member_id) {
        cx.reply(token, join_error(MemberId::from(""), ErrorCode::UnknownMemberId));
    }
    if let Some(Member { awaiting_sync: Some(token), .. }) = group.remove(member_id) {
        cx.reply(token, sync_error(ErrorCode::UnknownMemberId));
    }
}

/// No sign of life for the whole session timeout.
pub(crate) fn on_session_expired(
    cx: &mut Decision<'_>,
    group: &mut ClassicGroup,
    member_id: &MemberId,
) {
    let is_pending = group.pending_join().contains(member_id);
    match group.member(member_id) {
        Some(member) if member.is_waited_for() => return,
        None if !is_pending => return,
        _ => remove(cx, group, member_id),
    }
    match group.state() {
        GroupState::Stable | GroupState::CompletingRebalance if !is_pending => {
            rebalance_or_complete_join(cx, group);
        }
        GroupState::PreparingRebalance if group.has_all_members_joined() => {
            complete_join(cx, group);
        }
        _ => {}
    }
}
