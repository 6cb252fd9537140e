//! What is measured: one shape that the others differ from in one thing each, so that the table
//! tells what a thing costs.

use protocol::compression::Codec;

use crate::Settings;
use crate::load::Shape;
use crate::race::Durability;
use crate::tools::{LibrdkafkaShape, PerfTest};

/// Everything for one turn.
#[derive(Debug, Default)]
pub struct Plan {
    /// With the raw client.
    pub loads: Vec<(String, Shape)>,
    /// With librdkafka.
    pub librdkafka: Vec<(String, LibrdkafkaShape)>,
    /// With Kafka's own tool.
    pub perf_test: Vec<(String, PerfTest)>,
    /// A backlog is consumed, warm and cold.
    pub consume: Option<String>,
    /// Records per second at which latency is measured.
    pub latency_rates: Vec<u32>,
    /// Start-up and memory.
    pub footprint: bool,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.loads.is_empty()
            && self.librdkafka.is_empty()
            && self.perf_test.is_empty()
            && self.consume.is_none()
            && self.latency_rates.is_empty()
            && !self.footprint
    }
}

/// 1 KB records in batches of 16 KB from 50 producers to 12 partitions, acks=all.
pub const USUAL: Shape = Shape {
    producers: 50,
    partitions: 12,
    batch_bytes: 16_384,
    record_bytes: 1_000,
    acks: -1,
    codec: Codec::None,
};
/// Bytes of a large batch.
pub const MEGABYTE: usize = 1_000_000;

fn loads(durability: Durability) -> Vec<(&'static str, Shape)> {
    let synced = vec![
        ("16 KB batches", USUAL),
        ("16 KB batches, 1 producer", Shape { producers: 1, ..USUAL }),
        ("16 KB batches, 1 partition", Shape { partitions: 1, ..USUAL }),
        ("16 KB batches, 200 partitions", Shape { partitions: 200, ..USUAL }),
        ("1 MB batches", Shape { batch_bytes: MEGABYTE, ..USUAL }),
        ("1 MB batches, 1 producer", Shape { batch_bytes: MEGABYTE, producers: 1, ..USUAL }),
    ];
    if durability == Durability::Fsync {
        return synced;
    }
    let small = Shape { record_bytes: 100, ..USUAL };
    let mut all = synced;
    all.extend([
        ("16 KB batches, 100 B records", small),
        ("1 MB batches, 100 B records", Shape { batch_bytes: MEGABYTE, ..small }),
        ("16 KB batches, acks=1", Shape { acks: 1, ..USUAL }),
        ("1 MB batches, acks=1", Shape { batch_bytes: MEGABYTE, acks: 1, ..USUAL }),
        ("16 KB batches, gzip", Shape { codec: Codec::Gzip, ..USUAL }),
        ("16 KB batches, snappy", Shape { codec: Codec::Snappy, ..USUAL }),
        ("16 KB batches, lz4", Shape { codec: Codec::Lz4, ..USUAL }),
        ("16 KB batches, zstd", Shape { codec: Codec::Zstd, ..USUAL }),
    ]);
    all
}

/// The plan of a turn.
pub fn of(settings: &Settings, durability: Durability) -> Plan {
    let mut plan = Plan { footprint: settings.wants("footprint"), ..Plan::default() };
    let named = |name: &str| match durability {
        Durability::Os => name.to_owned(),
        Durability::Fsync => format!("{name}, fsync"),
    };
    for (name, shape) in loads(durability) {
        let name = named(name);
        if settings.wants(&format!("produce/{name}")) {
            plan.loads.push((name, shape));
        }
    }
    if settings.wants("latency") {
        plan.latency_rates = vec![200, 2_000];
    }
    if settings.with_tools {
        for (name, shape) in librdkafka(durability) {
            let name = named(name);
            if settings.wants(&format!("librdkafka/{name}")) {
                plan.librdkafka.push((name, shape));
            }
        }
    }
    if durability == Durability::Os {
        if settings.wants("consume") {
            plan.consume = Some("backlog of 1 KB records".to_owned());
        }
        if settings.with_tools && settings.wants("perf-test") {
            plan.perf_test = vec![
                ("1 KB records".to_owned(), PerfTest { record_bytes: 1_000, records: 150_000 }),
                ("100 B records".to_owned(), PerfTest { record_bytes: 100, records: 1_000_000 }),
            ];
        }
    }
    plan
}

fn librdkafka(durability: Durability) -> Vec<(&'static str, LibrdkafkaShape)> {
    let usual = LibrdkafkaShape {
        record_bytes: 1_000,
        batch_bytes: 16_384,
        partitions: 12,
        acks: -1,
        codec: "none",
    };
    let large = LibrdkafkaShape { batch_bytes: MEGABYTE, ..usual };
    let both = vec![("16 KB batches", usual), ("1 MB batches", large)];
    if durability == Durability::Fsync {
        return both;
    }
    let mut all = both;
    all.extend([
        ("1 MB batches, 1 partition", LibrdkafkaShape { partitions: 1, ..large }),
        ("1 MB batches, 100 B records", LibrdkafkaShape { record_bytes: 100, ..large }),
        ("1 MB batches, lz4", LibrdkafkaShape { codec: "lz4", ..large }),
    ]);
    all
}
