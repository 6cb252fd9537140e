//! DescribeGroups: state and members of classic groups.

use std::sync::Arc;

use futures::future::join_all;
use kafka_protocol::messages::describe_groups_response::{
    DescribedGroup as WireGroup, DescribedGroupMember,
};
use kafka_protocol::messages::{ApiKey, DescribeGroupsRequest, DescribeGroupsResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::groups::{ask, body, shared, wire_group_id};
use super::common::operations;
use super::common::wire::text;
use crate::context::{RequestContext, Services};
use crate::coordinator::group::event::{DescribeGroup, DescribedGroup, DescribedMember};

/// Versions:
/// - 0:
/// - 1: throttle time
/// - 2: throttled answers go out before the connection is muted (KIP-219)
/// - 3: authorized operations (KIP-430)
/// - 4: static members (KIP-345)
/// - 5: flexible
/// - 6: a group that does not exist is an error, with a message (KIP-1043)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::DescribeGroups, 0..=6);

/// From this version on operations can be asked for.
const OPERATIONS_SINCE: i16 = 3;
/// From this version on errors have a message, and a missing group is one.
const UNKNOWN_GROUP_SINCE: i16 = 6;

/// Asks the shard of every group.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: DescribeGroupsRequest,
) -> Reply {
    let version = context.api_version;
    let operations = if version < OPERATIONS_SINCE {
        operations::NOT_ASKED
    } else {
        operations::on_group(request.include_authorized_operations)
    };
    let answers = request.groups.into_iter().map(|group_id| {
        let describe = DescribeGroup {
            group_id: shared(&group_id),
            reports_unknown_group: version >= UNKNOWN_GROUP_SINCE,
        };
        let answer = ask!(services, &group_id, DescribeGroup(describe));
        async move {
            match answer.await {
                Ok(group) => row(group, version, operations),
                Err(error) => refused(&group_id, error),
            }
        }
    });
    let answers = join_all(answers.collect::<Vec<_>>());
    Reply::Later(Box::pin(async move {
        body(DescribeGroupsResponse::default().with_groups(answers.await))
    }))
}

fn refused(group_id: &str, error: ErrorCode) -> WireGroup {
    WireGroup::default().with_group_id(wire_group_id(group_id)).with_error_code(error.code())
}

fn row(group: DescribedGroup, version: i16, operations: i32) -> WireGroup {
    let message = group.error_message.as_deref().filter(|_| version >= UNKNOWN_GROUP_SINCE);
    let operations = if group.error.is_none() { operations } else { operations::NOT_ASKED };
    WireGroup::default()
        .with_error_code(group.error.code())
        .with_error_message(message.map(text))
        .with_group_id(wire_group_id(&group.group_id))
        .with_group_state(text(group.state.name()))
        .with_protocol_type(text(&group.protocol_type))
        .with_protocol_data(text(&group.protocol_data))
        .with_members(group.members.into_iter().map(member).collect())
        .with_authorized_operations(operations)
}

fn member(member: DescribedMember) -> DescribedGroupMember {
    DescribedGroupMember::default()
        .with_member_id(text(&member.member_id))
        .with_group_instance_id(member.group_instance_id.as_deref().map(text))
        .with_client_id(text(&member.client.client_id))
        .with_client_host(text(&member.client.client_host))
        .with_member_metadata(member.metadata)
        .with_member_assignment(member.assignment)
}
