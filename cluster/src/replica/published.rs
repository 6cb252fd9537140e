//! What a replica shows to the outside, read as one value, and those who wait for it to change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use protocol::types::{BrokerId, LeaderEpoch, Offset};
use tokio::sync::Notify;

/// Leadership and watermarks of a partition on this broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    pub(super) high_watermark: Offset,
    /// Where the oldest open transaction begins, if one is open.
    pub(super) first_unstable_offset: Option<Offset>,
    pub(super) leader: Option<BrokerId>,
    pub(super) leader_epoch: LeaderEpoch,
    /// The last term whose leader has committed an entry.
    pub(super) settled_epoch: LeaderEpoch,
}

/// The published view, and its watchers.
#[derive(Debug)]
pub(super) struct Published {
    view: Mutex<View>,
    watchers: Arc<Watchers>,
}

#[derive(Debug, Default)]
struct Watchers {
    count: AtomicUsize,
    list: Mutex<Vec<Arc<Notify>>>,
}

impl Published {
    pub(super) fn new(view: View) -> Self {
        Published { view: Mutex::new(view), watchers: Arc::default() }
    }

    pub(super) fn get(&self) -> View {
        *self.view.lock()
    }

    /// Reads the view together with something that only grows, so that the two belong together.
    pub(super) fn read_with<T>(&self, read: impl FnOnce(View) -> T) -> T {
        read(*self.view.lock())
    }

    /// Changes the view and wakes the watchers if it is another one.
    pub(super) fn update(&self, change: impl FnOnce(&mut View)) {
        let changed = {
            let mut view = self.view.lock();
            let before = *view;
            change(&mut view);
            before != *view
        };
        if changed {
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        if self.watchers.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        for watcher in self.watchers.list.lock().iter() {
            watcher.notify_one();
        }
    }

    pub(super) fn watch(&self, notify: Arc<Notify>) -> OffsetsWatch {
        self.watchers.list.lock().push(notify.clone());
        self.watchers.count.fetch_add(1, Ordering::SeqCst);
        OffsetsWatch { watchers: self.watchers.clone(), notify }
    }
}

/// Stops waking its `Notify` when dropped.
#[derive(Debug)]
pub struct OffsetsWatch {
    watchers: Arc<Watchers>,
    notify: Arc<Notify>,
}

impl Drop for OffsetsWatch {
    fn drop(&mut self) {
        let mut list = self.watchers.list.lock();
        if let Some(position) = list.iter().position(|n| Arc::ptr_eq(n, &self.notify)) {
            list.swap_remove(position);
            self.watchers.count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
