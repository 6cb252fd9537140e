//! The newest entries of all groups in memory, as the very bytes that went to the journal, for
//! replication, apply and consumers near the log's end.
//!
//! A group holds its entries in order (`GroupState::recent`); those that the journal's writer has
//! not yet put into the index must stay, those behind it stay until the store as a whole holds
//! more than its bound. Then the oldest goes, whichever group it is of: constant time, no search.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use protocol::record_batch::RecordBatch;

use crate::StorageError;
use crate::index::rows::{EntryRow, HEAD, Mark, Place};
use crate::log_store::state::Group;
use crate::log_store::{Entry, EntryBody};

/// An entry in memory.
#[derive(Debug)]
pub(crate) struct LogEntry {
    /// What the index will say of it, but for its place.
    pub(crate) row: EntryRow,
    /// What was true before it.
    pub(crate) before: Mark,
    /// The heads of its batches, one behind the other, patched with offset and epoch.
    pub(crate) heads: Bytes,
    /// The bodies of its batches, or its opaque bytes.
    pub(crate) bodies: Box<[Bytes]>,
    /// Where the writer put it, packed; 0 before.
    place: AtomicU64,
}

impl LogEntry {
    pub(crate) fn new(row: EntryRow, before: Mark, heads: Bytes, bodies: Box<[Bytes]>) -> LogEntry {
        LogEntry { row, before, heads, bodies, place: AtomicU64::new(0) }
    }

    pub(crate) fn set_place(&self, place: Place) {
        self.place.store(place.pack(), Ordering::Release);
    }

    pub(crate) fn place(&self) -> Place {
        Place::unpack(self.place.load(Ordering::Acquire))
    }

    /// The head of batch `at`.
    pub(crate) fn head(&self, at: usize) -> Bytes {
        self.heads.slice(at * HEAD..(at + 1) * HEAD)
    }

    /// Memory that it holds, roughly.
    pub(crate) fn memory_bytes(&self) -> usize {
        const BATCH_OVERHEAD: usize = 72 + HEAD;
        self.row.size_bytes as usize + self.row.batches.len() * BATCH_OVERHEAD + 256
    }

    /// The entry as its caller knows it.
    pub(crate) fn to_entry(&self) -> Result<Entry, StorageError> {
        let body = match self.row.opaque_kind {
            Some(kind) => {
                EntryBody::Opaque { kind, bytes: self.bodies.first().cloned().unwrap_or_default() }
            }
            None => {
                let mut batches = Vec::with_capacity(self.bodies.len());
                for (at, body) in self.bodies.iter().enumerate() {
                    let mut head = [0; HEAD];
                    head.copy_from_slice(&self.heads[at * HEAD..(at + 1) * HEAD]);
                    let batch = RecordBatch::from_parts(head, body.clone())
                        .map_err(|error| StorageError::Corrupt(error.to_string()))?;
                    batches.push(batch);
                }
                EntryBody::Batches(batches)
            }
        };
        Ok(Entry { id: self.row.id, body })
    }
}

/// The order in which entries of all groups leave memory. Owned by the writer.
#[derive(Default)]
pub(crate) struct Tail {
    order: VecDeque<(Arc<Group>, Arc<LogEntry>)>,
    bytes: usize,
}

impl Tail {
    /// Takes in an entry that the index knows, so that it may go.
    pub(crate) fn push(&mut self, group: Arc<Group>, entry: Arc<LogEntry>) {
        self.bytes += entry.memory_bytes();
        self.order.push_back((group, entry));
    }

    /// Memory held by entries that may go.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lets the oldest go until no more than `bound_bytes` are held.
    pub(crate) fn shrink_to(&mut self, bound_bytes: usize) {
        while self.bytes > bound_bytes {
            let Some((group, entry)) = self.order.pop_front() else { break };
            self.bytes -= entry.memory_bytes();
            group.forget(&entry);
        }
        if self.order.is_empty() {
            self.order.shrink_to(64);
        }
    }
}
