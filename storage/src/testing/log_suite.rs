//! What the layers above rely on in the log store, on whatever disk and key-value store.

use std::sync::Arc;
use std::sync::mpsc;

use bytes::Bytes;
use protocol::record_batch::{BatchBuilder, BatchHeader, HEADER_LEN, RecordBatch};
use protocol::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::{Claim, claims, run_claims};
use crate::StorageError;
use crate::log_store::{
    Completion, Durability, Entry, EntryBody, EntryId, GroupId, GroupLog, LogState, LogStore,
    LogStoreOptions, ReadLimit, Records, Vote,
};
use crate::producer_state::Verdict;

/// A store under test: opens the same one again and again, after the one before was dropped.
pub struct LogFixture {
    /// Opens the store.
    pub open: Box<dyn Fn(LogStoreOptions) -> Result<LogStore, StorageError>>,
    /// Loses the index of the store that was dropped.
    pub lose_index: Box<dyn Fn()>,
    /// Whatever has to live as long as the store.
    pub keep: Box<dyn std::any::Any>,
}

const CLAIMS: &[Claim<LogFixture>] = claims![
    batches_get_their_place_and_keep_their_bytes,
    appends_can_be_read_before_they_are_durable,
    a_read_begins_with_the_batch_that_holds_the_offset,
    a_read_keeps_its_limits,
    reads_outside_of_the_log_are_out_of_range,
    truncated_offsets_are_taken_again,
    purging_moves_the_log_start,
    the_log_start_moves_forward_only,
    groups_do_not_mix,
    a_removed_group_is_gone,
    everything_survives_a_restart_with_and_without_the_index,
    epochs_end_where_the_next_begins,
    records_are_found_by_their_time,
    producers_are_known_after_a_restart,
    retention_is_exact_to_the_batch,
    a_snapshot_replaces_the_log,
    journal_files_go_when_nothing_lives_in_them,
    a_second_store_is_refused,
    a_closed_store_takes_nothing_in,
];

/// Tests all claims.
///
/// # Panics
/// If one does not hold.
pub fn run(new_fixture: impl Fn() -> LogFixture) {
    run_claims(CLAIMS, &new_fixture);
}

fn open(fixture: &LogFixture) -> LogStore {
    (fixture.open)(LogStoreOptions::default()).unwrap()
}

/// Runs something that calls back, and waits for that.
fn wait(run: impl FnOnce(Completion)) -> Result<(), StorageError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    run(Box::new(move |result| sender.send(result).unwrap()));
    receiver.recv().unwrap()
}

fn id(term: u64, index: u64) -> EntryId {
    EntryId { term, index }
}

/// A batch of as many records, each with the next of these timestamps.
fn batch(timestamps: &[i64]) -> RecordBatch {
    timestamps
        .iter()
        .fold(BatchBuilder::new(), |builder, timestamp| {
            builder.record(Timestamp(*timestamp), None, Some(&[7; 100]))
        })
        .build()
        .unwrap()
}

fn append(log: &GroupLog, id: EntryId, batches: Vec<RecordBatch>) {
    let entry = Entry { id, body: EntryBody::Batches(batches) };
    wait(|done| log.append(vec![entry], Durability::Fsync, None, done).unwrap()).unwrap();
}

fn append_opaque(log: &GroupLog, id: EntryId) {
    let entry = Entry { id, body: EntryBody::Opaque { kind: 3, bytes: Bytes::from_static(b"x") } };
    wait(|done| log.append(vec![entry], Durability::Fsync, None, done).unwrap()).unwrap();
}

/// Ten entries of two batches with three and two records, each with its own number as time.
fn append_ten(log: &GroupLog) {
    for index in 0..10u64 {
        let time = 100 * i64::try_from(index).unwrap();
        let first = batch(&[time, time + 10, time + 20]);
        append(log, id(1 + index / 4, index), vec![first, batch(&[time + 30, time + 40])]);
    }
}

/// What was read, in one piece.
pub(crate) fn bytes_of(records: &Records) -> Bytes {
    let bytes = records.read_to_bytes().unwrap();
    assert_eq!(bytes.len(), records.size_bytes);
    bytes
}

/// The headers of whole batches.
fn headers(mut bytes: &[u8]) -> Vec<BatchHeader> {
    let mut headers = Vec::new();
    while !bytes.is_empty() {
        let header = BatchHeader::parse(bytes).unwrap();
        let batch = Bytes::copy_from_slice(&bytes[..header.size_in_bytes()]);
        let head = *batch.first_chunk::<HEADER_LEN>().unwrap();
        let whole = RecordBatch::from_parts(head, batch.slice(HEADER_LEN..)).unwrap();
        whole.verify_crc().unwrap();
        headers.push(header);
        bytes = &bytes[header.size_in_bytes()..];
    }
    headers
}

const ALL: ReadLimit =
    ReadLimit { upper_bound: Offset(i64::MAX), max_bytes: usize::MAX, min_one_batch: true };

fn base_offsets(log: &GroupLog, from: i64, limit: ReadLimit) -> Vec<i64> {
    let records = log.read(Offset(from), limit).unwrap();
    headers(&bytes_of(&records)).iter().map(|header| header.base_offset.0).collect()
}

fn ends(log: &GroupLog) -> (i64, i64) {
    let offsets = log.offsets();
    (offsets.log_start_offset.0, offsets.log_end_offset.0)
}

fn batches_get_their_place_and_keep_their_bytes(fixture: &LogFixture) {
    let store = open(fixture);
    let log = store.group(GroupId(7));
    append(&log, id(5, 1), vec![batch(&[1, 2, 3]), batch(&[4])]);
    append_opaque(&log, id(5, 2));
    append(&log, id(6, 3), vec![batch(&[5, 6])]);
    let placed: Vec<_> = headers(&bytes_of(&log.read(Offset(0), ALL).unwrap()))
        .iter()
        .map(|header| (header.base_offset.0, header.partition_leader_epoch.0))
        .collect();
    assert_eq!(placed, [(0, 5), (3, 5), (4, 6)]);
    let entries = log.entries(1..9, usize::MAX).unwrap();
    let read: Vec<_> = entries.iter().map(|entry| entry.id).collect();
    assert_eq!(read, [id(5, 1), id(5, 2), id(6, 3)]);
    let EntryBody::Batches(batches) = &entries[0].body else { panic!("{entries:?}") };
    assert_eq!(batches[1].body(), batch(&[4]).body());
    assert!(matches!(&entries[1].body, EntryBody::Opaque { kind: 3, bytes } if bytes == "x"));
    let heads = log.heads(1..9).unwrap();
    let next: Vec<_> = heads.iter().map(|h| (h.next_offset.0, h.opaque_kind)).collect();
    assert_eq!(next, [(4, None), (4, Some(3)), (6, None)]);
    assert_eq!(log.entry_id(3).unwrap(), Some(id(6, 3)));
    assert_eq!(log.entry_id(4).unwrap(), None);
}

fn appends_can_be_read_before_they_are_durable(fixture: &LogFixture) {
    let store = open(fixture);
    let log = store.group(GroupId(1));
    for index in 0..50u64 {
        let body = EntryBody::Batches(vec![batch(&[1, 2])]);
        let entry = Entry { id: id(1, index), body };
        log.append(vec![entry], Durability::Os, None, Box::new(|_| {})).unwrap();
        let offset = 2 * i64::try_from(index).unwrap();
        assert_eq!(ends(&log), (0, offset + 2));
        assert_eq!(base_offsets(&log, offset, ALL), [offset]);
    }
}

fn a_read_begins_with_the_batch_that_holds_the_offset(fixture: &LogFixture) {
    let log = open(fixture).group(GroupId(1));
    append_ten(&log);
    for (from, first) in [(0, 0), (2, 0), (3, 3), (4, 3), (5, 5), (48, 48), (49, 48)] {
        assert_eq!(base_offsets(&log, from, ALL)[0], first, "from {from}");
    }
    assert!(base_offsets(&log, 50, ALL).is_empty());
}

fn a_read_keeps_its_limits(fixture: &LogFixture) {
    let log = open(fixture).group(GroupId(1));
    append_ten(&log);
    let bounded = |upper_bound| ReadLimit { upper_bound: Offset(upper_bound), ..ALL };
    assert_eq!(base_offsets(&log, 0, bounded(9)), [0, 3, 5, 8]);
    assert_eq!(base_offsets(&log, 0, bounded(8)), [0, 3, 5]);
    assert!(base_offsets(&log, 5, bounded(5)).is_empty());
    let (three, two) = (batch(&[0; 3]).size_in_bytes(), batch(&[0; 2]).size_in_bytes());
    let sized = |max_bytes, min_one_batch| ReadLimit { max_bytes, min_one_batch, ..ALL };
    assert_eq!(base_offsets(&log, 0, sized(three + two, false)), [0, 3]);
    assert_eq!(base_offsets(&log, 0, sized(three + two - 1, false)), [0]);
    assert_eq!(base_offsets(&log, 0, sized(1, true)), [0]);
    assert!(base_offsets(&log, 0, sized(three - 1, false)).is_empty());
    // A smaller batch behind one that does not fit is not taken in its place.
    assert_eq!(base_offsets(&log, 3, sized(two + three - 1, false)), [3]);
}

fn reads_outside_of_the_log_are_out_of_range(fixture: &LogFixture) {
    let log = open(fixture).group(GroupId(1));
    assert!(base_offsets(&log, 0, ALL).is_empty());
    append_ten(&log);
    wait(|done| log.purge(id(1, 1), done).unwrap()).unwrap();
    for offset in [-1, 9, 51] {
        let error = log.read(Offset(offset), ALL).unwrap_err();
        let StorageError::OffsetOutOfRange { requested, log_start_offset, log_end_offset } = error
        else {
            panic!("{error}")
        };
        assert_eq!((requested, log_start_offset, log_end_offset), (offset, 10, 50));
    }
    assert!(matches!(log.entries(1..3, 1000), Err(StorageError::Purged { index: 1 })));
}

fn truncated_offsets_are_taken_again(fixture: &LogFixture) {
    let log = open(fixture).group(GroupId(1));
    append_ten(&log);
    wait(|done| log.truncate_after(Some(3), done).unwrap()).unwrap();
    assert_eq!((ends(&log), log.log_state().last), ((0, 20), Some(id(1, 3))));
    append(&log, id(9, 4), vec![batch(&[1])]);
    assert_eq!(base_offsets(&log, 18, ALL), [18, 20]);
    assert_eq!(log.epoch_for_offset(Offset(20)), Some(LeaderEpoch(9)));
    wait(|done| log.truncate_after(None, done).unwrap()).unwrap();
    assert_eq!((ends(&log), log.log_state().last), ((0, 0), None));
    append(&log, id(9, 0), vec![batch(&[1])]);
    assert_eq!(base_offsets(&log, 0, ALL), [0]);
}

fn purging_moves_the_log_start(fixture: &LogFixture) {
    let log = open(fixture).group(GroupId(1));
    append_ten(&log);
    let before = log.size_bytes();
    wait(|done| log.purge(id(1, 2), done).unwrap()).unwrap();
    assert_eq!(ends(&log), (15, 50));
    assert_eq!(log.size_bytes(), before / 10 * 7);
    let state = LogState { last_purged: Some(id(1, 2)), last: Some(id(3, 9)), vote: None };
    assert_eq!(log.log_state(), state);
    assert_eq!(log.last_entry_below(Offset(30)).unwrap(), Some(id(2, 5)));
    assert_eq!(log.last_entry_below(Offset(34)).unwrap(), Some(id(2, 5)));
    assert_eq!(log.last_entry_below(Offset(19)).unwrap(), None);
    wait(|done| log.purge(id(3, 9), done).unwrap()).unwrap();
    assert_eq!((ends(&log), log.size_bytes()), ((50, 50), 0));
    append(&log, id(3, 10), vec![batch(&[1])]);
    assert_eq!(base_offsets(&log, 50, ALL), [50]);
}

fn the_log_start_moves_forward_only(fixture: &LogFixture) {
    let log = open(fixture).group(GroupId(1));
    append_ten(&log);
    log.set_log_start_offset(Offset(12), Box::new(|_| ())).unwrap();
    log.set_log_start_offset(Offset(11), Box::new(|_| ())).unwrap();
    assert_eq!(ends(&log), (12, 50));
    assert_eq!(base_offsets(&log, 12, ALL)[0], 10);
    assert!(log.read(Offset(11), ALL).is_err());
    assert!(log.set_log_start_offset(Offset(51), Box::new(|_| ())).is_err());
    wait(|done| log.purge(id(1, 1), done).unwrap()).unwrap();
    assert_eq!(ends(&log), (12, 50));
}

fn groups_do_not_mix(fixture: &LogFixture) {
    let store = open(fixture);
    for group in 1..4 {
        for index in 0..=group {
            append(&store.group(GroupId(group)), id(group, index), vec![batch(&[1])]);
        }
    }
    assert_eq!(store.group_ids(), [GroupId(1), GroupId(2), GroupId(3)]);
    wait(|done| store.group(GroupId(2)).truncate_after(Some(0), done).unwrap()).unwrap();
    wait(|done| store.group(GroupId(3)).purge(id(3, 1), done).unwrap()).unwrap();
    let all: Vec<_> = (1..4).map(|group| ends(&store.group(GroupId(group)))).collect();
    assert_eq!(all, [(0, 2), (0, 1), (2, 4)]);
}

fn a_removed_group_is_gone(fixture: &LogFixture) {
    let store = open(fixture);
    let log = store.group(GroupId(1));
    append_ten(&log);
    append(&store.group(GroupId(2)), id(1, 0), vec![batch(&[1])]);
    wait(|done| store.remove_group(GroupId(1), done)).unwrap();
    assert!(matches!(log.read(Offset(0), ALL), Err(StorageError::GroupGone(1))));
    assert_eq!(store.group_ids(), [GroupId(2)]);
    drop((store, log));
    (fixture.lose_index)();
    assert_eq!(open(fixture).group_ids(), [GroupId(2)]);
}

fn everything_survives_a_restart_with_and_without_the_index(fixture: &LogFixture) {
    let store = open(fixture);
    let log = store.group(GroupId(1));
    append_ten(&log);
    let vote = Vote { term: 4, node_id: Some(2), committed: true };
    wait(|done| log.save_vote(vote, done).unwrap()).unwrap();
    wait(|done| log.put_state(b"key", Bytes::from_static(b"old"), done).unwrap()).unwrap();
    wait(|done| log.put_state(b"key", Bytes::from_static(b"new"), done).unwrap()).unwrap();
    wait(|done| log.purge(id(1, 1), done).unwrap()).unwrap();
    log.set_log_start_offset(Offset(16), Box::new(|_| ())).unwrap();
    wait(|done| log.truncate_after(Some(8), done).unwrap()).unwrap();
    let before = bytes_of(&log.read(Offset(16), ALL).unwrap());
    drop((store, log));
    for lost in [false, true, false] {
        if lost {
            (fixture.lose_index)();
        }
        let store = open(fixture);
        let log = store.group(GroupId(1));
        let (last_purged, last) = (Some(id(1, 1)), Some(id(3, 8)));
        assert_eq!(log.log_state(), LogState { last_purged, last, vote: Some(vote) });
        assert_eq!(ends(&log), (16, 45));
        assert_eq!(log.get_state(b"key").unwrap().unwrap(), "new");
        assert_eq!(log.get_state(b"none").unwrap(), None);
        assert!(bytes_of(&log.read(Offset(16), ALL).unwrap()) == before);
        if lost {
            store.close().unwrap();
        }
    }
}

fn epochs_end_where_the_next_begins(fixture: &LogFixture) {
    let store = open(fixture);
    let log = store.group(GroupId(1));
    assert_eq!((log.latest_epoch(), log.end_offset_for_epoch(LeaderEpoch(1))), (None, None));
    append_ten(&log);
    let check = |log: &GroupLog| {
        let end = |epoch| {
            log.end_offset_for_epoch(LeaderEpoch(epoch)).map(|(epoch, end)| (epoch.0, end.0))
        };
        assert_eq!([end(1), end(2), end(3)], [Some((1, 20)), Some((2, 40)), Some((3, 50))]);
        assert_eq!(end(4), None);
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch(3)));
        assert_eq!(log.epoch_for_offset(Offset(19)), Some(LeaderEpoch(1)));
        assert_eq!(log.epoch_for_offset(Offset(20)), Some(LeaderEpoch(2)));
    };
    check(&log);
    drop((store, log));
    check(&open(fixture).group(GroupId(1)));
}

fn records_are_found_by_their_time(fixture: &LogFixture) {
    let store = open(fixture);
    let check = |log: &GroupLog| {
        let find = |time, bound| {
            let found = log.offset_for_timestamp(Timestamp(time), Offset(bound)).unwrap();
            found.map(|found| (found.timestamp.0, found.offset.0, found.leader_epoch.0))
        };
        assert_eq!(find(0, 50), Some((0, 0, 1)));
        assert_eq!(find(115, 50), Some((120, 7, 1)), "a record within a batch");
        assert_eq!(find(425, 50), Some((430, 23, 2)));
        assert_eq!(find(940, 50), Some((940, 49, 3)));
        assert_eq!(find(941, 50), None);
        assert_eq!(find(425, 23), None, "what is not committed is not found");
        let largest = log.offset_of_max_timestamp(Offset(50)).unwrap().unwrap();
        assert_eq!((largest.timestamp.0, largest.offset.0), (940, 49));
        let largest = log.offset_of_max_timestamp(Offset(8)).unwrap().unwrap();
        assert_eq!((largest.timestamp.0, largest.offset.0), (120, 7));
    };
    let log = store.group(GroupId(1));
    append_ten(&log);
    check(&log);
    store.close().unwrap();
    drop((store, log));
    check(&open(fixture).group(GroupId(1)));
}

fn producers_are_known_after_a_restart(fixture: &LogFixture) {
    let of_producer = |sequence| {
        BatchBuilder::new()
            .producer(ProducerId(4), ProducerEpoch(1), sequence)
            .record(Timestamp(5), None, None)
            .build()
            .unwrap()
    };
    let store = open(fixture);
    let log = store.group(GroupId(1));
    for sequence in 0..8u64 {
        let batch = of_producer(i32::try_from(sequence).unwrap());
        append(&log, id(1, sequence), vec![batch]);
    }
    wait(|done| log.purge(id(1, 2), done).unwrap()).unwrap();
    wait(|done| log.truncate_after(Some(6), done).unwrap()).unwrap();
    drop((store, log));
    for lost in [false, true] {
        if lost {
            (fixture.lose_index)();
        }
        let state = open(fixture).group(GroupId(1)).producer_state().unwrap();
        let verdict = |sequence| state.check(of_producer(sequence).header());
        assert_eq!(verdict(7), Verdict::Accept);
        assert!(matches!(verdict(6), Verdict::Duplicate { base_offset: Offset(6), .. }));
        assert!(matches!(verdict(2), Verdict::Duplicate { base_offset: Offset(2), .. }));
        assert_eq!(verdict(1), Verdict::OutOfOrderSequence);
    }
}

fn retention_is_exact_to_the_batch(fixture: &LogFixture) {
    let log = open(fixture).group(GroupId(1));
    append_ten(&log);
    let plan = |now, ms, bytes, bound| {
        let planned = log.plan_retention(Timestamp(now), ms, bytes, Offset(bound)).unwrap();
        planned.map(|offset| offset.0)
    };
    assert_eq!(plan(1000, None, None, 50), None);
    assert_eq!(plan(1000, Some(1000), None, 50), None);
    assert_eq!(plan(1000, Some(979), None, 50), Some(3));
    assert_eq!(plan(1000, Some(959), None, 50), Some(5));
    assert_eq!(plan(5000, Some(0), None, 50), Some(50));
    assert_eq!(plan(5000, Some(0), None, 17), Some(15));
    let size = i64::try_from(log.size_bytes()).unwrap();
    let first = i64::try_from(batch(&[0; 3]).size_in_bytes()).unwrap();
    assert_eq!(plan(0, None, Some(size), 50), None);
    assert_eq!(plan(0, None, Some(size - first + 1), 50), None);
    assert_eq!(plan(0, None, Some(size - first), 50), Some(3));
    assert_eq!(plan(1000, Some(979), Some(size / 2), 50), Some(25));
}

fn a_snapshot_replaces_the_log(fixture: &LogFixture) {
    let store = open(fixture);
    let (source, log) = (store.group(GroupId(1)), store.group(GroupId(2)));
    append_ten(&source);
    append(&log, id(1, 0), vec![batch(&[1])]);
    let producers = source.producer_snapshot_at(9).unwrap();
    let epochs = vec![(LeaderEpoch(1), Offset(0)), (LeaderEpoch(3), Offset(40))];
    wait(|done| log.install_snapshot(id(3, 9), Offset(50), producers, epochs, done).unwrap())
        .unwrap();
    append(&log, id(3, 10), vec![batch(&[1])]);
    let check = |log: &GroupLog| {
        assert_eq!(ends(log), (50, 51));
        let state = log.log_state();
        assert_eq!((state.last_purged, state.last), (Some(id(3, 9)), Some(id(3, 10))));
        assert_eq!(base_offsets(log, 50, ALL), [50]);
        assert_eq!(log.epoch_for_offset(Offset(50)), Some(LeaderEpoch(3)));
    };
    check(&log);
    drop((store, source, log));
    check(&open(fixture).group(GroupId(2)));
    (fixture.lose_index)();
    check(&open(fixture).group(GroupId(2)));
}

fn journal_files_go_when_nothing_lives_in_them(fixture: &LogFixture) {
    let options = LogStoreOptions { journal_file_bytes: 10_000, ..LogStoreOptions::default() };
    let store = (fixture.open)(options).unwrap();
    let (log, other) = (store.group(GroupId(1)), store.group(GroupId(2)));
    wait(|done| other.save_vote(Vote::default(), done).unwrap()).unwrap();
    for index in 0..100 {
        append(&log, id(1, index), vec![batch(&[1; 10])]);
    }
    assert!(store.stats().journal_file_count > 5);
    wait(|done| log.purge(id(1, 98), done).unwrap()).unwrap();
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    assert!(store.stats().journal_file_count <= 2, "{:?}", store.stats());
    assert_eq!(base_offsets(&log, 990, ALL), [990]);
    drop((store, log, other));
    (fixture.lose_index)();
    let store = open(fixture);
    assert_eq!(ends(&store.group(GroupId(1))), (990, 1000));
    assert_eq!(store.group(GroupId(2)).log_state().vote, Some(Vote::default()));
}

fn a_second_store_is_refused(fixture: &LogFixture) {
    let first = open(fixture);
    let error = (fixture.open)(LogStoreOptions::default()).unwrap_err();
    assert!(matches!(error, StorageError::Locked(_)), "{error}");
    drop(first);
    open(fixture);
}

fn a_closed_store_takes_nothing_in(fixture: &LogFixture) {
    let store = open(fixture);
    let log = store.group(GroupId(1));
    append_ten(&log);
    store.close().unwrap();
    store.close().unwrap();
    let entry = Entry { id: id(3, 10), body: EntryBody::Batches(vec![batch(&[1])]) };
    let refused = log.append(vec![entry], Durability::Fsync, None, Box::new(|_| {}));
    assert!(matches!(refused, Err(StorageError::Stopped(_))), "{refused:?}");
    assert_eq!(store.stopped(), None);
    let kept = Arc::new(log);
    drop(store);
    assert_eq!(ends(&kept), (0, 50));
}
