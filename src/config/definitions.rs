//! THE table of configuration keys: name, type, default, what is allowed, how it can be changed,
//! whether it has an effect. Everything that reads, checks or documents a key reads this table.
//!
//! Pure: a table.

mod group;
mod groups;
mod log;
mod network;
mod reasons;
mod remote;
mod replication;
mod security;
mod server;
mod topic;
mod transactions;

use std::collections::HashMap;
use std::sync::LazyLock;

pub use replication::RACK_AWARE_SELECTOR;

/// Whose key it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The broker's.
    Broker,
    /// A topic's.
    Topic,
    /// A group's.
    Group,
}

/// Kafka's types of values (`ConfigDef.Type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// Any text.
    String,
    /// 32 bits.
    Int,
    /// 16 bits.
    Short,
    /// 64 bits.
    Long,
    /// A number with a fraction.
    Double,
    /// Values separated by commas.
    List,
    /// The name of a Java class.
    Class,
    /// Text that is never shown.
    Password,
}

/// What values are allowed beyond what the type says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Every one.
    Any,
    /// A least number.
    AtLeast(i64),
    /// A least and a greatest number.
    Between(i64, i64),
    /// A least and a greatest number, and one more outside of them.
    BetweenOr(i64, i64, i64),
    /// These; of a list, each element.
    OneOf(&'static [&'static str]),
    /// These, whatever their case.
    OneOfAnyCase(&'static [&'static str]),
    /// `*`, or pairs of partition and broker.
    Replicas,
    /// `earliest`, `latest`, or `by_duration:` and how long ago.
    OffsetReset,
}

/// How a key can be changed while the broker runs (`DynamicBrokerConfig`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dynamic {
    /// Not at all.
    ReadOnly,
    /// For one broker.
    PerBroker,
    /// For one broker, or for all that have no value of their own.
    ClusterWide,
}

/// Whether setting a key does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It does.
    Yes,
    /// It is accepted and shown, and that is all; with the reason.
    No(&'static str),
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Kafka's name, or one that starts with `highwater.`.
    pub name: &'static str,
    /// Type of its value.
    pub kind: Kind,
    /// `None` = no value.
    pub default: Option<&'static str>,
    /// What is allowed.
    pub allowed: Allowed,
    /// How a broker's key can be changed; a topic's and a group's always can.
    pub dynamic: Dynamic,
    /// A topic's or group's key: the broker's keys that give its default, the first that is set
    /// wins.
    pub synonyms: &'static [&'static str],
    /// Whether it does anything.
    pub effect: Effect,
    /// One sentence.
    pub doc: &'static str,
}

/// Rows that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Section {
    /// Their subject.
    pub title: &'static str,
    /// Whose keys they are.
    pub scope: Scope,
    /// By name.
    pub rows: &'static [Definition],
}

/// The table.
pub const TABLE: &[Section] = &[
    broker_section("Broker", server::ROWS),
    broker_section("Listeners, connections and quotas", network::ROWS),
    broker_section("Logs", log::ROWS),
    broker_section("Replicas, controllers and metadata", replication::ROWS),
    broker_section("Groups", groups::ROWS),
    broker_section("Transactions", transactions::ROWS),
    broker_section("Security", security::ROWS),
    broker_section("Tiered storage", remote::ROWS),
    Section { title: "Topics", scope: Scope::Topic, rows: topic::ROWS },
    Section { title: "Single groups", scope: Scope::Group, rows: group::ROWS },
];

/// The row of a broker's key.
#[must_use]
pub fn broker(name: &str) -> Option<&'static Definition> {
    static INDEX: LazyLock<HashMap<&str, &Definition>> = LazyLock::new(|| index(Scope::Broker));
    INDEX.get(name).copied()
}

/// The row of a topic's key.
#[must_use]
pub fn topic(name: &str) -> Option<&'static Definition> {
    static INDEX: LazyLock<HashMap<&str, &Definition>> = LazyLock::new(|| index(Scope::Topic));
    INDEX.get(name).copied()
}

/// The row of a group's key.
#[must_use]
pub fn group(name: &str) -> Option<&'static Definition> {
    static INDEX: LazyLock<HashMap<&str, &Definition>> = LazyLock::new(|| index(Scope::Group));
    INDEX.get(name).copied()
}

/// The row of the topic's key that has its default from this key of the broker. Of several keys
/// that say the same in other units only the first can be changed while the broker runs.
#[must_use]
pub fn topic_inheriting(broker_key: &str) -> Option<&'static Definition> {
    static INDEX: LazyLock<HashMap<&str, &Definition>> = LazyLock::new(|| {
        rows(Scope::Topic).filter_map(|row| Some((*row.synonyms.first()?, row))).collect()
    });
    INDEX.get(broker_key).copied()
}

/// All rows of a scope.
pub fn rows(scope: Scope) -> impl Iterator<Item = &'static Definition> {
    TABLE.iter().filter(move |section| section.scope == scope).flat_map(|section| section.rows)
}

fn index(scope: Scope) -> HashMap<&'static str, &'static Definition> {
    rows(scope).map(|definition| (definition.name, definition)).collect()
}

impl Definition {
    /// Whether its value must never be shown.
    #[must_use]
    pub fn is_sensitive(&self) -> bool {
        self.kind == Kind::Password
    }

    const fn at_least(mut self, least: i64) -> Self {
        self.allowed = Allowed::AtLeast(least);
        self
    }

    const fn between(mut self, least: i64, greatest: i64) -> Self {
        self.allowed = Allowed::Between(least, greatest);
        self
    }

    const fn between_or(mut self, least: i64, greatest: i64, other: i64) -> Self {
        self.allowed = Allowed::BetweenOr(least, greatest, other);
        self
    }

    const fn one_of(mut self, values: &'static [&'static str]) -> Self {
        self.allowed = Allowed::OneOf(values);
        self
    }

    const fn one_of_any_case(mut self, values: &'static [&'static str]) -> Self {
        self.allowed = Allowed::OneOfAnyCase(values);
        self
    }

    const fn replicas(mut self) -> Self {
        self.allowed = Allowed::Replicas;
        self
    }

    const fn offset_reset(mut self) -> Self {
        self.allowed = Allowed::OffsetReset;
        self
    }

    const fn per_broker(mut self) -> Self {
        self.dynamic = Dynamic::PerBroker;
        self
    }

    const fn cluster_wide(mut self) -> Self {
        self.dynamic = Dynamic::ClusterWide;
        self
    }

    const fn synonyms(mut self, names: &'static [&'static str]) -> Self {
        self.synonyms = names;
        self
    }

    const fn no_effect(mut self, reason: &'static str) -> Self {
        self.effect = Effect::No(reason);
        self
    }

    const fn doc(mut self, sentence: &'static str) -> Self {
        self.doc = sentence;
        self
    }
}

type Default = Option<&'static str>;

const fn row(kind: Kind, name: &'static str, default: Default) -> Definition {
    Definition {
        name,
        kind,
        default,
        allowed: Allowed::Any,
        dynamic: Dynamic::ReadOnly,
        synonyms: &[],
        effect: Effect::Yes,
        doc: "",
    }
}

const fn boolean(name: &'static str, default: Default) -> Definition {
    row(Kind::Boolean, name, default)
}

const fn string(name: &'static str, default: Default) -> Definition {
    row(Kind::String, name, default)
}

const fn int(name: &'static str, default: Default) -> Definition {
    row(Kind::Int, name, default)
}

const fn short(name: &'static str, default: Default) -> Definition {
    row(Kind::Short, name, default)
}

const fn long(name: &'static str, default: Default) -> Definition {
    row(Kind::Long, name, default)
}

const fn double(name: &'static str, default: Default) -> Definition {
    row(Kind::Double, name, default)
}

const fn list(name: &'static str, default: Default) -> Definition {
    row(Kind::List, name, default)
}

const fn class(name: &'static str, default: Default) -> Definition {
    row(Kind::Class, name, default)
}

const fn password(name: &'static str, default: Default) -> Definition {
    row(Kind::Password, name, default)
}

const fn broker_section(title: &'static str, rows: &'static [Definition]) -> Section {
    Section { title, scope: Scope::Broker, rows }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_name_stands_once_and_in_order() {
        for section in TABLE {
            assert!(section.rows.is_sorted_by_key(|row| row.name), "{}", section.title);
        }
        for scope in [Scope::Broker, Scope::Topic, Scope::Group] {
            let names: BTreeSet<_> = rows(scope).map(|row| row.name).collect();
            assert_eq!(names.len(), rows(scope).count());
        }
    }

    #[test]
    fn every_row_has_a_sentence_and_a_default_that_is_allowed() {
        for row in TABLE.iter().flat_map(|section| section.rows) {
            assert!(row.doc.ends_with('.'), "{}", row.name);
            if let Some(default) = row.default {
                assert_eq!(super::super::value::check(row, default), Ok(()), "{}", row.name);
            }
        }
    }

    #[test]
    fn a_group_inherits_from_keys_of_the_broker_with_the_same_default() {
        for row in rows(Scope::Group) {
            for synonym in row.synonyms {
                let synonym = broker(synonym).expect("it is a key");
                assert_eq!(synonym.default, row.default, "{}", row.name);
            }
        }
    }

    #[test]
    fn synonyms_are_keys_of_the_broker_and_only_the_first_can_change() {
        for row in rows(Scope::Topic) {
            for (index, synonym) in row.synonyms.iter().enumerate() {
                let synonym = broker(synonym).expect("it is a key");
                assert!(index == 0 || synonym.dynamic == Dynamic::ReadOnly, "{}", synonym.name);
                assert!(index > 0 || topic_inheriting(synonym.name) == Some(row));
            }
        }
    }
}
