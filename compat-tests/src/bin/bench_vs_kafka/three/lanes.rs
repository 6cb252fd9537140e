//! A producer for each partition that sends at a pace of its own, acks=all, and tries again until
//! it is acknowledged, asking brokers who leads: when it was acknowledged tells how long a
//! partition took no records.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use compat_tests::batches::batch;
use compat_tests::cluster::IDS;
use compat_tests::pauses::Ms;
use compat_tests::requests::{PRODUCE_VERSION, produce};
use compat_tests::router::{Failure, Router};
use kafka_protocol::messages::ProduceRequest;

use super::nodes::Nodes;
use super::tell;

/// How long an answer may take before a lane looks elsewhere.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Pause before something is tried again.
const BACKOFF: Duration = Duration::from_millis(20);
/// How long a record is tried before it has failed: the `delivery.timeout.ms` of Kafka's clients.
const DELIVERED_WITHIN: Duration = Duration::from_secs(120);
/// How long lanes may take until each has been acknowledged again.
const FLOWS_WITHIN: Duration = Duration::from_secs(120);
/// A lane that was acknowledged so lately is well.
const LATELY_MS: Ms = 700;
/// A record's value.
const RECORD_BYTES: usize = 1_000;

/// A topic that lanes send to.
#[derive(Debug, Clone)]
pub struct Stream {
    pub topic: String,
    pub partitions: i32,
    /// How often a batch goes to each partition.
    pub every: Duration,
    /// Records in a batch.
    pub records: u32,
}

/// What one lane did.
#[derive(Debug)]
pub struct Trace {
    pub topic: String,
    pub partition: i32,
    /// When something was acknowledged.
    pub acknowledged_at: Vec<Ms>,
    /// The numbers of the batches that were.
    pub acknowledged: Vec<u32>,
    /// Batches that never were.
    pub failed: u64,
}

/// Lanes that run.
pub struct Traffic {
    shared: Arc<Shared>,
    lanes: Vec<JoinHandle<Trace>>,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    stop: AtomicBool,
    last: Vec<AtomicU32>,
}

impl Shared {
    fn now(&self) -> Ms {
        Ms::try_from(self.started.elapsed().as_millis()).unwrap_or(Ms::MAX)
    }
}

impl Traffic {
    /// Begins to send.
    pub fn start(addresses: &BTreeMap<i32, SocketAddr>, streams: &[Stream]) -> Traffic {
        let count = streams.iter().map(|stream| stream.partitions as usize).sum();
        let last = (0..count).map(|_| AtomicU32::new(0)).collect();
        let shared = Shared { started: Instant::now(), stop: AtomicBool::new(false), last };
        let shared = Arc::new(shared);
        let places =
            streams.iter().flat_map(|stream| (0..stream.partitions).map(move |p| (stream, p)));
        let lanes = places.enumerate().map(|(index, (stream, partition))| {
            let lane = Lane {
                shared: shared.clone(),
                index,
                stream: stream.clone(),
                partition,
                router: Router::new(addresses.clone(), TIMEOUT),
                turn: index,
                failed_leader: None,
                next: 0,
                trace: Trace {
                    topic: stream.topic.clone(),
                    partition,
                    acknowledged_at: Vec::new(),
                    acknowledged: Vec::new(),
                    failed: 0,
                },
            };
            thread::spawn(move || lane.run())
        });
        let lanes = lanes.collect();
        Traffic { shared, lanes }
    }

    /// Milliseconds since it began.
    pub fn now(&self) -> Ms {
        self.shared.now()
    }

    /// Waits until every lane was acknowledged lately, but so long at least.
    pub fn wait_until_it_flows(&self, at_least: Duration) -> Result<(), String> {
        let started = Instant::now();
        let flows = || {
            let since = self.now().saturating_sub(LATELY_MS);
            self.shared.last.iter().all(|last| last.load(Ordering::Relaxed) > since)
        };
        while started.elapsed() < at_least || !flows() {
            if started.elapsed() > FLOWS_WITHIN {
                return Err("some partition never takes records again".to_owned());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Ends when all that is under way is done.
    pub fn stop(self) -> Result<Vec<Trace>, String> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let join = |lane: JoinHandle<Trace>| lane.join().map_err(|_| "a lane failed".to_owned());
        self.lanes.into_iter().map(join).collect()
    }
}

struct Lane {
    shared: Arc<Shared>,
    index: usize,
    stream: Stream,
    partition: i32,
    router: Router,
    turn: usize,
    /// The leader that did not answer: others are asked who leads.
    failed_leader: Option<i32>,
    next: u32,
    trace: Trace,
}

impl Lane {
    fn run(mut self) -> Trace {
        // Lanes do not all send at the same time.
        let mut due = Instant::now() + self.stream.every.mul_f64((self.index % 7) as f64 / 7.0);
        while !self.shared.stop.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            self.send();
            due = (due + self.stream.every).max(Instant::now());
        }
        self.trace
    }

    /// One batch, until it is acknowledged.
    fn send(&mut self) {
        let number = self.next;
        self.next += 1;
        let values: Vec<_> = (0..self.stream.records).map(|_| value(number)).collect();
        let request = produce(&self.stream.topic, self.partition, batch(&values), -1)
            .with_timeout_ms(TIMEOUT.as_millis() as i32);
        let started = Instant::now();
        while let Err(failure) = self.attempt(&request) {
            if started.elapsed() > DELIVERED_WITHIN {
                tell(&format!("a produce is given up: {}", failure.name()));
                self.trace.failed += 1;
                return;
            }
            self.router.forget(&self.stream.topic, self.partition);
            thread::sleep(BACKOFF);
        }
        let now = self.shared.now();
        self.trace.acknowledged_at.push(now);
        self.trace.acknowledged.push(number);
        self.shared.last[self.index].store(now, Ordering::Relaxed);
    }

    fn attempt(&mut self, request: &ProduceRequest) -> Result<(), Failure> {
        let ask = self.whom_to_ask();
        let leader = self.router.leader(&self.stream.topic, self.partition, ask)?;
        let answer = self.router.call(leader.id, PRODUCE_VERSION, request);
        self.failed_leader = answer.is_err().then_some(leader.id);
        match answer?.responses[0].partition_responses[0].error_code {
            0 => Ok(()),
            code => Err(Failure::Answered(code)),
        }
    }

    fn whom_to_ask(&mut self) -> i32 {
        let others: Vec<i32> =
            IDS.into_iter().filter(|id| Some(*id) != self.failed_leader).collect();
        self.turn += 1;
        others[self.turn % others.len()]
    }
}

/// The number in front, so that it is known again.
fn value(number: u32) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(RECORD_BYTES, b'x');
    value
}

/// How many acknowledged batches are not in the log.
pub fn lost(nodes: &Nodes, traces: &[Trace]) -> Result<u64, String> {
    let mut lost = 0;
    for trace in traces {
        let leaders = nodes.leaders(&trace.topic)?;
        let leader = leaders.iter().find(|(_, led)| led.contains(&trace.partition));
        let (leader, _) = leader.ok_or("a partition has no leader")?;
        let mut connection = nodes.connect(*leader)?;
        let records = connection.read_all(&trace.topic, trace.partition, 0);
        let records = records.map_err(|error| error.to_string())?;
        let number = |value: &[u8]| value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        let read: BTreeSet<u32> = records.iter().filter_map(|(_, value)| number(value)).collect();
        let missing = trace.acknowledged.iter().filter(|number| !read.contains(number));
        lost += missing.count() as u64;
    }
    Ok(lost)
}
