//! The same load over few and over many partitions.

use std::time::Instant;

use crate::Settings;
use crate::load::{Shape, produce_for};
use crate::table::Table;

/// Partitions that one request touches at most, a batch of 16 KB for each.
const BATCHES_PER_REQUEST: i32 = 64;

pub fn run(settings: &Settings) {
    let mut table =
        Table::new(&["partitions", "created in", "MB/s", "CPU-s/GB", "RSS before", "RSS after"]);
    for partitions in &settings.partition_counts {
        let subject = settings.start(true);
        let started = Instant::now();
        let topic = "bench".to_owned();
        subject.broker.connect().create_topic(&topic, *partitions);
        let created = started.elapsed();
        let before = subject.broker.rss_bytes();
        let shape = Shape {
            topic,
            partitions: *partitions,
            batches_per_request: BATCHES_PER_REQUEST,
            batch_bytes: 16_384,
            record_bytes: 1_000,
        };
        let produced = produce_for(&subject.broker, &shape, settings.each);
        table.row(vec![
            partitions.to_string(),
            format!("{:.2} s", created.as_secs_f64()),
            format!("{:.1}", produced.cost.megabytes_per_second()),
            format!("{:.2}", produced.cost.cpu_seconds_per_gigabyte()),
            format!("{} MiB", before >> 20),
            format!("{} MiB", subject.broker.rss_bytes() >> 20),
        ]);
    }
    table.print("Partitions (16 KB batches, up to 64 in a request, sync on)");
}
