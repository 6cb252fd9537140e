//! Configurations of topics and of the broker, read and changed.

use std::collections::BTreeMap;

use compat_tests::Connection;
use compat_tests::batches::batch;
use compat_tests::broker::is_kafka;
use compat_tests::requests::{METADATA_VERSION, metadata, text};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::list_config_resources_response::ConfigResource;
use kafka_protocol::messages::{
    AlterConfigsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest, alter_configs_request,
};
use protocol::ErrorCode;

use crate::consumer_client::Member;
use crate::harness::{Scene, connect, error, shared};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const GROUP: i8 = 32;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const DYNAMIC_TOPIC: i8 = 1;
const DEFAULT: i8 = 5;
const DYNAMIC_GROUP: i8 = 8;

#[derive(Debug, Clone, PartialEq)]
struct Described {
    value: Option<String>,
    source: i8,
    synonyms: usize,
}

fn describe(
    connection: &mut Connection,
    kind: i8,
    name: &str,
) -> Result<BTreeMap<String, Described>, ErrorCode> {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true)
        .with_include_documentation(true);
    let result = connection.call(4, &request).results[0].clone();
    match error(result.error_code) {
        ErrorCode::None => {}
        code => return Err(code),
    }
    let rows = result.configs.into_iter().map(|config| {
        let value = config.value.map(|value| value.to_string());
        let synonyms = config.synonyms.len();
        (config.name.to_string(), Described { value, source: config.config_source, synonyms })
    });
    Ok(rows.collect())
}

fn alter(
    connection: &mut Connection,
    topic: &str,
    changes: &[(&str, i8, Option<&str>)],
) -> ErrorCode {
    alter_resource(connection, TOPIC, topic, changes)
}

pub fn alter_resource(
    connection: &mut Connection,
    kind: i8,
    name: &str,
    changes: &[(&str, i8, Option<&str>)],
) -> ErrorCode {
    let configs = changes
        .iter()
        .map(|(name, operation, value)| {
            AlterableConfig::default()
                .with_name(text(name))
                .with_config_operation(*operation)
                .with_value(value.map(text))
        })
        .collect();
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(configs);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    error(connection.call(1, &request).responses[0].error_code)
}

/// Reads a topic's config until it is as expected: Apache Kafka applies changes a moment later.
fn wait_for(connection: &mut Connection, topic: &str, key: &str, value: &str) {
    let matches = |connection: &mut Connection| {
        let described = describe(connection, TOPIC, topic).expect("described");
        described[key].value.as_deref() == Some(value)
    };
    assert!((0..2_000).any(|_| matches(connection)), "{key} of {topic} becomes {value}");
}

#[test]
fn a_topic_shows_every_config_with_its_source_and_synonyms() {
    let mut connection = connect();
    connection.create_topic_with("configs-describe", 1, &[("retention.ms", "12345")]);
    let described = describe(&mut connection, TOPIC, "configs-describe").expect("described");
    for key in [
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "max.message.bytes",
        "message.timestamp.type",
        "retention.bytes",
        "segment.bytes",
        "unclean.leader.election.enable",
    ] {
        assert_eq!(described[key].source, DEFAULT, "{key}: {:?}", described[key]);
        assert!(described[key].value.is_some(), "{key}");
    }
    let retention = &described["retention.ms"];
    assert_eq!((retention.value.as_deref(), retention.source), (Some("12345"), DYNAMIC_TOPIC));
    assert_eq!(retention.synonyms, 1, "its own; the default is another key's: {retention:?}");
}

#[test]
fn a_broker_shows_what_it_runs_with() {
    let mut connection = connect();
    let node = connection.call(METADATA_VERSION, &metadata(&[], false)).brokers[0].node_id;
    let described = describe(&mut connection, BROKER, &node.0.to_string()).expect("described");
    for (key, value) in [
        ("num.partitions", "1"),
        ("auto.create.topics.enable", "true"),
        ("log.retention.hours", "168"),
        ("message.max.bytes", "1048588"),
    ] {
        assert_eq!(described[key].value.as_deref(), Some(value), "{key}");
    }
}

#[test]
fn what_does_not_exist_cannot_be_described() {
    let mut connection = connect();
    let refused = describe(&mut connection, TOPIC, "configs-unknown");
    assert_eq!(refused, Err(ErrorCode::UnknownTopicOrPartition));
    assert!(describe(&mut connection, BROKER, "4711").is_err());
    assert!(describe(&mut connection, BROKER, "not a number").is_err());
}

#[test]
fn a_change_takes_effect_and_can_be_taken_back() {
    let mut connection = connect();
    connection.create_topic("configs-change", 1);
    let large = batch(&["x".repeat(2_000)]);
    connection.append("configs-change", 0, large.clone());
    let set = [("max.message.bytes", SET, Some("1000"))];
    assert_eq!(alter(&mut connection, "configs-change", &set), ErrorCode::None);
    wait_for(&mut connection, "configs-change", "max.message.bytes", "1000");
    let refused = connection.produce("configs-change", 0, large.clone());
    assert_eq!(error(refused.error_code), ErrorCode::MessageTooLarge);
    let delete = [("max.message.bytes", DELETE, None)];
    assert_eq!(alter(&mut connection, "configs-change", &delete), ErrorCode::None);
    wait_for(&mut connection, "configs-change", "max.message.bytes", "1048588");
    connection.append("configs-change", 0, large);
}

#[test]
fn lists_are_appended_to() {
    let mut connection = connect();
    connection.create_topic("configs-list", 1);
    let append = [("cleanup.policy", APPEND, Some("compact"))];
    assert_eq!(alter(&mut connection, "configs-list", &append), ErrorCode::None);
    wait_for(&mut connection, "configs-list", "cleanup.policy", "delete,compact");
}

#[test]
fn a_wrong_change_is_refused_and_nothing_of_it_kept() {
    let mut connection = connect();
    connection.create_topic("configs-wrong", 1);
    for changes in [
        &[("retention.ms", SET, Some("1000")), ("segment.bytes", SET, Some("many"))][..],
        &[("retention.ms", SET, Some("1000")), ("no.such.key", SET, Some("1"))],
        &[("retention.ms", SET, Some("-2"))],
    ] {
        let code = alter(&mut connection, "configs-wrong", changes);
        assert_eq!(code, ErrorCode::InvalidConfig, "{changes:?}");
    }
    let described = describe(&mut connection, TOPIC, "configs-wrong").expect("described");
    assert_eq!(described["retention.ms"].source, DEFAULT);
    let code = alter(&mut connection, "configs-none", &[("retention.ms", SET, Some("1000"))]);
    assert_eq!(code, ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn alter_configs_resets_what_it_does_not_name() {
    let mut connection = connect();
    connection.create_topic_with("configs-replace", 1, &[("retention.ms", "1000")]);
    let config = alter_configs_request::AlterableConfig::default()
        .with_name(text("segment.bytes"))
        .with_value(Some(text("1048576")));
    let resource = alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text("configs-replace"))
        .with_configs(vec![config]);
    let request = AlterConfigsRequest::default().with_resources(vec![resource]);
    let response = connection.call(2, &request);
    assert_eq!(error(response.responses[0].error_code), ErrorCode::None);
    wait_for(&mut connection, "configs-replace", "segment.bytes", "1048576");
    wait_for(&mut connection, "configs-replace", "retention.ms", "604800000");
}

/// Waits until a group's key is as expected.
fn wait_for_group(connection: &mut Connection, group: &str, key: &str, expected: (&str, i8)) {
    let matches = |connection: &mut Connection| {
        let described = describe(connection, GROUP, group).expect("described");
        (described[key].value.as_deref(), described[key].source) == (Some(expected.0), expected.1)
    };
    assert!((0..2_000).any(|_| matches(connection)), "{key} of {group} becomes {expected:?}");
}

#[test]
fn members_of_a_group_are_told_the_interval_that_is_set_on_it() {
    let (key, group) = ("consumer.heartbeat.interval.ms", "configs-group");
    let mut connection = connect();
    connection.create_topic("configs-of-a-group", 1);
    let set = [(key, SET, Some("7000"))];
    assert_eq!(alter_resource(&mut connection, GROUP, group, &set), ErrorCode::None);
    wait_for_group(&mut connection, group, key, ("7000", DYNAMIC_GROUP));
    let mut member = Member::new(shared(), group, "only", "configs-of-a-group");
    let mut told = |interval_ms: i32| {
        let matches = |_| {
            let answer = member.send(member.epoch);
            member.epoch = answer.member_epoch;
            answer.heartbeat_interval_ms == interval_ms
        };
        assert!((0..10_000).any(matches), "the interval becomes {interval_ms}");
    };
    told(7_000);
    let delete = [(key, DELETE, None)];
    assert_eq!(alter_resource(&mut connection, GROUP, group, &delete), ErrorCode::None);
    wait_for_group(&mut connection, group, key, ("5000", DEFAULT));
    told(5_000);
}

#[test]
fn what_is_set_on_a_group_is_within_the_brokers_bounds() {
    let mut connection = connect();
    let mut alter = |group: &str, key: &str, value: &str| {
        alter_resource(&mut connection, GROUP, group, &[(key, SET, Some(value))])
    };
    for (key, value) in [
        ("consumer.session.timeout.ms", "44999"),
        ("consumer.session.timeout.ms", "60001"),
        ("consumer.session.timeout.ms", "long"),
        ("consumer.heartbeat.interval.ms", "4999"),
        ("consumer.assignment.interval.ms", "15001"),
        ("no.such.config", "1"),
    ] {
        assert_eq!(alter("configs-bounds", key, value), ErrorCode::InvalidConfig, "{key}={value}");
    }
    let no_name = alter("", "consumer.session.timeout.ms", "50000");
    assert_eq!(no_name, ErrorCode::InvalidRequest);
    assert_eq!(describe(&mut connection, GROUP, ""), Err(ErrorCode::InvalidRequest));
}

#[test]
fn groups_that_have_configs_are_listed_also_after_a_crash() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    let set = [("consumer.session.timeout.ms", SET, Some("50000"))];
    for group in ["b", "a", "unset"] {
        assert_eq!(alter_resource(&mut connection, GROUP, group, &set), ErrorCode::None);
    }
    let delete = [("consumer.session.timeout.ms", DELETE, None)];
    assert_eq!(alter_resource(&mut connection, GROUP, "unset", &delete), ErrorCode::None);
    let scene = scene.restart_after_kill();
    let mut connection = scene.broker.connect();
    let mut listed = |types: &[i8]| {
        let request = ListConfigResourcesRequest::default().with_resource_types(types.to_vec());
        let answer = connection.call(1, &request);
        assert_eq!(answer.error_code, 0);
        let one = |row: ConfigResource| (row.resource_type, row.resource_name.to_string());
        answer.config_resources.into_iter().map(one).collect::<Vec<_>>()
    };
    let groups = [(GROUP, "a".to_owned()), (GROUP, "b".to_owned())];
    assert_eq!(listed(&[GROUP]), groups);
    assert_eq!(listed(&[BROKER]), [(BROKER, "1".to_owned())]);
    assert_eq!(listed(&[])[2..], groups, "behind the broker and its loggers");
    wait_for_group(&mut connection, "a", "consumer.session.timeout.ms", ("50000", DYNAMIC_GROUP));
}

#[test]
fn a_change_survives_a_crash() {
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    connection.create_topic("t", 1);
    let set = [("retention.ms", SET, Some("54321"))];
    assert_eq!(alter(&mut connection, "t", &set), ErrorCode::None);
    let scene = scene.restart_after_kill();
    wait_for(&mut scene.broker.connect(), "t", "retention.ms", "54321");
}
