//! JoinGroup: a member enters a group, and waits until the others have.

use std::sync::Arc;

use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{ApiKey, JoinGroupRequest, JoinGroupResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::groups::{ask, body, client, owned, shared};
use super::common::wire::{reply, text};
use crate::context::{RequestContext, Services};
use crate::coordinator::group::event::{
    JoinGroup, JoinGroupReply, JoinProtocol, JoinedMember, MemberId,
};
use crate::ids;

/// Versions:
/// - 0: (the session timeout is the rebalance timeout, too)
/// - 1: rebalance timeout (KIP-62)
/// - 2: throttle time
/// - 3: throttled answers go out before the connection is muted (KIP-219)
/// - 4: a new member is given its id before it joins (KIP-394)
/// - 5: static members (KIP-345)
/// - 6: flexible
/// - 7: protocol type in the answer (KIP-559)
/// - 8: why the member joins (KIP-800)
/// - 9: the leader may be told to keep its assignment (KIP-814)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::JoinGroup, 0..=9);

/// From this version on a request has a rebalance timeout of its own.
const REBALANCE_TIMEOUT_SINCE: i16 = 1;
/// From this version on a member needs an id before it joins.
const MEMBER_ID_REQUIRED_SINCE: i16 = 4;
/// From this version on no protocol is null; before, it is an empty text.
const NULL_PROTOCOL_SINCE: i16 = 7;
/// From this version on an assignment can be skipped.
const SKIP_ASSIGNMENT_SINCE: i16 = 9;

/// Hands the member to its group.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: JoinGroupRequest,
) -> Reply {
    let version = context.api_version;
    let member_id = shared(&request.member_id);
    if request.group_id.is_empty() {
        return reply(response(refused(ErrorCode::InvalidGroupId, member_id), version));
    }
    let group_id = shared(&request.group_id);
    let join = join(context, request, &member_id);
    let answer = ask!(services, &group_id, JoinGroup(join));
    Reply::Later(Box::pin(async move {
        let answer = answer.await.unwrap_or_else(|error| refused(error, member_id));
        body(response(answer, version))
    }))
}

fn join(context: &RequestContext, request: JoinGroupRequest, member_id: &MemberId) -> JoinGroup {
    let protocols = request.protocols.into_iter().map(|protocol| JoinProtocol {
        name: protocol.name.to_string(),
        metadata: protocol.metadata,
    });
    JoinGroup {
        group_id: shared(&request.group_id),
        member_id: member_id.clone(),
        group_instance_id: owned(request.group_instance_id.as_ref()),
        client: client(context),
        new_member_id: ids::new_uuid().to_string(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if context.api_version < REBALANCE_TIMEOUT_SINCE {
            request.session_timeout_ms
        } else {
            request.rebalance_timeout_ms
        },
        protocol_type: request.protocol_type.to_string(),
        protocols: protocols.collect(),
        reason: owned(request.reason.as_ref()),
        requires_known_member_id: context.api_version >= MEMBER_ID_REQUIRED_SINCE,
        supports_skipping_assignment: context.api_version >= SKIP_ASSIGNMENT_SINCE,
    }
}

fn refused(error: ErrorCode, member_id: MemberId) -> JoinGroupReply {
    JoinGroupReply {
        error,
        generation_id: -1,
        protocol_type: None,
        protocol_name: None,
        leader: shared(""),
        skip_assignment: false,
        member_id,
        members: Vec::new(),
    }
}

fn response(answer: JoinGroupReply, version: i16) -> JoinGroupResponse {
    let member = |member: JoinedMember| {
        JoinGroupResponseMember::default()
            .with_member_id(text(&member.member_id))
            .with_group_instance_id(member.group_instance_id.as_deref().map(text))
            .with_metadata(member.metadata)
    };
    let no_protocol = (version < NULL_PROTOCOL_SINCE).then(String::new);
    JoinGroupResponse::default()
        .with_error_code(answer.error.code())
        .with_generation_id(answer.generation_id)
        .with_protocol_type(answer.protocol_type.as_deref().map(text))
        .with_protocol_name(answer.protocol_name.or(no_protocol).as_deref().map(text))
        .with_leader(text(&answer.leader))
        .with_skip_assignment(answer.skip_assignment && version >= SKIP_ASSIGNMENT_SINCE)
        .with_member_id(text(&answer.member_id))
        .with_members(answer.members.into_iter().map(member).collect())
}
