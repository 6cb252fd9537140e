//! `Replica`: what the broker sees of a partition: append, read, offsets, leadership.
#![allow(missing_docs, unused_variables)]

use std::sync::Arc;

use protocol::record_batch::RecordBatch;
use protocol::types::{BrokerId, LeaderEpoch, Offset, Timestamp};
use storage::log_store::{ReadLimit, Records, TimestampOffset};
use tokio::sync::Notify;

use crate::{AppendError, ReadError};

/// The partition's offsets, read together (never torn).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaOffsets {
    pub log_start_offset: Offset,
    /// Offsets below are committed: what consumers may see.
    pub high_watermark: Offset,
    /// Offsets below are decided: what read_committed consumers may see.
    pub last_stable_offset: Offset,
    pub log_end_offset: Offset,
    pub leader_epoch: LeaderEpoch,
}

/// Who leads, and who follows closely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leadership {
    pub leader: Option<BrokerId>,
    pub leader_epoch: LeaderEpoch,
    pub in_sync_replicas: Vec<BrokerId>,
}

/// An appended batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    pub base_offset: Offset,
    pub log_start_offset: Offset,
    /// The batch had been appended before (idempotent retry).
    pub duplicate: bool,
}

/// A partition on this broker; cheap to clone as `Arc`.
pub struct Replica {}

/// An append that was queued; its place in the order is fixed.
pub struct AppendTicket {}

impl AppendTicket {
    /// Resolves when the leader has written it (acks=1).
    pub async fn written(self) -> Result<Appended, AppendError> { todo!() }
    /// Resolves when it is committed: synced on a majority (acks=all).
    pub async fn committed(self) -> Result<Appended, AppendError> { todo!() }
}

/// Stops waking its `Notify` when dropped.
pub struct OffsetsWatch {}

// CONTRACT (owner: cluster/replica).
impl Replica {
    /// Queues a validated batch (CRC checked, no control batch). Synchronous: calls in order
    /// append in order. Opens the Raft instance of a dormant partition behind the scenes.
    pub fn append(&self, batch: RecordBatch) -> AppendTicket { todo!() }
    pub fn offsets(&self) -> ReplicaOffsets { todo!() }
    pub fn leadership(&self) -> Leadership { todo!() }
    pub fn is_leader(&self) -> bool { todo!() }
    /// Wakes `notify` whenever the high watermark, the last stable offset or the log start moves,
    /// leadership changes, or the partition goes away. Register first, then look at `offsets`.
    pub fn watch_offsets(&self, notify: Arc<Notify>) -> OffsetsWatch { todo!() }
    /// Blocking where bytes must come from disk: index only, not the record bytes themselves.
    pub fn read(&self, from: Offset, limit: ReadLimit) -> Result<Records, ReadError> { todo!() }
    pub fn offset_for_timestamp(&self, timestamp: Timestamp, upper_bound: Offset) -> Result<Option<TimestampOffset>, ReadError> { todo!() }
    pub fn offset_of_max_timestamp(&self, upper_bound: Offset) -> Result<Option<TimestampOffset>, ReadError> { todo!() }
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> { todo!() }
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> { todo!() }
    /// Raises the log start offset on all replicas (DeleteRecords, retention); answers when done.
    pub async fn advance_log_start(&self, offset: Offset) -> Result<Offset, AppendError> { todo!() }
    /// Bytes of the log on this broker.
    pub fn size_bytes(&self) -> u64 { todo!() }
}
