//! What survives a simulated machine, and its store, whose journal is driven by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use storage::StorageError;
use storage::disk::sim::SimDisk;
use storage::kv::memory::MemoryKv;
use storage::log_store::{LogStore, LogStoreOptions, WriterMode};
use tokio::sync::Notify;

/// Small files and checkpoints, so that a short history goes through many.
const JOURNAL_FILE_BYTES: u64 = 16 << 10;
const CHECKPOINT_BYTES: u64 = 8 << 10;
const TAIL_BYTES: usize = 4 << 10;
/// How long a sync takes on a disk that is well.
const SYNC_MS: u64 = 2;

/// A machine's disks.
pub struct Machine {
    /// The journal's.
    pub disk: SimDisk,
    /// The index's.
    pub kv: Arc<MemoryKv>,
    sync_ms: Arc<AtomicU64>,
}

impl Machine {
    /// A machine with empty disks.
    #[must_use]
    pub fn new(seed: u64) -> Machine {
        Machine {
            disk: SimDisk::new(seed),
            kv: Arc::new(MemoryKv::new()),
            sync_ms: Arc::new(AtomicU64::new(SYNC_MS)),
        }
    }

    /// Has a sync take so much longer; 0 for a disk that is well.
    pub fn slow_down(&self, by_ms: u64) {
        self.sync_ms.store(SYNC_MS + by_ms, Ordering::Relaxed);
    }

    /// Opens the store; a task of the machine that calls writes and syncs what is queued.
    ///
    /// # Errors
    /// As [`LogStore::open`].
    pub fn open_store(&self) -> Result<LogStore, StorageError> {
        let queued = Arc::new(Notify::new());
        let wake = queued.clone();
        let options = LogStoreOptions {
            writer: WriterMode::Manual { wake: Some(Arc::new(move || wake.notify_one())) },
            journal_file_bytes: JOURNAL_FILE_BYTES,
            checkpoint_bytes: CHECKPOINT_BYTES,
            tail_bytes: TAIL_BYTES,
            ..LogStoreOptions::default()
        };
        let store = LogStore::open(options, Arc::new(self.disk.clone()), self.kv.clone())?;
        let (writer, sync_ms) = (store.clone(), self.sync_ms.clone());
        super::spawn(async move {
            loop {
                queued.notified().await;
                tokio::time::sleep(Duration::from_millis(sync_ms.load(Ordering::Relaxed))).await;
                while writer.step() {}
            }
        });
        Ok(store)
    }
}
