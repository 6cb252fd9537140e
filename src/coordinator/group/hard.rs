//! What the log says about the groups of one shard, and how each record changes it.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;

use protocol::types::PartitionId;

use super::event::{GroupId, MemberId};
use super::record::{
    AssignmentMetadata, BeforeRewind, ClassicMetadata, CommittedOffset, ConsumerMember,
    ConsumerMetadata, CurrentAssignment, GroupRecord, Partitions, ResolvedRegex,
};

/// The durable state of a shard.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct GroupHard {
    groups: BTreeMap<GroupId, HardGroup>,
}

/// Something for each topic and partition; no topic without one.
pub type ByPlace<V> = BTreeMap<String, BTreeMap<PartitionId, V>>;
/// Remembered offsets.
pub type OffsetsByTopic = ByPlace<CommittedOffset>;

/// A group. One with neither metadata only holds the offsets of a simple consumer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HardGroup {
    /// As of its last classic generation.
    pub classic: Option<ClassicMetadata>,
    /// As a KIP-848 group.
    pub consumer: Option<Box<HardConsumerGroup>>,
    /// What is remembered for it.
    pub offsets: OffsetsByTopic,
    /// What was remembered before the last rewind, of the partitions that were rewound.
    pub before_rewind: ByPlace<BeforeRewind>,
}

/// A KIP-848 group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HardConsumerGroup {
    /// Its epoch.
    pub metadata: Option<ConsumerMetadata>,
    /// That of its target assignment.
    pub target_metadata: Option<AssignmentMetadata>,
    /// Its members.
    pub members: BTreeMap<MemberId, ConsumerMember>,
    /// What they shall own.
    pub targets: BTreeMap<MemberId, Partitions>,
    /// What they own.
    pub current: BTreeMap<MemberId, CurrentAssignment>,
    /// The topics that their regular expressions stand for.
    pub regexes: BTreeMap<String, ResolvedRegex>,
}

impl HardGroup {
    fn is_nothing(&self) -> bool {
        let has_offsets = !self.offsets.is_empty() || !self.before_rewind.is_empty();
        self.classic.is_none() && self.consumer.is_none() && !has_offsets
    }

    /// How many partitions an offset is remembered for.
    #[must_use]
    pub fn offset_count(&self) -> usize {
        self.offsets.values().map(BTreeMap::len).sum()
    }

    /// The offset remembered for a partition.
    #[must_use]
    pub fn offset(&self, topic: &str, partition: PartitionId) -> Option<&CommittedOffset> {
        self.offsets.get(topic)?.get(&partition)
    }

    /// Where the group stood on a partition before it was rewound.
    #[must_use]
    pub fn before_rewind(&self, topic: &str, partition: PartitionId) -> Option<&BeforeRewind> {
        self.before_rewind.get(topic)?.get(&partition)
    }
}

impl HardConsumerGroup {
    fn is_nothing(&self) -> bool {
        *self == HardConsumerGroup::default()
    }
}

impl GroupHard {
    /// The group of that name.
    #[must_use]
    pub fn group(&self, group_id: &str) -> Option<&HardGroup> {
        self.groups.get(group_id)
    }

    /// All groups, by name.
    pub fn groups(&self) -> impl Iterator<Item = (&GroupId, &HardGroup)> {
        self.groups.iter()
    }

    /// Takes a record in.
    pub(super) fn replay(&mut self, record: &GroupRecord) {
        let group_id = match record {
            GroupRecord::Offset { group_id, .. }
            | GroupRecord::BeforeRewind { group_id, .. }
            | GroupRecord::Classic(group_id, _)
            | GroupRecord::Consumer(group_id, _)
            | GroupRecord::ConsumerMember(group_id, ..)
            | GroupRecord::TargetMetadata(group_id, _)
            | GroupRecord::Target(group_id, ..)
            | GroupRecord::Current(group_id, ..)
            | GroupRecord::Regex(group_id, ..) => group_id,
        };
        if !self.groups.contains_key(group_id) {
            self.groups.insert(group_id.clone(), HardGroup::default());
        }
        let group = self.groups.get_mut(group_id).expect("inserted above");
        match record {
            GroupRecord::Offset { topic, partition, value, .. } => {
                set_place(&mut group.offsets, topic, *partition, value.as_ref());
            }
            GroupRecord::BeforeRewind { topic, partition, value, .. } => {
                set_place(&mut group.before_rewind, topic, *partition, value.as_ref());
            }
            GroupRecord::Classic(_, metadata) => group.classic = metadata.clone(),
            _ => {
                let mut consumer = group.consumer.take().unwrap_or_default();
                consumer.replay(record);
                group.consumer = Some(consumer).filter(|consumer| !consumer.is_nothing());
            }
        }
        if group.is_nothing() {
            self.groups.remove(group_id);
        }
    }

    /// The fewest records that yield this state.
    pub(super) fn snapshot(&self) -> Vec<GroupRecord> {
        let mut records = Vec::new();
        for (group_id, group) in &self.groups {
            if let Some(classic) = &group.classic {
                records.push(GroupRecord::Classic(group_id.clone(), Some(classic.clone())));
            }
            if let Some(consumer) = &group.consumer {
                consumer.snapshot(group_id, &mut records);
            }
            let place = |topic: &String| (group_id.clone(), topic.clone());
            records.extend(places(&group.offsets).map(|(topic, partition, value)| {
                let ((group_id, topic), value) = (place(topic), Some(value.clone()));
                GroupRecord::Offset { group_id, topic, partition, value }
            }));
            records.extend(places(&group.before_rewind).map(|(topic, partition, value)| {
                let ((group_id, topic), value) = (place(topic), Some(value.clone()));
                GroupRecord::BeforeRewind { group_id, topic, partition, value }
            }));
        }
        records
    }
}

/// Each partition with what there is for it.
pub(super) fn places<V>(all: &ByPlace<V>) -> impl Iterator<Item = (&String, PartitionId, &V)> {
    all.iter().flat_map(|(topic, of)| of.iter().map(move |(&p, value)| (topic, p, value)))
}

/// Sets what there is for a partition, or removes it.
fn set_place<V: Clone>(
    all: &mut ByPlace<V>,
    topic: &str,
    partition: PartitionId,
    value: Option<&V>,
) {
    match (value, all.get_mut(topic)) {
        (Some(value), Some(partitions)) => {
            partitions.insert(partition, value.clone());
        }
        (Some(value), None) => {
            all.insert(topic.to_owned(), BTreeMap::from([(partition, value.clone())]));
        }
        (None, Some(partitions)) => {
            partitions.remove(&partition);
            if partitions.is_empty() {
                all.remove(topic);
            }
        }
        (None, None) => {}
    }
}

/// Sets what a key stands for, or removes it.
fn set<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: Option<&V>) {
    match value {
        Some(value) => map.insert(key.clone(), value.clone()),
        None => map.remove(key),
    };
}

impl HardConsumerGroup {
    /// Takes a record of the group in.
    pub(super) fn replay(&mut self, record: &GroupRecord) {
        match record {
            GroupRecord::Consumer(_, metadata) => self.metadata = metadata.clone(),
            GroupRecord::TargetMetadata(_, metadata) => self.target_metadata = metadata.clone(),
            GroupRecord::ConsumerMember(_, member_id, member) => {
                set(&mut self.members, member_id, member.as_ref());
            }
            GroupRecord::Target(_, member_id, target) => {
                set(&mut self.targets, member_id, target.as_ref());
            }
            GroupRecord::Current(_, member_id, current) => {
                set(&mut self.current, member_id, current.as_ref());
            }
            GroupRecord::Regex(_, regex, resolved) => {
                set(&mut self.regexes, regex, resolved.as_ref());
            }
            GroupRecord::Offset { .. }
            | GroupRecord::BeforeRewind { .. }
            | GroupRecord::Classic(..) => {}
        }
    }

    fn snapshot(&self, group_id: &GroupId, records: &mut Vec<GroupRecord>) {
        let id = || group_id.clone();
        records.extend(self.members.iter().map(|(member_id, member)| {
            GroupRecord::ConsumerMember(id(), member_id.clone(), Some(member.clone()))
        }));
        records.extend(self.regexes.iter().map(|(regex, resolved)| {
            GroupRecord::Regex(id(), regex.clone(), Some(resolved.clone()))
        }));
        records.extend(self.metadata.iter().map(|m| GroupRecord::Consumer(id(), Some(m.clone()))));
        records.extend(self.targets.iter().map(|(member_id, target)| {
            GroupRecord::Target(id(), member_id.clone(), Some(target.clone()))
        }));
        let target_metadata = self.target_metadata.iter();
        records.extend(target_metadata.map(|m| GroupRecord::TargetMetadata(id(), Some(m.clone()))));
        records.extend(self.current.iter().map(|(member_id, current)| {
            GroupRecord::Current(id(), member_id.clone(), Some(current.clone()))
        }));
    }
}
