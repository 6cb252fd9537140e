//! Start-up, memory, and what an idle broker uses.

use std::thread;
use std::time::{Duration, Instant};

use compat_tests::Broker;
use compat_tests::batches::batch;
use compat_tests::requests::{METADATA_VERSION, metadata};

use crate::Settings;
use crate::load::{Shape, produce_for};
use crate::table::Table;

/// Starts that the fastest is taken of.
const STARTS: usize = 5;

/// Produces to a topic that comes into being by it, as a client's first produce does.
fn first_append(broker: &Broker) {
    let mut connection = broker.connect();
    while connection.call(METADATA_VERSION, &metadata(&["first"], true)).topics[0].error_code != 0 {
    }
    while connection.produce("first", 0, batch(&["x"])).error_code != 0 {}
}

pub fn run_startup(settings: &Settings) {
    let mut table = Table::new(&["from exec to the first acknowledged append", "median"]);
    let mut fresh = Vec::new();
    let mut again = Vec::new();
    for _ in 0..STARTS {
        let started = Instant::now();
        let subject = settings.start(true);
        first_append(&subject.broker);
        fresh.push(started.elapsed());
        let options = subject.broker.kill();
        let started = Instant::now();
        let broker = Broker::start(options);
        first_append(&broker);
        again.push(started.elapsed());
    }
    for (what, times) in [("empty directory", &mut fresh), ("after kill -9", &mut again)] {
        times.sort_unstable();
        let median = times[times.len() / 2];
        table.row(vec![what.to_owned(), format!("{:.0} ms", median.as_secs_f64() * 1e3)]);
    }
    table.print("Start-up");
}

pub fn run_memory(settings: &Settings) {
    let mut table = Table::new(&["state", "RSS", "per partition", "idle CPU"]);
    let counts = [0].into_iter().chain(settings.partition_counts.iter().copied());
    for partitions in counts.filter(|count| *count == 0 || *count >= 100) {
        let subject = settings.start(true);
        let empty = subject.broker.rss_bytes();
        if partitions > 0 {
            subject.broker.connect().create_topic("idle", partitions);
        }
        row(&mut table, settings, &subject.broker, &format!("{partitions} partitions"), {
            (partitions > 0).then_some((empty, partitions))
        });
        let broker = subject.broker.restart_after_kill();
        row(&mut table, settings, &broker, &format!("{partitions} partitions, restarted"), None);
    }
    let subject = settings.start(true);
    let shape = Shape {
        topic: "load".to_owned(),
        partitions: 12,
        batches_per_request: 1,
        batch_bytes: 1_000_000,
        record_bytes: 1_000,
    };
    subject.broker.connect().create_topic(&shape.topic, shape.partitions);
    produce_for(&subject.broker, &shape, settings.each);
    row(&mut table, settings, &subject.broker, "after load, 1 MB batches", None);
    let peak = subject.broker.peak_rss_bytes() as f64 / f64::from(1 << 20);
    table.row(vec!["its peak".to_owned(), format!("{peak:.1} MiB"), String::new(), String::new()]);
    table.print("Memory and idleness");
}

fn row(
    table: &mut Table,
    settings: &Settings,
    broker: &Broker,
    what: &str,
    since: Option<(u64, i32)>,
) {
    let cpu = idle_cpu(broker, settings.idle);
    let rss = broker.rss_bytes();
    let each = since.map_or(String::new(), |(empty, partitions)| {
        let bytes = rss.saturating_sub(empty) as f64 / f64::from(partitions);
        format!("{:.1} KiB", bytes / 1024.0)
    });
    let rss = rss as f64 / f64::from(1 << 20);
    table.row(vec![what.to_owned(), format!("{rss:.1} MiB"), each, format!("{cpu:.2} %")]);
}

/// Share of one core, over `time`, in percent.
fn idle_cpu(broker: &Broker, time: Duration) -> f64 {
    let before = broker.cpu_time();
    thread::sleep(time);
    100.0 * broker.cpu_time().saturating_sub(before).as_secs_f64() / time.as_secs_f64()
}
