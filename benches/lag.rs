//! What watching consumer lag costs: 10 groups on 1,000 partitions, 10,000 pairs that each commit
//! once a second, and Prometheus asking every 15 seconds.
//!
//! `cargo bench --bench lag`: a broker in this process, commits as the coordinator reports them, and
//! the processor time of the thread that does it. The goal is under 2 % of a core.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::metadata::MetadataCommand;
use highwater::broker::Broker;
use highwater::config::BrokerConfig;
use highwater::context::Services;
use highwater::handlers::common::isolation::IsolationLevel;
use highwater::lag::partition::Commit;
use highwater::lag::table::Place;
use highwater::telemetry::lag::LagExposition;
use highwater::{clock, ids};
use protocol::compression::Codec;
use protocol::record_batch::{BatchBuilder, RecordBatch};
use protocol::types::{LeaderEpoch, Offset, PartitionId, Timestamp, TopicId};

const TOPICS: usize = 10;
const PARTITIONS: usize = 100;
const GROUPS: usize = 10;
const RECORDS: i64 = 1_000;
const ROUNDS: i64 = 12;
const SCRAPE_SECONDS: f64 = 15.0;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("threads can be started");
    let dir = tempfile::tempdir().expect("a directory");
    let broker = runtime.block_on(start(dir.path()));
    let services = Arc::clone(broker.services());
    runtime.block_on(produce(&services));
    measure(&services);
    runtime.block_on(broker.shutdown()).expect("the broker stops");
}

async fn start(dir: &std::path::Path) -> Broker {
    let overrides = [
        format!("log.dirs={}", dir.display()),
        "listeners=PLAINTEXT://127.0.0.1:0".to_owned(),
        "highwater.http.listener=".to_owned(),
    ];
    let (config, _) = BrokerConfig::from_sources("", &[], &overrides).expect("a configuration");
    Broker::start(config).await.expect("the broker starts")
}

fn topic_name(topic: usize) -> String {
    format!("topic-{topic}")
}

async fn produce(services: &Services) {
    let batch = batch();
    for topic in 0..TOPICS {
        let (name, id) = (topic_name(topic), TopicId(ids::new_uuid()));
        let assignment = services.cluster.plan_assignment(PARTITIONS, 1).expect("placed");
        let configs = BTreeMap::from([("retention.bytes".to_owned(), "1000000000".to_owned())]);
        let command = MetadataCommand::CreateTopic { name, id, assignment, configs };
        services.cluster.submit(command).await.expect("created");
        for partition in 0..PARTITIONS {
            let partition = PartitionId(partition as i32);
            let replica = services.cluster.replica(id, partition).expect("it is here");
            replica.append(batch.clone()).committed().await.expect("committed");
        }
    }
}

fn batch() -> RecordBatch {
    let now = clock::now().0;
    let add = |records: BatchBuilder, at: i64| {
        records.record(Timestamp(now - RECORDS + at), None, Some(b"a value of some bytes"))
    };
    let records = (0..RECORDS).fold(BatchBuilder::new().codec(Codec::Lz4), add);
    records.build().expect("a batch")
}

fn commit_all(services: &Services, offset: i64) {
    let at = clock::now();
    let commit = Commit { offset: Offset(offset), leader_epoch: LeaderEpoch(0), at };
    for group in 0..GROUPS {
        let group = format!("group-{group}");
        for topic in 0..TOPICS {
            let topic = topic_name(topic);
            for partition in 0..PARTITIONS {
                let partition = PartitionId(partition as i32);
                let place = Place { group: &group, topic: &topic, partition };
                services.lag.on_commit(PartitionId(0), place, commit);
            }
        }
    }
}

/// As `/metrics` does it; returns the bytes of the answer.
fn scrape(services: &Services) -> usize {
    let mut exposition = LagExposition::new(usize::MAX);
    for group in services.lag.groups() {
        exposition.group(&group, &services.lag.rows(&group, IsolationLevel::ReadUncommitted));
    }
    exposition.finish(services.lag.watched()).len()
}

fn measure(services: &Services) {
    let pairs = (GROUPS * TOPICS * PARTITIONS) as f64;
    commit_all(services, 0);
    let resident = resident_bytes();
    let commits = processor_time(|| (1..=ROUNDS).for_each(|round| commit_all(services, round)));
    let per_round = commits.as_secs_f64() / ROUNDS as f64;
    // Each pair has committed since it was asked about last: the dearest case.
    let first = processor_time(|| assert!(scrape(services) > 1_000_000));
    let second = processor_time(|| assert!(scrape(services) > 1_000_000));
    let share = per_round + first.as_secs_f64() / SCRAPE_SECONDS;
    println!("group-partitions            {pairs:>10}");
    println!("a commit                    {:>10.2} µs", per_round / pairs * 1e6);
    println!("a scrape after commits      {:>10.1} ms", first.as_secs_f64() * 1e3);
    println!("a scrape without            {:>10.1} ms", second.as_secs_f64() * 1e3);
    println!("1 commit/s each             {:>10.2} % of a core", per_round * 100.0);
    println!("and a scrape every 15 s     {:>10.2} % of a core", share * 100.0);
    let grown = resident_bytes().saturating_sub(resident);
    println!("memory since the first      {:>10.1} MiB", grown as f64 / 1_048_576.0);
}

/// What this thread uses of a processor.
fn processor_time(work: impl FnOnce()) -> Duration {
    let before = thread_time();
    work();
    thread_time() - before
}

fn thread_time() -> Duration {
    // SAFETY: `rusage` is plain numbers, for which zeroes are valid, and the call only fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| {
        Duration::new(time.tv_sec as u64, 0) + Duration::from_micros(time.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}
