//! A classic group, described.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::Bytes;
use protocol::error_code::ErrorCode;

use super::state::ClassicGroup;
use crate::coordinator::group::event::{DescribedGroup, DescribedMember, GroupState};

/// Everything about the group; the members' bytes only while it is stable, as Kafka does.
pub(crate) fn describe(group: &ClassicGroup) -> DescribedGroup {
    let is_stable = group.is_in(GroupState::Stable);
    let protocol_name = group.protocol_name.as_deref().filter(|_| is_stable);
    let members = group.members().iter().map(|(member_id, member)| DescribedMember {
        member_id: member_id.clone(),
        group_instance_id: member.group_instance_id.clone(),
        client: member.client.clone(),
        metadata: if is_stable { member.metadata(protocol_name) } else { Bytes::new() },
        assignment: if is_stable { member.assignment.clone() } else { Bytes::new() },
    });
    DescribedGroup {
        error: ErrorCode::None,
        error_message: None,
        group_id: group.group_id.clone(),
        state: group.state(),
        protocol_type: group.protocol_type.clone().unwrap_or_default(),
        protocol_data: protocol_name.unwrap_or_default().to_owned(),
        members: members.collect(),
    }
}
