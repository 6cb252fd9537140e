//! SyncGroup: the leader brings everyone's assignment, and everyone gets theirs.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;

use bytes::Bytes;
use protocol::error_code::ErrorCode;

use super::member::schedule_session;
use super::rebalance::prepare_rebalance;
use super::state::ClassicGroup;
use crate::coordinator::group::event::{
    GroupReply, GroupState, MemberId, SyncGroup, SyncGroupReply,
};
use crate::coordinator::group::limits;
use crate::coordinator::group::record::GroupRecord;
use crate::coordinator::group::soft::{Decision, GroupTimer};
use crate::coordinator::shard::RequestToken;

/// A SyncGroup that failed.
pub(crate) fn sync_error(error: ErrorCode) -> GroupReply {
    let assignment = Bytes::new();
    GroupReply::SyncGroup(SyncGroupReply {
        error,
        protocol_type: None,
        protocol_name: None,
        assignment,
    })
}

fn assigned(group: &ClassicGroup, assignment: Bytes) -> GroupReply {
    GroupReply::SyncGroup(SyncGroupReply {
        error: ErrorCode::None,
        protocol_type: group.protocol_type.clone(),
        protocol_name: group.protocol_name.clone(),
        assignment,
    })
}

fn validate(group: &ClassicGroup, request: &SyncGroup) -> Result<(), ErrorCode> {
    if group.is_in(GroupState::Empty) {
        return Err(ErrorCode::UnknownMemberId);
    }
    group.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
    let is_other = |told: &Option<String>, own: &Option<String>| {
        told.is_some() && own.is_some() && told != own
    };
    if request.generation_id != group.generation_id {
        Err(ErrorCode::IllegalGeneration)
    } else if is_other(&request.protocol_type, &group.protocol_type)
        || is_other(&request.protocol_name, &group.protocol_name)
    {
        Err(ErrorCode::InconsistentGroupProtocol)
    } else {
        Ok(())
    }
}

/// A member wants its assignment.
pub(crate) fn on_sync(
    cx: &mut Decision<'_>,
    group: &mut ClassicGroup,
    token: RequestToken,
    request: &SyncGroup,
) {
    if let Err(error) = validate(group, request) {
        return cx.reply(token, sync_error(error));
    }
    let member_id = &request.member_id;
    match group.state() {
        GroupState::CompletingRebalance => {
            let member = group.member_mut(member_id).expect("validated above");
            if let Some(before) = member.awaiting_sync.replace(token) {
                // Of two requests of one member that wait, the later counts.
                cx.reply(before, sync_error(ErrorCode::RebalanceInProgress));
            }
            has_synced(cx, group, member_id);
            if group.is_leader(member_id) {
                assign(cx, group, &request.assignments);
            }
        }
        GroupState::Stable => {
            has_synced(cx, group, member_id);
            let assignment = group.member(member_id).map(|member| member.assignment.clone());
            let reply = assigned(group, assignment.unwrap_or_default());
            cx.reply_durable(token, reply);
        }
        _ => cx.reply(token, sync_error(ErrorCode::RebalanceInProgress)),
    }
}

fn has_synced(cx: &mut Decision<'_>, group: &mut ClassicGroup, member_id: &str) {
    group.pending_sync.remove(member_id);
    if group.pending_sync.is_empty() {
        cx.cancel_timer(GroupTimer::ClassicSync(group.group_id.clone()));
    }
}

/// Writes the generation with its assignment; whoever waits learns theirs once it is durable.
fn assign(cx: &mut Decision<'_>, group: &mut ClassicGroup, assignments: &[(MemberId, Bytes)]) {
    let by_member: BTreeMap<&MemberId, &Bytes> =
        assignments.iter().map(|(member_id, bytes)| (member_id, bytes)).collect();
    for (member_id, member) in group.members_mut() {
        let assignment = by_member.get(member_id).map(|bytes| Bytes::copy_from_slice(bytes));
        member.assignment = assignment.unwrap_or_default();
    }
    let metadata = group.to_metadata();
    if metadata.size_bytes() > limits::CLASSIC_GROUP_BYTES {
        for (_, member) in group.members_mut() {
            member.assignment = Bytes::new();
        }
        propagate_assignment(cx, group, ErrorCode::UnknownServerError);
        return prepare_rebalance(cx, group);
    }
    cx.append(vec![GroupRecord::Classic(group.group_id.clone(), Some(metadata))]);
    propagate_assignment(cx, group, ErrorCode::None);
    group.transition_to(GroupState::Stable, cx.now.wall);
}

/// Answers everyone who waits for an assignment.
pub(super) fn propagate_assignment(
    cx: &mut Decision<'_>,
    group: &mut ClassicGroup,
    error: ErrorCode,
) {
    let mut waiting = Vec::new();
    for (member_id, member) in group.members_mut() {
        if let Some(token) = member.awaiting_sync.take() {
            waiting.push((member_id.clone(), token, member.assignment.clone()));
        }
    }
    for (member_id, token, assignment) in waiting {
        match error {
            ErrorCode::None => cx.reply_durable(token, assigned(group, assignment)),
            error => cx.reply(token, sync_error(error)),
        }
        schedule_session(cx, group, &member_id);
    }
}

/// Members that have not asked for their assignment in time are out.
pub(crate) fn on_sync_timer(cx: &mut Decision<'_>, group: &mut ClassicGroup) {
    let is_synced = matches!(group.state(), GroupState::CompletingRebalance | GroupState::Stable);
    if !is_synced || group.pending_sync.is_empty() {
        return;
    }
    for member_id in std::mem::take(&mut group.pending_sync) {
        group.remove(&member_id);
        cx.cancel_timer(GroupTimer::ClassicSession(group.group_id.clone(), member_id));
    }
    prepare_rebalance(cx, group);
}
