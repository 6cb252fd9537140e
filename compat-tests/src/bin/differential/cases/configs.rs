//! DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources.

use compat_tests::requests::text;
use kafka_protocol::messages::alter_configs_request as replaced;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request as changed;
use kafka_protocol::messages::{
    AlterConfigsRequest, ApiKey, DescribeConfigsRequest, IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
};

use crate::case::{Case, Memory};
use crate::setup::{COMPACTED, EMPTY};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn resource(kind: i8, name: &str, keys: Option<&[&str]>) -> DescribeConfigsResource {
    DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(keys.map(|keys| keys.iter().map(|key| text(key)).collect()))
}

fn describe(resources: Vec<DescribeConfigsResource>) -> DescribeConfigsRequest {
    DescribeConfigsRequest::default().with_resources(resources).with_include_synonyms(true)
}

fn descriptions() -> Vec<Case> {
    use ApiKey::DescribeConfigs as Api;
    vec![
        Case::new(Api, "a topic, all").ask(|_| describe(vec![resource(TOPIC, EMPTY, None)])),
        Case::new(Api, "a topic without synonyms")
            .ask(|_| describe(vec![resource(TOPIC, COMPACTED, None)]).with_include_synonyms(false)),
        Case::new(Api, "a topic, some").ask(|_| {
            let keys = ["retention.ms", "cleanup.policy", "no.such.config", "retention.ms"];
            describe(vec![resource(TOPIC, COMPACTED, Some(&keys))])
        }),
        Case::new(Api, "a topic, none").ask(|_| describe(vec![resource(TOPIC, EMPTY, Some(&[]))])),
        Case::new(Api, "a topic's documentation is there or not").versions(3..=4).ask(|_| {
            describe(vec![resource(TOPIC, EMPTY, Some(&["retention.ms"]))])
                .with_include_documentation(true)
        }),
        Case::new(Api, "an unknown topic")
            .ask(|_| describe(vec![resource(TOPIC, "no-such-topic", None)])),
        Case::new(Api, "an invalid topic")
            .ask(|_| describe(vec![resource(TOPIC, "bad name", None)])),
        Case::new(Api, "an empty topic name").ask(|_| describe(vec![resource(TOPIC, "", None)])),
        Case::new(Api, "the broker, all").ask(|_| describe(vec![resource(BROKER, "1", None)])),
        Case::new(Api, "the broker, some").ask(|_| {
            let keys = ["num.partitions", "auto.create.topics.enable", "log.retention.ms"];
            describe(vec![resource(BROKER, "1", Some(&keys))])
        }),
        Case::new(Api, "all brokers").ask(|_| describe(vec![resource(BROKER, "", None)])),
        Case::new(Api, "an unknown broker").ask(|_| describe(vec![resource(BROKER, "77", None)])),
        Case::new(Api, "a broker that is no number")
            .ask(|_| describe(vec![resource(BROKER, "one", None)])),
        Case::new(Api, "an unknown broker's loggers")
            .ask(|_| describe(vec![resource(BROKER_LOGGER, "77", None)])),
        Case::new(Api, "all brokers' loggers")
            .ask(|_| describe(vec![resource(BROKER_LOGGER, "", None)])),
        Case::new(Api, "an unknown kind").ask(|_| describe(vec![resource(99, "x", None)])),
        Case::new(Api, "kind zero").ask(|_| describe(vec![resource(0, "x", None)])),
        Case::new(Api, "a group").ask(|_| describe(vec![resource(GROUP, "nobody", None)])),
        Case::new(Api, "a group without a name").ask(|_| describe(vec![resource(GROUP, "", None)])),
        Case::new(Api, "client metrics")
            .ask(|_| describe(vec![resource(CLIENT_METRICS, "nothing", None)])),
        Case::new(Api, "client metrics without a name")
            .ask(|_| describe(vec![resource(CLIENT_METRICS, "", None)])),
        Case::new(Api, "nothing").ask(|_| describe(vec![])),
        Case::new(Api, "a topic twice").ask(|_| {
            let one = resource(TOPIC, EMPTY, Some(&["retention.ms"]));
            describe(vec![one.clone(), one])
        }),
        Case::new(Api, "good and bad ones").ask(|_| {
            describe(vec![
                resource(TOPIC, EMPTY, Some(&["retention.ms"])),
                resource(TOPIC, "no-such-topic", Some(&["retention.ms"])),
                resource(BROKER, "77", None),
            ])
        }),
    ]
}

type Change = (i8, &'static str, Option<&'static str>);

fn change(kind: i8, name: &str, changes: &[Change]) -> IncrementalAlterConfigsRequest {
    let configs = changes.iter().map(|(operation, key, value)| {
        changed::AlterableConfig::default()
            .with_name(text(key))
            .with_config_operation(*operation)
            .with_value(value.map(text))
    });
    let resource = changed::AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(configs.collect());
    IncrementalAlterConfigsRequest::default().with_resources(vec![resource])
}

/// Changes of a topic's own configs, and what they are afterwards.
fn topic_changed(name: &str, changes: &'static [Change]) -> Case {
    Case::new(ApiKey::IncrementalAlterConfigs, name)
        .topic_with("own", 1, &[("retention.ms", "7000"), ("cleanup.policy", "compact")])
        .fresh()
        .step("change", move |m| change(TOPIC, &m.own("own"), changes))
        .step("describe", |m| describe(vec![resource(TOPIC, &m.own("own"), None)]))
        .in_version(4)
        .settles()
}

fn changes() -> Vec<Case> {
    vec![
        topic_changed("set", &[(SET, "retention.ms", Some("9000"))]),
        topic_changed("set to what it is", &[(SET, "retention.ms", Some("7000"))]),
        topic_changed("set to null", &[(SET, "retention.ms", None)]),
        topic_changed("set to an empty value", &[(SET, "retention.ms", Some(""))]),
        topic_changed("set to a bad value", &[(SET, "retention.ms", Some("x"))]),
        topic_changed("set with spaces", &[(SET, "retention.ms", Some(" 12 "))]),
        topic_changed("delete", &[(DELETE, "retention.ms", None)]),
        topic_changed("delete with a value", &[(DELETE, "retention.ms", Some("7000"))]),
        topic_changed("delete what is not set", &[(DELETE, "segment.ms", None)]),
        topic_changed("delete what there is not", &[(DELETE, "no.such.config", None)]),
        topic_changed("append", &[(APPEND, "cleanup.policy", Some("delete"))]),
        topic_changed("append what is there", &[(APPEND, "cleanup.policy", Some("compact"))]),
        topic_changed("append to a number", &[(APPEND, "retention.ms", Some("1"))]),
        topic_changed("append a bad value", &[(APPEND, "cleanup.policy", Some("x"))]),
        topic_changed("append null", &[(APPEND, "cleanup.policy", None)]),
        topic_changed("subtract", &[(SUBTRACT, "cleanup.policy", Some("compact"))]),
        topic_changed(
            "subtract what is not there",
            &[(SUBTRACT, "cleanup.policy", Some("delete"))],
        ),
        topic_changed("subtract from a number", &[(SUBTRACT, "retention.ms", Some("1"))]),
        topic_changed(
            "append to an unset list",
            &[(APPEND, "leader.replication.throttled.replicas", Some("0:1"))],
        ),
        topic_changed("an unknown operation", &[(9, "retention.ms", Some("1"))]),
        topic_changed("a negative operation", &[(-1, "retention.ms", Some("1"))]),
        topic_changed("an unknown config", &[(SET, "no.such.config", Some("1"))]),
        topic_changed(
            "one config twice",
            &[(SET, "retention.ms", Some("1")), (SET, "retention.ms", Some("2"))],
        ),
        topic_changed(
            "a good and a bad one",
            &[(SET, "segment.ms", Some("600000")), (SET, "retention.ms", Some("x"))],
        ),
        topic_changed(
            "two good ones",
            &[(SET, "segment.ms", Some("600000")), (DELETE, "retention.ms", None)],
        ),
        topic_changed("nothing", &[]),
    ]
}

/// Changes of what is not there, or of what is no topic's.
fn other_changes() -> Vec<Case> {
    use ApiKey::IncrementalAlterConfigs as Api;
    let on = |name, kind, target: &'static str, changes: &'static [Change]| {
        Case::new(Api, name).ask(move |_| change(kind, target, changes))
    };
    vec![
        Case::new(Api, "only validated")
            .topic("own", 1)
            .fresh()
            .step("validate", |m| {
                let changes = [(SET, "retention.ms", Some("9000"))];
                change(TOPIC, &m.own("own"), &changes).with_validate_only(true)
            })
            .step("describe", |m| describe(vec![resource(TOPIC, &m.own("own"), None)]))
            .in_version(4),
        on("an unknown topic", TOPIC, "no-such-topic", &[(SET, "retention.ms", Some("1"))]),
        on("an invalid topic", TOPIC, "bad name", &[(SET, "retention.ms", Some("1"))]),
        on("no topic", TOPIC, "", &[(SET, "retention.ms", Some("1"))]),
        on("an unknown kind", 99, "x", &[(SET, "retention.ms", Some("1"))]),
        on("kind zero", 0, "x", &[(SET, "retention.ms", Some("1"))]),
        on("an unknown broker", BROKER, "77", &[(SET, "log.retention.ms", Some("1"))]),
        on("a broker that is no number", BROKER, "one", &[(SET, "log.retention.ms", Some("1"))]),
        on(
            "a config of brokers that cannot change",
            BROKER,
            "1",
            &[(SET, "broker.rack", Some("x"))],
        ),
        on(
            "a config of one broker for all",
            BROKER,
            "",
            &[(SET, "listeners", Some("PLAINTEXT://:1"))],
        ),
        on("a config that brokers do not have", BROKER, "1", &[(SET, "no.such.config", Some("1"))]),
        on("all groups", GROUP, "", &[(SET, "consumer.session.timeout.ms", Some("50000"))]),
        on("an unknown group config", GROUP, "g", &[(SET, "no.such.config", Some("1"))]),
        Case::new(Api, "no resources")
            .ask(|_| IncrementalAlterConfigsRequest::default().with_resources(vec![])),
        Case::new(Api, "one resource twice").topic("own", 1).fresh().ask(|m| {
            let one = change(TOPIC, &m.own("own"), &[(SET, "retention.ms", Some("1000"))]);
            let twice = [one.resources.clone(), one.resources].concat();
            IncrementalAlterConfigsRequest::default().with_resources(twice)
        }),
        Case::new(Api, "a broker's config, changed and back")
            .step("change", |_| change(BROKER, "", &[(SET, "log.retention.ms", Some("604800001"))]))
            .step("describe", |_| {
                describe(vec![resource(BROKER, "1", Some(&["log.retention.ms"]))])
            })
            .in_version(4)
            .settles()
            .step("describe a topic", |_| {
                describe(vec![resource(TOPIC, EMPTY, Some(&["retention.ms"]))])
            })
            .in_version(4)
            .settles()
            .step("back", |_| change(BROKER, "", &[(DELETE, "log.retention.ms", None)]))
            .step("describe again", |_| {
                describe(vec![resource(BROKER, "1", Some(&["log.retention.ms"]))])
            })
            .in_version(4)
            .settles(),
    ]
}

/// Changes of a group's configs, and what they are afterwards.
fn group_changed(name: &str, changes: &'static [Change]) -> Case {
    let first = &[(SET, "consumer.heartbeat.interval.ms", Some("6000"))];
    let describe_group = |m: &Memory| describe(vec![resource(GROUP, &m.own("g"), None)]);
    Case::new(ApiKey::IncrementalAlterConfigs, name)
        .fresh()
        .step("set", |m| change(GROUP, &m.own("g"), first))
        .step("change", move |m| change(GROUP, &m.own("g"), changes))
        .step("describe", describe_group)
        .in_version(4)
        .settles()
        .step("replace", |m| {
            replace(GROUP, &m.own("g"), &[("consumer.assignment.interval.ms", Some("500"))])
        })
        .in_version(2)
        .step("describe again", describe_group)
        .in_version(4)
        .settles()
        .step("delete", |m| {
            change(GROUP, &m.own("g"), &[(DELETE, "consumer.assignment.interval.ms", None)])
        })
}

fn group_changes() -> Vec<Case> {
    vec![
        group_changed("a group's, one", &[(SET, "consumer.session.timeout.ms", Some("50000"))]),
        group_changed("a group's, back", &[(DELETE, "consumer.heartbeat.interval.ms", None)]),
        group_changed("a group's, nothing", &[]),
        group_changed(
            "a group's, too small",
            &[(SET, "consumer.session.timeout.ms", Some("44999"))],
        ),
        group_changed(
            "a group's, too large",
            &[(SET, "consumer.heartbeat.interval.ms", Some("15001"))],
        ),
        group_changed("a group's, zero", &[(SET, "consumer.heartbeat.interval.ms", Some("0"))]),
        group_changed(
            "a group's, no number",
            &[(SET, "consumer.heartbeat.interval.ms", Some("x"))],
        ),
        group_changed("a group's, unset unknown", &[(DELETE, "no.such.config", None)]),
        group_changed("a group's, appended", &[(APPEND, "consumer.session.timeout.ms", Some("1"))]),
        group_changed(
            "a group's, as of a share group",
            &[
                (SET, "share.auto.offset.reset", Some("by_duration:PT1H")),
                (SET, "share.isolation.level", Some("read_committed")),
            ],
        ),
        group_changed(
            "a group's, not as of a share group",
            &[(SET, "share.auto.offset.reset", Some("by_duration:1h"))],
        ),
        group_changed(
            "a group's, as of a streams group",
            &[(SET, "streams.num.standby.replicas", Some("2"))],
        ),
        group_changed(
            "a group's, not as of a streams group",
            &[(SET, "streams.num.standby.replicas", Some("3"))],
        ),
    ]
}

fn resources() -> Vec<Case> {
    use ApiKey::ListConfigResources as Api;
    let list =
        |types: &[i8]| ListConfigResourcesRequest::default().with_resource_types(types.to_vec());
    vec![
        Case::new(Api, "client metrics").ask(move |_| list(&[])).versions(0..=0),
        Case::new(Api, "brokers").ask(move |_| list(&[BROKER])).versions(1..=1),
        Case::new(Api, "loggers").ask(move |_| list(&[BROKER_LOGGER])).versions(1..=1),
        Case::new(Api, "client metrics of all").ask(move |_| list(&[16])).versions(1..=1),
        Case::new(Api, "an unknown type").ask(move |_| list(&[BROKER, 3])).versions(1..=1),
    ]
}

fn replace(kind: i8, name: &str, configs: &[(&str, Option<&str>)]) -> AlterConfigsRequest {
    let configs = configs.iter().map(|(key, value)| {
        replaced::AlterableConfig::default().with_name(text(key)).with_value(value.map(text))
    });
    let resource = replaced::AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(configs.collect());
    AlterConfigsRequest::default().with_resources(vec![resource])
}

fn topic_replaced(name: &str, configs: &'static [(&'static str, Option<&'static str>)]) -> Case {
    Case::new(ApiKey::AlterConfigs, name)
        .topic_with("own", 1, &[("retention.ms", "7000"), ("cleanup.policy", "compact")])
        .fresh()
        .step("replace", move |m| replace(TOPIC, &m.own("own"), configs))
        .step("describe", |m| describe(vec![resource(TOPIC, &m.own("own"), None)]))
        .in_version(4)
        .settles()
}

fn replacements() -> Vec<Case> {
    use ApiKey::AlterConfigs as Api;
    vec![
        topic_replaced("one", &[("retention.ms", Some("9000"))]),
        topic_replaced("another one", &[("segment.ms", Some("9000"))]),
        topic_replaced("none", &[]),
        topic_replaced("null", &[("retention.ms", None)]),
        topic_replaced("a bad value", &[("retention.ms", Some("x"))]),
        topic_replaced("an unknown config", &[("no.such.config", Some("1"))]),
        topic_replaced("one twice", &[("retention.ms", Some("1")), ("retention.ms", Some("2"))]),
        Case::new(Api, "an unknown topic")
            .ask(|_| replace(TOPIC, "no-such-topic", &[("retention.ms", Some("1"))])),
        Case::new(Api, "an invalid topic")
            .ask(|_| replace(TOPIC, "bad name", &[("retention.ms", Some("1"))])),
        Case::new(Api, "no topic").ask(|_| replace(TOPIC, "", &[("retention.ms", Some("1"))])),
        Case::new(Api, "an unknown kind").ask(|_| replace(99, "x", &[])),
        Case::new(Api, "an unknown broker")
            .ask(|_| replace(BROKER, "77", &[("log.retention.ms", Some("1"))])),
        Case::new(Api, "no resources").ask(|_| AlterConfigsRequest::default()),
        Case::new(Api, "one resource twice").versions(2..=2).topic("own", 1).ask(|m| {
            let one = replace(TOPIC, &m.own("own"), &[("retention.ms", Some("1000"))]);
            let twice = [one.resources.clone(), one.resources].concat();
            AlterConfigsRequest::default().with_resources(twice)
        }),
        Case::new(Api, "only validated")
            .topic("own", 1)
            .fresh()
            .step("validate", |m| {
                replace(TOPIC, &m.own("own"), &[("retention.ms", Some("9000"))])
                    .with_validate_only(true)
            })
            .step("describe", |m| describe(vec![resource(TOPIC, &m.own("own"), None)]))
            .in_version(4),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = descriptions();
    cases.extend(changes());
    cases.extend(other_changes());
    cases.extend(group_changes());
    cases.extend(resources());
    cases.extend(replacements());
    cases
}
