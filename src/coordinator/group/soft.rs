//! What of the groups is not in the log: sessions, rebalances under way, parked requests. And how
//! a decision hands out what it decided.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::GroupShard;
use super::classic::ClassicGroup;
use super::event::{GroupConfig, GroupId, GroupReply, MemberId, TopicsSnapshot};
use super::hard::GroupHard;
use super::record::GroupRecord;
use crate::coordinator::shard::{Effect, Now, RequestToken, Steady, When};

/// What is lost when the leader changes.
#[derive(Debug, Default)]
pub struct GroupSoft {
    pub(super) config: Arc<GroupConfig>,
    pub(super) topics: Arc<TopicsSnapshot>,
    /// Counts the changes of `topics`.
    pub(super) topics_version: u64,
    /// Up to which of these changes a KIP-848 group has taken the topics in.
    pub(super) checked_topics: BTreeMap<GroupId, u64>,
    /// Classic members of KIP-848 groups that were told to join again, and have not.
    pub(super) to_rejoin: BTreeSet<(GroupId, MemberId)>,
    /// Classic groups with members or members about to join; of the others the log says all.
    pub(super) classic: BTreeMap<GroupId, Box<ClassicGroup>>,
}

impl GroupSoft {
    /// The soft state that the load of a shard starts with.
    #[must_use]
    pub fn new(config: Arc<GroupConfig>, topics: Arc<TopicsSnapshot>) -> GroupSoft {
        GroupSoft { config, topics, ..GroupSoft::default() }
    }

    /// Takes a classic group out, to be put back by [`GroupSoft::put_back`] after it was changed.
    pub(super) fn take(&mut self, hard: &GroupHard, group_id: &str) -> Option<Box<ClassicGroup>> {
        if let Some(group) = self.classic.remove(group_id) {
            return Some(group);
        }
        load(hard, group_id).map(Box::new)
    }

    /// Keeps the group, unless the log says all there is of it.
    pub(super) fn put_back(&mut self, group: Box<ClassicGroup>) {
        if !group.is_unloadable() {
            self.classic.insert(group.group_id.clone(), group);
        }
    }

    /// Looks at a classic group.
    pub(super) fn look<T>(
        &self,
        hard: &GroupHard,
        group_id: &str,
        look: impl FnOnce(&ClassicGroup) -> T,
    ) -> Option<T> {
        match self.classic.get(group_id) {
            Some(group) => Some(look(group)),
            None => load(hard, group_id).as_ref().map(look),
        }
    }
}

/// A classic group as the log has it: also one that only holds offsets.
fn load(hard: &GroupHard, group_id: &str) -> Option<ClassicGroup> {
    let group = hard.group(group_id)?;
    match (&group.classic, &group.consumer) {
        (_, Some(_)) => None,
        (Some(metadata), None) => Some(ClassicGroup::load(GroupId::from(group_id), metadata)),
        (None, None) => Some(ClassicGroup::simple(GroupId::from(group_id))),
    }
}

/// What a deadline is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum GroupTimer {
    /// A member of a classic group gave no sign of life.
    ClassicSession(GroupId, MemberId),
    /// A classic rebalance has waited long enough for members to join.
    ClassicJoin(GroupId),
    /// Members have had long enough to ask for their assignment.
    ClassicSync(GroupId),
    /// A member of a KIP-848 group gave no sign of life.
    ConsumerSession(GroupId, MemberId),
    /// A member of a KIP-848 group has had long enough to give partitions up, from that epoch on.
    ConsumerRebalance(GroupId, MemberId),
    /// A classic member of a KIP-848 group has had long enough to join again.
    ConsumerJoin(GroupId, MemberId),
    /// A classic member of a KIP-848 group has had long enough to ask for its assignment.
    ConsumerSync(GroupId, MemberId),
    /// Offsets may have expired.
    ExpireOffsets,
}

/// What a decision has at hand.
pub(super) struct Decision<'a> {
    pub(super) config: Arc<GroupConfig>,
    pub(super) now: Now,
    pub(super) effects: &'a mut Vec<Effect<GroupShard>>,
}

impl Decision<'_> {
    pub(super) fn reply(&mut self, token: RequestToken, reply: GroupReply) {
        self.effects.push(Effect::Reply { token, reply, when: When::Now });
    }

    /// Answers once everything appended so far is committed: for what rests on the log.
    pub(super) fn reply_durable(&mut self, token: RequestToken, reply: GroupReply) {
        self.effects.push(Effect::Reply { token, reply, when: When::Durable });
    }

    pub(super) fn append(&mut self, records: Vec<GroupRecord>) {
        if !records.is_empty() {
            self.effects.push(Effect::Append(records));
        }
    }

    pub(super) fn set_timer(&mut self, timer: GroupTimer, after_ms: i64) {
        let at: Steady = self.now.steady.after_ms(after_ms);
        self.effects.push(Effect::SetTimer(timer, at));
    }

    pub(super) fn cancel_timer(&mut self, timer: GroupTimer) {
        self.effects.push(Effect::CancelTimer(timer));
    }
}
