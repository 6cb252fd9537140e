//! CreateTopics.

use compat_tests::requests::{metadata, text, topic_name};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::{ApiKey, BrokerId, CreateTopicsRequest};

use crate::case::{Case, Memory};
use crate::setup::EMPTY;

fn topic(name: &str, partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(topic_name(name))
        .with_num_partitions(partitions)
        .with_replication_factor(replication_factor)
}

fn assigned(name: &str, assignments: &[(i32, &[i32])]) -> CreatableTopic {
    let assignments = assignments.iter().map(|(partition, brokers)| {
        CreatableReplicaAssignment::default()
            .with_partition_index(*partition)
            .with_broker_ids(brokers.iter().copied().map(BrokerId).collect())
    });
    topic(name, -1, -1).with_assignments(assignments.collect())
}

fn request(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
    CreateTopicsRequest::default().with_topics(topics).with_timeout_ms(10_000)
}

/// One refused topic.
fn refused(name: &str, topic: impl Fn(&Memory) -> CreatableTopic + Send + Sync + 'static) -> Case {
    Case::new(ApiKey::CreateTopics, name).ask(move |m| request(vec![topic(m)]))
}

/// A topic and its configs, and what Metadata says of it afterwards.
fn created(name: &str, topic: impl Fn(&Memory) -> CreatableTopic + Send + Sync + 'static) -> Case {
    Case::new(ApiKey::CreateTopics, name)
        .step("create", move |m| request(vec![topic(m)]))
        .step("describe", |m| metadata(&[&m.own("new")], false))
        .in_version(9)
        .settles()
}

fn with_configs(m: &Memory, configs: &[(&str, Option<&str>)]) -> CreatableTopic {
    let configs = configs.iter().map(|(key, value)| {
        CreatableTopicConfig::default().with_name(text(key)).with_value(value.map(text))
    });
    topic(&m.own("new"), 1, 1).with_configs(configs.collect())
}

/// A config with a value, right or wrong: the answer says which.
fn config(key: &'static str, value: Option<&'static str>) -> Case {
    let name = format!("{key}={}", value.unwrap_or("null"));
    Case::new(ApiKey::CreateTopics, name)
        .versions(7..=7)
        .ask(move |m| request(vec![with_configs(m, &[(key, value)])]).with_validate_only(true))
}

fn names() -> Vec<Case> {
    let long = "x".repeat(250);
    vec![
        refused("an empty name", |_| topic("", 1, 1)),
        refused("one dot", |_| topic(".", 1, 1)),
        refused("two dots", |_| topic("..", 1, 1)),
        refused("a space", |_| topic("bad name", 1, 1)),
        refused("a slash", |_| topic("a/b", 1, 1)),
        refused("a letter outside of ASCII", |_| topic("zähler", 1, 1)),
        refused("a name too long", move |_| topic(&long, 1, 1)),
        refused("a topic that exists", |_| topic(EMPTY, 1, 1)),
        refused("the metadata log", |_| topic("__cluster_metadata", 1, 1)),
        refused("a name that collides", |_| topic(&EMPTY.replace('-', "_"), 0, 1)),
        Case::new(ApiKey::CreateTopics, "a dot against an underscore")
            .step("first", |m| request(vec![topic(&m.own("a.b"), 1, 1)]))
            .step("second", |m| request(vec![topic(&m.own("a_b"), 1, 1)])),
        Case::new(ApiKey::CreateTopics, "one name twice")
            .ask(|m| request(vec![topic(&m.own("twice"), 1, 1), topic(&m.own("twice"), 2, 1)])),
        Case::new(ApiKey::CreateTopics, "a bad name twice")
            .ask(|_| request(vec![topic("bad name", 1, 1), topic("bad name", 2, 1)])),
        Case::new(ApiKey::CreateTopics, "good and bad ones").ask(|m| {
            request(vec![topic(&m.own("good"), 2, 1), topic("bad name", 1, 1), topic(EMPTY, 1, 1)])
        }),
        Case::new(ApiKey::CreateTopics, "no topics").ask(|_| request(vec![])),
    ]
}

fn shapes() -> Vec<Case> {
    vec![
        created("three partitions", |m| topic(&m.own("new"), 3, 1)),
        created("the broker's defaults", |m| topic(&m.own("new"), -1, -1)),
        refused("no partitions", |m| topic(&m.own("new"), 0, 1)),
        refused("minus two partitions", |m| topic(&m.own("new"), -2, 1)),
        refused("a replication factor of zero", |m| topic(&m.own("new"), 1, 0)),
        refused("a replication factor of minus two", |m| topic(&m.own("new"), 1, -2)),
        refused("more replicas than brokers", |m| topic(&m.own("new"), 1, 3)),
        refused("neither partitions nor replicas", |m| topic(&m.own("new"), 0, 0)),
        Case::new(ApiKey::CreateTopics, "only validated")
            .step("validate", |m| {
                request(vec![topic(&m.own("new"), 3, 1)]).with_validate_only(true)
            })
            .step("describe", |m| metadata(&[&m.own("new")], false))
            .in_version(9),
        Case::new(ApiKey::CreateTopics, "only validated, bad")
            .ask(|_| request(vec![topic("bad name", 3, 1)]).with_validate_only(true)),
        Case::new(ApiKey::CreateTopics, "no time")
            .ask(|m| request(vec![topic(&m.own("new"), 1, 1)]).with_timeout_ms(0)),
        Case::new(ApiKey::CreateTopics, "negative time")
            .ask(|m| request(vec![topic(&m.own("new"), 1, 1)]).with_timeout_ms(-1)),
        created("assigned", |m| assigned(&m.own("new"), &[(0, &[1]), (1, &[1])])),
        created("assigned in another order", |m| assigned(&m.own("new"), &[(1, &[1]), (0, &[1])])),
        refused("assigned with a count", |m| {
            assigned(&m.own("new"), &[(0, &[1])]).with_num_partitions(1)
        }),
        refused("assigned with a factor", |m| {
            assigned(&m.own("new"), &[(0, &[1])]).with_replication_factor(1)
        }),
        refused("assigned to an unknown broker", |m| assigned(&m.own("new"), &[(0, &[77])])),
        refused("assigned to a negative broker", |m| assigned(&m.own("new"), &[(0, &[-1])])),
        refused("assigned to one broker twice", |m| assigned(&m.own("new"), &[(0, &[1, 1])])),
        refused("assigned to nobody", |m| assigned(&m.own("new"), &[(0, &[])])),
        refused("assigned with a gap", |m| assigned(&m.own("new"), &[(0, &[1]), (2, &[1])])),
        refused("assigned from one", |m| assigned(&m.own("new"), &[(1, &[1])])),
        refused("assigned from minus one", |m| assigned(&m.own("new"), &[(-1, &[1])])),
        refused("a partition assigned twice", |m| assigned(&m.own("new"), &[(0, &[1]), (0, &[1])])),
        refused("assigned to unequal numbers", |m| {
            assigned(&m.own("new"), &[(0, &[1]), (1, &[1, 77])])
        }),
    ]
}

fn configs() -> Vec<Case> {
    let mut cases = vec![
        created("some configs", |m| {
            with_configs(m, &[("retention.ms", Some("1000")), ("cleanup.policy", Some("compact"))])
        }),
        refused("an unknown config", |m| with_configs(m, &[("no.such.config", Some("1"))])),
        refused("an unknown config without a value", |m| {
            with_configs(m, &[("no.such.config", None)])
        }),
        refused("a config without a value", |m| with_configs(m, &[("retention.ms", None)])),
        refused("a config that is no number", |m| {
            with_configs(m, &[("retention.ms", Some("long"))])
        }),
        refused("a config twice", |m| {
            with_configs(m, &[("retention.ms", Some("1")), ("retention.ms", Some("2"))])
        }),
        refused("a config with an empty name", |m| with_configs(m, &[("", Some("1"))])),
    ];
    for (key, values) in VALUES {
        cases.extend(values.iter().map(|value| config(key, Some(value))));
    }
    cases.push(config("min.insync.replicas", None));
    cases
}

/// Values at the edges of what a config takes, and beyond.
const VALUES: &[(&str, &[&str])] = &[
    (
        "cleanup.policy",
        &["", "delete", "compact", "compact,delete", "delete, compact", "x", "delete,x"],
    ),
    ("compression.type", &["producer", "uncompressed", "zstd", "none", "GZIP", ""]),
    ("compression.gzip.level", &["-1", "0", "1", "9", "10"]),
    ("compression.lz4.level", &["0", "1", "17", "18"]),
    ("compression.zstd.level", &["-131072", "-131073", "0", "22", "23"]),
    ("delete.retention.ms", &["-1", "0", "9223372036854775807", "9223372036854775808"]),
    ("file.delete.delay.ms", &["-1", "0"]),
    ("flush.messages", &["0", "1", "x"]),
    ("flush.ms", &["-1", "0"]),
    ("index.interval.bytes", &["-1", "0"]),
    ("max.compaction.lag.ms", &["0", "1"]),
    ("max.message.bytes", &["-1", "0", "2147483647", "2147483648", " 7 ", "1e3", "0x10"]),
    ("message.timestamp.type", &["CreateTime", "LogAppendTime", "createtime", ""]),
    ("message.timestamp.before.max.ms", &["-1", "0"]),
    ("message.timestamp.after.max.ms", &["-1", "0"]),
    ("min.cleanable.dirty.ratio", &["-0.1", "0", "1", "1.1", "NaN", "0.5d"]),
    ("min.compaction.lag.ms", &["-1", "0"]),
    ("min.insync.replicas", &["0", "1", "2", "-1"]),
    ("preallocate", &["true", "TRUE", "yes", "1", ""]),
    ("retention.bytes", &["-2", "-1", "0"]),
    ("retention.ms", &["-2", "-1", "0", "", "1.5"]),
    ("segment.bytes", &["-1", "0", "1", "13", "14", "1048575", "1048576"]),
    ("segment.index.bytes", &["3", "4"]),
    ("segment.jitter.ms", &["-1", "0"]),
    ("segment.ms", &["0", "1"]),
    ("unclean.leader.election.enable", &["true", "x"]),
    ("leader.replication.throttled.replicas", &["*", "0:1", "x", ""]),
    ("follower.replication.throttled.replicas", &["*", "0:1,1:1", "0:1;"]),
    ("remote.storage.enable", &["false", "true"]),
    ("local.retention.ms", &["-2", "-3", "0"]),
    ("local.retention.bytes", &["-2", "-3"]),
    ("message.format.version", &["3.0-IV1"]),
    ("message.downconversion.enable", &["true"]),
    ("num.partitions", &["1"]),
    ("log.retention.ms", &["1000"]),
    ("highwater.nothing", &["1"]),
];

pub fn cases() -> Vec<Case> {
    let mut cases = names();
    cases.extend(shapes());
    cases.extend(configs());
    cases
}
