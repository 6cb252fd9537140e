//! kill -9 at random points while clients produce with acks=all: every acknowledged record is
//! there afterwards, in order, once, with its offset.
//!
//! `LOOPS` sets the number of kills (10 by default), `SEED` makes their points repeat, and
//! `BIG_GB` (none by default) the size of the log whose restart is measured at the end.

#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use compat_tests::batches::of_producer;
use compat_tests::requests::{PRODUCE_VERSION, only_produced, produce};
use compat_tests::{Broker, BrokerOptions, Connection};
use kafka_protocol::messages::ProduceRequest;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_highwater");
const TOPIC: &str = "crash";
const PARTITIONS: i32 = 4;
/// Requests of one producer that wait for their answers at the same time.
const IN_FLIGHT: usize = 5;
/// The longest that a broker runs before it is killed.
const LIVES_AT_MOST_MS: u64 = 300;
/// Batches that one producer sends in one life at most: keeps a long run's reading short.
const BATCHES_IN_A_LIFE: i32 = 400;

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// splitmix64: a seed gives the same points again.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// One producer on one partition: what it has sent, and what was acknowledged.
struct Producer {
    partition: i32,
    /// Its id, epoch, and the sequence of the next batch; `None` until it has an id.
    identity: Option<(i64, i16)>,
    /// Values in the order sent; a batch is one value repeated with its record's number.
    sent: Vec<Sent>,
}

#[derive(Clone)]
struct Sent {
    values: Vec<Bytes>,
    sequence: i32,
    /// Its base offset, once acknowledged.
    offset: Option<i64>,
}

impl Producer {
    fn new(partition: i32) -> Producer {
        Producer { partition, identity: None, sent: Vec::new() }
    }

    fn send(&self, connection: &mut Connection, batch: &Sent) -> std::io::Result<()> {
        let (id, epoch) = self.identity.expect("a producer that sends has an id");
        let records = of_producer(id, epoch, batch.sequence, &batch.values);
        connection.send(PRODUCE_VERSION, &produce(TOPIC, self.partition, records, -1))?;
        Ok(())
    }

    fn next_batch(&mut self) -> usize {
        let number = self.sent.len();
        let sequence = self.sent.last().map_or(0, |last| last.sequence + last.values.len() as i32);
        // One to three records, from a few bytes to some kilobytes.
        let padding = "x".repeat(number * 37 % 5_000);
        let values = (0..1 + number % 3)
            .map(|n| Bytes::from(format!("{}/{number}/{n}/{padding}", self.partition)))
            .collect();
        self.sent.push(Sent { values, sequence, offset: None });
        number
    }

    /// Sends until `stop` or until the broker is gone. What was not acknowledged in an earlier
    /// life is sent again first, as an idempotent producer does.
    fn run(&mut self, mut connection: Connection, stop: &AtomicBool) -> std::io::Result<()> {
        if self.identity.is_none() {
            self.identity = Some(connection.init_producer_id());
        }
        let mut waiting = std::collections::VecDeque::new();
        let mut again: std::collections::VecDeque<usize> =
            (0..self.sent.len()).filter(|n| self.sent[*n].offset.is_none()).collect();
        let mut left = BATCHES_IN_A_LIFE;
        loop {
            while waiting.len() < IN_FLIGHT && left > 0 {
                let number = again.pop_front().unwrap_or_else(|| self.next_batch());
                waiting.push_back(number);
                left -= 1;
                self.send(&mut connection, &self.sent[number].clone())?;
            }
            if stop.load(Ordering::Relaxed) || waiting.is_empty() {
                return Ok(());
            }
            let (_, response) = connection.receive::<ProduceRequest>(PRODUCE_VERSION)?;
            let produced = only_produced(&response);
            assert_eq!(produced.error_code, 0, "an append is refused: {produced:?}");
            let number = waiting.pop_front().expect("an answer to what was sent");
            self.sent[number].offset = Some(produced.base_offset);
        }
    }

    /// Compares the partition's log with what was acknowledged.
    fn verify(&self, connection: &mut Connection) {
        let log = connection.read_all(TOPIC, self.partition, 0).expect("the log can be read");
        for (place, (offset, _)) in log.iter().enumerate() {
            assert_eq!(*offset, place as i64, "offsets are dense");
        }
        // Dense and in order, so each batch stands right behind the one before it, and an
        // acknowledged one at the offset that was told.
        let expected = self.sent.iter().flat_map(|batch| {
            let offset = batch.offset;
            let values = batch.values.iter().enumerate();
            values.map(move |(n, value)| (offset.map(|offset| offset + n as i64), value))
        });
        let mut acknowledged_after_end = 0;
        let mut log = log.iter();
        for (offset, value) in expected {
            match log.next() {
                Some((found, bytes)) => {
                    assert!(bytes == value, "partition {} at {found}", self.partition);
                    assert!(offset.is_none_or(|offset| offset == *found), "{offset:?} {found}");
                }
                None => acknowledged_after_end += usize::from(offset.is_some()),
            }
        }
        assert_eq!(acknowledged_after_end, 0, "acknowledged records are lost");
        assert!(log.next().is_none(), "records that nobody sent");
    }
}

/// Lets all producers work until `kill` has gone by, and kills the broker under them.
fn one_life(
    broker: Broker,
    producers: Vec<Producer>,
    lives: Duration,
) -> (BrokerOptions, Vec<Producer>) {
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<JoinHandle<Producer>> = producers
        .into_iter()
        .map(|mut producer| {
            let connection = broker.connect();
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                // The connection breaks when the broker is killed: that is the end of this life.
                let _ = producer.run(connection, &stop);
                producer
            })
        })
        .collect();
    // The random point itself, not a wait for something.
    thread::sleep(lives);
    let options = broker.kill();
    stop.store(true, Ordering::Relaxed);
    let producers =
        threads.into_iter().map(|thread| thread.join().expect("no append is refused")).collect();
    (options, producers)
}

/// From exec to the first acknowledged append.
fn timed_restart(options: BrokerOptions) -> (Broker, Duration) {
    let started = Instant::now();
    let broker = Broker::start(options);
    let mut connection = broker.connect();
    let topic = connection.describe_topic(TOPIC);
    assert_eq!(topic.partitions.len(), PARTITIONS as usize);
    (broker, started.elapsed())
}

fn run_loops(loops: u64, delete_index: bool) {
    let seed = setting("SEED", 1);
    let mut random = Random(seed);
    let dir = TempDir::new().expect("a temporary directory");
    let mut broker = Broker::start(BrokerOptions::new(BINARY, dir.path()));
    broker.connect().create_topic(TOPIC, PARTITIONS);
    let mut producers: Vec<_> = (0..PARTITIONS).map(Producer::new).collect();
    let mut slowest = Duration::ZERO;
    for _ in 0..loops {
        let lives = Duration::from_millis(random.below(LIVES_AT_MOST_MS));
        let (options, survivors) = one_life(broker, producers, lives);
        producers = survivors;
        if delete_index {
            let index = options.data_dir().join("index");
            std::fs::remove_dir_all(&index).expect("there is an index directory");
        }
        let (restarted, took) = timed_restart(options);
        slowest = slowest.max(took);
        let mut connection = restarted.connect();
        for producer in &producers {
            producer.verify(&mut connection);
        }
        broker = restarted;
    }
    let acknowledged: usize =
        producers.iter().flat_map(|p| &p.sent).filter(|b| b.offset.is_some()).count();
    assert!(acknowledged > 0, "something was acknowledged");
    println!(
        "crash: {loops} kills, seed {seed}, index {}: {acknowledged} batches acknowledged, all \
         there; slowest restart {} ms",
        if delete_index { "deleted each time" } else { "kept" },
        slowest.as_millis()
    );
}

#[test]
fn no_acknowledged_record_is_lost_or_doubled_by_kill_9() {
    run_loops(setting("LOOPS", 10), false);
}

#[test]
fn nothing_is_missing_when_the_index_is_deleted_too() {
    run_loops(setting::<u64>("LOOPS", 10).div_ceil(5), true);
}

/// Measures restarts at a size that `BIG_GB` sets: it prints, it does not judge a shared machine.
#[test]
fn restart_time_at_size() {
    let gigabytes: u64 = setting("BIG_GB", 0);
    if gigabytes == 0 {
        println!("skipped: BIG_GB is not set");
        return;
    }
    let dir = TempDir::new().expect("a temporary directory");
    let options = BrokerOptions::new(BINARY, dir.path()).with("highwater.durability", "os");
    let mut broker = Broker::start(options);
    let mut connection = broker.connect();
    connection.create_topic(TOPIC, PARTITIONS);
    let batches = gigabytes * 1_000_000_000 / 960_000;
    let value = Bytes::from(vec![b'x'; 960_000 - 100]);
    let records = compat_tests::batches::batch(&[value]);
    let mut in_flight = 0;
    for n in 0..batches {
        if in_flight == IN_FLIGHT {
            receive_ack(&mut connection);
            in_flight -= 1;
        }
        let partition = (n % PARTITIONS as u64) as i32;
        let request = produce(TOPIC, partition, records.clone(), -1);
        connection.send(PRODUCE_VERSION, &request).expect("sent");
        in_flight += 1;
    }
    (0..in_flight).for_each(|_| receive_ack(&mut connection));
    drop(connection);
    let measure = |what: &str, broker: Broker, delete_index: bool| {
        let options = broker.kill();
        if delete_index {
            std::fs::remove_dir_all(options.data_dir().join("index")).expect("an index directory");
        }
        let started = Instant::now();
        let broker = Broker::start(options);
        let mut connection = broker.connect();
        connection.append(TOPIC, 0, compat_tests::batches::batch(&["first"]));
        let took = started.elapsed();
        println!(
            "restart at {gigabytes} GB, {what}: {} ms from exec to the first acknowledged append",
            took.as_millis()
        );
        for partition in 0..PARTITIONS {
            let end = connection.offset_of(TOPIC, partition, -1).offset;
            let least = batches as i64 / i64::from(PARTITIONS);
            assert!(end >= least, "partition {partition} ends at {end}, not {least}");
        }
        broker
    };
    broker = measure("killed under load", broker, false);
    broker = measure("killed at once again", broker, false);
    drop(measure("index deleted", broker, true));
}

fn receive_ack(connection: &mut Connection) {
    let (_, response) = connection.receive::<ProduceRequest>(PRODUCE_VERSION).expect("an answer");
    assert_eq!(only_produced(&response).error_code, 0);
}
