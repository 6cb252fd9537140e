//! Journal files in which nothing lives go, and what they said survives them.

use super::*;

fn machine() -> Machine {
    Machine::new(LogStoreOptions { journal_file_bytes: 2_000, ..options() })
}

fn fill(store: &LogStore, group: u64, range: std::ops::Range<u64>) {
    let log = store.group(GroupId(group));
    for index in range {
        append(&log, vec![batches(id(1, index), vec![produced(group as i64, index as i32, 1)])]);
        run(store);
    }
}

fn files(machine: &Machine) -> Vec<u32> {
    let names = crate::disk::Disk::list(&machine.disk).unwrap();
    let mut numbers: Vec<u32> =
        names.iter().filter_map(|name| crate::journal::file::number(name)).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_file_goes_when_its_last_entry_is_purged() {
    let machine = machine();
    let store = machine.open();
    fill(&store, 1, 0..50);
    fill(&store, 2, 0..50);
    store.checkpoint().unwrap();
    let before = files(&machine);
    store.group(GroupId(1)).purge(id(1, 48), ignore()).unwrap();
    store.checkpoint().unwrap();
    let after = files(&machine);
    assert!(after.len() < before.len() && after.len() > 2, "{before:?} {after:?}");
    store.group(GroupId(1)).purge(id(1, 49), ignore()).unwrap();
    store.remove_group(GroupId(2), ignore());
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    assert_eq!(files(&machine).len(), 1);
    assert_eq!(store.stats().live_bytes, 0);
}

#[test]
fn votes_and_state_do_not_hold_a_file_and_survive_its_end_and_a_lost_index() {
    let machine = machine();
    let store = machine.open();
    let idle = store.group(GroupId(9));
    let vote = Vote { term: 3, node_id: Some(1), committed: true };
    idle.save_vote(vote, ignore()).unwrap();
    idle.put_state(b"k", Bytes::from_static(b"v"), ignore()).unwrap();
    fill(&store, 1, 0..100);
    store.group(GroupId(1)).purge(id(1, 90), ignore()).unwrap();
    store.checkpoint().unwrap();
    assert!(!files(&machine).contains(&1));
    drop((idle, store));
    machine.kill();
    machine.kv.lose();
    let store = machine.open();
    assert_eq!(store.group(GroupId(9)).log_state().vote, Some(vote));
    assert_eq!(store.group(GroupId(9)).get_state(b"k").unwrap().unwrap(), "v");
    let log = store.group(GroupId(1));
    assert_eq!(log.log_state().last_purged, Some(id(1, 90)));
    assert_eq!(log.offsets().log_start_offset, Offset(91));
    assert_eq!(read_offsets(&log, 91, everything()), (91..100).collect::<Vec<i64>>());
    let producers = log.producer_state().unwrap();
    assert_eq!(producers.check(produced(1, 100, 1).header()), Verdict::Accept);
    assert_eq!(producers.check(produced(1, 101, 1).header()), Verdict::OutOfOrderSequence);
}

#[test]
fn a_removed_group_does_not_come_back_from_an_older_file() {
    let machine = machine();
    let store = machine.open();
    fill(&store, 1, 0..3);
    fill(&store, 2, 0..3);
    fill(&store, 3, 0..60);
    store.remove_group(GroupId(1), ignore());
    fill(&store, 3, 60..120);
    store.group(GroupId(3)).purge(id(1, 110), ignore()).unwrap();
    store.checkpoint().unwrap();
    let left = files(&machine);
    assert!(left.contains(&1) && !left.contains(&5), "{left:?}");
    drop(store);
    machine.kill();
    machine.kv.lose();
    let store = machine.open();
    assert_eq!(store.group_ids(), [GroupId(2), GroupId(3)]);
    store.remove_group(GroupId(2), ignore());
    store.checkpoint().unwrap();
    drop(store);
    machine.kill();
    machine.kv.lose();
    assert_eq!(machine.open().group_ids(), [GroupId(3)]);
}

#[test]
fn a_truncation_in_a_file_that_went_is_not_forgotten() {
    let machine = machine();
    let store = machine.open();
    // Entries of group 1 in the first file, kept alive by group 2.
    fill(&store, 1, 0..6);
    fill(&store, 2, 0..3);
    fill(&store, 3, 0..60);
    store.group(GroupId(1)).truncate_after(Some(2), ignore()).unwrap();
    fill(&store, 3, 60..120);
    store.group(GroupId(3)).purge(id(1, 119), ignore()).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    machine.kill();
    machine.kv.lose();
    let log = machine.open().group(GroupId(1));
    assert_eq!(log.log_state().last, Some(id(1, 2)));
    assert_eq!(log.heads(0..9).unwrap().len(), 3);
}

#[test]
fn an_open_handle_outlives_its_file() {
    let machine = machine();
    let store = machine.open();
    fill(&store, 1, 0..50);
    store.idle();
    let records = store.group(GroupId(1)).read(Offset(0), everything()).unwrap();
    store.group(GroupId(1)).purge(id(1, 49), ignore()).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(batches_of(&records).len(), 50);
}

#[test]
fn a_log_that_was_truncated_to_nothing_begins_at_zero_again() {
    let machine = machine();
    let store = machine.open();
    fill(&store, 1, 0..60);
    fill(&store, 2, 0..1);
    let before = files(&machine).len();
    // All but the last files of group 1 die by a truncation, and go.
    store.group(GroupId(1)).truncate_after(Some(0), ignore()).unwrap();
    fill(&store, 1, 1..100);
    store.checkpoint().unwrap();
    store.group(GroupId(1)).truncate_after(None, ignore()).unwrap();
    store.checkpoint().unwrap();
    assert!(files(&machine).len() < before);
    drop(store);
    machine.kill();
    machine.kv.lose();
    let log = machine.open().group(GroupId(1));
    let offsets = log.offsets();
    assert_eq!((offsets.log_start_offset, offsets.log_end_offset), (Offset(0), Offset(0)));
    assert_eq!(log.log_state().last, None);
}
