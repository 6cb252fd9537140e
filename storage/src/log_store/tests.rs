//! Tests of the store as its callers see it, over the simulated disk and the index in memory.

mod lookups;
mod model;
mod reclaim;
mod recovery;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use bytes::Bytes;
use protocol::record_batch::{BatchBuilder, RecordBatch};
use protocol::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::*;
use crate::disk::sim::SimDisk;
use crate::kv::memory::MemoryKv;
use crate::producer_state::Verdict;
use crate::testing::log_suite::bytes_of;

/// A machine: a disk and an index that survive what is done to the store.
pub(super) struct Machine {
    pub(super) disk: SimDisk,
    pub(super) kv: Arc<MemoryKv>,
    pub(super) options: LogStoreOptions,
}

pub(super) fn options() -> LogStoreOptions {
    LogStoreOptions {
        writer: WriterMode::Manual { wake: None },
        reserve_bytes: 0,
        ..LogStoreOptions::default()
    }
}

impl Machine {
    pub(super) fn new(options: LogStoreOptions) -> Machine {
        Machine { disk: SimDisk::new(1), kv: Arc::new(MemoryKv::new()), options }
    }

    pub(super) fn open(&self) -> LogStore {
        self.try_open().unwrap()
    }

    pub(super) fn try_open(&self) -> Result<LogStore, StorageError> {
        LogStore::open(self.options.clone(), Arc::new(self.disk.clone()), self.kv.clone())
    }

    /// The process dies, the machine does not: the index falls back to its last flush.
    pub(super) fn kill(&self) {
        self.disk.kill();
        self.kv.crash();
    }
}

pub(super) const G: GroupId = GroupId(7);

pub(super) fn id(term: u64, index: u64) -> EntryId {
    EntryId { term, index }
}

/// A batch of `count` records, the first at this time, each a millisecond after the other.
pub(super) fn batch(timestamp: i64, count: i64) -> RecordBatch {
    let mut builder = BatchBuilder::new();
    for at in 0..count {
        builder = builder.record(Timestamp(timestamp + at), None, Some(b"some value"));
    }
    builder.build().unwrap()
}

pub(super) fn produced(producer: i64, base_sequence: i32, count: i64) -> RecordBatch {
    let mut builder =
        BatchBuilder::new().producer(ProducerId(producer), ProducerEpoch(0), base_sequence);
    for _ in 0..count {
        builder = builder.record(Timestamp(5), None, Some(b"v"));
    }
    builder.build().unwrap()
}

pub(super) fn batches(id: EntryId, batches: Vec<RecordBatch>) -> Entry {
    Entry { id, body: EntryBody::Batches(batches) }
}

pub(super) fn opaque(id: EntryId, bytes: &'static [u8]) -> Entry {
    Entry { id, body: EntryBody::Opaque { kind: 1, bytes: Bytes::from_static(bytes) } }
}

/// A completion, and where it arrives.
pub(super) fn completion() -> (Completion, Receiver<Result<(), StorageError>>) {
    let (sender, receiver) = mpsc::sync_channel(1);
    (Box::new(move |result| sender.send(result).unwrap_or(())), receiver)
}

pub(super) fn ignore() -> Completion {
    Box::new(|_| {})
}

pub(super) fn append(log: &GroupLog, entries: Vec<Entry>) -> Receiver<Result<(), StorageError>> {
    let (done, receiver) = completion();
    log.append(entries, Durability::Fsync, None, done).unwrap();
    receiver
}

pub(super) fn run(store: &LogStore) {
    while store.step() {}
}

pub(super) fn everything() -> ReadLimit {
    ReadLimit { upper_bound: Offset(i64::MAX), max_bytes: usize::MAX >> 1, min_one_batch: true }
}

pub(super) fn batches_of(records: &Records) -> Vec<RecordBatch> {
    let mut bytes = bytes_of(records);
    let mut batches = Vec::new();
    while let Some(batch) = RecordBatch::split_from(&mut bytes).unwrap() {
        batch.verify_crc().unwrap();
        batches.push(batch);
    }
    batches
}

/// Base offsets of the batches that a read yields.
pub(super) fn read_offsets(log: &GroupLog, from: i64, limit: ReadLimit) -> Vec<i64> {
    let records = log.read(Offset(from), limit).unwrap();
    batches_of(&records).iter().map(|batch| batch.header().base_offset.0).collect()
}

/// Runs a check three times: served from memory, from the disk, and after a restart.
fn thrice(fill: impl Fn(&LogStore, &GroupLog), check: impl Fn(&GroupLog)) {
    let machine = Machine::new(options());
    let store = machine.open();
    let log = store.group(G);
    fill(&store, &log);
    check(&log);
    run(&store);
    check(&log);
    store.idle();
    check(&log);
    drop((log, store));
    machine.kill();
    check(&machine.open().group(G));
    machine.kill();
    machine.kv.lose();
    check(&machine.open().group(G));
}

#[test]
fn entries_are_readable_before_they_are_written() {
    let machine = Machine::new(options());
    let store = machine.open();
    let log = store.group(G);
    let done = append(&log, vec![batches(id(1, 0), vec![batch(10, 3), batch(20, 2)])]);
    assert_eq!(log.offsets().log_end_offset, Offset(5));
    assert_eq!(read_offsets(&log, 0, everything()), [0, 3]);
    assert_eq!(log.entries(0..9, 1 << 20).unwrap().len(), 1);
    assert!(done.try_recv().is_err());
    run(&store);
    assert_eq!(done.try_recv(), Ok(Ok(())));
}

#[test]
fn batches_get_their_offsets_and_epoch_on_the_way_in() {
    thrice(
        |_, log| {
            append(log, vec![opaque(id(3, 0), b"blank")]);
            append(log, vec![batches(id(3, 1), vec![batch(1, 4), batch(2, 1)])]);
            append(log, vec![batches(id(5, 2), vec![batch(3, 2)])]);
        },
        |log| {
            let placed: Vec<_> = batches_of(&log.read(Offset(0), everything()).unwrap())
                .iter()
                .map(|batch| {
                    (batch.header().base_offset.0, batch.header().partition_leader_epoch.0)
                })
                .collect();
            assert_eq!(placed, [(0, 3), (4, 3), (5, 5)]);
            let next: Vec<i64> =
                log.heads(0..9).unwrap().iter().map(|head| head.next_offset.0).collect();
            assert_eq!(next, [0, 5, 7]);
            assert_eq!(log.entry_id(2).unwrap(), Some(id(5, 2)));
            assert_eq!(log.entry_id(3).unwrap(), None);
            assert_eq!(log.latest_epoch(), Some(LeaderEpoch(5)));
            assert_eq!(log.epoch_for_offset(Offset(4)), Some(LeaderEpoch(3)));
            let end = log.end_offset_for_epoch(LeaderEpoch(4));
            assert_eq!(end, Some((LeaderEpoch(3), Offset(5))));
            assert_eq!(log.term_starts(), [id(3, 0), id(5, 2)]);
        },
    );
}

#[test]
fn a_read_yields_whole_batches_within_its_limits() {
    let size = batch(0, 2).size_in_bytes();
    thrice(
        |_, log| {
            for index in 0..10 {
                append(log, vec![batches(id(1, index), vec![batch(0, 2), batch(0, 2)])]);
            }
        },
        |log| {
            let limit = |max_bytes, upper_bound, min_one_batch| ReadLimit {
                upper_bound: Offset(upper_bound),
                max_bytes,
                min_one_batch,
            };
            assert_eq!(read_offsets(log, 5, limit(size * 3, 100, true)), [4, 6, 8]);
            assert_eq!(read_offsets(log, 5, limit(size * 3 - 1, 100, true)), [4, 6]);
            assert_eq!(read_offsets(log, 5, limit(1, 100, true)), [4]);
            assert!(read_offsets(log, 5, limit(1, 100, false)).is_empty());
            assert_eq!(read_offsets(log, 34, limit(1 << 20, 37, true)), [34, 36]);
            assert!(read_offsets(log, 40, limit(1 << 20, 100, true)).is_empty());
            assert!(read_offsets(log, 10, limit(1 << 20, 10, true)).is_empty());
            let all: Vec<i64> = (0..20).map(|at| at * 2).collect();
            assert_eq!(read_offsets(log, 0, everything()), all);
            let error = log.read(Offset(41), everything()).unwrap_err();
            assert!(matches!(
                error,
                StorageError::OffsetOutOfRange { log_start_offset: 0, log_end_offset: 40, .. }
            ));
        },
    );
}

#[test]
fn truncation_takes_offsets_epochs_and_producers_back() {
    thrice(
        |store, log| {
            append(log, vec![batches(id(1, 0), vec![produced(9, 0, 2)])]);
            append(log, vec![batches(id(1, 1), vec![produced(9, 2, 2)])]);
            run(store);
            append(log, vec![batches(id(2, 2), vec![produced(9, 4, 2)])]);
            log.truncate_after(Some(0), ignore()).unwrap();
            append(log, vec![batches(id(3, 1), vec![produced(9, 2, 3)])]);
        },
        |log| {
            assert_eq!(log.offsets().log_end_offset, Offset(5));
            assert_eq!(log.log_state().last, Some(id(3, 1)));
            assert_eq!(read_offsets(log, 0, everything()), [0, 2]);
            let end = log.end_offset_for_epoch(LeaderEpoch(1));
            assert_eq!(end, Some((LeaderEpoch(1), Offset(2))));
            let producers = log.producer_state().unwrap();
            assert_eq!(producers.check(produced(9, 5, 1).header()), Verdict::Accept);
            assert_eq!(producers.check(produced(9, 4, 1).header()), Verdict::OutOfOrderSequence);
            let entries = log.entries(0..9, usize::MAX).unwrap();
            assert_eq!(entries.len(), 2);
        },
    );
}

#[test]
fn everything_can_be_truncated() {
    thrice(
        |_, log| {
            append(log, vec![opaque(id(1, 0), b"a"), batches(id(1, 1), vec![batch(5, 5)])]);
            log.truncate_after(None, ignore()).unwrap();
        },
        |log| {
            assert_eq!(log.log_state().last, None);
            assert_eq!(log.offsets().log_end_offset, Offset(0));
            assert_eq!(log.latest_epoch(), None);
            assert_eq!(log.size_bytes(), 0);
        },
    );
}

#[test]
fn a_purge_moves_the_start_and_nothing_else() {
    let size = batch(0, 2).size_in_bytes() as u64;
    thrice(
        |store, log| {
            for index in 0..100 {
                append(log, vec![batches(id(1 + index / 50, index), vec![batch(0, 2)])]);
                run(store);
            }
            log.purge(id(1, 40), ignore()).unwrap();
        },
        |log| {
            assert_eq!(log.offsets().log_start_offset, Offset(82));
            assert_eq!(log.log_state().last_purged, Some(id(1, 40)));
            assert_eq!(log.size_bytes(), 59 * size);
            assert!(matches!(log.entries(40..50, 1), Err(StorageError::Purged { index: 40 })));
            assert!(matches!(
                log.read(Offset(81), everything()),
                Err(StorageError::OffsetOutOfRange { .. })
            ));
            assert_eq!(read_offsets(log, 82, everything()).len(), 59);
            assert_eq!(log.entry_id(40).unwrap(), Some(id(1, 40)));
            assert_eq!(log.entry_id(39).unwrap(), None);
            assert_eq!(log.term_starts(), [id(1, 41), id(2, 50), id(2, 99)]);
            assert_eq!(log.last_entry_below(Offset(101)).unwrap(), Some(id(1, 49)));
            assert_eq!(log.last_entry_below(Offset(82)).unwrap(), None);
        },
    );
}

#[test]
fn the_log_start_may_lie_within_an_entry() {
    thrice(
        |_, log| {
            append(log, vec![batches(id(1, 0), vec![batch(0, 5), batch(0, 5)])]);
            log.set_log_start_offset(Offset(7), Box::new(|_| ())).unwrap();
            log.set_log_start_offset(Offset(3), Box::new(|_| ())).unwrap();
        },
        |log| {
            assert_eq!(log.offsets().log_start_offset, Offset(7));
            assert_eq!(read_offsets(log, 7, everything()), [5]);
            assert!(log.read(Offset(6), everything()).is_err());
            assert_eq!(log.last_entry_below(Offset(7)).unwrap(), None);
            assert!(log.set_log_start_offset(Offset(11), Box::new(|_| ())).is_err());
        },
    );
}

#[test]
fn votes_and_state_survive_everything() {
    let vote = Vote { term: 4, node_id: Some(2), committed: true };
    thrice(
        |store, log| {
            log.save_vote(vote, ignore()).unwrap();
            log.put_state(b"snapshot", Bytes::from_static(b"one"), ignore()).unwrap();
            run(store);
            log.put_state(b"snapshot", Bytes::from_static(b"two"), ignore()).unwrap();
        },
        |log| {
            assert_eq!(log.log_state().vote, Some(vote));
            assert_eq!(log.get_state(b"snapshot").unwrap().unwrap(), "two");
            assert_eq!(log.get_state(b"other").unwrap(), None);
        },
    );
}

#[test]
fn a_snapshot_replaces_the_log() {
    let mut producers = crate::producer_state::ProducerState::default();
    producers.replay(produced(3, 0, 10).header());
    thrice(
        |store, log| {
            append(log, vec![batches(id(1, 0), vec![batch(0, 5)])]);
            run(store);
            append(log, vec![batches(id(1, 1), vec![batch(0, 5)])]);
            let epochs = vec![(LeaderEpoch(1), Offset(0)), (LeaderEpoch(4), Offset(70))];
            let bytes = producers.encode();
            log.install_snapshot(id(4, 50), Offset(90), bytes, epochs, ignore()).unwrap();
            append(log, vec![batches(id(4, 51), vec![batch(0, 5)])]);
        },
        |log| {
            let offsets = log.offsets();
            assert_eq!(offsets.log_start_offset, Offset(90));
            assert_eq!(offsets.log_end_offset, Offset(95));
            let state = log.log_state();
            assert_eq!((state.last_purged, state.last), (Some(id(4, 50)), Some(id(4, 51))));
            assert_eq!(read_offsets(log, 90, everything()), [90]);
            let known = log.producer_state().unwrap();
            assert_eq!(known.check(produced(3, 10, 1).header()), Verdict::Accept);
            assert_eq!(known.check(produced(3, 11, 1).header()), Verdict::OutOfOrderSequence);
            let end = log.end_offset_for_epoch(LeaderEpoch(4));
            assert_eq!(end, Some((LeaderEpoch(4), Offset(95))));
        },
    );
}

#[test]
fn producers_are_known_as_of_any_entry() {
    thrice(
        |store, log| {
            for index in 0..50 {
                let base_sequence = index as i32 * 2;
                append(log, vec![batches(id(1, index), vec![produced(4, base_sequence, 2)])]);
                if index == 20 {
                    store.checkpoint().unwrap();
                }
            }
            log.purge(id(1, 10), ignore()).unwrap();
        },
        |log| {
            for index in [10u64, 15, 20, 30, 49] {
                let bytes = log.producer_snapshot_at(index).unwrap();
                let state = crate::producer_state::ProducerState::decode(&bytes).unwrap();
                let next = (index as i32 + 1) * 2;
                assert_eq!(state.check(produced(4, next, 1).header()), Verdict::Accept);
                let skipped = state.check(produced(4, next + 1, 1).header());
                assert_eq!(skipped, Verdict::OutOfOrderSequence);
            }
        },
    );
}

#[test]
fn a_removed_group_is_gone() {
    let machine = Machine::new(options());
    let store = machine.open();
    let (log, other) = (store.group(G), store.group(GroupId(8)));
    append(&log, vec![batches(id(1, 0), vec![batch(0, 5)])]);
    append(&other, vec![batches(id(1, 0), vec![batch(0, 5)])]);
    run(&store);
    store.remove_group(G, ignore());
    assert!(matches!(log.read(Offset(0), everything()), Err(StorageError::GroupGone(7))));
    run(&store);
    assert_eq!(store.group_ids(), [GroupId(8)]);
    drop((log, other, store));
    machine.kill();
    let store = machine.open();
    assert_eq!(store.group_ids(), [GroupId(8)]);
    assert!(store.group(G).append(vec![], Durability::Os, None, ignore()).is_err());
}

#[test]
fn record_bytes_are_not_copied_between_append_and_read() {
    let machine = Machine::new(options());
    let store = machine.open();
    let log = store.group(G);
    let sent = batch(0, 5);
    let body = sent.body().clone();
    append(&log, vec![batches(id(1, 0), vec![sent])]);
    run(&store);
    let records = log.read(Offset(0), everything()).unwrap();
    let RecordSlice::Memory(read) = &records.slices[1] else { panic!("not in memory") };
    assert_eq!(read.as_ptr(), body.as_ptr());
    assert_eq!(store.stats().record_bytes_copied, 0);
}

#[test]
fn the_tail_is_bounded_and_what_left_it_is_read_from_the_journal() {
    let machine = Machine::new(LogStoreOptions { tail_bytes: 10_000, ..options() });
    let store = machine.open();
    let logs: Vec<GroupLog> = (1..5).map(|group| store.group(GroupId(group))).collect();
    for index in 0..200 {
        for log in &logs {
            append(log, vec![batches(id(1, index), vec![batch(0, 1)])]);
        }
        run(&store);
        assert!(store.stats().tail_bytes <= 10_000);
    }
    for log in &logs {
        assert_eq!(read_offsets(log, 0, everything()), (0..200).collect::<Vec<i64>>());
        assert_eq!(read_offsets(log, 199, everything()), [199]);
        assert_eq!(log.entries(0..200, usize::MAX).unwrap().len(), 200);
    }
}

#[test]
fn a_second_store_on_the_same_disk_is_refused() {
    let machine = Machine::new(options());
    let store = machine.open();
    assert!(matches!(machine.try_open(), Err(StorageError::Locked(_))));
    drop(store);
    machine.open();
}

#[test]
fn the_writers_thread_does_what_stepping_does() {
    let machine = Machine::new(LogStoreOptions { writer: WriterMode::Thread, ..options() });
    let store = machine.open();
    let log = store.group(G);
    let receivers: Vec<_> = (0..100)
        .map(|index| append(&log, vec![batches(id(1, index), vec![batch(0, 3)])]))
        .collect();
    for receiver in receivers {
        assert_eq!(receiver.recv(), Ok(Ok(())));
    }
    store.close().unwrap();
    store.close().unwrap();
    assert!(matches!(
        log.append(vec![], Durability::Os, None, ignore()),
        Err(StorageError::Stopped(_))
    ));
    drop((log, store));
    assert_eq!(read_offsets(&machine.open().group(G), 0, everything()).len(), 100);
}

#[test]
fn a_group_that_nobody_uses_is_small() {
    assert!(size_of::<state::Group>() <= 640, "{}", size_of::<state::Group>());
    let machine = Machine::new(options());
    let store = machine.open();
    for group in 0..200 {
        let log = store.group(GroupId(group));
        append(&log, vec![batches(id(1, 0), vec![produced(4, 0, 2)])]);
    }
    run(&store);
    store.idle();
    for group in 0..200 {
        let log = store.group(GroupId(group));
        let state = log.group.lock();
        assert_eq!((state.recent.capacity(), state.row.terms.starts().len()), (0, 1));
    }
}
