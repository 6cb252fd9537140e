//! KIP-848 groups: members report, the coordinator assigns (Kafka: `ConsumerGroup` and the consumer
//! half of `GroupMetadataManager`). All of a group is in the log; only sessions are not.
//!
//! Pure: no I/O, no clock, no randomness.

mod classic_member;
mod describe;
mod group;
mod heartbeat;
mod leave;
mod migration;
mod offsets;
mod reconcile;
mod subscription;
mod target;

use protocol::error_code::ErrorCode;

pub(super) use self::classic_member::{
    on_classic_heartbeat, on_classic_join, on_classic_leave, on_classic_sync,
};
pub(super) use self::describe::on_describe;
pub(super) use self::group::Draft;
pub(super) use self::heartbeat::on_heartbeat;
pub(super) use self::leave::{on_rebalance_expired, on_session_expired, tombstones};
pub(super) use self::offsets::{CommitRule, validate_commit, validate_fetch};
use super::event::GroupId;
use super::event::MemberId;
use super::hard::HardConsumerGroup;
use super::record::AssignmentState;
use super::soft::{Decision, GroupTimer};

/// The epoch of a member that joins.
const JOINS: i32 = 0;
/// The epoch of a member that leaves.
const LEAVES: i32 = -1;
/// The epoch of a static member that leaves to come back soon.
const LEFT_FOR_A_WHILE: i32 = -2;

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    pub error: ErrorCode,
    pub message: String,
}

impl Refusal {
    fn new(error: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal { error, message: message.into() }
    }
}

/// The member has its session timeout from now on: its own, if it speaks the classic protocol.
fn schedule_session(
    cx: &mut Decision<'_>,
    group: &HardConsumerGroup,
    group_id: &GroupId,
    member_id: &MemberId,
) {
    let classic = group.members.get(member_id).and_then(|member| member.classic.as_ref());
    let configured_ms = cx.config.session_timeout_ms_of(group_id);
    let timeout_ms = classic.map_or(configured_ms, |classic| classic.session_timeout_ms);
    let timer = GroupTimer::ConsumerSession(group_id.clone(), member_id.clone());
    cx.set_timer(timer, i64::from(timeout_ms));
}

fn cancel_timers(cx: &mut Decision<'_>, group_id: &GroupId, member_id: &MemberId) {
    cx.cancel_timer(GroupTimer::ConsumerSession(group_id.clone(), member_id.clone()));
    cx.cancel_timer(GroupTimer::ConsumerRebalance(group_id.clone(), member_id.clone()));
    cx.cancel_timer(GroupTimer::ConsumerJoin(group_id.clone(), member_id.clone()));
    cx.cancel_timer(GroupTimer::ConsumerSync(group_id.clone(), member_id.clone()));
}

/// The member has its rebalance timeout to give partitions up, or does not have to.
fn schedule_rebalance(
    cx: &mut Decision<'_>,
    group: &HardConsumerGroup,
    group_id: &GroupId,
    member_id: &MemberId,
) {
    let timer = GroupTimer::ConsumerRebalance(group_id.clone(), member_id.clone());
    let state = group.current.get(member_id).map(|current| current.state);
    match (state, group.members.get(member_id)) {
        (Some(AssignmentState::UnrevokedPartitions), Some(member)) if member.classic.is_none() => {
            cx.set_timer(timer, i64::from(member.rebalance_timeout_ms));
        }
        _ => cx.cancel_timer(timer),
    }
}

/// The sessions of a loaded group begin anew.
pub(super) fn on_loaded(cx: &mut Decision<'_>, group_id: &GroupId, group: &HardConsumerGroup) {
    for member_id in group.members.keys() {
        schedule_session(cx, group, group_id, member_id);
        let state = group.current.get(member_id).map(|current| current.state);
        if state == Some(AssignmentState::UnrevokedPartitions) {
            schedule_rebalance(cx, group, group_id, member_id);
        }
    }
}
