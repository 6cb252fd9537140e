//! Turns journal records into changes of the index: live, behind the writer, and at a replay.
//!
//! What the index holds is a function of the journal's records up to the covered place, so there
//! is one piece of code for both. It also counts the live bytes of each journal file: an entry is
//! live from its append to its truncation, purge or removal. Where a group's entries lie is known
//! by file (extent rows), so nothing is scanned to count what a purge kills.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::lookup;
use super::rows::{EntryRow, GroupRow, Mark, Place};
use super::{COVERED_KEY, Covered, ExtentRow, encode_producers, entry_key, offset_key};
use crate::StorageError;
use crate::codec::put_u64;
use crate::journal::record::{GroupHead, Payload, PurgePoint};
use crate::kv::{ColumnFamily, KvStore, WriteBatch};
use crate::limits::OFFSET_ROW_INTERVAL;

/// What is counted of a journal file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FileUse {
    pub(crate) live_bytes: u64,
    /// Where the journal was when the last entry died; an index that covers this place needs
    /// nothing of the file.
    pub(crate) dead_since: Place,
}

struct Cached {
    row: GroupRow,
    /// The stored row is marked as open since the last checkpoint.
    open: bool,
}

/// A removed group that the journal may still hold entries of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tombstone {
    pub(crate) head_file: u32,
    pub(crate) last_file: u32,
}

/// See the module.
pub(crate) struct Indexer {
    kv: Arc<dyn KvStore>,
    batch: WriteBatch,
    /// The groups that were touched since the last checkpoint.
    groups: BTreeMap<u64, Cached>,
    pub(crate) files: BTreeMap<u32, FileUse>,
    touched_files: BTreeSet<u32>,
    pub(crate) tombstones: BTreeMap<u64, Tombstone>,
    covered: Place,
    synced: Place,
    value: Vec<u8>,
}

impl Indexer {
    /// Over what the store holds, which covers the journal up to `covered`.
    pub(crate) fn open(kv: Arc<dyn KvStore>, covered: Place) -> Result<Indexer, StorageError> {
        let mut files = BTreeMap::new();
        for (file, live_bytes) in lookup::files(&*kv)? {
            files.insert(file, FileUse { live_bytes, dead_since: covered });
        }
        let mut tombstones = BTreeMap::new();
        for (id, row) in lookup::groups(&*kv)? {
            if let Some(last_file) = row.removed {
                tombstones.insert(id, Tombstone { head_file: row.head_file, last_file });
            }
        }
        Ok(Indexer {
            kv,
            batch: WriteBatch::default(),
            groups: BTreeMap::new(),
            files,
            touched_files: BTreeSet::new(),
            tombstones,
            covered,
            synced: covered,
            value: Vec::new(),
        })
    }

    /// How far the journal was taken in.
    pub(crate) fn covered(&self) -> Place {
        self.covered
    }

    /// Everything up to `place` was taken in.
    pub(crate) fn cover(&mut self, place: Place) {
        self.covered = place;
    }

    /// The journal is synced up to `place`.
    pub(crate) fn set_synced(&mut self, place: Place) {
        self.synced = place;
    }

    fn put_covered(&mut self) {
        let covered = Covered { place: self.covered, synced: self.synced };
        self.batch.put(ColumnFamily::State, &COVERED_KEY, &covered.encode());
    }

    /// The groups that were touched since the last checkpoint.
    pub(crate) fn dirty_groups(&self) -> Vec<u64> {
        self.groups.keys().copied().collect()
    }

    /// The group as the journal has it up to the covered place.
    pub(crate) fn row(&mut self, group: u64) -> Result<&GroupRow, StorageError> {
        Ok(&self.cached(group)?.row)
    }

    fn cached(&mut self, group: u64) -> Result<&mut Cached, StorageError> {
        use std::collections::btree_map::Entry;
        match self.groups.entry(group) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let row = lookup::group(&*self.kv, group)?.unwrap_or_default();
                Ok(entry.insert(Cached { row, open: false }))
            }
        }
    }

    /// Writes what was gathered, with the covered place. `NoSpace` leaves everything as it is, for
    /// another try later.
    pub(crate) fn flush_batch(&mut self) -> Result<u64, StorageError> {
        if self.batch.is_empty() && self.touched_files.is_empty() {
            // The covered place alone: a replay from an older one repeats votes and the like.
            return Ok(0);
        }
        for &file in &self.touched_files {
            let mut value = Vec::with_capacity(8);
            match self.files.get(&file) {
                Some(usage) => {
                    put_u64(&mut value, usage.live_bytes);
                    self.batch.put(ColumnFamily::State, &super::file_key(file), &value);
                }
                None => self.batch.delete(ColumnFamily::State, &super::file_key(file)),
            }
        }
        self.put_covered();
        self.kv.write(&self.batch)?;
        let bytes = self.batch.size_bytes() as u64;
        self.batch.clear();
        self.touched_files.clear();
        Ok(bytes)
    }

    /// Closes the rows of all touched groups, so that a start finds them complete.
    pub(crate) fn close_rows(&mut self) -> Result<u64, StorageError> {
        for (id, cached) in &self.groups {
            let value = cached.row.encode(false);
            self.batch.put(ColumnFamily::State, &super::group_key(*id), &value);
        }
        self.put_covered();
        let bytes = self.flush_batch()?;
        self.groups.clear();
        Ok(bytes)
    }

    /// Adds a snapshot of a group's producers to the batch.
    pub(crate) fn put_producers(&mut self, group: u64, index: u64, term: u64, bytes: &[u8]) {
        let key = super::producers_key(group, index);
        self.batch.put(ColumnFamily::State, &key, &encode_producers(term, bytes));
    }

    fn put_row(&mut self, group: u64) -> Result<(), StorageError> {
        let cached = self.cached(group)?;
        cached.open = true;
        let value = cached.row.encode(true);
        self.batch.put(ColumnFamily::State, &super::group_key(group), &value);
        Ok(())
    }

    /// A journal file was begun.
    pub(crate) fn add_file(&mut self, file: u32) {
        self.files.entry(file).or_default();
        self.touched_files.insert(file);
    }

    /// A journal file is gone.
    pub(crate) fn drop_file(&mut self, file: u32) {
        self.files.remove(&file);
        self.touched_files.insert(file);
    }

    fn add_live(&mut self, file: u32, bytes: u64) {
        self.files.entry(file).or_default().live_bytes += bytes;
        self.touched_files.insert(file);
    }

    fn kill(&mut self, file: u32, bytes: u64, at: Place) {
        let usage = self.files.entry(file).or_default();
        usage.live_bytes = usage.live_bytes.saturating_sub(bytes);
        if usage.live_bytes == 0 {
            usage.dead_since = at;
        }
        self.touched_files.insert(file);
    }

    /// An entry is about to come at this offset to a group of which the files that are left say
    /// nothing before: a purge further on says where the log begins.
    pub(crate) fn begin(&mut self, group: u64, base_offset: i64) -> Result<(), StorageError> {
        let row = &mut self.cached(group)?.row;
        if row.end.id.is_none() {
            row.start.next_offset = base_offset;
            row.end.next_offset = base_offset;
        }
        Ok(())
    }

    /// Takes in an appended entry; its row says what the journal says, whoever computed it.
    pub(crate) fn append(
        &mut self,
        group: u64,
        entry: &EntryRow,
        place: Place,
    ) -> Result<(), StorageError> {
        let cached = self.cached(group)?;
        assert!(
            entry.end_bytes == cached.row.end.end_bytes + entry.journal_bytes(),
            "entry {} of group {group} does not follow on what is indexed",
            entry.id.index
        );
        let new_term = cached.row.on_append(entry.mark(), entry.base_offset);
        let new_file = cached.row.extent_file != place.file;
        cached.row.extent_file = place.file;
        let open = cached.open;
        let index = entry.id.index;
        self.value.clear();
        entry.write(place, &mut self.value);
        self.batch.put(ColumnFamily::Entries, &entry_key(group, index), &self.value);
        if index.is_multiple_of(OFFSET_ROW_INTERVAL) {
            let key = offset_key(group, entry.base_offset);
            self.batch.put(ColumnFamily::Offsets, &key, &index.to_be_bytes());
        }
        if new_file {
            let start_bytes = entry.end_bytes - entry.journal_bytes();
            let extent = ExtentRow { file: place.file, first_index: index, start_bytes };
            let key = super::extent_key(group, place.file);
            self.batch.put(ColumnFamily::State, &key, &extent.encode());
        }
        if new_term || !open {
            self.put_row(group)?;
        }
        self.add_live(place.file, entry.journal_bytes());
        Ok(())
    }

    /// Takes in a record that is not an entry. `at` is where its record begins.
    pub(crate) fn control(
        &mut self,
        group: u64,
        payload: &Payload,
        at: Place,
    ) -> Result<(), StorageError> {
        if self.cached(group)?.row.removed.is_some() {
            if matches!(payload, Payload::GroupRemoved(_)) {
                self.touch_head(group, at, true)?;
            }
            return Ok(());
        }
        match payload {
            Payload::Batches(_) | Payload::Opaque => return Ok(()),
            Payload::Truncate(last) => self.truncate(group, *last, at)?,
            Payload::Purge(point) if point.reset => self.reset(group, point, at)?,
            Payload::Purge(point) => self.purge(group, point, at)?,
            Payload::Vote(vote) => self.cached(group)?.row.vote = Some(*vote),
            Payload::State(key, value) => {
                let key = super::state_key(group, key);
                self.batch.put(ColumnFamily::State, &key, value);
            }
            Payload::LogStart(offset) => {
                let row = &mut self.cached(group)?.row;
                row.log_start = row.log_start.max(*offset);
            }
            Payload::GroupRemoved(last_file) => return self.remove(group, *last_file, at),
            Payload::GroupHead(head) => {
                self.head(group, head, at)?;
                return self.touch_head(group, at, true);
            }
        }
        self.touch_head(group, at, false)
    }

    /// Notes that `at` says something of the group beside entries; `anew`: all there is to say.
    fn touch_head(&mut self, group: u64, at: Place, anew: bool) -> Result<(), StorageError> {
        let row = &mut self.cached(group)?.row;
        if anew || row.head_file == 0 {
            row.head_file = at.file;
        }
        let (head_file, removed) = (row.head_file, row.removed);
        if let Some(last_file) = removed {
            self.tombstones.insert(group, Tombstone { head_file, last_file });
        }
        self.put_row(group)
    }

    fn head(&mut self, group: u64, head: &GroupHead, at: Place) -> Result<(), StorageError> {
        self.truncate(group, head.last_index, at)?;
        if let Some(point) = &head.purge {
            self.purge(group, point, at)?;
        }
        let row = &mut self.cached(group)?.row;
        row.vote = head.vote.or(row.vote);
        row.log_start = head.log_start;
        for (key, value) in &head.state {
            let key = super::state_key(group, key);
            self.batch.put(ColumnFamily::State, &key, value);
        }
        Ok(())
    }

    pub(crate) fn truncate(
        &mut self,
        group: u64,
        last: Option<u64>,
        at: Place,
    ) -> Result<(), StorageError> {
        let row = &self.cached(group)?.row;
        let Some(end_index) = row.last_index() else { return Ok(()) };
        if last.is_some_and(|last| last >= end_index) {
            return Ok(());
        }
        let (start, first_index, old_end) = (row.start, row.first_index, row.end);
        self.flush_batch()?;
        let kept = match last.filter(|last| *last >= first_index) {
            // A damaged journal may lack the very entry; the one before it ends the log then.
            Some(last) => lookup::last_entry(&*self.kv, group, first_index..last + 1)?,
            None => None,
        };
        let mark = kept.map_or(start, |entry| entry.mark());
        let first_gone = mark.id.filter(|_| mark != start).map_or(first_index, |id| id.index + 1);
        let mut end_bytes = old_end.end_bytes;
        let mut extent_file = 0;
        for extent in lookup::extents(&*self.kv, group)?.into_iter().rev() {
            let from = extent.start_bytes.max(mark.end_bytes);
            self.kill(extent.file, end_bytes.saturating_sub(from), at);
            if extent.first_index < first_gone {
                extent_file = extent.file;
                break;
            }
            self.batch.delete(ColumnFamily::State, &super::extent_key(group, extent.file));
            end_bytes = extent.start_bytes;
        }
        let (from, to) = (entry_key(group, first_gone), entry_key(group, end_index + 1));
        self.batch.delete_range(ColumnFamily::Entries, &from, &to);
        let from = offset_key(group, mark.next_offset);
        let to = offset_key(group, old_end.next_offset + 1);
        self.batch.delete_range(ColumnFamily::Offsets, &from, &to);
        let from = super::producers_key(group, first_gone);
        self.batch.delete_range(ColumnFamily::State, &from, &super::producers_end(group));
        let row = &mut self.cached(group)?.row;
        row.on_truncate(mark);
        row.extent_file = extent_file;
        self.put_row(group)
    }

    fn purge(&mut self, group: u64, point: &PurgePoint, at: Place) -> Result<(), StorageError> {
        let row = &self.cached(group)?.row;
        let (start, end, first_index) = (row.start, row.end, row.first_index);
        if start.id.is_some_and(|id| id.index >= point.id.index) {
            return Ok(());
        }
        self.flush_batch()?;
        let index = point.id.index;
        let mut mark = Mark {
            id: Some(point.id),
            next_offset: point.next_offset,
            max_timestamp: point.max_timestamp,
            end_bytes: start.end_bytes,
        };
        if end.id.is_none_or(|id| id.index <= index) {
            mark.end_bytes = end.end_bytes;
        } else if first_index <= index
            && let Some(entry) = lookup::last_entry(&*self.kv, group, first_index..index + 1)?
        {
            // The entry itself, unless a rebuild found it gone with its file.
            mark.end_bytes = entry.end_bytes;
        }
        let extents = lookup::extents(&*self.kv, group)?;
        let mut none_left = true;
        for (at_extent, extent) in extents.iter().enumerate() {
            let extent_end = extents.get(at_extent + 1).map_or(end.end_bytes, |e| e.start_bytes);
            let from = extent.start_bytes.max(start.end_bytes);
            let to = extent_end.min(mark.end_bytes);
            self.kill_if_any(extent.file, to.saturating_sub(from), at);
            if extent_end > mark.end_bytes {
                none_left = false;
                break;
            }
            self.batch.delete(ColumnFamily::State, &super::extent_key(group, extent.file));
        }
        let (from, to) = (entry_key(group, first_index), entry_key(group, index + 1));
        if from < to {
            self.batch.delete_range(ColumnFamily::Entries, &from, &to);
        }
        let from = offset_key(group, start.next_offset);
        let to = offset_key(group, mark.next_offset);
        if from < to {
            self.batch.delete_range(ColumnFamily::Offsets, &from, &to);
        }
        self.put_purged_producers(group, point);
        let row = &mut self.cached(group)?.row;
        row.terms.prepend(&point.terms, index);
        row.on_purge(mark);
        if none_left {
            row.extent_file = 0;
        }
        self.put_row(group)
    }

    fn kill_if_any(&mut self, file: u32, bytes: u64, at: Place) {
        if bytes > 0 {
            self.kill(file, bytes, at);
        }
    }

    fn put_purged_producers(&mut self, group: u64, point: &PurgePoint) {
        let from = super::producers_key(group, 0);
        let to = super::producers_key(group, point.id.index);
        self.batch.delete_range(ColumnFamily::State, &from, &to);
        self.put_producers(group, point.id.index, point.id.term, &point.producers);
    }

    /// The log is replaced by nothing up to `point`.
    pub(crate) fn reset(
        &mut self,
        group: u64,
        point: &PurgePoint,
        at: Place,
    ) -> Result<(), StorageError> {
        self.drop_entries(group, at)?;
        self.put_producers(group, point.id.index, point.id.term, &point.producers);
        self.cached(group)?.row.on_reset(point);
        self.put_row(group)
    }

    fn drop_entries(&mut self, group: u64, at: Place) -> Result<(), StorageError> {
        let row = &self.cached(group)?.row;
        let (start, end) = (row.start, row.end);
        self.flush_batch()?;
        let mut end_bytes = end.end_bytes;
        for extent in lookup::extents(&*self.kv, group)?.into_iter().rev() {
            let from = extent.start_bytes.max(start.end_bytes);
            self.kill_if_any(extent.file, end_bytes.saturating_sub(from), at);
            end_bytes = extent.start_bytes;
        }
        let next = group.saturating_add(1);
        for family in [ColumnFamily::Entries, ColumnFamily::Offsets] {
            self.batch.delete_range(family, &entry_key(group, 0), &entry_key(next, 0));
        }
        let (from, to) = super::extent_keys(group);
        self.batch.delete_range(ColumnFamily::State, &from, &to);
        let (from, to) = (super::producers_key(group, 0), super::producers_end(group));
        self.batch.delete_range(ColumnFamily::State, &from, &to);
        Ok(())
    }

    fn remove(&mut self, group: u64, last_file: u32, at: Place) -> Result<(), StorageError> {
        self.drop_entries(group, at)?;
        let (from, to) = super::state_keys(group);
        self.batch.delete_range(ColumnFamily::State, &from, &to);
        // Zero means the file that the record is in: nothing behind it is of this group.
        let last_file = if last_file == 0 { at.file } else { last_file };
        self.cached(group)?.row = GroupRow { removed: Some(last_file), ..GroupRow::default() };
        self.touch_head(group, at, true)
    }

    /// Forgets a removed group of which no journal file holds anything any more.
    pub(crate) fn drop_tombstone(&mut self, group: u64) {
        self.tombstones.remove(&group);
        self.groups.remove(&group);
        self.batch.delete(ColumnFamily::State, &super::group_key(group));
    }

    /// What the journal has to say of a group when a file that said it goes.
    pub(crate) fn head_of(&mut self, group: u64) -> Result<GroupHead, StorageError> {
        self.flush_batch()?;
        let state = lookup::states(&*self.kv, group)?;
        let row = self.row(group)?.clone();
        let purge = match row.start.id {
            Some(id) => {
                let producers =
                    lookup::producers_before(&*self.kv, group, id.index, &mut |index, _| {
                        index == id.index
                    })?;
                Some(PurgePoint {
                    id,
                    reset: false,
                    next_offset: row.start.next_offset,
                    max_timestamp: row.start.max_timestamp,
                    terms: row.terms.up_to(id.index),
                    producers: producers.map(|row| row.producers.into()).unwrap_or_default(),
                })
            }
            None => None,
        };
        let (vote, log_start) = (row.vote, row.log_start);
        Ok(GroupHead { vote, purge, last_index: row.end.id.map(|id| id.index), log_start, state })
    }
}
