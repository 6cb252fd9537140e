//! LeaveGroup: members go, or an administrator sends them away.

use std::sync::Arc;

use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{ApiKey, LeaveGroupRequest, LeaveGroupResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::groups::{ask, body, owned, shared};
use super::common::wire::{reply, text};
use crate::context::{RequestContext, Services};
use crate::coordinator::group::event::{LeaveGroup, LeaveGroupReply, LeavingMember, LeftMember};

/// Versions:
/// - 0: one member
/// - 1: throttle time
/// - 2: throttled answers go out before the connection is muted (KIP-219)
/// - 3: many members, also by their static name (KIP-345)
/// - 4: flexible
/// - 5: why (KIP-800)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::LeaveGroup, 0..=5);

/// From this version on many members may leave at once.
const MANY_MEMBERS_SINCE: i16 = 3;

/// Hands the request to the group.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: LeaveGroupRequest,
) -> Reply {
    let version = context.api_version;
    if request.group_id.is_empty() {
        return reply(response(refused(ErrorCode::InvalidGroupId), version));
    }
    let group_id = shared(&request.group_id);
    let leave = LeaveGroup { group_id: group_id.clone(), members: members(request, version) };
    let answer = ask!(services, &group_id, LeaveGroup(leave));
    Reply::Later(Box::pin(
        async move { body(response(answer.await.unwrap_or_else(refused), version)) },
    ))
}

fn members(request: LeaveGroupRequest, version: i16) -> Vec<LeavingMember> {
    if version < MANY_MEMBERS_SINCE {
        let member_id = shared(&request.member_id);
        return vec![LeavingMember { member_id, group_instance_id: None, reason: None }];
    }
    let members = request.members.into_iter().map(|member| LeavingMember {
        member_id: shared(&member.member_id),
        group_instance_id: owned(member.group_instance_id.as_ref()),
        reason: owned(member.reason.as_ref()),
    });
    members.collect()
}

fn refused(error: ErrorCode) -> LeaveGroupReply {
    LeaveGroupReply { error, members: Vec::new() }
}

fn response(answer: LeaveGroupReply, version: i16) -> LeaveGroupResponse {
    if version < MANY_MEMBERS_SINCE {
        let of_the_one = answer.members.first().map_or(ErrorCode::None, |member| member.error);
        let error = if answer.error.is_none() { of_the_one } else { answer.error };
        return LeaveGroupResponse::default().with_error_code(error.code());
    }
    let member = |member: LeftMember| {
        MemberResponse::default()
            .with_member_id(text(&member.member_id))
            .with_group_instance_id(member.group_instance_id.as_deref().map(text))
            .with_error_code(member.error.code())
    };
    LeaveGroupResponse::default()
        .with_error_code(answer.error.code())
        .with_members(answer.members.into_iter().map(member).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_the_one_member_is_the_answer_before_version_three() {
        let left = LeftMember {
            member_id: shared("m"),
            group_instance_id: None,
            error: ErrorCode::UnknownMemberId,
        };
        let answer = LeaveGroupReply { error: ErrorCode::None, members: vec![left] };
        let old = response(answer.clone(), 2);
        assert_eq!((old.error_code, old.members.len()), (25, 0));
        let new = response(answer, 3);
        assert_eq!((new.error_code, new.members[0].error_code), (0, 25));
    }
}
