//! A producing load with the raw client: connections that keep five requests each in flight, every
//! request encoded once and sent again and again, so that next to nothing of the machine goes to
//! the client.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use compat_tests::Broker;
use compat_tests::batches::{builder, sealed};
use compat_tests::client::encode_request;
use compat_tests::load::{Cost, Load};
use compat_tests::requests::{PRODUCE_VERSION, produce as request};
use protocol::compression::Codec;

use crate::ballast;

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Connections.
    pub producers: usize,
    /// Of the topic.
    pub partitions: i32,
    /// Before compression.
    pub batch_bytes: usize,
    /// A record's value.
    pub record_bytes: usize,
    /// As the protocol has it.
    pub acks: i16,
    /// How batches are compressed.
    pub codec: Codec,
}

impl Shape {
    fn records_in_batch(&self) -> usize {
        // A record of such a batch costs about 10 bytes beside its value, the batch itself 61.
        (self.batch_bytes.saturating_sub(61) / (self.record_bytes + 10)).max(1)
    }

    /// Bytes of values in one batch.
    pub fn payload_bytes(&self) -> u64 {
        (self.records_in_batch() * self.record_bytes) as u64
    }

    fn batch(&self) -> Bytes {
        let values: Vec<Vec<u8>> =
            (0..self.records_in_batch()).map(|number| text(self.record_bytes, number)).collect();
        sealed(builder(&values).codec(self.codec))
    }

    /// The load, ready to run.
    pub fn load(&self, address: SocketAddr, topic: &str) -> Load {
        self.load_by(|_| address, topic).expect("the broker takes connections")
    }

    /// The same, where each partition has a broker that takes it.
    pub fn load_by(&self, address: impl Fn(i32) -> SocketAddr, topic: &str) -> io::Result<Load> {
        let records = self.batch();
        let sender = |number: usize| {
            // A connection with several partitions is one to a broker that takes them all.
            let address = address(number as i32 % self.partitions);
            (address, self.frames(topic, number, &records))
        };
        Load::to((0..self.producers).map(sender).collect())
    }

    /// The requests that one connection sends in turn: together they touch all its partitions.
    fn frames(&self, topic: &str, connection: usize, records: &Bytes) -> Vec<Vec<u8>> {
        let (connections, count) = (self.producers as i32, self.partitions);
        let number = connection as i32;
        let own: Vec<i32> = if connections < count {
            (0..count).filter(|partition| partition % connections == number).collect()
        } else {
            vec![number % count]
        };
        let frame = |partition: i32| {
            let request = request(topic, partition, records.clone(), self.acks);
            encode_request(PRODUCE_VERSION, 0, &request).expect("a request is encoded").to_vec()
        };
        own.into_iter().map(frame).collect()
    }
}

/// Words and numbers: what compresses as text does.
fn text(length: usize, seed: usize) -> Vec<u8> {
    let words = ["offset", "partition", "leader", "epoch", "batch", "record", "topic", "log"];
    let mut state = seed as u64 + 17;
    let mut bytes = Vec::with_capacity(length + 16);
    while bytes.len() < length {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        bytes.extend(words[(state >> 61) as usize].as_bytes());
        bytes.extend(((state >> 33) % 1_000).to_string().as_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A name for a topic that nobody has used.
pub fn new_topic() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("bench-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Produces to a new topic for `time`, and deletes it.
pub fn produce(broker: &Broker, shape: &Shape, time: Duration) -> Cost {
    let topic = new_topic();
    let mut connection = broker.connect();
    connection.create_topic(&topic, shape.partitions);
    let mut load = shape.load(broker.address(), &topic);
    ballast::make_room(ballast::ROOM_GIBIBYTES);
    // The first batches open files and groups.
    load.run(time / 5).expect("the load runs");
    let cpu = broker.cpu_time();
    let sent = load.run(time).expect("the load runs");
    let achieved = Cost {
        bytes: sent.requests * shape.payload_bytes(),
        elapsed: sent.elapsed,
        cpu: broker.cpu_time().saturating_sub(cpu),
    };
    connection.delete_topic(&topic);
    achieved
}

/// Some of everything, which is not measured.
pub fn warm_up(broker: &Broker, time: Duration) {
    let small = Shape {
        producers: 10,
        partitions: 12,
        batch_bytes: 4_096,
        record_bytes: 100,
        acks: -1,
        codec: Codec::None,
    };
    produce(broker, &small, time / 2);
    produce(broker, &Shape { batch_bytes: 100_000, record_bytes: 1_000, ..small }, time / 2);
}
