//! A producing load: connections that keep five requests each in flight, every request encoded
//! once and sent again and again.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use compat_tests::batches::batch;
use compat_tests::client::encode_request;
use compat_tests::requests::{PRODUCE_VERSION, topic_name};
use compat_tests::{Broker, Connection};
use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};

/// Requests of one connection that wait for their answers, as clients have it by default.
const IN_FLIGHT: usize = 5;
/// Producing connections.
pub const CONNECTIONS: usize = 4;

/// What is sent.
#[derive(Debug, Clone)]
pub struct Shape {
    pub topic: String,
    /// Of the topic.
    pub partitions: i32,
    /// Partitions in one request, a batch for each.
    pub batches_per_request: i32,
    pub batch_bytes: usize,
    pub record_bytes: usize,
}

impl Shape {
    fn one_batch(&self) -> Bytes {
        // A record of this batch costs about 10 bytes beside its value, the batch itself 61.
        let records = ((self.batch_bytes.saturating_sub(61)) / (self.record_bytes + 10)).max(1);
        let value = vec![b'x'; self.record_bytes.min(self.batch_bytes.saturating_sub(71)).max(1)];
        batch(&vec![value; records])
    }

    /// The requests that one connection sends in turn: together they touch all its partitions.
    fn frames(&self, connection: usize) -> Vec<Vec<u8>> {
        let records = self.one_batch();
        let own: Vec<i32> = (0..self.partitions)
            .filter(|partition| *partition as usize % CONNECTIONS == connection)
            .collect();
        let own = if own.is_empty() { vec![0] } else { own };
        own.chunks(self.batches_per_request as usize)
            .map(|partitions| self.frame(partitions, &records))
            .collect()
    }

    fn frame(&self, partitions: &[i32], records: &Bytes) -> Vec<u8> {
        let data = partitions
            .iter()
            .map(|index| {
                PartitionProduceData::default()
                    .with_index(*index)
                    .with_records(Some(records.clone()))
            })
            .collect();
        let topic = TopicProduceData::default()
            .with_name(topic_name(&self.topic))
            .with_partition_data(data);
        let request = ProduceRequest::default()
            .with_acks(-1)
            .with_timeout_ms(30_000)
            .with_topic_data(vec![topic]);
        let frame = encode_request(PRODUCE_VERSION, 0, &request).expect("a request is encoded");
        BytesMut::from(frame.as_ref()).to_vec()
    }
}

/// What a load achieved.
#[derive(Debug, Clone, Copy)]
pub struct Achieved {
    pub bytes: u64,
    pub requests: u64,
    pub elapsed: Duration,
    pub cpu: Duration,
    pub written_bytes: u64,
}

impl Achieved {
    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64()
    }

    pub fn cpu_seconds_per_gigabyte(&self) -> f64 {
        self.cpu.as_secs_f64() / (self.bytes as f64 / 1e9)
    }

    pub fn written_per_byte(&self) -> f64 {
        self.written_bytes as f64 / self.bytes as f64
    }
}

/// Produces for `time`; everything sent is acknowledged before it returns.
pub fn produce_for(broker: &Broker, shape: &Shape, time: Duration) -> Achieved {
    let stop = AtomicBool::new(false);
    let (cpu, written) = (broker.cpu_time(), broker.written_bytes());
    let started = Instant::now();
    let counts: Vec<(u64, u64)> = thread::scope(|scope| {
        let senders: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let (stop, frames) = (&stop, shape.frames(number));
                let address = broker.address();
                scope.spawn(move || send_until(address, frames, stop).expect("the load runs"))
            })
            .collect();
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        senders.into_iter().map(|sender| sender.join().expect("a sender ends")).collect()
    });
    Achieved {
        bytes: counts.iter().map(|(bytes, _)| bytes).sum(),
        requests: counts.iter().map(|(_, requests)| requests).sum(),
        elapsed: started.elapsed(),
        cpu: broker.cpu_time().saturating_sub(cpu),
        written_bytes: broker.written_bytes().saturating_sub(written),
    }
}

/// Returns bytes and requests that were acknowledged.
fn send_until(
    address: SocketAddr,
    mut frames: Vec<Vec<u8>>,
    stop: &AtomicBool,
) -> io::Result<(u64, u64)> {
    let mut connection = Connection::open(address)?;
    let (mut bytes, mut sent, mut answered) = (0, 0, 0);
    loop {
        while sent - answered < IN_FLIGHT && !stop.load(Ordering::Relaxed) {
            let turn = sent % frames.len();
            let frame = &mut frames[turn];
            // The correlation id stands behind length, key and version.
            frame[8..12].copy_from_slice(&(sent as i32).to_be_bytes());
            connection.send_raw(frame)?;
            bytes += frame.len() as u64;
            sent += 1;
        }
        if answered == sent {
            return Ok((bytes, sent as u64));
        }
        let (correlation_id, response) = connection.receive::<ProduceRequest>(PRODUCE_VERSION)?;
        let mut rows = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        if correlation_id != answered as i32 || rows.any(|row| row.error_code != 0) {
            return Err(io::Error::other(format!("a produce failed: {response:?}")));
        }
        answered += 1;
    }
}
