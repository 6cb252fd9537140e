//! What the callers' side and the writer share: the groups, the queue, counters, free space.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::state::Group;
use super::{GroupId, LogStoreOptions, WriterMode};
use crate::StorageError;
use crate::disk::{Disk, DiskFile};
use crate::journal::file::OpenFiles;
use crate::journal::queue::{Item, Queue};
use crate::kv::KvStore;
use crate::limits;

/// See the module.
pub(crate) struct Shared {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) kv: Arc<dyn KvStore>,
    pub(crate) options: LogStoreOptions,
    pub(crate) groups: RwLock<HashMap<u64, Arc<Group>>>,
    pub(crate) queue: Queue,
    pub(crate) files: OpenFiles,
    pub(crate) space: Space,
    pub(crate) stats: Counters,
    is_stopped: AtomicBool,
    is_closed: AtomicBool,
    stop_reason: Mutex<Option<String>>,
}

impl Shared {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        kv: Arc<dyn KvStore>,
        options: LogStoreOptions,
    ) -> Result<Shared, StorageError> {
        Ok(Shared {
            space: Space::open(&*disk, options.reserve_bytes)?,
            files: OpenFiles::new(disk.clone()),
            queue: Queue::new(options.queue_bytes),
            disk,
            kv,
            options,
            groups: RwLock::default(),
            stats: Counters::default(),
            is_stopped: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            stop_reason: Mutex::new(None),
        })
    }

    /// Stops the store for good. The first reason stays.
    pub(crate) fn stop(&self, reason: &str) {
        let mut slot = self.stop_reason.lock();
        if slot.is_none() {
            tracing::error!(reason, "the store stops: this process has to end");
            *slot = Some(reason.to_owned());
            self.is_stopped.store(true, Ordering::Release);
        }
    }

    pub(crate) fn stopped(&self) -> Option<String> {
        if !self.is_stopped.load(Ordering::Acquire) {
            return None;
        }
        self.stop_reason.lock().clone()
    }

    pub(crate) fn stopped_error(&self) -> StorageError {
        StorageError::Stopped(self.stopped().unwrap_or_default())
    }

    pub(crate) fn check_stopped(&self) -> Result<(), StorageError> {
        if self.is_stopped.load(Ordering::Acquire) {
            return Err(self.stopped_error());
        }
        if self.is_closed() {
            return Err(StorageError::Stopped("it was closed".into()));
        }
        Ok(())
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(crate) fn set_closed(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    pub(crate) fn push(&self, item: Item) {
        self.queue.push(item);
        if let WriterMode::Manual { wake: Some(wake) } = &self.options.writer {
            wake();
        }
    }

    pub(crate) fn find_group(&self, id: u64) -> Option<Arc<Group>> {
        self.groups.read().get(&id).cloned()
    }

    pub(crate) fn group(&self, id: GroupId) -> Arc<Group> {
        if let Some(group) = self.find_group(id.0) {
            return group;
        }
        let mut groups = self.groups.write();
        groups.entry(id.0).or_insert_with(|| Arc::new(Group::empty(id))).clone()
    }

    /// The groups of which a file up to this one says something beside entries, in order.
    pub(crate) fn groups_with_head_up_to(&self, file: u32) -> Vec<u64> {
        let groups = self.groups.read();
        let mut ids: Vec<u64> = groups
            .values()
            .filter(|group| (1..=file).contains(&group.head_file()))
            .map(|group| group.id.0)
            .collect();
        ids.sort_unstable();
        ids
    }

    /// Groups that were not touched since the last checkpoint forget their producers: the index
    /// has them.
    pub(crate) fn let_idle_producers_go(&self) {
        for group in self.groups.read().values() {
            group.let_idle_producers_go();
        }
    }
}

/// The file of the journal's directory that is given up when the disk is full.
pub(super) const RESERVE_FILE: &str = "reserve";

/// Free space on the disk, looked at now and then.
pub(crate) struct Space {
    reserve_bytes: u64,
    refusing: AtomicBool,
    /// A write met a full disk: what giving up the reserve file freed is no room for appends.
    gave_up_reserve: AtomicBool,
    index_stuck: AtomicBool,
    since_check: AtomicU64,
    reserve: Mutex<Option<Arc<dyn DiskFile>>>,
}

impl Space {
    fn open(disk: &dyn Disk, reserve_bytes: u64) -> Result<Space, StorageError> {
        let free = disk.free_bytes()?;
        // A disk of a few MiB, a tmpfs in a test say, is to be of use too.
        let scaled = (free / 16).max(limits::RESERVE_MIN_BYTES.min(free / 4));
        let space = Space {
            reserve_bytes: reserve_bytes.min(scaled),
            refusing: AtomicBool::new(false),
            gave_up_reserve: AtomicBool::new(false),
            index_stuck: AtomicBool::new(false),
            since_check: AtomicU64::new(0),
            reserve: Mutex::new(None),
        };
        space.refresh(disk);
        Ok(space)
    }

    /// Whether an append of so many bytes may be taken in.
    pub(crate) fn admit(&self, disk: &dyn Disk, bytes: u64) -> Result<(), StorageError> {
        let since = self.since_check.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let refusing = self.refusing.load(Ordering::Relaxed);
        if refusing || since >= limits::SPACE_CHECK_BYTES {
            self.refresh(disk);
        }
        if self.refusing.load(Ordering::Relaxed) || self.index_stuck.load(Ordering::Relaxed) {
            return Err(StorageError::NoSpace(format!(
                "less than {} bytes are left on the disk",
                self.reserve_bytes
            )));
        }
        Ok(())
    }

    /// Looks at the disk, and takes or keeps the reserve file if there is room.
    pub(crate) fn refresh(&self, disk: &dyn Disk) {
        self.since_check.store(0, Ordering::Relaxed);
        let free = disk.free_bytes().unwrap_or(0);
        let given_up = match self.gave_up_reserve.load(Ordering::Relaxed) {
            true => limits::RESERVE_FILE_BYTES,
            false => 0,
        };
        // Once refused, appends resume when there is room for some, not at the first free byte.
        let slack = match self.refusing.load(Ordering::Relaxed) {
            true => self.reserve_bytes / 2,
            false => 0,
        };
        let needed = self.reserve_bytes + given_up + slack;
        self.refusing.store(free < needed, Ordering::Relaxed);
        if self.reserve_bytes == 0 || free < 4 * (self.reserve_bytes + limits::RESERVE_FILE_BYTES) {
            return;
        }
        let mut reserve = self.reserve.lock();
        if reserve.is_none() {
            // Best effort: a file system without fallocate has no reserve, only the margin.
            let file = disk.create(RESERVE_FILE).or_else(|_| disk.open(RESERVE_FILE));
            *reserve = file
                .and_then(|file| file.allocate(limits::RESERVE_FILE_BYTES).map(|()| file))
                .inspect_err(|error| tracing::debug!(%error, "no reserve file"))
                .ok();
            self.gave_up_reserve.store(false, Ordering::Relaxed);
        }
    }

    /// The disk is full: appends are refused from now on, the reserve file goes.
    pub(crate) fn on_full(&self, disk: &dyn Disk) {
        self.refusing.store(true, Ordering::Relaxed);
        if self.reserve.lock().take().is_some() {
            self.gave_up_reserve.store(true, Ordering::Relaxed);
        }
        let _ = disk.remove(RESERVE_FILE);
    }

    pub(crate) fn set_index_stuck(&self, stuck: bool) {
        self.index_stuck.store(stuck, Ordering::Relaxed);
    }
}

/// What the store counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) payload_bytes: AtomicU64,
    journal_bytes: AtomicU64,
    rounds: AtomicU64,
    syncs: AtomicU64,
    index_bytes: AtomicU64,
    live_bytes: AtomicU64,
    files: AtomicU64,
    tail_bytes: AtomicU64,
    checkpoints: AtomicU64,
    pub(crate) record_bytes_copied: AtomicU64,
}

/// What the store has counted since it was opened, and how large its parts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreStats {
    /// Payload bytes of appended entries.
    pub appended_bytes: u64,
    /// Bytes written to the journal.
    pub journal_bytes: u64,
    /// Writes to the journal.
    pub round_count: u64,
    /// Syncs of the journal.
    pub sync_count: u64,
    /// Bytes of keys and values written to the index.
    pub index_bytes: u64,
    /// Checkpoints that completed.
    pub checkpoint_count: u64,
    /// Journal files.
    pub journal_file_count: u64,
    /// Journal bytes of entries that are not purged, truncated or removed.
    pub live_bytes: u64,
    /// Memory of entries that the index knows.
    pub tail_bytes: u64,
    /// Memory of what waits for the writer.
    pub queued_bytes: u64,
    /// Groups in memory.
    pub group_count: u64,
    /// Record bytes that were copied in memory: none, on the way in and out.
    pub record_bytes_copied: u64,
    /// Appends are refused for want of space.
    pub is_full: bool,
}

impl Counters {
    pub(crate) fn on_round(&self, bytes: u64) {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.journal_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn on_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn on_index(&self, bytes: u64, live_bytes: u64) {
        self.index_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.live_bytes.store(live_bytes, Ordering::Relaxed);
    }

    pub(crate) fn on_checkpoint(&self) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_files(&self, count: usize) {
        self.files.store(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn set_tail(&self, bytes: usize) {
        self.tail_bytes.store(bytes as u64, Ordering::Relaxed);
    }
}

impl Shared {
    pub(crate) fn stats(&self) -> StoreStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.stats;
        StoreStats {
            appended_bytes: load(&counters.payload_bytes),
            journal_bytes: load(&counters.journal_bytes),
            round_count: load(&counters.rounds),
            sync_count: load(&counters.syncs),
            index_bytes: load(&counters.index_bytes),
            checkpoint_count: load(&counters.checkpoints),
            journal_file_count: load(&counters.files),
            live_bytes: load(&counters.live_bytes),
            tail_bytes: load(&counters.tail_bytes),
            queued_bytes: self.queue.bytes() as u64,
            group_count: self.groups.read().len() as u64,
            record_bytes_copied: load(&counters.record_bytes_copied),
            is_full: self.space.refusing.load(Ordering::Relaxed),
        }
    }
}
