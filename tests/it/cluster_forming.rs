//! Clusters form in whatever order their brokers start and however late their names resolve; and
//! they take back brokers that have lost their disk, come with an old one, or have moved.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use compat_tests::broker::{free_ports, is_kafka};
use compat_tests::{Broker, BrokerOptions};

use crate::cluster::{IDS, PARTITIONS, Trio, eventually, loops, voter_options};
use crate::harness::BINARY;

/// Every order of three.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
/// Milliseconds between the starts of two brokers.
const GAPS_MS: [u64; 5] = [0, 10, 50, 200, 800];

fn start_in_turn(trio: &mut Trio, options: &[BrokerOptions], turn: usize) {
    let ordered = ORDERS[turn % ORDERS.len()].map(|place| options[place].clone());
    trio.start_apart(ordered.to_vec(), Duration::from_millis(GAPS_MS[turn % GAPS_MS.len()]));
}

fn append_to_all(trio: &Trio, value: &str, offset: i64) {
    for partition in 0..PARTITIONS {
        assert_eq!(trio.append(partition, value), offset, "{value}");
    }
}

fn expect_in_all(trio: &Trio, values: &[&str]) {
    for partition in 0..PARTITIONS {
        assert_eq!(trio.values_of(partition), values);
    }
}

/// Broker 1 came back: without `other` nothing is acknowledged that it does not hold, and
/// everything is there that was acknowledged before.
fn rely_on_the_first(mut trio: Trio, other: i32, before: [&str; 2]) {
    trio.see_all_in_sync();
    trio.brokers.remove(&other).expect("there").kill();
    append_to_all(&trio, "with it", 2);
    expect_in_all(&trio, &[before[0], before[1], "with it"]);
}

#[test]
fn a_cluster_forms_in_any_order_and_again_after_all_of_it_was_killed() {
    if is_kafka() {
        return;
    }
    for turn in 0..loops() {
        let (mut trio, options) = Trio::prepare();
        start_in_turn(&mut trio, &options, turn);
        trio.create_topic();
        append_to_all(&trio, "before", 0);
        let killed = trio.kill_all();
        start_in_turn(&mut trio, &killed, turn * 7 + 5);
        append_to_all(&trio, "after", 1);
        expect_in_all(&trio, &["before", "after"]);
    }
}

#[test]
fn a_broker_with_an_emptied_disk_gets_everything_from_the_others() {
    if is_kafka() {
        return;
    }
    let mut trio = Trio::start();
    trio.create_topic();
    append_to_all(&trio, "before", 0);
    trio.see_all_in_sync();
    let emptied = trio.brokers.remove(&1).expect("there").kill();
    append_to_all(&trio, "without it", 1);
    fs::remove_dir_all(emptied.data_dir()).expect("its data can be removed");
    trio.brokers.insert(1, Broker::start(emptied));
    rely_on_the_first(trio, 2, ["before", "without it"]);
}

#[test]
fn a_broker_with_an_old_disk_catches_up() {
    if is_kafka() {
        return;
    }
    let mut trio = Trio::start();
    trio.create_topic();
    append_to_all(&trio, "old", 0);
    trio.see_all_in_sync();
    let options = trio.brokers.remove(&1).expect("there").kill();
    let copy = options.data_dir().with_extension("old");
    copy_all(&options.data_dir(), &copy);
    trio.brokers.insert(1, Broker::start(options));
    append_to_all(&trio, "new", 1);
    trio.see_all_in_sync();
    let options = trio.brokers.remove(&1).expect("there").kill();
    fs::remove_dir_all(options.data_dir()).expect("its data can be removed");
    fs::rename(&copy, options.data_dir()).expect("the copy can be put there");
    trio.brokers.insert(1, Broker::start(options));
    rely_on_the_first(trio, 3, ["old", "new"]);
}

fn copy_all(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs");
    assert!(status.success());
}

/// Brokers that see a hosts file of the test's own, and the file.
struct Names {
    hosts: PathBuf,
    binary: PathBuf,
    ports: [u16; 3],
}

impl Names {
    fn new(dir: &Path) -> Names {
        let (hosts, binary) = (dir.join("hosts"), dir.join("highwater-with-names"));
        fs::write(&hosts, "").expect("written");
        // A mount namespace of the broker's own, in which the file lies over the system's.
        let script = format!(
            "#!/bin/sh\nexec unshare --map-root-user --mount sh -c \
             'mount --bind {} /etc/hosts && exec {BINARY} \"$@\"' sh \"$@\"\n",
            hosts.display()
        );
        fs::write(&binary, script).expect("written");
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).expect("executable");
        Names { hosts, binary, ports: free_ports().expect("free ports") }
    }

    /// Every broker's name, at an address of its own.
    fn resolve(&self, addresses: [&str; 3]) {
        let rows =
            IDS.iter().zip(addresses).map(|(id, address)| format!("{address} broker-{id}\n"));
        fs::write(&self.hosts, rows.collect::<String>()).expect("written");
    }

    fn options(&self, dir: &Path, id: i32, address: &str) -> BrokerOptions {
        let port = |id: i32| self.ports[id as usize - 1];
        let voters = IDS.map(|id| format!("{id}@broker-{id}:{}", port(id)));
        voter_options(&self.binary, dir, id, &voters.join(","))
            .with("highwater.peer.listener", &format!("{address}:{}", port(id)))
    }
}

#[test]
fn names_may_resolve_late_and_to_new_addresses() {
    if is_kafka() {
        return;
    }
    let (mut trio, _) = Trio::prepare();
    let dir = trio.dir().to_owned();
    let names = Names::new(&dir);
    let addresses = ["127.0.0.11", "127.0.0.12", "127.0.0.13"];
    let options: Vec<_> =
        IDS.iter().zip(addresses).map(|(id, at)| names.options(&dir, *id, at)).collect();
    let http_ports: Vec<u16> = options.iter().map(BrokerOptions::http_port).collect();
    thread::scope(|scope| {
        scope.spawn(|| trio.start_again(options));
        eventually("broker that waits for the others", || {
            let is_up = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
            http_ports.iter().all(is_up).then_some(())
        });
        names.resolve(addresses);
    });
    trio.create_topic();
    append_to_all(&trio, "before", 0);
    trio.see_all_in_sync();

    trio.brokers.remove(&1).expect("there").kill();
    append_to_all(&trio, "without it", 1);
    names.resolve(["127.0.0.21", addresses[1], addresses[2]]);
    trio.start_again(vec![names.options(&dir, 1, "127.0.0.21")]);
    rely_on_the_first(trio, 2, ["before", "without it"]);
}
