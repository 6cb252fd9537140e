//! A KIP-848 group, looked at and changed: what is decided is applied to a copy of what the log
//! says, so that each step of a decision sees the steps before.
//!
//! Pure: no I/O, no clock, no randomness.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use protocol::types::{PartitionId, TopicId};

use super::LEFT_FOR_A_WHILE;
use crate::coordinator::group::event::{GroupId, GroupState, MemberId};
use crate::coordinator::group::hard::HardConsumerGroup;
use crate::coordinator::group::record::{
    AssignmentState, ConsumerMember, CurrentAssignment, GroupRecord, OwnedPartitions, Partitions,
};

/// A decision on a group: its state so far, and the records that led there.
pub(crate) struct Draft<'a> {
    pub group_id: GroupId,
    pub group: Cow<'a, HardConsumerGroup>,
    pub records: Vec<GroupRecord>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(group_id: &GroupId, group: Option<&'a HardConsumerGroup>) -> Draft<'a> {
        let group = group.map_or_else(|| Cow::Owned(HardConsumerGroup::default()), Cow::Borrowed);
        Draft { group_id: group_id.clone(), group, records: Vec::new() }
    }

    pub(crate) fn apply(&mut self, record: GroupRecord) {
        self.group.to_mut().replay(&record);
        self.records.push(record);
    }

    pub(crate) fn set_member(&mut self, member_id: &MemberId, member: Option<ConsumerMember>) {
        let record = GroupRecord::ConsumerMember(self.group_id.clone(), member_id.clone(), member);
        self.apply(record);
    }

    pub(crate) fn set_target(&mut self, member_id: &MemberId, target: Option<Partitions>) {
        self.apply(GroupRecord::Target(self.group_id.clone(), member_id.clone(), target));
    }

    pub(crate) fn set_current(&mut self, member_id: &MemberId, current: Option<CurrentAssignment>) {
        self.apply(GroupRecord::Current(self.group_id.clone(), member_id.clone(), current));
    }

    /// All that the log says of a member goes.
    pub(crate) fn remove_member(&mut self, member_id: &MemberId) {
        self.set_current(member_id, None);
        self.set_target(member_id, None);
        self.set_member(member_id, None);
    }
}

/// The epoch of a group that has not been written down (Kafka: `ModernGroup`): a member that is
/// told 0 would take it for the epoch with which it joins.
const FIRST_EPOCH: i32 = 1;

impl HardConsumerGroup {
    pub(crate) fn epoch(&self) -> i32 {
        self.metadata.as_ref().map_or(FIRST_EPOCH, |metadata| metadata.epoch)
    }

    pub(crate) fn target_epoch(&self) -> i32 {
        self.target_metadata.as_ref().map_or(0, |metadata| metadata.epoch)
    }

    /// What the member owns; nothing, at epoch 0, where it has not been told anything.
    pub(crate) fn current(&self, member_id: &str) -> CurrentAssignment {
        self.current.get(member_id).cloned().unwrap_or_default()
    }

    pub(crate) fn member_epoch(&self, member_id: &str) -> i32 {
        self.current.get(member_id).map_or(0, |current| current.member_epoch)
    }

    pub(crate) fn static_member_id(&self, instance_id: &str) -> Option<&MemberId> {
        let named = |member: &ConsumerMember| member.instance_id.as_deref() == Some(instance_id);
        self.members.iter().find(|(_, member)| named(member)).map(|(member_id, _)| member_id)
    }

    /// Whether the member has got all of the target assignment.
    pub(crate) fn is_reconciled(&self, member_id: &str) -> bool {
        let target_epoch = self.target_epoch();
        match self.current.get(member_id) {
            Some(current) => {
                current.state == AssignmentState::Stable && current.member_epoch == target_epoch
            }
            None => target_epoch == 0,
        }
    }

    pub(crate) fn state(&self) -> GroupState {
        if self.members.is_empty() {
            GroupState::Empty
        } else if self.epoch() > self.target_epoch() {
            GroupState::Assigning
        } else if self.members.keys().any(|member_id| !self.is_reconciled(member_id)) {
            GroupState::Reconciling
        } else {
            GroupState::Stable
        }
    }

    /// What the member wants by name and by pattern.
    pub(crate) fn subscription<'a>(&'a self, member: &'a ConsumerMember) -> BTreeSet<&'a str> {
        let names = member_names(member);
        let regex = member.subscribed_topic_regex.as_ref();
        let resolved = regex.and_then(|regex| self.regexes.get(regex));
        let topics = resolved.into_iter().flat_map(|resolved| &resolved.topics);
        topics.map(String::as_str).chain(names).collect()
    }

    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        let by_name = self.members.values().any(|member| member_names(member).any(|t| t == topic));
        by_name || self.regexes.values().any(|resolved| resolved.topics.contains(topic))
    }

    /// Whether another member owns the partition, or still has to give it up.
    pub(crate) fn owned_by_others(&self, member_id: &str) -> BTreeSet<(TopicId, PartitionId)> {
        let others = self.current.iter().filter(|(other, _)| ***other != *member_id);
        let owned =
            others.flat_map(|(_, current)| [&current.assigned, &current.pending_revocation]);
        owned.flat_map(places).collect()
    }

    /// Whether the member has left to come back soon.
    pub(crate) fn has_left_for_a_while(&self, member_id: &str) -> bool {
        self.member_epoch(member_id) == LEFT_FOR_A_WHILE
    }
}

fn member_names(member: &ConsumerMember) -> impl Iterator<Item = &str> {
    member.subscribed_topic_names.iter().map(String::as_str)
}

fn places(owned: &OwnedPartitions) -> impl Iterator<Item = (TopicId, PartitionId)> + '_ {
    owned.iter().flat_map(|(&id, partitions)| partitions.keys().map(move |&p| (id, p)))
}

/// The preferred assignors of members, counted.
pub(crate) fn preferred_assignor(members: &BTreeMap<MemberId, ConsumerMember>) -> Option<&str> {
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for name in members.values().filter_map(|member| member.server_assignor.as_deref()) {
        *votes.entry(name).or_default() += 1;
    }
    let most = votes.values().copied().max()?;
    votes.into_iter().find(|(_, count)| *count == most).map(|(name, _)| name)
}
