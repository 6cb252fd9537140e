//! Opening the journal: replay from what the index covers, cut a torn tail, keep clear of rot.
//!
//! - What the index covers is not read again. An index that says nothing usable, or more than the
//!   journal has, is emptied and rebuilt from the first file on.
//! - A record that does not verify is **torn** if nothing behind it was written after a sync that
//!   covered it (each record says how far its file was synced): it and what follows was never
//!   reported durable, and is cut off. That can only be in the last file.
//! - Otherwise it is **rot**: it stays where it is, its entry is marked and never served, and the
//!   replay goes on behind it.

use std::sync::Arc;

use super::file::{self, FIRST_RECORD, Scanned, Scanner};
use super::record::{HEADER_LEN, Payload, RecordHeader, RecordKind};
use super::writer::ActiveFile;
use crate::StorageError;
use crate::disk::{Disk, DiskFile};
use crate::index::Covered;
use crate::index::indexer::Indexer;
use crate::index::lookup;
use crate::index::rows::{BatchMeta, EntryRow, Place};
use crate::kv::KvStore;
use crate::log_store::EntryId;

/// The index is written to the store after about so many bytes of journal.
const FLUSH_INTERVAL_BYTES: u64 = 16 << 20;

/// What a journal was opened to.
pub(crate) struct Recovered {
    pub(crate) indexer: Indexer,
    pub(crate) active: ActiveFile,
    /// Journal bytes that were read.
    pub(crate) replayed_bytes: u64,
    /// The index had to be rebuilt from the first file on.
    pub(crate) rebuilt: bool,
}

/// Opens the journal in `disk` under the index in `kv`.
pub(crate) fn recover(disk: &dyn Disk, kv: &Arc<dyn KvStore>) -> Result<Recovered, StorageError> {
    let mut numbers: Vec<u32> = disk.list()?.iter().filter_map(|name| file::number(name)).collect();
    numbers.sort_unstable();
    drop_unfinished(disk, &mut numbers)?;
    match usable_cover(disk, &**kv, &numbers) {
        Ok(Some(covered)) => match Replay::new(disk, kv, &numbers, covered)?.run(false) {
            Err(StorageError::Corrupt(reason)) => {
                tracing::error!(reason, "the index is damaged: rebuilding it from the journal");
            }
            result => return result,
        },
        Ok(None) => {}
        Err(StorageError::Corrupt(reason)) => {
            tracing::error!(reason, "the index is damaged: rebuilding it from the journal");
        }
        Err(error) => return Err(error),
    }
    kv.clear()?;
    let first = numbers.first().copied().unwrap_or(1);
    let start = Place { file: first, position: FIRST_RECORD as u32 };
    if !numbers.is_empty() {
        tracing::warn!(files = numbers.len(), "building the index from the journal");
    }
    Replay::new(disk, kv, &numbers, start)?.run(!numbers.is_empty())
}

/// A last file without its header was being made when the process ended: nothing is in it.
fn drop_unfinished(disk: &dyn Disk, numbers: &mut Vec<u32>) -> Result<(), StorageError> {
    let Some(&last) = numbers.last() else { return Ok(()) };
    let handle = disk.open(&file::name(last))?;
    if !file::has_header(&*handle, last)? && handle.len()? <= FIRST_RECORD {
        disk.remove(&file::name(last))?;
        disk.sync_dir()?;
        numbers.pop();
    }
    Ok(())
}

/// The place that the index covers, if the journal has it.
fn usable_cover(
    disk: &dyn Disk,
    kv: &dyn KvStore,
    numbers: &[u32],
) -> Result<Option<Place>, StorageError> {
    let Some(Covered { place: covered, synced }) = lookup::covered(kv)? else { return Ok(None) };
    if !numbers.contains(&covered.file) {
        tracing::error!(?covered, "the index covers a journal file that is not there");
        return Ok(None);
    }
    let handle = disk.open(&file::name(covered.file))?;
    let len = handle.len()?;
    if u64::from(covered.position) > len {
        tracing::error!(?covered, len, "the index covers more than the journal has");
        return Ok(None);
    }
    let unsynced_from =
        if synced.file < covered.file { FIRST_RECORD } else { u64::from(synced.position) };
    if synced < covered && !verifies(handle, covered, unsynced_from)? {
        tracing::error!(?covered, "the index covers what a power cut took from the journal");
        return Ok(None);
    }
    Ok(Some(covered))
}

/// Whether the records from `from` up to the covered place are whole.
fn verifies(file: Arc<dyn DiskFile>, covered: Place, from: u64) -> Result<bool, StorageError> {
    let mut scanner = Scanner::new(file, covered.file, from)?;
    while scanner.position < u64::from(covered.position) {
        match scanner.next()? {
            Scanned::Record { header, payload, .. } if header.decode_payload(&payload).is_ok() => {}
            _ => return Ok(false),
        }
    }
    Ok(scanner.position == u64::from(covered.position))
}

struct Replay<'a> {
    disk: &'a dyn Disk,
    numbers: &'a [u32],
    start: Place,
    indexer: Indexer,
    replayed_bytes: u64,
    unflushed_bytes: u64,
    /// Bytes that were found damaged, and where last.
    damaged_bytes: u64,
    damaged_at: Place,
}

impl<'a> Replay<'a> {
    fn new(
        disk: &'a dyn Disk,
        kv: &Arc<dyn KvStore>,
        numbers: &'a [u32],
        start: Place,
    ) -> Result<Replay<'a>, StorageError> {
        let mut indexer = Indexer::open(kv.clone(), start)?;
        let gone: Vec<u32> =
            indexer.files.keys().filter(|file| !numbers.contains(file)).copied().collect();
        gone.into_iter().for_each(|file| indexer.drop_file(file));
        numbers.iter().for_each(|file| indexer.add_file(*file));
        Ok(Replay {
            disk,
            numbers,
            start,
            indexer,
            replayed_bytes: 0,
            unflushed_bytes: 0,
            damaged_bytes: 0,
            damaged_at: Place::default(),
        })
    }

    fn run(mut self, rebuilt: bool) -> Result<Recovered, StorageError> {
        let mut last = None;
        for (at, &number) in self.numbers.iter().enumerate() {
            if number < self.start.file {
                continue;
            }
            let handle = self.disk.open(&file::name(number))?;
            handle.random_access();
            let is_last = at + 1 == self.numbers.len();
            let end = self.replay_file(&handle, number, is_last)?;
            last = Some((number, handle, end));
        }
        let active = match last {
            Some((number, file, end)) => {
                if file.len()? > end {
                    tracing::warn!(number, end, "cutting a torn tail off the journal");
                    file.truncate(end)?;
                }
                // What the system has may not be on the disk yet; from here on it counts as that.
                file.sync_data()?;
                ActiveFile::synced_at(number, file, end)
            }
            None => {
                let number = self.start.file;
                let file = file::create(self.disk, number)?;
                self.indexer.add_file(number);
                ActiveFile::synced_at(number, file, FIRST_RECORD)
            }
        };
        let end = Place { file: active.number, position: active.position as u32 };
        self.indexer.cover(end);
        self.indexer.set_synced(end);
        self.indexer.close_rows()?;
        let (indexer, replayed_bytes) = (self.indexer, self.replayed_bytes);
        Ok(Recovered { indexer, active, replayed_bytes, rebuilt })
    }

    /// Replays one file; where its records end.
    fn replay_file(
        &mut self,
        handle: &Arc<dyn DiskFile>,
        number: u32,
        is_last: bool,
    ) -> Result<u64, StorageError> {
        let from =
            if number == self.start.file { self.start.position.into() } else { FIRST_RECORD };
        let mut scanner = Scanner::new(handle.clone(), number, from)?;
        loop {
            match scanner.next()? {
                Scanned::End => return Ok(scanner.position),
                Scanned::Record { header, payload, position } => {
                    let at = Place { file: number, position: position as u32 };
                    match header.decode_payload(&payload) {
                        Ok(payload) => self.replay(&header, &payload, at)?,
                        Err(error) => {
                            let mut behind =
                                |later: &RecordHeader| u64::from(later.synced) > position;
                            let rot = !is_last
                                || scanner.resync(scanner.position, &mut behind)?.is_some();
                            if !rot {
                                return Ok(position);
                            }
                            tracing::error!(
                                number, position, %error, "a journal record is damaged"
                            );
                            self.note_damage(at, header.size_bytes());
                            self.replay_damaged(&header, at)?;
                        }
                    }
                    self.on_replayed(number, &scanner)?;
                }
                Scanned::Bad { position, error } => {
                    let mut behind = |later: &RecordHeader| u64::from(later.synced) > position;
                    if is_last && scanner.resync(position + 1, &mut behind)?.is_none() {
                        return Ok(position);
                    }
                    let next = scanner.resync(position + 1, &mut |_| true)?.unwrap_or(scanner.len);
                    tracing::error!(number, position, next, %error, "the journal is damaged");
                    let at = Place { file: number, position: position as u32 };
                    self.note_damage(at, next - position);
                    scanner.position = next;
                }
            }
        }
    }

    fn note_damage(&mut self, at: Place, bytes: u64) {
        self.damaged_bytes += bytes;
        self.damaged_at = at;
    }

    fn on_replayed(&mut self, number: u32, scanner: &Scanner) -> Result<(), StorageError> {
        let position = scanner.position as u32;
        let covered = self.indexer.covered();
        let from = if covered.file == number { covered.position } else { FIRST_RECORD as u32 };
        let bytes = u64::from(position.saturating_sub(from));
        self.replayed_bytes += bytes;
        self.unflushed_bytes += bytes;
        self.indexer.cover(Place { file: number, position });
        if self.unflushed_bytes >= FLUSH_INTERVAL_BYTES {
            self.unflushed_bytes = 0;
            self.indexer.flush_batch()?;
        }
        Ok(())
    }

    fn replay(
        &mut self,
        header: &RecordHeader,
        payload: &Payload,
        at: Place,
    ) -> Result<(), StorageError> {
        match payload {
            Payload::Batches(batches) => self.replay_entry(header, batches, false, at),
            Payload::Opaque => self.replay_entry(header, &[], false, at),
            payload => self.indexer.control(header.group, payload, at),
        }
    }

    /// A record whose header says what it was, and whose payload is lost.
    fn replay_damaged(&mut self, header: &RecordHeader, at: Place) -> Result<(), StorageError> {
        match header.kind {
            RecordKind::AppendBatches | RecordKind::AppendOpaque => {
                self.replay_entry(header, &[], true, at)
            }
            _ => Ok(()),
        }
    }

    fn replay_entry(
        &mut self,
        header: &RecordHeader,
        batches: &[BatchMeta],
        corrupt: bool,
        at: Place,
    ) -> Result<(), StorageError> {
        let group = header.group;
        let row = self.indexer.row(group)?;
        if row.removed.is_some() {
            return Ok(());
        }
        let (next, extent_file) = (row.next_index(), row.extent_file);
        if let Some(next) = next.filter(|next| *next < header.index) {
            // Entries are missing. Damage leaves a gap that is marked; files that are gone leave
            // one that a later truncation or purge closes, because what was in them was dead.
            if self.was_damaged(extent_file, at.file, header.index - next) {
                self.fill_gap(header, next)?;
            }
        } else if next.is_some_and(|next| next > header.index) {
            // The truncation that led here is in a file that is gone.
            self.indexer.truncate(group, header.index.checked_sub(1), at)?;
        }
        self.indexer.begin(group, header.base_offset)?;
        let before = self.indexer.row(group)?.end;
        let own_max = batches.iter().map(|batch| batch.max_timestamp).max().unwrap_or(-1);
        let opaque = header.kind == RecordKind::AppendOpaque;
        let entry = EntryRow {
            id: header.entry_id(),
            opaque_kind: opaque.then_some(header.flag),
            corrupt,
            place: at,
            size_bytes: header.payload_length,
            base_offset: header.base_offset,
            next_offset: header.base_offset + i64::from(header.offset_count),
            max_timestamp: before.max_timestamp.max(own_max),
            end_bytes: before.end_bytes + header.size_bytes(),
            batches: batches.to_vec(),
        };
        self.indexer.append(group, &entry, at)
    }

    /// Whether damage explains that so many entries are missing, rather than files that are gone.
    fn was_damaged(&self, from_file: u32, to_file: u32, missing: u64) -> bool {
        let none_gone = (from_file..=to_file).all(|file| self.numbers.contains(&file));
        from_file != 0 && none_gone && missing <= self.damaged_bytes / HEADER_LEN as u64
    }

    /// Marks the entries up to `header`'s as damaged.
    fn fill_gap(&mut self, header: &RecordHeader, from: u64) -> Result<(), StorageError> {
        for index in from..header.index {
            let before = self.indexer.row(header.group)?.end;
            let term = before.id.map_or(0, |id| id.term);
            let entry = EntryRow {
                id: EntryId { term, index },
                opaque_kind: None,
                corrupt: true,
                place: self.damaged_at,
                size_bytes: 0,
                base_offset: before.next_offset,
                next_offset: header.base_offset.max(before.next_offset),
                max_timestamp: before.max_timestamp,
                end_bytes: before.end_bytes + HEADER_LEN as u64,
                batches: Vec::new(),
            };
            self.indexer.append(header.group, &entry, self.damaged_at)?;
        }
        Ok(())
    }
}
