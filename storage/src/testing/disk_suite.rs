//! What the journal relies on in a disk.

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;

use super::{Claim, claims, run_claims};
use crate::disk::{Disk, DiskFile};

/// A disk under test: opens the same directory again and again.
pub struct DiskFixture {
    /// Opens the directory; what was opened before may still be in use.
    pub open: Box<dyn Fn() -> Arc<dyn Disk>>,
    /// Whatever has to live as long as the disk.
    pub keep: Box<dyn std::any::Any>,
}

const CLAIMS: &[Claim<DiskFixture>] = claims![
    parts_are_written_one_behind_the_other,
    a_read_ends_where_the_file_ends,
    a_hole_reads_as_zeros,
    bytes_can_be_written_over,
    truncating_cuts_and_extends,
    allocated_space_reads_as_zeros,
    names_are_listed_until_they_are_removed,
    a_name_is_made_once,
    a_missing_name_is_not_found,
    a_removed_file_can_be_read_through_its_handle,
    contents_are_there_when_opened_again,
    the_lock_is_held_by_one,
    space_is_told,
    hints_do_no_harm,
    readers_run_beside_the_writer,
];

/// Tests all claims.
///
/// # Panics
/// If one does not hold.
pub fn run(new_fixture: impl Fn() -> DiskFixture) {
    run_claims(CLAIMS, &new_fixture);
}

fn write(file: &dyn DiskFile, position: u64, bytes: &[u8]) {
    file.write_at(position, &[IoSlice::new(bytes)]).unwrap();
}

fn read(file: &dyn DiskFile, position: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0xee; len];
    let count = file.read_at(position, &mut buffer).unwrap();
    buffer.truncate(count);
    buffer
}

fn parts_are_written_one_behind_the_other(fixture: &DiskFixture) {
    let file = (fixture.open)().create("a").unwrap();
    file.write_at(0, &[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")]).unwrap();
    file.write_at(5, &[]).unwrap();
    let many: Vec<[u8; 3]> = (0..3000u32).map(|i| [1, (i >> 8) as u8, i as u8]).collect();
    let parts: Vec<IoSlice<'_>> = many.iter().map(|part| IoSlice::new(part)).collect();
    file.write_at(5, &parts).unwrap();
    assert_eq!(file.len().unwrap(), 5 + 9000);
    assert_eq!(read(&*file, 0, 20_000), [b"abcde", many.as_flattened()].concat());
}

fn a_read_ends_where_the_file_ends(fixture: &DiskFixture) {
    let file = (fixture.open)().create("a").unwrap();
    assert!(file.is_empty().unwrap());
    assert_eq!(read(&*file, 0, 4), b"");
    write(&*file, 0, b"abc");
    assert!(!file.is_empty().unwrap());
    assert_eq!(read(&*file, 1, 4), b"bc");
    assert_eq!(read(&*file, 1, 1), b"b");
    assert_eq!(read(&*file, 3, 4), b"");
    assert_eq!(read(&*file, 1 << 40, 4), b"");
}

fn a_hole_reads_as_zeros(fixture: &DiskFixture) {
    let file = (fixture.open)().create("a").unwrap();
    write(&*file, 3, b"d");
    assert_eq!(read(&*file, 0, 9), b"\0\0\0d");
}

fn bytes_can_be_written_over(fixture: &DiskFixture) {
    let file = (fixture.open)().create("a").unwrap();
    write(&*file, 0, b"abcdef");
    file.sync_data().unwrap();
    write(&*file, 2, b"XY");
    assert_eq!(read(&*file, 0, 9), b"abXYef");
}

fn truncating_cuts_and_extends(fixture: &DiskFixture) {
    let file = (fixture.open)().create("a").unwrap();
    write(&*file, 0, b"abcdef");
    file.truncate(2).unwrap();
    assert_eq!(read(&*file, 0, 9), b"ab");
    file.truncate(4).unwrap();
    assert_eq!(read(&*file, 0, 9), b"ab\0\0");
    file.truncate(0).unwrap();
    assert!(file.is_empty().unwrap());
}

fn allocated_space_reads_as_zeros(fixture: &DiskFixture) {
    let file = (fixture.open)().create("a").unwrap();
    write(&*file, 0, b"ab");
    file.allocate(5).unwrap();
    assert_eq!(read(&*file, 0, 9), b"ab\0\0\0");
    file.allocate(1).unwrap();
    assert_eq!(file.len().unwrap(), 5, "allocating does not cut");
}

fn names_are_listed_until_they_are_removed(fixture: &DiskFixture) {
    let disk = (fixture.open)();
    let listed = || {
        let mut names = disk.list().unwrap();
        names.sort();
        names
    };
    assert!(listed().is_empty());
    disk.create("b").unwrap();
    disk.create("a").unwrap();
    disk.sync_dir().unwrap();
    assert_eq!(listed(), ["a", "b"]);
    disk.remove("a").unwrap();
    disk.sync_dir().unwrap();
    assert_eq!(listed(), ["b"]);
    disk.create("a").unwrap();
    assert!(disk.open("a").unwrap().is_empty().unwrap());
}

fn a_name_is_made_once(fixture: &DiskFixture) {
    let disk = (fixture.open)();
    write(&*disk.create("a").unwrap(), 0, b"first");
    assert_eq!(disk.create("a").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(read(&*disk.open("a").unwrap(), 0, 9), b"first");
}

fn a_missing_name_is_not_found(fixture: &DiskFixture) {
    let disk = (fixture.open)();
    assert_eq!(disk.open("a").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.remove("a").unwrap_err().kind(), ErrorKind::NotFound);
}

fn a_removed_file_can_be_read_through_its_handle(fixture: &DiskFixture) {
    let disk = (fixture.open)();
    let file = disk.create("a").unwrap();
    write(&*file, 0, b"bytes");
    disk.remove("a").unwrap();
    disk.sync_dir().unwrap();
    assert_eq!(read(&*file, 0, 9), b"bytes");
}

fn contents_are_there_when_opened_again(fixture: &DiskFixture) {
    let first = (fixture.open)();
    let file = first.create("a").unwrap();
    write(&*file, 0, b"bytes");
    file.sync_data().unwrap();
    first.sync_dir().unwrap();
    drop((first, file));
    let file = (fixture.open)().open("a").unwrap();
    assert_eq!(read(&*file, 0, 9), b"bytes");
    write(&*file, 5, b" more");
    assert_eq!(read(&*file, 0, 20), b"bytes more");
}

fn the_lock_is_held_by_one(fixture: &DiskFixture) {
    let (first, second) = ((fixture.open)(), (fixture.open)());
    let guard = first.lock().unwrap();
    assert_eq!(first.lock().unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(second.lock().unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(guard);
    let guard = second.lock().unwrap();
    assert_eq!(first.lock().unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(guard);
    assert!(first.list().unwrap().is_empty(), "the lock is no file of the directory");
}

fn space_is_told(fixture: &DiskFixture) {
    let disk = (fixture.open)();
    let (free, total) = (disk.free_bytes().unwrap(), disk.total_bytes().unwrap());
    assert!(0 < free && free <= total);
}

fn hints_do_no_harm(fixture: &DiskFixture) {
    let file = (fixture.open)().create("a").unwrap();
    write(&*file, 0, b"bytes");
    file.random_access();
    file.will_need(0, 5);
    file.will_need(1 << 50, 1 << 40);
    if let Some(std_file) = file.as_std() {
        assert_eq!(std_file.metadata().unwrap().len(), 5);
    }
}

fn readers_run_beside_the_writer(fixture: &DiskFixture) {
    let file = (fixture.open)().create("a").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while file.len().unwrap() < 64_000 {
                    let bytes = read(&*file, 0, 64_000);
                    assert!(bytes.iter().all(|byte| *byte == 7), "a read saw what nobody wrote");
                }
            });
        }
        for position in (0..64_000).step_by(640) {
            write(&*file, position, &[7; 640]);
        }
    });
}
