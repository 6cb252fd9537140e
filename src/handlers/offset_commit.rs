//! OffsetCommit: offsets to remember for a group.

use std::sync::Arc;

use cluster::metadata::MetadataImage;
use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestTopic;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{ApiKey, OffsetCommitRequest, OffsetCommitResponse, TopicName};
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;
use protocol::types::{LeaderEpoch, Offset, PartitionId};

use super::common::groups::{ask, body, owned, shared};
use super::common::resolve::topic_with_partition;
use super::common::topic_errors::group_by_topic;
use super::common::wire::reply;
use super::{Reply, ResponseBody};
use crate::context::{RequestContext, Services};
use crate::coordinator::group::event::{
    OffsetCommit, OffsetCommitPartition, OffsetCommitReply, OffsetCommitTopic,
};

/// Versions:
/// - 2: how long the offsets are kept
/// - 3: throttle time
/// - 4: throttled answers go out before the connection is muted (KIP-219)
/// - 5: how long offsets are kept is the broker's to say (KIP-211)
/// - 6: leader epochs (KIP-320)
/// - 7: static members (KIP-345)
/// - 8: flexible
/// - 9: member epochs (KIP-848)
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &["Version 10 (topic ids instead of names, KIP-848) is not decoded."],
    stage: Stage::Complete,
    ..ApiSpec::new(ApiKey::OffsetCommit, 2..=9)
};

/// From this version on the client knows member epochs.
const MEMBER_EPOCHS_SINCE: i16 = 9;

/// The rows of the answer in the request's order: refused here, or `None` for the coordinator to
/// say.
type Rows = Vec<(TopicName, i32, Option<ErrorCode>)>;

/// Hands offsets of partitions that exist to the coordinator.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: OffsetCommitRequest,
) -> Reply {
    let mut rows = Rows::new();
    let image = services.cluster.metadata();
    let topics = request.topics.iter().filter_map(|topic| known(&image, topic, &mut rows));
    let topics: Vec<_> = topics.collect();
    if topics.is_empty() {
        return reply(response(rows, OffsetCommitReply { error: ErrorCode::None, topics: vec![] }));
    }
    let group_id = shared(&request.group_id);
    let commit = OffsetCommit {
        group_id: group_id.clone(),
        generation_id_or_member_epoch: request.generation_id_or_member_epoch,
        member_id: shared(&request.member_id),
        group_instance_id: owned(request.group_instance_id.as_ref()),
        retention_time_ms: (request.retention_time_ms >= 0).then_some(request.retention_time_ms),
        supports_member_epochs: context.api_version >= MEMBER_EPOCHS_SINCE,
        topics,
    };
    let answer = ask!(services, &group_id, OffsetCommit(commit));
    Reply::Later(Box::pin(async move { answered(rows, answer.await) }))
}

fn answered(rows: Rows, answer: Result<OffsetCommitReply, ErrorCode>) -> ResponseBody {
    let refused = |error| OffsetCommitReply { error, topics: Vec::new() };
    body(response(rows, answer.unwrap_or_else(refused)))
}

/// The partitions of a topic that exist; notes a row for each that was asked for.
fn known(
    image: &MetadataImage,
    asked: &OffsetCommitRequestTopic,
    rows: &mut Rows,
) -> Option<OffsetCommitTopic> {
    let mut topic_id = None;
    let mut partitions = Vec::new();
    for row in &asked.partitions {
        let partition = PartitionId(row.partition_index);
        let found = topic_with_partition(image, &asked.name, partition);
        rows.push((asked.name.clone(), row.partition_index, found.as_ref().err().copied()));
        let Ok(topic) = found else { continue };
        topic_id = Some(topic.id);
        partitions.push(OffsetCommitPartition {
            partition,
            offset: Offset(row.committed_offset),
            leader_epoch: LeaderEpoch(row.committed_leader_epoch),
            metadata: owned(row.committed_metadata.as_ref()),
        });
    }
    Some(OffsetCommitTopic { topic: asked.name.to_string(), topic_id: topic_id?, partitions })
}

fn response(rows: Rows, answer: OffsetCommitReply) -> OffsetCommitResponse {
    // One row for each that the coordinator was given, in the same order.
    let mut said = answer.topics.into_iter().flat_map(|topic| topic.partitions);
    let rows = rows.into_iter().map(|(topic, partition_index, refused)| {
        let error = match refused {
            Some(refused) => refused,
            None if answer.error.is_none() => {
                said.next().map_or(ErrorCode::UnknownServerError, |(_, error)| error)
            }
            None => answer.error,
        };
        let row = OffsetCommitResponsePartition::default()
            .with_partition_index(partition_index)
            .with_error_code(error.code());
        (topic, row)
    });
    let topics = group_by_topic(rows).into_iter().map(|(name, partitions)| {
        OffsetCommitResponseTopic::default().with_name(name).with_partitions(partitions)
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}

#[cfg(test)]
mod tests {
    use protocol::types::TopicId;

    use super::*;
    use crate::coordinator::group::event::TopicErrors;

    fn rows() -> Rows {
        let topic = |name: &'static str| TopicName(name.into());
        vec![
            (topic("a"), 0, None),
            (topic("gone"), 0, Some(ErrorCode::UnknownTopicOrPartition)),
            (topic("a"), 1, None),
        ]
    }

    fn codes(response: &OffsetCommitResponse) -> Vec<(&str, i32, i16)> {
        let rows = response.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|p| (&**topic.name, p.partition_index, p.error_code))
        });
        rows.collect()
    }

    #[test]
    fn the_coordinators_rows_are_woven_into_those_refused_before() {
        let partitions = vec![
            (PartitionId(0), ErrorCode::None),
            (PartitionId(1), ErrorCode::OffsetMetadataTooLarge),
        ];
        let topic = TopicErrors { topic: "a".into(), topic_id: TopicId::default(), partitions };
        let answer = OffsetCommitReply { error: ErrorCode::None, topics: vec![topic] };
        let response = response(rows(), answer);
        assert_eq!(codes(&response), [("a", 0, 0), ("a", 1, 12), ("gone", 0, 3)]);
    }

    #[test]
    fn an_error_of_the_group_is_one_of_every_row_that_exists() {
        let error = ErrorCode::IllegalGeneration;
        let response = response(rows(), OffsetCommitReply { error, topics: Vec::new() });
        assert_eq!(codes(&response), [("a", 0, 22), ("a", 1, 22), ("gone", 0, 3)]);
    }
}
