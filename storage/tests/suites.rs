//! The conformance suites, on the real pair of implementations and on the simulated one.

use std::sync::Arc;

use storage::disk::{Disk, FileDisk, SimDisk};
use storage::kv::{KvStore, MemoryKv};
use storage::log_store::LogStore;
use storage::testing::disk_suite::{self, DiskFixture};
use storage::testing::kv_suite::{self, KvFixture};
use storage::testing::log_suite::{self, LogFixture};

#[test]
fn the_file_system_keeps_the_claims_of_a_disk() {
    disk_suite::run(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let open = move || Arc::new(FileDisk::open(&path).unwrap()) as Arc<dyn Disk>;
        DiskFixture { open: Box::new(open), keep: Box::new(directory) }
    });
}

#[test]
fn the_simulated_disk_keeps_the_claims_of_a_disk() {
    disk_suite::run(|| {
        let disk = SimDisk::new(1);
        let open = move || Arc::new(disk.clone()) as Arc<dyn Disk>;
        DiskFixture { open: Box::new(open), keep: Box::new(()) }
    });
}

#[test]
fn the_store_in_memory_keeps_the_claims_of_a_store() {
    for kept_writes in [0, 50, usize::MAX] {
        kv_suite::run(|| {
            let kv = Arc::new(MemoryKv::new());
            let crashing = kv.clone();
            let crashed = move || {
                crashing.crash_keeping(kept_writes);
                crashing.clone() as Arc<dyn KvStore>
            };
            KvFixture { kv, crashed: Box::new(crashed), keep: Box::new(()) }
        });
    }
}

#[test]
fn the_simulated_pair_keeps_the_claims_of_a_log() {
    log_suite::run(|| {
        let (disk, kv) = (SimDisk::new(1), Arc::new(MemoryKv::new()));
        let losing = kv.clone();
        let open = move |options| {
            LogStore::open(options, Arc::new(disk.clone()), Arc::clone(&kv) as Arc<dyn KvStore>)
        };
        let lose_index = Box::new(move || losing.lose());
        LogFixture { open: Box::new(open), lose_index, keep: Box::new(()) }
    });
}

/// With RocksDB under the index if it is built in, else with the index in memory.
#[test]
fn a_directory_keeps_the_claims_of_a_log() {
    log_suite::run(|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let index = path.join("index");
        let lose_index = move || match std::fs::remove_dir_all(&index) {
            Err(error) if cfg!(feature = "rocksdb") => panic!("{error}"),
            _ => {}
        };
        LogFixture {
            open: Box::new(move |options| LogStore::open_dir(&path, options)),
            lose_index: Box::new(lose_index),
            keep: Box::new(directory),
        }
    });
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_keeps_the_claims_of_a_store() {
    use storage::kv::RocksKv;

    kv_suite::run(|| {
        let directory = tempfile::tempdir().unwrap();
        let (live, copy) = (directory.path().join("live"), directory.path().join("copy"));
        let kv = Arc::new(RocksKv::open(&live).unwrap());
        // What lies in the directory of a running store is what a crash leaves.
        let crashed = move || {
            std::fs::create_dir(&copy).unwrap();
            for entry in std::fs::read_dir(&live).unwrap() {
                let entry = entry.unwrap();
                std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
            }
            Arc::new(RocksKv::open(&copy).unwrap()) as Arc<dyn KvStore>
        };
        KvFixture { kv, crashed: Box::new(crashed), keep: Box::new(directory) }
    });
}

#[cfg(feature = "rocksdb")]
#[test]
fn a_damaged_rocksdb_is_told_and_can_be_made_anew() {
    use storage::kv::{ColumnFamily, RocksKv, WriteBatch};

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("index");
    let kv = RocksKv::open(&path).unwrap();
    let mut batch = WriteBatch::default();
    batch.put(ColumnFamily::State, b"key", b"value");
    kv.write(&batch).unwrap();
    kv.flush().unwrap();
    assert!(RocksKv::open(&path).is_err(), "it is open already");
    drop(kv);
    std::fs::write(path.join("CURRENT"), b"nonsense\n").unwrap();
    let error = RocksKv::open(&path).unwrap_err();
    assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    RocksKv::destroy(&path).unwrap();
    RocksKv::destroy(&path).unwrap();
    let kv = RocksKv::open(&path).unwrap();
    assert_eq!(kv.get(ColumnFamily::State, b"key").unwrap(), None);
}
