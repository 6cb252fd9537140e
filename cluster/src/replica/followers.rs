//! What a leader knows of the replicas that follow it: which of them follow closely, whether these
//! are enough, and how leadership is handed over to one of them.

use protocol::types::{BrokerId, Offset};

use super::handle::Shared;
use super::in_sync::Follower;
use super::proposer::Phase;
use crate::AppendError;
use crate::limits::{HAND_OVER_HEARTBEATS, HAND_OVER_TIMEOUT};
use crate::raft::{Progress, RaftGroup, broker_id};

impl Shared {
    /// The replicas that follow this leader closely, itself included, in the order of preference.
    pub(super) fn in_sync(&self, group: &RaftGroup) -> Vec<BrokerId> {
        let environment = &self.environment;
        let Some(progress) = group.progress() else { return vec![environment.broker_id] };
        let presence = &environment.presence;
        let now_ms = presence.now_ms();
        let partition = self.partition();
        let followers = followers(&progress, now_ms);
        let lag_max_ms = u64::try_from(environment.replica_lag_max.as_millis()).unwrap_or(u64::MAX);
        let epoch = self.published.get().leader_epoch;
        let close = {
            let mut in_sync = self.in_sync.lock();
            if in_sync.epoch() != epoch {
                let before = presence.in_sync_before(self.group_id.0);
                let before = before.unwrap_or_else(|| partition.settled_replicas());
                let had_it = before.into_iter().filter(|id| !partition.adding.contains(id));
                in_sync.begin(epoch, now_ms, had_it.collect());
            }
            in_sync.in_sync(now_ms, lag_max_ms, progress.last, &followers)
        };
        let is_in_sync = |id: &BrokerId| {
            *id == environment.broker_id || (close.contains(id) && presence.is_alive(*id))
        };
        partition.replicas.iter().copied().filter(is_in_sync).collect()
    }

    /// See [`super::Replica::followers_that_hold`].
    pub(super) fn followers_that_hold(&self, offset: Offset) -> Vec<(BrokerId, Offset)> {
        let Some(group) = self.open_group().filter(|_| self.is_leader()) else { return Vec::new() };
        let in_sync = self.in_sync(&group);
        let peers = group.progress().map(|progress| progress.peers).unwrap_or_default();
        let held = |peer: &crate::raft::PeerProgress| {
            let id = broker_id(peer.node_id).filter(|id| in_sync.contains(id))?;
            let matched = peer.matched?;
            // What was purged meanwhile does not say where it ended.
            let heads = self.log.heads(matched..matched + 1).ok()?;
            let end = heads.first()?.next_offset;
            (end >= offset).then_some((id, end))
        };
        peers.iter().filter_map(held).collect()
    }

    /// Refuses an append for which fewer replicas follow than `min.insync.replicas` asks for.
    pub(super) fn check_followers(
        &self,
        phase: &Phase,
        needs_followers: bool,
    ) -> Result<(), AppendError> {
        if !needs_followers || self.is_single_voter() || !self.is_leader() {
            return Ok(());
        }
        let needed = self.needed_replicas();
        match phase {
            Phase::Open(group) if needed > 1 && self.in_sync_voters(group) < needed => {
                Err(AppendError::NotEnoughReplicas)
            }
            _ => Ok(()),
        }
    }

    /// A topic with fewer replicas than `min.insync.replicas` is served by those it has.
    fn needed_replicas(&self) -> usize {
        let replicas = self.partition().target_replicas().len();
        self.settings.lock().min_insync_replicas.min(replicas)
    }

    fn in_sync_voters(&self, group: &RaftGroup) -> usize {
        let (partition, voters) = (self.partition(), self.voter_nodes(group));
        let votes = |id: &&BrokerId| voters.contains(&partition.node_id(**id));
        self.in_sync(group).iter().filter(votes).count()
    }

    pub(super) async fn is_held_by_enough(&self, base_offset: Offset) -> bool {
        let needed = self.needed_replicas();
        if needed <= 1 || self.is_single_voter() {
            return true;
        }
        // Who has lost the leadership meanwhile knows no more than that a majority has it.
        let Some(group) = self.open_group().filter(RaftGroup::is_leader) else { return true };
        if self.in_sync_voters(&group) < needed {
            return false;
        }
        let voters = self.voter_nodes(&group);
        if needed > voters.len() / 2 + 1
            && let Ok(Some(entry)) = self.log.last_entry_below(base_offset.plus(1))
        {
            group.wait_until_held(entry.index, needed, &voters).await;
        }
        true
    }

    /// The replicas that vote, or did before the reassignment that is under way: one that is being
    /// added does not yet, but where the others are gone and the group grows anew.
    fn voter_nodes(&self, group: &RaftGroup) -> Vec<u64> {
        let partition = self.partition();
        if partition.is_recovering() {
            return group.members().voters.into_iter().flatten().collect();
        }
        let voters = partition.settled_replicas().into_iter();
        voters.map(|id| partition.node_id(id)).collect()
    }

    pub(super) async fn hand_over_to(&self, to: BrokerId) -> bool {
        let Some(group) = self.open_group().filter(|_| self.is_leader()) else { return false };
        if !self.in_sync(&group).contains(&to) || !self.answers(&group, to) {
            return false;
        }
        group.hand_over(self.partition().node_id(to)).await;
        let handed_over = group.wait_for_other_leader();
        tokio::time::timeout(HAND_OVER_TIMEOUT, handed_over).await.is_ok()
    }

    /// Whether a replica has answered lately: a leader that hands over to one that is not there
    /// leads no more, and nobody else does until an election.
    fn answers(&self, group: &RaftGroup, to: BrokerId) -> bool {
        let window = self.environment.timing.heartbeat * HAND_OVER_HEARTBEATS;
        group.in_sync(window).contains(&self.partition().node_id(to))
    }

    /// Whether nobody else can lead now: a majority has answered so lately that it grants no vote
    /// yet. A leader that was cut off goes on for a while without knowing of its successor.
    pub(super) fn leads_for_sure(&self, phase: &Phase) -> bool {
        if self.is_single_voter() {
            return true;
        }
        let Phase::Open(group) = phase else { return false };
        group.hears_majority(self.environment.timing.election_min)
    }
}

fn followers(progress: &Progress, now_ms: u64) -> Vec<Follower> {
    let follower = |peer: &crate::raft::PeerProgress| {
        let ago_ms = |ago: std::time::Duration| u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
        Some(Follower {
            id: broker_id(peer.node_id)?,
            matched: peer.matched,
            acked_at_ms: peer.acked_ago.map(|ago| now_ms.saturating_sub(ago_ms(ago))),
        })
    };
    progress.peers.iter().filter_map(follower).collect()
}
