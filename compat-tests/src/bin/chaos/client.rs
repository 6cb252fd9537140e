//! What every client of a run has: its way to the brokers, its chance, and what it did.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use compat_tests::Connection;
use compat_tests::requests::{FETCH_VERSION, fetch};
use compat_tests::router::Router;
pub use compat_tests::router::{Failure, Leader, error_name};
use kafka_protocol::protocol::Request;

use crate::history::{History, Ms, Partition, Value};
use crate::schedule::Dice;

/// How long an answer may take before a client looks elsewhere.
pub const TIMEOUT: Duration = Duration::from_millis(2_000);
/// Pause before something is tried again.
pub const BACKOFF: Duration = Duration::from_millis(50);
/// The most that one fetch brings.
const FETCH_BYTES: i32 = 256 * 1024;

/// What all clients of a run share.
#[derive(Debug)]
pub struct Shared {
    /// The brokers.
    pub addresses: BTreeMap<i32, SocketAddr>,
    /// Topics, and how many partitions each has.
    pub topics: Vec<(String, i32)>,
    /// Nothing new is sent any more.
    pub stop_sending: AtomicBool,
    /// Everybody ends at once.
    pub stop: AtomicBool,
    /// Partition by partition, when something was last acknowledged.
    pub last_acknowledged: Vec<AtomicU32>,
    /// Behind the last record of each partition that was acknowledged.
    pub acknowledged_ends: Vec<AtomicI64>,
    /// Readers read on to the ends and are done.
    pub finish: AtomicBool,
    /// Where each partition ends, when readers shall finish.
    pub ends: Vec<AtomicI64>,
    /// How far the members of each group have come together.
    pub reached: BTreeMap<u16, Vec<AtomicI64>>,
    /// The next number for a producer id.
    pub next_producer: AtomicU16,
    started: Instant,
}

impl Shared {
    /// A run that begins now.
    pub fn new(
        addresses: BTreeMap<i32, SocketAddr>,
        topics: Vec<(String, i32)>,
        groups: &[u16],
    ) -> Shared {
        let partitions = topics.iter().map(|(_, count)| *count as usize).sum();
        let offsets = || (0..partitions).map(|_| AtomicI64::new(0)).collect();
        Shared {
            addresses,
            topics,
            stop_sending: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            finish: AtomicBool::new(false),
            last_acknowledged: (0..partitions).map(|_| AtomicU32::new(0)).collect(),
            acknowledged_ends: offsets(),
            ends: offsets(),
            reached: groups.iter().map(|group| (*group, offsets())).collect(),
            next_producer: AtomicU16::new(0),
            started: Instant::now(),
        }
    }

    /// Milliseconds since the run began.
    pub fn now(&self) -> Ms {
        Ms::try_from(self.started.elapsed().as_millis()).unwrap_or(Ms::MAX)
    }

    /// All partitions.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> + use<> {
        0..Partition::try_from(self.ends.len()).unwrap_or(Partition::MAX)
    }

    /// A partition's topic, and its index there.
    pub fn place(&self, partition: Partition) -> (&str, i32) {
        let mut index = i32::from(partition);
        for (topic, count) in &self.topics {
            if index < *count {
                return (topic, index);
            }
            index -= count;
        }
        ("", index)
    }

    /// The partition of a topic and an index.
    pub fn partition(&self, topic: &str, index: i32) -> Option<Partition> {
        let before = self.topics.iter().take_while(|(name, _)| name != topic);
        let before: i32 = before.map(|(_, count)| count).sum();
        Partition::try_from(before + index).ok()
    }

    /// Whether everybody ends.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a reader that has come to `position` is done.
    pub fn is_read(&self, partition: Partition, position: i64) -> bool {
        let end = self.ends.get(usize::from(partition));
        let end = end.map_or(0, |end| end.load(Ordering::Acquire));
        self.finish.load(Ordering::Acquire) && position >= end
    }

    /// Notes that a member of a group has come to `position`.
    pub fn reach(&self, group: u16, partition: Partition, position: i64) {
        let reached = self.reached.get(&group).and_then(|all| all.get(usize::from(partition)));
        if let Some(reached) = reached {
            reached.fetch_max(position, Ordering::AcqRel);
        }
    }

    /// Whether the members of a group are done. None of them ends before: what one of them gives
    /// up another one has to take on.
    pub fn is_read_by_group(&self, group: u16) -> bool {
        let reached = self.reached.get(&group).into_iter().flatten();
        self.partitions()
            .zip(reached)
            .all(|(partition, reached)| self.is_read(partition, reached.load(Ordering::Acquire)))
    }
}

/// One client.
#[derive(Debug)]
pub struct Client<'a> {
    /// The run.
    pub shared: &'a Shared,
    /// Its own chance.
    pub dice: Dice,
    /// What it did.
    pub history: History,
    router: Router,
}

impl<'a> Client<'a> {
    /// A client without a connection.
    pub fn new(shared: &'a Shared, seed: u64) -> Client<'a> {
        Client {
            shared,
            dice: Dice::new(seed),
            history: History::default(),
            router: Router::new(shared.addresses.clone(), TIMEOUT),
        }
    }

    /// A connection to a broker, kept until something fails on it.
    pub fn call<R: Request>(
        &mut self,
        broker: i32,
        version: i16,
        request: &R,
    ) -> io::Result<R::Response> {
        self.router.call(broker, version, request)
    }

    /// The same, with more patience.
    pub fn call_within<R: Request>(
        &mut self,
        broker: i32,
        version: i16,
        request: &R,
        timeout: Duration,
    ) -> io::Result<R::Response> {
        self.router.call_within(broker, version, request, timeout)
    }

    /// A new connection of its own.
    pub fn connect(&self, broker: i32) -> io::Result<Connection> {
        self.router.connect(broker)
    }

    /// Some broker.
    pub fn anyone(&mut self) -> i32 {
        let ids: Vec<i32> = self.shared.addresses.keys().copied().collect();
        self.dice.pick(&ids).copied().unwrap_or_default()
    }

    /// The leader as it is known, or as some broker says now.
    pub fn leader(&mut self, partition: Partition) -> Result<Leader, Failure> {
        let ask = self.anyone();
        let (topic, index) = self.shared.place(partition);
        self.router.leader(topic, index, ask)
    }

    /// Asks anew who leads, the next time.
    pub fn forget(&mut self, partition: Partition) {
        let (topic, index) = self.shared.place(partition);
        self.router.forget(topic, index);
    }

    /// What stands in a partition from an offset on, as its leader says.
    pub fn fetch(&mut self, partition: Partition, offset: i64) -> Result<Fetched, Failure> {
        let leader = self.leader(partition)?;
        let (topic, index) = self.shared.place(partition);
        let mut request = fetch(topic, index, offset);
        let row = &mut request.topics[0].partitions[0];
        row.partition_max_bytes = FETCH_BYTES;
        row.current_leader_epoch = leader.epoch;
        let answer = self.call(leader.id, FETCH_VERSION, &request)?;
        if answer.error_code != 0 {
            return Err(Failure::Answered(answer.error_code));
        }
        let rows = answer.responses.iter().flat_map(|topic| &topic.partitions);
        let row = rows.into_iter().next().ok_or(Failure::NoLeader)?;
        if row.error_code != 0 {
            return Err(Failure::Answered(row.error_code));
        }
        let mut fetched = Fetched { records: Vec::new(), next: offset };
        for record in compat_tests::batches::records(row.records.as_ref()) {
            let at = record.offset.0;
            if at < offset {
                continue;
            }
            fetched.next = fetched.next.max(at + 1);
            match record.value.as_deref().and_then(Value::decode) {
                Some(value) => fetched.records.push((at, value)),
                None => self.history.foreign.push((partition, at)),
            }
        }
        Ok(fetched)
    }

    /// Counts a failure, forgets who leads, and waits a moment.
    pub fn failed(&mut self, who: &str, partition: Partition, failure: &Failure) {
        self.history.error(format!("{who}: {}", failure.name()));
        self.forget(partition);
        std::thread::sleep(BACKOFF);
    }
}

/// What a fetch brought.
#[derive(Debug)]
pub struct Fetched {
    /// Offsets and values.
    pub records: Vec<(i64, Value)>,
    /// Where to go on.
    pub next: i64,
}
