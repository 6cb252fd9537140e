//! What the index relies on in a key-value store.

use std::ops::Range;
use std::sync::Arc;

use super::{Claim, claims, run_claims};
use crate::kv::{ColumnFamily, Direction, KvStore, WriteBatch};

use ColumnFamily::{Entries, Offsets, State};
use Direction::{Backward, Forward};

/// A store under test.
pub struct KvFixture {
    /// The store.
    pub kv: Arc<dyn KvStore>,
    /// Makes the store that a machine would find that lost its power now.
    pub crashed: Box<dyn Fn() -> Arc<dyn KvStore>>,
    /// Whatever has to live as long as the store.
    pub keep: Box<dyn std::any::Any>,
}

const CLAIMS: &[Claim<KvFixture>] = claims![
    a_value_is_read_as_it_was_written_last,
    families_do_not_mix,
    changes_of_a_batch_apply_in_their_order,
    deleting_what_is_not_there_does_nothing,
    a_range_is_deleted_without_its_end,
    a_scan_goes_through_a_range_in_order,
    a_scan_ends_when_it_is_told_to,
    keys_compare_as_bytes,
    empty_and_large_values_are_values,
    a_crash_keeps_what_was_flushed,
    a_crash_keeps_a_prefix_of_the_writes_in_all_families,
    clearing_empties_every_family_durably,
    flushes_run_beside_writes,
    memory_is_told,
];

/// Tests all claims.
///
/// # Panics
/// If one does not hold.
pub fn run(new_fixture: impl Fn() -> KvFixture) {
    run_claims(CLAIMS, &new_fixture);
}

fn put(kv: &dyn KvStore, family: ColumnFamily, key: &[u8], value: &[u8]) {
    let mut batch = WriteBatch::default();
    batch.put(family, key, value);
    kv.write(&batch).unwrap();
}

fn get(kv: &dyn KvStore, family: ColumnFamily, key: &[u8]) -> Option<Vec<u8>> {
    kv.get(family, key).unwrap()
}

fn keys(kv: &dyn KvStore, family: ColumnFamily, range: Range<&str>, to: Direction) -> String {
    let mut seen = Vec::new();
    let range = range.start.as_bytes()..range.end.as_bytes();
    kv.scan(family, range, to, &mut |key, _| {
        seen.push(String::from_utf8(key.to_vec()).unwrap());
        true
    })
    .unwrap();
    seen.join(" ")
}

/// Keys a to e in all families.
fn a_to_e(kv: &dyn KvStore) {
    let mut batch = WriteBatch::default();
    for key in ["c", "a", "e", "b", "d"] {
        for family in ColumnFamily::ALL {
            batch.put(family, key.as_bytes(), family.name().as_bytes());
        }
    }
    kv.write(&batch).unwrap();
}

fn a_value_is_read_as_it_was_written_last(fixture: &KvFixture) {
    let kv = &*fixture.kv;
    assert_eq!(get(kv, State, b"key"), None);
    put(kv, State, b"key", b"one");
    put(kv, State, b"key", b"two");
    assert_eq!(get(kv, State, b"key").unwrap(), b"two");
    kv.flush().unwrap();
    put(kv, State, b"key", b"three");
    assert_eq!(get(kv, State, b"key").unwrap(), b"three");
    assert_eq!(get(kv, State, b"ke"), None);
}

fn families_do_not_mix(fixture: &KvFixture) {
    let kv = &*fixture.kv;
    a_to_e(kv);
    for family in ColumnFamily::ALL {
        assert_eq!(get(kv, family, b"a").unwrap(), family.name().as_bytes());
    }
    let mut batch = WriteBatch::default();
    batch.delete(Offsets, b"a");
    batch.delete_range(Entries, b"b", b"z");
    kv.write(&batch).unwrap();
    assert_eq!(keys(kv, Offsets, "a".."z", Forward), "b c d e");
    assert_eq!(keys(kv, Entries, "a".."z", Forward), "a");
    assert_eq!(keys(kv, State, "a".."z", Forward), "a b c d e");
}

fn changes_of_a_batch_apply_in_their_order(fixture: &KvFixture) {
    let kv = &*fixture.kv;
    let mut batch = WriteBatch::default();
    batch.put(State, b"a", b"1");
    batch.delete(State, b"a");
    batch.put(State, b"b", b"1");
    batch.delete_range(State, b"a", b"z");
    batch.put(State, b"c", b"1");
    batch.put(State, b"c", b"2");
    kv.write(&batch).unwrap();
    assert_eq!(keys(kv, State, "a".."z", Forward), "c");
    assert_eq!(get(kv, State, b"c").unwrap(), b"2");
    kv.write(&WriteBatch::default()).unwrap();
}

fn deleting_what_is_not_there_does_nothing(fixture: &KvFixture) {
    let kv = &*fixture.kv;
    let mut batch = WriteBatch::default();
    batch.delete(State, b"a");
    batch.delete_range(State, b"a", b"z");
    batch.delete_range(State, b"z", b"a");
    batch.delete_range(State, b"a", b"a");
    kv.write(&batch).unwrap();
    put(kv, State, b"a", b"1");
    assert_eq!(get(kv, State, b"a").unwrap(), b"1");
}

fn a_range_is_deleted_without_its_end(fixture: &KvFixture) {
    let kv = &*fixture.kv;
    a_to_e(kv);
    kv.flush().unwrap();
    let mut batch = WriteBatch::default();
    batch.delete_range(State, b"b", b"d");
    kv.write(&batch).unwrap();
    assert_eq!(keys(kv, State, "a".."z", Forward), "a d e");
    assert_eq!(get(kv, State, b"b"), None);
    kv.flush().unwrap();
    assert_eq!(keys(kv, State, "a".."z", Backward), "e d a");
}

fn a_scan_goes_through_a_range_in_order(fixture: &KvFixture) {
    let kv = &*fixture.kv;
    a_to_e(kv);
    for _ in 0..2 {
        assert_eq!(keys(kv, State, "a".."z", Forward), "a b c d e");
        assert_eq!(keys(kv, State, "a".."z", Backward), "e d c b a");
        assert_eq!(keys(kv, State, "b".."d", Forward), "b c");
        assert_eq!(keys(kv, State, "b".."d", Backward), "c b");
        assert_eq!(keys(kv, State, "aa".."cc", Forward), "b c");
        assert_eq!(keys(kv, State, "c".."c", Forward), "");
        assert_eq!(keys(kv, State, "d".."b", Backward), "");
        assert_eq!(keys(kv, State, "f".."z", Backward), "");
        kv.flush().unwrap();
    }
}

fn a_scan_ends_when_it_is_told_to(fixture: &KvFixture) {
    let kv = &*fixture.kv;
    a_to_e(kv);
    let mut seen = 0;
    let mut each = |_: &[u8], value: &[u8]| {
        assert_eq!(value, b"state");
        // A reader may look up other things on its way.
        assert!(kv.get(Entries, b"a").unwrap().is_some());
        seen += 1;
        seen < 2
    };
    kv.scan(State, b"a"..b"z", Forward, &mut each).unwrap();
    assert_eq!(seen, 2);
}

fn keys_compare_as_bytes(fixture: &KvFixture) {
    let kv = &*fixture.kv;
    let sorted: [&[u8]; 5] = [&[0], &[0, 0xff], &[1], &[0xff], &[0xff, 0xff]];
    for key in sorted.iter().rev() {
        put(kv, Entries, key, key);
    }
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let range: Range<&[u8]> = &[]..&[0xff; 4];
    kv.scan(Entries, range, Forward, &mut |key, _| {
        seen.push(key.to_vec());
        true
    })
    .unwrap();
    assert_eq!(seen, sorted);
}

fn empty_and_large_values_are_values(fixture: &KvFixture) {
    let kv = &*fixture.kv;
    let large: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7) as u8).collect();
    put(kv, State, b"empty", b"");
    put(kv, State, b"large", &large);
    for _ in 0..2 {
        assert_eq!(get(kv, State, b"empty").unwrap(), b"");
        assert!(get(kv, State, b"large").unwrap() == large);
        kv.flush().unwrap();
    }
}

fn a_crash_keeps_what_was_flushed(fixture: &KvFixture) {
    a_to_e(&*fixture.kv);
    let mut batch = WriteBatch::default();
    batch.delete(State, b"a");
    batch.delete_range(Offsets, b"a", b"d");
    fixture.kv.write(&batch).unwrap();
    fixture.kv.flush().unwrap();
    let kv = (fixture.crashed)();
    assert_eq!(keys(&*kv, Entries, "a".."z", Forward), "a b c d e");
    assert_eq!(keys(&*kv, Offsets, "a".."z", Forward), "d e");
    assert_eq!(keys(&*kv, State, "a".."z", Forward), "b c d e");
}

fn a_crash_keeps_a_prefix_of_the_writes_in_all_families(fixture: &KvFixture) {
    let padding = [0; 4000];
    for number in 0u32..500 {
        let mut batch = WriteBatch::default();
        let key = number.to_be_bytes();
        batch.put(Entries, &key, &padding);
        batch.put(Offsets, &key, b"");
        batch.put(State, b"last", &key);
        fixture.kv.write(&batch).unwrap();
        if number == 100 || number == 300 {
            fixture.kv.flush().unwrap();
        }
    }
    let kv = (fixture.crashed)();
    let last = get(&*kv, State, b"last").expect("what was flushed is there");
    let last = u32::from_be_bytes(last.try_into().unwrap());
    assert!((300..500).contains(&last), "{last}");
    for number in 0u32..500 {
        for family in [Entries, Offsets] {
            let is_there = get(&*kv, family, &number.to_be_bytes()).is_some();
            assert_eq!(is_there, number <= last, "write {number} of {last} in {}", family.name());
        }
    }
}

fn clearing_empties_every_family_durably(fixture: &KvFixture) {
    a_to_e(&*fixture.kv);
    fixture.kv.flush().unwrap();
    put(&*fixture.kv, State, &[0xff; 20], b"unflushed");
    fixture.kv.clear().unwrap();
    let crashed = (fixture.crashed)();
    for kv in [&*fixture.kv, &*crashed] {
        for family in ColumnFamily::ALL {
            assert_eq!(keys(kv, family, "".."\u{10ffff}", Forward), "");
        }
        assert_eq!(get(kv, State, &[0xff; 20]), None);
    }
    put(&*crashed, State, b"a", b"1");
    assert_eq!(get(&*crashed, State, b"a").unwrap(), b"1");
}

fn flushes_run_beside_writes(fixture: &KvFixture) {
    let kv = &*fixture.kv;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..5 {
                kv.flush().unwrap();
            }
        });
        for number in 0u32..2000 {
            put(kv, Entries, &number.to_be_bytes(), b"value");
            assert!(get(kv, Entries, &number.to_be_bytes()).is_some());
        }
    });
    kv.flush().unwrap();
    let kv = (fixture.crashed)();
    for number in 0u32..2000 {
        assert!(get(&*kv, Entries, &number.to_be_bytes()).is_some());
    }
}

fn memory_is_told(fixture: &KvFixture) {
    let before = fixture.kv.memory_bytes();
    put(&*fixture.kv, Entries, b"large", &[0; 300_000]);
    let bytes = fixture.kv.memory_bytes() - before;
    assert!((300_000..5_000_000).contains(&bytes), "{bytes}");
}
