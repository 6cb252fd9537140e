//! Checkpoints: the index is flushed, so that a start replays no more than what came after.
//!
//! The flush runs beside the rounds, on a thread that lives as long as it does (inline when the
//! writer is stepped by hand). Journal files in which nothing lives are unlinked behind it.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use super::Writer;
use crate::StorageError;
use crate::index::rows::Place;
use crate::log_store::{Completion, WriterMode};

/// What is known of past and running checkpoints.
pub(crate) struct Checkpoints {
    /// What the last flush covers.
    flushed: Place,
    /// Where the journal was when the last one began.
    begun: Place,
    /// Journal bytes since the last one began.
    running: Option<Running>,
    /// Wait for the next one.
    waiting: Vec<Completion>,
    /// Something died that could be unlinked after a checkpoint.
    files_died: bool,
}

struct Running {
    covered: Place,
    done: Vec<Completion>,
    result: Arc<Mutex<Option<Result<(), StorageError>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpoints {
    pub(crate) fn new(covered: Place) -> Checkpoints {
        Checkpoints {
            flushed: covered,
            begun: covered,
            running: None,
            waiting: Vec::new(),
            files_died: false,
        }
    }

    /// What the last flush covers.
    pub(crate) fn flushed(&self) -> Place {
        self.flushed
    }
}

impl Writer {
    /// Whether the journal has anything that a start would replay.
    pub(super) fn needs_checkpoint(&self) -> bool {
        self.checkpoints.begun != self.indexer.covered() || self.checkpoints.files_died
    }

    /// Journal bytes since the last checkpoint began; other files count whole.
    fn bytes_to_replay(&self) -> u64 {
        let begun = self.checkpoints.begun;
        if begun.file == self.active.number {
            return self.active.position.saturating_sub(u64::from(begun.position));
        }
        let files = u64::from(self.active.number - begun.file) - 1;
        let first = self.shared.options.journal_file_bytes.saturating_sub(begun.position.into());
        first + files * self.shared.options.journal_file_bytes + self.active.position
    }

    /// Nothing happened for a while: the index is brought to disk, the tail let go (the page
    /// cache has its bytes), and what groups keep for their next append.
    pub(crate) fn on_idle(&mut self) {
        self.index_round();
        if self.needs_checkpoint() && !self.stuck {
            self.begin_checkpoint(Vec::new());
        }
        if !self.stuck {
            self.shared.let_idle_producers_go();
            self.tail.shrink_to(0);
            self.shared.stats.set_tail(0);
        }
        self.shared.space.refresh(&*self.shared.disk);
    }

    pub(super) fn after_round(&mut self, asked: Vec<Completion>) {
        let active = self.active.number;
        let flushed = self.checkpoints.flushed;
        // Each file that dies is worth a checkpoint, lest space is missing until the next one.
        self.checkpoints.files_died = self.indexer.files.iter().any(|(&file, usage)| {
            file < active && usage.live_bytes == 0 && usage.dead_since > flushed
        });
        let due = self.bytes_to_replay() >= self.shared.options.checkpoint_bytes;
        if !asked.is_empty() || ((due || self.checkpoints.files_died) && !self.stuck) {
            self.begin_checkpoint(asked);
        }
    }

    pub(super) fn begin_checkpoint(&mut self, asked: Vec<Completion>) {
        self.checkpoints.waiting.extend(asked);
        if self.checkpoints.running.is_some() {
            return;
        }
        let done = std::mem::take(&mut self.checkpoints.waiting);
        match self.prepare_checkpoint() {
            Ok(()) => self.flush(done),
            Err(error) => {
                if !matches!(error, StorageError::NoSpace(_) | StorageError::Stopped(_)) {
                    self.shared.stop(&format!("a checkpoint failed: {error}"));
                }
                done.into_iter().for_each(|done| done(Err(error.clone())));
            }
        }
    }

    fn prepare_checkpoint(&mut self) -> Result<(), StorageError> {
        if let Some(reason) = self.shared.stopped() {
            return Err(StorageError::Stopped(reason));
        }
        if self.stuck {
            return Err(StorageError::NoSpace("the index is waiting for space".into()));
        }
        // The index on disk must never know more than the journal on disk.
        self.sync_or_stop()?;
        self.shared.let_idle_producers_go();
        for id in self.indexer.dirty_groups() {
            let Some(group) = self.shared.find_group(id) else { continue };
            if let Some((last, bytes)) = group.producers_to_save(&*self.shared.kv)? {
                self.indexer.put_producers(id, last.index, last.term, &bytes);
            }
        }
        let bytes = self.indexer.close_rows()?;
        self.shared.stats.on_index(bytes, self.live_bytes());
        self.checkpoints.begun = self.indexer.covered();
        Ok(())
    }

    fn flush(&mut self, done: Vec<Completion>) {
        let result = Arc::new(Mutex::new(None));
        let covered = self.checkpoints.begun;
        let inline = matches!(self.shared.options.writer, WriterMode::Manual { .. });
        let thread = if inline {
            *result.lock() = Some(self.shared.kv.flush().map_err(StorageError::from));
            None
        } else {
            let (shared, result) = (self.shared.clone(), result.clone());
            let run = move || {
                *result.lock() = Some(shared.kv.flush().map_err(StorageError::from));
                shared.queue.push(super::Item::Flushed);
            };
            match std::thread::Builder::new().name("index-flush".into()).spawn(run) {
                Ok(thread) => Some(thread),
                Err(error) => {
                    done.into_iter().for_each(|done| done(Err(StorageError::from_thread(&error))));
                    return;
                }
            }
        };
        self.checkpoints.running = Some(Running { covered, done, result, thread });
        if inline {
            self.on_flushed();
        }
    }

    /// The flush ended: files may go, and who waited is told.
    pub(super) fn on_flushed(&mut self) {
        let Some(mut running) = self.checkpoints.running.take() else { return };
        if let Some(thread) = running.thread.take()
            && thread.join().is_err()
        {
            self.shared.stop("the flush of the index panicked");
        }
        let result = running.result.lock().take().unwrap_or(Ok(()));
        match &result {
            Ok(()) => {
                self.checkpoints.flushed = running.covered;
                self.shared.stats.on_checkpoint();
                self.reclaim_or_stop();
            }
            Err(StorageError::NoSpace(reason)) => {
                tracing::warn!(reason, "the index could not be flushed for want of space");
                self.shared.space.on_full(&*self.shared.disk);
                // It is due again at once, or when the store idles.
                self.checkpoints.begun = self.checkpoints.flushed;
            }
            Err(error) => self.shared.stop(&format!("the index could not be flushed: {error}")),
        }
        running.done.into_iter().for_each(|done| done(result.clone()));
        if !self.checkpoints.waiting.is_empty() {
            self.begin_checkpoint(Vec::new());
        }
    }

    fn reclaim_or_stop(&mut self) {
        match self.reclaim() {
            Ok(()) => {}
            Err(StorageError::NoSpace(reason)) => {
                tracing::warn!(reason, "no space to free space: waiting");
            }
            Err(error) => self.shared.stop(&format!("journal files could not be freed: {error}")),
        }
    }

    /// Waits for a running flush; its callers are told.
    pub(super) fn wait_for_flush(&mut self) {
        while self.checkpoints.running.is_some() {
            self.on_flushed();
        }
    }
}
