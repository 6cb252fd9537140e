//! Opening and closing a partition's Raft instance, and what the instance tells the replica.
//!
//! With a single voter the instance is opened by the first append and closed after idleness; a
//! dormant partition is served from the index alone. With several it is open as long as the
//! partition exists, and opened again should it stop.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use protocol::types::{BrokerId, Offset};
use storage::StorageError;
use storage::log_store::LogStore;

use super::handle::{LogStartObserver, Shared, leader_epoch};
use super::proposer::{Phase, ProposerState};
use super::throttle::Throttle;
use crate::controller::presence::Presence;
use crate::limits::REOPEN_DELAY;
use crate::metadata::{CommandResult, PartitionImage};
use crate::raft::{
    GroupOptions, LeaderState, LogStanding, Machine, RaftGroup, SnapshotPolicy, Timing, broker_id,
    force_membership, may_vote_without_log, spawn,
};
use crate::transport::PeerTransport;
use crate::{AppendError, ClusterError};

/// What all replicas of a broker share.
pub(crate) struct Environment {
    pub(crate) broker_id: BrokerId,
    /// Of the directory that the store is in.
    pub(crate) directory_id: String,
    pub(crate) store: LogStore,
    pub(crate) transport: Arc<dyn PeerTransport>,
    pub(crate) timing: Timing,
    /// Who is there, and what they lead.
    pub(crate) presence: Arc<Presence>,
    /// There are no other brokers.
    pub(crate) is_alone: bool,
    /// `replica.lag.time.max.ms`
    pub(crate) replica_lag_max: Duration,
    pub(crate) throttle: Throttle,
    /// Rounds of maintenance without an append after which a partition goes dormant.
    pub(crate) idle_rounds: u32,
    /// Told of every log start that moves, once someone listens.
    pub(crate) log_start_observer: OnceLock<LogStartObserver>,
}

impl Environment {
    /// Refuses appends while there is no room for them: inside Raft a failed append would stop the
    /// group.
    pub(super) fn check_space(&self) -> Result<(), AppendError> {
        Ok(self.store.check_space()?)
    }
}

/// A broker as a Raft node.
pub(crate) fn node_id(broker_id: BrokerId) -> u64 {
    u64::try_from(broker_id.0).unwrap_or(0)
}

impl Shared {
    /// Opens the instance in a task of its own; `phase` is `Opening` already.
    pub(super) fn spawn_open(self: &Arc<Self>) {
        let shared = self.clone();
        spawn(async move {
            if shared.is_single_voter() {
                shared.open_single().await;
            } else {
                shared.run_replicated().await;
            }
        });
    }

    async fn open(self: &Arc<Self>) -> Result<RaftGroup, StorageError> {
        let resume = self.proposer.lock().resume;
        let partition = self.partition();
        let own_node = partition.node_id(self.environment.broker_id);
        let goes_on_alone = self.survive(&partition, own_node).await?;
        let group = RaftGroup::open(GroupOptions {
            node_id: own_node,
            group: self.group_id,
            is_single: self.is_single_voter(),
            founders: partition.founders().iter().copied().map(node_id).collect(),
            log: self.log.clone(),
            if_empty: self.if_empty(),
            machine: self.clone(),
            transport: self.environment.transport.clone(),
            durability: self.durability.clone(),
            pacing: Some(self.clone()),
            resume,
            timing: self.environment.timing,
            snapshots: SnapshotPolicy::OnRequest,
        })
        .await?;
        if goes_on_alone {
            group.elect().await;
        }
        Ok(group)
    }

    /// Makes this replica the only member of the group, where an unclean election asks for that and
    /// it has not been done; whether it was done now.
    async fn survive(
        &self,
        partition: &PartitionImage,
        node_id: u64,
    ) -> Result<bool, StorageError> {
        let broker = self.environment.broker_id;
        let Some(survivor) = partition.survivor_on(broker) else { return Ok(false) };
        if !force_membership(&self.log, node_id, survivor.epoch).await? {
            return Ok(false);
        }
        let offsets = self.log.offsets();
        tracing::warn!(
            topic = %self.id.topic.0,
            partition = self.id.partition.0,
            survivor = broker.0,
            replicas = ?partition.replicas.iter().map(|id| id.0).collect::<Vec<_>>(),
            high_watermark = self.published.get().high_watermark.0,
            log_end_offset = offsets.log_end_offset.0,
            after_epoch = survivor.epoch,
            "unclean leader election: what only the other replicas had is lost"
        );
        Ok(true)
    }

    /// What it means that the log is empty. Nobody else has what the only replica has lost.
    fn if_empty(&self) -> LogStanding {
        if self.may_have_lost_log && self.partition().replicas.len() > 1 {
            LogStanding::Lost
        } else {
            LogStanding::Whole
        }
    }

    async fn open_single(self: &Arc<Self>) {
        match self.open_and_install().await {
            Ok(Some(_)) => self.advance(),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(group = self.log.id().0, %error, "partition cannot be opened");
                let waiting = {
                    let mut state = self.proposer.lock();
                    if matches!(state.phase, Phase::Opening) {
                        state.phase = Phase::Dormant;
                    }
                    state.take_waiting()
                };
                for ticket in waiting {
                    ticket.failed(AppendError::Storage(error.clone()));
                }
            }
        }
    }

    /// Takes up a change of the replicas. Who was the only one opens the partition anew when others
    /// are added, and keeps it open from then on, also when it is the only one again.
    pub(super) fn set_partition(self: &Arc<Self>, partition: &PartitionImage) {
        let own = self.environment.broker_id;
        let is_another_node = {
            let mut known = self.partition.lock();
            if **known == *partition {
                return;
            }
            let before = std::mem::replace(&mut *known, Arc::new(partition.clone()));
            before.node_id(own) != partition.node_id(own)
        };
        if is_another_node {
            let shared = self.clone();
            spawn(async move { shared.close_former_node().await });
        }
        if partition.replicas.len() == 1 || !self.is_single.swap(false, Ordering::AcqRel) {
            return;
        }
        let shared = self.clone();
        spawn(async move {
            shared.close_single().await;
            shared.run_replicated().await;
        });
    }

    /// Closes the instance of who was the only voter; what is in flight is refused, and tried again
    /// by whoever has sent it.
    async fn close_single(&self) {
        let _changing = self.changing.lock().await;
        let (group, waiting) = {
            let mut state = self.proposer.lock();
            if matches!(state.phase, Phase::Gone) {
                return;
            }
            let group = match std::mem::replace(&mut state.phase, Phase::Opening) {
                Phase::Open(group) => Some(group),
                _ => None,
            };
            (group, state.take_waiting())
        };
        for ticket in waiting {
            ticket.failed(self.not_leader());
        }
        if let Some(group) = group {
            group.close().await;
        }
    }

    /// Closes the instance of a node that this replica is no more; another one is opened for it.
    async fn close_former_node(&self) {
        let _changing = self.changing.lock().await;
        if let Some(group) = self.open_group().filter(|group| !self.is_node_of(group)) {
            group.close().await;
        }
    }

    fn is_node_of(&self, group: &RaftGroup) -> bool {
        group.node_id() == self.partition().node_id(self.environment.broker_id)
    }

    /// Keeps a replicated partition's instance open and follows its leadership.
    async fn run_replicated(self: &Arc<Self>) {
        if self.is_kept_open.swap(true, Ordering::AcqRel) {
            return;
        }
        loop {
            match self.open_and_install().await {
                Ok(None) => return,
                Ok(Some(group)) => {
                    group.watch_leader(|state| self.on_leader_state(state)).await;
                    self.on_replicated_stopped(&group);
                }
                Err(error) => {
                    tracing::warn!(group = self.log.id().0, %error, "replica cannot be opened");
                }
            }
            if matches!(self.proposer.lock().phase, Phase::Gone) {
                return;
            }
            tokio::time::sleep(REOPEN_DELAY).await;
        }
    }

    /// The open instance; `None` when the partition has gone meanwhile.
    async fn open_and_install(self: &Arc<Self>) -> Result<Option<RaftGroup>, StorageError> {
        let _changing = self.changing.lock().await;
        loop {
            let group = self.open().await?;
            let is_current = self.is_node_of(&group);
            if is_current && self.install(&group) {
                return Ok(Some(group));
            }
            group.close().await;
            if is_current {
                return Ok(None);
            }
        }
    }

    /// Whether the partition still wants the instance.
    fn install(&self, group: &RaftGroup) -> bool {
        let mut state = self.proposer.lock();
        if matches!(state.phase, Phase::Gone) {
            return false;
        }
        state.phase = Phase::Open(group.clone());
        state.resume = true;
        state.idle_rounds = 0;
        true
    }

    fn on_leader_state(&self, leader_state: LeaderState) {
        self.published.update(|view| {
            view.leader = leader_state.leader.and_then(broker_id);
            view.leader_epoch = leader_epoch(leader_state.term);
        });
        self.environment.presence.on_leadership_changed();
        if !self.is_leader() {
            let waiting = self.proposer.lock().take_waiting();
            for ticket in waiting {
                ticket.failed(self.not_leader());
            }
        }
    }

    fn on_replicated_stopped(&self, group: &RaftGroup) {
        self.on_instance_stopped(&mut self.proposer.lock(), group);
        self.published.update(|view| view.leader = None);
    }

    /// The instance stopped by itself: the log may not be what it thought, so the next one starts
    /// as after a restart.
    pub(super) fn on_instance_stopped(&self, state: &mut ProposerState, group: &RaftGroup) {
        let Phase::Open(open) = &state.phase else { return };
        if !open.is(group) {
            return;
        }
        state.resume = false;
        if self.is_single_voter() {
            state.phase = Phase::Dormant;
            let term = self.log.log_state().vote.map_or(0, |vote| vote.term);
            let epoch = leader_epoch(term + 1);
            self.published.update(|view| {
                view.leader_epoch = epoch;
                view.settled_epoch = epoch;
            });
        } else {
            state.phase = Phase::Opening;
        }
    }

    pub(super) fn open_group(&self) -> Option<RaftGroup> {
        match &self.proposer.lock().phase {
            Phase::Open(group) => Some(group.clone()),
            _ => None,
        }
    }

    /// Closes the instance of a single voter that nobody appended to for a while.
    pub(super) async fn close_if_idle(self: &Arc<Self>) {
        if !self.is_single_voter() {
            return;
        }
        // What is being opened is not idle.
        let Ok(_changing) = self.changing.try_lock() else { return };
        let group = {
            let mut state = self.proposer.lock();
            let Phase::Open(group) = &state.phase else { return };
            let group = group.clone();
            if std::mem::take(&mut state.touched) || !state.is_quiet() {
                state.idle_rounds = 0;
                return;
            }
            state.idle_rounds += 1;
            if state.idle_rounds < self.environment.idle_rounds {
                return;
            }
            state.idle_rounds = 0;
            state.take_waiting();
            state.phase = Phase::Closing;
            group
        };
        group.close().await;
        {
            let mut state = self.proposer.lock();
            if matches!(state.phase, Phase::Closing) {
                state.phase = Phase::Dormant;
            }
        }
        self.advance();
    }

    /// Refuses what waits, and closes the instance for good.
    pub(super) async fn stop(&self) {
        let (group, waiting) = {
            let mut state = self.proposer.lock();
            let phase = std::mem::replace(&mut state.phase, Phase::Gone);
            let group = match phase {
                Phase::Open(group) => Some(group),
                _ => None,
            };
            (group, state.take_waiting())
        };
        for ticket in waiting {
            ticket.failed(AppendError::Gone);
        }
        // An instance that is just being opened or closed writes until that is done.
        let _changing = self.changing.lock().await;
        if let Some(group) = group {
            group.close().await;
        }
        self.published.wake();
    }
}

impl Machine for Shared {
    fn on_committed(&self, next_offset: Offset) {
        self.published.update(|view| {
            view.high_watermark = view.high_watermark.max(next_offset);
        });
    }

    fn on_leader_entry(&self, term: u64) {
        let epoch = leader_epoch(term);
        self.published.update(|view| {
            view.settled_epoch = view.settled_epoch.max(epoch);
            if self.is_single_voter() {
                view.leader_epoch = epoch;
            }
        });
        self.environment.presence.on_leadership_changed();
    }

    fn advance_log_start(&self, offset: Offset) -> Result<Offset, StorageError> {
        // The entry is on a majority's disks, and is applied again after a crash.
        let log_start_offset = self.raise_log_start(offset, Box::new(|_| ()))?;
        // The snapshot that lets go of what lies below is asked for from outside: this is called
        // from the task that would make it.
        if let Some(group) = self.open_group() {
            spawn(async move { group.snapshot().await });
        }
        Ok(log_start_offset)
    }

    fn apply_metadata(&self, _command: &Bytes) -> CommandResult {
        Err(ClusterError::Storage(String::from("a partition's log holds no metadata commands")))
    }

    fn image(&self) -> Option<Bytes> {
        None
    }

    fn may_vote_without_log(&self) -> bool {
        let partition = self.partition();
        // Who knows of the loss knows also of every change of the replicas before it; and none
        // after it goes by without this one.
        let is_first_set = partition.altered_at == 0
            && partition.lost_directories.contains(&self.environment.broker_id);
        is_first_set && may_vote_without_log(partition.replicas.len())
    }

    fn restore(&self, _image: &[u8]) -> Result<(), StorageError> {
        Ok(())
    }
}
