//! ListPartitionReassignments: the partitions that are on their way from some brokers to others
//! (KIP-455).

use std::sync::Arc;

use cluster::metadata::{PartitionImage, TopicImage};
use kafka_protocol::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use kafka_protocol::messages::{
    ApiKey, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};
use protocol::api::ApiSpec;
use protocol::types::PartitionId;

use super::Reply;
use super::common::wire::{broker_ids, reply, topic_name};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::ListPartitionReassignments, 0..=0);

/// Answers with those that are under way, of all topics or of the partitions that are named.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: ListPartitionReassignmentsRequest,
) -> Reply {
    let image = services.cluster.metadata();
    let topics = match &request.topics {
        None => image.topics.values().filter_map(|topic| row(topic, &topic.partitions)).collect(),
        Some(named) => {
            let rows = named.iter().filter_map(|named| {
                let topic = image.topic(&named.name)?;
                let ids = named.partition_indexes.iter();
                row(topic, ids.filter_map(|index| topic.partition(PartitionId(*index))))
            });
            rows.collect()
        }
    };
    reply(
        ListPartitionReassignmentsResponse::default().with_error_message(None).with_topics(topics),
    )
}

/// `None` where nothing of the topic is under way.
fn row<'a>(
    topic: &TopicImage,
    partitions: impl IntoIterator<Item = &'a PartitionImage>,
) -> Option<OngoingTopicReassignment> {
    let ongoing = partitions.into_iter().filter(|partition| partition.is_reassigning());
    let rows: Vec<_> = ongoing
        .map(|partition| {
            OngoingPartitionReassignment::default()
                .with_partition_index(partition.id.0)
                .with_replicas(broker_ids(&partition.replicas))
                .with_adding_replicas(broker_ids(&partition.adding))
                .with_removing_replicas(broker_ids(&partition.removing))
        })
        .collect();
    let row = OngoingTopicReassignment::default().with_name(topic_name(&topic.name));
    (!rows.is_empty()).then(|| row.with_partitions(rows))
}
