//! A load through librdkafka: produces or consumes as fast as it goes, and prints what it did as
//! one line of JSON. For the benchmark, which starts it.
//!
//! `librdkafka-load produce BOOTSTRAP TOPIC RECORD_BYTES BATCH_BYTES ACKS CODEC SECONDS`
//! `librdkafka-load consume BOOTSTRAP TOPIC PARTITIONS RECORDS`

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

/// How long records may wait for others of their batch.
const LINGER_MS: &str = "5";
/// How long everything that was sent may take to be acknowledged.
const FLUSHED_WITHIN: Duration = Duration::from_secs(60);
/// How long a consumer waits for a record before it gives up.
const NEXT_WITHIN: Duration = Duration::from_secs(20);

const USAGE: &str = "the arguments are described at the top of main.rs";

static DELIVERED: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Counts what was acknowledged.
struct Counting;

impl ClientContext for Counting {}

impl ProducerContext for Counting {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &DELIVERED } else { &FAILED };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["produce", ref rest @ ..] => produce(rest),
        ["consume", ref rest @ ..] => consume(rest),
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("librdkafka-load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{value} is not a number"))
}

fn text(error: KafkaError) -> String {
    error.to_string()
}

fn produce(arguments: &[&str]) -> Result<String, String> {
    let [bootstrap, topic, record, batch, acks, codec, seconds] = *arguments else {
        return Err(USAGE.to_owned());
    };
    let producer: ThreadedProducer<Counting> = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("acks", acks)
        .set("compression.codec", codec)
        .set("batch.size", batch)
        .set("message.max.bytes", "1000000")
        .set("batch.num.messages", "1000000")
        .set("linger.ms", LINGER_MS)
        .set("queue.buffering.max.messages", "500000")
        .set("queue.buffering.max.kbytes", "131072")
        .create_with_context(Counting)
        .map_err(text)?;
    let payload = payload(number(record)?);
    let time = Duration::from_secs_f64(number(seconds)?);
    let (mut sent, started) = (0_u64, Instant::now());
    while started.elapsed() < time {
        // The clock is looked at once in a while only.
        for _ in 0..100 {
            let record: BaseRecord<'_, (), [u8]> = BaseRecord::to(topic).payload(&payload[..]);
            match producer.send(record) {
                Ok(()) => sent += 1,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
                    std::thread::sleep(Duration::from_millis(1));
                    break;
                }
                Err((error, _)) => return Err(text(error)),
            }
        }
    }
    producer.flush(FLUSHED_WITHIN).map_err(text)?;
    let elapsed = started.elapsed();
    let (delivered, failed) = (DELIVERED.load(Ordering::Relaxed), FAILED.load(Ordering::Relaxed));
    if failed > 0 || delivered != sent {
        return Err(format!("{sent} were sent, {delivered} acknowledged, {failed} failed"));
    }
    Ok(line(delivered, delivered * payload.len() as u64, elapsed))
}

/// Bytes that compress as text does, neither like zeroes nor like noise.
fn payload(length: usize) -> Vec<u8> {
    let words = ["offset", "partition", "leader", "epoch", "batch", "record", "topic", "log"];
    let mut state = 17_u64;
    let mut bytes = Vec::with_capacity(length + 16);
    while bytes.len() < length {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend(words[(state >> 61) as usize].as_bytes());
        bytes.extend(((state >> 33) % 1000).to_string().as_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn consume(arguments: &[&str]) -> Result<String, String> {
    let [bootstrap, topic, partitions, records] = *arguments else {
        return Err(USAGE.to_owned());
    };
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", "librdkafka-load")
        .set("enable.auto.commit", "false")
        .set("queued.min.messages", "1000000")
        .create()
        .map_err(text)?;
    let wanted: u64 = number(records)?;
    let mut assignment = TopicPartitionList::new();
    for partition in 0..number(partitions)? {
        assignment.add_partition_offset(topic, partition, Offset::Beginning).map_err(text)?;
    }
    let started = Instant::now();
    consumer.assign(&assignment).map_err(text)?;
    let (mut count, mut bytes) = (0_u64, 0_u64);
    while count < wanted {
        match consumer.poll(NEXT_WITHIN) {
            Some(Ok(message)) => {
                count += 1;
                bytes += message.payload_len() as u64;
            }
            Some(Err(error)) => return Err(text(error)),
            None => return Err(format!("only {count} of {wanted} records came")),
        }
    }
    Ok(line(count, bytes, started.elapsed()))
}

fn line(records: u64, bytes: u64, elapsed: Duration) -> String {
    let (seconds, cpu) = (elapsed.as_secs_f64(), cpu_seconds());
    format!(r#"{{"records":{records},"bytes":{bytes},"seconds":{seconds},"cpu_seconds":{cpu}}}"#)
}

/// User and system time of this process, of which a second has a hundred ticks on Linux.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
