//! The values of the index: what it says of an entry, and of a group.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::record_batch::{BatchHeader, HEADER_LEN as BATCH_HEADER_LEN, LENGTH_PREFIX_LEN};
use protocol::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::epochs::TermTable;
use crate::codec::{Reader, put_i64, put_u64};
use crate::journal::record::{HEADER_LEN, PurgePoint, put_vote, read_vote};
use crate::log_store::{EntryId, Vote};

/// A position in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place {
    /// The file's number.
    pub file: u32,
    /// Bytes from its beginning.
    pub position: u32,
}

impl Place {
    pub(crate) fn pack(self) -> u64 {
        u64::from(self.file) << 32 | u64::from(self.position)
    }

    pub(crate) fn unpack(packed: u64) -> Place {
        Place { file: (packed >> 32) as u32, position: packed as u32 }
    }
}

/// What is kept of a batch's header: enough to find records in it and to replay its producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchMeta {
    /// Bytes of the batch, its header included.
    pub size_bytes: u32,
    /// Offset of its last record, from its first.
    pub last_offset_delta: i32,
    /// Its largest timestamp.
    pub max_timestamp: i64,
    /// Its producer, or -1.
    pub producer_id: i64,
    /// Its producer's epoch, or -1.
    pub producer_epoch: i16,
    /// Its attributes.
    pub attributes: i16,
    /// Its first sequence, or -1.
    pub base_sequence: i32,
}

impl BatchMeta {
    /// From the header.
    #[must_use]
    pub fn of(header: &BatchHeader) -> BatchMeta {
        BatchMeta {
            size_bytes: header.size_in_bytes() as u32,
            last_offset_delta: header.last_offset_delta,
            max_timestamp: header.max_timestamp.0,
            producer_id: header.producer_id.0,
            producer_epoch: header.producer_epoch.0,
            attributes: header.attributes,
            base_sequence: header.base_sequence,
        }
    }

    /// How many offsets it takes.
    #[must_use]
    pub fn offset_count(&self) -> i64 {
        i64::from(self.last_offset_delta) + 1
    }

    /// Whether it holds a transaction's marker, which is not for consumers.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.header(0, 0).is_control()
    }

    /// The header, as far as producers are concerned.
    #[must_use]
    pub fn header(&self, base_offset: i64, term: u64) -> BatchHeader {
        BatchHeader {
            base_offset: Offset(base_offset),
            batch_length: self.size_bytes as i32 - LENGTH_PREFIX_LEN as i32,
            partition_leader_epoch: LeaderEpoch(term as i32),
            magic: 2,
            crc: 0,
            attributes: self.attributes,
            last_offset_delta: self.last_offset_delta,
            base_timestamp: Timestamp(self.max_timestamp),
            max_timestamp: Timestamp(self.max_timestamp),
            producer_id: ProducerId(self.producer_id),
            producer_epoch: ProducerEpoch(self.producer_epoch),
            base_sequence: self.base_sequence,
            record_count: self.last_offset_delta.saturating_add(1),
        }
    }
}

/// What is true right behind an entry, whatever follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// The entry; `None` before the first.
    pub id: Option<EntryId>,
    /// The offset of the next record.
    pub next_offset: i64,
    /// The largest timestamp so far; -1 before the first.
    pub max_timestamp: i64,
    /// Journal bytes (headers and payloads) of all entries so far, purged ones included.
    pub end_bytes: u64,
}

impl Mark {
    /// Before the first entry of a group.
    pub const ORIGIN: Mark = Mark { id: None, next_offset: 0, max_timestamp: -1, end_bytes: 0 };
}

/// What the index says of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRow {
    /// Its term and index.
    pub id: EntryId,
    /// The caller's tag; `None` for record batches.
    pub opaque_kind: Option<u8>,
    /// Its bytes were found damaged: nothing of it is served.
    pub corrupt: bool,
    /// Where its record begins.
    pub place: Place,
    /// Bytes of its payload.
    pub size_bytes: u32,
    /// Offset of its first record.
    pub base_offset: i64,
    /// What is true behind it.
    pub next_offset: i64,
    /// The largest timestamp up to its end.
    pub max_timestamp: i64,
    /// Journal bytes up to its end.
    pub end_bytes: u64,
    /// Its batches.
    pub batches: Vec<BatchMeta>,
}

const OPAQUE: u8 = 1;
const CORRUPT: u8 = 2;
const PRODUCER: u8 = 1;
const ATTRIBUTES: u8 = 2;

impl EntryRow {
    /// What is true behind it.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            id: Some(self.id),
            next_offset: self.next_offset,
            max_timestamp: self.max_timestamp,
            end_bytes: self.end_bytes,
        }
    }

    /// Bytes of its record in the journal.
    #[must_use]
    pub fn journal_bytes(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.size_bytes)
    }

    /// Where its payload begins.
    #[must_use]
    pub fn payload_position(&self) -> u64 {
        u64::from(self.place.position) + HEADER_LEN as u64
    }

    /// The largest timestamp of its own records, -1 without records.
    #[must_use]
    pub fn own_max_timestamp(&self) -> i64 {
        self.batches.iter().map(|batch| batch.max_timestamp).max().unwrap_or(-1)
    }

    /// Its batches with their base offsets and their positions in the payload.
    pub fn placed_batches(&self) -> impl Iterator<Item = PlacedBatch<'_>> {
        let (mut base_offset, mut position) = (self.base_offset, 0u64);
        self.batches.iter().map(move |meta| {
            let placed = PlacedBatch { meta, base_offset, position };
            base_offset += meta.offset_count();
            position += u64::from(meta.size_bytes);
            placed
        })
    }

    /// Appends its bytes to `out`, as of an entry at `place`. The index is the key's.
    pub fn write(&self, place: Place, out: &mut Vec<u8>) {
        let opaque = if self.opaque_kind.is_some() { OPAQUE } else { 0 };
        out.push(opaque | if self.corrupt { CORRUPT } else { 0 });
        if let Some(kind) = self.opaque_kind {
            out.push(kind);
        }
        put_u64(out, u64::from(place.file));
        put_u64(out, u64::from(place.position));
        put_u64(out, u64::from(self.size_bytes));
        put_u64(out, self.id.term);
        put_i64(out, self.base_offset);
        put_u64(out, (self.next_offset - self.base_offset) as u64);
        put_i64(out, self.max_timestamp);
        put_u64(out, self.end_bytes);
        put_u64(out, self.batches.len() as u64);
        // Timestamps count back from the running maximum, producers repeat: a batch of a steady
        // producer takes about seven bytes.
        let mut last = Expected { producer_id: -1, producer_epoch: -1, sequence: -1 };
        for batch in &self.batches {
            let expected = last.fits(batch);
            let flags = if expected { 0 } else { PRODUCER }
                | if batch.attributes == 0 { 0 } else { ATTRIBUTES };
            out.push(flags);
            put_u64(out, u64::from(batch.size_bytes));
            put_i64(out, i64::from(batch.last_offset_delta));
            put_i64(out, self.max_timestamp.wrapping_sub(batch.max_timestamp));
            if !expected {
                put_i64(out, batch.producer_id);
                put_i64(out, i64::from(batch.producer_epoch));
                put_i64(out, i64::from(batch.base_sequence));
            }
            if batch.attributes != 0 {
                put_i64(out, i64::from(batch.attributes));
            }
            last.follow(batch);
        }
    }

    /// Reads what `write` wrote.
    #[must_use]
    pub fn read(index: u64, value: &[u8]) -> Option<EntryRow> {
        let mut reader = Reader::new(value);
        let flags = reader.u8()?;
        let opaque_kind = if flags & OPAQUE != 0 { Some(reader.u8()?) } else { None };
        let place = Place { file: reader.u32()?, position: reader.u32()? };
        let size_bytes = reader.u32()?;
        let id = EntryId { term: reader.u64()?, index };
        let base_offset = reader.i64()?;
        let next_offset = base_offset.checked_add(i64::try_from(reader.u64()?).ok()?)?;
        let max_timestamp = reader.i64()?;
        let end_bytes = reader.u64()?;
        let count = reader.count()?;
        let mut batches = Vec::with_capacity(count);
        let mut last = Expected { producer_id: -1, producer_epoch: -1, sequence: -1 };
        for _ in 0..count {
            let batch = read_batch(&mut reader, max_timestamp, &last)?;
            last.follow(&batch);
            batches.push(batch);
        }
        let corrupt = flags & CORRUPT != 0;
        reader.is_empty().then_some(EntryRow {
            id,
            opaque_kind,
            corrupt,
            place,
            size_bytes,
            base_offset,
            next_offset,
            max_timestamp,
            end_bytes,
            batches,
        })
    }
}

fn read_batch(reader: &mut Reader<'_>, running: i64, last: &Expected) -> Option<BatchMeta> {
    let flags = reader.u8()?;
    let size_bytes = reader.u32()?;
    let last_offset_delta = i32::try_from(reader.i64()?).ok()?;
    let max_timestamp = running.wrapping_sub(reader.i64()?);
    let (producer_id, producer_epoch, base_sequence) = if flags & PRODUCER != 0 {
        let id = reader.i64()?;
        let epoch = i16::try_from(reader.i64()?).ok()?;
        (id, epoch, i32::try_from(reader.i64()?).ok()?)
    } else {
        (last.producer_id, last.producer_epoch, last.sequence)
    };
    let attributes = if flags & ATTRIBUTES != 0 { i16::try_from(reader.i64()?).ok()? } else { 0 };
    Some(BatchMeta {
        size_bytes,
        last_offset_delta,
        max_timestamp,
        producer_id,
        producer_epoch,
        attributes,
        base_sequence,
    })
}

/// What the next batch's producer fields are, if the producer goes on.
struct Expected {
    producer_id: i64,
    producer_epoch: i16,
    sequence: i32,
}

impl Expected {
    fn fits(&self, batch: &BatchMeta) -> bool {
        (self.producer_id, self.producer_epoch, self.sequence)
            == (batch.producer_id, batch.producer_epoch, batch.base_sequence)
    }

    fn follow(&mut self, batch: &BatchMeta) {
        self.producer_id = batch.producer_id;
        self.producer_epoch = batch.producer_epoch;
        self.sequence = if batch.base_sequence < 0 {
            batch.base_sequence
        } else {
            batch.base_sequence.wrapping_add(batch.last_offset_delta).wrapping_add(1) & i32::MAX
        };
    }
}

/// A batch of an entry, and where it is.
#[derive(Debug, Clone, Copy)]
pub struct PlacedBatch<'a> {
    /// What is kept of its header.
    pub meta: &'a BatchMeta,
    /// Offset of its first record.
    pub base_offset: i64,
    /// Bytes from the beginning of the payload.
    pub position: u64,
}

impl PlacedBatch<'_> {
    /// The offset behind it.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.base_offset + self.meta.offset_count()
    }
}

/// What the index says of a group, and what the store keeps of it in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRow {
    /// The vote.
    pub vote: Option<Vote>,
    /// Behind the last entry that was purged.
    pub start: Mark,
    /// Behind the last entry.
    pub end: Mark,
    /// Index of the first entry, if there is one.
    pub first_index: u64,
    /// The log start offset.
    pub log_start: i64,
    /// The terms.
    pub terms: TermTable,
    /// The file that its last entry is in; 0 for none.
    pub extent_file: u32,
    /// No file before this one says anything of the group but entries; 0 for none does.
    pub head_file: u32,
    /// The group is gone; no file behind this one has entries of it.
    pub removed: Option<u32>,
}

impl Default for GroupRow {
    fn default() -> Self {
        GroupRow {
            vote: None,
            start: Mark::ORIGIN,
            end: Mark::ORIGIN,
            first_index: 0,
            log_start: 0,
            terms: TermTable::default(),
            extent_file: 0,
            head_file: 0,
            removed: None,
        }
    }
}

impl GroupRow {
    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end.id == self.start.id
    }

    /// Index of the last entry, if there is one.
    #[must_use]
    pub fn last_index(&self) -> Option<u64> {
        self.end.id.filter(|_| !self.is_empty()).map(|id| id.index)
    }

    /// The index that the next entry must have; `None` when any may come first.
    #[must_use]
    pub fn next_index(&self) -> Option<u64> {
        self.end.id.map(|id| id.index + 1)
    }

    /// Bytes of the payloads of its entries.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        let Some(last) = self.last_index() else { return 0 };
        let headers = (last - self.first_index + 1) * HEADER_LEN as u64;
        (self.end.end_bytes - self.start.end_bytes).saturating_sub(headers)
    }

    /// An entry was appended; whether it began a term.
    pub fn on_append(&mut self, mark: Mark, base_offset: i64) -> bool {
        let Some(id) = mark.id else { return false };
        if self.is_empty() {
            self.first_index = id.index;
        }
        self.end = mark;
        self.terms.on_append(id, base_offset)
    }

    /// Everything behind `mark` went.
    pub fn on_truncate(&mut self, mut mark: Mark) {
        if mark.id.is_none() {
            // Nothing is left and nothing was purged: the log begins at 0, whatever a rebuild had
            // guessed from the first entry that it met.
            mark = Mark { end_bytes: mark.end_bytes, ..Mark::ORIGIN };
            self.start = mark;
        }
        self.end = mark;
        self.terms.truncate_after(mark.id.map(|id| id.index));
        self.log_start = self.log_start.min(mark.next_offset);
    }

    /// Everything up to `mark` went.
    pub fn on_purge(&mut self, mark: Mark) {
        let Some(id) = mark.id else { return };
        self.start = mark;
        self.first_index = id.index + 1;
        if self.end.id.is_none_or(|end| end.index <= id.index) {
            self.end = mark;
        }
        self.terms.purge_to(id.index);
        self.log_start = self.log_start.max(mark.next_offset);
    }

    /// The log was replaced by nothing up to a snapshot.
    pub fn on_reset(&mut self, point: &PurgePoint) {
        let end_bytes = self.end.end_bytes;
        let (next_offset, max_timestamp) = (point.next_offset, point.max_timestamp);
        let mark = Mark { id: Some(point.id), next_offset, max_timestamp, end_bytes };
        self.start = mark;
        self.end = mark;
        self.first_index = point.id.index + 1;
        self.terms = point.terms.clone();
        self.log_start = next_offset;
        self.extent_file = 0;
    }

    /// Its bytes. `open` says that the group has entries behind `end` that the row does not know.
    #[must_use]
    pub fn encode(&self, open: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        out.push(u8::from(open));
        put_vote(&mut out, self.vote);
        put_mark(&mut out, &self.start);
        put_mark(&mut out, &self.end);
        put_u64(&mut out, self.first_index);
        put_i64(&mut out, self.log_start);
        self.terms.write(&mut out);
        put_u64(&mut out, u64::from(self.extent_file));
        put_u64(&mut out, u64::from(self.head_file));
        out.push(u8::from(self.removed.is_some()));
        put_u64(&mut out, u64::from(self.removed.unwrap_or(0)));
        out
    }

    /// Reads what `encode` wrote.
    #[must_use]
    pub fn decode(value: &[u8]) -> Option<(GroupRow, bool)> {
        let mut reader = Reader::new(value);
        let open = reader.u8()? != 0;
        let vote = read_vote(&mut reader)?;
        let (start, end) = (read_mark(&mut reader)?, read_mark(&mut reader)?);
        let (first_index, log_start) = (reader.u64()?, reader.i64()?);
        let terms = TermTable::read(&mut reader)?;
        let (extent_file, head_file) = (reader.u32()?, reader.u32()?);
        let is_removed = reader.u8()? != 0;
        let removed = Some(reader.u32()?).filter(|_| is_removed);
        let row = GroupRow {
            vote,
            start,
            end,
            first_index,
            log_start,
            terms,
            extent_file,
            head_file,
            removed,
        };
        reader.is_empty().then_some((row, open))
    }
}

fn put_mark(out: &mut Vec<u8>, mark: &Mark) {
    out.push(u8::from(mark.id.is_some()));
    if let Some(id) = mark.id {
        put_u64(out, id.term);
        put_u64(out, id.index);
    }
    put_i64(out, mark.next_offset);
    put_i64(out, mark.max_timestamp);
    put_u64(out, mark.end_bytes);
}

fn read_mark(reader: &mut Reader<'_>) -> Option<Mark> {
    let has_id = reader.u8()? != 0;
    let id =
        if has_id { Some(EntryId { term: reader.u64()?, index: reader.u64()? }) } else { None };
    let (next_offset, max_timestamp) = (reader.i64()?, reader.i64()?);
    Some(Mark { id, next_offset, max_timestamp, end_bytes: reader.u64()? })
}

/// Bytes of a batch's header, for callers that cut a batch into head and body.
pub(crate) const HEAD: usize = BATCH_HEADER_LEN;

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(producer_id: i64, base_sequence: i32, max_timestamp: i64) -> BatchMeta {
        BatchMeta {
            size_bytes: 300,
            last_offset_delta: 9,
            max_timestamp,
            producer_id,
            producer_epoch: if producer_id < 0 { -1 } else { 3 },
            attributes: 4,
            base_sequence,
        }
    }

    fn row(batches: Vec<BatchMeta>) -> EntryRow {
        EntryRow {
            id: EntryId { term: 7, index: 42 },
            opaque_kind: None,
            corrupt: false,
            place: Place { file: 3, position: 12345 },
            size_bytes: 300 * batches.len() as u32,
            base_offset: 1000,
            next_offset: 1000 + 10 * batches.len() as i64,
            max_timestamp: 1_700_000_000_000,
            end_bytes: 99_999,
            batches,
        }
    }

    #[test]
    fn an_entry_row_comes_back() {
        let batches = vec![
            batch(-1, -1, -1),
            batch(5, 0, 1_700_000_000_000),
            batch(5, 10, 1_699_999_999_000),
            batch(5, i32::MAX - 4, i64::MIN),
            batch(5, 5, i64::MAX),
            batch(6, 0, 0),
        ];
        for row in [row(batches), EntryRow { opaque_kind: Some(3), ..row(vec![]) }] {
            let mut bytes = Vec::new();
            row.write(row.place, &mut bytes);
            assert_eq!(EntryRow::read(42, &bytes), Some(row));
            for cut in 0..bytes.len() {
                assert_eq!(EntryRow::read(42, &bytes[..cut]), None);
            }
        }
    }

    #[test]
    fn a_steady_producer_costs_few_bytes_a_batch() {
        let steady = |count: i32| {
            let mut bytes = Vec::new();
            let batches = (0..count).map(|at| batch(5, at * 10, 1_700_000_000_000)).collect();
            row(batches).write(Place::default(), &mut bytes);
            bytes.len()
        };
        assert!(steady(11) - steady(1) <= 80);
    }

    #[test]
    fn a_group_row_comes_back() {
        let mut row = GroupRow {
            vote: Some(Vote { term: 3, node_id: Some(2), committed: true }),
            ..GroupRow::default()
        };
        let id = EntryId { term: 3, index: 0 };
        row.on_append(Mark { id: Some(id), next_offset: 5, max_timestamp: 9, end_bytes: 100 }, 0);
        row.removed = Some(4);
        for open in [true, false] {
            assert_eq!(GroupRow::decode(&row.encode(open)), Some((row.clone(), open)));
        }
        assert_eq!(GroupRow::decode(&[]), None);
    }
}
