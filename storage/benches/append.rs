//! Append, read and recovery through the store, on a real disk: MB/s and CPU seconds per GB, bytes
//! written per byte appended, time to open.
//!
//! `cargo bench -p storage --bench append -- [MIB [ONLY THIS BATCH SIZE]]`; `DIR` chooses the
//! directory. Built with the `rocksdb` feature it measures what production runs, without it the
//! index in memory.

#![expect(clippy::disallowed_methods, reason = "a bench measures time")]

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::record_batch::{BatchBuilder, RecordBatch};
use protocol::types::{Offset, Timestamp};
use storage::StorageError;
use storage::log_store::{
    Durability, Entry, EntryBody, EntryId, GroupId, LogStore, LogStoreOptions, ReadLimit,
    RecordSlice,
};

const GROUPS: u64 = 12;
/// Rounds of appends that are in flight together.
const IN_FLIGHT: usize = 4;

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let megabytes = numbers.first().copied().unwrap_or(512);
    let dir = std::env::var("DIR").map_or_else(|_| std::env::temp_dir(), PathBuf::from);
    let dir = dir.join("highwater-bench");
    if std::env::args().any(|argument| argument == "fill-and-die") {
        fill_and_die(megabytes, &dir);
    }
    println!("{megabytes} MiB each, {GROUPS} groups, in {}", dir.display());
    for (batch_bytes, entry_bytes) in [
        (100, 16 << 10),
        (100, 1 << 20),
        (1 << 10, 1 << 20),
        (16 << 10, 16 << 10),
        (16 << 10, 1 << 20),
        (1 << 20, 1 << 20),
    ] {
        if numbers.get(1).is_some_and(|only| *only != batch_bytes as u64) {
            continue;
        }
        for durability in [Durability::Os, Durability::Fsync] {
            // Small batches cost more time a byte: a part of the bytes tells as much.
            let scale = if batch_bytes < 1 << 10 { 8 } else { 1 };
            let bytes = (megabytes << 20) / scale;
            Bench { batch_bytes, entry_bytes, durability, bytes }.run(&dir);
        }
    }
    measure_start(megabytes, &dir);
}

/// Time to open after the process died in the middle of its work.
fn measure_start(megabytes: u64, dir: &Path) {
    let _ = std::fs::remove_dir_all(dir);
    std::fs::create_dir_all(dir).expect("a directory for the bench");
    let program = std::env::current_exe().expect("this program");
    let status = std::process::Command::new(program)
        .arg(megabytes.to_string())
        .arg("fill-and-die")
        .status()
        .expect("a child process");
    println!("start after {megabytes} MiB and a sudden end ({status})");
    for _ in 0..2 {
        let started = Instant::now();
        let store = open(dir);
        println!("    opened in {:?}: {:?}", started.elapsed(), store.stats());
        store.close().expect("close");
    }
    let _ = std::fs::remove_dir_all(dir);
}

fn fill_and_die(megabytes: u64, dir: &Path) -> ! {
    let (batch_bytes, entry_bytes, durability) = (16 << 10, 64 << 10, Durability::Os);
    let bench = Bench { batch_bytes, entry_bytes, durability, bytes: megabytes << 20 };
    let store = open(dir);
    bench.append(&store);
    std::process::abort();
}

struct Bench {
    batch_bytes: usize,
    /// What one entry of a group holds.
    entry_bytes: usize,
    durability: Durability,
    bytes: u64,
}

impl Bench {
    fn run(&self, dir: &Path) {
        let _ = std::fs::remove_dir_all(dir);
        std::fs::create_dir_all(dir).expect("a directory for the bench");
        println!(
            "batches of {} B, entries of {} B, {:?}",
            self.batch_bytes, self.entry_bytes, self.durability
        );
        let store = open(dir);
        let before = usage();
        let written = written_bytes();
        let appended = self.append(&store);
        report("append", appended, before);
        store.checkpoint().expect("a checkpoint");
        let stats = store.stats();
        println!(
            "    on disk {:.3} bytes per byte ({:.3} in the journal, index keys and values {:.3}), \
             rounds {}, syncs {}",
            (written_bytes() - written) as f64 / appended as f64,
            stats.journal_bytes as f64 / appended as f64,
            stats.index_bytes as f64 / appended as f64,
            stats.round_count,
            stats.sync_count,
        );
        let before = usage();
        report("read it back (in the page cache)", self.read(&store), before);
        drop(store);
        let started = Instant::now();
        let store = open(dir);
        println!("    opened right behind a checkpoint in {:?}", started.elapsed());
        drop(store);
        std::fs::remove_dir_all(dir.join("index")).unwrap_or(());
        let started = Instant::now();
        let store = open(dir);
        println!("    opened without an index in {:?}", started.elapsed());
        store.close().expect("close");
        drop(store);
        let _ = std::fs::remove_dir_all(dir);
    }

    /// Appends until all bytes are in; how many that was.
    fn append(&self, store: &LogStore) -> u64 {
        let batches = self.batches();
        let per_entry = (self.entry_bytes / self.batch_bytes).max(1);
        let logs: Vec<_> = (0..GROUPS).map(|group| store.group(GroupId(group))).collect();
        let (sender, receiver) = mpsc::channel::<Result<(), StorageError>>();
        let (mut bytes, mut index, mut in_flight) = (0, 0, 0);
        while bytes < self.bytes {
            for log in &logs {
                let list: Vec<RecordBatch> =
                    (0..per_entry).map(|at| batches[(index as usize + at) % 64].clone()).collect();
                bytes += list.iter().map(|batch| batch.size_in_bytes() as u64).sum::<u64>();
                let entry =
                    Entry { id: EntryId { term: 1, index }, body: EntryBody::Batches(list) };
                let sender = sender.clone();
                let done = Box::new(move |result| sender.send(result).unwrap_or(()));
                log.append(vec![entry], self.durability, None, done).expect("an append");
                in_flight += 1;
            }
            index += 1;
            while in_flight > IN_FLIGHT * logs.len() {
                receiver.recv().expect("a writer").expect("an append");
                in_flight -= 1;
            }
        }
        for _ in 0..in_flight {
            receiver.recv().expect("a writer").expect("an append");
        }
        bytes
    }

    /// 64 different batches, so that the memory traffic is that of real input.
    fn batches(&self) -> Vec<RecordBatch> {
        let mut state = 88_172_645_463_325_252u64;
        (0..64)
            .map(|_| {
                let value: Vec<u8> = (0..self.batch_bytes.saturating_sub(75).max(1))
                    .map(|_| {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        state as u8
                    })
                    .collect();
                let builder =
                    BatchBuilder::new().record(Timestamp(1_700_000_000_000), None, Some(&value));
                builder.build().expect("a batch")
            })
            .collect()
    }

    /// Reads all groups from the beginning in fetches of a mebibyte.
    fn read(&self, store: &LogStore) -> u64 {
        let (mut bytes, mut buffer) = (0, vec![0; 2 << 20]);
        for group in 0..GROUPS {
            let log = store.group(GroupId(group));
            let end = log.offsets().log_end_offset;
            let mut from = Offset(0);
            while from < end {
                let limit = ReadLimit { upper_bound: end, max_bytes: 1 << 20, min_one_batch: true };
                let records = log.read(from, limit).expect("a read");
                let mut last = Bytes::new();
                let mut at = 0;
                for slice in &records.slices {
                    at += match slice {
                        RecordSlice::Memory(slice) => {
                            buffer[at..at + slice.len()].copy_from_slice(slice);
                            slice.len()
                        }
                        RecordSlice::File { file, position, length } => {
                            use std::os::unix::fs::FileExt;
                            file.read_exact_at(&mut buffer[at..at + length], *position)
                                .expect("the file");
                            *length
                        }
                    };
                }
                let mut left = Bytes::copy_from_slice(&buffer[..at]);
                let mut next = from;
                while let Some(batch) = RecordBatch::split_from(&mut left).expect("whole batches") {
                    next = batch.header().next_offset();
                    last = batch.body().clone();
                }
                assert!(next > from && !last.is_empty(), "a read makes progress");
                from = next;
                bytes += at as u64;
            }
        }
        bytes
    }
}

fn open(dir: &Path) -> LogStore {
    LogStore::open_dir(dir, LogStoreOptions::default()).expect("the store opens")
}

struct Usage {
    at: Instant,
    cpu: Duration,
}

fn usage() -> Usage {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Usage { at: Instant::now(), cpu: Duration::from_millis((ticks(11) + ticks(12)) * 10) }
}

fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn report(what: &str, bytes: u64, before: Usage) {
    let after = usage();
    println!(
        "    {what}: {:.0} MB/s, {:.2} CPU-s/GB",
        bytes as f64 / 1e6 / (after.at - before.at).as_secs_f64(),
        (after.cpu - before.cpu).as_secs_f64() / (bytes as f64 / 1e9)
    );
}
