//! From the topic and partition that a request names to the replica on this broker, or the error
//! that Kafka answers with.

use std::sync::Arc;

use cluster::ReadError;
use cluster::metadata::{MetadataImage, TopicImage};
use cluster::replica::Replica;
use protocol::error_code::ErrorCode;
use protocol::types::{PartitionId, TopicId};

use crate::context::Services;
use crate::error_map::ToErrorCode;

/// The topic of that name, if it has that partition.
pub fn topic_with_partition<'a>(
    image: &'a MetadataImage,
    name: &str,
    partition: PartitionId,
) -> Result<&'a Arc<TopicImage>, ErrorCode> {
    let topic = image.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    topic.partition(partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok(topic)
}

/// The topic of that id, if it has that partition.
pub fn topic_id_with_partition(
    image: &MetadataImage,
    id: TopicId,
    partition: PartitionId,
) -> Result<&Arc<TopicImage>, ErrorCode> {
    let topic = image.topic_by_id(id).ok_or(ErrorCode::UnknownTopicId)?;
    topic.partition(partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok(topic)
}

/// This broker's replica of a partition that the metadata knows. Without one, the client is at the
/// wrong broker, unless the topic was deleted meanwhile.
pub fn local_replica(
    services: &Services,
    topic: TopicId,
    partition: PartitionId,
) -> Result<Arc<Replica>, ErrorCode> {
    services.cluster.replica(topic, partition).map_err(|error| match error {
        ReadError::Gone => gone(&services.cluster.metadata(), topic, partition),
        error => error.error_code(),
    })
}

/// What a partition that is not here is: on other brokers, or nowhere.
#[must_use]
pub fn gone(image: &MetadataImage, topic: TopicId, partition: PartitionId) -> ErrorCode {
    match image.topic_by_id(topic).and_then(|topic| topic.partition(partition)) {
        Some(_) => ErrorCode::NotLeaderOrFollower,
        None => ErrorCode::UnknownTopicOrPartition,
    }
}

/// The replica of a partition named by its topic's name.
pub fn replica_by_name(
    services: &Services,
    image: &MetadataImage,
    name: &str,
    partition: PartitionId,
) -> Result<Arc<Replica>, ErrorCode> {
    let topic = topic_with_partition(image, name, partition)?;
    local_replica(services, topic.id, partition)
}
