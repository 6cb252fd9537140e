//! The journal's writer: drains the queue, one `writev`, one `fdatasync` if anything needs it,
//! callbacks, then the index. A thread of its own in production, stepped by hand in simulation.
//!
//! A round, in this order: void appends fail; the file is rotated if it is full; all records go
//! out in one write; `written` callbacks; one sync; `durable` callbacks; the index takes in the
//! round as one batch; entries that the index knows may leave memory.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::file::{self, FIRST_RECORD};
use super::queue::{AppendItem, ControlItem, Item, Waited};
use super::record::{HEADER_LEN, Payload, RecordHeader, RecordKind};
use crate::StorageError;
use crate::disk::DiskFile;
use crate::index::indexer::Indexer;
use crate::index::rows::Place;
use crate::limits::{ROUND_BYTES, WRITEBACK_BYTES};
use crate::log_store::shared::Shared;
use crate::log_store::state::Group;
use crate::log_store::{Completion, Durability};
use crate::tail::{LogEntry, Tail};

mod checkpoint;

/// The file that is written to.
pub(crate) struct ActiveFile {
    pub(crate) number: u32,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Where the next record goes.
    pub(crate) position: u64,
    /// Up to where it is known to be synced.
    pub(crate) synced: u64,
    /// Up to where it was synced or the system was asked to begin.
    pub(crate) writeback: u64,
}

impl ActiveFile {
    /// A file of which everything up to `position` is synced.
    pub(crate) fn synced_at(number: u32, file: Arc<dyn DiskFile>, position: u64) -> ActiveFile {
        ActiveFile { number, file, position, synced: position, writeback: position }
    }

    /// Keeps what a later sync has to write small.
    fn start_writeback(&mut self) {
        let len = self.position - self.writeback;
        if len >= WRITEBACK_BYTES {
            self.file.start_writeback(self.writeback, len);
            self.writeback = self.position;
        }
    }

    fn place(&self) -> Place {
        Place { file: self.number, position: self.position as u32 }
    }
}

/// What the index has yet to take in.
enum IndexTask {
    Append { group: Arc<Group>, entries: Vec<Arc<LogEntry>> },
    Control { group: Arc<Group>, payload: Payload, overlay: u64, at: Place, end: Place },
}

/// See the module.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    active: ActiveFile,
    indexer: Indexer,
    tail: Tail,
    backlog: VecDeque<IndexTask>,
    /// The index found no space: its batch waits for another try.
    stuck: bool,
    items: Vec<Item>,
    /// The headers of the round, and where each begins in the file.
    headers: Vec<[u8; HEADER_LEN]>,
    positions: Vec<u32>,
    /// What the index took in with the batch that is not written yet.
    indexed: Vec<(Arc<Group>, Vec<Arc<LogEntry>>)>,
    overlays: Vec<(Arc<Group>, u64)>,
    checkpoints: checkpoint::Checkpoints,
}

fn no_space() -> StorageError {
    StorageError::NoSpace("the journal could not be written".into())
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, active: ActiveFile, indexer: Indexer) -> Writer {
        Writer {
            shared,
            active,
            checkpoints: checkpoint::Checkpoints::new(indexer.covered()),
            indexer,
            tail: Tail::default(),
            backlog: VecDeque::new(),
            stuck: false,
            items: Vec::new(),
            headers: Vec::new(),
            positions: Vec::new(),
            indexed: Vec::new(),
            overlays: Vec::new(),
        }
    }

    /// The body of the writer's thread.
    pub(crate) fn run(mut self) {
        loop {
            match self.shared.queue.wait(self.patience()) {
                Waited::Items => {
                    self.round();
                }
                Waited::Idle => self.on_idle(),
                Waited::Closing => break,
            }
        }
        self.wait_for_flush();
    }

    /// How long nothing has to happen before `on_idle` is called.
    fn patience(&self) -> Duration {
        if self.stuck {
            Duration::from_secs(1)
        } else if self.needs_checkpoint() || self.tail.bytes() > 0 {
            Duration::from_millis(self.shared.options.checkpoint_idle_ms)
        } else {
            Duration::from_secs(3600)
        }
    }

    /// One round; `false` when there was nothing to do.
    pub(crate) fn round(&mut self) -> bool {
        let mut items = std::mem::take(&mut self.items);
        self.shared.queue.take(ROUND_BYTES, &mut items);
        if items.is_empty() {
            self.items = items;
            return false;
        }
        if let Some(reason) = self.shared.stopped() {
            for item in items.drain(..) {
                fail(item, &StorageError::Stopped(reason.clone()));
            }
            self.items = items;
            return true;
        }
        let mut checkpoint = Vec::new();
        let mut records = Vec::with_capacity(items.len());
        for item in items.drain(..) {
            match item {
                Item::Checkpoint(done) => checkpoint.push(done),
                Item::Flushed => self.on_flushed(),
                Item::Append(append) if append.generation != append.group.generation() => {
                    fail(Item::Append(append), &no_space());
                }
                item => records.push(item),
            }
        }
        self.items = items;
        self.write_round(records);
        self.index_round();
        self.after_round(checkpoint);
        true
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn indexer(&self) -> &Indexer {
        &self.indexer
    }

    pub(crate) fn indexer_mut(&mut self) -> &mut Indexer {
        &mut self.indexer
    }

    /// Whether the index lacks something that the journal has.
    pub(crate) fn is_behind(&self) -> bool {
        self.stuck || !self.backlog.is_empty()
    }

    /// What the last flush of the index covers.
    pub(crate) fn flushed(&self) -> Place {
        self.checkpoints.flushed()
    }

    pub(crate) fn active_number(&self) -> u32 {
        self.active.number
    }

    /// Where the next record goes.
    pub(crate) fn next_place(&self) -> Place {
        self.active.place()
    }

    /// The header as it goes into the active file.
    pub(crate) fn stamp(&self, header: RecordHeader) -> RecordHeader {
        RecordHeader { synced: self.active.synced as u32, file: self.active.number, ..header }
    }

    /// Writes records of the store's own, and syncs.
    pub(crate) fn write_and_sync(
        &mut self,
        slices: &[IoSlice<'_>],
        end: u64,
    ) -> Result<(), StorageError> {
        self.write_slices(slices, end)?;
        self.sync_or_stop()
    }

    fn write_round(&mut self, mut records: Vec<Item>) {
        if records.is_empty() {
            return;
        }
        let written = match self.rotate_if_full() {
            Ok(()) => self.write(&records),
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => {}
            Err(StorageError::NoSpace(reason)) => {
                tracing::warn!(reason, "the disk is full: appends are refused");
                records = self.on_full(records);
            }
            Err(error) => {
                self.shared.stop(&format!("a write to the journal failed: {error}"));
                let error = self.shared.stopped_error();
                records.drain(..).for_each(|item| fail(item, &error));
            }
        }
        self.complete(records);
    }

    /// The disk is full: the reserve is given up, and what may use it tries again without the
    /// appends, whose entries are taken out of their groups.
    fn on_full(&mut self, records: Vec<Item>) -> Vec<Item> {
        self.shared.space.on_full(&*self.shared.disk);
        let mut controls = Vec::new();
        for item in records {
            match item {
                Item::Append(append) if append.generation != append.group.generation() => {
                    fail(Item::Append(append), &no_space());
                }
                Item::Append(append) => {
                    if let Some(first) = append.entries.first() {
                        append.group.rollback(first);
                    }
                    fail(Item::Append(append), &no_space());
                }
                item => controls.push(item),
            }
        }
        if controls.is_empty() {
            return controls;
        }
        match self.write(&controls) {
            Ok(()) => controls,
            Err(error) => {
                if !matches!(error, StorageError::NoSpace(_)) {
                    self.shared.stop(&format!("a write to the journal failed: {error}"));
                }
                controls.into_iter().for_each(|item| fail(item, &error));
                Vec::new()
            }
        }
    }

    fn rotate_if_full(&mut self) -> Result<(), StorageError> {
        if self.active.position < self.shared.options.journal_file_bytes {
            return Ok(());
        }
        // What an older file holds is always synced: a torn tail is in the last file only.
        self.sync()?;
        let number = self.active.number + 1;
        let file = file::create(&*self.shared.disk, number)?;
        self.shared.files.insert(number, file.clone());
        self.active = ActiveFile::synced_at(number, file, FIRST_RECORD);
        self.indexer.add_file(number);
        self.indexer.set_synced(self.active.place());
        self.shared.stats.set_files(self.indexer.files.len());
        Ok(())
    }

    /// Writes the records at the end of the file, or none of them.
    fn write(&mut self, records: &[Item]) -> Result<(), StorageError> {
        let mut headers = std::mem::take(&mut self.headers);
        headers.clear();
        self.positions.clear();
        let end = place_records(records, &self.active, &mut headers, &mut self.positions);
        let mut slices = Vec::with_capacity(headers.len() * 3);
        let mut headers_left = headers.iter();
        for item in records {
            match item {
                Item::Append(append) => {
                    for (entry, header) in append.entries.iter().zip(&mut headers_left) {
                        slices.push(IoSlice::new(header));
                        push_entry(entry, &mut slices);
                    }
                }
                Item::Control(control) => {
                    slices.extend(headers_left.next().map(|header| IoSlice::new(header)));
                    slices.push(IoSlice::new(&control.bytes));
                }
                Item::Checkpoint(_) | Item::Flushed => {}
            }
        }
        slices.retain(|slice| !slice.is_empty());
        let written = self.write_slices(&slices, end);
        drop(slices);
        self.headers = headers;
        written
    }

    /// Writes up to `end`, or nothing.
    fn write_slices(&mut self, slices: &[IoSlice<'_>], end: u64) -> Result<(), StorageError> {
        let start = self.active.position;
        match self.active.file.write_at(start, slices) {
            Ok(()) => {
                self.active.position = end;
                self.shared.stats.on_round(end - start);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                // No part of the round may stay, else a replay would find it.
                self.active.file.truncate(start).map_err(|error| {
                    StorageError::Io(format!("cannot cut off a failed write: {error}"))
                })?;
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        if self.active.synced == self.active.position {
            return Ok(());
        }
        self.shared.stats.on_sync();
        // A failed sync is final: the kernel may have dropped the pages.
        self.active.file.sync_data().map_err(|error| StorageError::Io(format!("sync: {error}")))?;
        self.active.synced = self.active.position;
        self.active.writeback = self.active.position;
        self.indexer.set_synced(self.active.place());
        Ok(())
    }

    /// Calls back for what was written, syncs, calls back for what is durable.
    fn complete(&mut self, records: Vec<Item>) {
        let mut position = 0;
        let mut durable = Vec::with_capacity(records.len());
        let mut needs_sync = false;
        for item in records {
            match item {
                Item::Append(append) => {
                    let AppendItem { group, entries, durability, written, durable: done, .. } =
                        append;
                    if let Some(written) = written {
                        written(Ok(()));
                    }
                    match durability {
                        Durability::Os => done(Ok(())),
                        Durability::Fsync => {
                            needs_sync = true;
                            durable.push(done);
                        }
                    }
                    position += entries.len();
                    self.backlog.push_back(IndexTask::Append { group, entries });
                }
                Item::Control(control) => {
                    let ControlItem { group, header, payload, overlay, sync, done, .. } = control;
                    needs_sync |= sync;
                    durable.extend(done);
                    let at = self.positions[position];
                    let at = Place { file: self.active.number, position: at };
                    let behind = at.position + header.size_bytes() as u32;
                    let end = Place { file: at.file, position: behind };
                    position += 1;
                    self.backlog.push_back(IndexTask::Control { group, payload, overlay, at, end });
                }
                Item::Checkpoint(_) | Item::Flushed => {}
            }
        }
        let result = if needs_sync { self.sync_or_stop() } else { Ok(()) };
        self.active.start_writeback();
        for done in durable {
            done(result.clone());
        }
    }

    fn sync_or_stop(&mut self) -> Result<(), StorageError> {
        self.sync().map_err(|error| {
            self.shared.stop(&format!("the journal could not be synced: {error}"));
            self.shared.stopped_error()
        })
    }

    /// The index takes in what was written. No space there is not fatal: the journal has it all,
    /// and memory is bounded because appends are refused meanwhile.
    fn index_round(&mut self) {
        if self.shared.stopped().is_some() {
            return;
        }
        let result = self.apply_backlog().and_then(|()| self.indexer.flush_batch());
        match result {
            Ok(bytes) => {
                self.set_stuck(false);
                self.shared.stats.on_index(bytes, self.live_bytes());
            }
            Err(StorageError::NoSpace(reason)) => {
                tracing::warn!(reason, "the index has no space: it will catch up");
                self.shared.space.on_full(&*self.shared.disk);
                self.set_stuck(true);
                return;
            }
            Err(error) => {
                self.shared.stop(&format!("the index failed: {error}"));
                return;
            }
        }
        for (group, entries) in self.indexed.drain(..) {
            for entry in entries {
                self.tail.push(group.clone(), entry);
            }
        }
        self.tail.shrink_to(self.shared.options.tail_bytes);
        self.shared.stats.set_tail(self.tail.bytes());
        for (group, overlay) in self.overlays.drain(..) {
            group.forget_overlay(overlay);
        }
    }

    fn set_stuck(&mut self, stuck: bool) {
        self.stuck = stuck;
        self.shared.space.set_index_stuck(stuck);
    }

    fn apply_backlog(&mut self) -> Result<(), StorageError> {
        if self.stuck {
            self.indexer.flush_batch()?;
        }
        while let Some(task) = self.backlog.pop_front() {
            match &task {
                IndexTask::Append { group, entries } => {
                    for entry in entries {
                        let place = entry.place();
                        self.indexer.append(group.id.0, &entry.row, place)?;
                        let position = place.position + entry.row.journal_bytes() as u32;
                        self.indexer.cover(Place { file: place.file, position });
                    }
                }
                IndexTask::Control { group, payload, at, .. } => {
                    if let Err(error) = self.indexer.control(group.id.0, payload, *at) {
                        // It changed nothing before its first flush, which is what failed.
                        self.backlog.push_front(task);
                        return Err(error);
                    }
                }
            }
            match task {
                IndexTask::Append { group, entries } => {
                    self.indexed.push((group, entries));
                }
                IndexTask::Control { group, overlay, end, .. } => {
                    self.indexer.cover(end);
                    let row = self.indexer.row(group.id.0)?;
                    // A removed group has a tombstone instead of a head.
                    let head = if row.removed.is_some() { 0 } else { row.head_file };
                    group.set_head_file(head);
                    self.overlays.push((group, overlay));
                }
            }
        }
        Ok(())
    }

    fn live_bytes(&self) -> u64 {
        self.indexer.files.values().map(|usage| usage.live_bytes).sum()
    }
}

/// Gives each record its header and each entry its place; where the file ends then.
fn place_records(
    records: &[Item],
    active: &ActiveFile,
    headers: &mut Vec<[u8; HEADER_LEN]>,
    positions: &mut Vec<u32>,
) -> u64 {
    let mut position = active.position;
    let synced = active.synced.min(u64::from(u32::MAX)) as u32;
    for item in records {
        match item {
            Item::Append(append) => {
                for entry in &append.entries {
                    let row = &entry.row;
                    let kind = match row.opaque_kind {
                        Some(_) => RecordKind::AppendOpaque,
                        None => RecordKind::AppendBatches,
                    };
                    let opaque = row.opaque_kind.and(entry.bodies.first());
                    let header = RecordHeader {
                        flag: row.opaque_kind.unwrap_or(0),
                        payload_length: row.size_bytes,
                        index: row.id.index,
                        term: row.id.term,
                        base_offset: row.base_offset,
                        offset_count: (row.next_offset - row.base_offset) as u32,
                        payload_crc: opaque.map_or(0, |bytes: &Bytes| crc32c::crc32c(bytes)),
                        synced,
                        file: active.number,
                        ..RecordHeader::new(kind, append.group.id.0)
                    };
                    headers.push(header.encode());
                    positions.push(position as u32);
                    entry.set_place(Place { file: active.number, position: position as u32 });
                    position += header.size_bytes();
                }
            }
            Item::Control(control) => {
                let header = RecordHeader { synced, file: active.number, ..control.header };
                headers.push(header.encode());
                positions.push(position as u32);
                position += header.size_bytes();
            }
            Item::Checkpoint(_) | Item::Flushed => {}
        }
    }
    position
}

/// The bytes of an entry, by reference.
fn push_entry<'a>(entry: &'a LogEntry, slices: &mut Vec<IoSlice<'a>>) {
    if entry.row.opaque_kind.is_some() {
        slices.extend(entry.bodies.iter().map(|bytes| IoSlice::new(bytes)));
        return;
    }
    let heads = entry.heads.chunks(crate::index::rows::HEAD);
    for (head, body) in heads.zip(entry.bodies.iter()) {
        slices.push(IoSlice::new(head));
        slices.push(IoSlice::new(body));
    }
}

/// Calls back with an error.
fn fail(item: Item, error: &StorageError) {
    let call = |done: Option<Completion>| {
        if let Some(done) = done {
            done(Err(error.clone()));
        }
    };
    match item {
        Item::Append(append) => {
            call(append.written);
            call(Some(append.durable));
        }
        Item::Control(control) => call(control.done),
        Item::Checkpoint(done) => call(Some(done)),
        Item::Flushed => {}
    }
}
