//! Members of KIP-848 groups that leave, or are taken out.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::error_code::ErrorCode;
use protocol::types::Timestamp;

use super::heartbeat::unknown_member;
use super::subscription::{metadata_hash, refresh_regexes};
use super::{Draft, LEFT_FOR_A_WHILE, Refusal, cancel_timers, migration};
use crate::coordinator::group::event::{
    ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, GroupId, MemberId,
};
use crate::coordinator::group::hard::{GroupHard, HardConsumerGroup};
use crate::coordinator::group::record::{
    AssignmentMetadata, AssignmentState, ConsumerMetadata, GroupRecord, OwnedPartitions,
};
use crate::coordinator::group::soft::{Decision, GroupSoft};

/// The KIP-848 group of that name.
pub(super) fn find<'a>(
    hard: &'a GroupHard,
    group_id: &GroupId,
) -> Result<&'a HardConsumerGroup, Refusal> {
    let durable = hard.group(group_id);
    durable.and_then(|group| group.consumer.as_deref()).ok_or_else(|| {
        let message = match durable {
            Some(_) => format!("Group {group_id} is not a consumer group."),
            None => format!("Group {group_id} not found."),
        };
        Refusal::new(ErrorCode::GroupIdNotFound, message)
    })
}

/// A static name belongs to one member at a time.
pub(super) fn check_not_fenced(
    instance_id: &str,
    existing: &MemberId,
    member_id: &MemberId,
) -> Result<(), Refusal> {
    if existing == member_id {
        return Ok(());
    }
    let message = format!(
        "Static member {member_id} with instance id {instance_id} was fenced by member {existing}."
    );
    Err(Refusal::new(ErrorCode::FencedInstanceId, message))
}

/// A member leaves: for good, or a static one for a while.
pub(super) fn leave(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    request: &ConsumerGroupHeartbeat,
) -> Result<ConsumerGroupHeartbeatReply, Refusal> {
    let group = find(hard, &request.group_id)?;
    let member_id = &request.member_id;
    match &request.instance_id {
        None if !group.members.contains_key(member_id) => {
            return Err(unknown_member(&request.group_id, member_id));
        }
        None => {}
        Some(instance_id) => {
            let existing = group.static_member_id(instance_id).ok_or_else(|| {
                let message = format!("Instance id {instance_id} is unknown.");
                Refusal::new(ErrorCode::UnknownMemberId, message)
            })?;
            check_not_fenced(instance_id, existing, member_id)?;
        }
    }
    if request.member_epoch == LEFT_FOR_A_WHILE {
        leave_for_a_while(cx, group, &request.group_id, member_id);
    } else {
        fence(cx, group, soft, &request.group_id, std::slice::from_ref(member_id));
    }
    Ok(ConsumerGroupHeartbeatReply {
        error: ErrorCode::None,
        error_message: None,
        member_id: Some(member_id.clone()),
        member_epoch: request.member_epoch,
        heartbeat_interval_ms: 0,
        assignment: None,
    })
}

/// The member keeps its place until its session ends.
fn leave_for_a_while(
    cx: &mut Decision<'_>,
    group: &HardConsumerGroup,
    group_id: &GroupId,
    member_id: &MemberId,
) {
    let mut current = group.current(member_id);
    current.member_epoch = LEFT_FOR_A_WHILE;
    current.pending_revocation = OwnedPartitions::new();
    for epoch in current.assigned.values_mut().flat_map(|partitions| partitions.values_mut()) {
        *epoch = 0;
    }
    cx.append(vec![GroupRecord::Current(group_id.clone(), member_id.clone(), Some(current))]);
}

/// Takes members out, which begins a new epoch; or where only classic members remain, makes the
/// group a classic one.
pub(super) fn fence(
    cx: &mut Decision<'_>,
    group: &HardConsumerGroup,
    soft: &mut GroupSoft,
    group_id: &GroupId,
    member_ids: &[MemberId],
) {
    if member_ids.is_empty() {
        return;
    }
    let mut draft = Draft::new(group_id, Some(group));
    for member_id in member_ids {
        draft.remove_member(member_id);
        cancel_timers(cx, group_id, member_id);
        soft.to_rejoin.remove(&(group_id.clone(), member_id.clone()));
    }
    if migration::can_downgrade(&cx.config, group, &draft.group) {
        return migration::downgrade(cx, soft, draft, true);
    }
    refresh_regexes(&mut draft, &soft.topics, soft.topics_version, cx.now.wall);
    let epoch = draft.group.epoch() + 1;
    let metadata_hash = metadata_hash(&draft.group, &soft.topics);
    let metadata = ConsumerMetadata { epoch, metadata_hash };
    draft.apply(GroupRecord::Consumer(group_id.clone(), Some(metadata)));
    if draft.group.members.is_empty() {
        // There is nobody to assign to: whoever comes next is assigned at once.
        let target = AssignmentMetadata { epoch, timestamp: Timestamp(0) };
        draft.apply(GroupRecord::TargetMetadata(group_id.clone(), Some(target)));
    }
    cx.append(draft.records);
}

/// No report for the whole session timeout.
pub(crate) fn on_session_expired(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    group_id: &GroupId,
    member_id: &MemberId,
) {
    let Ok(group) = find(hard, group_id) else { return };
    if group.members.contains_key(member_id) {
        fence(cx, group, soft, group_id, std::slice::from_ref(member_id));
    }
}

/// The member has not given its partitions up in time.
pub(crate) fn on_rebalance_expired(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    group_id: &GroupId,
    member_id: &MemberId,
) {
    let Ok(group) = find(hard, group_id) else { return };
    let current = group.current.get(member_id);
    let still_owes = current.is_some_and(|current| {
        current.state == AssignmentState::UnrevokedPartitions
            && current.member_epoch != LEFT_FOR_A_WHILE
    });
    if still_owes {
        fence(cx, group, soft, group_id, std::slice::from_ref(member_id));
    }
}

/// Records that forget the group, but for its offsets.
pub(crate) fn tombstones(group_id: &GroupId, group: &HardConsumerGroup) -> Vec<GroupRecord> {
    let mut draft = Draft::new(group_id, Some(group));
    forget(&mut draft);
    draft.records
}

/// Forgets all of the group that is left.
pub(super) fn forget(draft: &mut Draft<'_>) {
    let group_id = draft.group_id.clone();
    let group = draft.group.clone();
    for member_id in group.current.keys() {
        draft.set_current(member_id, None);
    }
    for member_id in group.targets.keys() {
        draft.set_target(member_id, None);
    }
    if group.target_metadata.is_some() {
        draft.apply(GroupRecord::TargetMetadata(group_id.clone(), None));
    }
    for member_id in group.members.keys() {
        draft.set_member(member_id, None);
    }
    for expression in group.regexes.keys() {
        draft.apply(GroupRecord::Regex(group_id.clone(), expression.clone(), None));
    }
    if group.metadata.is_some() {
        draft.apply(GroupRecord::Consumer(group_id, None));
    }
}
