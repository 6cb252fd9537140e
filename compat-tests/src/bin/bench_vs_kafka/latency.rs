//! From the moment when a record is due to be sent to the moment when a waiting consumer has it, at
//! fixed rates: a broker that stalls does not make the sender wait with the next ones.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::Connection;
use compat_tests::batches::{batch, split};
use compat_tests::requests::{FETCH_VERSION, PRODUCE_VERSION, fetch, only_fetched, produce};
use kafka_protocol::messages::ProduceRequest;

use crate::load::new_topic;
use crate::race::{Durability, Turn};
use crate::results::Better;

/// How many loads' time one measurement takes: the tail needs many records.
const LOADS: u32 = 2;

/// How long records took.
pub struct Times {
    /// The half of them no longer than that.
    pub p50_ms: f64,
    /// 99 of a hundred.
    pub p99_ms: f64,
    /// 999 of a thousand.
    pub p999_ms: f64,
}

/// Measures at a rate of records per second.
pub fn measure(turn: &mut Turn, rate: u32, durability: Durability) {
    let topic = new_topic();
    let mut connection = turn.broker.connect();
    connection.create_topic(&topic, 1);
    let times = times(turn.broker.address(), &topic, rate, turn.settings.each * LOADS);
    let sync = if durability == Durability::Fsync { ", fsync" } else { "" };
    let name = format!("end to end, {rate} records of 100 B a second{sync}");
    turn.add("latency", &name, "p50 ms", Better::Less, times.p50_ms);
    turn.add("latency", &name, "p99 ms", Better::Less, times.p99_ms);
    turn.add("latency", &name, "p99.9 ms", Better::Less, times.p999_ms);
    connection.delete_topic(&topic);
}

/// The same, of a new topic with one partition whose leader is at an address.
pub fn times(leader: SocketAddr, topic: &str, rate: u32, time: Duration) -> Times {
    let count = (time.as_secs_f64() * f64::from(rate)) as usize;
    // The first records of a topic are not what a producer sees.
    run(leader, topic, rate, 20, 0);
    let mut times = run(leader, topic, rate, count.max(20), 20);
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    Times { p50_ms: at(0.5), p99_ms: at(0.99), p999_ms: at(0.999) }
}

/// Sends `count` records at the rate to a log with `first` records; returns how long each took.
fn run(leader: SocketAddr, topic: &str, rate: u32, count: usize, first: i64) -> Vec<Duration> {
    let due: Mutex<Vec<Instant>> = Mutex::new(Vec::with_capacity(count));
    thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(leader, topic, count, first, &due));
        let mut producer = connect(leader);
        let mut answers = producer.try_clone().expect("a connection has two ends");
        scope.spawn(move || {
            for _ in 0..count {
                let (_, answer) =
                    answers.receive::<ProduceRequest>(PRODUCE_VERSION).expect("an answer");
                let row = &answer.responses[0].partition_responses[0];
                assert_eq!(row.error_code, 0, "a produce failed");
            }
        });
        let records = batch(&[[b'x'; 100]]);
        let started = Instant::now();
        for number in 0..count as u32 {
            let time = started + Duration::from_secs(1) * number / rate;
            thread::sleep(time.saturating_duration_since(Instant::now()));
            due.lock().expect("no thread has panicked").push(time);
            let request = produce(topic, 0, records.clone(), -1);
            producer.send(PRODUCE_VERSION, &request).expect("the broker takes it");
        }
        receiver.join().expect("the receiver ends")
    })
}

fn receive(
    leader: SocketAddr,
    topic: &str,
    count: usize,
    first: i64,
    due: &Mutex<Vec<Instant>>,
) -> Vec<Duration> {
    let mut consumer = connect(leader);
    let mut times = Vec::with_capacity(count);
    let mut offset = first;
    while times.len() < count {
        let request = fetch(topic, 0, offset).with_max_wait_ms(500);
        let response = consumer.call(FETCH_VERSION, &request);
        let now = Instant::now();
        for batch in split(only_fetched(&response).records.as_ref()) {
            let header = batch.header();
            let next = header.base_offset.0 + i64::from(header.last_offset_delta) + 1;
            for number in offset.max(header.base_offset.0)..next {
                let sent = due.lock().expect("no thread has panicked")[(number - first) as usize];
                times.push(now.saturating_duration_since(sent));
            }
            offset = next;
        }
    }
    times
}

fn connect(leader: SocketAddr) -> Connection {
    Connection::open(leader).expect("the broker takes connections")
}
