//! `Replica`: what the broker sees of a partition: append, read, offsets, leadership.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use protocol::record_batch::RecordBatch;
use protocol::types::{BrokerId, LeaderEpoch, Offset, PartitionId, Timestamp, TopicId};
use storage::StorageError;
use storage::log_store::{
    Completion, GroupId, GroupLog, NextRecord, ReadLimit, Records, TimestampOffset,
};
use tokio::sync::Notify;

use super::in_sync::InSync;
use super::lifecycle::Environment;
use super::maintenance::Maintenance;
use super::proposer::{Phase, ProposerState};
pub use super::published::OffsetsWatch;
use super::published::{Published, View};
pub use super::ticket::AppendTicket;
use super::ticket::Ticket;
use crate::controller::survivors::LogEnd;
use crate::controller::view::LeaderRow;
use crate::metadata::PartitionImage;
use crate::raft::{Applied, Pacing as _, RaftGroup};
use crate::raft::{DurabilityCell, GroupCommand, ProposeError, votes_alone, wait, waiter};
use crate::{AppendError, ReadError, ReplicaSettings};

/// The partition's offsets, read together (never torn).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaOffsets {
    /// First offset that can be read.
    pub log_start_offset: Offset,
    /// Offsets below are committed: what consumers may see.
    pub high_watermark: Offset,
    /// Offsets below are decided: what read_committed consumers may see.
    pub last_stable_offset: Offset,
    /// First offset not yet appended.
    pub log_end_offset: Offset,
    /// Term of the leader.
    pub leader_epoch: LeaderEpoch,
}

/// Who leads, and who follows closely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leadership {
    /// The leader, if there is one.
    pub leader: Option<BrokerId>,
    /// Its term.
    pub leader_epoch: LeaderEpoch,
    /// The replicas that follow closely, the leader included.
    pub in_sync_replicas: Vec<BrokerId>,
}

/// An appended batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// First offset that can be read.
    pub log_start_offset: Offset,
    /// The batch had been appended before (idempotent retry).
    pub duplicate: bool,
}

/// Why a log start moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogStartCause {
    /// `retention.ms`
    RetentionTime,
    /// `retention.bytes`
    RetentionSize,
    /// Someone asked for it (DeleteRecords).
    Request,
}

/// A log start that moved: what lay before it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStartMoved {
    /// The topic.
    pub topic_id: TopicId,
    /// Its partition.
    pub partition: PartitionId,
    /// Where the log starts now.
    pub log_start_offset: Offset,
    /// Why.
    pub cause: LogStartCause,
}

/// Told of every log start that moves while this broker leads; must not block.
pub type LogStartObserver = Arc<dyn Fn(LogStartMoved) + Send + Sync>;

/// Which partition a replica is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaId {
    pub(crate) topic: TopicId,
    pub(crate) partition: PartitionId,
}

/// A partition on this broker; cheap to clone as `Arc`.
pub struct Replica {
    pub(super) shared: Arc<Shared>,
}

/// What the replica, its proposals in flight and its tasks share.
pub(super) struct Shared {
    pub(super) id: ReplicaId,
    pub(super) log: GroupLog,
    /// The partition's Raft group; the log's number may be another one.
    pub(super) group_id: GroupId,
    /// Its replicas, as the metadata has them.
    pub(super) partition: Mutex<Arc<PartitionImage>>,
    /// Whether this broker is the only one, and has been since it opened the partition.
    pub(super) is_single: AtomicBool,
    /// Whether an empty log may be one in place of another that is gone.
    pub(super) may_have_lost_log: bool,
    /// Whether a task keeps the instance of a replicated partition open.
    pub(super) is_kept_open: AtomicBool,
    pub(super) in_sync: Mutex<InSync>,
    pub(super) environment: Arc<Environment>,
    pub(super) durability: Arc<DurabilityCell>,
    pub(super) settings: Mutex<ReplicaSettings>,
    pub(super) published: Published,
    pub(super) proposer: Mutex<ProposerState>,
    /// Held while the Raft instance is being opened or closed.
    pub(super) changing: tokio::sync::Mutex<()>,
    pub(super) maintenance: Mutex<Maintenance>,
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replica")
            .field("id", &self.shared.id)
            .field("group", &self.shared.group_id)
            .finish_non_exhaustive()
    }
}

impl Replica {
    /// A replica as the index knows it. With a single voter it is dormant; with more it is opened.
    pub(crate) fn new(
        id: ReplicaId,
        partition: PartitionImage,
        may_have_lost_log: bool,
        settings: ReplicaSettings,
        environment: Arc<Environment>,
    ) -> Replica {
        let log = environment.store.group(GroupId(partition.log_id(environment.broker_id)));
        // The metadata here may be old, so the log is asked as well.
        let single_voter = partition.replicas.len() == 1
            && (environment.is_alone
                || votes_alone(&log, partition.node_id(environment.broker_id)));
        let stored_term = log.log_state().vote.map_or(0, |vote| vote.term);
        // A process never goes on in a term of an earlier one: the next election gives this one.
        let epoch = leader_epoch(if single_voter { stored_term + 1 } else { stored_term });
        let offsets = log.offsets();
        let view = View {
            high_watermark: if single_voter {
                offsets.log_end_offset
            } else {
                offsets.log_start_offset
            },
            first_unstable_offset: None,
            leader: single_voter.then_some(environment.broker_id),
            leader_epoch: epoch,
            settled_epoch: if single_voter { epoch } else { LeaderEpoch::UNKNOWN },
        };
        let shared = Arc::new(Shared {
            id,
            group_id: GroupId(partition.group),
            partition: Mutex::new(Arc::new(partition)),
            is_single: AtomicBool::new(single_voter),
            may_have_lost_log,
            is_kept_open: AtomicBool::new(false),
            in_sync: Mutex::default(),
            durability: Arc::new(DurabilityCell::new(settings.durability)),
            settings: Mutex::new(settings),
            published: Published::new(view),
            proposer: Mutex::new(ProposerState::default()),
            changing: tokio::sync::Mutex::default(),
            maintenance: Mutex::default(),
            environment,
            log,
        });
        if !single_voter {
            shared.proposer.lock().phase = Phase::Opening;
            shared.spawn_open();
        }
        Replica { shared }
    }

    /// Queues a validated batch (CRC checked, no control batch). Synchronous: calls in order
    /// append in order. Opens the Raft instance of a dormant partition behind the scenes. Refused
    /// where fewer replicas follow closely than `min.insync.replicas` asks for.
    pub fn append(&self, batch: RecordBatch) -> AppendTicket {
        self.append_if(batch, true)
    }

    /// The same for who is content with the leader (acks 0 and 1), however many replicas follow.
    pub fn append_to_leader(&self, batch: RecordBatch) -> AppendTicket {
        self.append_if(batch, false)
    }

    fn append_if(&self, batch: RecordBatch, needs_followers: bool) -> AppendTicket {
        let ticket = Arc::new(Ticket::default());
        self.shared.append(batch, &ticket, needs_followers);
        AppendTicket { ticket }
    }

    /// Once a batch is committed: waits until as many replicas hold it as `min.insync.replicas`
    /// asks for, where that is more than the majority which has committed it. `false` when too few
    /// follow closely by now (Kafka: NOT_ENOUGH_REPLICAS_AFTER_APPEND).
    pub async fn is_held_by_enough(&self, base_offset: Offset) -> bool {
        self.shared.is_held_by_enough(base_offset).await
    }

    /// Hands leadership over to another replica that follows closely; `false` where that did not
    /// happen.
    pub(crate) async fn hand_over_to(&self, to: BrokerId) -> bool {
        self.shared.hand_over_to(to).await
    }

    /// The offsets, together.
    pub fn offsets(&self) -> ReplicaOffsets {
        self.shared.published.read_with(|view| {
            // Read after the watermark, so the end is never seen behind it.
            let log = self.shared.log.offsets();
            let high_watermark = view.high_watermark.max(log.log_start_offset);
            ReplicaOffsets {
                log_start_offset: log.log_start_offset,
                high_watermark,
                last_stable_offset: view
                    .first_unstable_offset
                    .map_or(high_watermark, |unstable| unstable.min(high_watermark)),
                log_end_offset: log.log_end_offset.max(high_watermark),
                leader_epoch: view.leader_epoch,
            }
        })
    }

    /// Who leads, and who follows closely.
    pub fn leadership(&self) -> Leadership {
        let view = self.shared.published.get();
        let shared = &self.shared;
        let in_sync_replicas = match shared.open_group() {
            Some(group) if !shared.is_single_voter() && shared.is_leader() => {
                shared.in_sync(&group)
            }
            _ => shared.partition().replicas.clone(),
        };
        Leadership { leader: view.leader, leader_epoch: view.leader_epoch, in_sync_replicas }
    }

    /// Whether this broker leads the partition and knows all that was committed before.
    pub fn is_leader(&self) -> bool {
        self.shared.is_leader()
    }

    /// The followers in sync that have all before `offset`, and where their logs end; none where
    /// another broker leads.
    pub fn followers_that_hold(&self, offset: Offset) -> Vec<(BrokerId, Offset)> {
        self.shared.followers_that_hold(offset)
    }

    /// Whether another broker leads the partition, as far as this one knows.
    pub fn is_follower(&self) -> bool {
        let leader = self.shared.published.get().leader;
        leader.is_some_and(|leader| leader != self.shared.environment.broker_id)
    }

    /// Wakes `notify` whenever the high watermark, the last stable offset or the log start moves,
    /// leadership changes, or the partition goes away. Register first, then look at `offsets`.
    pub fn watch_offsets(&self, notify: Arc<Notify>) -> OffsetsWatch {
        self.shared.published.watch(notify)
    }

    /// Blocking where bytes must come from disk: index only, not the record bytes themselves.
    pub fn read(&self, from: Offset, limit: ReadLimit) -> Result<Records, ReadError> {
        self.shared.check_exists()?;
        Ok(self.shared.log.read(from, limit)?)
    }

    /// The first record at or after `timestamp` below `upper_bound`.
    pub fn offset_for_timestamp(
        &self,
        timestamp: Timestamp,
        upper_bound: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        self.shared.check_exists()?;
        Ok(self.shared.log.offset_for_timestamp(timestamp, upper_bound)?)
    }

    /// The record with the largest timestamp below `upper_bound`.
    pub fn offset_of_max_timestamp(
        &self,
        upper_bound: Offset,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        self.shared.check_exists()?;
        Ok(self.shared.log.offset_of_max_timestamp(upper_bound)?)
    }

    /// The first record at or behind `from` and below `upper_bound`, control records aside: when
    /// it was made, and what decides how long it stays. May read a batch from disk.
    pub fn next_record(
        &self,
        from: Offset,
        upper_bound: Offset,
    ) -> Result<Option<NextRecord>, ReadError> {
        self.shared.check_exists()?;
        Ok(self.shared.log.next_record(from, upper_bound)?)
    }

    /// Bytes of records ever appended, whatever was deleted meanwhile: what
    /// [`NextRecord::batch_end_position`] is to be compared with.
    pub fn end_position(&self) -> u64 {
        self.shared.log.end_position()
    }

    /// The largest epoch not above `epoch`, and where the next one begins (KIP-320); `None` when
    /// it is not known. The leader's own epoch counts from its election on, also without a batch
    /// (Kafka: `LeaderEpochFileCache.endOffsetFor`, which a leader feeds when it is elected).
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        let log_end_offset = self.shared.log.offsets().log_end_offset;
        let current = self.shared.published.get().leader_epoch;
        if epoch == current {
            return Some((current, log_end_offset));
        }
        if epoch > current || epoch < LeaderEpoch(0) {
            return None;
        }
        match self.shared.log.latest_epoch() {
            // No batch of a later epoch: it ended where the current one begins, at the log's end.
            Some(latest) if epoch >= latest => Some((latest, log_end_offset)),
            Some(_) => self.shared.log.end_offset_for_epoch(epoch),
            None => Some((epoch, log_end_offset)),
        }
    }

    /// Epoch of the batch at `offset`.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.shared.log.epoch_for_offset(offset)
    }

    /// Raises the log start offset on all replicas (DeleteRecords, compaction of a coordinator's
    /// log); answers when done.
    pub async fn advance_log_start(&self, offset: Offset) -> Result<Offset, AppendError> {
        self.shared.advance_log_start(offset, LogStartCause::Request).await
    }

    /// Bytes of the log on this broker.
    pub fn size_bytes(&self) -> u64 {
        self.shared.log.size_bytes()
    }

    /// Its replicas, as the metadata has them.
    pub(crate) fn partition(&self) -> Arc<PartitionImage> {
        self.shared.partition()
    }

    pub(crate) fn topic_partition(&self) -> (TopicId, PartitionId) {
        (self.shared.id.topic, self.shared.id.partition)
    }

    /// What its log has, committed or not.
    pub(crate) fn log_end(&self) -> LogEnd {
        let state = self.shared.log.log_state();
        LogEnd {
            last: state.last.map_or((0, 0), |id| (id.term, id.index)),
            term: state.vote.map_or(0, |vote| vote.term),
        }
    }

    /// Under which number the store has its log.
    pub(crate) fn log_id(&self) -> GroupId {
        self.shared.log.id()
    }

    /// The metadata has changed: other replicas, or their order.
    pub(crate) fn set_partition(&self, partition: &PartitionImage) {
        self.shared.set_partition(partition);
    }

    /// What this broker reports of the partition, if it leads it.
    pub(crate) fn leader_row(&self) -> Option<LeaderRow> {
        let Leadership { leader, leader_epoch, in_sync_replicas } = self.leadership();
        let leader = leader.filter(|_| self.is_leader())?;
        let group = self.shared.group_id.0;
        Some(LeaderRow { group, leader, leader_epoch, in_sync_replicas, is_over: false })
    }

    /// Whether a node of its group is being caught up at a rate.
    pub(crate) fn is_slowed(&self, node_id: u64) -> bool {
        self.shared.pause(node_id).is_some()
    }

    /// The Raft instance, while it is open.
    pub(crate) fn group(&self) -> Option<RaftGroup> {
        self.shared.open_group()
    }

    pub(crate) fn set_settings(&self, settings: ReplicaSettings) {
        self.shared.durability.set(settings.durability);
        *self.shared.settings.lock() = settings;
        self.shared.maintenance.lock().look_again();
    }

    /// The partition was deleted: everything that waits is refused, the instance is closed.
    pub(crate) async fn remove(&self) {
        self.shared.stop().await;
    }
}

impl Shared {
    pub(super) fn is_single_voter(&self) -> bool {
        self.is_single.load(Ordering::Acquire)
    }

    pub(super) fn partition(&self) -> Arc<PartitionImage> {
        self.partition.lock().clone()
    }

    pub(super) fn is_leader(&self) -> bool {
        let view = self.published.get();
        view.leader == Some(self.environment.broker_id) && view.settled_epoch == view.leader_epoch
    }

    pub(super) fn not_leader(&self) -> AppendError {
        let view = self.published.get();
        let leader = view.leader.filter(|id| *id != self.environment.broker_id);
        AppendError::NotLeader { leader, leader_epoch: view.leader_epoch }
    }

    fn check_exists(&self) -> Result<(), ReadError> {
        match self.proposer.lock().phase {
            Phase::Gone => Err(ReadError::Gone),
            _ => Ok(()),
        }
    }

    pub(super) async fn advance_log_start(
        &self,
        offset: Offset,
        cause: LogStartCause,
    ) -> Result<Offset, AppendError> {
        let before = self.log.offsets().log_start_offset;
        let log_start_offset = self.move_log_start(offset).await?;
        if log_start_offset > before
            && let Some(observer) = self.environment.log_start_observer.get()
        {
            let ReplicaId { topic, partition } = self.id;
            observer(LogStartMoved { topic_id: topic, partition, log_start_offset, cause });
        }
        Ok(log_start_offset)
    }

    async fn move_log_start(&self, offset: Offset) -> Result<Offset, AppendError> {
        if self.check_exists().is_err() {
            return Err(AppendError::Gone);
        }
        if !self.is_leader() {
            return Err(self.not_leader());
        }
        let view = self.published.get();
        let offsets = self.log.offsets();
        if offset > view.high_watermark || offset < Offset::ZERO {
            return Err(AppendError::Storage(StorageError::OffsetOutOfRange {
                requested: offset.0,
                log_start_offset: offsets.log_start_offset.0,
                log_end_offset: view.high_watermark.0,
            }));
        }
        if offset <= offsets.log_start_offset {
            return Ok(offsets.log_start_offset);
        }
        if self.is_single_voter() {
            // Nobody else has to agree, and a dormant partition stays dormant. No entry says it
            // either, so it has to be on disk before the answer goes out.
            let (done, moved) = waiter();
            let log_start_offset = self.raise_log_start(offset, done)?;
            wait(moved).await?;
            self.purge().await;
            return Ok(log_start_offset);
        }
        let Some(group) = self.open_group() else { return Err(self.not_leader()) };
        match group.propose_and_wait(GroupCommand::AdvanceLogStart { offset }).await {
            Ok(Applied::LogStart(result)) => Ok(result?),
            Ok(_) | Err(ProposeError::Stopped) => Err(self.stopped(Some(&group))),
            Err(ProposeError::NotLeader | ProposeError::Discarded) => Err(self.not_leader()),
        }
    }

    pub(super) fn raise_log_start(
        &self,
        offset: Offset,
        done: Completion,
    ) -> Result<Offset, StorageError> {
        self.log.set_log_start_offset(offset, done)?;
        self.published.wake();
        Ok(self.log.offsets().log_start_offset)
    }

    /// Why an append failed whose Raft instance stopped.
    pub(super) fn stopped(&self, group: Option<&RaftGroup>) -> AppendError {
        match group.and_then(RaftGroup::failure) {
            Some(error) => AppendError::Storage(error),
            None => self.not_leader(),
        }
    }
}

/// A term as a leader epoch; a partition does not live to see 2^31 elections.
pub(super) fn leader_epoch(term: u64) -> LeaderEpoch {
    LeaderEpoch(i32::try_from(term).unwrap_or(i32::MAX))
}
