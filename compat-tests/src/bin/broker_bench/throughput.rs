//! Produce and consume at several batch sizes, synced and not.

use crate::Settings;
use crate::consume::consume_all;
use crate::load::{Shape, produce_for};
use crate::table::Table;

const PARTITIONS: i32 = 12;

/// Name, batch size, record size.
const SHAPES: [(&str, usize, usize); 5] = [
    ("100 B batches", 171, 100),
    ("1 KB batches", 1_100, 1_000),
    ("16 KB batches, 1 KB records", 16_384, 1_000),
    ("1 MB batches, 1 KB records", 1_000_000, 1_000),
    ("1 MB batches, 100 B records", 1_000_000, 100),
];

pub fn run(settings: &Settings) {
    let mut table = Table::new(&[
        "12 partitions, acks=all",
        "sync",
        "produce MB/s",
        "requests/s",
        "CPU-s/GB",
        "written per byte",
        "consume MB/s",
        "CPU-s/GB",
    ]);
    for synced in [true, false] {
        for (name, batch_bytes, record_bytes) in SHAPES {
            let subject = settings.start(synced);
            let shape = Shape {
                topic: "bench".to_owned(),
                partitions: PARTITIONS,
                batches_per_request: 1,
                batch_bytes,
                record_bytes,
            };
            subject.broker.connect().create_topic(&shape.topic, PARTITIONS);
            let warm = settings.each / 5;
            produce_for(&subject.broker, &shape, warm);
            let produced = produce_for(&subject.broker, &shape, settings.each);
            let consumed = consume_all(&subject.broker, &shape.topic, PARTITIONS);
            table.row(vec![
                name.to_owned(),
                if synced { "on" } else { "off" }.to_owned(),
                format!("{:.1}", produced.cost.megabytes_per_second()),
                format!("{:.0}", produced.requests as f64 / produced.cost.elapsed.as_secs_f64()),
                format!("{:.2}", produced.cost.cpu_seconds_per_gigabyte()),
                format!("{:.2}", produced.written_per_byte()),
                format!("{:.0}", consumed.cost.megabytes_per_second()),
                format!("{:.2}", consumed.cost.cpu_seconds_per_gigabyte()),
            ]);
        }
    }
    table.print("Throughput");
}
