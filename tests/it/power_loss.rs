//! The power of all three brokers fails at once: whatever was not synced is gone, and everything
//! that was acknowledged is there. `LOOPS` says how often, a few times without it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use compat_tests::batches::batch;
use compat_tests::broker::is_kafka;
use compat_tests::requests::{PRODUCE_VERSION, only_produced, produce};
use compat_tests::{BrokerOptions, Connection};
use tempfile::TempDir;

use crate::cluster::{PARTITIONS, TOPIC, Trio, loops};
use crate::harness::temp_dir;

/// Milliseconds between the first record of a life and its end.
const LIVES_MS: [u64; 4] = [60, 250, 15, 500];

/// The library that keeps what was synced.
struct Synced {
    dir: TempDir,
}

impl Synced {
    fn build() -> Synced {
        let dir = temp_dir();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/power_loss/synced.c");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-pthread", "-o"]);
        let status = compile.arg(dir.path().join("synced.so")).arg(source).status();
        assert!(status.expect("there is a C compiler").success());
        Synced { dir }
    }

    fn kept(&self, options: &BrokerOptions) -> PathBuf {
        self.dir.path().join(options.port().to_string())
    }

    /// Has a broker's disk watched.
    fn watch(&self, options: BrokerOptions) -> BrokerOptions {
        let (data, kept) = (options.data_dir(), self.kept(&options));
        for dir in [&data, &kept.join("files"), &kept.join("dirs")] {
            fs::create_dir_all(dir).expect("a directory can be made");
        }
        options
            .with_environment("LD_PRELOAD", &self.dir.path().join("synced.so").to_string_lossy())
            .with_environment("SYNCED_FROM", &data.to_string_lossy())
            .with_environment("SYNCED_TO", &kept.to_string_lossy())
    }

    /// Puts the disk into the state that it has after the power failed.
    fn fail_power(&self, options: &BrokerOptions) {
        let (data, kept) = (options.data_dir(), self.kept(options));
        let root = fs::read_to_string(kept.join("root")).expect("the broker was watched");
        fs::remove_dir_all(&data).expect("its data can be removed");
        restore(&kept, &root, &data);
        for dir in ["files", "dirs"] {
            fs::remove_dir_all(kept.join(dir)).expect("what was kept can be removed");
            fs::create_dir(kept.join(dir)).expect("a directory can be made");
        }
    }
}

/// Makes a directory as its listing says.
fn restore(kept: &Path, key: &str, to: &Path) {
    fs::create_dir(to).expect("a directory can be made");
    // A directory that was never synced has lost all its names.
    let listing = fs::read_to_string(kept.join("dirs").join(key)).unwrap_or_default();
    for line in listing.lines() {
        let (kind, rest) = line.split_once(' ').expect("a kind");
        let (key, name) = rest.split_once(' ').expect("a key and a name");
        let (path, contents) = (to.join(name), kept.join("files").join(key));
        match kind {
            "d" => restore(kept, key, &path),
            _ if contents.exists() => {
                fs::copy(contents, path).expect("a file can be copied");
            }
            // Its name was synced, nothing of its contents.
            _ => fs::write(path, "").expect("a file can be made"),
        }
    }
}

/// Appends to a partition until its leader is gone. Returns what was acknowledged, by offset.
fn append_until_the_end(trio: &Trio, partition: i32, life: usize) -> BTreeMap<i64, String> {
    let mut acknowledged = BTreeMap::new();
    let Some(mut connection) = trio.leader_connection(partition) else { return acknowledged };
    for number in 0.. {
        let value = format!("{partition}/{life}/{number}");
        let Some(offset) = append(&mut connection, partition, &value) else { break };
        acknowledged.insert(offset, value);
    }
    acknowledged
}

fn append(connection: &mut Connection, partition: i32, value: &str) -> Option<i64> {
    let request = produce(TOPIC, partition, batch(&[value]), -1);
    let answer = connection.try_call(PRODUCE_VERSION, &request).ok()?;
    let row = only_produced(&answer);
    (row.error_code == 0).then_some(row.base_offset)
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_of_all_brokers_fails() {
    if is_kafka() {
        return;
    }
    let synced = Synced::build();
    let (mut trio, options) = Trio::prepare();
    let options: Vec<_> = options
        .into_iter()
        .map(|options| synced.watch(options.with("highwater.durability", "fsync")))
        .collect();
    trio.start_again(options);
    trio.create_topic();
    let mut acknowledged = vec![BTreeMap::new(); PARTITIONS as usize];
    for life in 0..loops() {
        for partition in 0..PARTITIONS {
            // All of them have a leader again.
            let value = format!("{partition}/{life}/first");
            let offset = trio.append(partition, &value);
            acknowledged[partition as usize].insert(offset, value);
        }
        thread::scope(|scope| {
            let trio = &trio;
            let producers: Vec<_> = (0..PARTITIONS)
                .map(|partition| scope.spawn(move || append_until_the_end(trio, partition, life)))
                .collect();
            thread::sleep(Duration::from_millis(LIVES_MS[life % LIVES_MS.len()]));
            trio.signal_all(libc::SIGKILL);
            for (producer, all) in producers.into_iter().zip(&mut acknowledged) {
                all.append(&mut producer.join().expect("a producer ends"));
            }
        });
        let killed = trio.kill_all();
        killed.iter().for_each(|options| synced.fail_power(options));
        trio.start_again(killed);
        for (partition, all) in (0..).zip(&acknowledged) {
            let values = trio.values_of(partition);
            for (offset, value) in all {
                assert_eq!(values.get(*offset as usize), Some(value), "life {life}, {offset}");
            }
        }
    }
}
