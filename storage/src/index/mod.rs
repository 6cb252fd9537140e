//! The index: what the key-value store says of the journal, and how its keys are laid out.
//!
//! ```text
//! family   key                                       value
//! entries  group u64 | index u64                     EntryRow: place, term, offsets, batches
//! offsets  group u64 | base offset i64               index u64; for every 32nd entry
//! state    0                                         format, covered place, synced place
//! state    1 | file u32                              live bytes u64
//! state    2 | group u64                             GroupRow
//! state    3 | group u64 | key                       value
//! state    4 | group u64 | file u32                  first index, bytes before it: the group's
//!                                                    first entry in that file
//! state    5 | group u64 | index u64                 term, producers as of that entry
//! ```
//! Integers in keys are big-endian, so that they sort. Every batch that is written also writes the
//! covered place: what the store holds is always what the journal says up to there.
//!
//! A group's row is not written with every append: the first append after a checkpoint marks it as
//! open, and an open row is completed from the group's last entry when it is loaded.

pub mod epochs;
pub(crate) mod indexer;
pub(crate) mod lookup;
pub mod rows;

use crate::codec::{Reader, put_u64};
use rows::Place;

/// Raised when the layout changes: an index of another format is rebuilt.
const FORMAT: u64 = 1;

const TAG_COVERED: u8 = 0;
const TAG_FILE: u8 = 1;
const TAG_GROUP: u8 = 2;
const TAG_STATE: u8 = 3;
const TAG_EXTENT: u8 = 4;
const TAG_PRODUCERS: u8 = 5;

/// Key of the covered place.
pub(crate) const COVERED_KEY: [u8; 1] = [TAG_COVERED];

/// Key of an entry, also the lower bound of those from it on.
pub(crate) fn entry_key(group: u64, index: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&group.to_be_bytes());
    key[8..].copy_from_slice(&index.to_be_bytes());
    key
}

/// Key of an offset row. Offsets are not negative, so they sort as they are.
pub(crate) fn offset_key(group: u64, offset: i64) -> [u8; 16] {
    entry_key(group, offset.max(0) as u64)
}

/// The index or offset at the end of a key.
pub(crate) fn key_tail(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|tail| u64::from_be_bytes(*tail))
}

/// Key of a file's live bytes.
pub(crate) fn file_key(file: u32) -> [u8; 5] {
    let mut key = [TAG_FILE; 5];
    key[1..].copy_from_slice(&file.to_be_bytes());
    key
}

fn tagged(tag: u8, group: u64) -> [u8; 9] {
    let mut key = [tag; 9];
    key[1..].copy_from_slice(&group.to_be_bytes());
    key
}

/// Key of a group's row.
pub(crate) fn group_key(group: u64) -> [u8; 9] {
    tagged(TAG_GROUP, group)
}

/// All groups' rows.
pub(crate) fn group_keys() -> ([u8; 1], [u8; 1]) {
    ([TAG_GROUP], [TAG_GROUP + 1])
}

/// All files' live bytes.
pub(crate) fn file_keys() -> ([u8; 1], [u8; 1]) {
    ([TAG_FILE], [TAG_FILE + 1])
}

/// Key of a value that the caller keeps.
pub(crate) fn state_key(group: u64, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(9 + key.len());
    out.extend_from_slice(&tagged(TAG_STATE, group));
    out.extend_from_slice(key);
    out
}

/// All values that the caller keeps of a group.
pub(crate) fn state_keys(group: u64) -> ([u8; 9], [u8; 9]) {
    (tagged(TAG_STATE, group), behind(TAG_STATE, group))
}

/// The first key behind those of a group.
fn behind(tag: u8, group: u64) -> [u8; 9] {
    match group.checked_add(1) {
        Some(next) => tagged(tag, next),
        None => tagged(tag + 1, 0),
    }
}

/// Key of a group's first entry in a file.
pub(crate) fn extent_key(group: u64, file: u32) -> [u8; 13] {
    let mut key = [0; 13];
    key[..9].copy_from_slice(&tagged(TAG_EXTENT, group));
    key[9..].copy_from_slice(&file.to_be_bytes());
    key
}

/// All files of a group.
pub(crate) fn extent_keys(group: u64) -> ([u8; 9], [u8; 9]) {
    (tagged(TAG_EXTENT, group), behind(TAG_EXTENT, group))
}

/// Key of the producers as of an entry.
pub(crate) fn producers_key(group: u64, index: u64) -> [u8; 17] {
    let mut key = [0; 17];
    key[..9].copy_from_slice(&tagged(TAG_PRODUCERS, group));
    key[9..].copy_from_slice(&index.to_be_bytes());
    key
}

/// The key behind the producers of a group.
pub(crate) fn producers_end(group: u64) -> [u8; 9] {
    behind(TAG_PRODUCERS, group)
}

/// How far the index covers the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Covered {
    /// Everything before is in the index.
    pub(crate) place: Place,
    /// Everything before was synced when this was written. What lies between the two may have been
    /// lost or torn by a power cut although the index knows it.
    pub(crate) synced: Place,
}

impl Covered {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        put_u64(&mut out, FORMAT);
        for place in [self.place, self.synced] {
            put_u64(&mut out, u64::from(place.file));
            put_u64(&mut out, u64::from(place.position));
        }
        out
    }

    /// `None` also for another format.
    pub(crate) fn decode(value: &[u8]) -> Option<Covered> {
        let mut reader = Reader::new(value);
        if reader.u64()? != FORMAT {
            return None;
        }
        let place = Place { file: reader.u32()?, position: reader.u32()? };
        let synced = Place { file: reader.u32()?, position: reader.u32()? };
        Some(Covered { place, synced })
    }
}

/// A group's first entry in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExtentRow {
    pub(crate) file: u32,
    pub(crate) first_index: u64,
    pub(crate) start_bytes: u64,
}

impl ExtentRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12);
        put_u64(&mut out, self.first_index);
        put_u64(&mut out, self.start_bytes);
        out
    }

    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<ExtentRow> {
        let file = u32::from_be_bytes(*key.last_chunk::<4>()?);
        let mut reader = Reader::new(value);
        Some(ExtentRow { file, first_index: reader.u64()?, start_bytes: reader.u64()? })
    }
}

/// Producers as of an entry of that term.
pub(crate) fn encode_producers(term: u64, producers: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + producers.len());
    put_u64(&mut out, term);
    out.extend_from_slice(producers);
    out
}

/// Reads what `encode_producers` wrote.
pub(crate) fn decode_producers(value: &[u8]) -> Option<(u64, Vec<u8>)> {
    let mut reader = Reader::new(value);
    let term = reader.u64()?;
    let mut header = Vec::new();
    put_u64(&mut header, term);
    Some((term, value.get(header.len()..)?.to_vec()))
}
