//! A disk in memory that loses, tears and fails as a real one may, by a seed: what was not synced
//! is gone after a crash, or a part of it is.
//!
//! Contents: a file is what its last sync left, and the writes since. A crash keeps the first few
//! of them, and may tear the next one at a sector. Names likewise: creations and removals since
//! the last `sync_dir` survive up to some point. The process's handles die with the crash.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};
use std::fs::File;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Disk, DiskFile};

/// A disk writes these whole, or not at all.
const SECTOR_BYTES: usize = 512;

/// What an operation of the disk may be told to do instead of what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimFault {
    /// The machine stops in the middle of it: it may have had its effect or not, and every further
    /// operation fails until [`SimDisk::restart`].
    Crash,
    /// EIO. A sync that fails so has dropped what it was to write, and a later one does not notice.
    Io,
    /// ENOSPC, behind a part of the bytes if it is a write.
    NoSpace,
}

/// How a write looks of which a crash has kept a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TornWrite {
    /// It ends at a sector.
    #[default]
    Cut,
    /// It has its length, and some of its sectors are zeros.
    Holes,
}

/// The disk; clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

type Names = BTreeMap<String, Arc<Mutex<Content>>>;

struct State {
    rng: StdRng,
    names: Names,
    synced_names: Names,
    /// What happened to the names since they were synced.
    name_changes: Vec<NameChange>,
    capacity_bytes: Option<u64>,
    operations: u64,
    faults: BTreeMap<u64, SimFault>,
    reads_fail: bool,
    torn_write: TornWrite,
    down: bool,
    /// Counts crashes: what belongs to an earlier life is dead.
    generation: u64,
    lock: Option<u64>,
    locks_taken: u64,
}

enum NameChange {
    Created(String, Arc<Mutex<Content>>),
    Removed(String),
}

/// The bytes of a file.
#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    synced_len: usize,
    /// The synced bytes, once they are no longer the beginning of `bytes`.
    synced: Option<Vec<u8>>,
    /// What happened since, in order.
    changes: Vec<Change>,
    /// Ranges that a failed sync has dropped: reads see them as long as the machine runs.
    dropped: Vec<(usize, usize)>,
}

enum Change {
    Write { position: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl SimDisk {
    /// An empty disk without a limit. The same seed and the same operations make the same disk.
    #[must_use]
    pub fn new(seed: u64) -> SimDisk {
        let state = State {
            rng: StdRng::seed_from_u64(seed),
            names: Names::new(),
            synced_names: Names::new(),
            name_changes: Vec::new(),
            capacity_bytes: None,
            operations: 0,
            faults: BTreeMap::new(),
            reads_fail: false,
            torn_write: TornWrite::Cut,
            down: false,
            generation: 0,
            lock: None,
            locks_taken: 0,
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// How many operations that change something there have been: writes, syncs, creations,
    /// removals, changes of length. Reads do not count.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// The operation that will be counted as `operation` fails. Those of earlier lives count too.
    pub fn fail_at(&self, operation: u64, fault: SimFault) {
        self.state.lock().faults.insert(operation, fault);
    }

    /// The machine stops at that operation, see [`SimFault::Crash`].
    pub fn crash_at(&self, operation: u64) {
        self.fail_at(operation, SimFault::Crash);
    }

    /// Takes back all faults that are still to come.
    pub fn clear_faults(&self) {
        let mut state = self.state.lock();
        state.faults.clear();
        state.reads_fail = false;
    }

    /// Whether reads answer EIO.
    pub fn fail_reads(&self, fail: bool) {
        self.state.lock().reads_fail = fail;
    }

    /// The size of the disk, `None` for no limit.
    pub fn set_capacity(&self, capacity_bytes: Option<u64>) {
        self.state.lock().capacity_bytes = capacity_bytes;
    }

    /// How a crash tears writes.
    pub fn set_torn_write(&self, torn_write: TornWrite) {
        self.state.lock().torn_write = torn_write;
    }

    /// Whether the machine has stopped and waits for [`SimDisk::restart`].
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.state.lock().down
    }

    /// Power goes, and comes back: unsynced data is lost or torn, open handles and locks are dead.
    pub fn crash(&self) {
        self.state.lock().crash();
    }

    /// The same, as it is called after a fault has stopped the machine.
    pub fn restart(&self) {
        self.crash();
    }

    /// The machine dies, and comes back with another disk, which is empty.
    pub fn replace(&self) {
        let mut state = self.state.lock();
        state.crash();
        state.names.clear();
        state.synced_names.clear();
    }

    /// The process dies and the machine does not: nothing is lost but handles and locks.
    pub fn kill(&self) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.lock = None;
        state.down = false;
    }

    /// A bit of a file turns over, on the disk itself.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip_bit(&self, name: &str, position: u64, bit: u8) {
        let state = self.state.lock();
        let mut content = state.names[name].lock();
        let position = position as usize;
        content.bytes[position] ^= 1 << bit;
        if let Some(synced) = content.synced.as_mut().and_then(|synced| synced.get_mut(position)) {
            *synced ^= 1 << bit;
        }
    }

    /// The bytes of a file as a process would read them.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        self.state.lock().names.get(name).map(|content| content.lock().bytes.clone())
    }
}

impl State {
    fn check(&self, generation: u64) -> Result<()> {
        if self.down || self.generation != generation {
            return Err(Error::other("the machine has crashed"));
        }
        Ok(())
    }

    /// Counts an operation, and says what is to go wrong with it.
    fn begin(&mut self, generation: u64) -> Result<Option<SimFault>> {
        self.check(generation)?;
        self.operations += 1;
        let fault = self.faults.remove(&self.operations);
        self.down |= fault == Some(SimFault::Crash);
        Ok(fault)
    }

    /// Ends an operation that either has its effect or has not.
    fn atomic(&mut self, generation: u64) -> Result<()> {
        match self.begin(generation)? {
            Some(fault) => Err(fault.error()),
            None => Ok(()),
        }
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|content| content.lock().bytes.len() as u64).sum()
    }

    fn free_bytes(&self) -> u64 {
        self.capacity_bytes
            .map_or(u64::MAX / 2, |capacity| capacity.saturating_sub(self.used_bytes()))
    }

    fn crash(&mut self) {
        let changes = std::mem::take(&mut self.name_changes);
        let kept = kept_count(&mut self.rng, changes.len());
        for change in changes.into_iter().take(kept) {
            match change {
                NameChange::Created(name, content) => self.synced_names.insert(name, content),
                NameChange::Removed(name) => self.synced_names.remove(&name),
            };
        }
        self.names = self.synced_names.clone();
        for content in self.names.values() {
            content.lock().crash(&mut self.rng, self.torn_write);
        }
        self.generation += 1;
        self.lock = None;
        self.down = false;
    }
}

/// How many of the unsynced changes survive: often all or none, for these are the likely cases and
/// the extreme ones.
fn kept_count(rng: &mut StdRng, count: usize) -> usize {
    match rng.random_range(0..4) {
        0 => 0,
        1 => count,
        _ => rng.random_range(0..=count),
    }
}

impl SimFault {
    fn error(self) -> Error {
        match self {
            SimFault::Crash => Error::other("the machine has crashed"),
            SimFault::Io => Error::other("simulated I/O error"),
            SimFault::NoSpace => Error::new(ErrorKind::StorageFull, "simulated full disk"),
        }
    }
}

impl Content {
    fn apply(&mut self, change: Change) {
        let (from, len) = match &change {
            Change::Write { position, bytes } => (*position, position + bytes.len()),
            Change::SetLen(len) => (*len, *len),
        };
        if from < self.synced_len && self.synced.is_none() {
            self.synced = Some(self.bytes[..self.synced_len].to_vec());
        }
        apply_to(&mut self.bytes, &change);
        debug_assert!(len <= self.bytes.len());
        self.changes.push(change);
    }

    fn sync(&mut self) {
        self.changes.clear();
        self.synced = None;
        self.synced_len = self.bytes.len();
    }

    /// What a failed sync leaves: the system takes the pages for written, and they are not.
    fn drop_unsynced(&mut self) {
        for change in std::mem::take(&mut self.changes) {
            if let Change::Write { position, bytes } = change {
                self.dropped.push((position, position + bytes.len()));
            }
        }
        self.synced = None;
        self.synced_len = self.bytes.len();
    }

    fn crash(&mut self, rng: &mut StdRng, torn_write: TornWrite) {
        let synced = self.synced.take();
        let mut bytes = synced.unwrap_or_else(|| self.bytes[..self.synced_len].to_vec());
        for (from, to) in self.dropped.drain(..) {
            let len = bytes.len();
            bytes[from.min(len)..to.min(len)].fill(0);
        }
        let kept = kept_count(rng, self.changes.len());
        for (index, change) in self.changes.drain(..).enumerate() {
            if index < kept {
                apply_to(&mut bytes, &change);
            } else if index == kept && rng.random() {
                apply_torn(&mut bytes, &change, rng, torn_write);
            }
        }
        self.synced_len = bytes.len();
        self.bytes = bytes;
    }
}

fn apply_to(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { position, bytes: written } => {
            let end = position + written.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*position..end].copy_from_slice(written);
        }
        Change::SetLen(len) => bytes.resize(*len, 0),
    }
}

fn apply_torn(bytes: &mut Vec<u8>, change: &Change, rng: &mut StdRng, torn_write: TornWrite) {
    let Change::Write { position, bytes: written } = change else {
        return;
    };
    let (first, end) = (position / SECTOR_BYTES, (position + written.len()) / SECTOR_BYTES);
    match torn_write {
        TornWrite::Cut => {
            let cut = rng.random_range(first..=end) * SECTOR_BYTES;
            let kept = cut.saturating_sub(*position);
            if kept > 0 {
                let part = Change::Write { position: *position, bytes: written[..kept].to_vec() };
                apply_to(bytes, &part);
            }
        }
        TornWrite::Holes => {
            let mut part = written.clone();
            for sector in first..=end {
                if rng.random() {
                    let from = (sector * SECTOR_BYTES).saturating_sub(*position);
                    let to = ((sector + 1) * SECTOR_BYTES).saturating_sub(*position);
                    part[from.min(written.len())..to.min(written.len())].fill(0);
                }
            }
            apply_to(bytes, &Change::Write { position: *position, bytes: part });
        }
    }
}

impl Disk for SimDisk {
    fn create(&self, name: &str) -> Result<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        if state.names.contains_key(name) {
            return Err(Error::new(ErrorKind::AlreadyExists, name.to_owned()));
        }
        let generation = state.generation;
        state.atomic(generation)?;
        let content = Arc::new(Mutex::new(Content::default()));
        state.names.insert(name.to_owned(), content.clone());
        state.name_changes.push(NameChange::Created(name.to_owned(), content.clone()));
        Ok(Arc::new(SimFile { name: name.to_owned(), disk: self.clone(), generation, content }))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn DiskFile>> {
        let state = self.state.lock();
        let generation = state.generation;
        state.check(generation)?;
        let content = state.names.get(name).ok_or_else(|| not_found(name))?.clone();
        Ok(Arc::new(SimFile { name: name.to_owned(), disk: self.clone(), generation, content }))
    }

    fn list(&self) -> Result<Vec<String>> {
        let state = self.state.lock();
        state.check(state.generation)?;
        Ok(state.names.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.state.lock();
        if !state.names.contains_key(name) {
            return Err(not_found(name));
        }
        let generation = state.generation;
        state.atomic(generation)?;
        state.names.remove(name);
        state.name_changes.push(NameChange::Removed(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self) -> Result<()> {
        let mut state = self.state.lock();
        let generation = state.generation;
        let fault = state.begin(generation)?;
        let done = fault.is_none() || fault == Some(SimFault::Crash) && state.rng.random();
        if done {
            state.synced_names = state.names.clone();
            state.name_changes.clear();
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn free_bytes(&self) -> Result<u64> {
        let state = self.state.lock();
        state.check(state.generation)?;
        Ok(state.free_bytes())
    }

    fn total_bytes(&self) -> Result<u64> {
        let state = self.state.lock();
        state.check(state.generation)?;
        Ok(state.capacity_bytes.unwrap_or(u64::MAX / 2))
    }

    fn lock(&self) -> Result<Box<dyn Any + Send + Sync>> {
        let mut state = self.state.lock();
        state.check(state.generation)?;
        if state.lock.is_some() {
            return Err(Error::new(ErrorKind::WouldBlock, "the simulated disk is in use"));
        }
        state.locks_taken += 1;
        state.lock = Some(state.locks_taken);
        Ok(Box::new(SimLock { number: state.locks_taken, disk: self.clone() }))
    }
}

fn not_found(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, name.to_owned())
}

impl Debug for SimDisk {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        let sizes = state.names.iter().map(|(name, content)| (name, content.lock().bytes.len()));
        formatter
            .debug_struct("SimDisk")
            .field("operations", &state.operations)
            .field("down", &state.down)
            .field("files", &sizes.collect::<BTreeMap<_, _>>())
            .finish()
    }
}

struct SimLock {
    number: u64,
    disk: SimDisk,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state.lock();
        if state.lock == Some(self.number) {
            state.lock = None;
        }
    }
}

struct SimFile {
    name: String,
    disk: SimDisk,
    generation: u64,
    content: Arc<Mutex<Content>>,
}

impl SimFile {
    /// Checks that the process that holds this handle lives.
    fn check(&self) -> Result<()> {
        self.disk.state.lock().check(self.generation)
    }

    fn set_len(&self, len: u64, extend_only: bool) -> Result<()> {
        let mut state = self.disk.state.lock();
        state.atomic(self.generation)?;
        let free_bytes = state.free_bytes();
        let mut content = self.content.lock();
        let old_len = content.bytes.len() as u64;
        if len.saturating_sub(old_len) > free_bytes {
            return Err(SimFault::NoSpace.error());
        }
        if len > old_len || len < old_len && !extend_only {
            content.apply(Change::SetLen(len as usize));
        }
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, position: u64, parts: &[IoSlice<'_>]) -> Result<()> {
        let mut state = self.disk.state.lock();
        let mut fault = state.begin(self.generation)?;
        let mut bytes = parts.iter().flat_map(|part| part.iter().copied()).collect::<Vec<u8>>();
        let free_bytes = state.free_bytes();
        let mut content = self.content.lock();
        let position = position as usize;
        let growth = (position + bytes.len()).saturating_sub(content.bytes.len()) as u64;
        if fault.is_none() && growth > free_bytes {
            bytes.truncate(bytes.len().saturating_sub((growth - free_bytes) as usize));
            fault = Some(SimFault::NoSpace);
        } else if matches!(fault, Some(SimFault::Io | SimFault::NoSpace)) {
            bytes.truncate(state.rng.random_range(0..=bytes.len()));
        }
        if !bytes.is_empty() {
            content.apply(Change::Write { position, bytes });
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn read_at(&self, position: u64, buffer: &mut [u8]) -> Result<usize> {
        let state = self.disk.state.lock();
        state.check(self.generation)?;
        if state.reads_fail {
            return Err(SimFault::Io.error());
        }
        let content = self.content.lock();
        let rest = content.bytes.get(position as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.disk.state.lock();
        let fault = state.begin(self.generation)?;
        let mut content = self.content.lock();
        match fault {
            None => content.sync(),
            Some(SimFault::Crash) if state.rng.random() => content.sync(),
            Some(SimFault::Crash) => {}
            Some(SimFault::Io | SimFault::NoSpace) => content.drop_unsynced(),
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn len(&self) -> Result<u64> {
        self.check()?;
        Ok(self.content.lock().bytes.len() as u64)
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.set_len(len, false)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.set_len(len, true)
    }

    fn will_need(&self, _position: u64, _len: u64) {}

    fn random_access(&self) {}

    fn as_std(&self) -> Option<Arc<File>> {
        None
    }
}

impl Debug for SimFile {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SimFile").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
