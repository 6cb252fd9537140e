//! Reading the index: entries by Raft index and by offset, groups, files.

use std::collections::BTreeMap;
use std::ops::Range;

use super::rows::{EntryRow, GroupRow};
use super::{Covered, ExtentRow, decode_producers, entry_key, key_tail, offset_key};
use crate::StorageError;
use crate::codec::Reader;
use crate::kv::{ColumnFamily, Direction, KvStore};

fn damaged(what: &str) -> StorageError {
    StorageError::Corrupt(format!("the index holds a damaged {what}"))
}

/// The journal position that the index covers, if it says one in our format.
pub(crate) fn covered(kv: &dyn KvStore) -> Result<Option<Covered>, StorageError> {
    let value = kv.get(ColumnFamily::State, &super::COVERED_KEY)?;
    Ok(value.and_then(|value| Covered::decode(&value)))
}

/// The row of an entry.
pub(crate) fn entry(
    kv: &dyn KvStore,
    group: u64,
    index: u64,
) -> Result<Option<EntryRow>, StorageError> {
    match kv.get(ColumnFamily::Entries, &entry_key(group, index))? {
        Some(value) => EntryRow::read(index, &value).map(Some).ok_or_else(|| damaged("entry")),
        None => Ok(None),
    }
}

/// Rows of the entries in `range`, in order, until `each` returns `false`.
pub(crate) fn scan_entries(
    kv: &dyn KvStore,
    group: u64,
    range: Range<u64>,
    each: &mut dyn FnMut(EntryRow) -> bool,
) -> Result<(), StorageError> {
    let (from, to) = (entry_key(group, range.start), entry_key(group, range.end));
    if from >= to {
        return Ok(());
    }
    let mut ok = true;
    kv.scan(
        ColumnFamily::Entries,
        &from..&to,
        Direction::Forward,
        &mut |key, value| match key_tail(key).and_then(|index| EntryRow::read(index, value)) {
            Some(row) => each(row),
            None => {
                ok = false;
                false
            }
        },
    )?;
    if ok { Ok(()) } else { Err(damaged("entry")) }
}

/// The last row of a group, in `range`.
pub(crate) fn last_entry(
    kv: &dyn KvStore,
    group: u64,
    range: Range<u64>,
) -> Result<Option<EntryRow>, StorageError> {
    let (from, to) = (entry_key(group, range.start), entry_key(group, range.end));
    let mut found = None;
    kv.scan(ColumnFamily::Entries, &from..&to, Direction::Backward, &mut |key, value| {
        found = Some(key_tail(key).and_then(|index| EntryRow::read(index, value)));
        false
    })?;
    found.map(|row| row.ok_or_else(|| damaged("entry"))).transpose()
}

/// An entry that begins at or before `offset` and is close to it; `None` if no row says one.
pub(crate) fn index_near_offset(
    kv: &dyn KvStore,
    group: u64,
    offset: i64,
) -> Result<Option<u64>, StorageError> {
    let (from, to) = (offset_key(group, 0), offset_key(group, offset.saturating_add(1)));
    let mut found = None;
    kv.scan(ColumnFamily::Offsets, &from..&to, Direction::Backward, &mut |_, value| {
        found = key_tail(value);
        false
    })?;
    Ok(found)
}

/// The group's row, completed from its last entry; `None` if nothing is known of it.
pub(crate) fn group(kv: &dyn KvStore, group: u64) -> Result<Option<GroupRow>, StorageError> {
    match kv.get(ColumnFamily::State, &super::group_key(group))? {
        Some(value) => complete(kv, group, &value).map(Some),
        None => Ok(None),
    }
}

fn complete(kv: &dyn KvStore, group: u64, value: &[u8]) -> Result<GroupRow, StorageError> {
    let (mut row, open) = GroupRow::decode(value).ok_or_else(|| damaged("group"))?;
    let from = row.next_index().unwrap_or(0);
    if open && let Some(last) = last_entry(kv, group, from..u64::MAX)? {
        row.end = last.mark();
        row.extent_file = last.place.file;
    }
    Ok(row)
}

/// All groups.
pub(crate) fn groups(kv: &dyn KvStore) -> Result<Vec<(u64, GroupRow)>, StorageError> {
    let (from, to) = super::group_keys();
    let mut values = Vec::new();
    kv.scan(ColumnFamily::State, &from..&to, Direction::Forward, &mut |key, value| {
        values.push((key_tail(key), value.to_vec()));
        true
    })?;
    let mut rows = Vec::with_capacity(values.len());
    for (id, value) in values {
        let id = id.ok_or_else(|| damaged("group"))?;
        rows.push((id, complete(kv, id, &value)?));
    }
    Ok(rows)
}

/// Live bytes of all files that have a row.
pub(crate) fn files(kv: &dyn KvStore) -> Result<BTreeMap<u32, u64>, StorageError> {
    let (from, to) = super::file_keys();
    let mut files = BTreeMap::new();
    let mut ok = true;
    kv.scan(ColumnFamily::State, &from..&to, Direction::Forward, &mut |key, value| {
        let file = key.last_chunk::<4>().map(|tail| u32::from_be_bytes(*tail));
        match (file, Reader::new(value).u64()) {
            (Some(file), Some(live)) => {
                files.insert(file, live);
            }
            _ => ok = false,
        }
        ok
    })?;
    if ok { Ok(files) } else { Err(damaged("file")) }
}

/// The files of a group, in order.
pub(crate) fn extents(kv: &dyn KvStore, group: u64) -> Result<Vec<ExtentRow>, StorageError> {
    let (from, to) = super::extent_keys(group);
    let mut rows = Vec::new();
    kv.scan(ColumnFamily::State, &from..&to, Direction::Forward, &mut |key, value| {
        rows.push(ExtentRow::decode(key, value));
        true
    })?;
    rows.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| damaged("extent"))
}

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// The keys and values that the caller keeps of a group.
pub(crate) fn states(kv: &dyn KvStore, group: u64) -> Result<Vec<Pair>, StorageError> {
    let (from, to) = super::state_keys(group);
    let mut pairs = Vec::new();
    kv.scan(ColumnFamily::State, &from..&to, Direction::Forward, &mut |key, value| {
        pairs.push((key[from.len()..].to_vec(), value.to_vec()));
        true
    })?;
    Ok(pairs)
}

/// A snapshot of a group's producers.
pub(crate) struct ProducersRow {
    pub(crate) index: u64,
    pub(crate) producers: Vec<u8>,
}

/// The newest snapshots of a group's producers at or before `index`, until `accept` takes one.
pub(crate) fn producers_before(
    kv: &dyn KvStore,
    group: u64,
    index: u64,
    accept: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Option<ProducersRow>, StorageError> {
    let from = super::producers_key(group, 0);
    let to = match index.checked_add(1) {
        Some(next) => super::producers_key(group, next).to_vec(),
        None => super::producers_end(group).to_vec(),
    };
    let mut found = None;
    kv.scan(ColumnFamily::State, &from..&to, Direction::Backward, &mut |key, value| {
        let (Some(index), Some((term, producers))) = (key_tail(key), decode_producers(value))
        else {
            return true;
        };
        if !accept(index, term) {
            return true;
        }
        found = Some(ProducersRow { index, producers });
        false
    })?;
    Ok(found)
}
