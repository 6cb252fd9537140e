//! Rewinding a group that is at work: its offsets become others, and its members are made to begin
//! there. What they had read in the meantime is not taken any more.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeSet;

use bytes::Bytes;
use protocol::types::{LeaderEpoch, Offset, Timestamp};

use super::classic::{ClassicGroup, prepare_rebalance};
use super::consumer::Draft;
use super::event::{
    GroupId, GroupReply, GroupState, GroupType, Rewind, RewindOutcome, RewindPlace, RewindRefusal,
    RewindReply, RewindTarget, RewindTo, Rewound,
};
use super::hard::{GroupHard, HardConsumerGroup, HardGroup, places};
use super::offsets::{append_in_parts, forget};
use super::record::{
    AssignmentMetadata, BeforeRewind, CommittedOffset, ConsumerMetadata, GroupRecord,
};
use super::soft::{Decision, GroupSoft};
use crate::coordinator::shard::RequestToken;

/// Says what would become of the group, and does it unless that is all that was asked.
pub(super) fn on_rewind(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: &Rewind,
) {
    let group_id = &request.group_id;
    let group = hard.group(group_id);
    let rows = match &request.to {
        RewindTo::Places(places) => places.iter().map(|place| rewound(group, place)).collect(),
        RewindTo::Before => group.map(undone).unwrap_or_default(),
    };
    let known = generation_or_epoch(hard, soft, group_id);
    let refusal = match (known, &request.to) {
        (None, _) => Some(RewindRefusal::UnknownGroup),
        (_, RewindTo::Before) if rows.is_empty() => Some(RewindRefusal::NothingToUndo),
        _ => None,
    };
    let (group_type, mut epoch) = known.unwrap_or((GroupType::Classic, 0));
    let is_changed = rows.iter().any(|row| row.outcome != RewindOutcome::NothingToShift);
    if refusal.is_none() && is_changed && !request.is_dry_run {
        epoch = expel_positions(cx, hard, soft, group_id).unwrap_or(epoch);
        match request.to {
            RewindTo::Places(_) => append_rewind(cx, group_id, group, &rows),
            RewindTo::Before => append_undo(cx, group_id, group),
        }
    }
    let reply = RewindReply { refusal, group_type, epoch, rows };
    cx.reply_durable(token, GroupReply::Rewind(reply));
}

fn generation_or_epoch(
    hard: &GroupHard,
    soft: &GroupSoft,
    group_id: &GroupId,
) -> Option<(GroupType, i32)> {
    match hard.group(group_id).and_then(|group| group.consumer.as_deref()) {
        Some(group) => Some((GroupType::Consumer, group.epoch())),
        None => soft.look(hard, group_id, |group| (GroupType::Classic, group.generation_id)),
    }
}

/// Where the partition goes.
fn rewound(group: Option<&HardGroup>, place: &RewindPlace) -> Rewound {
    let RewindPlace { topic, partition, target, log_start_offset, end_offset, .. } = place;
    let before = group.and_then(|group| group.offset(topic, *partition)).map(|c| c.offset);
    let target = match (*target, before) {
        (RewindTarget::Offset(offset), _) => Some(offset),
        (RewindTarget::Shift(by), Some(before)) => Some(Offset(before.0.saturating_add(by))),
        (RewindTarget::Shift(_), None) => None,
    };
    let after = target.map(|target| target.min(*end_offset).max(*log_start_offset));
    let outcome = match target {
        None => RewindOutcome::NothingToShift,
        Some(_) if after == target => RewindOutcome::Taken,
        Some(_) => RewindOutcome::Clamped,
    };
    Rewound { topic: topic.clone(), partition: *partition, before, after, outcome }
}

/// Where the partitions go that were rewound.
fn undone(group: &HardGroup) -> Vec<Rewound> {
    let rows = places(&group.before_rewind).map(|(topic, partition, was)| Rewound {
        topic: topic.clone(),
        partition,
        before: group.offset(topic, partition).map(|committed| committed.offset),
        after: was.offset,
        outcome: match was.offset {
            Some(_) => RewindOutcome::Taken,
            None => RewindOutcome::Forgotten,
        },
    });
    rows.collect()
}

fn append_rewind(
    cx: &mut Decision<'_>,
    group_id: &GroupId,
    group: Option<&HardGroup>,
    rows: &[Rewound],
) {
    let moved = rows.iter().filter(|row| row.after.is_some());
    let moved: BTreeSet<_> = moved.map(|row| (row.topic.as_str(), row.partition)).collect();
    // What an earlier rewind has changed and this one does not is not undone any more.
    let earlier = group.into_iter().flat_map(|group| places(&group.before_rewind));
    let stale =
        earlier.filter(|(topic, partition, _)| !moved.contains(&(topic.as_str(), *partition)));
    let dropped = stale.map(|(topic, partition, _)| {
        let (group_id, topic) = (group_id.clone(), topic.clone());
        GroupRecord::BeforeRewind { group_id, topic, partition, value: None }
    });
    append_in_parts(cx, dropped.collect());
    let now = cx.now.wall;
    let records = rows.iter().filter_map(|row| {
        let after = committed(row.after?, LeaderEpoch::UNKNOWN, "", now);
        let was = group.and_then(|group| group.offset(&row.topic, row.partition));
        let before = BeforeRewind {
            offset: was.map(|was| was.offset),
            leader_epoch: was.map_or(LeaderEpoch::UNKNOWN, |was| was.leader_epoch),
            metadata: was.map(|was| was.metadata.clone()).unwrap_or_default(),
            rewind_timestamp: now,
        };
        let (group_id, topic, partition) = (group_id.clone(), row.topic.clone(), row.partition);
        Some([
            GroupRecord::BeforeRewind {
                group_id: group_id.clone(),
                topic: topic.clone(),
                partition,
                value: Some(before),
            },
            GroupRecord::Offset { group_id, topic, partition, value: Some(after) },
        ])
    });
    // Two records a partition: no part of an even number separates them.
    append_in_parts(cx, records.flatten().collect());
}

fn append_undo(cx: &mut Decision<'_>, group_id: &GroupId, group: Option<&HardGroup>) {
    let Some(group) = group else { return };
    let now = cx.now.wall;
    let records = places(&group.before_rewind).flat_map(|(topic, partition, was)| {
        let mut records = forget(group_id, group, topic, partition);
        if let (Some(offset), Some(GroupRecord::Offset { value, .. })) =
            (was.offset, records.first_mut())
        {
            *value = Some(committed(offset, was.leader_epoch, &was.metadata, now));
        }
        records
    });
    append_in_parts(cx, records.collect());
}

fn committed(
    offset: Offset,
    leader_epoch: LeaderEpoch,
    metadata: &str,
    commit_timestamp: Timestamp,
) -> CommittedOffset {
    let metadata = metadata.to_owned();
    CommittedOffset { offset, leader_epoch, metadata, commit_timestamp, expire_timestamp: None }
}

/// Begins a generation or an epoch in which no member of the one before may commit, and says which.
/// The offsets follow in the same decision; of a group without members they are all there is to do.
fn expel_positions(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    group_id: &GroupId,
) -> Option<i32> {
    match hard.group(group_id).and_then(|group| group.consumer.as_deref()) {
        Some(group) if group.members.is_empty() => Some(group.epoch()),
        Some(group) => Some(new_epoch(cx, group, group_id)),
        None => {
            let mut group = soft.take(hard, group_id)?;
            if !group.is_in(GroupState::Empty) {
                new_generation(cx, &mut group);
            }
            let generation_id = group.generation_id;
            soft.put_back(group);
            Some(generation_id)
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
fn new_epoch(cx: &mut Decision<'_>, group: &HardConsumerGroup, group_id: &GroupId) -> i32 {
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
    epoch
}
