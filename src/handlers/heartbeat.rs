//! Heartbeat: a member of a classic group says that it lives, and hears whether to join again.

use std::sync::Arc;

use kafka_protocol::messages::{ApiKey, HeartbeatRequest, HeartbeatResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::groups::{ask, body, owned, shared};
use super::common::wire::reply;
use crate::context::{RequestContext, Services};
use crate::coordinator::group::event::Heartbeat;

/// Versions:
/// - 0:
/// - 1: throttle time
/// - 2: throttled answers go out before the connection is muted (KIP-219)
/// - 3: static members (KIP-345)
/// - 4: flexible
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::Heartbeat, 0..=4);

/// Hands the heartbeat to the group.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: HeartbeatRequest,
) -> Reply {
    if request.group_id.is_empty() {
        return reply(response(ErrorCode::InvalidGroupId));
    }
    let group_id = shared(&request.group_id);
    let heartbeat = Heartbeat {
        group_id: group_id.clone(),
        generation_id: request.generation_id,
        member_id: shared(&request.member_id),
        group_instance_id: owned(request.group_instance_id.as_ref()),
    };
    let answer = ask!(services, &group_id, Heartbeat(heartbeat));
    Reply::Later(Box::pin(async move {
        body(response(match answer.await {
            // The sessions of all members begin anew once the group is loaded.
            Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
            Ok(error) | Err(error) => error,
        }))
    }))
}

fn response(error: ErrorCode) -> HeartbeatResponse {
    HeartbeatResponse::default().with_error_code(error.code())
}
