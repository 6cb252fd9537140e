//! The next step of a member on its way to its target assignment: it gives up first, and gets
//! what others have given up (Kafka: `CurrentAssignmentBuilder`).
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeSet;

use protocol::types::{PartitionId, TopicId};

use crate::coordinator::group::event::TopicIdPartitions;
use crate::coordinator::group::record::{
    AssignmentState, CurrentAssignment, OwnedPartitions, Partitions,
};

/// What a step depends on.
pub(crate) struct Step<'a> {
    /// What the member owns by what it was told.
    pub current: &'a CurrentAssignment,
    pub target_epoch: i32,
    pub target: &'a Partitions,
    /// The topics that it wants now.
    pub subscribed: &'a BTreeSet<TopicId>,
    pub has_subscription_changed: bool,
    /// What it says it owns; `None` where it says nothing.
    pub owned: Option<&'a [TopicIdPartitions]>,
    /// What others own.
    pub taken: &'a BTreeSet<(TopicId, PartitionId)>,
}

/// The member is in a state of a later Kafka, and has to begin from nothing.
#[derive(Debug)]
pub(crate) struct MustRejoin;

impl Step<'_> {
    /// What the member owns next.
    pub(crate) fn next(&self) -> Result<CurrentAssignment, MustRejoin> {
        let current = self.current;
        Ok(match current.state {
            AssignmentState::Stable if current.member_epoch != self.target_epoch => {
                self.toward_target(current.member_epoch)
            }
            AssignmentState::Stable if self.has_subscription_changed => self.without_unwanted(),
            AssignmentState::Stable => current.clone(),
            AssignmentState::UnrevokedPartitions if self.owns_any(&current.pending_revocation) => {
                match self.has_subscription_changed {
                    true => self.without_unwanted(),
                    false => current.clone(),
                }
            }
            AssignmentState::UnrevokedPartitions | AssignmentState::UnreleasedPartitions => {
                self.toward_target(current.member_epoch)
            }
            AssignmentState::Unknown(_) if self.owned.is_none_or(|owned| !owned.is_empty()) => {
                return Err(MustRejoin);
            }
            AssignmentState::Unknown(_) => self.toward_target(self.target_epoch),
        })
    }

    /// Whether the member owns any of these, as far as one knows.
    fn owns_any(&self, partitions: &OwnedPartitions) -> bool {
        let Some(owned) = self.owned else { return true };
        owned.iter().any(|topic| {
            let revoked = partitions.get(&topic.topic_id);
            revoked.is_some_and(|revoked| topic.partitions.iter().any(|p| revoked.contains_key(p)))
        })
    }

    fn moved(
        &self,
        state: AssignmentState,
        member_epoch: i32,
        assigned: OwnedPartitions,
        pending_revocation: OwnedPartitions,
    ) -> CurrentAssignment {
        CurrentAssignment {
            member_epoch,
            previous_member_epoch: self.current.member_epoch,
            state,
            assigned,
            pending_revocation,
        }
    }

    fn toward_target(&self, member_epoch: i32) -> CurrentAssignment {
        let mut kept = OwnedPartitions::new();
        let mut revoked = OwnedPartitions::new();
        for (&topic_id, partitions) in &self.current.assigned {
            for (&partition, &epoch) in partitions {
                let is_kept = self.subscribed.contains(&topic_id)
                    && self.target.get(&topic_id).is_some_and(|t| t.contains(&partition));
                let into = if is_kept { &mut kept } else { &mut revoked };
                into.entry(topic_id).or_default().insert(partition, epoch);
            }
        }
        if !revoked.is_empty() && self.owns_any(&revoked) {
            return self.moved(AssignmentState::UnrevokedPartitions, member_epoch, kept, revoked);
        }
        let mut state = AssignmentState::Stable;
        for (&topic_id, partitions) in self.target {
            if !self.subscribed.contains(&topic_id) {
                continue;
            }
            for &partition in partitions {
                if self.taken.contains(&(topic_id, partition)) {
                    state = AssignmentState::UnreleasedPartitions;
                } else {
                    let owned = kept.entry(topic_id).or_default();
                    owned.entry(partition).or_insert(self.target_epoch);
                }
            }
        }
        self.moved(state, self.target_epoch, kept, OwnedPartitions::new())
    }

    /// The member keeps its epoch, and loses at once what it does not want any more.
    fn without_unwanted(&self) -> CurrentAssignment {
        let mut kept = self.current.assigned.clone();
        let mut revoked = self.current.pending_revocation.clone();
        for (topic_id, partitions) in &self.current.assigned {
            if !self.subscribed.contains(topic_id) {
                kept.remove(topic_id);
                revoked.entry(*topic_id).or_default().extend(partitions);
            }
        }
        if kept == self.current.assigned {
            return self.current.clone();
        }
        let epoch = self.current.member_epoch;
        match self.owns_any(&revoked) {
            true => self.moved(AssignmentState::UnrevokedPartitions, epoch, kept, revoked),
            false => {
                let pending = self.current.pending_revocation.clone();
                self.moved(self.current.state, epoch, kept, pending)
            }
        }
    }
}
