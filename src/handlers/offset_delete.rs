//! OffsetDelete: offsets of a group are forgotten (KIP-496).

use std::sync::Arc;

use cluster::metadata::MetadataImage;
use kafka_protocol::messages::offset_delete_request::OffsetDeleteRequestTopic;
use kafka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_protocol::messages::{ApiKey, OffsetDeleteRequest, OffsetDeleteResponse, TopicName};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;
use protocol::types::PartitionId;

use super::Reply;
use super::common::groups::{ask, body, shared};
use super::common::resolve::topic_with_partition;
use super::common::topic_errors::group_by_topic;
use super::common::wire::reply;
use crate::context::{RequestContext, Services};
use crate::coordinator::group::event::{OffsetDelete, OffsetDeleteReply};

/// Versions:
/// - 0: (KIP-496)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::OffsetDelete, 0..=0);

/// The rows of the answer in the request's order: refused here, or `None` for the coordinator to
/// say.
type Rows = Vec<(TopicName, i32, Option<ErrorCode>)>;

/// Hands partitions that exist to the coordinator.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: OffsetDeleteRequest,
) -> Reply {
    if request.group_id.is_empty() {
        let code = ErrorCode::InvalidGroupId.code();
        return reply(OffsetDeleteResponse::default().with_error_code(code));
    }
    let image = services.cluster.metadata();
    let mut rows = Rows::new();
    let topics = request.topics.iter().filter_map(|topic| known(&image, topic, &mut rows));
    let topics = topics.collect();
    let group_id = shared(&request.group_id);
    let delete = OffsetDelete { group_id: group_id.clone(), topics };
    let answer = ask!(services, &group_id, OffsetDelete(delete));
    Reply::Later(Box::pin(async move {
        let refused = |error| OffsetDeleteReply { error, topics: Vec::new() };
        body(response(rows, answer.await.unwrap_or_else(refused)))
    }))
}

/// The partitions of a topic that exist; notes a row for each that was asked for.
fn known(
    image: &MetadataImage,
    asked: &OffsetDeleteRequestTopic,
    rows: &mut Rows,
) -> Option<(String, Vec<PartitionId>)> {
    let mut partitions = Vec::new();
    for row in &asked.partitions {
        let partition = PartitionId(row.partition_index);
        let found = topic_with_partition(image, &asked.name, partition);
        rows.push((asked.name.clone(), row.partition_index, found.err()));
        if found.is_ok() {
            partitions.push(partition);
        }
    }
    (!partitions.is_empty()).then(|| (asked.name.to_string(), partitions))
}

fn response(rows: Rows, answer: OffsetDeleteReply) -> OffsetDeleteResponse {
    if !answer.error.is_none() {
        return OffsetDeleteResponse::default().with_error_code(answer.error.code());
    }
    // One row for each that the coordinator was given, in the same order.
    let mut said = answer.topics.into_iter().flat_map(|topic| topic.partitions);
    let rows = rows.into_iter().map(|(topic, partition_index, refused)| {
        let error = refused.unwrap_or_else(|| {
            said.next().map_or(ErrorCode::UnknownServerError, |(_, error)| error)
        });
        let row = OffsetDeleteResponsePartition::default()
            .with_partition_index(partition_index)
            .with_error_code(error.code());
        (topic, row)
    });
    let topics = group_by_topic(rows).into_iter().map(|(name, partitions)| {
        OffsetDeleteResponseTopic::default().with_name(name).with_partitions(partitions)
    });
    OffsetDeleteResponse::default().with_topics(topics.collect())
}
