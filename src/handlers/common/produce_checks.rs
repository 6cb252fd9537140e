//! What a Produce request is refused for as a whole, and what its topics demand of a batch.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::HashSet;

use kafka_protocol::messages::ProduceRequest;
use kafka_protocol::messages::produce_request::PartitionProduceData;
use protocol::compression::Codec;
use protocol::error_code::ErrorCode;
use protocol::record_batch::{BatchHeader, TimestampType, ValidationRules};
use protocol::types::{Timestamp, TopicId};

use crate::config::TopicConfig;

/// Transactional batches of a request that names no transactional id are not authorized, and
/// nothing else of that request is appended either.
#[must_use]
pub fn refuses_all(request: &ProduceRequest) -> Option<ErrorCode> {
    let mut partitions = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    (request.transactional_id.is_none() && partitions.any(is_transactional))
        .then_some(ErrorCode::TransactionalIdAuthorizationFailed)
}

/// Whether a partition's batch belongs to a transaction.
#[must_use]
pub fn is_transactional(data: &PartitionProduceData) -> bool {
    let records = data.records.as_deref().unwrap_or_default();
    BatchHeader::parse(records).is_ok_and(|header| header.is_transactional())
}

/// The partitions that a request names more than once.
#[derive(Debug, Default)]
pub struct Duplicates {
    keys: HashSet<(TopicId, String, i32)>,
}

impl Duplicates {
    /// Looks for them.
    #[must_use]
    pub fn of(request: &ProduceRequest) -> Duplicates {
        let topics = &request.topic_data;
        let count: usize = topics.iter().map(|topic| topic.partition_data.len()).sum();
        let mut duplicates = Duplicates::default();
        if count <= 1 {
            return duplicates;
        }
        let mut seen = HashSet::with_capacity(count);
        for topic in topics {
            for partition in &topic.partition_data {
                if !seen.insert((topic.topic_id, &topic.name, partition.index)) {
                    let (id, name) = (TopicId(topic.topic_id), topic.name.to_string());
                    duplicates.keys.insert((id, name, partition.index));
                }
            }
        }
        duplicates
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn contains(&self, id: TopicId, name: &str, partition: i32) -> bool {
        !self.keys.is_empty() && self.keys.contains(&(id, name.to_owned(), partition))
    }
}

/// What the topic demands of a client's batch.
#[must_use]
pub fn rules(config: &TopicConfig, api_version: i16, now: Timestamp) -> ValidationRules {
    ValidationRules {
        max_message_bytes: config.max_message_bytes,
        compacted: config.cleanup_compact,
        timestamp_type: if config.log_append_time {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        },
        before_max_ms: config.timestamp_before_max_ms,
        after_max_ms: config.timestamp_after_max_ms,
        target_codec: config.compression_type.as_deref().and_then(codec_named),
        ..ValidationRules::client(api_version, now)
    }
}

/// A value of `compression.type` other than `producer`.
fn codec_named(name: &str) -> Option<Codec> {
    if name == "uncompressed" { Some(Codec::None) } else { Codec::from_name(name) }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::produce_request::TopicProduceData;
    use kafka_protocol::messages::{TopicName, TransactionalId};
    use protocol::record_batch::BatchBuilder;

    use super::*;

    fn request(topics: &[(&'static str, &[i32])], is_transactional: bool) -> ProduceRequest {
        let batch = BatchBuilder::new()
            .transactional(is_transactional)
            .record(Timestamp(1), None, Some(b"v"))
            .build()
            .unwrap()
            .to_bytes();
        let topic = |(name, indexes): &(&'static str, &[i32])| {
            let partitions = indexes.iter().map(|index| {
                PartitionProduceData::default().with_index(*index).with_records(Some(batch.clone()))
            });
            TopicProduceData::default()
                .with_name(TopicName((*name).into()))
                .with_partition_data(partitions.collect())
        };
        ProduceRequest::default().with_topic_data(topics.iter().map(topic).collect())
    }

    #[test]
    fn a_partition_named_twice_is_a_duplicate_also_across_topic_rows() {
        let duplicates =
            Duplicates::of(&request(&[("a", &[0, 1]), ("b", &[0]), ("a", &[1])], false));
        let id = TopicId::default();
        assert!(duplicates.contains(id, "a", 1));
        assert!(!duplicates.contains(id, "a", 0) && !duplicates.contains(id, "b", 0));
        assert!(!Duplicates::of(&request(&[("a", &[0])], false)).contains(id, "a", 0));
    }

    #[test]
    fn a_transactional_batch_needs_a_transactional_id() {
        let transactional = request(&[("a", &[0])], true);
        let refused = Some(ErrorCode::TransactionalIdAuthorizationFailed);
        assert_eq!(refuses_all(&transactional), refused);
        let named = transactional.with_transactional_id(Some(TransactionalId("t".into())));
        assert_eq!(refuses_all(&named), None);
        assert_eq!(refuses_all(&request(&[("a", &[0])], false)), None);
    }

    #[test]
    fn compression_types_are_codecs_but_for_producer() {
        assert_eq!(codec_named("uncompressed"), Some(Codec::None));
        assert_eq!(codec_named("zstd"), Some(Codec::Zstd));
        assert_eq!(codec_named("producer"), None);
    }
}
