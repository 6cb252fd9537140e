//! A partition in memory, whose leadership can be taken and whose appends can be held or fail.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cluster::replica::ReplicaOffsets;
use cluster::{AppendError, ReadError};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use protocol::record_batch::RecordBatch;
use protocol::types::{LeaderEpoch, Offset};
use tokio::sync::{Notify, oneshot};

use crate::coordinator::runtime::log::{Committed, ShardLog};

#[derive(Clone, Default)]
pub struct MemoryLog {
    inner: Arc<Mutex<Inner>>,
}

/// Base offset and end of an append whose answer is held back.
type Held = (Offset, Offset, oneshot::Sender<Result<Offset, AppendError>>);

#[derive(Default)]
struct Inner {
    batches: Vec<RecordBatch>,
    start: Offset,
    end: Offset,
    committed: Offset,
    leads: bool,
    epoch: i32,
    fails: bool,
    holds: bool,
    held: VecDeque<Held>,
    watchers: Vec<Arc<Notify>>,
}

impl MemoryLog {
    /// An empty log that this broker leads.
    pub fn new() -> MemoryLog {
        let log = MemoryLog::default();
        log.inner.lock().leads = true;
        log
    }

    /// The log that a crash leaves behind after that many batches, its start where it is now.
    pub fn prefix(&self, batch_count: usize) -> MemoryLog {
        let inner = self.inner.lock();
        let batches = inner.batches[..batch_count].to_vec();
        let end = batches.last().map_or(Offset::ZERO, |batch| batch.header().next_offset());
        let inner = Inner { batches, start: inner.start, end, committed: end, ..Inner::default() };
        let log = MemoryLog { inner: Arc::new(Mutex::new(inner)) };
        log.inner.lock().leads = true;
        log
    }

    /// The same log, not yet cut.
    pub fn uncut(&self) -> MemoryLog {
        let log = self.prefix(self.batch_count());
        log.inner.lock().start = Offset::ZERO;
        log
    }

    pub fn batch_count(&self) -> usize {
        self.inner.lock().batches.len()
    }

    /// Batches that lie below the log start.
    pub fn dead_batch_count(&self) -> usize {
        let inner = self.inner.lock();
        inner.batches.iter().filter(|batch| batch.header().next_offset() <= inner.start).count()
    }

    pub fn set_leads(&self, leads: bool) {
        self.change(|inner| {
            inner.leads = leads;
            inner.epoch += i32::from(leads);
        });
    }

    pub fn set_fails(&self, fails: bool) {
        self.change(|inner| inner.fails = fails);
    }

    /// From now on appends are committed by `commit_next` alone.
    pub fn hold(&self) {
        self.change(|inner| inner.holds = true);
    }

    /// Commits the oldest held append; false when there is none.
    pub fn commit_next(&self) -> bool {
        let Some((base, next, done)) = self.inner.lock().held.pop_front() else { return false };
        self.change(|inner| inner.committed = next);
        done.send(Ok(base)).ok();
        true
    }

    /// Fails the oldest held append and those behind it; none of them is in the log.
    pub fn fail_held(&self) {
        let held = self.inner.lock().held.drain(..).collect::<Vec<_>>();
        let Some((first, ..)) = held.first() else { return };
        self.change(|inner| {
            inner.batches.retain(|batch| batch.header().base_offset < *first);
            inner.end = *first;
        });
        for (_, _, done) in held {
            done.send(Err(AppendError::Gone)).ok();
        }
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.inner.lock();
        change(&mut inner);
        inner.watchers.iter().for_each(|watcher| watcher.notify_one());
    }
}

impl ShardLog for MemoryLog {
    fn append(&self, mut batch: RecordBatch) -> Committed {
        let mut inner = self.inner.lock();
        if inner.fails || !inner.leads {
            return std::future::ready(Err(AppendError::NotEnoughReplicas)).boxed();
        }
        batch.place(inner.end, LeaderEpoch(inner.epoch));
        let (base, next) = (inner.end, batch.header().next_offset());
        inner.end = next;
        inner.batches.push(batch);
        if !inner.holds {
            inner.committed = next;
            return std::future::ready(Ok(base)).boxed();
        }
        let (done, committed) = oneshot::channel();
        inner.held.push_back((base, next, done));
        async move { committed.await.unwrap_or(Err(AppendError::Gone)) }.boxed()
    }

    fn offsets(&self) -> ReplicaOffsets {
        let inner = self.inner.lock();
        ReplicaOffsets {
            log_start_offset: inner.start,
            high_watermark: inner.committed,
            last_stable_offset: inner.committed,
            log_end_offset: inner.end,
            leader_epoch: LeaderEpoch(inner.epoch),
        }
    }

    fn is_leader(&self) -> bool {
        self.inner.lock().leads
    }

    fn watch(&self, notify: Arc<Notify>) -> Box<dyn Any + Send> {
        self.inner.lock().watchers.push(notify);
        Box::new(())
    }

    /// Two batches at a time, so that a load takes several reads.
    fn read(&self, from: Offset, upper_bound: Offset) -> Result<Bytes, ReadError> {
        let inner = self.inner.lock();
        let wanted = inner.batches.iter().filter(|batch| {
            let header = batch.header();
            header.next_offset() > from && header.base_offset < upper_bound
        });
        let mut bytes = BytesMut::new();
        wanted.take(2).for_each(|batch| bytes.extend_from_slice(&batch.to_bytes()));
        Ok(bytes.freeze())
    }

    fn advance_log_start(&self, offset: Offset) -> BoxFuture<'static, Result<(), AppendError>> {
        self.change(|inner| inner.start = inner.start.max(offset));
        std::future::ready(Ok(())).boxed()
    }
}
