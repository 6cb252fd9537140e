//! What waits for the journal's writer: bounded by bytes, in one order for all groups.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::record::{Payload, RecordHeader};
use crate::log_store::state::Group;
use crate::log_store::{Completion, Durability};
use crate::tail::LogEntry;

/// Something for the writer to do.
pub(crate) enum Item {
    Append(AppendItem),
    Control(ControlItem),
    /// Flush the index once everything before is in it.
    Checkpoint(Completion),
    /// The flush of the index ended.
    Flushed,
}

/// Entries of one group.
pub(crate) struct AppendItem {
    pub(crate) group: Arc<Group>,
    pub(crate) entries: Vec<Arc<LogEntry>>,
    /// Of the group when it was queued: a failed append before it makes it void.
    pub(crate) generation: u64,
    pub(crate) durability: Durability,
    pub(crate) written: Option<Completion>,
    pub(crate) durable: Completion,
}

/// A record that is not an entry.
pub(crate) struct ControlItem {
    pub(crate) group: Arc<Group>,
    pub(crate) header: RecordHeader,
    pub(crate) bytes: Bytes,
    pub(crate) payload: Payload,
    /// Number of the value in the group's overlay, for a state record.
    pub(crate) overlay: u64,
    pub(crate) sync: bool,
    pub(crate) done: Option<Completion>,
}

impl Item {
    /// What it counts for in the queue's bound.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Item::Append(item) => {
                item.entries.iter().map(|entry| entry.memory_bytes()).sum::<usize>()
            }
            Item::Control(item) => item.bytes.len() + 128,
            Item::Checkpoint(_) | Item::Flushed => 0,
        }
    }
}

#[derive(Default)]
struct Inner {
    items: VecDeque<(Item, usize)>,
    bytes: usize,
    closing: bool,
    /// Appends that wait for room.
    waiting: usize,
}

/// See the module.
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    filled: Condvar,
    drained: Condvar,
    bound_bytes: usize,
}

/// What a wait ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waited {
    Items,
    Idle,
    Closing,
}

impl Queue {
    pub(crate) fn new(bound_bytes: usize) -> Queue {
        Queue {
            inner: Mutex::new(Inner::default()),
            filled: Condvar::new(),
            drained: Condvar::new(),
            bound_bytes,
        }
    }

    /// Waits until the queue is below its bound.
    pub(crate) fn wait_for_room(&self) {
        let mut inner = self.inner.lock();
        while inner.bytes >= self.bound_bytes && !inner.closing {
            inner.waiting += 1;
            self.drained.wait(&mut inner);
            inner.waiting -= 1;
        }
    }

    pub(crate) fn push(&self, item: Item) {
        let size = item.size_bytes();
        let mut inner = self.inner.lock();
        inner.bytes += size;
        let was_empty = inner.items.is_empty();
        inner.items.push_back((item, size));
        drop(inner);
        if was_empty {
            self.filled.notify_one();
        }
    }

    /// Takes items for a round: about `round_bytes` of them, one at least if there is one.
    pub(crate) fn take(&self, round_bytes: usize, into: &mut Vec<Item>) {
        let mut inner = self.inner.lock();
        let mut taken = 0;
        while taken < round_bytes {
            let Some((item, size)) = inner.items.pop_front() else { break };
            taken += size;
            into.push(item);
        }
        inner.bytes -= taken;
        if inner.waiting > 0 {
            self.drained.notify_all();
        }
    }

    /// Waits until there is something to do.
    pub(crate) fn wait(&self, idle: Duration) -> Waited {
        let mut inner = self.inner.lock();
        loop {
            if !inner.items.is_empty() {
                return Waited::Items;
            }
            if inner.closing {
                return Waited::Closing;
            }
            if self.filled.wait_for(&mut inner, idle).timed_out() && inner.items.is_empty() {
                return if inner.closing { Waited::Closing } else { Waited::Idle };
            }
        }
    }

    /// Lets the writer end once the queue is empty, and nobody wait for room any more.
    pub(crate) fn close(&self) {
        self.inner.lock().closing = true;
        self.filled.notify_all();
        self.drained.notify_all();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner.lock().items.is_empty()
    }
}
