//! The process: what it starts with, what it refuses to start with, and how it stops.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use compat_tests::batches::batch;
use compat_tests::broker::is_kafka;
use compat_tests::requests::{METADATA_VERSION, metadata};
use compat_tests::{Broker, BrokerOptions};

use crate::harness::{BINARY, Scene, temp_dir};

/// Runs a broker that must not start; returns how it ended.
fn refused(options: &BrokerOptions) -> (bool, String) {
    let mut command = options.command().expect("the log can be written");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    let text = [stdout, stderr].concat();
    (status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_second_broker_on_the_same_directory_is_refused_with_a_sentence() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start();
    let (succeeded, said) = refused(&BrokerOptions::new(BINARY, scene.dir.path()));
    assert!(!succeeded, "{said}");
    let data = scene.broker.options().data_dir();
    assert!(said.contains(&*data.to_string_lossy()), "names the directory: {said}");
    assert!(!said.contains("panicked"), "{said}");
    scene.broker.connect().create_topic("the-first-one-lives", 1);
}

#[test]
fn a_wrong_value_stops_the_start_and_says_what_is_allowed() {
    if is_kafka() {
        return;
    }
    let dir = temp_dir();
    for (key, value) in [
        ("num.partitions", "many"),
        ("num.partitions", "0"),
        ("auto.create.topics.enable", "perhaps"),
        ("listeners", "PLAINTEXT://127.0.0.1:99999"),
        ("highwater.durability", "sometimes"),
    ] {
        let (succeeded, said) = refused(&BrokerOptions::new(BINARY, dir.path()).with(key, value));
        assert!(!succeeded, "{key}={value}: {said}");
        assert!(said.contains(key) && said.contains(value), "names key and value: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// The soft and the hard limit of a process's open files.
fn open_file_limits(pid: u32) -> Vec<String> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    line.expect("there is such a limit").split_whitespace().skip(3).map(str::to_owned).collect()
}

#[test]
fn as_many_files_may_be_open_as_the_hard_limit_allows() {
    if is_kafka() {
        return;
    }
    let dir = temp_dir();
    let few_files = dir.path().join("few-files");
    let script = format!("#!/bin/sh\nulimit -Sn 60 && ulimit -Hn 700 && exec {BINARY} \"$@\"\n");
    fs::write(&few_files, script).expect("written");
    fs::set_permissions(&few_files, Permissions::from_mode(0o755)).expect("made executable");
    let broker = Broker::start(BrokerOptions::new(few_files, dir.path()));
    assert_eq!(open_file_limits(broker.pid())[..2], ["700", "700"]);
    let many: Vec<_> = (0..200).map(|_| broker.connect()).collect();
    for mut connection in many {
        assert_eq!(connection.call(METADATA_VERSION, &metadata(&[], false)).brokers.len(), 1);
    }
}

#[test]
fn an_unknown_key_is_named_in_a_warning() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start_with(|options| {
        options
            .with("no.such.key", "1")
            .with_environment("KAFKA_NEITHER_SUCH_A_KEY", "1")
            .with_environment("KAFKA_NUM_PARTITIONS", "3")
    });
    let log = scene.broker.log();
    for key in ["no.such.key", "neither.such.a.key"] {
        assert!(log.lines().any(|l| l.contains("WARN") && l.contains(key)), "{key}: {log}");
    }
    let mut connection = scene.broker.connect();
    connection.call(METADATA_VERSION, &metadata(&["made-by-default"], true));
    while connection.describe_topic("made-by-default").error_code != 0 {}
    assert_eq!(connection.describe_topic("made-by-default").partitions.len(), 3);
}

#[test]
fn sigterm_drains_and_exits_with_zero_and_everything_is_there_after() {
    if is_kafka() {
        return;
    }
    let Scene { broker, dir } = Scene::start();
    let mut connection = broker.connect();
    connection.create_topic("t", 1);
    connection.append("t", 0, batch(&["a", "b"]));
    let cluster_id = connection.call(METADATA_VERSION, &metadata(&[], false)).cluster_id;
    let options = broker.options().clone();
    let status = broker.terminate();
    assert!(status.success(), "{status}");
    let broker = Broker::start(options);
    let mut connection = broker.connect();
    assert_eq!(connection.read_all("t", 0, 0).expect("read").len(), 2);
    assert_eq!(connection.append("t", 0, batch(&["c"])), 2);
    let response = connection.call(METADATA_VERSION, &metadata(&[], false));
    assert_eq!(response.cluster_id, cluster_id, "the cluster keeps its id");
    drop(broker);
    drop(dir);
}

#[test]
fn a_broker_without_syncs_keeps_everything_when_only_the_process_dies() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start_with(|options| options.with("highwater.durability", "os"));
    let mut connection = scene.broker.connect();
    connection.create_topic("t", 1);
    for n in 0..100 {
        assert_eq!(connection.append("t", 0, batch(&["x"])), n);
    }
    let scene = scene.restart_after_kill();
    let mut connection = scene.broker.connect();
    assert_eq!(connection.read_all("t", 0, 0).expect("read").len(), 100);
}

#[test]
fn a_lost_index_is_rebuilt_from_the_journal() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    connection.create_topic("t", 3);
    for n in 0..30 {
        connection.append("t", n % 3, batch(&[format!("{n}"), format!("again {n}")]));
    }
    let (id, _) = connection.init_producer_id();
    let topic_id = connection.describe_topic("t").topic_id;
    let options = scene.broker.kill();
    std::fs::remove_dir_all(index_dir(&options)).expect("there is an index directory");
    let broker = Broker::start(options);
    let mut connection = broker.connect();
    assert_eq!(connection.describe_topic("t").topic_id, topic_id);
    for partition in 0..3 {
        let all = connection.read_all("t", partition, 0).expect("read");
        assert!(all.iter().map(|(offset, _)| *offset).eq(0..20), "partition {partition}");
    }
    assert_ne!(connection.init_producer_id().0, id);
}

fn index_dir(options: &BrokerOptions) -> std::path::PathBuf {
    options.data_dir().join("index")
}

#[test]
fn http_tells_health_and_metrics() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start();
    scene.broker.connect().create_topic("t", 2);
    for path in ["/health/live", "/health/ready"] {
        let (status, body) = scene.broker.http_get(path).expect("an answer");
        assert!(status.contains("200"), "{path}: {status} {body}");
    }
    assert_eq!(scene.broker.metric("highwater_topics"), Some(1.0));
    assert!(scene.broker.metric("highwater_requests_total").unwrap_or(0.0) > 0.0);
    let (status, _) = scene.broker.http_get("/no/such/path").expect("an answer");
    assert!(status.contains("404"), "{status}");
}

#[test]
fn version_and_config_print_and_exit() {
    if is_kafka() {
        return;
    }
    for (command, expected) in [("version", "highwater"), ("config", "log.retention.hours")] {
        let output = std::process::Command::new(BINARY).arg(command).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && said.contains(expected), "{command}: {said}");
    }
}
