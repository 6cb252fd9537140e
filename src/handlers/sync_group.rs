//! SyncGroup: a member waits for its assignment; the leader brings everyone's.

use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::{ApiKey, SyncGroupRequest, SyncGroupResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::groups::{ask, body, owned, shared};
use super::common::wire::{reply, text};
use crate::context::{RequestContext, Services};
use crate::coordinator::group::event::{SyncGroup, SyncGroupReply};

/// Versions:
/// - 0:
/// - 1: throttle time
/// - 2: throttled answers go out before the connection is muted (KIP-219)
/// - 3: static members (KIP-345)
/// - 4: flexible
/// - 5: protocol type and name, in request and answer (KIP-559)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::SyncGroup, 0..=5);

/// From this version on a request names protocol type and name.
const PROTOCOL_SINCE: i16 = 5;

/// Hands the request to the group.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: SyncGroupRequest,
) -> Reply {
    let names_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if context.api_version >= PROTOCOL_SINCE && !names_protocol {
        return reply(response(refused(ErrorCode::InconsistentGroupProtocol)));
    }
    if request.group_id.is_empty() {
        return reply(response(refused(ErrorCode::InvalidGroupId)));
    }
    let group_id = shared(&request.group_id);
    let assignments = request.assignments.into_iter();
    let sync = SyncGroup {
        group_id: group_id.clone(),
        generation_id: request.generation_id,
        member_id: shared(&request.member_id),
        group_instance_id: owned(request.group_instance_id.as_ref()),
        protocol_type: owned(request.protocol_type.as_ref()),
        protocol_name: owned(request.protocol_name.as_ref()),
        assignments: assignments.map(|row| (shared(&row.member_id), row.assignment)).collect(),
    };
    let answer = ask!(services, &group_id, SyncGroup(sync));
    Reply::Later(Box::pin(async move { body(response(answer.await.unwrap_or_else(refused))) }))
}

fn refused(error: ErrorCode) -> SyncGroupReply {
    SyncGroupReply { error, protocol_type: None, protocol_name: None, assignment: Bytes::new() }
}

fn response(answer: SyncGroupReply) -> SyncGroupResponse {
    SyncGroupResponse::default()
        .with_error_code(answer.error.code())
        .with_protocol_type(answer.protocol_type.as_deref().map(text))
        .with_protocol_name(answer.protocol_name.as_deref().map(text))
        .with_assignment(answer.assignment)
}
