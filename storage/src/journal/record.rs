//! The journal record: a fixed header, and a payload.
//!
//! ```text
//!  0        4        8     9     10        12        16       24       32      40
//!  | magic  | header | kind| flag| reserved| payload | group  | index  | term   |
//!  | "HWJ1" | crc    | u8  | u8  | u16     | length  | u64    | u64    | u64    |
//!  40           48             52            56       60       64
//!  | base offset| offset count | payload crc | synced | file   | payload ...
//!  | i64        | u32          | u32         | u32    | u32    |
//! ```
//! All integers are little-endian. The header's CRC-32C covers everything behind it in the header.
//! Record batches bring their own CRC-32C, so `payload crc` is 0 for them: no byte is summed twice.
//! `synced` is the position in this file up to which the file was known to be synced when the
//! record was written: it tells a torn tail (behind it) from bit rot (before it). `file` is the
//! number of the file, so that bytes of another file are never taken for this one's.
//!
//! | kind            | index, term        | flag        | payload                                |
//! |-----------------|--------------------|-------------|----------------------------------------|
//! | append batches  | the entry's        |             | record batches as consumers get them   |
//! | append opaque   | the entry's        | its tag     | the caller's bytes                     |
//! | truncate        | last that stays    | 1: none does|                                        |
//! | purge           | last that goes     | 1: all goes | [`PurgePoint`]                         |
//! | vote            | node id, term      | bits        |                                        |
//! | state           |                    |             | key, value                             |
//! | log start       | base offset = it   |             |                                        |
//! | group removed   | highest file of its entries, or 0 for this one |                       |
//! | relocated       | reserved: survivors of a file that is mostly dead            |          |
//! | group head      |                    |             | [`GroupHead`]                          |
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::Bytes;
use protocol::record_batch::RecordBatch;

use crate::codec::{Reader, put_bytes, put_i64, put_u64};
use crate::index::epochs::TermTable;
use crate::index::rows::BatchMeta;
use crate::limits::RECORD_PAYLOAD_BYTES;
use crate::log_store::{EntryId, Vote};

/// Bytes of a record's header.
pub const HEADER_LEN: usize = 64;
/// The first bytes of every record.
pub const MAGIC: [u8; 4] = *b"HWJ1";

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// An entry of record batches.
    AppendBatches = 1,
    /// An entry of bytes that mean something to the caller only.
    AppendOpaque = 2,
    /// The end of a group's log moves back.
    Truncate = 3,
    /// The beginning of a group's log moves on.
    Purge = 4,
    /// A Raft vote.
    Vote = 5,
    /// A key and its value.
    State = 6,
    /// The log start offset.
    LogStart = 7,
    /// The group is gone.
    GroupRemoved = 8,
    /// Reserved.
    Relocated = 9,
    /// What the journal must still say of a group when a file that said it goes.
    GroupHead = 10,
}

impl RecordKind {
    fn from_u8(byte: u8) -> Option<RecordKind> {
        Some(match byte {
            1 => RecordKind::AppendBatches,
            2 => RecordKind::AppendOpaque,
            3 => RecordKind::Truncate,
            4 => RecordKind::Purge,
            5 => RecordKind::Vote,
            6 => RecordKind::State,
            7 => RecordKind::LogStart,
            8 => RecordKind::GroupRemoved,
            9 => RecordKind::Relocated,
            10 => RecordKind::GroupHead,
            _ => return None,
        })
    }
}

/// A record's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    /// What the record says.
    pub kind: RecordKind,
    /// Depends on the kind.
    pub flag: u8,
    /// Bytes of the payload.
    pub payload_length: u32,
    /// The group it is about.
    pub group: u64,
    /// Raft index.
    pub index: u64,
    /// Raft term.
    pub term: u64,
    /// Offset of the entry's first record.
    pub base_offset: i64,
    /// How many offsets the entry takes.
    pub offset_count: u32,
    /// CRC-32C of a payload that is not record batches.
    pub payload_crc: u32,
    /// How far the file was synced when this was written.
    pub synced: u32,
    /// The file's number.
    pub file: u32,
}

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Fewer bytes than a header, or than the header says.
    #[error("the record is cut short")]
    Short,
    /// Not the first bytes of a record.
    #[error("no record begins here")]
    Magic,
    /// The header's checksum does not match.
    #[error("the header does not match its checksum")]
    HeaderCrc,
    /// A kind or a length that nothing writes.
    #[error("the header says what no header says")]
    Header,
    /// The payload does not match its checksum, or is not what its kind promises.
    #[error("the payload does not match its checksum")]
    Payload,
}

impl RecordHeader {
    /// A header about `group`, the rest zero.
    #[must_use]
    pub fn new(kind: RecordKind, group: u64) -> RecordHeader {
        RecordHeader {
            kind,
            flag: 0,
            payload_length: 0,
            group,
            index: 0,
            term: 0,
            base_offset: 0,
            offset_count: 0,
            payload_crc: 0,
            synced: 0,
            file: 0,
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[8] = self.kind as u8;
        out[9] = self.flag;
        out[12..16].copy_from_slice(&self.payload_length.to_le_bytes());
        out[16..24].copy_from_slice(&self.group.to_le_bytes());
        out[24..32].copy_from_slice(&self.index.to_le_bytes());
        out[32..40].copy_from_slice(&self.term.to_le_bytes());
        out[40..48].copy_from_slice(&self.base_offset.to_le_bytes());
        out[48..52].copy_from_slice(&self.offset_count.to_le_bytes());
        out[52..56].copy_from_slice(&self.payload_crc.to_le_bytes());
        out[56..60].copy_from_slice(&self.synced.to_le_bytes());
        out[60..].copy_from_slice(&self.file.to_le_bytes());
        let crc = crc32c::crc32c(&out[8..]);
        out[4..8].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a header from the first bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<RecordHeader, RecordError> {
        let head = bytes.first_chunk::<HEADER_LEN>().ok_or(RecordError::Short)?;
        if head[..4] != MAGIC {
            return Err(RecordError::Magic);
        }
        let u32_at =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        if crc32c::crc32c(&head[8..]) != u32_at(4) {
            return Err(RecordError::HeaderCrc);
        }
        let kind = RecordKind::from_u8(head[8]).ok_or(RecordError::Header)?;
        let payload_length = u32_at(12);
        if payload_length > RECORD_PAYLOAD_BYTES {
            return Err(RecordError::Header);
        }
        Ok(RecordHeader {
            kind,
            flag: head[9],
            payload_length,
            group: u64_at(16),
            index: u64_at(24),
            term: u64_at(32),
            base_offset: u64_at(40) as i64,
            offset_count: u32_at(48),
            payload_crc: u32_at(52),
            synced: u32_at(56),
            file: u32_at(60),
        })
    }

    /// Bytes of the whole record.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        HEADER_LEN as u64 + u64::from(self.payload_length)
    }

    /// Which entry it appends.
    #[must_use]
    pub fn entry_id(&self) -> EntryId {
        EntryId { term: self.term, index: self.index }
    }

    /// Reads and verifies the payload.
    ///
    /// # Errors
    /// `Short` or `Payload`.
    pub fn decode_payload(&self, payload: &Bytes) -> Result<Payload, RecordError> {
        if payload.len() != self.payload_length as usize {
            return Err(RecordError::Short);
        }
        if self.kind == RecordKind::AppendBatches {
            return self.decode_batches(payload.clone()).map(Payload::Batches);
        }
        if crc32c::crc32c(payload) != self.payload_crc {
            return Err(RecordError::Payload);
        }
        self.decode_small(payload).ok_or(RecordError::Payload)
    }

    /// Offset and leader epoch lie outside of a batch's checksum: they are compared with what the
    /// header says of the entry.
    fn decode_batches(&self, mut payload: Bytes) -> Result<Vec<BatchMeta>, RecordError> {
        let (mut batches, mut next_offset) = (Vec::new(), self.base_offset);
        while !payload.is_empty() {
            let batch = RecordBatch::split_from(&mut payload)
                .ok()
                .flatten()
                .filter(|batch| batch.verify_crc().is_ok())
                .ok_or(RecordError::Payload)?;
            let header = batch.header();
            let epoch_is_its_own = header.partition_leader_epoch.0 == self.term as i32;
            if header.base_offset.0 != next_offset || !epoch_is_its_own {
                return Err(RecordError::Payload);
            }
            next_offset = header.next_offset().0;
            batches.push(BatchMeta::of(header));
        }
        Ok(batches)
    }

    fn decode_small(&self, payload: &[u8]) -> Option<Payload> {
        let mut reader = Reader::new(payload);
        let read = match self.kind {
            RecordKind::AppendBatches | RecordKind::AppendOpaque => return Some(Payload::Opaque),
            RecordKind::Truncate => Payload::Truncate((self.flag == 0).then_some(self.index)),
            RecordKind::Purge => Payload::Purge(PurgePoint::read(&mut reader)?),
            RecordKind::Vote => Payload::Vote(Vote {
                term: self.term,
                node_id: (self.flag & 1 != 0).then_some(self.index),
                committed: self.flag & 2 != 0,
            }),
            RecordKind::State => {
                let (key, value) = (reader.bytes()?, reader.bytes()?);
                Payload::State(key.to_vec(), value.to_vec())
            }
            RecordKind::LogStart => Payload::LogStart(self.base_offset),
            RecordKind::GroupRemoved => Payload::GroupRemoved(u32::try_from(self.index).ok()?),
            RecordKind::Relocated => return None,
            RecordKind::GroupHead => Payload::GroupHead(Box::new(GroupHead::read(&mut reader)?)),
        };
        reader.is_empty().then_some(read)
    }
}

/// What a payload says.
#[derive(Debug, Clone, PartialEq)]
pub enum Payload {
    /// The batches of an entry.
    Batches(Vec<BatchMeta>),
    /// The bytes of an opaque entry.
    Opaque,
    /// The last index that stays.
    Truncate(Option<u64>),
    /// Where the log begins now.
    Purge(PurgePoint),
    /// The vote.
    Vote(Vote),
    /// A key and its value.
    State(Vec<u8>, Vec<u8>),
    /// The log start offset.
    LogStart(i64),
    /// The highest file that may hold entries of the group, 0 for the record's own.
    GroupRemoved(u32),
    /// See there.
    GroupHead(Box<GroupHead>),
}

/// Where a group's log begins: everything that the entries before it would have told.
#[derive(Debug, Clone, PartialEq)]
pub struct PurgePoint {
    /// The last entry that is gone.
    pub id: EntryId,
    /// Everything goes, also what lies behind `id` (a snapshot was installed).
    pub reset: bool,
    /// The offset behind `id`.
    pub next_offset: i64,
    /// The largest timestamp up to `id`.
    pub max_timestamp: i64,
    /// The terms up to `id`.
    pub terms: TermTable,
    /// The producers as of `id`.
    pub producers: Bytes,
}

impl PurgePoint {
    fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.id.term);
        put_u64(out, self.id.index);
        out.push(u8::from(self.reset));
        put_i64(out, self.next_offset);
        put_i64(out, self.max_timestamp);
        self.terms.write(out);
        put_bytes(out, &self.producers);
    }

    fn read(reader: &mut Reader<'_>) -> Option<PurgePoint> {
        Some(PurgePoint {
            id: EntryId { term: reader.u64()?, index: reader.u64()? },
            reset: reader.u8()? != 0,
            next_offset: reader.i64()?,
            max_timestamp: reader.i64()?,
            terms: TermTable::read(reader)?,
            producers: Bytes::copy_from_slice(reader.bytes()?),
        })
    }

    /// The record that says so.
    #[must_use]
    pub fn record(&self, group: u64) -> (RecordHeader, Bytes) {
        let mut payload = Vec::new();
        self.write(&mut payload);
        let header = RecordHeader {
            index: self.id.index,
            term: self.id.term,
            ..RecordHeader::new(RecordKind::Purge, group)
        };
        finish(header, payload)
    }
}

/// What the journal says of a group beside its entries. Written again when a file that said part
/// of it is about to go, so that an index can always be rebuilt from the files that are left.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GroupHead {
    /// The vote.
    pub vote: Option<Vote>,
    /// Where the log begins.
    pub purge: Option<PurgePoint>,
    /// The last entry (a truncation that led to it may be in the file that goes).
    pub last_index: Option<u64>,
    /// The log start offset.
    pub log_start: i64,
    /// All keys and values.
    pub state: Vec<(Vec<u8>, Vec<u8>)>,
}

impl GroupHead {
    /// The record that says so.
    #[must_use]
    pub fn record(&self, group: u64) -> (RecordHeader, Bytes) {
        let mut out = Vec::new();
        put_vote(&mut out, self.vote);
        out.push(u8::from(self.purge.is_some()));
        if let Some(purge) = &self.purge {
            purge.write(&mut out);
        }
        out.push(u8::from(self.last_index.is_some()));
        put_u64(&mut out, self.last_index.unwrap_or(0));
        put_i64(&mut out, self.log_start);
        put_u64(&mut out, self.state.len() as u64);
        for (key, value) in &self.state {
            put_bytes(&mut out, key);
            put_bytes(&mut out, value);
        }
        finish(RecordHeader::new(RecordKind::GroupHead, group), out)
    }

    fn read(reader: &mut Reader<'_>) -> Option<GroupHead> {
        let vote = read_vote(reader)?;
        let purge = if reader.u8()? != 0 { Some(PurgePoint::read(reader)?) } else { None };
        let has_last = reader.u8()? != 0;
        let last_index = Some(reader.u64()?).filter(|_| has_last);
        let log_start = reader.i64()?;
        let mut state = Vec::new();
        for _ in 0..reader.count()? {
            state.push((reader.bytes()?.to_vec(), reader.bytes()?.to_vec()));
        }
        Some(GroupHead { vote, purge, last_index, log_start, state })
    }
}

/// Writes an optional vote.
pub(crate) fn put_vote(out: &mut Vec<u8>, vote: Option<Vote>) {
    let Some(vote) = vote else { return out.push(0) };
    out.push(4 | vote_flag(vote));
    put_u64(out, vote.term);
    put_u64(out, vote.node_id.unwrap_or(0));
}

/// Reads what `put_vote` wrote.
pub(crate) fn read_vote(reader: &mut Reader<'_>) -> Option<Option<Vote>> {
    let flag = reader.u8()?;
    if flag == 0 {
        return Some(None);
    }
    let (term, node_id) = (reader.u64()?, reader.u64()?);
    let node_id = (flag & 1 != 0).then_some(node_id);
    Some(Some(Vote { term, node_id, committed: flag & 2 != 0 }))
}

fn vote_flag(vote: Vote) -> u8 {
    u8::from(vote.node_id.is_some()) | u8::from(vote.committed) << 1
}

/// The record of a vote.
#[must_use]
pub fn vote_record(group: u64, vote: Vote) -> (RecordHeader, Bytes) {
    let header = RecordHeader {
        flag: vote_flag(vote),
        index: vote.node_id.unwrap_or(0),
        term: vote.term,
        ..RecordHeader::new(RecordKind::Vote, group)
    };
    finish(header, Vec::new())
}

/// The record of a truncation behind `last`.
#[must_use]
pub fn truncate_record(group: u64, last: Option<u64>) -> (RecordHeader, Bytes) {
    let header = RecordHeader {
        flag: u8::from(last.is_none()),
        index: last.unwrap_or(0),
        ..RecordHeader::new(RecordKind::Truncate, group)
    };
    finish(header, Vec::new())
}

/// The record of a key's value.
#[must_use]
pub fn state_record(group: u64, key: &[u8], value: &[u8]) -> (RecordHeader, Bytes) {
    let mut payload = Vec::with_capacity(key.len() + value.len() + 8);
    put_bytes(&mut payload, key);
    put_bytes(&mut payload, value);
    finish(RecordHeader::new(RecordKind::State, group), payload)
}

/// The record of a log start offset.
#[must_use]
pub fn log_start_record(group: u64, offset: i64) -> (RecordHeader, Bytes) {
    let header =
        RecordHeader { base_offset: offset, ..RecordHeader::new(RecordKind::LogStart, group) };
    finish(header, Vec::new())
}

/// The record of a group's end; `last_file` is the highest file that may hold entries of it, 0 for
/// the one that the record is in.
#[must_use]
pub fn removed_record(group: u64, last_file: u32) -> (RecordHeader, Bytes) {
    let header = RecordHeader {
        index: u64::from(last_file),
        ..RecordHeader::new(RecordKind::GroupRemoved, group)
    };
    finish(header, Vec::new())
}

fn finish(mut header: RecordHeader, payload: Vec<u8>) -> (RecordHeader, Bytes) {
    header.payload_length = payload.len() as u32;
    header.payload_crc = crc32c::crc32c(&payload);
    (header, Bytes::from(payload))
}

#[cfg(test)]
mod tests;
