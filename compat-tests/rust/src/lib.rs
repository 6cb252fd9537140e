//! What the scenarios ask of rdkafka: the client's calls, with one partition's defaults.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, DefaultConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

/// How long anything may take.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// What is sent, and what comes back with its offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Where it goes.
    pub partition: i32,
    /// Where it is.
    pub offset: i64,
    /// May be null.
    pub key: Option<Vec<u8>>,
    /// May be null.
    pub value: Option<Vec<u8>>,
    /// In milliseconds; none means now.
    pub timestamp: Option<i64>,
    /// In order; a name may come twice.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Record {
    /// A record of a value alone.
    pub fn of(value: impl Into<Vec<u8>>) -> Self {
        Self { value: Some(value.into()), ..Self::default() }
    }

    fn from(message: &BorrowedMessage<'_>) -> Self {
        let header =
            |header: Header<'_, &[u8]>| (header.key.to_owned(), header.value.map(<[u8]>::to_vec));
        Self {
            partition: message.partition(),
            offset: message.offset(),
            key: message.key().map(<[u8]>::to_vec),
            value: message.payload().map(<[u8]>::to_vec),
            timestamp: message.timestamp().to_millis(),
            headers: message.headers().into_iter().flat_map(|all| all.iter().map(header)).collect(),
        }
    }
}

/// A client's configuration: the broker, and pairs of key and value.
pub fn config(bootstrap: &str, pairs: &[(&str, &str)]) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    for (key, value) in pairs {
        config.set(*key, *value);
    }
    config
}

/// What delivery reports said.
#[derive(Clone, Default)]
struct Reports(Arc<Mutex<Vec<(usize, Result<i64, KafkaError>)>>>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<usize>;

    fn delivery(&self, result: &DeliveryResult<'_>, number: Box<usize>) {
        let outcome = match result {
            Ok(message) => Ok(message.offset()),
            Err((error, _)) => Err(error.clone()),
        };
        self.0.lock().expect("no panic").push((*number, outcome));
    }
}

/// A producer that does not wait; `finish` does.
pub struct Sender {
    producer: ThreadedProducer<Reports>,
    reports: Reports,
    topic: String,
    /// How many records were sent.
    pub sent: usize,
}

impl Sender {
    /// With a configuration of its own.
    pub fn new(bootstrap: &str, topic: &str, pairs: &[(&str, &str)]) -> Self {
        let reports = Reports::default();
        let producer = config(bootstrap, pairs).create_with_context(reports.clone());
        let producer = producer.expect("a producer");
        Self { producer, reports, topic: topic.to_owned(), sent: 0 }
    }

    /// Sends without waiting.
    pub fn send(&mut self, record: &Record) {
        let headers = record.headers.iter().fold(OwnedHeaders::new(), |all, (key, value)| {
            all.insert(Header { key, value: value.as_ref() })
        });
        let mut message = BaseRecord::with_opaque_to(&self.topic, Box::new(self.sent))
            .partition(record.partition)
            .headers(headers);
        if let Some(key) = &record.key {
            message = message.key(key);
        }
        if let Some(value) = &record.value {
            message = message.payload(value);
        }
        if let Some(timestamp) = record.timestamp {
            message = message.timestamp(timestamp);
        }
        self.producer.send::<Vec<u8>, Vec<u8>>(message).map_err(|(error, _)| error).expect("sends");
        self.sent += 1;
    }

    /// Waits for all acknowledgements; the offsets in the order of sending.
    pub fn finish(self) -> Result<Vec<i64>, KafkaError> {
        self.producer.flush(3 * TIMEOUT)?;
        let mut reports = self.reports.0.lock().expect("no panic").clone();
        assert_eq!(reports.len(), self.sent, "not all were reported");
        reports.sort_by_key(|(number, _)| *number);
        reports.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

/// The broker, as the scenarios use it.
pub struct Broker {
    /// Its address.
    pub bootstrap: String,
}

impl Broker {
    fn admin(&self) -> AdminClient<DefaultClientContext> {
        config(&self.bootstrap, &[]).create().expect("an admin client")
    }

    /// Creates a topic.
    pub fn create_topic(&self, topic: &str, partitions: i32) -> Result<(), RDKafkaErrorCode> {
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let answer = block_on(self.admin().create_topics([&new], &AdminOptions::new()));
        answer.expect("an answer").remove(0).map(|_| ()).map_err(|(_, code)| code)
    }

    /// Deletes a topic.
    pub fn delete_topic(&self, topic: &str) -> Result<(), RDKafkaErrorCode> {
        let answer = block_on(self.admin().delete_topics(&[topic], &AdminOptions::new()));
        answer.expect("an answer").remove(0).map(|_| ()).map_err(|(_, code)| code)
    }

    /// How many partitions have a leader; 0 for a topic that does not exist.
    pub fn partitions(&self, topic: &str) -> usize {
        let metadata = self.consumer(&[]).fetch_metadata(None, TIMEOUT).expect("metadata");
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        found.map_or(0, |found| found.partitions().iter().filter(|p| p.leader() >= 0).count())
    }

    /// Sends, waits for all acknowledgements, returns the offsets.
    pub fn produce(
        &self,
        topic: &str,
        records: &[Record],
        pairs: &[(&str, &str)],
    ) -> Result<Vec<i64>, KafkaError> {
        let mut sender = Sender::new(&self.bootstrap, topic, pairs);
        records.iter().for_each(|record| sender.send(record));
        sender.finish()
    }

    /// A consumer that commits by hand.
    pub fn consumer(&self, pairs: &[(&str, &str)]) -> BaseConsumer<DefaultConsumerContext> {
        let mut config =
            config(&self.bootstrap, &[("group.id", "unused"), ("enable.auto.commit", "false")]);
        for (key, value) in pairs {
            config.set(*key, *value);
        }
        config.create().expect("a consumer")
    }

    /// A consumer of partition 0, without a group.
    pub fn assigned(&self, topic: &str, offset: Offset) -> BaseConsumer {
        let consumer = self.consumer(&[]);
        let mut places = TopicPartitionList::new();
        places.add_partition_offset(topic, 0, offset).expect("an offset");
        consumer.assign(&places).expect("assigns");
        consumer
    }

    /// Takes `count` records from an offset of partition 0.
    pub fn consume(&self, topic: &str, offset: Offset, count: usize) -> Vec<Record> {
        take(&self.assigned(topic, offset), count)
    }

    /// Takes records as a member, commits them and leaves.
    pub fn group_take(&self, group: &str, topic: &str, count: usize) -> Vec<Record> {
        let consumer = self.consumer(&[("group.id", group), ("auto.offset.reset", "earliest")]);
        consumer.subscribe(&[topic]).expect("subscribes");
        let records = take(&consumer, count);
        let mut places = TopicPartitionList::new();
        let next = Offset::Offset(records[count - 1].offset + 1);
        places.add_partition_offset(topic, 0, next).expect("an offset");
        consumer.commit(&places, CommitMode::Sync).expect("commits");
        records
    }

    /// The committed offsets of the topic's partitions, -1 where nothing is.
    pub fn committed(&self, group: &str, topic: &str, partitions: i32) -> Vec<i64> {
        let mut places = TopicPartitionList::new();
        places.add_partition_range(topic, 0, partitions - 1);
        let consumer = self.consumer(&[("group.id", group)]);
        let found = consumer.committed_offsets(places, TIMEOUT).expect("an answer");
        let offset = |partition| match found.find_partition(topic, partition)?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        (0..partitions).map(|partition| offset(partition).unwrap_or(-1)).collect()
    }
}

/// Takes `count` records.
pub fn take(consumer: &BaseConsumer, count: usize) -> Vec<Record> {
    let mut records = Vec::new();
    let end = Instant::now() + TIMEOUT;
    while records.len() < count {
        assert!(Instant::now() < end, "{} of {count} records came", records.len());
        if let Some(message) = consumer.poll(Duration::from_millis(200)) {
            records.push(Record::from(&message.expect("a record")));
        }
    }
    records
}

/// Runs a future to its end on this thread; the client's own threads wake it.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}
