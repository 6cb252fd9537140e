//! ConsumerGroupDescribe.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::error_code::ErrorCode;
use protocol::types::{PartitionId, TopicId};

use super::leave::find;
use super::target::assignor;
use crate::coordinator::group::event::{
    DescribedConsumerGroup, DescribedConsumerMember, GroupId, GroupReply, GroupState, MemberId,
    NamedPartitions, TopicsSnapshot,
};
use crate::coordinator::group::hard::{GroupHard, HardConsumerGroup};
use crate::coordinator::group::record::ConsumerMember;
use crate::coordinator::group::soft::{Decision, GroupSoft};
use crate::coordinator::shard::RequestToken;

/// Describes one group.
pub(crate) fn on_describe(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &GroupSoft,
    token: RequestToken,
    group_id: &GroupId,
) {
    let described = match find(hard, group_id) {
        Ok(group) => DescribedConsumerGroup {
            error: ErrorCode::None,
            error_message: None,
            group_id: group_id.clone(),
            state: group.state(),
            group_epoch: group.epoch(),
            assignment_epoch: group.target_epoch(),
            assignor_name: assignor(&cx.config, group).name().to_owned(),
            members: group
                .members
                .iter()
                .map(|(member_id, member)| describe(group, member_id, member, &soft.topics))
                .collect(),
        },
        Err(refusal) => DescribedConsumerGroup {
            error: refusal.error,
            error_message: Some(refusal.message),
            group_id: group_id.clone(),
            state: GroupState::Dead,
            group_epoch: 0,
            assignment_epoch: 0,
            assignor_name: String::new(),
            members: Vec::new(),
        },
    };
    cx.reply_durable(token, GroupReply::ConsumerGroupDescribe(described));
}

fn describe(
    group: &HardConsumerGroup,
    member_id: &MemberId,
    member: &ConsumerMember,
    topics: &TopicsSnapshot,
) -> DescribedConsumerMember {
    let current = group.current(member_id);
    let assigned = current.assigned.iter();
    let target = group.targets.get(member_id);
    let target = target.into_iter().flatten();
    DescribedConsumerMember {
        member_id: member_id.clone(),
        instance_id: member.instance_id.clone(),
        rack_id: member.rack_id.clone(),
        member_epoch: current.member_epoch,
        client: member.client.clone(),
        subscribed_topic_names: member.subscribed_topic_names.clone(),
        subscribed_topic_regex: member.subscribed_topic_regex.clone().unwrap_or_default(),
        assignment: assigned
            .filter_map(|(&id, partitions)| named(topics, id, partitions.keys().copied()))
            .collect(),
        target_assignment: target
            .filter_map(|(&id, partitions)| named(topics, id, partitions.iter().copied()))
            .collect(),
        is_classic: member.classic.is_some(),
    }
}

/// Topics that are deleted have no name any more, and are left out as in Kafka.
fn named(
    topics: &TopicsSnapshot,
    topic_id: TopicId,
    partitions: impl Iterator<Item = PartitionId>,
) -> Option<NamedPartitions> {
    let (name, _) = topics.by_id(topic_id)?;
    Some(NamedPartitions { topic_id, topic: name.to_string(), partitions: partitions.collect() })
}
