//! Rewinding a group that is at work: its offsets become others, and its members are made to begin
//! there. What they had read in the meantime is not taken any more.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::Bytes;
use protocol::types::Timestamp;

use super::classic::{ClassicGroup, prepare_rebalance};
use super::consumer::Draft;
use super::event::{GroupState, OffsetCommit};
use super::hard::{GroupHard, HardConsumerGroup};
use super::record::{AssignmentMetadata, ConsumerMetadata, GroupRecord};
use super::soft::{Decision, GroupSoft};

/// Begins a generation or an epoch in which no member of the one before may commit. The offsets
/// follow in the same decision; of a group without members they are all there is to do.
pub(super) fn expel_positions(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    request: &OffsetCommit,
) {
    let group_id = &request.group_id;
    match hard.group(group_id).and_then(|group| group.consumer.as_deref()) {
        Some(group) if group.members.is_empty() => {}
        Some(group) => new_epoch(cx, group, request),
        None => {
            let Some(mut group) = soft.take(hard, group_id) else { return };
            if !group.is_in(GroupState::Empty) {
                new_generation(cx, &mut group);
            }
            soft.put_back(group);
        }
    }
}

/// Members of the generation before are told that it is not theirs any more, by their heartbeats
/// and commits, and join again. It is in the log, so that no other coordinator takes them back.
fn new_generation(cx: &mut Decision<'_>, group: &mut ClassicGroup) {
    if group.protocol_name.is_some() {
        group.generation_id += 1;
        for (_, member) in group.members_mut() {
            member.assignment = Bytes::new();
        }
        let metadata = group.to_metadata();
        cx.append(vec![GroupRecord::Classic(group.group_id.clone(), Some(metadata))]);
    }
    if group.can_rebalance() {
        prepare_rebalance(cx, group);
    }
}

/// Members of the epoch before are fenced, give up all that they own, and join again: they get it
/// back, and ask where to begin.
fn new_epoch(cx: &mut Decision<'_>, group: &HardConsumerGroup, request: &OffsetCommit) {
    let group_id = &request.group_id;
    let is_due = group.epoch() > group.target_epoch();
    let epoch = group.epoch().max(group.target_epoch()) + 1;
    let mut draft = Draft::new(group_id, Some(group));
    let metadata_hash = group.metadata.as_ref().map_or(0, |metadata| metadata.metadata_hash);
    // An assignment that is due stays due: the group is ahead of its target as before.
    let metadata = ConsumerMetadata { epoch: epoch + i32::from(is_due), metadata_hash };
    draft.apply(GroupRecord::Consumer(group_id.clone(), Some(metadata)));
    let timestamp = group.target_metadata.as_ref().map_or(Timestamp(0), |m| m.timestamp);
    let target = AssignmentMetadata { epoch, timestamp };
    draft.apply(GroupRecord::TargetMetadata(group_id.clone(), Some(target)));
    let present = group.current.iter().filter(|(id, _)| !group.has_left_for_a_while(id));
    for (member_id, current) in present {
        let mut current = current.clone();
        (current.member_epoch, current.previous_member_epoch) = (epoch, epoch);
        let owned = current.assigned.values_mut().chain(current.pending_revocation.values_mut());
        owned.flat_map(|partitions| partitions.values_mut()).for_each(|since| *since = epoch);
        draft.set_current(member_id, Some(current));
    }
    cx.append(draft.records);
}
