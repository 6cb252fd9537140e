//! Both brokers, started and filled alike: what the cases find there.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use compat_tests::batches::{batch, compressed, sealed, start_ms};
use compat_tests::requests::{CREATE_TOPICS_VERSION, METADATA_VERSION, text};
use compat_tests::{Broker, BrokerOptions, Connection};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{
    ApiVersionsRequest, BrokerId, CreateTopicsRequest, DeleteRecordsRequest, DescribeGroupsRequest,
    FindCoordinatorRequest, GroupId, ListOffsetsRequest, MetadataRequest,
};
use protocol::compression::Codec;
use protocol::record_batch::BatchBuilder;
use protocol::types::Timestamp;
use tempfile::TempDir;
use uuid::Uuid;

use crate::case::{Memory, OwnTopic};
use crate::run::Planned;

/// How long a broker may take until all topics are served.
const SERVABLE_WITHIN: Duration = Duration::from_secs(240);
/// Groups with these many names fall onto every partition of the offsets' topic.
const GROUPS_FOR_ALL_PARTITIONS: usize = 40;
/// Topics that are made by one request.
const TOPICS_A_REQUEST: usize = 100;

/// Records 0 to 9 in five batches a second apart; a gzip batch of five; nothing.
pub const NUMBERS: &str = "fixture-numbers";
/// One partition without records.
pub const EMPTY: &str = "fixture-empty";
/// Ten batches of one record, of which the first four are deleted.
pub const TRIMMED: &str = "fixture-trimmed";
/// Compacted; two keyed records.
pub const COMPACTED: &str = "fixture-compacted";
/// Bears the broker's time.
pub const LOG_APPEND_TIME: &str = "fixture-log-append-time";

/// Topics that cases read and do not change.
const FIXTURES: [OwnTopic; 5] = [
    OwnTopic { alias: NUMBERS, partitions: 3, configs: &[] },
    OwnTopic { alias: EMPTY, partitions: 1, configs: &[] },
    OwnTopic { alias: TRIMMED, partitions: 1, configs: &[] },
    OwnTopic { alias: COMPACTED, partitions: 1, configs: &[("cleanup.policy", "compact")] },
    OwnTopic {
        alias: LOG_APPEND_TIME,
        partitions: 1,
        configs: &[("message.timestamp.type", "LogAppendTime")],
    },
];

/// Properties that both brokers get, so that a config is the same on both.
const PROPERTIES: &[(&str, &str)] = &[
    ("node.id", "1"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("offsets.topic.num.partitions", "4"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("log.cleaner.dedupe.buffer.size", "4194304"),
];

/// A broker, and what the cases remember of it.
pub struct Side {
    pub broker: Broker,
    pub memory: Memory,
    /// Lowest and highest advertised version by API key.
    pub versions: HashMap<i16, (i16, i16)>,
    // Removed after the broker is stopped.
    _dir: TempDir,
}

/// Starts Highwater and Apache Kafka at once.
pub fn start(binary: &Path) -> io::Result<(Side, Side)> {
    thread::scope(|scope| {
        let kafka = scope.spawn(|| start_one(binary, true));
        let ours = start_one(binary, false)?;
        let kafka = kafka.join().map_err(|_| io::Error::other("Apache Kafka did not start"))??;
        Ok((ours, kafka))
    })
}

fn start_one(binary: &Path, kafka: bool) -> io::Result<Side> {
    let dir = TempDir::new()?;
    let mut options = BrokerOptions::new(binary, dir.path()).kafka(kafka);
    for (key, value) in PROPERTIES {
        // Kafka's start script has these itself.
        options = if kafka { options } else { options.with(key, value) };
    }
    if kafka {
        // It runs for a minute: what the second compiler would gain comes too late.
        options = options
            .with("offsets.topic.num.partitions", "4")
            .with_environment("KAFKA_OPTIONS", "-XX:TieredStopAtLevel=1");
    }
    let broker = Broker::try_start(options)?;
    let request = ApiVersionsRequest::default()
        .with_client_software_name(text("differential"))
        .with_client_software_version(text("0"));
    let answer = broker.connect().call(3, &request);
    let versions =
        answer.api_keys.iter().map(|k| (k.api_key, (k.min_version, k.max_version))).collect();
    Ok(Side { broker, memory: Memory::default(), versions, _dir: dir })
}

impl Side {
    /// Makes the fixtures and the topics of all cases, and learns their ids.
    pub fn fill(&mut self, planned: &[Planned]) -> io::Result<()> {
        let mut topics: Vec<(String, OwnTopic)> =
            FIXTURES.iter().map(|topic| (topic.alias.to_owned(), topic.clone())).collect();
        topics.extend(
            planned
                .iter()
                .flat_map(|planned| planned.topics().map(|(name, topic)| (name, topic.clone()))),
        );
        topics.sort_by(|a, b| a.0.cmp(&b.0));
        topics.dedup_by(|a, b| a.0 == b.0);
        let mut connection = self.broker.connect();
        for chunk in topics.chunks(TOPICS_A_REQUEST) {
            make_topics(&mut connection, chunk)?;
        }
        self.learn_topics(&mut connection, &topics)?;
        eprintln!("{} topics", topics.len());
        wait_until_served(&mut connection, &topics)?;
        write_fixtures(&mut connection);
        wait_for_coordinators(&mut connection)
    }

    fn learn_topics(
        &mut self,
        connection: &mut Connection,
        topics: &[(String, OwnTopic)],
    ) -> io::Result<()> {
        let deadline = Instant::now() + SERVABLE_WITHIN;
        let all = MetadataRequest::default().with_topics(None);
        loop {
            let answer = connection.try_call(METADATA_VERSION, &all)?;
            for topic in &answer.topics {
                let name = topic.name.as_ref().map(|name| name.0.to_string()).unwrap_or_default();
                self.memory.topic_ids.insert(name, topic.topic_id);
                if let Some(partition) = topic.partitions.first() {
                    self.memory.leader_epoch = partition.leader_epoch;
                }
            }
            if topics.iter().all(|(name, _)| self.memory.topic_ids.contains_key(name)) {
                self.memory.topic_ids.retain(|_, id| *id != Uuid::nil());
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("not all topics came into being"));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn make_topics(connection: &mut Connection, topics: &[(String, OwnTopic)]) -> io::Result<()> {
    let topics = topics.iter().map(|(name, topic)| {
        let configs = topic.configs.iter().map(|(key, value)| {
            CreatableTopicConfig::default().with_name(text(key)).with_value(Some(text(value)))
        });
        CreatableTopic::default()
            .with_name(compat_tests::requests::topic_name(name))
            .with_num_partitions(topic.partitions)
            .with_replication_factor(1)
            .with_configs(configs.collect())
    });
    let request =
        CreateTopicsRequest::default().with_topics(topics.collect()).with_timeout_ms(60_000);
    let answer = connection.try_call(CREATE_TOPICS_VERSION, &request)?;
    match answer.topics.iter().find(|topic| topic.error_code != 0) {
        Some(topic) => Err(io::Error::other(format!("a topic is not created: {topic:?}"))),
        None => Ok(()),
    }
}

/// Kafka answers CreateTopics before the partitions have a leader that serves.
fn wait_until_served(connection: &mut Connection, topics: &[(String, OwnTopic)]) -> io::Result<()> {
    let rows = topics.iter().map(|(name, topic)| {
        let partitions = (0..topic.partitions).map(|index| {
            ListOffsetsPartition::default()
                .with_partition_index(index)
                .with_current_leader_epoch(-1)
                .with_timestamp(-1)
        });
        ListOffsetsTopic::default()
            .with_name(compat_tests::requests::topic_name(name))
            .with_partitions(partitions.collect())
    });
    let request =
        ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(rows.collect());
    let deadline = Instant::now() + SERVABLE_WITHIN;
    loop {
        let answer = connection.try_call(7, &request)?;
        let mut partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        match partitions.find(|partition| partition.error_code != 0) {
            None => return Ok(()),
            Some(row) if Instant::now() > deadline => {
                return Err(io::Error::other(format!("a topic is not served: {row:?}")));
            }
            Some(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Kafka makes the topic of the groups when the first one is asked for, and loads it then.
fn wait_for_coordinators(connection: &mut Connection) -> io::Result<()> {
    let deadline = Instant::now() + SERVABLE_WITHIN;
    for number in 0..GROUPS_FOR_ALL_PARTITIONS {
        let group = text(&format!("warm-{number}"));
        let find = FindCoordinatorRequest::default().with_key(group.clone());
        let describe = DescribeGroupsRequest::default().with_groups(vec![GroupId(group)]);
        loop {
            let found = connection.try_call(2, &find)?.error_code;
            let described = connection.try_call(2, &describe)?.groups[0].error_code;
            if found == 0 && described == 0 {
                break;
            }
            if Instant::now() > deadline {
                return Err(io::Error::other(format!("no coordinator: {found}, {described}")));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// A batch whose records are `apart_ms` from one another, from `at_ms` after the start.
pub fn timed(at_ms: i64, apart_ms: i64, values: &[&str]) -> Bytes {
    let mut timestamp = start_ms() + at_ms;
    let mut builder = BatchBuilder::new();
    for value in values {
        builder = builder.record(Timestamp(timestamp), None, Some(value.as_bytes()));
        timestamp += apart_ms;
    }
    sealed(builder)
}

fn write_fixtures(connection: &mut Connection) {
    for number in 0..5 {
        let values = [format!("{}", 2 * number), format!("{}", 2 * number + 1)];
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        connection.append(NUMBERS, 0, timed(1_000 * number, 10, &values));
    }
    connection.append(NUMBERS, 1, compressed(Codec::Gzip, &["a", "b", "c", "d", "e"]));
    for number in 0..10 {
        connection.append(TRIMMED, 0, timed(1_000 * number, 0, &["x"]));
    }
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(4);
    let topic = DeleteRecordsTopic::default()
        .with_name(compat_tests::requests::topic_name(TRIMMED))
        .with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(10_000);
    connection.call(2, &request);
    let keyed = BatchBuilder::new().record(Timestamp(start_ms()), Some(b"k1"), Some(b"v1")).record(
        Timestamp(start_ms()),
        Some(b"k2"),
        None,
    );
    connection.append(COMPACTED, 0, sealed(keyed));
    connection.append(LOG_APPEND_TIME, 0, batch(&["a"]));
}
