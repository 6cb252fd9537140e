//! The group coordinator's machine: consumer groups and their offsets, as a [`Shard`] for each
//! partition of `__consumer_offsets`.
//!
//! A request comes in by [`event`], is decided by `classic`, `consumer`, `offsets` or `admin` on
//! what the log says ([`hard`]) and on what it does not say ([`soft`]), and what is to last goes
//! out as [`record`]s.
//!
//! Pure: no I/O, no clock, no randomness.

mod admin;
mod assignor;
mod classic;
mod codec;
pub mod config;
mod consumer;
pub mod event;
pub mod hard;
pub mod limits;
mod offsets;
pub mod record;
mod rewind;
pub mod soft;
#[cfg(test)]
mod tests;
pub mod topics;

use protocol::error_code::ErrorCode;

use self::classic::{ClassicGroup, prepare_rebalance, schedule_session, sync_error};
use self::event::{
    GroupId, GroupReply, GroupRequest, Heartbeat, LeaveGroup, LeaveGroupReply, LeftMember,
    SyncGroup,
};
pub use self::hard::GroupHard;
use self::hard::HardConsumerGroup;
pub use self::record::GroupRecord;
use self::soft::Decision;
pub use self::soft::{GroupSoft, GroupTimer};
use super::shard::{Effect, Event, KeyValue, Now, RequestToken, Shard};

/// The machine.
#[derive(Debug, PartialEq, Eq)]
pub struct GroupShard;

impl Shard for GroupShard {
    type Hard = GroupHard;
    type Soft = GroupSoft;
    type Request = GroupRequest;
    type Reply = GroupReply;
    type Record = GroupRecord;
    type Timer = GroupTimer;

    fn decide(
        hard: &GroupHard,
        soft: &mut GroupSoft,
        now: Now,
        event: Event<Self>,
        effects: &mut Vec<Effect<Self>>,
    ) {
        let cx = &mut Decision { config: soft.config.clone(), now, effects };
        match event {
            Event::Loaded => on_loaded(cx, hard, soft),
            Event::Request(token, request) => on_request(cx, hard, soft, token, request),
            Event::Timer(timer) => on_timer(cx, hard, soft, &timer),
        }
    }

    fn replay(hard: &mut GroupHard, record: &GroupRecord) {
        hard.replay(record);
    }

    fn snapshot(hard: &GroupHard) -> Vec<GroupRecord> {
        hard.snapshot()
    }

    fn encode(record: &GroupRecord) -> KeyValue {
        record::encode(record)
    }

    fn decode(record: &KeyValue) -> Result<Option<GroupRecord>, String> {
        record::decode(record)
    }
}

/// The sessions of all members begin anew: they had no coordinator to report to.
fn on_loaded(cx: &mut Decision<'_>, hard: &GroupHard, soft: &mut GroupSoft) {
    for (group_id, durable) in hard.groups() {
        if let Some(consumer) = &durable.consumer {
            consumer::on_loaded(cx, group_id, consumer);
            continue;
        }
        if durable.classic.as_ref().is_none_or(|metadata| metadata.members.is_empty()) {
            continue;
        }
        let Some(mut group) = soft.take(hard, group_id) else { continue };
        for member_id in group.members().keys() {
            schedule_session(cx, &group, member_id);
        }
        if group.members().len() > cx.config.max_size {
            prepare_rebalance(cx, &mut group);
        }
        soft.put_back(group);
    }
    schedule_expiry(cx);
}

fn schedule_expiry(cx: &mut Decision<'_>) {
    let interval_ms = cx.config.offsets_retention_check_interval_ms;
    cx.set_timer(GroupTimer::ExpireOffsets, interval_ms);
}

fn on_request(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: GroupRequest,
) {
    match request {
        GroupRequest::JoinGroup(request) => classic::on_join(cx, hard, soft, token, &request),
        GroupRequest::SyncGroup(request) => on_sync(cx, hard, soft, token, &request),
        GroupRequest::Heartbeat(request) => on_heartbeat(cx, hard, soft, token, &request),
        GroupRequest::LeaveGroup(request) => on_leave(cx, hard, soft, token, &request),
        GroupRequest::DescribeGroup(request) => admin::on_describe(cx, hard, soft, token, &request),
        GroupRequest::DeleteGroup(group_id) => admin::on_delete(cx, hard, soft, token, &group_id),
        GroupRequest::ListGroups(request) => admin::on_list(cx, hard, soft, token, &request),
        GroupRequest::OffsetCommit(request) => offsets::on_commit(cx, hard, soft, token, &request),
        GroupRequest::Rewind(request) => rewind::on_rewind(cx, hard, soft, token, &request),
        GroupRequest::OffsetFetch(request) => offsets::on_fetch(cx, hard, token, &request),
        GroupRequest::OffsetDelete(request) => offsets::on_delete(cx, hard, soft, token, &request),
        GroupRequest::ConsumerGroupHeartbeat(request) => {
            consumer::on_heartbeat(cx, hard, soft, token, &request);
        }
        GroupRequest::ConsumerGroupDescribe(group_id) => {
            consumer::on_describe(cx, hard, soft, token, &group_id);
        }
        GroupRequest::Configure(config) => {
            let before_ms = cx.config.offsets_retention_check_interval_ms;
            let is_another = before_ms != config.offsets_retention_check_interval_ms;
            soft.config = config;
            cx.config = soft.config.clone();
            if is_another {
                schedule_expiry(cx);
            }
            cx.reply(token, GroupReply::Done);
        }
        GroupRequest::TopicsChanged(topics) => {
            soft.topics = topics;
            soft.topics_version += 1;
            cx.reply(token, GroupReply::Done);
        }
        GroupRequest::TopicsDeleted(topics) => {
            offsets::on_topics_deleted(cx, hard, &topics);
            cx.reply_durable(token, GroupReply::Done);
        }
    }
}

fn on_sync(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: &SyncGroup,
) {
    if request.group_id.is_empty() {
        return cx.reply(token, sync_error(ErrorCode::InvalidGroupId));
    }
    if let Some(group) = consumer_group(hard, &request.group_id) {
        if let Err(error) = consumer::on_classic_sync(cx, group, soft, token, request) {
            cx.reply(token, sync_error(error));
        }
        return;
    }
    match soft.take(hard, &request.group_id) {
        Some(mut group) => {
            classic::on_sync(cx, &mut group, token, request);
            soft.put_back(group);
        }
        None => cx.reply(token, sync_error(ErrorCode::UnknownMemberId)),
    }
}

fn on_heartbeat(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: &Heartbeat,
) {
    let error = if request.group_id.is_empty() {
        ErrorCode::InvalidGroupId
    } else if let Some(group) = consumer_group(hard, &request.group_id) {
        let answer = consumer::on_classic_heartbeat(cx, group, soft, request);
        answer.err().unwrap_or(ErrorCode::None)
    } else {
        soft.look(hard, &request.group_id, |group| classic::on_heartbeat(cx, group, request))
            .unwrap_or(ErrorCode::UnknownMemberId)
    };
    cx.reply(token, GroupReply::Heartbeat(error));
}

fn on_leave(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    token: RequestToken,
    request: &LeaveGroup,
) {
    if request.group_id.is_empty() {
        let reply = LeaveGroupReply { error: ErrorCode::InvalidGroupId, members: Vec::new() };
        return cx.reply(token, GroupReply::LeaveGroup(reply));
    }
    if let Some(group) = consumer_group(hard, &request.group_id) {
        return consumer::on_classic_leave(cx, group, soft, token, request);
    }
    if let Some(mut group) = soft.take(hard, &request.group_id) {
        classic::on_leave(cx, &mut group, token, request);
        return soft.put_back(group);
    }
    let unknown = request.members.iter().map(|leaving| LeftMember {
        member_id: leaving.member_id.clone(),
        group_instance_id: leaving.group_instance_id.clone(),
        error: ErrorCode::UnknownMemberId,
    });
    let reply = LeaveGroupReply { error: ErrorCode::None, members: unknown.collect() };
    cx.reply(token, GroupReply::LeaveGroup(reply));
}

/// The KIP-848 group of that name, if it has members.
fn consumer_group<'a>(hard: &'a GroupHard, group_id: &str) -> Option<&'a HardConsumerGroup> {
    let group = hard.group(group_id)?.consumer.as_deref()?;
    Some(group).filter(|group| !group.members.is_empty())
}

fn on_timer(cx: &mut Decision<'_>, hard: &GroupHard, soft: &mut GroupSoft, timer: &GroupTimer) {
    match timer {
        GroupTimer::ClassicSession(group_id, member_id) => {
            with_classic(hard, soft, group_id, |group| {
                classic::on_session_expired(cx, group, member_id);
            });
        }
        GroupTimer::ClassicJoin(group_id) => {
            with_classic(hard, soft, group_id, |group| classic::on_join_timer(cx, group));
        }
        GroupTimer::ClassicSync(group_id) => {
            with_classic(hard, soft, group_id, |group| classic::on_sync_timer(cx, group));
        }
        GroupTimer::ConsumerSession(group_id, member_id)
        | GroupTimer::ConsumerJoin(group_id, member_id)
        | GroupTimer::ConsumerSync(group_id, member_id) => {
            consumer::on_session_expired(cx, hard, soft, group_id, member_id);
        }
        GroupTimer::ConsumerRebalance(group_id, member_id) => {
            consumer::on_rebalance_expired(cx, hard, soft, group_id, member_id);
        }
        GroupTimer::ExpireOffsets => {
            offsets::expire(cx, hard, soft);
            schedule_expiry(cx);
        }
    }
}

fn with_classic(
    hard: &GroupHard,
    soft: &mut GroupSoft,
    group_id: &GroupId,
    change: impl FnOnce(&mut ClassicGroup),
) {
    if let Some(mut group) = soft.take(hard, group_id) {
        change(&mut group);
        soft.put_back(group);
    }
}
