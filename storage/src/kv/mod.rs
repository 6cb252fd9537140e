//! The trait under the index: an ordered key-value store with column families, without a
//! write-ahead log of its own (the journal is its log).
//!
//! `RocksKv` is the real thing, `MemoryKv` falls back to its last flush when it is told to crash.
//! Every error is a `std::io::Error`; `ErrorKind::StorageFull` means that the disk is full (the
//! caller keeps its batch and tries again later), anything else that the store is unusable.

pub mod memory;
#[cfg(feature = "rocksdb")]
pub mod rocks;

use std::fmt::Debug;
use std::io::Result;
use std::ops::Range;

pub use memory::MemoryKv;
#[cfg(feature = "rocksdb")]
pub use rocks::RocksKv;

/// The families; their key layouts are drawn in `index/mod.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ColumnFamily {
    /// A row for each Raft entry, written once, read in runs: nearly all the bytes.
    Entries,
    /// Sparse rows from an offset to an entry.
    Offsets,
    /// Everything small: covered position, groups, their state, files, producers.
    State,
}

impl ColumnFamily {
    /// All of them.
    pub const ALL: [ColumnFamily; 3] =
        [ColumnFamily::Entries, ColumnFamily::Offsets, ColumnFamily::State];

    /// Its name on disk.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ColumnFamily::Entries => "entries",
            ColumnFamily::Offsets => "offsets",
            ColumnFamily::State => "state",
        }
    }
}

/// One change of a [`WriteBatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Sets a key.
    Put {
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// Removes a key, if it is there.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Removes all keys of `from..to`.
    DeleteRange {
        /// The first key that goes.
        from: &'a [u8],
        /// The first key behind it that stays.
        to: &'a [u8],
    },
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Put,
    Delete,
    DeleteRange,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    family: ColumnFamily,
    kind: Kind,
    start: usize,
    first_len: u32,
    second_len: u32,
}

/// Changes that become visible and durable together, in the order in which they were added.
/// One buffer for all keys and values, which `clear` keeps.
#[derive(Debug, Default, Clone)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
}

impl WriteBatch {
    /// Sets a key.
    pub fn put(&mut self, family: ColumnFamily, key: &[u8], value: &[u8]) {
        self.add(family, Kind::Put, key, value);
    }

    /// Removes a key.
    pub fn delete(&mut self, family: ColumnFamily, key: &[u8]) {
        self.add(family, Kind::Delete, key, &[]);
    }

    /// Removes the keys of `from..to`.
    pub fn delete_range(&mut self, family: ColumnFamily, from: &[u8], to: &[u8]) {
        self.add(family, Kind::DeleteRange, from, to);
    }

    fn add(&mut self, family: ColumnFamily, kind: Kind, first: &[u8], second: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(first);
        self.bytes.extend_from_slice(second);
        let (first_len, second_len) = (first.len() as u32, second.len() as u32);
        self.slots.push(Slot { family, kind, start, first_len, second_len });
    }

    /// The changes, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ColumnFamily, Change<'_>)> {
        self.slots.iter().map(|slot| {
            let middle = slot.start + slot.first_len as usize;
            let first = &self.bytes[slot.start..middle];
            let second = &self.bytes[middle..middle + slot.second_len as usize];
            let change = match slot.kind {
                Kind::Put => Change::Put { key: first, value: second },
                Kind::Delete => Change::Delete { key: first },
                Kind::DeleteRange => Change::DeleteRange { from: first, to: second },
            };
            (slot.family, change)
        })
    }

    /// How many changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Empties it, keeping its buffers.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.slots.clear();
    }
}

/// Which way a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the first key of the range up.
    Forward,
    /// From the last key of the range down.
    Backward,
}

/// The store. One thread writes, any number read; a read sees every batch whose `write` returned.
pub trait KvStore: Send + Sync + Debug {
    /// The value of a key.
    fn get(&self, family: ColumnFamily, key: &[u8]) -> Result<Option<Vec<u8>>>;

    /// Applies a batch, atomically over the families and without a log of its own.
    fn write(&self, batch: &WriteBatch) -> Result<()>;

    /// Calls `each` with the pairs of `range` (end exclusive) in order of their keys, until it
    /// returns `false`. Looks at nothing outside of the range (tombstones there cost nothing).
    /// What it sees is a state that existed at some moment between call and return.
    fn scan(
        &self,
        family: ColumnFamily,
        range: Range<&[u8]>,
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()>;

    /// Makes everything written before the call survive a crash, atomically over the families.
    /// After a crash the content is exactly what some prefix of the writes left, and that prefix
    /// includes every write before the last `flush` that returned. Runs beside writes.
    fn flush(&self) -> Result<()>;

    /// Empties the store, durably: it is about to be rebuilt.
    fn clear(&self) -> Result<()>;

    /// Bytes of memory held for unflushed writes and caches, roughly.
    fn memory_bytes(&self) -> u64;
}
