//! How scripts show records and replies: one line each, what is empty left out.

use std::fmt::Display;
use std::fmt::Write as _;

use bytes::Bytes;
use protocol::consumer_protocol::{Assignment, Subscription};
use protocol::error_code::ErrorCode;
use protocol::types::Offset;

use crate::coordinator::group::event::{
    DescribedGroup, GroupReply, JoinGroupReply, RewindOutcome, RewindReply, TopicErrors,
};
use crate::coordinator::group::record::{ClassicMetadata, GroupRecord};

pub(super) fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

fn joined<T: Display>(parts: impl IntoIterator<Item = T>, separator: &str) -> String {
    parts.into_iter().map(|part| part.to_string()).collect::<Vec<_>>().join(separator)
}

/// Topics of a consumer's subscription, or the bytes as text.
fn metadata(bytes: &Bytes) -> String {
    match Subscription::decode(bytes) {
        Ok(subscription) => subscription.topics.join("+"),
        Err(_) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Partitions of a consumer's assignment, or the bytes as text.
fn text(bytes: &Bytes) -> String {
    let Ok(assignment) = Assignment::decode(bytes) else {
        return String::from_utf8_lossy(bytes).into_owned();
    };
    let topics = assignment.assigned_partitions.iter();
    let topics = topics.map(|of| format!("{}={}", of.topic, joined(&of.partitions, "+")));
    format!("!{}", joined(topics, "/"))
}

fn with_instance(member_id: &str, instance_id: Option<&String>) -> String {
    match instance_id {
        Some(instance_id) => format!("{}/{instance_id}", or_dash(member_id)),
        None => or_dash(member_id).to_owned(),
    }
}

pub(super) fn record(record: &GroupRecord) -> String {
    match record {
        GroupRecord::Offset { group_id, topic, partition, value } => {
            let key = format!("offset {} {topic}-{partition}", or_dash(group_id));
            match value {
                None => format!("{key} gone"),
                Some(value) => {
                    let mut line =
                        format!("{key} = {} at {}", value.offset, value.commit_timestamp);
                    if value.leader_epoch.0 != -1 {
                        let _ = write!(line, " epoch {}", value.leader_epoch);
                    }
                    if !value.metadata.is_empty() {
                        let _ = write!(line, " '{}'", value.metadata);
                    }
                    if let Some(expires) = value.expire_timestamp {
                        let _ = write!(line, " expires {expires}");
                    }
                    line
                }
            }
        }
        GroupRecord::BeforeRewind { group_id, topic, partition, value } => {
            let key = format!("before rewind {} {topic}-{partition}", or_dash(group_id));
            match value {
                None => format!("{key} gone"),
                Some(value) => {
                    let metadata = match value.metadata.as_str() {
                        "" => String::new(),
                        metadata => format!(" '{metadata}'"),
                    };
                    format!(
                        "{key} = {} at {}{metadata}",
                        offset(value.offset),
                        value.rewind_timestamp
                    )
                }
            }
        }
        GroupRecord::Classic(group_id, None) => format!("group {group_id} gone"),
        GroupRecord::Classic(group_id, Some(value)) => {
            format!("group {group_id} {}", classic(value))
        }
        other => super::consumer_script::record(other),
    }
}

fn offset(offset: Option<Offset>) -> String {
    offset.map_or("-".to_owned(), |offset| offset.to_string())
}

fn rewound(reply: &RewindReply) -> String {
    if let Some(refusal) = reply.refusal {
        return format!("{refusal:?}");
    }
    let rows = reply.rows.iter().map(|row| {
        let note = match row.outcome {
            RewindOutcome::Taken => String::new(),
            outcome => format!(" {outcome:?}"),
        };
        let (before, after) = (offset(row.before), offset(row.after));
        format!(" {}-{}:{before}->{after}{note}", row.topic, row.partition)
    });
    format!("{} {}{}", reply.group_type.name(), reply.epoch, rows.collect::<String>())
}

fn classic(value: &ClassicMetadata) -> String {
    let members = value.members.iter().map(|member| {
        let id = with_instance(&member.member_id, member.group_instance_id.as_ref());
        format!("{id}({}->{})", metadata(&member.subscription), text(&member.assignment))
    });
    let members = joined(members, " ");
    format!(
        "generation {} {}/{} leader {} since {} [{members}]",
        value.generation_id,
        or_dash(&value.protocol_type),
        value.protocol_name.as_deref().unwrap_or("-"),
        value.leader.as_deref().unwrap_or("-"),
        value.state_timestamp.map_or("-".to_owned(), |at| at.to_string()),
    )
}

pub(super) fn reply(reply: &GroupReply) -> String {
    match reply {
        GroupReply::JoinGroup(reply) => join(reply),
        GroupReply::SyncGroup(reply) if reply.error.is_none() => format!(
            "synced {}/{} '{}'",
            reply.protocol_type.as_deref().unwrap_or("-"),
            reply.protocol_name.as_deref().unwrap_or("-"),
            text(&reply.assignment)
        ),
        GroupReply::SyncGroup(reply) => reply.error.to_string(),
        GroupReply::Heartbeat(error) | GroupReply::DeleteGroup(error) => error.to_string(),
        GroupReply::LeaveGroup(reply) => {
            let members = reply.members.iter().map(|left| {
                let id = with_instance(&left.member_id, left.group_instance_id.as_ref());
                format!("{id}:{}", left.error)
            });
            format!("{} {}", reply.error, joined(members, " "))
        }
        GroupReply::DescribeGroup(group) => described(group),
        GroupReply::ListGroups(groups) => {
            let groups = groups.iter().map(|group| {
                format!(
                    "{} {} {} {}",
                    or_dash(&group.group_id),
                    or_dash(&group.protocol_type),
                    group.state.name(),
                    group.group_type.name()
                )
            });
            format!("{{{}}}", joined(groups, ", "))
        }
        GroupReply::OffsetCommit(reply) => rows(reply.error, &reply.topics),
        GroupReply::Rewind(reply) => rewound(reply),
        GroupReply::OffsetDelete(reply) => rows(reply.error, &reply.topics),
        GroupReply::OffsetFetch(reply) => fetched(reply),
        GroupReply::Done => "done".to_owned(),
        other => super::consumer_script::reply(other),
    }
}

fn join(reply: &JoinGroupReply) -> String {
    if !reply.error.is_none() {
        return format!("{} {}", reply.error, or_dash(&reply.member_id));
    }
    let members = reply.members.iter().map(|member| {
        let id = with_instance(&member.member_id, member.group_instance_id.as_ref());
        format!("{id}({})", metadata(&member.metadata))
    });
    format!(
        "joined generation {} as {} {}/{} leader {}{} [{}]",
        reply.generation_id,
        reply.member_id,
        reply.protocol_type.as_deref().unwrap_or("-"),
        reply.protocol_name.as_deref().unwrap_or("-"),
        reply.leader,
        if reply.skip_assignment { " skipping" } else { "" },
        joined(members, " ")
    )
}

fn described(group: &DescribedGroup) -> String {
    let members = group.members.iter().map(|member| {
        let id = with_instance(&member.member_id, member.group_instance_id.as_ref());
        let client = format!("{}@{}", member.client.client_id, member.client.client_host);
        format!("{id} {client} {}->{}", metadata(&member.metadata), text(&member.assignment))
    });
    let error = match group.error {
        ErrorCode::None => String::new(),
        error => format!("{error} '{}' ", group.error_message.as_deref().unwrap_or_default()),
    };
    format!(
        "{error}{} {} {} [{}]",
        group.state.name(),
        or_dash(&group.protocol_type),
        or_dash(&group.protocol_data),
        joined(members, ", ")
    )
}

fn rows(error: ErrorCode, topics: &[TopicErrors]) -> String {
    let rows = topics.iter().flat_map(|topic| {
        let partitions = topic.partitions.iter();
        partitions.map(|(partition, error)| format!(" {}-{partition}:{error}", topic.topic))
    });
    format!("{error}{}", joined(rows, ""))
}

fn fetched(reply: &crate::coordinator::group::event::OffsetFetchReply) -> String {
    let rows = reply.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|row| {
            let mut line = format!(" {}-{}={}", topic.topic, row.partition, row.offset);
            if row.leader_epoch.0 != -1 {
                let _ = write!(line, "/{}", row.leader_epoch);
            }
            if !row.metadata.is_empty() {
                let _ = write!(line, "'{}'", row.metadata);
            }
            if !row.error.is_none() {
                let _ = write!(line, ":{}", row.error);
            }
            line
        })
    });
    format!("{}{}", reply.error, joined(rows, ""))
}
