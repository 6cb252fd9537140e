//! Configs as DescribeConfigs shows them: each key with its value, where that comes from, and what
//! it would be otherwise (Kafka's `ConfigHelper`).
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;

use cluster::metadata::MetadataImage;

use super::broker::BrokerConfig;
use super::definitions::{self, Definition, Dynamic, Kind, Scope};
use super::topic;

/// Where a value comes from (`DescribeConfigsResponse.ConfigSource`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Set on the topic.
    Topic,
    /// Set on this broker while it runs.
    DynamicBroker,
    /// Set on all brokers while they run.
    DynamicDefaultBroker,
    /// Given at start.
    StaticBroker,
    /// The table's default.
    Default,
    /// Set on the group.
    Group,
}

impl Source {
    /// As the wire says it.
    #[must_use]
    pub fn code(self) -> i8 {
        match self {
            Source::Topic => 1,
            Source::DynamicBroker => 2,
            Source::DynamicDefaultBroker => 3,
            Source::StaticBroker => 4,
            Source::Default => 5,
            Source::Group => 8,
        }
    }
}

impl Kind {
    /// As the wire says it (`DescribeConfigsResponse.ConfigType`).
    #[must_use]
    pub fn code(self) -> i8 {
        match self {
            Kind::Boolean => 1,
            Kind::String => 2,
            Kind::Int => 3,
            Kind::Short => 4,
            Kind::Long => 5,
            Kind::Double => 6,
            Kind::List => 7,
            Kind::Class => 8,
            Kind::Password => 9,
        }
    }
}

/// A value that a key has, or would have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synonym {
    /// The key that gives it.
    pub name: &'static str,
    /// `None` if it must not be shown.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: Source,
}

/// A key as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its row of the table.
    pub definition: &'static Definition,
    /// `None` if there is none, or if it must not be shown.
    pub value: Option<String>,
    /// Where it comes from.
    pub source: Source,
    /// Whether it cannot be changed while the broker runs.
    pub read_only: bool,
    /// The value's sources, the one that counts first.
    pub synonyms: Vec<Synonym>,
}

/// All keys of a topic.
#[must_use]
pub fn topic_entries(
    own: &BTreeMap<String, String>,
    image: &MetadataImage,
    broker: &BrokerConfig,
) -> Vec<Entry> {
    definitions::rows(Scope::Topic).map(|row| topic_entry(row, own, image, broker)).collect()
}

fn topic_entry(
    row: &'static Definition,
    own: &BTreeMap<String, String>,
    image: &MetadataImage,
    broker: &BrokerConfig,
) -> Entry {
    let mut synonyms = inherited_values(row, image, broker);
    let inherited = || topic::inherited(row, |key| broker.effective(image, key).map(str::to_owned));
    let value = own.get(row.name).cloned().or_else(inherited);
    if own.contains_key(row.name) {
        synonyms.insert(0, Synonym { name: row.name, value: value.clone(), source: Source::Topic });
    }
    let source = synonyms.first().map_or(Source::Default, |synonym| synonym.source);
    Entry { definition: row, value, source, read_only: false, synonyms }
}

/// All keys of a group.
#[must_use]
pub fn group_entries(
    own: &BTreeMap<String, String>,
    image: &MetadataImage,
    broker: &BrokerConfig,
) -> Vec<Entry> {
    definitions::rows(Scope::Group).map(|row| group_entry(row, own, image, broker)).collect()
}

fn group_entry(
    row: &'static Definition,
    own: &BTreeMap<String, String>,
    image: &MetadataImage,
    broker: &BrokerConfig,
) -> Entry {
    let mut synonyms = inherited_values(row, image, broker);
    if row.synonyms.is_empty() {
        let (value, source) = (row.default.map(str::to_owned), Source::Default);
        synonyms.push(Synonym { name: row.name, value, source });
    }
    if let Some(value) = own.get(row.name) {
        let (value, source) = (Some(value.clone()), Source::Group);
        synonyms.insert(0, Synonym { name: row.name, value, source });
    }
    let first = synonyms.first();
    let source = first.map_or(Source::Default, |synonym| synonym.source);
    let value = first.and_then(|synonym| synonym.value.clone());
    Entry { definition: row, value, source, read_only: false, synonyms }
}

/// All keys of this broker.
#[must_use]
pub fn broker_entries(image: &MetadataImage, broker: &BrokerConfig) -> Vec<Entry> {
    definitions::rows(Scope::Broker).map(|row| broker_entry(row, image, broker)).collect()
}

fn broker_entry(row: &'static Definition, image: &MetadataImage, broker: &BrokerConfig) -> Entry {
    let synonyms = counted(row.name, broker_synonyms(row.name), image, broker);
    let source = synonyms.first().map_or(Source::Default, |synonym| synonym.source);
    let shown = |value: &str| (!row.is_sensitive()).then(|| value.to_owned());
    Entry {
        definition: row,
        value: broker.effective(image, row.name).and_then(shown),
        source,
        read_only: row.dynamic == Dynamic::ReadOnly,
        synonyms,
    }
}

/// What was set on all brokers while they run: nothing else is a config of "all brokers".
#[must_use]
pub fn cluster_entries(image: &MetadataImage) -> Vec<Entry> {
    let Some(set) = image.broker_configs.get(&None) else { return Vec::new() };
    set.iter()
        .filter_map(|(key, value)| {
            let definition = definitions::broker(key)?;
            let value = (!definition.is_sensitive()).then(|| value.clone());
            let source = Source::DynamicDefaultBroker;
            let synonym = Synonym { name: definition.name, value: value.clone(), source };
            let read_only = definition.dynamic == Dynamic::ReadOnly;
            Some(Entry { definition, value, source, read_only, synonyms: vec![synonym] })
        })
        .collect()
}

/// What the broker has for a key of a topic or a group that says nothing itself.
fn inherited_values(
    row: &Definition,
    image: &MetadataImage,
    broker: &BrokerConfig,
) -> Vec<Synonym> {
    row.synonyms.first().map_or_else(Vec::new, |first| counted(first, row.synonyms, image, broker))
}

/// The values of a key and its other spellings, from the first that is the key's own on (Kafka:
/// `ConfigHelper.configSynonyms`): one given in another unit only counts behind it.
fn counted(
    name: &str,
    spellings: &[&'static str],
    image: &MetadataImage,
    broker: &BrokerConfig,
) -> Vec<Synonym> {
    let mut values: Vec<Synonym> =
        spellings.iter().flat_map(|key| broker_values(key, image, broker)).collect();
    // Sources go before keys: what was set while running counts before what was given at start.
    values.sort_by_key(|value| value.source.code());
    let own = values.iter().position(|value| value.name == name);
    values.drain(..own.unwrap_or(values.len()));
    values
}

/// Keys of the broker that say the same in several units; the first that has a value counts.
fn broker_synonyms(name: &'static str) -> &'static [&'static str] {
    const FAMILIES: [&[&str]; 4] = [
        &["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
        &["log.roll.ms", "log.roll.hours"],
        &["log.roll.jitter.ms", "log.roll.jitter.hours"],
        &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"],
    ];
    let family = FAMILIES.into_iter().find(|family| family.contains(&name));
    match (family, definitions::broker(name)) {
        (Some(family), _) => {
            let from = family.iter().position(|key| *key == name).unwrap_or_default();
            &family[from..]
        }
        (None, Some(row)) => std::slice::from_ref(&row.name),
        (None, None) => &[],
    }
}

/// Every value that one key of the broker has, the one that counts first.
fn broker_values(name: &str, image: &MetadataImage, broker: &BrokerConfig) -> Vec<Synonym> {
    let Some(row) = definitions::broker(name) else { return Vec::new() };
    let mut values = Vec::new();
    let mut push = |value: &str, source: Source| {
        let value = (!row.is_sensitive()).then(|| value.to_owned());
        values.push(Synonym { name: row.name, value, source });
    };
    let set = |scope| image.broker_configs.get(&scope).and_then(|configs| configs.get(name));
    if let Some(value) = set(Some(broker.node_id)) {
        push(value, Source::DynamicBroker);
    }
    if let Some(value) = set(None) {
        push(value, Source::DynamicDefaultBroker);
    }
    if let Some(given) = broker.values.get(name).filter(|value| value.is_static)
        && let Some(value) = &given.value
    {
        push(value, Source::StaticBroker);
    }
    if let Some(value) = row.default {
        push(value, Source::Default);
    }
    values
}

#[cfg(test)]
mod tests;
