//! The target assignment: what everyone is to own in an epoch of the group.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::types::Timestamp;

use super::Draft;
use super::group::preferred_assignor;
use super::subscription::wanted_topics;
use crate::coordinator::group::assignor::{Assignor, GroupSpec, MemberSpec};
use crate::coordinator::group::event::{GroupConfig, TopicsSnapshot};
use crate::coordinator::group::hard::HardConsumerGroup;
use crate::coordinator::group::record::{AssignmentMetadata, GroupRecord};

/// The assignor that most members prefer, else the broker's first.
pub(super) fn assignor(config: &GroupConfig, group: &HardConsumerGroup) -> Assignor {
    let preferred = preferred_assignor(&group.members).and_then(Assignor::named);
    let offered = config.consumer_assignors.iter();
    let mut offered = offered.filter_map(|name| Assignor::named(name));
    preferred.or_else(|| offered.next()).unwrap_or(Assignor::Uniform)
}

/// Whether the last assignment is long enough ago for another.
fn may_assign(config: &GroupConfig, draft: &Draft<'_>, now: Timestamp) -> bool {
    let last = draft.group.target_metadata.as_ref().map_or(0, |metadata| metadata.timestamp.0);
    let interval_ms = i64::from(config.assignment_interval_ms_of(&draft.group_id));
    // A clock that went back must not keep a group from being assigned.
    last == 0 || now.0 >= last.saturating_add(interval_ms) || now.0 < last
}

/// Assigns anew where the group has changed since, and tells whose target is another now.
pub(super) fn update_target(
    draft: &mut Draft<'_>,
    config: &GroupConfig,
    topics: &TopicsSnapshot,
    now: Timestamp,
) {
    let group = &draft.group;
    if group.epoch() <= group.target_epoch() || !may_assign(config, draft, now) {
        return;
    }
    let spec = group_spec(group, topics);
    let epoch = group.epoch();
    for (member_id, target) in assignor(config, group).assign(&spec) {
        if draft.group.targets.get(&member_id) != Some(&target) {
            draft.set_target(&member_id, Some(target));
        }
    }
    let metadata = AssignmentMetadata { epoch, timestamp: now };
    draft.apply(GroupRecord::TargetMetadata(draft.group_id.clone(), Some(metadata)));
}

fn group_spec(group: &HardConsumerGroup, topics: &TopicsSnapshot) -> GroupSpec {
    let mut spec = GroupSpec::default();
    for (member_id, member) in &group.members {
        let wanted = wanted_topics(group, member, topics);
        for &topic_id in &wanted {
            if let Some((_, topic)) = topics.by_id(topic_id) {
                spec.partition_counts.insert(topic_id, topic.partition_count);
            }
        }
        let member = MemberSpec {
            instance_id: member.instance_id.clone(),
            topics: wanted,
            target: group.targets.get(member_id).cloned().unwrap_or_default(),
        };
        spec.members.insert(member_id.clone(), member);
    }
    spec
}
