//! ConsumerGroupHeartbeat: a member of a KIP-848 group joins, reports, or leaves, and is told what
//! to read.

use std::sync::Arc;

use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;
use protocol::types::{PartitionId, TopicId};

use super::Reply;
use super::common::groups::{ask, body, client, owned, shared};
use super::common::wire::text;
use crate::context::{RequestContext, Services};
use crate::coordinator::group::event::{
    ConsumerGroupHeartbeat, ConsumerGroupHeartbeatReply, TopicIdPartitions,
};
use crate::ids;

/// Versions:
/// - 0: (KIP-848)
/// - 1: regular expressions; the client makes the member's id (KIP-1082)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::ConsumerGroupHeartbeat, 0..=1);

/// From this version on the client makes the member's id.
const OWN_MEMBER_ID_SINCE: i16 = 1;

/// Hands the heartbeat to the group.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: ConsumerGroupHeartbeatRequest,
) -> Reply {
    let group_id = shared(&request.group_id);
    let heartbeat = heartbeat(context, request);
    let answer = ask!(services, &group_id, ConsumerGroupHeartbeat(heartbeat));
    Reply::Later(Box::pin(async move {
        body(match answer.await {
            Ok(answer) => response(answer),
            Err(error) => refused(error),
        })
    }))
}

fn heartbeat(
    context: &RequestContext,
    request: ConsumerGroupHeartbeatRequest,
) -> ConsumerGroupHeartbeat {
    let names = request.subscribed_topic_names;
    let owns = request.topic_partitions.map(|topics| {
        let topics = topics.into_iter().map(|topic| TopicIdPartitions {
            topic_id: TopicId(topic.topic_id),
            partitions: topic.partitions.into_iter().map(PartitionId).collect(),
        });
        topics.collect()
    });
    ConsumerGroupHeartbeat {
        group_id: shared(&request.group_id),
        member_id: shared(&request.member_id),
        new_member_id: ids::new_uuid().to_string(),
        member_epoch: request.member_epoch,
        instance_id: owned(request.instance_id.as_ref()),
        rack_id: owned(request.rack_id.as_ref()),
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        subscribed_topic_names: names
            .map(|names| names.into_iter().map(|name| name.to_string()).collect()),
        subscribed_topic_regex: owned(request.subscribed_topic_regex.as_ref()),
        server_assignor: owned(request.server_assignor.as_ref()),
        topic_partitions: owns,
        client: client(context),
        requires_own_member_id: context.api_version >= OWN_MEMBER_ID_SINCE,
    }
}

fn refused(error: ErrorCode) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse::default().with_error_code(error.code())
}

fn response(answer: ConsumerGroupHeartbeatReply) -> ConsumerGroupHeartbeatResponse {
    let topic = |topic: TopicIdPartitions| {
        TopicPartitions::default()
            .with_topic_id(topic.topic_id.0)
            .with_partitions(topic.partitions.into_iter().map(|partition| partition.0).collect())
    };
    let assignment = answer.assignment.map(|topics| {
        Assignment::default().with_topic_partitions(topics.into_iter().map(topic).collect())
    });
    ConsumerGroupHeartbeatResponse::default()
        .with_error_code(answer.error.code())
        .with_error_message(answer.error_message.as_deref().map(text))
        .with_member_id(answer.member_id.as_deref().map(text))
        .with_member_epoch(answer.member_epoch)
        .with_heartbeat_interval_ms(answer.heartbeat_interval_ms)
        .with_assignment(assignment)
}
