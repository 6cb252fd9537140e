//! The `uniform` assignor: everyone gets as many partitions as the others, as far as their
//! subscriptions allow, and keeps what it has (Kafka: `UniformAssignor`).
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};

use protocol::types::{PartitionId, TopicId};

use super::{GroupAssignment, GroupSpec};
use crate::coordinator::group::event::MemberId;
use crate::coordinator::group::record::Partitions;

/// Rounds of moving partitions from one who has many to one who has few; far more than are needed,
/// since each move makes the loads more even.
const BALANCING_ROUNDS: usize = 64;

type TopicPartition = (TopicId, PartitionId);

pub(super) fn assign(group: &GroupSpec) -> GroupAssignment {
    let mut subscriptions = group.members.values().map(|member| &member.topics);
    let first = subscriptions.next();
    let mut state = Assigning::keep(group);
    if subscriptions.all(|topics| Some(topics) == first) {
        state.cut_to_quota();
        state.hand_out();
    } else {
        state.hand_out();
        state.balance();
    }
    state.owned.into_iter().map(|(member_id, owned)| (member_id, by_topic(owned))).collect()
}

fn by_topic(owned: BTreeSet<TopicPartition>) -> Partitions {
    let mut partitions = Partitions::new();
    for (topic_id, partition) in owned {
        partitions.entry(topic_id).or_default().insert(partition);
    }
    partitions
}

struct Assigning<'a> {
    group: &'a GroupSpec,
    owned: BTreeMap<MemberId, BTreeSet<TopicPartition>>,
    free: BTreeSet<TopicPartition>,
    /// Who wants each topic.
    subscribers: BTreeMap<TopicId, Vec<&'a MemberId>>,
}

impl<'a> Assigning<'a> {
    /// Everyone keeps what it has of what exists and of what it wants; the rest is free.
    fn keep(group: &'a GroupSpec) -> Self {
        let counts = group.partition_counts.iter();
        let mut free: BTreeSet<TopicPartition> = counts
            .flat_map(|(&id, &count)| (0..count).map(move |number| (id, PartitionId(number))))
            .collect();
        let mut subscribers: BTreeMap<TopicId, Vec<&MemberId>> = BTreeMap::new();
        let mut owned = BTreeMap::new();
        for (member_id, member) in &group.members {
            for &topic_id in &member.topics {
                subscribers.entry(topic_id).or_default().push(member_id);
            }
            let wanted = member.target.iter().filter(|(id, _)| member.topics.contains(id));
            let had = wanted.flat_map(|(&id, partitions)| partitions.iter().map(move |&p| (id, p)));
            let kept: BTreeSet<TopicPartition> = had.filter(|place| free.remove(place)).collect();
            owned.insert(member_id.clone(), kept);
        }
        free.retain(|(topic_id, _)| subscribers.contains_key(topic_id));
        Assigning { group, owned, free, subscribers }
    }

    /// Where all want the same: nobody keeps more than its share.
    fn cut_to_quota(&mut self) {
        let count = self.group.members.len().max(1);
        let owned: usize = self.owned.values().map(BTreeSet::len).sum();
        let total = owned + self.free.len();
        let (quota, mut extra) = (total / count, total % count);
        let mut members: Vec<MemberId> = self.owned.keys().cloned().collect();
        // One more than the others goes to those who have it already.
        members.sort_by_key(|member_id| std::cmp::Reverse(self.owned[member_id].len()));
        for member_id in members {
            let share = quota + usize::from(extra > 0);
            extra = extra.saturating_sub(1);
            let owned = self.owned.get_mut(&member_id).expect("a member");
            while owned.len() > share {
                self.free.extend(owned.pop_last());
            }
        }
    }

    /// Free partitions go to whoever has least; first those that few want.
    fn hand_out(&mut self) {
        let mut free: Vec<TopicPartition> = std::mem::take(&mut self.free).into_iter().collect();
        free.sort_by_key(|(topic_id, _)| self.subscribers[topic_id].len());
        let mut loads: BTreeSet<(usize, MemberId)> = BTreeSet::new();
        loads.extend(self.owned.iter().map(|(id, owned)| (owned.len(), id.clone())));
        for place in free {
            let wants = |id: &MemberId| self.group.members[id].topics.contains(&place.0);
            let Some(least) = loads.iter().find(|(_, id)| wants(id)).cloned() else { continue };
            loads.remove(&least);
            let (load, member_id) = least;
            self.owned.get_mut(&member_id).expect("a member").insert(place);
            loads.insert((load + 1, member_id));
        }
    }

    /// Where subscriptions differ: as long as one has two more than another who wants one of them,
    /// it gives one away.
    fn balance(&mut self) {
        for _ in 0..BALANCING_ROUNDS {
            let mut has_moved = false;
            let members: Vec<MemberId> = self.owned.keys().cloned().collect();
            for member_id in members {
                let places: Vec<TopicPartition> = self.owned[&member_id].iter().copied().collect();
                for place in places {
                    has_moved |= self.give_away(&member_id, place);
                }
            }
            if !has_moved {
                return;
            }
        }
    }

    fn give_away(&mut self, owner: &MemberId, place: TopicPartition) -> bool {
        let others = self.subscribers[&place.0].iter();
        let Some(least) = others.min_by_key(|id| self.owned[**id].len()).map(|id| (*id).clone())
        else {
            return false;
        };
        if self.owned[&least].len() + 2 > self.owned[owner].len() {
            return false;
        }
        self.owned.get_mut(owner).expect("a member").remove(&place);
        self.owned.get_mut(&least).expect("a member").insert(place);
        true
    }
}
