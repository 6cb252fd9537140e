//! Scripts of the machine. A request is answered under its label (`as=`, else its member or
//! group); `(durable)` is an answer that waits for the log. New members are named `client-1`,
//! `client-2` and so on; an empty id is `-`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use protocol::consumer_protocol::{Assignment, Subscription, TopicPartitions};
use protocol::types::{LeaderEpoch, Offset, PartitionId, TopicId};
use storage::testing::script::{Command, run_scripts};

use super::harness::{Machine, Outcome};
use super::{consumer_script, print};
use crate::coordinator::group::GroupSoft;
use crate::coordinator::group::event::{
    Client, ConsumerGroupConfig, DescribeGroup, GroupConfig, GroupId, GroupRequest, Heartbeat,
    JoinGroup, JoinProtocol, LeaveGroup, LeavingMember, ListGroups, MemberId, MigrationPolicy,
    OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, OffsetDelete, OffsetFetch,
    OffsetFetchTopic, Rewind, RewindPlace, RewindTarget, RewindTo, SyncGroup,
};
use crate::coordinator::shard::When;

struct Script {
    machine: Machine,
    labels: BTreeMap<u64, String>,
    new_members: u64,
}

fn empty_or(word: &str) -> &str {
    if word == "-" { "" } else { word }
}

/// `range:t1+t2,sticky:t1`: topics for consumers, the text itself for others; behind a slash, what
/// the consumer owns (`t/t=0+1`).
fn protocols(text: &str, protocol_type: &str) -> Vec<JoinProtocol> {
    let one = |part: &str| {
        let (name, metadata) = part.split_once(':').unwrap_or((part, ""));
        let metadata = match (protocol_type, metadata.strip_prefix('!')) {
            (_, Some(raw)) => Bytes::copy_from_slice(raw.as_bytes()),
            ("consumer", None) => subscription(metadata),
            _ => Bytes::copy_from_slice(metadata.as_bytes()),
        };
        JoinProtocol { name: name.to_owned(), metadata }
    };
    text.split(',').filter(|part| !part.is_empty() && *part != "-").map(one).collect()
}

fn subscription(text: &str) -> Bytes {
    let (topics, owned) = text.split_once('/').unwrap_or((text, ""));
    let topics = topics.split('+').filter(|topic| !topic.is_empty()).map(str::to_owned).collect();
    Subscription {
        version: 1,
        topics,
        user_data: None,
        owned_partitions: named_partitions(owned),
        generation_id: -1,
        rack_id: None,
    }
    .encode()
}

/// `t=0+1`.
fn named_partitions(text: &str) -> Vec<TopicPartitions> {
    let topics = text.split('/').filter_map(|part| part.split_once('='));
    topics
        .map(|(topic, partitions)| TopicPartitions {
            topic: topic.to_owned(),
            partitions: partitions.split('+').map(|number| number.parse().unwrap()).collect(),
        })
        .collect()
}

/// The text itself, or behind an exclamation mark, partitions in the embedded protocol.
fn assignment(text: &str) -> Bytes {
    let Some(partitions) = text.strip_prefix('!') else {
        return Bytes::copy_from_slice(text.as_bytes());
    };
    let assigned_partitions = named_partitions(partitions);
    Assignment { version: 1, assigned_partitions, user_data: None }.encode()
}

/// `topic-0`.
fn partition(word: &str) -> (String, PartitionId) {
    let (topic, partition) = word.rsplit_once('-').unwrap();
    (topic.to_owned(), PartitionId(partition.parse().unwrap()))
}

fn by_topic(words: &[String]) -> Vec<(String, Vec<PartitionId>)> {
    let mut topics: Vec<(String, Vec<PartitionId>)> = Vec::new();
    for word in words {
        let (topic, partition) = partition(word);
        match topics.last_mut().filter(|(last, _)| *last == topic) {
            Some((_, partitions)) => partitions.push(partition),
            None => topics.push((topic, vec![partition])),
        }
    }
    topics
}

impl Script {
    fn new() -> Self {
        let soft = GroupSoft::new(Arc::default(), Arc::default());
        Self { machine: Machine::new(soft), labels: BTreeMap::new(), new_members: 0 }
    }

    fn run(&mut self, command: &Command) -> String {
        let request = match command.name.as_str() {
            "config" => return self.configure(command),
            "config-group" => return self.configure_group(command),
            "advance" => return self.advance(command.arg(0)),
            "reload" => {
                self.labels.clear();
                let outcomes = self.machine.reload();
                return self.show(&outcomes);
            }
            "timers" => return self.machine.timer_names().join("\n"),
            "join" => self.join(command),
            "sync" => sync(command),
            "heartbeat" => heartbeat(command),
            "leave" => leave(command),
            "describe" => GroupRequest::DescribeGroup(DescribeGroup {
                group_id: group_id(command),
                reports_unknown_group: !command.has("v5"),
            }),
            "list" => list(command),
            "delete" => GroupRequest::DeleteGroup(group_id(command)),
            "commit" => GroupRequest::OffsetCommit(commit(command)),
            "rewind" => rewind(command),
            "fetch" => fetch(command),
            "delete-offsets" => GroupRequest::OffsetDelete(OffsetDelete {
                group_id: group_id(command),
                topics: by_topic(&command.args()[1..]),
            }),
            "topics-deleted" => GroupRequest::TopicsDeleted(command.args().to_vec()),
            "topics" => consumer_script::topics(command),
            "report" => {
                self.new_members += u64::from(command.arg::<String>(1) == "-");
                consumer_script::report(command, format!("new-{}", self.new_members))
            }
            "describe-consumer" => GroupRequest::ConsumerGroupDescribe(group_id(command)),
            _ => command.unknown(),
        };
        let words = command.args();
        let label = command.option::<String>("as").unwrap_or_else(|| match words.get(1) {
            Some(member) if !member.contains(['@', '/']) => member.clone(),
            _ => words.first().cloned().unwrap_or_default(),
        });
        let token = self.labels.len() as u64 + 1;
        self.labels.insert(token, label);
        let outcomes = self.machine.request(token, request);
        self.show(&outcomes)
    }

    fn show(&self, outcomes: &[Outcome]) -> String {
        outcomes.iter().map(|outcome| self.line(outcome)).collect::<Vec<_>>().join("\n")
    }

    fn line(&self, outcome: &Outcome) -> String {
        match outcome {
            Outcome::Appended(records) => {
                let lines: Vec<String> =
                    records.iter().map(|record| format!("+ {}", print::record(record))).collect();
                lines.join("\n")
            }
            Outcome::Replied(token, reply, when) => {
                let label = self.labels.get(&token.0).map_or("?", String::as_str);
                let when = if *when == When::Durable { " (durable)" } else { "" };
                format!("{label}: {}{when}", print::reply(reply))
            }
        }
    }

    fn advance(&mut self, ms: i64) -> String {
        let mut lines = Vec::new();
        let mut last = self.machine.now_ms;
        for (at, outcome) in self.machine.advance(ms) {
            if at != last {
                lines.push(format!("at {at}"));
                last = at;
            }
            lines.push(self.line(&outcome));
        }
        lines.join("\n")
    }

    fn configure(&mut self, command: &Command) -> String {
        let mut config = GroupConfig::clone(&self.machine.soft.config);
        let set = |key: &str, value: &mut i32| {
            if let Some(given) = command.option(key) {
                *value = given;
            }
        };
        set("delay", &mut config.initial_rebalance_delay_ms);
        set("min-session", &mut config.min_session_timeout_ms);
        set("max-session", &mut config.max_session_timeout_ms);
        set("consumer-session", &mut config.consumer_session_timeout_ms);
        set("interval", &mut config.consumer_assignment_interval_ms);
        config.consumer_max_size =
            command.option("consumer-max-size").unwrap_or(config.consumer_max_size);
        config.consumer_migration_policy = match command.option::<String>("migration").as_deref() {
            Some("disabled") => MigrationPolicy::Disabled,
            Some("downgrade") => MigrationPolicy::Downgrade,
            Some("upgrade") => MigrationPolicy::Upgrade,
            Some("bidirectional") => MigrationPolicy::Bidirectional,
            _ => config.consumer_migration_policy,
        };
        if let Some(names) = command.option::<String>("assignors") {
            config.consumer_assignors = names.split(',').map(str::to_owned).collect();
        }
        config.max_size = command.option("max-size").unwrap_or(config.max_size);
        config.offset_metadata_max_bytes =
            command.option("metadata").unwrap_or(config.offset_metadata_max_bytes);
        config.offsets_retention_ms =
            command.option("retention").unwrap_or(config.offsets_retention_ms);
        self.machine.request(0, GroupRequest::Configure(Arc::new(config)));
        String::new()
    }

    /// What is set on a KIP-848 group.
    fn configure_group(&mut self, command: &Command) -> String {
        let mut config = GroupConfig::clone(&self.machine.soft.config);
        let of_group = ConsumerGroupConfig {
            session_timeout_ms: command.option("session"),
            heartbeat_interval_ms: command.option("heartbeat"),
            assignment_interval_ms: command.option("interval"),
        };
        config.consumer_groups.insert(group_id(command), of_group);
        self.machine.request(0, GroupRequest::Configure(Arc::new(config)));
        String::new()
    }

    fn join(&mut self, command: &Command) -> GroupRequest {
        let member_id: String = command.arg(1);
        let protocol_type = command.option("type").unwrap_or_else(|| "consumer".to_owned());
        let offered = command.option("protocols").unwrap_or_else(|| "range:t".to_owned());
        if member_id == "-" {
            self.new_members += 1;
        }
        let session_timeout_ms = command.option("session").unwrap_or(10_000);
        GroupRequest::JoinGroup(JoinGroup {
            group_id: group_id(command),
            member_id: MemberId::from(empty_or(&member_id)),
            group_instance_id: command.option("instance"),
            client: Client {
                client_id: command.option("client").unwrap_or_else(|| "c".to_owned()),
                client_host: "/host".to_owned(),
            },
            new_member_id: self.new_members.to_string(),
            session_timeout_ms,
            rebalance_timeout_ms: command.option("rebalance").unwrap_or(60_000),
            protocols: protocols(&offered, &protocol_type),
            protocol_type: empty_or(&protocol_type).to_owned(),
            reason: None,
            requires_known_member_id: command.has("known"),
            supports_skipping_assignment: command.has("skip"),
        })
    }
}

fn group_id(command: &Command) -> GroupId {
    GroupId::from(empty_or(&command.arg::<String>(0)))
}

fn member_id(command: &Command) -> MemberId {
    MemberId::from(empty_or(&command.arg::<String>(1)))
}

fn sync(command: &Command) -> GroupRequest {
    let assign: String = command.option("assign").unwrap_or_default();
    let assignments = assign.split(',').filter_map(|part| {
        let (member_id, bytes) = part.split_once(':')?;
        Some((MemberId::from(member_id), assignment(bytes)))
    });
    GroupRequest::SyncGroup(SyncGroup {
        group_id: group_id(command),
        generation_id: command.arg(2),
        member_id: member_id(command),
        group_instance_id: command.option("instance"),
        protocol_type: command.option("type"),
        protocol_name: command.option("name"),
        assignments: assignments.collect(),
    })
}

fn heartbeat(command: &Command) -> GroupRequest {
    GroupRequest::Heartbeat(Heartbeat {
        group_id: group_id(command),
        generation_id: command.arg(2),
        member_id: member_id(command),
        group_instance_id: command.option("instance"),
    })
}

fn leave(command: &Command) -> GroupRequest {
    let members = command.args()[1..].iter().map(|word| {
        let (member_id, instance_id) = match word.split_once('/') {
            Some((member_id, instance_id)) => (member_id, Some(instance_id.to_owned())),
            None => (word.as_str(), None),
        };
        LeavingMember {
            member_id: MemberId::from(empty_or(member_id)),
            group_instance_id: instance_id,
            reason: None,
        }
    });
    GroupRequest::LeaveGroup(LeaveGroup { group_id: group_id(command), members: members.collect() })
}

fn list(command: &Command) -> GroupRequest {
    let words = |key: &str| {
        let text: String = command.option(key).unwrap_or_default();
        text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    GroupRequest::ListGroups(ListGroups { states: words("states"), types: words("types") })
}

/// `t-0@5`, `t-0@+5`, `t-0@-5`, within `start=` and `end=`; `before` undoes.
fn rewind(command: &Command) -> GroupRequest {
    let words = command.args()[1..].iter().filter(|word| word.contains('@'));
    let places = words.map(|word| {
        let (place, target) = word.split_once('@').unwrap();
        let (topic, partition) = partition(place);
        let number = target.parse().unwrap();
        let target = match target.starts_with(['+', '-']) {
            true => RewindTarget::Shift(number),
            false => RewindTarget::Offset(Offset(number)),
        };
        RewindPlace {
            topic,
            topic_id: TopicId::default(),
            partition,
            target,
            log_start_offset: Offset(command.option("start").unwrap_or(0)),
            end_offset: Offset(command.option("end").unwrap_or(100)),
        }
    });
    GroupRequest::Rewind(Rewind {
        group_id: group_id(command),
        to: match command.has("before") {
            true => RewindTo::Before,
            false => RewindTo::Places(places.collect()),
        },
        is_dry_run: command.has("dry"),
    })
}

/// What is committed stands behind group, member and generation.
fn commit(command: &Command) -> OffsetCommit {
    let words = command.args()[3..].iter().filter(|word| word.contains('@'));
    let topics = words.map(|word| {
        let (place, committed) = word.split_once('@').unwrap();
        let (topic, partition) = partition(place);
        let mut parts = committed.split('/');
        let offset = parts.next().unwrap().parse().unwrap();
        let metadata = parts.next().filter(|text| !text.is_empty()).map(str::to_owned);
        let epoch = parts.next().map_or(-1, |epoch| epoch.parse().unwrap());
        let row = OffsetCommitPartition {
            partition,
            offset: Offset(offset),
            leader_epoch: LeaderEpoch(epoch),
            metadata,
        };
        OffsetCommitTopic { topic, topic_id: TopicId::default(), partitions: vec![row] }
    });
    OffsetCommit {
        group_id: group_id(command),
        generation_id_or_member_epoch: command.arg(2),
        member_id: member_id(command),
        group_instance_id: command.option("instance"),
        retention_time_ms: command.option("retention"),
        supports_member_epochs: command.has("v9"),
        topics: topics.collect(),
    }
}

fn fetch(command: &Command) -> GroupRequest {
    let topics = by_topic(&command.args()[1..]).into_iter().map(|(topic, partitions)| {
        OffsetFetchTopic { topic, topic_id: TopicId::default(), partitions }
    });
    let topics: Vec<_> = topics.collect();
    GroupRequest::OffsetFetch(OffsetFetch {
        group_id: group_id(command),
        member_id: command.option::<String>("member").map(MemberId::from),
        member_epoch: command.option("epoch").unwrap_or(-1),
        topics: Some(topics).filter(|topics| !topics.is_empty()),
        require_stable: false,
    })
}

#[test]
fn scripts_print_what_kafka_would_answer() {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/src/coordinator/group/testdata");
    run_scripts(scripts, || {
        let mut script = Script::new();
        move |command: &Command| script.run(command)
    });
}
