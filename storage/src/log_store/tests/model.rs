//! A seeded random history against a model: every answer, at every moment, across kills, power
//! cuts, lost indexes and failing writes.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// What a group is supposed to be.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    entries: std::collections::BTreeMap<u64, (u64, i64, i64)>,
    purged: Option<EntryId>,
    last: Option<EntryId>,
    end: i64,
    start: i64,
    vote: Option<Vote>,
}

impl Model {
    fn append(&mut self, id: EntryId, records: i64) {
        self.entries.insert(id.index, (id.term, self.end, records));
        self.last = Some(id);
        self.end += records;
    }

    fn truncate(&mut self, index: u64) {
        self.entries.retain(|at, _| *at <= index);
        match self.entries.last_key_value() {
            Some((at, (term, base, records))) => {
                self.last = Some(EntryId { term: *term, index: *at });
                self.end = base + records;
            }
            None => self.last = self.purged,
        }
        self.start = self.start.min(self.end);
    }

    fn purge(&mut self, id: EntryId) {
        let (_, base, records) = self.entries[&id.index];
        self.entries.retain(|at, _| *at > id.index);
        self.purged = Some(id);
        self.start = self.start.max(base + records);
    }
}

fn check(log: &GroupLog, model: &Model, seed: u64) {
    let state = log.log_state();
    assert_eq!((state.last, state.last_purged), (model.last, model.purged), "seed {seed}");
    assert_eq!(state.vote, model.vote, "seed {seed}");
    let offsets = log.offsets();
    assert_eq!(offsets.log_end_offset.0, model.end, "seed {seed}");
    assert_eq!(offsets.log_start_offset.0, model.start, "seed {seed}");
    let first = model.purged.map_or(0, |purged| purged.index + 1);
    let heads = log.heads(first..u64::MAX).unwrap();
    let known: Vec<(u64, u64, i64)> =
        heads.iter().map(|head| (head.id.index, head.id.term, head.next_offset.0)).collect();
    let expected: Vec<(u64, u64, i64)> = model
        .entries
        .iter()
        .map(|(index, (term, base, records))| (*index, *term, base + records))
        .collect();
    assert_eq!(known, expected, "seed {seed}");
    let mut expected_read = Vec::new();
    for (_, base, records) in model.entries.values() {
        if *records > 0 && base + records > model.start {
            expected_read.push(*base);
        }
    }
    assert_eq!(read_offsets(log, model.start, everything()), expected_read, "seed {seed}");
    let entries = log.entries(first..u64::MAX, usize::MAX).unwrap();
    assert_eq!(entries.len(), model.entries.len(), "seed {seed}");
}

struct History {
    rng: StdRng,
    seed: u64,
    term: u64,
    models: Vec<Model>,
}

impl History {
    fn act(&mut self, store: &LogStore) {
        let group = self.rng.random_range(0..self.models.len());
        let log = store.group(GroupId(group as u64 + 1));
        let model = &mut self.models[group];
        let next = model.last.map_or(0, |last| last.index + 1);
        match self.rng.random_range(0..100) {
            0..60 => {
                if self.rng.random_range(0..10) == 0 {
                    self.term += 1;
                }
                let id = id(self.term, next);
                let records = self.rng.random_range(0..4);
                let entry = match records {
                    0 => opaque(id, b"something"),
                    _ => batches(id, vec![batch(self.rng.random_range(0..1000), records)]),
                };
                model.append(id, records);
                append(&log, vec![entry]);
            }
            60..68 if !model.entries.is_empty() => {
                let keys: Vec<u64> = model.entries.keys().copied().collect();
                let index = keys[self.rng.random_range(0..keys.len())];
                model.truncate(index);
                self.term += 1;
                log.truncate_after(Some(index), ignore()).unwrap();
            }
            68..76 if !model.entries.is_empty() => {
                let keys: Vec<u64> = model.entries.keys().copied().collect();
                let index = keys[self.rng.random_range(0..keys.len())];
                let id = id(model.entries[&index].0, index);
                model.purge(id);
                log.purge(id, ignore()).unwrap();
            }
            76..80 if model.start < model.end => {
                model.start = self.rng.random_range(model.start..=model.end);
                log.set_log_start_offset(Offset(model.start), Box::new(|_| ())).unwrap();
            }
            80..84 => {
                model.vote = Some(Vote { term: self.term, node_id: Some(1), committed: false });
                log.save_vote(model.vote.unwrap(), ignore()).unwrap();
            }
            84..88 => store.checkpoint().unwrap(),
            88..90 => store.idle(),
            _ => {
                let _ = store.step();
            }
        }
        check(&log, &self.models[group], self.seed);
    }
}

#[test]
fn a_random_history_reads_back_as_it_was_written() {
    for seed in 0..60 {
        let options = LogStoreOptions {
            journal_file_bytes: 3_000,
            tail_bytes: 4_000,
            checkpoint_bytes: 20_000,
            ..options()
        };
        let machine = Machine::new(options);
        let (rng, models) = (StdRng::seed_from_u64(seed), vec![Model::default(); 3]);
        let mut history = History { rng, seed, term: 1, models };
        let mut store = machine.open();
        for step in 0..600 {
            history.act(&store);
            if step % 97 == 96 {
                run(&store);
                drop(store);
                machine.disk.kill();
                match history.rng.random_range(0..4) {
                    0 => machine.kv.lose(),
                    1 => machine.kv.crash_keeping(history.rng.random_range(0..50)),
                    _ => machine.kv.crash(),
                }
                store = machine.open();
                for (at, model) in history.models.iter().enumerate() {
                    let log = store.group(GroupId(at as u64 + 1));
                    check(&log, model, seed);
                }
            }
        }
    }
}
