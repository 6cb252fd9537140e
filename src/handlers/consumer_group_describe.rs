//! ConsumerGroupDescribe: state and members of KIP-848 groups.

use std::sync::Arc;

use futures::future::join_all;
use kafka_protocol::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse,
};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::groups::{ask, body, shared, wire_group_id};
use super::common::operations;
use super::common::wire::{text, topic_name};
use crate::context::{RequestContext, Services};
use crate::coordinator::group::event::{
    DescribedConsumerGroup, DescribedConsumerMember, NamedPartitions,
};

/// Versions:
/// - 0: (KIP-848)
/// - 1: which protocol a member speaks (KIP-1099)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::ConsumerGroupDescribe, 0..=1);

/// From this version on it is said which protocol a member speaks.
const MEMBER_TYPE_SINCE: i16 = 1;
const UNKNOWN_MEMBER: i8 = -1;
const CLASSIC_MEMBER: i8 = 0;
const CONSUMER_MEMBER: i8 = 1;

/// Asks the shard of every group.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: ConsumerGroupDescribeRequest,
) -> Reply {
    let version = context.api_version;
    let operations = operations::on_group(request.include_authorized_operations);
    let answers = request.group_ids.into_iter().map(|group_id| {
        let is_named = !group_id.is_empty();
        let answer = ask!(services, &group_id, ConsumerGroupDescribe(shared(&group_id)));
        async move {
            let answer = if is_named { answer.await } else { Err(ErrorCode::InvalidGroupId) };
            match answer {
                Ok(group) => row(group, version, operations),
                Err(error) => {
                    DescribedGroup::default().with_group_id(group_id).with_error_code(error.code())
                }
            }
        }
    });
    let answers = join_all(answers.collect::<Vec<_>>());
    Reply::Later(Box::pin(async move {
        body(ConsumerGroupDescribeResponse::default().with_groups(answers.await))
    }))
}

fn row(group: DescribedConsumerGroup, version: i16, operations: i32) -> DescribedGroup {
    if !group.error.is_none() {
        return DescribedGroup::default()
            .with_error_code(group.error.code())
            .with_error_message(group.error_message.as_deref().map(text))
            .with_group_id(wire_group_id(&group.group_id));
    }
    let members = group.members.into_iter().map(|row| member(row, version));
    DescribedGroup::default()
        .with_group_id(wire_group_id(&group.group_id))
        .with_group_state(text(group.state.name()))
        .with_group_epoch(group.group_epoch)
        .with_assignment_epoch(group.assignment_epoch)
        .with_assignor_name(text(&group.assignor_name))
        .with_members(members.collect())
        .with_authorized_operations(operations)
}

fn member(member: DescribedConsumerMember, version: i16) -> Member {
    let member_type = match member.is_classic {
        _ if version < MEMBER_TYPE_SINCE => UNKNOWN_MEMBER,
        true => CLASSIC_MEMBER,
        false => CONSUMER_MEMBER,
    };
    Member::default()
        .with_member_id(text(&member.member_id))
        .with_instance_id(member.instance_id.as_deref().map(text))
        .with_rack_id(member.rack_id.as_deref().map(text))
        .with_member_epoch(member.member_epoch)
        .with_client_id(text(&member.client.client_id))
        .with_client_host(text(&member.client.client_host))
        .with_subscribed_topic_names(
            member.subscribed_topic_names.iter().map(|name| topic_name(name)).collect(),
        )
        .with_subscribed_topic_regex(Some(text(&member.subscribed_topic_regex)))
        .with_assignment(assignment(member.assignment))
        .with_target_assignment(assignment(member.target_assignment))
        .with_member_type(member_type)
}

fn assignment(topics: Vec<NamedPartitions>) -> Assignment {
    let topics = topics.into_iter().map(|topic| {
        TopicPartitions::default()
            .with_topic_id(topic.topic_id.0)
            .with_topic_name(topic_name(&topic.topic))
            .with_partitions(topic.partitions.into_iter().map(|partition| partition.0).collect())
    });
    Assignment::default().with_topic_partitions(topics.collect())
}
