//! Crashes, torn tails, rot, lost and lagging indexes, full disks, failing syncs.

use super::*;
use crate::disk::sim::SimFault;

fn fill(store: &LogStore, entries: u64) {
    let log = store.group(G);
    for index in 0..entries {
        append(&log, vec![batches(id(1, index), vec![batch(index as i64, 2)])]);
        run(store);
    }
}

fn name(number: u32) -> String {
    crate::journal::file::name(number)
}

#[test]
fn what_was_reported_durable_is_there_after_a_power_cut() {
    let machine = Machine::new(options());
    let store = machine.open();
    fill(&store, 20);
    let lost = store.group(G);
    let written = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = written.clone();
    let told: Completion = Box::new(move |_| seen.store(true, std::sync::atomic::Ordering::SeqCst));
    lost.append(vec![batches(id(1, 20), vec![batch(0, 9)])], Durability::Os, Some(told), ignore())
        .unwrap();
    run(&store);
    assert!(written.load(std::sync::atomic::Ordering::SeqCst));
    drop((lost, store));
    machine.disk.crash();
    machine.kv.crash();
    let store = machine.open();
    let offsets = read_offsets(&store.group(G), 0, everything());
    assert_eq!(offsets[..20], (0..20).map(|at| at * 2).collect::<Vec<i64>>());
    assert!(offsets.len() <= 21);
}

#[test]
fn a_torn_tail_is_cut_and_written_over() {
    for cut in 1..200 {
        let machine = Machine::new(options());
        let store = machine.open();
        fill(&store, 3);
        drop(store);
        machine.kill();
        let handle = crate::disk::Disk::open(&machine.disk, &name(1)).unwrap();
        let len = handle.len().unwrap();
        handle.truncate(len - cut).unwrap();
        handle.sync_data().unwrap();
        let store = machine.open();
        let log = store.group(G);
        let end = log.log_state().last.map_or(0, |last| last.index + 1);
        assert!(end < 3);
        append(&log, vec![batches(id(2, end), vec![batch(0, 1)])]);
        run(&store);
        drop((log, store));
        machine.kill();
        let last = machine.open().group(G).log_state().last;
        assert_eq!(last, Some(id(2, end)));
    }
}

#[test]
fn a_lost_index_is_rebuilt_and_nothing_is_missing() {
    let machine = Machine::new(LogStoreOptions { journal_file_bytes: 2_000, ..options() });
    let store = machine.open();
    fill(&store, 100);
    store.checkpoint().unwrap();
    let before = bytes_of(&store.group(G).read(Offset(0), everything()).unwrap());
    assert!(store.stats().journal_file_count > 5);
    drop(store);
    machine.disk.kill();
    machine.kv.lose();
    let store = machine.open();
    let after = bytes_of(&store.group(G).read(Offset(0), everything()).unwrap());
    assert_eq!(before, after);
}

#[test]
fn an_index_that_knows_more_than_the_journal_is_rebuilt() {
    let machine = Machine::new(options());
    let store = machine.open();
    fill(&store, 5);
    let log = store.group(G);
    for index in 5..40 {
        let entry = batches(id(1, index), vec![batch(0, 1)]);
        log.append(vec![entry], Durability::Os, None, ignore()).unwrap();
        run(&store);
    }
    drop((log, store));
    machine.disk.crash();
    // The index had flushed by itself: nothing of it is lost.
    machine.kv.crash_keeping(usize::MAX);
    let store = machine.open();
    let log = store.group(G);
    let last = log.log_state().last.unwrap().index;
    assert!((4..40).contains(&last));
    assert_eq!(log.heads(0..99).unwrap().len() as u64, last + 1);
    assert_eq!(read_offsets(&log, 0, everything()).len() as u64, last + 1);
}

#[test]
fn rot_in_the_middle_is_marked_and_never_served() {
    for lose_index in [true, false] {
        for in_payload in [true, false] {
            let machine = Machine::new(options());
            let store = machine.open();
            fill(&store, 10);
            drop(store);
            machine.kill();
            let content = machine.disk.contents(&name(1)).unwrap();
            let starts: Vec<usize> = (0..content.len() - 4)
                .filter(|at| content[*at..*at + 4] == crate::journal::record::MAGIC)
                .collect();
            let at = starts[5] + if in_payload { 80 } else { 20 };
            machine.disk.flip_bit(&name(1), at as u64, 3);
            if lose_index {
                machine.kv.lose();
            }
            let store = machine.open();
            let log = store.group(G);
            assert_eq!(log.offsets().log_end_offset, Offset(20));
            assert_eq!(read_offsets(&log, 0, everything()), [0, 2, 4, 6, 8]);
            for from in [10, 11] {
                let error = log.read(Offset(from), everything()).unwrap_err();
                assert!(matches!(error, StorageError::Corrupt(_)));
            }
            assert_eq!(read_offsets(&log, 12, everything()), [12, 14, 16, 18]);
            assert!(matches!(log.entries(5..6, 1), Err(StorageError::Corrupt(_))));
            append(&log, vec![batches(id(2, 10), vec![batch(0, 1)])]);
            run(&store);
            assert_eq!(read_offsets(&log, 18, everything()), [18, 20]);
        }
    }
}

#[test]
fn rot_behind_the_covered_place_is_not_replicated() {
    let machine = Machine::new(options());
    let store = machine.open();
    fill(&store, 10);
    store.idle();
    machine.disk.flip_bit(&name(1), 16 + 64 + 70, 0);
    let error = store.group(G).entries(0..1, 1).unwrap_err();
    assert!(matches!(error, StorageError::Corrupt(_)));
}

#[test]
fn a_failed_sync_stops_the_store_for_good() {
    let machine = Machine::new(options());
    let store = machine.open();
    fill(&store, 3);
    let log = store.group(G);
    let done = append(&log, vec![batches(id(1, 3), vec![batch(0, 1)])]);
    // The write comes first, then the sync.
    machine.disk.fail_at(machine.disk.operations() + 1, SimFault::Io);
    machine.disk.fail_at(machine.disk.operations() + 2, SimFault::Io);
    run(&store);
    assert!(matches!(done.try_recv(), Ok(Err(StorageError::Stopped(_)))));
    assert!(store.stopped().is_some());
    let again =
        log.append(vec![batches(id(1, 4), vec![batch(0, 1)])], Durability::Fsync, None, ignore());
    assert!(matches!(again, Err(StorageError::Stopped(_))));
}

#[test]
fn a_full_disk_refuses_appends_and_takes_votes_and_deletions() {
    let machine = Machine::new(LogStoreOptions { reserve_bytes: 20_000, ..options() });
    machine.disk.set_capacity(Some(400_000));
    let store = machine.open();
    let log = store.group(G);
    let mut index = 0;
    let big = BatchBuilder::new().record(Timestamp(0), None, Some(&[7; 5_000])).build().unwrap();
    let refused = loop {
        let entry = batches(id(1, index), vec![big.clone()]);
        let (done, receiver) = completion();
        match log.append(vec![entry], Durability::Fsync, None, done) {
            Ok(()) => index += 1,
            Err(error) => break error,
        }
        run(&store);
        if let Ok(Err(error)) = receiver.try_recv() {
            break error;
        }
    };
    assert!(matches!(refused, StorageError::NoSpace(_)));
    assert_eq!(store.stopped(), None);
    let (done, receiver) = completion();
    machine.disk.set_capacity(Some(500_000));
    log.save_vote(Vote { term: 9, ..Vote::default() }, done).unwrap();
    run(&store);
    assert_eq!(receiver.try_recv(), Ok(Ok(())));
    machine.disk.set_capacity(None);
    let end = log.log_state().last.unwrap().index + 1;
    let done = append(&log, vec![batches(id(9, end), vec![batch(0, 1)])]);
    run(&store);
    assert_eq!(done.try_recv(), Ok(Ok(())));
    drop((log, store));
    machine.kill();
    let log = machine.open().group(G);
    assert_eq!(log.log_state().last, Some(id(9, end)));
    assert_eq!(log.log_state().vote.unwrap().term, 9);
    assert_eq!(log.entries(0..end + 1, usize::MAX).unwrap().len() as u64, end + 1);
}

#[test]
fn a_write_that_finds_no_space_takes_its_entries_back() {
    let machine = Machine::new(options());
    let store = machine.open();
    fill(&store, 3);
    let log = store.group(G);
    let first = append(&log, vec![batches(id(1, 3), vec![batch(0, 1)])]);
    machine.disk.fail_at(machine.disk.operations() + 1, SimFault::NoSpace);
    machine.disk.fail_at(machine.disk.operations(), SimFault::NoSpace);
    run(&store);
    assert!(matches!(first.try_recv(), Ok(Err(StorageError::NoSpace(_)))));
    assert_eq!(log.log_state().last, Some(id(1, 2)));
    assert_eq!(log.offsets().log_end_offset, Offset(6));
    machine.disk.clear_faults();
    let again = append(&log, vec![batches(id(1, 3), vec![batch(0, 4)])]);
    run(&store);
    assert_eq!(again.try_recv(), Ok(Ok(())));
    drop((log, store));
    machine.kill();
    assert_eq!(machine.open().group(G).offsets().log_end_offset, Offset(10));
}

#[test]
fn an_index_without_space_catches_up_later() {
    let machine = Machine::new(options());
    let store = machine.open();
    fill(&store, 3);
    let log = store.group(G);
    machine.kv.fail_with(Some(std::io::ErrorKind::StorageFull));
    let done = append(&log, vec![batches(id(1, 3), vec![batch(0, 1)])]);
    log.save_vote(Vote { term: 2, ..Vote::default() }, ignore()).unwrap();
    run(&store);
    assert_eq!(done.try_recv(), Ok(Ok(())));
    assert!(store.checkpoint().is_err());
    machine.kv.fail_with(None);
    store.idle();
    store.checkpoint().unwrap();
    drop((log, store));
    machine.kill();
    assert_eq!(machine.open().group(G).log_state().last, Some(id(1, 3)));
}
