//! The part of scripts that KIP-848 groups need: topics of one letter each (`topics t=3`), reports
//! of members (`report g m 0 topics=t`), and how records and replies of such groups are shown.

use std::fmt::Write as _;
use std::sync::Arc;

use protocol::types::{PartitionId, TopicId};
use storage::testing::script::Command;
use uuid::Uuid;

use super::print::or_dash;
use crate::coordinator::group::event::{
    Client, ConsumerGroupHeartbeat, DescribedConsumerGroup, GroupId, GroupReply, GroupRequest,
    MemberId, NamedPartitions, TopicIdPartitions, TopicShape, TopicsSnapshot,
};
use crate::coordinator::group::record::{
    ConsumerMember, CurrentAssignment, GroupRecord, OwnedPartitions, Partitions,
};

/// A topic's id: its letter, and how often it was made anew.
fn topic_id(letter: &str, incarnation: u128) -> TopicId {
    TopicId(Uuid::from_u128(incarnation << 8 | u128::from(letter.as_bytes()[0])))
}

fn topic_name(topic_id: TopicId) -> String {
    let number = topic_id.0.as_u128();
    let letter = char::from((number & 0xff) as u8);
    match number >> 8 {
        0 => letter.to_string(),
        incarnation => format!("{letter}'{incarnation}"),
    }
}

/// `t:3 u:2/1`: partition counts, and incarnations.
pub(super) fn topics(command: &Command) -> GroupRequest {
    let topics = command.args().iter().map(|word| {
        let (name, shape) = word.split_once(':').unwrap();
        let (count, incarnation) = shape.split_once('/').unwrap_or((shape, "0"));
        let shape = TopicShape {
            topic_id: topic_id(name, incarnation.parse().unwrap()),
            partition_count: count.parse().unwrap(),
            racks: Vec::new(),
        };
        (name.to_owned(), shape)
    });
    GroupRequest::TopicsChanged(Arc::new(TopicsSnapshot::new(topics)))
}

/// `t:0+1/u:2`, or `-` for nothing.
fn owned(text: &str) -> Vec<TopicIdPartitions> {
    let topics = text.split('/').filter_map(|part| part.split_once(':'));
    topics
        .map(|(name, partitions)| TopicIdPartitions {
            topic_id: topic_id(name, 0),
            partitions: partitions.split('+').map(|p| PartitionId(p.parse().unwrap())).collect(),
        })
        .collect()
}

/// What a member reports. One that joins says all that a client says.
pub(super) fn report(command: &Command, new_member_id: String) -> GroupRequest {
    let word = |text: String| if text == "-" { String::new() } else { text };
    let member_epoch: i32 = command.arg(2);
    let joins = member_epoch == 0;
    let names = |text: String| {
        text.split(',').filter(|name| !name.is_empty() && *name != "-").map(str::to_owned).collect()
    };
    let regex: Option<String> = command.option("regex").map(word);
    let topics: Option<Vec<String>> = command.option("topics").map(names);
    GroupRequest::ConsumerGroupHeartbeat(ConsumerGroupHeartbeat {
        group_id: GroupId::from(word(command.arg(0))),
        member_id: MemberId::from(word(command.arg(1))),
        new_member_id,
        member_epoch,
        instance_id: command.option("instance").map(word),
        rack_id: command.option("rack").map(word),
        rebalance_timeout_ms: command.option("rebalance").unwrap_or(if joins {
            60_000
        } else {
            -1
        }),
        subscribed_topic_names: topics.or_else(|| {
            (joins && regex.is_none() && !command.has("nothing")).then(|| vec!["t".to_owned()])
        }),
        subscribed_topic_regex: regex,
        server_assignor: command.option("assignor"),
        topic_partitions: match command.option::<String>("owned") {
            Some(text) => Some(owned(&text)),
            None => (joins && !command.has("unowned")).then(Vec::new),
        },
        client: Client { client_id: "c".to_owned(), client_host: "/host".to_owned() },
        requires_own_member_id: !command.has("v0"),
    })
}

pub(super) fn record(record: &GroupRecord) -> String {
    match record {
        GroupRecord::Consumer(group, Some(metadata)) => format!("epoch {group} {}", metadata.epoch),
        GroupRecord::Consumer(group, None) => format!("epoch {group} gone"),
        GroupRecord::ConsumerMember(group, id, Some(member)) => {
            format!("member {group} {id}{}", described_member(member))
        }
        GroupRecord::ConsumerMember(group, id, None) => format!("member {group} {id} gone"),
        GroupRecord::TargetMetadata(group, Some(metadata)) => {
            format!("target epoch {group} {} at {}", metadata.epoch, metadata.timestamp)
        }
        GroupRecord::TargetMetadata(group, None) => format!("target epoch {group} gone"),
        GroupRecord::Target(group, id, Some(target)) => {
            format!("target {group} {id} {}", partitions(target))
        }
        GroupRecord::Target(group, id, None) => format!("target {group} {id} gone"),
        GroupRecord::Current(group, id, Some(current)) => {
            format!("current {group} {id} {}", described_current(current))
        }
        GroupRecord::Current(group, id, None) => format!("current {group} {id} gone"),
        GroupRecord::Regex(group, regex, Some(resolved)) => {
            let topics = resolved.topics.iter().cloned().collect::<Vec<_>>().join("+");
            format!("regex {group} {regex} = {}", or_dash(&topics))
        }
        GroupRecord::Regex(group, regex, None) => format!("regex {group} {regex} gone"),
        GroupRecord::Offset { .. }
        | GroupRecord::BeforeRewind { .. }
        | GroupRecord::Classic(..) => String::new(),
    }
}

fn described_member(member: &ConsumerMember) -> String {
    let mut line = String::new();
    let mut add = |name: &str, text: Option<&str>| {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let _ = write!(line, " {name}={text}");
        }
    };
    add("instance", member.instance_id.as_deref());
    add("rack", member.rack_id.as_deref());
    add("topics", Some(&member.subscribed_topic_names.join("+")));
    add("regex", member.subscribed_topic_regex.as_deref());
    add("assignor", member.server_assignor.as_deref());
    if let Some(classic) = &member.classic {
        let names: Vec<&str> = classic.protocols.iter().map(|p| p.name.as_str()).collect();
        add("classic", Some(&names.join("+")));
    }
    line
}

fn described_current(current: &CurrentAssignment) -> String {
    let mut line = format!(
        "epoch {} after {} {:?} {}",
        current.member_epoch,
        current.previous_member_epoch,
        current.state,
        owned_partitions(&current.assigned)
    );
    if !current.pending_revocation.is_empty() {
        let _ = write!(line, " revoking {}", owned_partitions(&current.pending_revocation));
    }
    line
}

/// `t:0+1@5`: each run of partitions with the epoch that it was got in.
fn owned_partitions(owned: &OwnedPartitions) -> String {
    let topics = owned.iter().map(|(&id, partitions)| {
        let partitions: Vec<String> =
            partitions.iter().map(|(partition, epoch)| format!("{partition}@{epoch}")).collect();
        format!("{}:{}", topic_name(id), partitions.join("+"))
    });
    or_dash(&topics.collect::<Vec<_>>().join("/")).to_owned()
}

fn partitions(target: &Partitions) -> String {
    let topics = target.iter().map(|(&id, partitions)| numbered(&topic_name(id), partitions));
    or_dash(&topics.collect::<Vec<_>>().join("/")).to_owned()
}

fn numbered<'a>(topic: &str, partitions: impl IntoIterator<Item = &'a PartitionId>) -> String {
    let partitions: Vec<String> = partitions.into_iter().map(PartitionId::to_string).collect();
    format!("{topic}:{}", partitions.join("+"))
}

pub(super) fn reply(reply: &GroupReply) -> String {
    match reply {
        GroupReply::ConsumerGroupHeartbeat(reply) if reply.error.is_none() => {
            let mut line = format!(
                "epoch {} as {}",
                reply.member_epoch,
                reply.member_id.as_deref().unwrap_or("-")
            );
            if let Some(assignment) = &reply.assignment {
                let topics = assignment.iter();
                let topics = topics.map(|t| numbered(&topic_name(t.topic_id), &t.partitions));
                let topics = topics.collect::<Vec<_>>().join("/");
                let _ = write!(line, " owns {}", or_dash(&topics));
            }
            line
        }
        GroupReply::ConsumerGroupHeartbeat(reply) => {
            format!("{}: {}", reply.error, reply.error_message.as_deref().unwrap_or_default())
        }
        GroupReply::ConsumerGroupDescribe(group) => described(group),
        _ => String::new(),
    }
}

fn described(group: &DescribedConsumerGroup) -> String {
    if !group.error.is_none() {
        let message = group.error_message.as_deref().unwrap_or_default();
        return format!("{}: {message}", group.error);
    }
    let named = |all: &[NamedPartitions]| {
        let topics = all.iter().map(|t| numbered(&t.topic, &t.partitions));
        or_dash(&topics.collect::<Vec<_>>().join("/")).to_owned()
    };
    let members = group.members.iter().map(|member| {
        format!(
            "\n{}{} epoch {} wants {} {} owns {} target {}",
            member.member_id,
            if member.is_classic { " (classic)" } else { "" },
            member.member_epoch,
            or_dash(&member.subscribed_topic_names.join("+")),
            or_dash(&member.subscribed_topic_regex),
            named(&member.assignment),
            named(&member.target_assignment),
        )
    });
    format!(
        "{} epoch {} target epoch {} {}{}",
        group.state.name(),
        group.group_epoch,
        group.assignment_epoch,
        group.assignor_name,
        members.collect::<String>()
    )
}
