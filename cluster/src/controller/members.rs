//! Brings the Raft groups that this broker leads to the members that the metadata asks for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use protocol::types::BrokerId;

use super::forwarding::Forwarding;
use super::metadata_log::MetadataLog;
use super::reassignment::{Step, next_step};
use crate::limits::{
    MEMBER_CHANGES_AT_ONCE, MEMBERS_SCAN, MEMBERS_STEP_PAUSE, MEMBERS_STEP_TIMEOUT,
};
use crate::metadata::MetadataCommand;
use crate::raft::{RaftGroup, broker_id};
use crate::replica::Replica;
use crate::replica::lifecycle::node_id;
use crate::replica::registry::Registry;

/// Changes members of groups.
pub(crate) struct MemberChanges {
    /// Of the metadata log.
    pub(crate) voters: Vec<BrokerId>,
    pub(crate) log: Arc<MetadataLog>,
    pub(crate) forwarding: Arc<Forwarding>,
    pub(crate) registry: Arc<Registry>,
}

impl MemberChanges {
    /// Takes step after step wherever a partition is being reassigned that this broker leads.
    pub(crate) async fn run(&self) {
        let mut images = self.log.watch();
        loop {
            images.mark_unchanged();
            let leads = |replica: &Arc<Replica>| {
                replica.partition().is_reassigning() && replica.is_leader()
            };
            let led: Vec<_> = self.registry.all().into_iter().filter(leads).collect();
            let mut has_moved = self.look_after_observers().await;
            for some in led.chunks(MEMBER_CHANGES_AT_ONCE) {
                let moved = join_all(some.iter().map(|replica| self.take_step(replica))).await;
                has_moved |= moved.into_iter().any(|moved| moved);
            }
            let pause = match (has_moved, led.is_empty()) {
                (true, _) => Duration::ZERO,
                (false, false) => MEMBERS_STEP_PAUSE,
                (false, true) => MEMBERS_SCAN,
            };
            // An image that cannot change any more means that the broker goes down.
            if let Ok(Err(_)) = tokio::time::timeout(pause, images.changed()).await {
                return;
            }
        }
    }

    /// At the controller: registered brokers that do not vote on metadata follow its log, and those
    /// that are not registered any more do not. Whether something was done.
    async fn look_after_observers(&self) -> bool {
        let group = self.log.group();
        let members = group.members();
        if !group.is_leader() || !members.is_committed {
            return false;
        }
        let image = self.log.image();
        let others = image.brokers.keys().filter(|id| !self.voters.contains(id));
        let wanted: BTreeSet<u64> = others.copied().map(node_id).collect();
        let gone: BTreeSet<u64> = members.learners.difference(&wanted).copied().collect();
        let changed = async {
            if let Some(new) = wanted.difference(&members.learners).next() {
                return group.add_learner(*new).await;
            }
            !gone.is_empty() && group.remove_learners(gone).await
        };
        tokio::time::timeout(MEMBERS_STEP_TIMEOUT, changed).await.unwrap_or(false)
    }

    /// Whether something was done.
    async fn take_step(&self, replica: &Replica) -> bool {
        let Some(group) = replica.group() else { return false };
        let partition = replica.partition();
        let target = partition.target_replicas().into_iter();
        let wanted: Vec<u64> = target.map(|id| partition.node_id(id)).collect();
        let progress = group.progress();
        let is_close = |id| progress.as_ref().is_some_and(|progress| progress.is_close(id));
        // A voter that is needed is not throttled any more, so one that is throttled comes first
        // to where it is in sync.
        let has_caught_up = |id| is_close(id) && !replica.is_slowed(id);
        let (members, may_grow) = (group.members(), partition.is_recovering());
        let step = next_step(group.node_id(), &members, &wanted, may_grow, has_caught_up);
        let taken = self.take(replica, &group, step, partition.altered_at);
        tokio::time::timeout(MEMBERS_STEP_TIMEOUT, taken).await.unwrap_or(false)
    }

    async fn take(
        &self,
        replica: &Replica,
        group: &RaftGroup,
        step: Step,
        altered_at: u64,
    ) -> bool {
        match step {
            Step::Wait => false,
            Step::AddLearners(ids) => {
                for id in ids {
                    if !group.add_learner(id).await {
                        return false;
                    }
                }
                true
            }
            Step::ChangeVoters(ids) => group.change_voters(ids).await,
            Step::RemoveLearners(ids) => group.remove_learners(ids).await,
            Step::HandOver(to) => match broker_id(to) {
                Some(to) => replica.hand_over_to(to).await,
                None => false,
            },
            Step::Done => {
                let (topic, partition) = replica.topic_partition();
                let command =
                    MetadataCommand::CompletePartitionReassignment { topic, partition, altered_at };
                let completed = self.forwarding.submit(&self.log, &command).await;
                if let Err(error) = &completed {
                    tracing::debug!(%error, "a reassignment is complete, but was not noted");
                }
                completed.is_ok()
            }
        }
    }
}
