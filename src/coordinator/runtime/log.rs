//! What a shard needs of its partition. A trait, so that tests can lose the leadership, fail an
//! append, or crash between any two.

use std::any::Any;
use std::sync::Arc;

use bytes::Bytes;
use cluster::replica::{Replica, ReplicaOffsets};
use cluster::{AppendError, ReadError};
use futures::FutureExt;
use futures::future::BoxFuture;
use protocol::record_batch::RecordBatch;
use protocol::types::Offset;
use storage::log_store::ReadLimit;
use tokio::sync::Notify;

use crate::limits::COORDINATOR_LOAD_PIECE_BYTES;

/// Resolves to the offset of the batch's first record once it is committed.
pub(super) type Committed = BoxFuture<'static, Result<Offset, AppendError>>;

/// A partition of the coordinator's topic.
pub(super) trait ShardLog: Send + Sync + 'static {
    /// Queues a batch: calls in order append in order.
    fn append(&self, batch: RecordBatch) -> Committed;

    /// The partition's offsets and epoch, read together.
    fn offsets(&self) -> ReplicaOffsets;

    /// Whether this broker leads, and knows all that was committed before.
    fn is_leader(&self) -> bool;

    /// Wakes `notify` when offsets or leadership change, until the guard is dropped.
    fn watch(&self, notify: Arc<Notify>) -> Box<dyn Any + Send>;

    /// Some whole batches from the one with `from` on, below `upper_bound`. Blocks.
    fn read(&self, from: Offset, upper_bound: Offset) -> Result<Bytes, ReadError>;

    /// Lets go of what lies below.
    fn advance_log_start(&self, offset: Offset) -> BoxFuture<'static, Result<(), AppendError>>;
}

impl ShardLog for Arc<Replica> {
    fn append(&self, batch: RecordBatch) -> Committed {
        let ticket = Replica::append(self, batch);
        async move { Ok(ticket.committed().await?.base_offset) }.boxed()
    }

    fn offsets(&self) -> ReplicaOffsets {
        Replica::offsets(self)
    }

    fn is_leader(&self) -> bool {
        Replica::is_leader(self)
    }

    fn watch(&self, notify: Arc<Notify>) -> Box<dyn Any + Send> {
        Box::new(self.watch_offsets(notify))
    }

    fn read(&self, from: Offset, upper_bound: Offset) -> Result<Bytes, ReadError> {
        let max_bytes = COORDINATOR_LOAD_PIECE_BYTES;
        let limit = ReadLimit { upper_bound, max_bytes, min_one_batch: true };
        Ok(Replica::read(self, from, limit)?.read_to_bytes()?)
    }

    fn advance_log_start(&self, offset: Offset) -> BoxFuture<'static, Result<(), AppendError>> {
        let replica = Arc::clone(self);
        async move { Replica::advance_log_start(&replica, offset).await.map(|_| ()) }.boxed()
    }
}
