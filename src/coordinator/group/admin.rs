//! What administrators ask: describe, list and delete groups.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeSet;

use protocol::error_code::ErrorCode;

use super::classic::{self, ClassicGroup};
use super::consumer;
use super::event::{
    DescribeGroup, DescribedGroup, GroupId, GroupReply, GroupState, GroupType, ListGroups,
    ListedGroup,
};
use super::hard::GroupHard;
use super::offsets::{append_in_parts, forget_all};
use super::record::GroupRecord;
use super::soft::{Decision, GroupSoft};
use crate::coordinator::shard::RequestToken;

/// DescribeGroups, one group of it.
pub(super) fn on_describe(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &GroupSoft,
    token: RequestToken,
    request: &DescribeGroup,
) {
    let group_id = &request.group_id;
    let described = soft.look(hard, group_id, classic::describe).unwrap_or_else(|| {
        let (error, error_message) = match request.reports_unknown_group {
            true => {
                let why = match hard.group(group_id).is_some() {
                    true => format!("Group {group_id} is not a classic group."),
                    false => format!("Group {group_id} not found."),
                };
                (ErrorCode::GroupIdNotFound, Some(why))
            }
            false => (ErrorCode::None, None),
        };
        DescribedGroup {
            error,
            error_message,
            group_id: group_id.clone(),
            state: GroupState::Dead,
            protocol_type: String::new(),
            protocol_data: String::new(),
            members: Vec::new(),
        }
    });
    cx.reply_durable(token, GroupReply::DescribeGroup(described));
}

/// ListGroups, of this shard.
pub(super) fn on_list(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &GroupSoft,
    token: RequestToken,
    request: &ListGroups,
) {
    let group_ids: BTreeSet<&GroupId> =
        hard.groups().map(|(group_id, _)| group_id).chain(soft.classic.keys()).collect();
    let is_in = |filter: &[String], name: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
    };
    let listed = group_ids.into_iter().filter_map(|group_id| {
        let consumer = hard.group(group_id).and_then(|group| group.consumer.as_deref());
        let group = match consumer {
            Some(consumer) => ListedGroup {
                group_id: group_id.clone(),
                protocol_type: "consumer".to_owned(),
                state: consumer.state(),
                group_type: GroupType::Consumer,
            },
            None => soft.look(hard, group_id, listed)?,
        };
        let is_wanted = is_in(&request.states, group.state.name())
            && is_in(&request.types, group.group_type.name());
        is_wanted.then_some(group)
    });
    let listed = listed.collect();
    cx.reply_durable(token, GroupReply::ListGroups(listed));
}

fn listed(group: &ClassicGroup) -> ListedGroup {
    ListedGroup {
        group_id: group.group_id.clone(),
        protocol_type: group.protocol_type.clone().unwrap_or_default(),
        state: group.state(),
        group_type: GroupType::Classic,
    }
}

/// DeleteGroups, one group of it: the group and its offsets, unless it has members.
pub(super) fn on_delete(
    cx: &mut Decision<'_>,
    hard: &GroupHard,
    soft: &mut GroupSoft,
    token: RequestToken,
    group_id: &GroupId,
) {
    let consumer = hard.group(group_id).and_then(|group| group.consumer.as_deref());
    let is_empty = match consumer {
        Some(consumer) => Some(consumer.members.is_empty()),
        None => soft.look(hard, group_id, |group| group.is_in(GroupState::Empty)),
    };
    let error = match is_empty {
        None => ErrorCode::GroupIdNotFound,
        Some(false) => ErrorCode::NonEmptyGroup,
        Some(true) => {
            soft.classic.remove(group_id);
            soft.checked_topics.remove(group_id);
            delete(cx, hard, group_id);
            ErrorCode::None
        }
    };
    cx.reply_durable(token, GroupReply::DeleteGroup(error));
}

fn delete(cx: &mut Decision<'_>, hard: &GroupHard, group_id: &GroupId) {
    let Some(group) = hard.group(group_id) else { return };
    // The group's own record last: what a broken-off deletion leaves can be deleted again.
    let mut records = forget_all(group_id, group);
    if let Some(consumer) = &group.consumer {
        records.extend(consumer::tombstones(group_id, consumer));
    }
    if group.classic.is_some() {
        records.push(GroupRecord::Classic(group_id.clone(), None));
    }
    append_in_parts(cx, records);
}
