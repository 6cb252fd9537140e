//! A full disk: produce is refused, everything else goes on, the broker starts on it, and produce
//! works again when there is space.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use compat_tests::batches::batch;
use compat_tests::broker::is_kafka;
use compat_tests::{Broker, BrokerOptions, Connection};
use protocol::ErrorCode;

use crate::harness::{BINARY, error, temp_dir};

/// A small file system in memory, unmounted when dropped.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    /// `None` where this user may not mount.
    fn mount(path: &Path, mebibytes: u32) -> Option<SmallDisk> {
        fs::create_dir_all(path).expect("a directory can be made");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "highwater-test"])
            .arg(path)
            .output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk { path: path.into() })
    }

    /// Takes all the space that is left, byte by byte at the end.
    fn fill(&self) -> PathBuf {
        let path = self.path.join("filler");
        let mut file = File::create(&path).expect("a file can be made");
        for size in [1 << 20, 1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

fn produce_once(connection: &mut Connection) -> ErrorCode {
    error(connection.produce("t", 0, batch(&["x".repeat(100_000)])).error_code)
}

/// What was acknowledged is there, and no more.
fn assert_readable(connection: &mut Connection, acknowledged: usize) {
    let all = connection.read_all("t", 0, 0).expect("fetch works");
    assert_eq!(all.len(), acknowledged);
    assert_eq!(all[0].1, "kept");
}

#[test]
fn a_full_disk_refuses_produce_and_nothing_else() {
    if is_kafka() {
        return;
    }
    let dir = temp_dir();
    let Some(disk) = SmallDisk::mount(&dir.path().join("data"), 96) else {
        println!("skipped: this user may not mount a tmpfs");
        return;
    };
    // Storage errors are what this test is about.
    let options = BrokerOptions::new(BINARY, dir.path()).allow_error(" ERROR ");
    let broker = Broker::start(options);
    let mut connection = broker.connect();
    connection.create_topic("t", 1);
    connection.append("t", 0, batch(&["kept"]));
    let filler = disk.fill();
    let mut acknowledged = 1;
    let refused = loop {
        match produce_once(&mut connection) {
            ErrorCode::None => acknowledged += 1,
            refused => break refused,
        }
        assert!(acknowledged < 2_000, "the disk is full, and yet it takes everything");
    };
    assert_eq!(refused, ErrorCode::KafkaStorageError);
    assert_readable(&mut connection, acknowledged);
    assert_eq!(produce_once(&mut connection), ErrorCode::KafkaStorageError, "still");

    let broker = broker.restart_after_kill();
    let mut connection = broker.connect();
    assert_readable(&mut connection, acknowledged);

    fs::remove_file(filler).expect("the filler can be removed");
    // The broker looks at the disk again at intervals: clients retry.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while produce_once(&mut connection) != ErrorCode::None {
        assert!(std::time::Instant::now() < deadline, "produce does not resume");
    }
    assert_readable(&mut connection, acknowledged + 1);
    drop(broker);
}
