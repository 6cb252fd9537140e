//! openraft's state machine for every group: what is committed drives the group's [`Machine`].
//!
//! Applying a partition's entry moves its high watermark and answers the producer; no record byte
//! is read or copied.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use parking_lot::Mutex;
use protocol::types::Offset;
use storage::StorageError;
use storage::log_store::GroupLog;

use super::command::{Applied, GroupCommand};
use super::log_storage::{io_error, wait, waiter};
use super::machine::Machine;
use super::snapshot::{
    self, PartitionSnapshot, Snapshot, SnapshotMeta, load_memberships, save_memberships,
};
use super::type_config::{LogId, RaftEntry, StoredMembership, TypeConfig, entry_id, log_id};

type RaftSnapshot = openraft::alias::SnapshotOf<TypeConfig, Bytes>;
type RaftApplyResponder = openraft::storage::ApplyResponder<TypeConfig>;

/// The state machine of one group; clones share its state.
#[derive(Clone)]
pub(crate) struct StateMachine {
    log: GroupLog,
    machine: Arc<dyn Machine>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    applied: Option<LogId>,
    /// Ascending; a snapshot takes the one that was in force at its anchor.
    memberships: Vec<StoredMembership>,
}

impl StateMachine {
    /// Takes up what is known without replaying the log. With a single voter everything in the
    /// log is committed, and a partition's watermark is its end.
    pub(super) async fn open(
        log: GroupLog,
        machine: Arc<dyn Machine>,
        single_voter: bool,
    ) -> Result<StateMachine, StorageError> {
        let mut state = State { applied: None, memberships: load_memberships(&log)? };
        let snapshot = Snapshot::load(&log)?;
        let this = StateMachine { log, machine, state: Arc::default() };
        let is_partition = this.machine.image().is_none();
        if let Some(snapshot) = &snapshot {
            state.applied.clone_from(&snapshot.meta.last_log_id);
            if state.memberships.is_empty() {
                state.memberships.push(snapshot.meta.last_membership.clone());
            }
            match &snapshot.meta.last_log_id {
                Some(id) if is_partition => this.install_partition(id, &snapshot.data).await?,
                None if is_partition => {}
                _ => this.machine.restore(&snapshot.data)?,
            }
        }
        if is_partition {
            let log_state = this.log.log_state();
            state.applied = state.applied.max(log_state.last_purged.map(log_id));
            if single_voter && !state.memberships.is_empty() {
                state.applied = log_state.last.map(log_id);
            }
            if let Some(applied) = &state.applied {
                this.machine.on_committed(this.next_offset_of(applied.index)?);
            }
        }
        *this.state.lock() = state;
        Ok(this)
    }

    /// Whether a node is the only voter, as far as is applied.
    pub(super) fn votes_alone(&self, node_id: u64) -> bool {
        self.membership().voter_ids().eq([node_id])
    }

    pub(super) fn membership(&self) -> StoredMembership {
        self.state.lock().memberships.last().cloned().unwrap_or_default()
    }

    /// The offset behind an entry of this group's log.
    fn next_offset_of(&self, index: u64) -> Result<Offset, StorageError> {
        match self.log.heads(index..index + 1) {
            Ok(heads) if !heads.is_empty() => Ok(heads[0].next_offset),
            Ok(_) | Err(StorageError::Purged { .. }) => Ok(self.log.offsets().log_start_offset),
            Err(error) => Err(error),
        }
    }

    fn applied(&self) -> Option<LogId> {
        self.state.lock().applied
    }

    fn on_membership(&self, entry: &RaftEntry, membership: &openraft::Membership<u64, ()>) {
        let stored = StoredMembership::new(Some(entry.log_id), membership.clone());
        let mut state = self.state.lock();
        let known = state.memberships.iter().any(|m| m.log_id() == stored.log_id());
        if known {
            return;
        }
        state.memberships.push(stored);
        if let Err(error) = save_memberships(&self.log, &state.memberships) {
            // Found again by scanning the log at the next start.
            tracing::warn!(group = self.log.id().0, %error, "membership was not saved");
        }
    }

    /// Applies one entry that is no record batch.
    fn apply_other(&self, entry: &RaftEntry) -> Result<Applied, StorageError> {
        match &entry.payload {
            EntryPayload::Blank => {
                self.machine.on_leader_entry(entry.log_id.leader_id.term);
                Ok(Applied::Nothing)
            }
            EntryPayload::Membership(membership) => {
                self.on_membership(entry, membership);
                Ok(Applied::Nothing)
            }
            EntryPayload::Normal(GroupCommand::AdvanceLogStart { offset }) => {
                Ok(Applied::LogStart(self.machine.advance_log_start(*offset)))
            }
            EntryPayload::Normal(GroupCommand::Metadata(command)) => {
                Ok(Applied::Metadata(self.machine.apply_metadata(command)))
            }
            EntryPayload::Normal(GroupCommand::Batches { .. }) => {
                self.machine.on_committed(self.next_offset_of(entry.log_id.index)?);
                Ok(Applied::Batches)
            }
            EntryPayload::Normal(GroupCommand::Stored { next_offset }) => {
                self.machine.on_committed(*next_offset);
                Ok(Applied::Batches)
            }
        }
    }

    /// The membership in force at `anchor`; older ones are forgotten.
    fn membership_at(&self, anchor: Option<&LogId>) -> StoredMembership {
        let mut state = self.state.lock();
        let reached = |m: &StoredMembership| m.log_id().as_ref() <= anchor;
        let position = state.memberships.iter().rposition(reached);
        let Some(position) = position else {
            return StoredMembership::default();
        };
        state.memberships.drain(..position);
        state.memberships[0].clone()
    }

    fn snapshot_now(&self) -> Result<Snapshot, StorageError> {
        let (last_log_id, data) = match self.machine.image() {
            Some(image) => (self.applied(), image),
            None => {
                let anchor = snapshot::anchor(&self.log)?.min(self.applied());
                let data = snapshot::partition_data(&self.log, anchor.as_ref())?;
                (anchor, data)
            }
        };
        let last_membership = self.membership_at(last_log_id.as_ref());
        Ok(Snapshot { meta: SnapshotMeta { last_log_id, last_membership }, data })
    }

    /// Cuts the log to what the snapshot says, unless the log holds the snapshot's entry itself.
    async fn install_partition(&self, id: &LogId, data: &Bytes) -> Result<(), StorageError> {
        let (partition, producers) = snapshot::unframe::<PartitionSnapshot>(data)?;
        let id = entry_id(id);
        let state = self.log.log_state();
        let holds_it = state.last_purged >= Some(id) || self.log.entry_id(id.index)? == Some(id);
        if !holds_it {
            let (done, installed) = waiter();
            let epochs = partition.epochs;
            self.log.install_snapshot(id, partition.next_offset, producers, epochs, done)?;
            wait(installed).await?;
        }
        // The start may lie within an entry behind the snapshot: the entry that raised it to there
        // comes later and does it again.
        let log_start_offset = partition.log_start_offset.min(self.log.offsets().log_end_offset);
        let (done, moved) = waiter();
        self.log.set_log_start_offset(log_start_offset, done)?;
        wait(moved).await?;
        self.machine.on_committed(partition.next_offset);
        Ok(())
    }

    /// The snapshot goes to the journal before the log is cut: a crash between the two is made
    /// good at the next start, and a cut log is never without the snapshot that stands for it.
    async fn install(&self, snapshot: &Snapshot) -> Result<(), StorageError> {
        let saved = snapshot.begin_save(&self.log)?;
        let memberships = vec![snapshot.meta.last_membership.clone()];
        save_memberships(&self.log, &memberships)?;
        if let Some(id) = &snapshot.meta.last_log_id {
            match self.machine.image() {
                Some(_) => self.machine.restore(&snapshot.data)?,
                None => self.install_partition(id, &snapshot.data).await?,
            }
        }
        wait(saved).await?;
        let mut state = self.state.lock();
        state.applied.clone_from(&snapshot.meta.last_log_id);
        state.memberships = memberships;
        Ok(())
    }
}

impl RaftSnapshotBuilder<TypeConfig> for StateMachine {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> Result<RaftSnapshot, io::Error> {
        let snapshot = self.snapshot_now().map_err(io_error)?;
        snapshot.save(&self.log).await.map_err(io_error)?;
        Ok(RaftSnapshot { meta: snapshot.meta, snapshot: snapshot.data })
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.applied(), self.membership()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let mut applied = None;
        // Record batches that follow each other move the watermark once; producers hear after it.
        let mut committed: Option<Offset> = None;
        let mut responders: Vec<RaftApplyResponder> = Vec::new();
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            applied = Some(entry.log_id);
            if let EntryPayload::Normal(GroupCommand::Stored { next_offset }) = &entry.payload {
                committed = Some(*next_offset);
                responders.extend(responder);
                continue;
            }
            self.flush(&mut committed, &mut responders);
            let answer = self.apply_other(&entry).map_err(io_error)?;
            if let Some(responder) = responder {
                responder.send(answer);
            }
        }
        if let Some(applied) = applied {
            self.state.lock().applied = Some(applied);
        }
        self.flush(&mut committed, &mut responders);
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        data: Bytes,
    ) -> Result<(), io::Error> {
        let snapshot = Snapshot { meta: meta.clone(), data };
        self.install(&snapshot).await.map_err(io_error)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<RaftSnapshot>, io::Error> {
        let snapshot = Snapshot::load(&self.log).map_err(io_error)?;
        Ok(snapshot.map(|s| RaftSnapshot { meta: s.meta, snapshot: s.data }))
    }
}

impl StateMachine {
    fn flush(&self, committed: &mut Option<Offset>, responders: &mut Vec<RaftApplyResponder>) {
        if let Some(next_offset) = committed.take() {
            self.machine.on_committed(next_offset);
        }
        for responder in responders.drain(..) {
            responder.send(Applied::Batches);
        }
    }
}
