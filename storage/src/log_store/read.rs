//! Reading: record bytes for consumers, entries for replication.
//!
//! Memory first. What is not there is found through the index: a run of rows, each of which says
//! where its batches lie; neighbours are merged, and the bytes stay in the file for `sendfile`.
//! The group is locked for moments only. If entries went while the index was read, it starts over.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use protocol::types::Offset;

use super::log::{GroupLog, out_of_range};
use super::state::GroupState;
use super::{Entry, EntryBody, EntryHead, EntryId, ReadLimit, RecordSlice, Records};
use crate::StorageError;
use crate::disk::DiskFile;
use crate::index::lookup;
use crate::index::rows::EntryRow;
use crate::limits::{COALESCE_EXTENT_BYTES, COALESCE_GAP_BYTES, READ_AHEAD_EXTENTS};
use crate::tail::LogEntry;

/// Neighbouring bytes of one file.
#[derive(Debug, Clone, Copy)]
struct Extent {
    file: u32,
    position: u64,
    length: usize,
}

/// Collects batches until a limit is reached.
struct Gather {
    from: i64,
    limit: ReadLimit,
    extents: Vec<Extent>,
    memory: Vec<RecordSlice>,
    size_bytes: usize,
    full: bool,
}

impl Gather {
    fn new(from: Offset, limit: ReadLimit) -> Gather {
        let (extents, memory) = (Vec::new(), Vec::new());
        Gather { from: from.0, limit, extents, memory, size_bytes: 0, full: false }
    }

    /// Calls `take` with the number, the position in the payload and the size of each batch of
    /// the entry that is wanted.
    fn take(&mut self, row: &EntryRow, mut take: impl FnMut(&mut Gather, usize, u64, usize)) {
        // Once a batch did not fit, a smaller one behind it must not be taken instead.
        if self.full {
            return;
        }
        for (at, batch) in row.placed_batches().enumerate() {
            if batch.next_offset() <= self.from {
                continue;
            }
            let size = batch.meta.size_bytes as usize;
            let first = self.size_bytes == 0 && self.limit.min_one_batch;
            let fits = self.size_bytes + size <= self.limit.max_bytes;
            if batch.base_offset >= self.limit.upper_bound.0 || !(fits || first) {
                self.full = true;
                return;
            }
            take(self, at, batch.position, size);
            self.size_bytes += size;
        }
    }

    fn take_from_memory(&mut self, entry: &LogEntry) {
        self.take(&entry.row, |gather, at, _, _| {
            gather.memory.push(RecordSlice::Memory(entry.head(at)));
            gather.memory.push(RecordSlice::Memory(entry.bodies[at].clone()));
        });
    }

    fn take_from_disk(&mut self, row: &EntryRow) {
        self.take(row, |gather, _, position, length| {
            let (file, position) = (row.place.file, row.payload_position() + position);
            match gather.extents.last_mut() {
                Some(last)
                    if last.file == file && last.position + last.length as u64 == position =>
                {
                    last.length += length;
                }
                _ => gather.extents.push(Extent { file, position, length }),
            }
        });
    }
}

/// Where a run of entries is.
enum Source {
    Memory(Vec<Arc<LogEntry>>),
    /// In the index, in this range.
    Disk(Range<u64>),
}

/// What came of a scan of the index.
enum Scanned {
    /// The range was read up to its end, or `each` had enough.
    Done,
    /// A row is missing.
    Missing(u64),
}

impl GroupLog {
    /// Whole batches from the one that contains `from` on.
    ///
    /// # Errors
    /// `OffsetOutOfRange` outside of the log start and the log end; `Corrupt` if the first batch
    /// is damaged.
    pub fn read(&self, from: Offset, limit: ReadLimit) -> Result<Records, StorageError> {
        loop {
            let mut gather = Gather::new(from, limit);
            if self.gather(&mut gather)? {
                return self.to_records(gather);
            }
        }
    }

    /// `false` if entries went meanwhile.
    fn gather(&self, gather: &mut Gather) -> Result<bool, StorageError> {
        let from = gather.from;
        let (version, mut next) = {
            let state = self.group.lock_alive()?;
            if from < state.row.log_start || from > state.row.end.next_offset {
                return Err(out_of_range(Offset(from), &state));
            }
            if from == state.row.end.next_offset || from >= gather.limit.upper_bound.0 {
                return Ok(true);
            }
            (state.version, index_in_memory(&state, from))
        };
        if next.is_none() {
            next = Some(self.index_on_disk(from)?);
        }
        while let Some(index) = next.filter(|_| !gather.full) {
            let wanted = gather.limit.max_bytes.saturating_sub(gather.size_bytes).max(1);
            let Some((source, index)) = self.source(version, index, wanted)? else {
                return Ok(false);
            };
            match source {
                Source::Memory(entries) => {
                    entries.iter().for_each(|entry| gather.take_from_memory(entry));
                    break;
                }
                Source::Disk(range) if range.is_empty() => break,
                Source::Disk(range) => {
                    next = Some(range.end);
                    if !self.gather_from_disk(gather, version, range.start.max(index)..range.end)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    fn gather_from_disk(
        &self,
        gather: &mut Gather,
        version: u64,
        range: Range<u64>,
    ) -> Result<bool, StorageError> {
        let mut damaged = None;
        let mut ahead = ReadAhead::new(self.group.read_ahead.load(Ordering::Relaxed));
        let scanned = self.scan(range.clone(), &mut |row| {
            if gather.full {
                return ahead.take(&row);
            }
            if row.corrupt && row.next_offset > gather.from {
                damaged = Some(row.id.index);
                gather.full = true;
                return false;
            }
            gather.take_from_disk(&row);
            !gather.full || ahead.take(&row)
        })?;
        if let Scanned::Missing(index) = scanned
            && (!gather.full || damaged.is_some())
        {
            return self.gone_or_corrupt(version, index).map(|()| false);
        }
        if let Some(index) = damaged.filter(|_| gather.size_bytes == 0) {
            return Err(StorageError::Corrupt(format!(
                "entry {index} of group {} is damaged in the journal",
                self.group.id.0
            )));
        }
        if let Some(until) = ahead.until {
            self.group.read_ahead.store(until, Ordering::Relaxed);
            for extent in ahead.extents {
                if let Ok(file) = self.shared().files.get(extent.file) {
                    file.will_need(extent.position, extent.length as u64);
                }
            }
        }
        Ok(true)
    }

    /// An error, unless entries went since `version`.
    fn gone_or_corrupt(&self, version: u64, index: u64) -> Result<(), StorageError> {
        let state = self.group.lock_alive()?;
        if state.version != version {
            return Ok(());
        }
        Err(StorageError::Corrupt(format!("entry {index} of group {} has no row", self.group.id.0)))
    }

    /// Reads rows of the index in order, as long as they follow on each other.
    fn scan(
        &self,
        range: Range<u64>,
        each: &mut dyn FnMut(EntryRow) -> bool,
    ) -> Result<Scanned, StorageError> {
        let (mut expected, mut stopped) = (range.start, false);
        lookup::scan_entries(&*self.shared().kv, self.group.id.0, range.clone(), &mut |row| {
            if row.id.index != expected {
                return false;
            }
            expected += 1;
            stopped = !each(row);
            !stopped
        })?;
        let done = stopped || expected >= range.end;
        Ok(if done { Scanned::Done } else { Scanned::Missing(expected) })
    }

    /// Where the entries from `index` on are, up to `wanted` bytes of them; `None` if entries went
    /// since `version`. The second value is the index, moved up to the log's first.
    fn source(
        &self,
        version: u64,
        index: u64,
        wanted: usize,
    ) -> Result<Option<(Source, u64)>, StorageError> {
        let state = self.group.lock_alive()?;
        if state.version != version {
            return Ok(None);
        }
        let index = index.max(state.row.first_index);
        let last = state.row.last_index();
        let behind = last.map_or(index, |last| last + 1);
        let memory_from = state.recent.front().map_or(behind, |entry| entry.row.id.index);
        if index < memory_from {
            return Ok(Some((Source::Disk(index..memory_from), index)));
        }
        let (mut entries, mut bytes) = (Vec::new(), 0);
        for entry in state.recent.iter().skip((index - memory_from) as usize) {
            entries.push(entry.clone());
            bytes += entry.row.size_bytes as usize;
            // One more than wanted: the first may hold batches before the offset asked for.
            if bytes > wanted.saturating_add(entries[0].row.size_bytes as usize) {
                break;
            }
        }
        Ok(Some((Source::Memory(entries), index)))
    }

    /// An index at or shortly before the entry that holds `offset`.
    pub(super) fn index_on_disk(&self, offset: i64) -> Result<u64, StorageError> {
        let near = lookup::index_near_offset(&*self.shared().kv, self.group.id.0, offset)?;
        Ok(near.unwrap_or(0))
    }

    fn to_records(&self, gather: Gather) -> Result<Records, StorageError> {
        let mut slices = Vec::with_capacity(gather.extents.len() + gather.memory.len());
        let mut extents = &gather.extents[..];
        while let Some(first) = extents.first() {
            let file = self.shared().files.get(first.file)?;
            let run = neighbours(extents);
            let (now, later) = extents.split_at(run);
            extents = later;
            match file.as_std() {
                Some(std_file) if run == 1 => slices.push(RecordSlice::File {
                    file: std_file,
                    position: first.position,
                    length: first.length,
                }),
                _ => read_run(&*file, now, &mut slices)?,
            }
        }
        slices.extend(gather.memory);
        Ok(Records { slices, size_bytes: gather.size_bytes })
    }

    /// Entries with their bytes, from memory or disk, whole, at least one, at most about
    /// `max_bytes`. Ends where the log ends.
    ///
    /// # Errors
    /// `Purged` if the first is gone, `Corrupt` if its bytes do not match their checksums.
    pub fn entries(&self, range: Range<u64>, max_bytes: usize) -> Result<Vec<Entry>, StorageError> {
        let (mut entries, mut bytes) = (Vec::new(), 0);
        self.visit(range, &mut |found| {
            let row = found.row();
            bytes += row.size_bytes as usize;
            if bytes > max_bytes && !entries.is_empty() {
                return Ok(false);
            }
            entries.push(match &found {
                Found::Memory(entry) => entry.to_entry()?,
                Found::Disk(row) => self.load(row)?,
            });
            Ok(true)
        })?;
        Ok(entries)
    }

    /// Entries without their bytes. Ends where the log ends.
    ///
    /// # Errors
    /// `Purged` if the first is gone.
    pub fn heads(&self, range: Range<u64>) -> Result<Vec<EntryHead>, StorageError> {
        let mut heads = Vec::new();
        self.visit(range, &mut |found| {
            let row = found.row();
            heads.push(EntryHead {
                id: row.id,
                opaque_kind: row.opaque_kind,
                next_offset: Offset(row.next_offset),
                size_bytes: row.size_bytes,
            });
            Ok(true)
        })?;
        Ok(heads)
    }

    /// Term and index of the entry at `index`, also of the last one that was purged.
    ///
    /// # Errors
    /// What the index answers.
    pub fn entry_id(&self, index: u64) -> Result<Option<EntryId>, StorageError> {
        let state = self.group.lock_alive()?;
        let row = &state.row;
        if let Some(start) = row.start.id.filter(|start| start.index == index) {
            return Ok(Some(start));
        }
        if index < row.first_index || row.last_index().is_none_or(|last| index > last) {
            return Ok(None);
        }
        Ok(row.terms.term_at(index).map(|term| EntryId { term, index }))
    }

    /// Calls `each` with the entries of `range` that exist, in order, until it has enough.
    pub(super) fn visit(
        &self,
        range: Range<u64>,
        each: &mut dyn FnMut(Found) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        let (version, end) = {
            let state = self.group.lock_alive()?;
            if range.start < state.row.first_index && range.start < range.end {
                return Err(StorageError::Purged { index: range.start });
            }
            let behind = state.row.last_index().map_or(0, |last| last + 1);
            (state.version, range.end.min(behind))
        };
        let mut next = range.start;
        while next < end {
            let Some((source, _)) = self.source(version, next, usize::MAX >> 1)? else {
                return self.visit_again(next..range.end, each);
            };
            match source {
                Source::Memory(entries) => {
                    for entry in entries {
                        if entry.row.id.index >= end || !each(Found::Memory(entry))? {
                            return Ok(());
                        }
                    }
                    return Ok(());
                }
                Source::Disk(disk) => {
                    let mut result = Ok(true);
                    let disk = next..disk.end.min(end);
                    let scanned = self.scan(disk.clone(), &mut |row| {
                        result = each(Found::Disk(row));
                        matches!(result, Ok(true))
                    })?;
                    if !result? {
                        return Ok(());
                    }
                    if let Scanned::Missing(index) = scanned {
                        self.gone_or_corrupt(version, index)?;
                        return self.visit_again(index..range.end, each);
                    }
                    next = disk.end;
                }
            }
        }
        Ok(())
    }

    /// Entries went meanwhile: goes on with those that are left.
    fn visit_again(
        &self,
        range: Range<u64>,
        each: &mut dyn FnMut(Found) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        self.visit(range, each)
    }

    /// Reads an entry's bytes, and checks them.
    pub(super) fn load(&self, row: &EntryRow) -> Result<Entry, StorageError> {
        let damaged = || {
            StorageError::Corrupt(format!(
                "entry {} of group {} is damaged in the journal",
                row.id.index, self.group.id.0
            ))
        };
        if row.corrupt {
            return Err(damaged());
        }
        let file = self.shared().files.get(row.place.file)?;
        let record =
            read_exact(&*file, u64::from(row.place.position), row.journal_bytes() as usize)?;
        let header = crate::journal::record::RecordHeader::decode(&record)
            .ok()
            .filter(|header| header.entry_id() == row.id && header.group == self.group.id.0)
            .ok_or_else(damaged)?;
        let mut payload = record.slice(crate::journal::record::HEADER_LEN..);
        header.decode_payload(&payload).map_err(|_| damaged())?;
        let body = match row.opaque_kind {
            Some(kind) => EntryBody::Opaque { kind, bytes: payload },
            None => {
                let mut batches = Vec::with_capacity(row.batches.len());
                while let Some(batch) =
                    protocol::record_batch::RecordBatch::split_from(&mut payload)
                        .map_err(|_| damaged())?
                {
                    batches.push(batch);
                }
                EntryBody::Batches(batches)
            }
        };
        Ok(Entry { id: row.id, body })
    }
}

/// An entry, where it was found.
pub(super) enum Found {
    Memory(Arc<LogEntry>),
    Disk(EntryRow),
}

impl Found {
    pub(super) fn row(&self) -> &EntryRow {
        match self {
            Found::Memory(entry) => &entry.row,
            Found::Disk(row) => row,
        }
    }
}

/// The entry that holds `offset`, if it is in memory.
pub(super) fn index_in_memory(state: &GroupState, offset: i64) -> Option<u64> {
    let first = state.recent.front()?;
    if first.row.base_offset > offset {
        return None;
    }
    let at = state.recent.partition_point(|entry| entry.row.next_offset <= offset);
    state.recent.get(at).map(|entry| entry.row.id.index)
}

/// Gathers what a catch-up reader will want next, so that the disk has it ready.
struct ReadAhead {
    from: u64,
    left: u64,
    until: Option<u64>,
    extents: Vec<Extent>,
}

impl ReadAhead {
    fn new(announced_until: u64) -> ReadAhead {
        let (left, extents) = (READ_AHEAD_EXTENTS, Vec::new());
        ReadAhead { from: announced_until, left, until: None, extents }
    }

    /// Whether it wants to see more rows.
    fn take(&mut self, row: &EntryRow) -> bool {
        if self.left == READ_AHEAD_EXTENTS
            && (row.id.index + READ_AHEAD_EXTENTS / 2..=row.id.index + READ_AHEAD_EXTENTS)
                .contains(&self.from)
        {
            // More than half of the window is still ahead of this reader.
            return false;
        }
        self.left -= 1;
        if row.id.index >= self.from || row.id.index + READ_AHEAD_EXTENTS < self.from {
            let (file, position) = (row.place.file, row.payload_position());
            self.extents.push(Extent { file, position, length: row.size_bytes as usize });
        }
        self.until = Some(row.id.index + 1);
        self.left > 0
    }
}

/// How many of the first extents lie so close together that one read fetches them.
fn neighbours(extents: &[Extent]) -> usize {
    let near = |pair: &[Extent]| {
        let [before, after] = pair else { return false };
        let end = before.position + before.length as u64;
        before.file == after.file
            && before.length < COALESCE_EXTENT_BYTES
            && after.length < COALESCE_EXTENT_BYTES
            && after.position >= end
            && after.position - end <= COALESCE_GAP_BYTES
    };
    1 + extents.windows(2).take_while(|pair| near(pair)).count()
}

/// Reads a run of extents at once.
fn read_run(
    file: &dyn DiskFile,
    extents: &[Extent],
    slices: &mut Vec<RecordSlice>,
) -> Result<(), StorageError> {
    let (Some(first), Some(last)) = (extents.first(), extents.last()) else { return Ok(()) };
    let length = (last.position - first.position) as usize + last.length;
    let bytes = read_exact(file, first.position, length)?;
    for extent in extents {
        let from = (extent.position - first.position) as usize;
        slices.push(RecordSlice::Memory(bytes.slice(from..from + extent.length)));
    }
    Ok(())
}

/// Reads exactly so many bytes.
pub(super) fn read_exact(
    file: &dyn DiskFile,
    position: u64,
    length: usize,
) -> Result<Bytes, StorageError> {
    let mut bytes = BytesMut::zeroed(length);
    if file.read_at(position, &mut bytes)? != length {
        return Err(StorageError::Corrupt(format!(
            "the journal ends before {position} + {length}"
        )));
    }
    Ok(bytes.freeze())
}
