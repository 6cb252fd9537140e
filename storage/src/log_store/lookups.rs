//! Finding by time, planning retention, and what may be purged: questions to the index that read
//! few rows and no more record bytes than one batch.
//!
//! Each row holds the running maximum of the timestamps, which grows with the index, so a time is
//! found by halving. Only where the maximum comes from a purged entry do rows have to be read one
//! by one, from the log's start.

use std::ops::Range;

use protocol::record_batch::RecordBatch;
use protocol::types::{LeaderEpoch, Offset, Timestamp};

use super::log::GroupLog;
use super::read::{Found, read_exact};
use super::{EntryBody, EntryId, NextRecord, TimestampOffset};
use crate::StorageError;
use crate::index::lookup;
use crate::index::rows::PlacedBatch;
use crate::journal::record::HEADER_LEN;
use crate::limits::{DECOMPRESSED_BATCH_BYTES, NEXT_RECORD_ENTRIES};
use crate::retention::{self, Extent, RetainedLog, RetentionConfig};

/// What a search by time looks at: entries, offsets, and the largest timestamp before them.
struct Window {
    entries: Range<u64>,
    offsets: Range<i64>,
    purged_max: i64,
}

impl GroupLog {
    fn window(&self, upper_bound: Offset) -> Result<Window, StorageError> {
        let state = self.group.lock_alive()?;
        let row = &state.row;
        let behind = row.last_index().map_or(row.first_index, |last| last + 1);
        Ok(Window {
            entries: row.first_index..behind,
            offsets: row.log_start..upper_bound.0.min(row.end.next_offset),
            purged_max: row.start.max_timestamp,
        })
    }

    fn find(&self, index: u64) -> Result<Option<Found>, StorageError> {
        let in_memory = self.group.lock_alive()?.in_memory(index).cloned();
        if let Some(entry) = in_memory {
            return Ok(Some(Found::Memory(entry)));
        }
        Ok(lookup::entry(&*self.shared().kv, self.group.id.0, index)?.map(Found::Disk))
    }

    /// The first entry of `range` that `is` true for, which is true for all behind it.
    fn first_where(
        &self,
        range: Range<u64>,
        is: impl Fn(&Found) -> bool,
    ) -> Result<u64, StorageError> {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low + (high - low) / 2;
            // An entry that was purged meanwhile lies before what is looked for.
            match self.find(middle)? {
                Some(found) if is(&found) => high = middle,
                _ => low = middle + 1,
            }
        }
        Ok(low)
    }

    /// First record at or after `timestamp` with an offset in `log_start..upper_bound`.
    ///
    /// # Errors
    /// What the index or the journal answers.
    pub fn offset_for_timestamp(
        &self,
        timestamp: Timestamp,
        upper_bound: Offset,
    ) -> Result<Option<TimestampOffset>, StorageError> {
        let window = self.window(upper_bound)?;
        let reaches = |found: &Found| found.row().max_timestamp >= timestamp.0;
        let from = self.first_where(window.entries.clone(), reaches)?;
        let mut found = None;
        self.visit_left(from..window.entries.end, &mut |entry| {
            if entry.row().base_offset >= window.offsets.end {
                return Ok(false);
            }
            found = self.first_record(&entry, &window.offsets, |at| at >= timestamp.0)?;
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// The record with the largest timestamp below `upper_bound` (ListOffsets -3), the first of
    /// several.
    ///
    /// # Errors
    /// What the index or the journal answers.
    pub fn offset_of_max_timestamp(
        &self,
        upper_bound: Offset,
    ) -> Result<Option<TimestampOffset>, StorageError> {
        let window = self.window(upper_bound)?;
        let behind = |found: &Found| found.row().base_offset >= window.offsets.end;
        let end = self.first_where(window.entries.clone(), behind)?;
        let Some(last) = end.checked_sub(1).filter(|last| *last >= window.entries.start) else {
            return Ok(None);
        };
        let running = self.find(last)?.map_or(-1, |found| found.row().max_timestamp);
        let whole = window.offsets.start <= self.base_offset(window.entries.start)?
            && self.next_offset(last)? <= window.offsets.end;
        let mut from = window.entries.start;
        let mut max = None;
        if whole && running > window.purged_max {
            from = self.first_where(from..end, |found| found.row().max_timestamp >= running)?;
            max = Some(running);
        }
        let max = match max {
            Some(max) => max,
            None => match self.largest_timestamp(from..end, &window.offsets)? {
                Some(max) => max,
                None => return Ok(None),
            },
        };
        let mut found = None;
        self.visit_left(from..end, &mut |entry| {
            found = self.first_record(&entry, &window.offsets, |at| at >= max)?;
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    fn base_offset(&self, index: u64) -> Result<i64, StorageError> {
        Ok(self.find(index)?.map_or(0, |found| found.row().base_offset))
    }

    fn next_offset(&self, index: u64) -> Result<i64, StorageError> {
        Ok(self.find(index)?.map_or(0, |found| found.row().next_offset))
    }

    /// The largest timestamp of the batches in `offsets`, row by row.
    fn largest_timestamp(
        &self,
        entries: Range<u64>,
        offsets: &Range<i64>,
    ) -> Result<Option<i64>, StorageError> {
        let mut largest = None;
        self.visit_left(entries, &mut |entry| {
            for batch in entry.row().placed_batches() {
                if batch.base_offset < offsets.end && batch.next_offset() > offsets.start {
                    largest = largest.max(Some(batch.meta.max_timestamp));
                }
            }
            Ok(true)
        })?;
        Ok(largest)
    }

    /// Visits a range of which the beginning may have been purged meanwhile.
    fn visit_left(
        &self,
        range: Range<u64>,
        each: &mut dyn FnMut(Found) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        let first = self.group.lock_alive()?.row.first_index;
        self.visit(range.start.max(first)..range.end, each)
    }

    /// The first record of an entry within `offsets` whose timestamp is `wanted`. Of its batches
    /// only those are decoded whose maximum is.
    fn first_record(
        &self,
        found: &Found,
        offsets: &Range<i64>,
        wanted: impl Fn(i64) -> bool,
    ) -> Result<Option<TimestampOffset>, StorageError> {
        let row = found.row();
        let candidate = row.placed_batches().any(|batch| {
            wanted(batch.meta.max_timestamp)
                && batch.base_offset < offsets.end
                && batch.next_offset() > offsets.start
        });
        if !candidate {
            return Ok(None);
        }
        let entry = match found {
            Found::Memory(entry) => entry.to_entry()?,
            Found::Disk(row) => self.load(row)?,
        };
        let EntryBody::Batches(batches) = entry.body else { return Ok(None) };
        for batch in &batches {
            let header = batch.header();
            if !wanted(header.max_timestamp.0) || header.next_offset().0 <= offsets.start {
                continue;
            }
            let records = batch.records(DECOMPRESSED_BATCH_BYTES);
            for record in records.map_err(|error| StorageError::Corrupt(error.to_string()))? {
                let record = record.map_err(|error| StorageError::Corrupt(error.to_string()))?;
                if wanted(record.timestamp.0) && offsets.contains(&record.offset.0) {
                    return Ok(Some(TimestampOffset {
                        timestamp: record.timestamp,
                        offset: record.offset,
                        leader_epoch: LeaderEpoch(entry.id.term as i32),
                    }));
                }
            }
        }
        Ok(None)
    }

    /// The first record at or behind `from` and below `upper_bound`, control records aside. Reads
    /// no more than its batch, and that only up to the record.
    ///
    /// # Errors
    /// What the index or the journal answers, or `Corrupt` for a batch that does not decode.
    pub fn next_record(
        &self,
        from: Offset,
        upper_bound: Offset,
    ) -> Result<Option<NextRecord>, StorageError> {
        let first = self.entry_with_offset(from.0)?;
        let mut next = None;
        let mut before = None;
        self.visit_left(
            first.saturating_sub(1)..first.saturating_add(NEXT_RECORD_ENTRIES),
            &mut |found| {
                let row = found.row();
                if row.base_offset >= upper_bound.0 {
                    return Ok(false);
                }
                next = self.next_record_of(&found, before.unwrap_or(-1), from)?;
                before = Some(row.max_timestamp);
                Ok(next.is_none())
            },
        )?;
        Ok(next.filter(|record| record.offset < upper_bound))
    }

    /// The first record of the entry at or behind `from`; `expired_before` is the largest timestamp
    /// up to the entry.
    fn next_record_of(
        &self,
        found: &Found,
        expired_before: i64,
        from: Offset,
    ) -> Result<Option<NextRecord>, StorageError> {
        let row = found.row();
        let entry_end = position(row.id.index, row.end_bytes);
        let mut expires_with = expired_before;
        for (at, placed) in row.placed_batches().enumerate() {
            expires_with = expires_with.max(placed.meta.max_timestamp);
            if placed.next_offset() <= from.0 || placed.meta.is_control() {
                continue;
            }
            let batch = self.placed_batch(found, at, &placed)?;
            let record = batch.first_record_from(from, DECOMPRESSED_BATCH_BYTES);
            let record = record.map_err(|error| StorageError::Corrupt(error.to_string()))?;
            let Some((offset, timestamp)) = record else { continue };
            let behind = placed.position + u64::from(placed.meta.size_bytes);
            return Ok(Some(NextRecord {
                offset,
                timestamp,
                expires_with: Timestamp(expires_with),
                batch_end_position: (entry_end + behind).saturating_sub(u64::from(row.size_bytes)),
            }));
        }
        Ok(None)
    }

    /// One batch of an entry, without the others.
    fn placed_batch(
        &self,
        found: &Found,
        at: usize,
        placed: &PlacedBatch<'_>,
    ) -> Result<RecordBatch, StorageError> {
        let corrupt = |error: protocol::record_batch::BatchError| {
            StorageError::Corrupt(format!("group {}: {error}", self.group.id.0))
        };
        let row = match found {
            Found::Memory(entry) => {
                let mut head = [0; protocol::record_batch::HEADER_LEN];
                head.copy_from_slice(&entry.head(at));
                return RecordBatch::from_parts(head, entry.bodies[at].clone()).map_err(corrupt);
            }
            Found::Disk(row) if row.corrupt => {
                let what = format!("entry {} of group {}", row.id.index, self.group.id.0);
                return Err(StorageError::Corrupt(what));
            }
            Found::Disk(row) => row,
        };
        let file = self.shared().files.get(row.place.file)?;
        let from = row.payload_position() + placed.position;
        let mut bytes = read_exact(&*file, from, placed.meta.size_bytes as usize)?;
        let batch = RecordBatch::split_from(&mut bytes).map_err(corrupt)?;
        let batch = batch.ok_or_else(|| StorageError::Corrupt("an empty batch".to_owned()))?;
        batch.verify_crc().map_err(corrupt)?;
        Ok(batch)
    }

    /// Bytes of records ever appended: only grows, so that the difference of two is what lies
    /// between them, whatever was deleted meanwhile.
    #[must_use]
    pub fn end_position(&self) -> u64 {
        let end = self.group.lock().row.end;
        end.id.map_or(0, |id| position(id.index, end.end_bytes))
    }

    /// The offset that the log should start at by time and size retention, if it should move:
    /// exact to the batch. `retention_ms`/`retention_bytes` `None` = unlimited. Looks at nothing
    /// at or beyond `upper_bound`.
    ///
    /// # Errors
    /// What the index answers.
    pub fn plan_retention(
        &self,
        now: Timestamp,
        retention_ms: Option<i64>,
        retention_bytes: Option<i64>,
        upper_bound: Offset,
    ) -> Result<Option<Offset>, StorageError> {
        if retention_ms.is_none() && retention_bytes.is_none() {
            return Ok(None);
        }
        let (log_start, first, behind, payload) = {
            let state = self.group.lock_alive()?;
            let row = &state.row;
            let Some(last) = row.last_index() else { return Ok(None) };
            (row.log_start, row.first_index, last + 1, row.payload_bytes())
        };
        let start = self.entry_with_offset(log_start)?.max(first);
        let mut before = 0;
        if start > first {
            // Payloads of the entries that the log start has passed and that are not purged yet.
            let state = self.group.lock_alive()?;
            let mark = self.group.mark_at(&state, &*self.shared().kv, start - 1)?;
            let headers = (start - first) * crate::journal::record::HEADER_LEN as u64;
            before = (mark.end_bytes - state.row.start.end_bytes).saturating_sub(headers);
        }
        let mut extents = BatchExtents {
            log: self,
            entries: start..behind,
            buffer: Vec::new().into_iter(),
            log_start,
            skipped: 0,
            step: 16,
        };
        extents.fill()?;
        let size_bytes = payload.saturating_sub(before).saturating_sub(extents.skipped);
        let log = RetainedLog { log_start_offset: Offset(log_start), upper_bound, size_bytes };
        retention::plan(now, log, RetentionConfig { retention_ms, retention_bytes }, extents)
    }

    /// The entry that holds the record at `offset`: the first that ends behind it.
    fn entry_with_offset(&self, offset: i64) -> Result<u64, StorageError> {
        let (first, behind) = {
            let state = self.group.lock_alive()?;
            if let Some(index) = super::read::index_in_memory(&state, offset) {
                return Ok(index);
            }
            let row = &state.row;
            (row.first_index, row.last_index().map_or(row.first_index, |last| last + 1))
        };
        let mut index = behind;
        self.visit_left(self.index_on_disk(offset)?.max(first)..behind, &mut |found| {
            let row = found.row();
            if row.next_offset > offset {
                index = row.id.index;
                return Ok(false);
            }
            Ok(true)
        })?;
        Ok(index)
    }

    /// The last entry that lies wholly below `offset` (what may be purged), if any.
    ///
    /// # Errors
    /// What the index answers.
    pub fn last_entry_below(&self, offset: Offset) -> Result<Option<EntryId>, StorageError> {
        let index = self.entry_with_offset(offset.0)?;
        let Some(below) = index.checked_sub(1) else { return Ok(None) };
        if below < self.group.lock_alive()?.row.first_index {
            return Ok(None);
        }
        self.entry_id(below)
    }
}

/// Where an entry ends, in bytes of payloads: what the journal has of it, less its headers.
fn position(index: u64, end_bytes: u64) -> u64 {
    end_bytes.saturating_sub(index.saturating_add(1).saturating_mul(HEADER_LEN as u64))
}

/// The batches of a log from the oldest on, read a few rows at a time.
struct BatchExtents<'a> {
    log: &'a GroupLog,
    entries: Range<u64>,
    buffer: std::vec::IntoIter<Extent>,
    log_start: i64,
    /// Bytes of batches before the log start, in the entry that it is in.
    skipped: u64,
    step: u64,
}

impl BatchExtents<'_> {
    fn fill(&mut self) -> Result<(), StorageError> {
        let end = self.entries.end.min(self.entries.start + self.step);
        self.step = 256;
        let mut extents = Vec::new();
        let (log_start, mut skipped) = (self.log_start, 0);
        self.log.visit_left(self.entries.start..end, &mut |found| {
            for batch in found.row().placed_batches() {
                let size_bytes = u64::from(batch.meta.size_bytes);
                if batch.next_offset() <= log_start {
                    skipped += size_bytes;
                    continue;
                }
                extents.push(Extent {
                    base_offset: Offset(batch.base_offset),
                    next_offset: Offset(batch.next_offset()),
                    max_timestamp: Timestamp(batch.meta.max_timestamp),
                    size_bytes,
                });
            }
            Ok(true)
        })?;
        self.skipped += skipped;
        self.entries.start = end;
        self.buffer = extents.into_iter();
        Ok(())
    }
}

impl Iterator for BatchExtents<'_> {
    type Item = Result<Extent, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(extent) = self.buffer.next() {
                return Some(Ok(extent));
            }
            if self.entries.is_empty() {
                return None;
            }
            if let Err(error) = self.fill() {
                return Some(Err(error));
            }
        }
    }
}
