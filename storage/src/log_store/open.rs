//! Opening, stepping, checkpointing and closing the store.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::log::GroupLog;
use super::shared::{Shared, StoreStats};
use super::state::Group;
use super::{Completion, GroupId};
use crate::StorageError;
use crate::disk::Disk;
use crate::index::lookup;
use crate::journal::queue::{ControlItem, Item};
use crate::journal::record::{Payload, removed_record};
use crate::journal::recovery::recover;
use crate::journal::writer::Writer;
use crate::kv::KvStore;
use crate::limits;

/// Who drives the journal's writer.
#[derive(Clone)]
pub enum WriterMode {
    /// A thread of its own.
    Thread,
    /// The caller, by [`LogStore::step`]: for simulation.
    Manual {
        /// Called whenever something was queued.
        wake: Option<Arc<dyn Fn() + Send + Sync>>,
    },
}

impl std::fmt::Debug for WriterMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WriterMode::Thread => "Thread",
            WriterMode::Manual { .. } => "Manual",
        })
    }
}

/// How the store is run.
#[derive(Debug, Clone)]
pub struct LogStoreOptions {
    /// Who drives the writer.
    pub writer: WriterMode,
    /// Length at which a journal file is followed by the next.
    pub journal_file_bytes: u64,
    /// Bound of the in-memory tail.
    pub tail_bytes: usize,
    /// Bound of what waits for the writer.
    pub queue_bytes: usize,
    /// Journal bytes between checkpoints.
    pub checkpoint_bytes: u64,
    /// Idleness that leads to a checkpoint.
    pub checkpoint_idle_ms: u64,
    /// Free space below which appends are refused (scaled down on a small disk); 0 for none.
    pub reserve_bytes: u64,
}

impl Default for LogStoreOptions {
    fn default() -> Self {
        LogStoreOptions {
            writer: WriterMode::Thread,
            journal_file_bytes: limits::JOURNAL_FILE_BYTES,
            tail_bytes: limits::TAIL_BYTES,
            queue_bytes: limits::QUEUE_BYTES,
            checkpoint_bytes: limits::CHECKPOINT_BYTES,
            checkpoint_idle_ms: limits::CHECKPOINT_IDLE_MS,
            reserve_bytes: limits::RESERVE_BYTES,
        }
    }
}

enum Mode {
    Thread(Mutex<Option<JoinHandle<()>>>),
    Manual(Box<Mutex<Writer>>),
}

/// What all handles share; the last one to go ends the writer.
pub(crate) struct Handle {
    pub(super) shared: Arc<Shared>,
    mode: Mode,
    _lock: Box<dyn Any + Send + Sync>,
}

/// The store; a cheap handle.
#[derive(Clone)]
pub struct LogStore {
    handle: Arc<Handle>,
}

impl std::fmt::Debug for LogStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").field("stats", &self.stats()).finish()
    }
}

impl Handle {
    /// Queues the removal of a group, which is locked.
    pub(super) fn queue_removal(&self, group: &Arc<Group>, done: Completion) {
        let (header, bytes) = removed_record(group.id.0, 0);
        self.shared.push(Item::Control(ControlItem {
            group: group.clone(),
            header,
            bytes,
            payload: Payload::GroupRemoved(0),
            overlay: 0,
            sync: true,
            done: Some(done),
        }));
    }

    fn end_thread(&self) {
        self.shared.queue.close();
        let Mode::Thread(thread) = &self.mode else { return };
        let Some(thread) = thread.lock().take() else { return };
        // The last handle may go in a completion, on the writer's own thread.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            self.shared.stop("the journal's writer panicked");
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.end_thread();
    }
}

impl LogStore {
    /// Opens the store in a directory and over an index, and brings the index up to date.
    ///
    /// # Errors
    /// `Locked` if another store has the directory, `Io` and `NoSpace` of the disk.
    pub fn open(
        options: LogStoreOptions,
        disk: Arc<dyn Disk>,
        kv: Arc<dyn KvStore>,
    ) -> Result<LogStore, StorageError> {
        let lock = disk.lock().map_err(|error| locked(&error))?;
        Self::open_locked(options, disk, kv, lock)
    }

    fn open_locked(
        options: LogStoreOptions,
        disk: Arc<dyn Disk>,
        kv: Arc<dyn KvStore>,
        lock: Box<dyn Any + Send + Sync>,
    ) -> Result<LogStore, StorageError> {
        let recovered = recover(&*disk, &kv)?;
        tracing::info!(
            replayed_bytes = recovered.replayed_bytes,
            rebuilt = recovered.rebuilt,
            files = recovered.indexer.files.len(),
            "the journal is open"
        );
        let shared = Arc::new(Shared::new(disk, kv, options)?);
        {
            let mut groups = shared.groups.write();
            for (id, row) in lookup::groups(&*shared.kv)? {
                let group = Group::loaded(GroupId(id), row);
                groups.insert(id, Arc::new(group));
            }
        }
        shared.files.insert(recovered.active.number, recovered.active.file.clone());
        shared.stats.set_files(recovered.indexer.files.len());
        let live = recovered.indexer.files.values().map(|usage| usage.live_bytes).sum();
        shared.stats.on_index(0, live);
        let writer = Writer::new(shared.clone(), recovered.active, recovered.indexer);
        let mode = match shared.options.writer {
            WriterMode::Manual { .. } => Mode::Manual(Box::new(Mutex::new(writer))),
            WriterMode::Thread => {
                let thread = std::thread::Builder::new()
                    .name("journal-writer".into())
                    .spawn(move || writer.run())
                    .map_err(|error| StorageError::from_thread(&error))?;
                Mode::Thread(Mutex::new(Some(thread)))
            }
        };
        Ok(LogStore { handle: Arc::new(Handle { shared, mode, _lock: lock }) })
    }

    /// Opens the store in a directory: the journal in `journal/`, the index in `index/`. An index
    /// that cannot be opened is moved aside and rebuilt.
    ///
    /// # Errors
    /// As [`LogStore::open`].
    #[cfg(feature = "rocksdb")]
    pub fn open_dir(path: &Path, options: LogStoreOptions) -> Result<LogStore, StorageError> {
        let (disk, lock) = open_disk(path)?;
        let kv = open_index(path, &*disk)?;
        Self::open_locked(options, disk, kv, lock)
    }

    /// Opens the store in a directory without RocksDB: the index is rebuilt in memory.
    ///
    /// # Errors
    /// As [`LogStore::open`].
    #[cfg(not(feature = "rocksdb"))]
    pub fn open_dir(path: &Path, options: LogStoreOptions) -> Result<LogStore, StorageError> {
        let (disk, lock) = open_disk(path)?;
        Self::open_locked(options, disk, Arc::new(crate::kv::memory::MemoryKv::new()), lock)
    }

    /// The group's log, made empty if it does not exist (nothing is written before the first
    /// append).
    #[must_use]
    pub fn group(&self, id: GroupId) -> GroupLog {
        GroupLog { handle: self.handle.clone(), group: self.handle.shared.group(id) }
    }

    /// Every group that has anything on disk, or queued for it.
    #[must_use]
    pub fn group_ids(&self) -> Vec<GroupId> {
        let groups: Vec<Arc<Group>> = self.handle.shared.groups.read().values().cloned().collect();
        let is_there = |group: &&Arc<Group>| {
            let state = group.lock();
            state.exists && !state.removed
        };
        let mut ids: Vec<GroupId> = groups.iter().filter(is_there).map(|group| group.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Forgets a group: its entries are dead, its files go when nothing else lives in them. Its
    /// number must not be used again.
    pub fn remove_group(&self, id: GroupId, done: Completion) {
        if let Err(error) = self.handle.shared.check_stopped() {
            return done(Err(error));
        }
        self.group(id).remove(done);
    }

    /// Flushes the index so that recovery starts here.
    ///
    /// # Errors
    /// `NoSpace`, or `Stopped`.
    pub fn checkpoint(&self) -> Result<(), StorageError> {
        self.handle.shared.check_stopped()?;
        let (sender, receiver) = mpsc::sync_channel(1);
        self.handle.shared.queue.push(Item::Checkpoint(Box::new(move |result| {
            // Nobody waits any more only if the caller's thread is gone.
            let _ = sender.send(result);
        })));
        if matches!(self.handle.mode, Mode::Manual(_)) {
            while self.step() {}
        }
        receiver.recv().unwrap_or_else(|_| Err(self.handle.shared.stopped_error()))
    }

    /// One round of the writer, when it is driven by hand; `false` when nothing was queued.
    #[must_use]
    pub fn step(&self) -> bool {
        match &self.handle.mode {
            Mode::Manual(writer) => writer.try_lock().is_some_and(|mut writer| writer.round()),
            Mode::Thread(_) => false,
        }
    }

    /// What the writer does after some idleness, when it is driven by hand: checkpoint, let the
    /// in-memory tail go.
    pub fn idle(&self) {
        if let Mode::Manual(writer) = &self.handle.mode
            && let Some(mut writer) = writer.try_lock()
        {
            writer.on_idle();
        }
    }

    /// Whether something waits for the writer.
    #[must_use]
    pub fn has_queued(&self) -> bool {
        !self.handle.shared.queue.is_empty()
    }

    /// Completes what is queued, syncs, checkpoints, and stops the writer. Idempotent.
    ///
    /// # Errors
    /// Of the checkpoint; the journal has everything even then.
    pub fn close(&self) -> Result<(), StorageError> {
        if self.handle.shared.is_closed() {
            return Ok(());
        }
        let result = if self.stopped().is_some() { Ok(()) } else { self.checkpoint() };
        self.handle.shared.set_closed();
        self.handle.end_thread();
        result
    }

    /// `Some(reason)` once the store has stopped for good (a failed sync).
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        self.handle.shared.stopped()
    }

    /// Whether an append of record batches would be taken in now: for callers to whom a refused
    /// append is worse than one that was not tried.
    ///
    /// # Errors
    /// `NoSpace` or `Stopped`.
    pub fn check_space(&self) -> Result<(), StorageError> {
        let shared = &self.handle.shared;
        shared.check_stopped()?;
        shared.space.admit(&*shared.disk, 0)
    }

    /// What the store has counted.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.handle.shared.stats()
    }
}

fn locked(error: &std::io::Error) -> StorageError {
    match error.kind() {
        std::io::ErrorKind::WouldBlock => StorageError::Locked(
            "another broker is running on this directory: its lock is taken".into(),
        ),
        _ => StorageError::Io(format!("cannot lock the directory: {error}")),
    }
}

type LockedDisk = (Arc<dyn Disk>, Box<dyn Any + Send + Sync>);

/// Opens the index, whatever state it is in. It never keeps a broker from starting: a damaged one
/// is moved aside, and on a full disk the index lives in memory until the next start.
#[cfg(feature = "rocksdb")]
fn open_index(path: &Path, disk: &dyn Disk) -> Result<Arc<dyn KvStore>, StorageError> {
    use crate::kv::{memory::MemoryKv, rocks::RocksKv};
    let is_full = |error: &std::io::Error| error.kind() == std::io::ErrorKind::StorageFull;
    let index = path.join("index");
    let opened = match RocksKv::open(&index) {
        Err(error) if is_full(&error) => {
            tracing::warn!(%error, "the disk is full: the reserve is given up to open the index");
            let _ = disk.remove(super::shared::RESERVE_FILE);
            RocksKv::open(&index)
        }
        opened => opened,
    };
    match opened {
        Ok(kv) => Ok(Arc::new(kv)),
        Err(error) if is_full(&error) => {
            tracing::error!(%error, "the disk is full: the index is in memory for this run");
            // It would fall behind a journal of which files are unlinked meanwhile.
            RocksKv::destroy(&index)?;
            Ok(Arc::new(MemoryKv::new()))
        }
        Err(error) => {
            tracing::error!(%error, "the index cannot be opened: rebuilding it");
            let aside = path.join("index.damaged");
            if aside.exists() {
                std::fs::remove_dir_all(&aside)?;
            }
            std::fs::rename(&index, &aside)?;
            Ok(Arc::new(RocksKv::open(&index)?))
        }
    }
}

fn open_disk(path: &Path) -> Result<LockedDisk, StorageError> {
    let journal = path.join("journal");
    let disk: Arc<dyn Disk> = Arc::new(crate::disk::file::FileDisk::open(&journal)?);
    let lock = disk.lock().map_err(|error| match locked(&error) {
        StorageError::Locked(_) => StorageError::Locked(format!(
            "another broker is running on {}: stop it, or choose another directory",
            path.display()
        )),
        other => other,
    })?;
    Ok((disk, lock))
}
