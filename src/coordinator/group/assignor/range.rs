//! The `range` assignor: of each topic, neighbouring partitions to each member, so that members
//! get the same partitions of topics that are alike (Kafka: `RangeAssignor`).
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;

use protocol::types::{PartitionId, TopicId};

use super::{GroupAssignment, GroupSpec, MemberSpec};
use crate::coordinator::group::event::MemberId;

/// What is left of a topic while its members are walked.
struct Topic {
    partition_count: i32,
    quota: i32,
    extra: i32,
    next: i32,
}

pub(super) fn assign(group: &GroupSpec) -> GroupAssignment {
    let mut members: Vec<(&MemberId, &MemberSpec)> = group.members.iter().collect();
    // Static members keep their place, whatever their ids.
    members.sort_by_key(|(member_id, member)| {
        (member.instance_id.is_none(), member.instance_id.clone(), (*member_id).clone())
    });
    let mut topics: BTreeMap<TopicId, Topic> = BTreeMap::new();
    for (&topic_id, &partition_count) in &group.partition_counts {
        let subscribers = members.iter().filter(|(_, m)| m.topics.contains(&topic_id)).count();
        let Some(subscribers) = i32::try_from(subscribers).ok().filter(|&count| count > 0) else {
            continue;
        };
        let quota = partition_count / subscribers;
        let extra = partition_count % subscribers;
        topics.insert(topic_id, Topic { partition_count, quota, extra, next: 0 });
    }
    let mut assignment = GroupAssignment::new();
    for (member_id, member) in members {
        let owned = assignment.entry(member_id.clone()).or_default();
        for topic_id in &member.topics {
            let Some(topic) = topics.get_mut(topic_id) else { continue };
            let quota = topic.quota + i32::from(topic.extra > 0);
            topic.extra = (topic.extra - 1).max(0);
            let end = (topic.next + quota).min(topic.partition_count);
            if topic.next < end {
                owned.insert(*topic_id, (topic.next..end).map(PartitionId).collect());
            }
            topic.next = end;
        }
    }
    assignment
}
