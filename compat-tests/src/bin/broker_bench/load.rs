//! A producing load: connections that keep five requests each in flight, every request encoded
//! once and sent again and again.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use compat_tests::Broker;
use compat_tests::batches::batch;
use compat_tests::client::encode_request;
use compat_tests::load::{Cost, Load};
use compat_tests::requests::{PRODUCE_VERSION, topic_name};
use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};

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
    pub cost: Cost,
    pub requests: u64,
    pub written_bytes: u64,
}

impl Achieved {
    pub fn written_per_byte(&self) -> f64 {
        self.written_bytes as f64 / self.cost.bytes as f64
    }
}

/// Produces for `time`; everything sent is acknowledged before it returns.
pub fn produce_for(broker: &Broker, shape: &Shape, time: Duration) -> Achieved {
    let frames = (0..CONNECTIONS).map(|number| shape.frames(number)).collect();
    let mut load = Load::new(broker.address(), frames).expect("the broker takes connections");
    let (cpu, written) = (broker.cpu_time(), broker.written_bytes());
    let sent = load.run(time).expect("the load runs");
    let cost = Cost {
        bytes: sent.bytes,
        elapsed: sent.elapsed,
        cpu: broker.cpu_time().saturating_sub(cpu),
    };
    Achieved {
        cost,
        requests: sent.requests,
        written_bytes: broker.written_bytes().saturating_sub(written),
    }
}
