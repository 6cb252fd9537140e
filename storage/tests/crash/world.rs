//! A store on a simulated disk, driven by random operations, and what it should hold after each.

use std::fmt::{Display, Formatter};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use protocol::record_batch::{BatchBuilder, RecordBatch};
use protocol::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use storage::StorageError;
use storage::disk::SimDisk;
use storage::disk::sim::TornWrite;
use storage::kv::MemoryKv;
use storage::log_store::{
    Completion, Durability, Entry, EntryBody, EntryId, GroupId, LogStore, LogStoreOptions, Vote,
    WriterMode,
};
use storage::producer_state::ProducerState;

use crate::model::{GroupModel, Groups};

const MAX_GROUPS: u64 = 12;

/// Something a caller does to a group.
pub enum Operation {
    Append(Vec<Entry>, Durability),
    Truncate(Option<u64>),
    Purge(EntryId),
    Vote(Vote),
    State(Vec<u8>, Bytes),
    LogStart(i64),
    Snapshot(EntryId, i64, ProducerState),
    Remove,
}

impl Display for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Operation::Append(entries, durability) => {
                write!(f, "append {durability:?}")?;
                entries.iter().try_for_each(|entry| {
                    let EntryId { term, index } = entry.id;
                    match &entry.body {
                        EntryBody::Batches(batches) => {
                            let counts = batches.iter().map(|batch| batch.header().record_count);
                            write!(f, " {term}.{index} records {:?}", counts.collect::<Vec<_>>())
                        }
                        EntryBody::Opaque { bytes, .. } => {
                            write!(f, " {term}.{index} bytes {}", bytes.len())
                        }
                    }
                })
            }
            Operation::Truncate(index) => write!(f, "truncate after {index:?}"),
            Operation::Purge(id) => write!(f, "purge to {}.{}", id.term, id.index),
            Operation::Vote(vote) => write!(f, "{vote:?}"),
            Operation::State(key, value) => write!(f, "state {key:?} {} bytes", value.len()),
            Operation::LogStart(offset) => write!(f, "log start {offset}"),
            Operation::Snapshot(id, next_offset, producers) => {
                let (term, index, count) = (id.term, id.index, producers.len());
                write!(f, "snapshot {term}.{index} next offset {next_offset} producers {count}")
            }
            Operation::Remove => write!(f, "remove"),
        }
    }
}

/// See the module.
pub struct World {
    pub seed: u64,
    pub rng: StdRng,
    pub disk: SimDisk,
    pub kv: Arc<MemoryKv>,
    pub options: LogStoreOptions,
    pub store: Option<LogStore>,
    /// What the groups should be after each operation of this life; the first is its beginning.
    pub moments: Vec<Groups>,
    /// The operation up to which everything was reported durable.
    pub durable: Arc<AtomicUsize>,
    /// Operations of this life, for the message of a failure.
    pub told: Vec<String>,
    /// A fault is set that lets operations fail.
    pub failing: Arc<AtomicBool>,
    groups_made: u64,
    /// The least term that an entry may have now: as in Raft, no two entries ever have the same
    /// term and index, also if the first was truncated or lost.
    term: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut rng = StdRng::seed_from_u64(seed);
        let disk = SimDisk::new(rng.random());
        if rng.random() {
            disk.set_torn_write(TornWrite::Holes);
        }
        let options = LogStoreOptions {
            writer: WriterMode::Manual { wake: None },
            journal_file_bytes: rng.random_range(2_000..20_000),
            tail_bytes: rng.random_range(0..20_000),
            checkpoint_bytes: rng.random_range(1_000..40_000),
            reserve_bytes: 0,
            ..LogStoreOptions::default()
        };
        let mut world = World {
            seed,
            rng,
            disk,
            kv: Arc::new(MemoryKv::new()),
            options,
            store: None,
            moments: vec![Groups::new()],
            durable: Arc::default(),
            told: Vec::new(),
            failing: Arc::default(),
            groups_made: 0,
            term: 1,
        };
        world.open().expect("an empty disk opens");
        world
    }

    /// Opens the store; `Err` if the disk went down meanwhile.
    pub fn open(&mut self) -> Result<(), StorageError> {
        let opened = LogStore::open(
            self.options.clone(),
            Arc::new(self.disk.clone()),
            Arc::clone(&self.kv) as _,
        );
        match opened {
            Ok(store) => self.store = Some(store),
            Err(error) if self.disk.is_down() => return Err(error),
            Err(error) => panic!("seed {}: the store does not open: {error}", self.seed),
        }
        Ok(())
    }

    pub fn store(&self) -> &LogStore {
        self.store.as_ref().expect("the store is open")
    }

    pub fn now(&self) -> &Groups {
        self.moments.last().expect("there is a beginning")
    }

    /// One random operation, or something that the writer does by itself.
    pub fn act(&mut self) {
        match self.rng.random_range(0..100) {
            0..60 => self.act_on_a_group(),
            60..94 => {
                let _ = self.store().step();
            }
            94..97 => self.store().idle(),
            _ => {
                let result = self.store().checkpoint();
                let seed = self.seed;
                assert!(result.is_ok() || self.may_fail(), "seed {seed}: {result:?}");
            }
        }
    }

    fn may_fail(&self) -> bool {
        self.disk.is_down() || self.failing.load(Ordering::Relaxed)
    }

    /// Begins a new term, because entries may have been lost.
    pub fn begin_term(&mut self) {
        self.term += 1;
    }

    /// Lets the writer do all that waits for it.
    pub fn drain(&self) {
        while self.store().step() {}
    }

    fn act_on_a_group(&mut self) {
        let alive: Vec<u64> =
            self.now().iter().filter(|(_, model)| !model.removed).map(|(id, _)| *id).collect();
        let id = if alive.is_empty()
            || self.groups_made < MAX_GROUPS && self.rng.random_range(0..30) == 0
        {
            self.groups_made += 1;
            self.groups_made - 1
        } else {
            alive[self.rng.random_range(0..alive.len())]
        };
        let model = self.now().get(&id).map_or_else(GroupModel::default, |model| (**model).clone());
        let operation = self.choose(id, &model);
        self.apply(id, model, operation);
    }

    fn apply(&mut self, id: u64, mut model: GroupModel, operation: Operation) {
        let done = self.completion(&operation);
        let number = self.moments.len();
        self.told.push(format!("{number}: group {id}: {operation}"));
        let log = self.store().group(GroupId(id));
        let result = match operation {
            Operation::Append(entries, durability) => {
                for (at, entry) in entries.iter().enumerate() {
                    // The first entries of an append may survive without the others.
                    if at > 0 {
                        self.note(id, model.clone());
                    }
                    model.append(entry);
                }
                log.append(entries, durability, None, done)
            }
            Operation::Truncate(index) => {
                self.term += 1;
                model.truncate_after(index);
                log.truncate_after(index, done)
            }
            Operation::Purge(id) => {
                model.purge(id);
                log.purge(id, done)
            }
            Operation::Vote(vote) => {
                (model.exists, model.vote) = (true, Some(vote));
                log.save_vote(vote, done)
            }
            Operation::State(key, value) => {
                let result = log.put_state(&key, value.clone(), done);
                model.exists = true;
                model.state.insert(key, value);
                result
            }
            Operation::LogStart(offset) => {
                model.log_start = model.log_start.max(offset);
                log.set_log_start_offset(Offset(offset), done)
            }
            Operation::Snapshot(id, next_offset, producers) => {
                let epochs = vec![(LeaderEpoch(id.term as i32), Offset(next_offset))];
                let bytes = producers.encode();
                model.install_snapshot(id, next_offset, producers);
                log.install_snapshot(id, Offset(next_offset), bytes, epochs, done)
            }
            Operation::Remove => {
                model = GroupModel { removed: true, ..GroupModel::default() };
                self.store().remove_group(GroupId(id), done);
                Ok(())
            }
        };
        self.note(id, model);
        if let Err(error) = result {
            assert!(self.may_fail(), "seed {}: {error}", self.seed);
        }
    }

    /// Adds a moment, at which the group is this.
    fn note(&mut self, id: u64, model: GroupModel) {
        let mut groups = self.now().clone();
        groups.insert(id, Rc::new(model));
        self.moments.push(groups);
    }

    /// Notes that the operation, and so all before it, was reported durable.
    fn completion(&self, operation: &Operation) -> Completion {
        let promises = match operation {
            Operation::Append(_, durability) => *durability == Durability::Fsync,
            Operation::Purge(_) | Operation::LogStart(_) => false,
            _ => true,
        };
        let moments = match operation {
            Operation::Append(entries, _) => entries.len(),
            _ => 1,
        };
        let (durable, number) = (Arc::clone(&self.durable), self.moments.len() + moments - 1);
        let (disk, failing) = (self.disk.clone(), Arc::clone(&self.failing));
        let (seed, operation) = (self.seed, operation.to_string());
        Box::new(move |result| match result {
            Ok(()) if promises => {
                durable.fetch_max(number, Ordering::Relaxed);
            }
            Ok(()) => {}
            Err(error) => assert!(
                disk.is_down() || failing.load(Ordering::Relaxed),
                "seed {seed}: {operation}: {error}"
            ),
        })
    }

    fn choose(&mut self, id: u64, model: &GroupModel) -> Operation {
        let rng = &mut self.rng;
        self.term += u64::from(rng.random_bool(0.05));
        let next_term = self.term;
        match rng.random_range(0..100) {
            0..10 => choose_truncation(rng, model),
            10..20 => match model.entries.len() {
                0 => None,
                count => Some(Operation::Purge(model.entries[rng.random_range(0..count)].id)),
            },
            20..30 => Some(Operation::Vote(Vote {
                term: model.vote.map_or(1, |vote| vote.term) + rng.random_range(0..2),
                node_id: Some(rng.random_range(1..4)),
                committed: rng.random(),
            })),
            30..38 => {
                let key = vec![b'a' + rng.random_range(0..3)];
                Some(Operation::State(key, random_bytes(rng, 80)))
            }
            38..44 if model.exists => {
                Some(Operation::LogStart(rng.random_range(model.log_start..=model.end_offset())))
            }
            44..46 if model.exists => Some(Operation::Remove),
            46..48 => {
                let index = model.last().map_or(0, |last| last.index) + rng.random_range(1..9);
                let id = EntryId { term: next_term, index };
                let next_offset = model.end_offset() + rng.random_range(0..50);
                Some(Operation::Snapshot(id, next_offset, model.producers()))
            }
            _ => None,
        }
        .unwrap_or_else(|| {
            // A log begins at 0 or at 1, and always at the same.
            let first = model.last().map_or(id % 2, |last| last.index + 1);
            choose_append(rng, first, next_term)
        })
    }
}

/// Truncating as Raft may: nothing below the log start, which is below the high watermark.
fn choose_truncation(rng: &mut StdRng, model: &GroupModel) -> Option<Operation> {
    let mut cuts: Vec<Option<u64>> = model
        .entries
        .iter()
        .filter(|entry| entry.next_offset >= model.log_start)
        .map(|entry| Some(entry.id.index))
        .collect();
    if model.start_offset >= model.log_start && !model.entries.is_empty() {
        cuts.push(model.purged.map(|id| id.index));
    }
    (!cuts.is_empty()).then(|| Operation::Truncate(cuts[rng.random_range(0..cuts.len())]))
}

fn choose_append(rng: &mut StdRng, first: u64, term: u64) -> Operation {
    let entries = (first..first + rng.random_range(1..4)).map(|index| Entry {
        id: EntryId { term, index },
        body: if rng.random_bool(0.8) {
            EntryBody::Batches((0..rng.random_range(1..4)).map(|_| random_batch(rng)).collect())
        } else {
            EntryBody::Opaque { kind: rng.random_range(0..16), bytes: random_bytes(rng, 200) }
        },
    });
    let entries = entries.collect();
    let durability = if rng.random_bool(0.7) { Durability::Fsync } else { Durability::Os };
    Operation::Append(entries, durability)
}

pub fn random_batch(rng: &mut StdRng) -> RecordBatch {
    let mut builder = BatchBuilder::new();
    if rng.random_bool(0.3) {
        let (id, sequence) = (ProducerId(rng.random_range(0..3)), rng.random_range(0..100));
        builder = builder.producer(id, ProducerEpoch(rng.random_range(0..2)), sequence);
        builder = builder.transactional(rng.random_bool(0.3));
    }
    for _ in 0..rng.random_range(1..4) {
        let value = random_bytes(rng, 300);
        builder = builder.record(Timestamp(rng.random_range(0..10_000)), None, Some(&value));
    }
    builder.build().expect("an uncompressed batch builds")
}

fn random_bytes(rng: &mut StdRng, max_len: usize) -> Bytes {
    let len = rng.random_range(0..max_len);
    (0..len).map(|_| rng.random::<u8>()).collect::<Vec<u8>>().into()
}
