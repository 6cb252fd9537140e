//! The index in memory, for simulation and for builds without RocksDB: what was not flushed is
//! gone after a crash, as it is there.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::ops::{Bound, Range};

use parking_lot::{Mutex, RwLock};

use super::{Change, ColumnFamily, Direction, KvStore, WriteBatch};

type Family = BTreeMap<Box<[u8]>, Box<[u8]>>;

/// Every column family as a sorted map.
#[derive(Debug, Default)]
pub struct MemoryKv {
    live: RwLock<Content>,
    crash: Mutex<Crash>,
}

#[derive(Debug, Default, Clone)]
struct Content {
    families: [Family; ColumnFamily::ALL.len()],
    size_bytes: u64,
}

/// What a crash falls back to.
#[derive(Debug, Default)]
struct Crash {
    flushed: Content,
    /// The writes since, in order: any number of them may survive.
    unflushed: Vec<WriteBatch>,
    /// Set by tests: every operation answers it.
    failing: Option<ErrorKind>,
}

impl MemoryKv {
    /// An empty store.
    #[must_use]
    pub fn new() -> MemoryKv {
        MemoryKv::default()
    }

    /// Falls back to the last flush.
    pub fn crash(&self) {
        self.crash_keeping(0);
    }

    /// Falls back to the last flush and the first `writes` behind it (all, if there are fewer): a
    /// store may flush by itself at any moment.
    pub fn crash_keeping(&self, writes: usize) {
        let mut live = self.live.write();
        let mut crash = self.crash.lock();
        let kept = writes.min(crash.unflushed.len());
        let unflushed = std::mem::take(&mut crash.unflushed);
        unflushed.iter().take(kept).for_each(|batch| crash.flushed.apply(batch));
        *live = crash.flushed.clone();
        crash.failing = None;
    }

    /// The index is lost whole.
    pub fn lose(&self) {
        let mut live = self.live.write();
        *self.crash.lock() = Crash::default();
        *live = Content::default();
    }

    /// How many writes the last flush does not include.
    #[must_use]
    pub fn unflushed_writes(&self) -> usize {
        self.crash.lock().unflushed.len()
    }

    /// From now on every write and flush fails, until `None` or a crash.
    pub fn fail_with(&self, kind: Option<ErrorKind>) {
        self.crash.lock().failing = kind;
    }
}

impl Crash {
    fn check(&self) -> Result<()> {
        match self.failing {
            Some(kind) => Err(Error::new(kind, "the store was told to fail")),
            None => Ok(()),
        }
    }
}

impl Content {
    fn apply(&mut self, batch: &WriteBatch) {
        for (family, change) in batch.iter() {
            let family = &mut self.families[family as usize];
            match change {
                Change::Put { key, value } => {
                    let added = (key.len() + value.len()) as u64;
                    let old = family.insert(key.into(), value.into());
                    let removed = old.map_or(0, |old| (key.len() + old.len()) as u64);
                    self.size_bytes = self.size_bytes + added - removed;
                }
                Change::Delete { key } => {
                    let old = family.remove(key);
                    self.size_bytes -= old.map_or(0, |old| (key.len() + old.len()) as u64);
                }
                Change::DeleteRange { from, to } if from < to => {
                    let range = family.range::<[u8], _>(bounds(from..to));
                    let keys: Vec<Box<[u8]>> = range.map(|(key, _)| key.clone()).collect();
                    for key in keys {
                        let old = family.remove(&key);
                        self.size_bytes -= old.map_or(0, |old| (key.len() + old.len()) as u64);
                    }
                }
                Change::DeleteRange { .. } => {}
            }
        }
    }
}

/// `Range<&[u8]>` is no `RangeBounds<[u8]>`, because `[u8]` has no size.
fn bounds(range: Range<&[u8]>) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (Bound::Included(range.start), Bound::Excluded(range.end))
}

impl KvStore for MemoryKv {
    fn get(&self, family: ColumnFamily, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.live.read_recursive().families[family as usize].get(key).map(|v| v.to_vec()))
    }

    fn write(&self, batch: &WriteBatch) -> Result<()> {
        let mut live = self.live.write();
        let mut crash = self.crash.lock();
        crash.check()?;
        live.apply(batch);
        crash.unflushed.push(batch.clone());
        Ok(())
    }

    /// `each` may read the store; it must not write it.
    fn scan(
        &self,
        family: ColumnFamily,
        range: Range<&[u8]>,
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if range.start >= range.end {
            return Ok(());
        }
        let live = self.live.read_recursive();
        let mut pairs = live.families[family as usize].range::<[u8], _>(bounds(range));
        loop {
            let pair = match direction {
                Direction::Forward => pairs.next(),
                Direction::Backward => pairs.next_back(),
            };
            match pair {
                Some((key, value)) if each(key, value) => {}
                _ => return Ok(()),
            }
        }
    }

    fn flush(&self) -> Result<()> {
        let mut crash = self.crash.lock();
        crash.check()?;
        let unflushed = std::mem::take(&mut crash.unflushed);
        unflushed.iter().for_each(|batch| crash.flushed.apply(batch));
        Ok(())
    }

    fn clear(&self) -> Result<()> {
        let mut live = self.live.write();
        let mut crash = self.crash.lock();
        crash.check()?;
        *crash = Crash::default();
        *live = Content::default();
        Ok(())
    }

    fn memory_bytes(&self) -> u64 {
        self.live.read_recursive().size_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(kv: &MemoryKv, key: &str) {
        let mut batch = WriteBatch::default();
        batch.put(ColumnFamily::State, key.as_bytes(), b"value");
        batch.put(ColumnFamily::Entries, key.as_bytes(), b"value");
        kv.write(&batch).unwrap();
    }

    fn has(kv: &MemoryKv, key: &str) -> bool {
        let state = kv.get(ColumnFamily::State, key.as_bytes()).unwrap().is_some();
        assert_eq!(kv.get(ColumnFamily::Entries, key.as_bytes()).unwrap().is_some(), state);
        state
    }

    #[test]
    fn a_crash_falls_back_to_the_last_flush() {
        let kv = MemoryKv::new();
        put(&kv, "a");
        kv.flush().unwrap();
        put(&kv, "b");
        kv.crash();
        assert!(has(&kv, "a") && !has(&kv, "b"));
        assert_eq!(kv.memory_bytes(), 12);
    }

    #[test]
    fn a_crash_may_keep_a_prefix_of_what_was_not_flushed() {
        let kv = MemoryKv::new();
        for key in ["a", "b", "c"] {
            put(&kv, key);
        }
        kv.crash_keeping(2);
        assert!(has(&kv, "a") && has(&kv, "b") && !has(&kv, "c"));
        kv.crash();
        assert!(has(&kv, "b"), "what was there after a crash stays there");
        kv.lose();
        assert!(!has(&kv, "a"));
    }

    #[test]
    fn a_failing_store_says_so_and_changes_nothing() {
        let kv = MemoryKv::new();
        kv.fail_with(Some(ErrorKind::StorageFull));
        let error = kv.write(&WriteBatch::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(kv.flush().is_err());
        kv.fail_with(None);
        put(&kv, "a");
    }
}
