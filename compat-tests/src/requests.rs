//! The requests that tests send most, in one line each. Versions are fixed here: what other
//! versions do is tested where it matters.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    BrokerId, CreateTopicsRequest, DeleteTopicsRequest, FetchRequest, FetchResponse,
    InitProducerIdRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest, ProduceResponse,
    TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::Connection;

/// Produce with topic names and per-record errors.
pub const PRODUCE_VERSION: i16 = 9;
/// Fetch with sessions and topic names.
pub const FETCH_VERSION: i16 = 12;
/// ListOffsets with the offset of the largest timestamp.
pub const LIST_OFFSETS_VERSION: i16 = 7;
/// Metadata with topic ids.
pub const METADATA_VERSION: i16 = 12;
/// CreateTopics with topic ids.
pub const CREATE_TOPICS_VERSION: i16 = 7;
/// DeleteTopics with topic ids.
pub const DELETE_TOPICS_VERSION: i16 = 6;
/// InitProducerId with producer id and epoch.
pub const INIT_PRODUCER_ID_VERSION: i16 = 4;

/// How long the broker may take over a request.
const TIMEOUT_MS: i32 = 20_000;

/// How long a new topic may take until its leaders serve (Apache Kafka makes them after it has
/// answered).
const SERVABLE_WITHIN: Duration = Duration::from_secs(20);

/// A topic's name.
#[must_use]
pub fn topic_name(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

/// A string of the protocol.
#[must_use]
pub fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

/// A CreateTopics request for one topic.
#[must_use]
pub fn create_topics(name: &str, partitions: i32, configs: &[(&str, &str)]) -> CreateTopicsRequest {
    let configs = configs
        .iter()
        .map(|(key, value)| {
            CreatableTopicConfig::default().with_name(text(key)).with_value(Some(text(value)))
        })
        .collect();
    let topic = CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(-1)
        .with_configs(configs);
    CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT_MS)
}

/// A Produce request with one batch for one partition.
#[must_use]
pub fn produce(topic: &str, partition: i32, records: Bytes, acks: i16) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(records));
    let topic =
        TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![data]);
    ProduceRequest::default()
        .with_acks(acks)
        .with_timeout_ms(TIMEOUT_MS)
        .with_topic_data(vec![topic])
}

/// The only partition of a produce answer.
///
/// # Panics
/// When there is not exactly one.
#[must_use]
pub fn only_produced(response: &ProduceResponse) -> &PartitionProduceResponse {
    assert_eq!(response.responses.len(), 1, "one topic was asked for");
    assert_eq!(response.responses[0].partition_responses.len(), 1, "one partition was asked for");
    &response.responses[0].partition_responses[0]
}

/// A Fetch request without a session for one partition, that does not wait.
#[must_use]
pub fn fetch(topic: &str, partition: i32, offset: i64) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(partition)
        .with_current_leader_epoch(-1)
        .with_last_fetched_epoch(-1)
        .with_log_start_offset(-1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(64 << 20);
    let topic =
        FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(64 << 20)
        .with_session_id(0)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

/// The only partition of a fetch answer.
///
/// # Panics
/// When there is an error or not exactly one.
#[must_use]
pub fn only_fetched(response: &FetchResponse) -> &PartitionData {
    assert_eq!(response.error_code, 0, "fetch failed as a whole");
    assert_eq!(response.responses.len(), 1, "one topic was asked for");
    assert_eq!(response.responses[0].partitions.len(), 1, "one partition was asked for");
    &response.responses[0].partitions[0]
}

/// A ListOffsets request for one partition.
#[must_use]
pub fn list_offsets(topic: &str, partition: i32, timestamp: i64) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition::default()
        .with_partition_index(partition)
        .with_current_leader_epoch(-1)
        .with_timestamp(timestamp);
    let topic =
        ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic])
}

/// A Metadata request for topics by name.
#[must_use]
pub fn metadata(names: &[&str], auto_create: bool) -> MetadataRequest {
    let topics = names
        .iter()
        .map(|name| MetadataRequestTopic::default().with_name(Some(topic_name(name))))
        .collect();
    MetadataRequest::default().with_topics(Some(topics)).with_allow_auto_topic_creation(auto_create)
}

impl Connection {
    /// Creates a topic and waits until all its partitions have a leader that serves.
    ///
    /// # Panics
    /// When it cannot be created.
    pub fn create_topic(&mut self, name: &str, partitions: i32) {
        self.create_topic_with(name, partitions, &[]);
    }

    /// The same with topic configs.
    ///
    /// # Panics
    /// When it cannot be created.
    pub fn create_topic_with(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let response = self.call(CREATE_TOPICS_VERSION, &create_topics(name, partitions, configs));
        let topic = &response.topics[0];
        assert_eq!(topic.error_code, 0, "{name} is created: {:?}", topic.error_message);
        let deadline = Instant::now() + SERVABLE_WITHIN;
        while !self.is_servable(name, partitions) {
            assert!(Instant::now() < deadline, "{name} is not servable");
        }
    }

    fn is_servable(&mut self, name: &str, partitions: i32) -> bool {
        let topic = self.describe_topic(name);
        topic.error_code == 0
            && topic.partitions.len() == partitions as usize
            && topic.partitions.iter().all(|p| p.error_code == 0 && p.leader_id.0 >= 0)
            && (0..partitions).all(|p| self.offset_of(name, p, -1).error_code == 0)
    }

    /// The topic's row of Metadata, never creating it.
    pub fn describe_topic(&mut self, name: &str) -> MetadataResponseTopic {
        let response = self.call(METADATA_VERSION, &metadata(&[name], false));
        response.topics.into_iter().next().unwrap_or_default()
    }

    /// Deletes a topic by name; returns the error code.
    pub fn delete_topic(&mut self, name: &str) -> i16 {
        let state = DeleteTopicState::default().with_name(Some(topic_name(name)));
        let request =
            DeleteTopicsRequest::default().with_topics(vec![state]).with_timeout_ms(TIMEOUT_MS);
        self.call(DELETE_TOPICS_VERSION, &request).responses[0].error_code
    }

    /// Produces a batch with acks=all.
    pub fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        batch: Bytes,
    ) -> PartitionProduceResponse {
        let response = self.call(PRODUCE_VERSION, &produce(topic, partition, batch, -1));
        only_produced(&response).clone()
    }

    /// Produces a batch with acks=all; returns its offset.
    ///
    /// # Panics
    /// When it is refused.
    pub fn append(&mut self, topic: &str, partition: i32, batch: Bytes) -> i64 {
        let produced = self.produce(topic, partition, batch);
        assert_eq!(produced.error_code, 0, "{topic}-{partition}: {:?}", produced.error_message);
        produced.base_offset
    }

    /// Fetches from an offset what is there now.
    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> PartitionData {
        let response = self.call(FETCH_VERSION, &fetch(topic, partition, offset));
        only_fetched(&response).clone()
    }

    /// ListOffsets of one partition.
    pub fn offset_of(
        &mut self,
        topic: &str,
        partition: i32,
        timestamp: i64,
    ) -> ListOffsetsPartitionResponse {
        let request = list_offsets(topic, partition, timestamp);
        self.call(LIST_OFFSETS_VERSION, &request).topics[0].partitions[0].clone()
    }

    /// A fresh producer id and its epoch.
    ///
    /// # Panics
    /// When it is refused.
    pub fn init_producer_id(&mut self) -> (i64, i16) {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let deadline = Instant::now() + SERVABLE_WITHIN;
        loop {
            let response = self.call(INIT_PRODUCER_ID_VERSION, &request);
            // Apache Kafka fetches its first block of ids while the first client waits.
            let retriable = matches!(response.error_code, 14 | 15);
            if !retriable || Instant::now() > deadline {
                assert_eq!(response.error_code, 0, "a producer id is given");
                return (response.producer_id.0, response.producer_epoch);
            }
        }
    }

    /// Everything from `offset` to the end, as (offset, value).
    pub fn read_all(&mut self, topic: &str, partition: i32, offset: i64) -> io::Result<Records> {
        let mut all = Vec::new();
        let mut next = offset;
        loop {
            let response = self.try_call(FETCH_VERSION, &fetch(topic, partition, next))?;
            let data = only_fetched(&response);
            if data.error_code != 0 {
                return Err(io::Error::other(format!(
                    "{topic}-{partition} at {next}: error {}",
                    data.error_code
                )));
            }
            let records = crate::batches::records(data.records.as_ref());
            let before = next;
            for record in records {
                if record.offset.0 >= next {
                    next = record.offset.0 + 1;
                    all.push((record.offset.0, record.value.unwrap_or_default()));
                }
            }
            if next == before {
                return Ok(all);
            }
        }
    }
}

/// Offsets and values.
pub type Records = Vec<(i64, Bytes)>;
