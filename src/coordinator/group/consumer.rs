//! KIP-848 groups.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::error_code::ErrorCode;

use super::event::{
    ConsumerGroupHeartbeatReply, DescribedConsumerGroup, GroupId, GroupReply, GroupState,
};
use super::soft::Decision;
use crate::coordinator::shard::RequestToken;

/// The protocol is not spoken yet.
pub(super) fn refuse_heartbeat(cx: &mut Decision<'_>, token: RequestToken) {
    let reply = ConsumerGroupHeartbeatReply {
        error: ErrorCode::UnsupportedVersion,
        error_message: None,
        member_id: None,
        member_epoch: 0,
        heartbeat_interval_ms: 0,
        assignment: None,
    };
    cx.reply(token, GroupReply::ConsumerGroupHeartbeat(reply));
}

/// No group speaks the protocol yet.
pub(super) fn refuse_describe(cx: &mut Decision<'_>, token: RequestToken, group_id: GroupId) {
    let reply = DescribedConsumerGroup {
        error: ErrorCode::GroupIdNotFound,
        error_message: Some(format!("Group {group_id} is not a consumer group.")),
        group_id,
        state: GroupState::Dead,
        group_epoch: 0,
        assignment_epoch: 0,
        assignor_name: String::new(),
        members: Vec::new(),
    };
    cx.reply(token, GroupReply::ConsumerGroupDescribe(reply));
}
