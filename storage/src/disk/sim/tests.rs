//! The simulated disk forgets what a real one may forget, and nothing else.

use std::collections::BTreeSet;
use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use super::{SimDisk, SimFault, TornWrite};
use crate::disk::{Disk, DiskFile};

fn write(file: &Arc<dyn DiskFile>, bytes: &[u8]) -> std::io::Result<()> {
    file.write_at(file.len()?, &[IoSlice::new(bytes)])
}

/// A disk with a file `a` of which one byte is synced.
fn disk(seed: u64) -> (SimDisk, Arc<dyn DiskFile>) {
    let disk = SimDisk::new(seed);
    let file = disk.create("a").unwrap();
    write(&file, b"0").unwrap();
    file.sync_data().unwrap();
    disk.sync_dir().unwrap();
    (disk, file)
}

#[test]
fn a_crash_keeps_what_was_synced_and_some_of_the_writes_behind_it() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = disk(seed);
        for bytes in [b"1", b"2", b"3"] {
            write(&file, bytes).unwrap();
        }
        disk.crash();
        seen.insert(disk.contents("a").unwrap());
    }
    let expected = [&b"0"[..], b"01", b"012", b"0123"].map(<[u8]>::to_vec);
    assert_eq!(seen, BTreeSet::from(expected));
}

#[test]
fn names_that_were_not_synced_may_vanish_and_come_back() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let (disk, _) = disk(seed);
        let synced = disk.create("b").unwrap();
        write(&synced, b"bytes").unwrap();
        synced.sync_data().unwrap();
        disk.remove("a").unwrap();
        disk.crash();
        seen.insert(disk.list().unwrap().concat());
    }
    assert_eq!(seen, BTreeSet::from(["a", "ab", "b"].map(str::to_owned)));
}

#[test]
fn a_torn_write_ends_at_a_sector() {
    let mut lengths = BTreeSet::new();
    for seed in 0..500 {
        let (disk, file) = disk(seed);
        write(&file, &[1; 2000]).unwrap();
        disk.crash();
        lengths.insert(disk.contents("a").unwrap().len());
    }
    assert_eq!(lengths, BTreeSet::from([1, 512, 1024, 1536, 2001]));
}

#[test]
fn a_torn_write_may_have_holes() {
    let mut contents = BTreeSet::new();
    for seed in 0..500 {
        let (disk, file) = disk(seed);
        disk.set_torn_write(TornWrite::Holes);
        write(&file, &[1; 1500]).unwrap();
        disk.crash();
        contents.insert(disk.contents("a").unwrap());
    }
    assert_eq!(contents.len(), 9, "none of it, or each of three sectors kept or not");
}

#[test]
fn a_cut_that_was_not_synced_may_come_undone() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let (disk, file) = disk(seed);
        file.truncate(0).unwrap();
        write(&file, b"new").unwrap();
        disk.crash();
        seen.insert(disk.contents("a").unwrap());
    }
    assert_eq!(seen, BTreeSet::from([&b""[..], b"0", b"new"].map(<[u8]>::to_vec)));
}

#[test]
fn a_crash_at_an_operation_stops_everything_until_the_restart() {
    let (disk, file) = disk(0);
    disk.crash_at(disk.operations() + 2);
    write(&file, b"1").unwrap();
    assert!(file.sync_data().is_err());
    assert!(disk.is_down());
    assert!(file.read_at(0, &mut [0]).is_err());
    assert!(disk.list().is_err() && disk.create("b").is_err() && disk.lock().is_err());
    disk.restart();
    assert!(file.len().is_err(), "handles of the earlier life are dead");
    assert_eq!(disk.open("a").unwrap().read_at(0, &mut [0]).unwrap(), 1);
    assert!(disk.lock().is_ok());
}

#[test]
fn a_sync_that_failed_has_dropped_its_writes_for_good() {
    let (disk, file) = disk(0);
    write(&file, b"123").unwrap();
    disk.fail_at(disk.operations() + 1, SimFault::Io);
    assert!(file.sync_data().is_err());
    write(&file, b"4").unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.contents("a").unwrap(), b"01234");
    disk.crash();
    assert_eq!(disk.contents("a").unwrap(), b"0\0\0\x004");
}

#[test]
fn a_full_disk_takes_what_fits_and_more_when_there_is_space() {
    let (disk, file) = disk(0);
    disk.set_capacity(Some(4));
    assert_eq!((disk.free_bytes().unwrap(), disk.total_bytes().unwrap()), (3, 4));
    assert_eq!(write(&file, b"12345").unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(disk.contents("a").unwrap(), b"0123");
    assert_eq!(file.allocate(9).unwrap_err().kind(), ErrorKind::StorageFull);
    disk.set_capacity(None);
    write(&file, b"45").unwrap();
}

#[test]
fn a_killed_process_loses_nothing_that_it_wrote() {
    let (disk, file) = disk(0);
    let guard = disk.lock().unwrap();
    write(&file, b"1").unwrap();
    disk.kill();
    assert!(file.len().is_err());
    assert_eq!(disk.contents("a").unwrap(), b"01");
    let second = disk.lock().unwrap();
    drop(guard);
    assert!(disk.lock().is_err(), "a dead guard does not free another's lock");
    drop(second);
}

#[test]
fn the_same_seed_makes_the_same_disk() {
    let run = |seed| {
        let (disk, file) = disk(seed);
        for _ in 0..20 {
            write(&file, &[7; 700]).unwrap();
        }
        disk.crash();
        disk.contents("a").unwrap()
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
}

#[test]
fn flipped_bits_are_on_the_disk() {
    let (disk, file) = disk(0);
    disk.flip_bit("a", 0, 0);
    let mut byte = [0];
    file.read_at(0, &mut byte).unwrap();
    assert_eq!(&byte, b"1");
    disk.crash();
    assert_eq!(disk.contents("a").unwrap(), b"1");
}
