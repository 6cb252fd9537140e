//! A group in memory: what the callers' side knows, ahead of the journal and the index.
//!
//! The row runs ahead of the index's: it includes what is queued. Entries that the index does not
//! know are all in `recent`, so everything that was appended can be read at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::{Mutex, MutexGuard};
use protocol::types::{LeaderEpoch, Offset};

use super::{Entry, EntryBody, EntryId, GroupId};
use crate::StorageError;
use crate::index::lookup;
use crate::index::rows::{BatchMeta, EntryRow, GroupRow, HEAD, Mark, Place};
use crate::journal::record::HEADER_LEN;
use crate::kv::KvStore;
use crate::producer_state::ProducerState;
use crate::tail::LogEntry;

/// See the module.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) id: GroupId,
    state: Mutex<GroupState>,
    /// Raised when a failed append took entries back: what is queued behind it is void.
    generation: AtomicU64,
    /// Mirror of the index's row, for the cleaner.
    head_file: AtomicU32,
    /// Entries before this index were announced to the disk by a catch-up reader.
    pub(crate) read_ahead: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct GroupState {
    pub(crate) row: GroupRow,
    /// The newest entries, without gaps, up to the last.
    pub(crate) recent: VecDeque<Arc<LogEntry>>,
    /// The producers as of the last entry; `None` until somebody asks.
    producers: Option<Box<ProducerState>>,
    /// The last entry that a snapshot of the producers was saved at.
    producers_saved: Option<EntryId>,
    /// The producers at the log's start, until the index has them.
    start_producers: Option<(u64, EntryId, Bytes)>,
    /// Raised whenever entries go, so that a reader of the index notices.
    pub(crate) version: u64,
    /// Values that the index does not have yet.
    overlay: Vec<(u64, Box<[u8]>, Bytes)>,
    overlay_count: u64,
    pub(crate) removed: bool,
    /// Something was written, ever.
    pub(crate) exists: bool,
}

impl Group {
    pub(crate) fn empty(id: GroupId) -> Group {
        Group {
            id,
            state: Mutex::new(GroupState::default()),
            generation: AtomicU64::new(0),
            head_file: AtomicU32::new(0),
            read_ahead: AtomicU64::new(0),
        }
    }

    pub(crate) fn loaded(id: GroupId, row: GroupRow) -> Group {
        let group = Group::empty(id);
        let removed = row.removed.is_some();
        group.set_head_file(if removed { 0 } else { row.head_file });
        *group.state.lock() = GroupState { row, removed, exists: true, ..GroupState::default() };
        group
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock()
    }

    /// Locks, unless the group was removed.
    pub(crate) fn lock_alive(&self) -> Result<MutexGuard<'_, GroupState>, StorageError> {
        let state = self.state.lock();
        if state.removed { Err(StorageError::GroupGone(self.id.0)) } else { Ok(state) }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn head_file(&self) -> u32 {
        self.head_file.load(Ordering::Relaxed)
    }

    pub(crate) fn set_head_file(&self, file: u32) {
        self.head_file.store(file, Ordering::Relaxed);
    }

    /// Takes back an entry that could not be written, and all behind it.
    pub(crate) fn rollback(&self, first: &LogEntry) {
        let mut state = self.state.lock();
        self.generation.fetch_add(1, Ordering::AcqRel);
        let keep = state.recent.partition_point(|entry| entry.row.id.index < first.row.id.index);
        state.recent.truncate(keep);
        state.row.on_truncate(first.before);
        state.on_entries_gone();
    }

    /// The index knows this entry: it may leave memory, if it is the oldest there.
    pub(crate) fn forget(&self, entry: &Arc<LogEntry>) {
        let mut state = self.state.lock();
        if state.recent.front().is_some_and(|front| Arc::ptr_eq(front, entry)) {
            state.recent.pop_front();
            if state.recent.is_empty() {
                state.recent.shrink_to_fit();
            }
        }
    }

    /// The index has this value.
    pub(crate) fn forget_overlay(&self, number: u64) {
        if number != 0 {
            let mut state = self.state.lock();
            state.overlay.retain(|(known, _, _)| *known != number);
            if state.start_producers.as_ref().is_some_and(|(known, _, _)| *known == number) {
                state.start_producers = None;
            }
        }
    }

    /// A snapshot of the producers as of the last entry, if the index lacks it.
    pub(crate) fn producers_to_save(
        &self,
        kv: &dyn KvStore,
    ) -> Result<Option<(EntryId, Bytes)>, StorageError> {
        let mut state = self.state.lock();
        let Some(last) = state.row.end.id else { return Ok(None) };
        if state.removed || state.row.is_empty() || state.producers_saved == Some(last) {
            return Ok(None);
        }
        let bytes = self.producers(&mut state, kv)?.encode();
        state.producers_saved = Some(last);
        Ok(Some((last, bytes)))
    }

    /// Nothing came since the last snapshot of the producers: the index has them.
    pub(crate) fn let_idle_producers_go(&self) {
        let Some(mut state) = self.state.try_lock() else { return };
        if state.producers_saved.is_some() && state.producers_saved == state.row.end.id {
            state.producers = None;
        }
    }

    /// The producers as of the last entry.
    pub(crate) fn producers<'a>(
        &self,
        state: &'a mut GroupState,
        kv: &dyn KvStore,
    ) -> Result<&'a mut ProducerState, StorageError> {
        if state.producers.is_none() {
            let loaded = match state.row.end.id {
                Some(last) => self.producers_at(state, kv, last.index)?,
                None => ProducerState::default(),
            };
            state.producers = Some(Box::new(loaded));
        }
        Ok(state.producers.get_or_insert_default())
    }

    /// The producers as of entry `index`: the newest snapshot before it, and what came since.
    pub(crate) fn producers_at(
        &self,
        state: &GroupState,
        kv: &dyn KvStore,
        index: u64,
    ) -> Result<ProducerState, StorageError> {
        let row = &state.row;
        let saved = lookup::producers_before(kv, self.id.0, index, &mut |at, term| {
            // A snapshot at an entry that was truncated since is of no use.
            let known = match row.start.id {
                Some(start) if at == start.index => Some(start.term),
                _ => row.terms.term_at(at),
            };
            known == Some(term)
        })?;
        let mut saved = saved.map(|saved| (saved.index, Bytes::from(saved.producers)));
        if let Some((_, start, bytes)) = &state.start_producers
            && start.index <= index
            && saved.as_ref().is_none_or(|(at, _)| *at < start.index)
        {
            saved = Some((start.index, bytes.clone()));
        }
        let (mut from, mut producers) = (row.first_index, ProducerState::default());
        if let Some((at, bytes)) = saved {
            from = from.max(at + 1);
            if !bytes.is_empty() {
                producers = ProducerState::decode(&bytes)?;
            }
        }
        let memory_from = state.recent.front().map_or(u64::MAX, |entry| entry.row.id.index);
        let disk = from..memory_from.min(index.saturating_add(1));
        if disk.start < disk.end {
            lookup::scan_entries(kv, self.id.0, disk, &mut |row| {
                replay(&mut producers, &row);
                true
            })?;
        }
        for entry in &state.recent {
            if (from..=index).contains(&entry.row.id.index) {
                replay(&mut producers, &entry.row);
            }
        }
        Ok(producers)
    }

    /// What is true behind entry `index`, which is in the log or just before it.
    pub(crate) fn mark_at(
        &self,
        state: &GroupState,
        kv: &dyn KvStore,
        index: u64,
    ) -> Result<Mark, StorageError> {
        if state.row.start.id.is_some_and(|start| start.index == index) {
            return Ok(state.row.start);
        }
        if let Some(entry) = state.in_memory(index) {
            return Ok(entry.row.mark());
        }
        let row = lookup::entry(kv, self.id.0, index)?;
        row.map(|row| row.mark()).ok_or_else(|| {
            StorageError::Corrupt(format!("entry {index} of group {} has no row", self.id.0))
        })
    }
}

fn replay(producers: &mut ProducerState, row: &EntryRow) {
    for batch in row.placed_batches() {
        if batch.meta.producer_id >= 0 {
            producers.replay(&batch.meta.header(batch.base_offset, row.id.term));
        }
    }
}

impl GroupState {
    /// The entry, if it is in memory.
    pub(crate) fn in_memory(&self, index: u64) -> Option<&Arc<LogEntry>> {
        let first = self.recent.front()?.row.id.index;
        self.recent.get(usize::try_from(index.checked_sub(first)?).ok()?)
    }

    /// Takes in entries; they are readable from now on.
    pub(crate) fn append(&mut self, entries: Vec<Entry>) -> Vec<Arc<LogEntry>> {
        if let (Some(first), Some(next)) = (entries.first(), self.row.next_index()) {
            assert!(first.id.index == next, "entry {} cannot come as {next}", first.id.index);
        }
        let mut queued = Vec::with_capacity(entries.len());
        for entry in entries {
            let entry = Arc::new(place(entry, self.row.end));
            self.row.on_append(entry.row.mark(), entry.row.base_offset);
            if let Some(producers) = &mut self.producers {
                replay(producers, &entry.row);
            }
            self.recent.push_back(entry.clone());
            queued.push(entry);
        }
        self.exists = true;
        queued
    }

    /// Entries went from the end, or all of them.
    pub(crate) fn on_entries_gone(&mut self) {
        self.producers = None;
        self.producers_saved = None;
        self.version += 1;
    }

    /// Drops what lies behind `mark`.
    pub(crate) fn truncate(&mut self, mark: Mark) {
        let keep = match mark.id {
            Some(last) => self.recent.partition_point(|entry| entry.row.id.index <= last.index),
            None => 0,
        };
        self.recent.truncate(keep);
        self.row.on_truncate(mark);
        self.on_entries_gone();
    }

    /// Drops what lies up to `mark`.
    pub(crate) fn purge(&mut self, mark: Mark) {
        let Some(last) = mark.id else { return };
        let gone = self.recent.partition_point(|entry| entry.row.id.index <= last.index);
        self.recent.drain(..gone);
        self.row.on_purge(mark);
        self.version += 1;
    }

    /// Replaces the producers (a snapshot was installed).
    pub(crate) fn set_producers(&mut self, producers: ProducerState) {
        self.producers = Some(Box::new(producers));
    }

    /// Puts a value where reads find it before the index has it; its number.
    pub(crate) fn put_overlay(&mut self, key: &[u8], value: Bytes) -> u64 {
        self.overlay_count += 1;
        self.overlay.push((self.overlay_count, key.into(), value));
        self.exists = true;
        self.overlay_count
    }

    /// Keeps the producers at the log's new start until the index has them; their number.
    pub(crate) fn put_start_producers(&mut self, start: EntryId, producers: Bytes) -> u64 {
        self.overlay_count += 1;
        self.start_producers = Some((self.overlay_count, start, producers));
        self.exists = true;
        self.overlay_count
    }

    /// The newest value of a key that the index does not have yet.
    pub(crate) fn overlay(&self, key: &[u8]) -> Option<Bytes> {
        let newest = self.overlay.iter().rev().find(|(_, known, _)| **known == *key);
        newest.map(|(_, _, value)| value.clone())
    }
}

/// Gives an entry its place behind `before`: offsets and leader epoch into its batches.
fn place(entry: Entry, before: Mark) -> LogEntry {
    let base_offset = before.next_offset;
    let (opaque_kind, batches, heads, bodies) = match entry.body {
        EntryBody::Opaque { kind, bytes } => (Some(kind), Vec::new(), Bytes::new(), vec![bytes]),
        EntryBody::Batches(list) => {
            let mut metas = Vec::with_capacity(list.len());
            let mut heads = BytesMut::with_capacity(list.len() * HEAD);
            let mut bodies = Vec::with_capacity(list.len());
            let mut offset = base_offset;
            for mut batch in list {
                batch.place(Offset(offset), LeaderEpoch(entry.id.term as i32));
                let meta = BatchMeta::of(batch.header());
                offset += meta.offset_count();
                metas.push(meta);
                heads.put_slice(batch.head());
                bodies.push(batch.body().clone());
            }
            (None, metas, heads.freeze(), bodies)
        }
    };
    let size = heads.len() + bodies.iter().map(Bytes::len).sum::<usize>();
    let offsets: i64 = batches.iter().map(BatchMeta::offset_count).sum();
    let own_max = batches.iter().map(|batch| batch.max_timestamp).max().unwrap_or(-1);
    let row = EntryRow {
        id: entry.id,
        opaque_kind,
        corrupt: false,
        place: Place::default(),
        size_bytes: size as u32,
        base_offset,
        next_offset: base_offset + offsets,
        max_timestamp: before.max_timestamp.max(own_max),
        end_bytes: before.end_bytes + HEADER_LEN as u64 + size as u64,
        batches,
    };
    LogEntry::new(row, before, heads, bodies.into())
}
