//! Claims about sources and synonyms, as Kafka's tools show them.

use super::*;
use cluster::metadata::{BrokerImage, MetadataCommand, apply};
use protocol::types::BrokerId;

fn broker(overrides: &[&str]) -> BrokerConfig {
    let overrides: Vec<_> = overrides.iter().map(|pair| (*pair).to_owned()).collect();
    BrokerConfig::from_sources("", &[], &overrides).expect("it loads").0
}

fn configs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn dynamic(all: &[(&str, &str)], one: &[(&str, &str)]) -> MetadataImage {
    let registered = BrokerImage {
        id: BrokerId(1),
        rack: None,
        endpoints: Vec::new(),
        peer_address: None,
        directory_id: None,
    };
    let set = |broker, pairs| MetadataCommand::SetBrokerConfigs { broker, configs: configs(pairs) };
    let commands = [
        MetadataCommand::RegisterBroker { broker: registered },
        set(None, all),
        set(Some(BrokerId(1)), one),
    ];
    commands.iter().fold(MetadataImage::default(), |image, command| apply(&image, command).0)
}

#[track_caller]
fn entry(entries: Vec<Entry>, name: &str) -> Entry {
    entries.into_iter().find(|entry| entry.definition.name == name).expect("the key is there")
}

fn sources(entry: &Entry) -> Vec<(&'static str, &str, Source)> {
    let shown = |s: &'_ Synonym| s.value.clone().unwrap_or_default().leak() as &str;
    entry.synonyms.iter().map(|s| (s.name, shown(s), s.source)).collect()
}

#[test]
fn a_topics_own_value_counts_before_the_brokers() {
    let image = dynamic(&[("log.retention.ms", "5")], &[]);
    let broker = broker(&["log.retention.hours=2"]);
    let entries = topic_entries(&configs(&[("retention.ms", "7")]), &image, &broker);
    let retention = entry(entries, "retention.ms");
    assert_eq!((retention.value.as_deref(), retention.source), (Some("7"), Source::Topic));
    assert_eq!(
        sources(&retention),
        [
            ("retention.ms", "7", Source::Topic),
            ("log.retention.ms", "5", Source::DynamicDefaultBroker),
            ("log.retention.hours", "2", Source::StaticBroker),
            ("log.retention.hours", "168", Source::Default),
        ]
    );
    let inherited = entry(topic_entries(&configs(&[]), &image, &broker), "retention.ms");
    assert_eq!(inherited.value.as_deref(), Some("5"));
    assert_eq!(inherited.source, Source::DynamicDefaultBroker);
}

#[test]
fn a_topics_value_is_in_its_own_unit() {
    let entries = topic_entries(&configs(&[]), &MetadataImage::default(), &broker(&[]));
    let retention = entry(entries, "retention.ms");
    assert_eq!(
        (retention.value.as_deref(), retention.source),
        (Some("604800000"), Source::Default)
    );
}

#[test]
fn a_brokers_value_has_its_sources() {
    let image = dynamic(&[("message.max.bytes", "5")], &[("message.max.bytes", "6")]);
    let broker = broker(&["message.max.bytes=4"]);
    let shown = entry(broker_entries(&image, &broker), "message.max.bytes");
    assert_eq!((shown.value.as_deref(), shown.source), (Some("6"), Source::DynamicBroker));
    assert_eq!(
        sources(&shown),
        [
            ("message.max.bytes", "6", Source::DynamicBroker),
            ("message.max.bytes", "5", Source::DynamicDefaultBroker),
            ("message.max.bytes", "4", Source::StaticBroker),
            ("message.max.bytes", "1048588", Source::Default),
        ]
    );
    assert!(!shown.read_only);
    assert!(entry(broker_entries(&image, &broker), "num.partitions").read_only);
}

#[test]
fn another_unit_does_not_make_a_key_static() {
    let shown = broker_entries(&MetadataImage::default(), &broker(&["log.retention.hours=2"]));
    let ms = entry(shown, "log.retention.ms");
    assert_eq!((ms.value, ms.source, ms.synonyms), (None, Source::Default, vec![]));
    let image = MetadataImage::default();
    let topics = topic_entries(&configs(&[]), &image, &broker(&["log.retention.hours=2"]));
    let inherited = entry(topics, "retention.ms");
    assert_eq!((inherited.source, inherited.synonyms), (Source::Default, vec![]));
    assert_eq!(inherited.value.as_deref(), Some("7200000"));
}

#[test]
fn passwords_are_never_shown() {
    let image = dynamic(&[], &[("ssl.key.password", "dynamic secret")]);
    let broker = broker(&["ssl.key.password=static secret"]);
    let shown = entry(broker_entries(&image, &broker), "ssl.key.password");
    assert_eq!(shown.value, None);
    assert!(shown.synonyms.len() == 2 && shown.synonyms.iter().all(|s| s.value.is_none()));
}

#[test]
fn all_brokers_have_what_was_set_on_all() {
    let image = dynamic(&[("message.max.bytes", "5")], &[("log.retention.ms", "6")]);
    let names: Vec<_> = cluster_entries(&image).iter().map(|e| e.definition.name).collect();
    assert_eq!(names, ["message.max.bytes"]);
    assert_eq!(cluster_entries(&MetadataImage::default()), vec![]);
}
