//! Changes of configs: what they make of the configs that are set, and whether that is allowed.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};

use super::definitions::{self, Definition, Dynamic, Kind};
use super::value::{check, elements};
use super::{group, topic};

/// Whose configs are changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A topic's.
    Topic,
    /// A group's; the broker's bounds are for [`super::group::check_bounds`].
    Group,
    /// One broker's.
    Broker,
    /// Those of all brokers that have no value of their own.
    AllBrokers,
}

/// What is done to a key (`AlterConfigOp.OpType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The value is set.
    Set,
    /// The key goes back to what it inherits.
    Delete,
    /// The elements are added to the list.
    Append,
    /// The elements are taken off the list.
    Subtract,
}

impl Operation {
    /// As the wire says it.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Operation> {
        match code {
            0 => Some(Operation::Set),
            1 => Some(Operation::Delete),
            2 => Some(Operation::Append),
            3 => Some(Operation::Subtract),
            _ => None,
        }
    }
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: String,
    /// What is done.
    pub operation: Operation,
    /// With what; not for `Delete`.
    pub value: Option<String>,
}

/// Why a change is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AlterError {
    /// A key or value that is not allowed: INVALID_CONFIG.
    #[error("{0}")]
    InvalidConfig(String),
    /// A request that makes no sense, or a key that cannot be changed: INVALID_REQUEST.
    #[error("{0}")]
    InvalidRequest(String),
}

/// Changes some keys (IncrementalAlterConfigs): what is not named stays. `inherited` says what a
/// key is where nothing is set.
pub fn incremental(
    target: Target,
    current: &BTreeMap<String, String>,
    changes: &[Change],
    inherited: impl Fn(&Definition) -> Option<String>,
) -> Result<BTreeMap<String, String>, AlterError> {
    check_names(changes)?;
    let mut next = current.clone();
    for change in changes {
        let value = change.value.as_deref();
        match (change.operation, value) {
            (Operation::Delete, _) => {
                next.remove(&change.key);
            }
            (_, None) => {
                return Err(AlterError::InvalidRequest(format!("{} has no value", change.key)));
            }
            (Operation::Set, Some(value)) => {
                next.insert(change.key.clone(), value.trim().to_owned());
            }
            (Operation::Append | Operation::Subtract, Some(value)) => {
                let row = list_row(target, change)?;
                let before = next.get(&change.key).cloned().or_else(|| inherited(row));
                let after = edit_list(change.operation, &before.unwrap_or_default(), value);
                next.insert(change.key.clone(), after);
            }
        }
    }
    check_changed(target, current, &next)?;
    Ok(next)
}

/// Replaces all keys (AlterConfigs): what is not named goes back to what it inherits.
pub fn replace(
    target: Target,
    current: &BTreeMap<String, String>,
    configs: &[(String, Option<String>)],
) -> Result<BTreeMap<String, String>, AlterError> {
    let changes: Vec<Change> = configs
        .iter()
        .map(|(key, value)| Change {
            key: key.clone(),
            operation: Operation::Set,
            value: value.clone(),
        })
        .collect();
    let next = incremental(target, &BTreeMap::new(), &changes, |_| None)?;
    check_changed(target, current, &next)?;
    Ok(next)
}

fn check_names(changes: &[Change]) -> Result<(), AlterError> {
    let mut seen = BTreeSet::new();
    for change in changes {
        if change.key.is_empty() {
            return Err(AlterError::InvalidRequest("a config without a name".to_owned()));
        }
        if !seen.insert(&change.key) {
            return Err(AlterError::InvalidRequest(format!("{} is named twice", change.key)));
        }
    }
    Ok(())
}

fn row_of(target: Target, key: &str) -> Option<&'static Definition> {
    match target {
        Target::Topic => definitions::topic(key),
        Target::Group => definitions::group(key),
        Target::Broker | Target::AllBrokers => definitions::broker(key),
    }
}

fn list_row(target: Target, change: &Change) -> Result<&'static Definition, AlterError> {
    row_of(target, &change.key).filter(|row| row.kind == Kind::List).ok_or_else(|| {
        AlterError::InvalidConfig(format!(
            "{:?} is for lists only, and {} is none",
            change.operation, change.key
        ))
    })
}

fn edit_list(operation: Operation, before: &str, value: &str) -> String {
    let mut list: Vec<&str> = elements(before).collect();
    for element in elements(value) {
        let known = list.contains(&element);
        match operation {
            Operation::Subtract => list.retain(|other| *other != element),
            _ if !known => list.push(element),
            _ => {}
        }
    }
    list.join(",")
}

/// A topic's and a group's configs are checked whole; of a broker's only what changes, for a key
/// may have been set by a version that knew other keys.
fn check_changed(
    target: Target,
    current: &BTreeMap<String, String>,
    next: &BTreeMap<String, String>,
) -> Result<(), AlterError> {
    match target {
        Target::Topic => return topic::check_own(next).map_err(AlterError::InvalidConfig),
        Target::Group => return group::check_own(next).map_err(AlterError::InvalidConfig),
        Target::Broker | Target::AllBrokers => {}
    }
    let keys: BTreeSet<&String> = current.keys().chain(next.keys()).collect();
    for key in keys.into_iter().filter(|key| current.get(*key) != next.get(*key)) {
        let Some(row) = definitions::broker(key) else {
            if next.contains_key(key) {
                return Err(AlterError::InvalidConfig(format!(
                    "Unknown broker config name: {key}"
                )));
            }
            continue;
        };
        let refused = match (row.dynamic, target) {
            (Dynamic::ReadOnly, _) => Some("cannot be changed while the broker runs"),
            (Dynamic::PerBroker, Target::AllBrokers) => Some("can be set for single brokers only"),
            _ => None,
        };
        if let Some(reason) = refused {
            return Err(AlterError::InvalidRequest(format!("{key} {reason}")));
        }
        if let Some(value) = next.get(key) {
            check(row, value).map_err(AlterError::InvalidRequest)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn change(key: &str, operation: Operation, value: &str) -> Change {
        let value = (operation != Operation::Delete).then(|| value.to_owned());
        Change { key: key.to_owned(), operation, value }
    }

    fn default(row: &Definition) -> Option<String> {
        row.default.map(str::to_owned)
    }

    #[test]
    fn what_is_not_named_stays() {
        let current = configs(&[("retention.ms", "1"), ("retention.bytes", "2")]);
        let changes = [change("retention.ms", Operation::Set, "3")];
        let next = incremental(Target::Topic, &current, &changes, default);
        assert_eq!(next, Ok(configs(&[("retention.ms", "3"), ("retention.bytes", "2")])));
        let changes = [change("retention.ms", Operation::Delete, "")];
        let next = incremental(Target::Topic, &current, &changes, default);
        assert_eq!(next, Ok(configs(&[("retention.bytes", "2")])));
    }

    #[test]
    fn what_is_not_named_in_a_replacement_goes() {
        let current = configs(&[("retention.ms", "1"), ("retention.bytes", "2")]);
        let named = [("retention.ms".to_owned(), Some("3".to_owned()))];
        let next = replace(Target::Topic, &current, &named);
        assert_eq!(next, Ok(configs(&[("retention.ms", "3")])));
        let null = [("retention.ms".to_owned(), None)];
        let error = replace(Target::Topic, &current, &null);
        assert!(matches!(error, Err(AlterError::InvalidRequest(_))), "{error:?}");
    }

    #[test]
    fn lists_are_added_to_and_taken_from() {
        let none = BTreeMap::new();
        let append = [change("cleanup.policy", Operation::Append, "compact,delete")];
        let both = incremental(Target::Topic, &none, &append, default).expect("a list");
        assert_eq!(both, configs(&[("cleanup.policy", "delete,compact")]));
        let subtract = [change("cleanup.policy", Operation::Subtract, "delete")];
        let one = incremental(Target::Topic, &both, &subtract, default).expect("a list");
        assert_eq!(one, configs(&[("cleanup.policy", "compact")]));
        let wrong = [change("retention.ms", Operation::Append, "1")];
        let error = incremental(Target::Topic, &none, &wrong, default);
        assert!(matches!(error, Err(AlterError::InvalidConfig(_))), "{error:?}");
    }

    #[test]
    fn a_topics_keys_and_values_are_checked() {
        let none = BTreeMap::new();
        for (key, value) in [
            ("no.such.key", "1"),
            ("retention.ms", "x"),
            ("min.compaction.lag.ms", "9223372036854775807"),
            ("remote.storage.enable", "true"),
        ] {
            let changes = [
                change(key, Operation::Set, value),
                change("max.compaction.lag.ms", Operation::Set, "5"),
            ];
            let error = incremental(Target::Topic, &none, &changes, default);
            assert!(matches!(error, Err(AlterError::InvalidConfig(_))), "{key}: {error:?}");
        }
    }

    #[test]
    fn a_key_is_named_once() {
        let twice = [
            change("retention.ms", Operation::Set, "1"),
            change("retention.ms", Operation::Delete, ""),
        ];
        let error = incremental(Target::Topic, &BTreeMap::new(), &twice, default);
        assert!(matches!(error, Err(AlterError::InvalidRequest(_))), "{error:?}");
    }

    #[test]
    fn a_brokers_keys_change_as_the_table_says() {
        let none = BTreeMap::new();
        for (target, key, allowed) in [
            (Target::Broker, "log.retention.ms", true),
            (Target::AllBrokers, "log.retention.ms", true),
            (Target::Broker, "sasl.enabled.mechanisms", true),
            (Target::AllBrokers, "sasl.enabled.mechanisms", false),
            (Target::Broker, "log.retention.hours", false),
            (Target::AllBrokers, "node.id", false),
            (Target::Broker, "no.such.key", false),
        ] {
            let changes = [change(key, Operation::Set, "5")];
            let next = incremental(target, &none, &changes, default);
            assert_eq!(next.is_ok(), allowed, "{target:?} {key}: {next:?}");
        }
        let unknown_before = configs(&[("of.another.version", "1")]);
        let changes = [change("log.retention.ms", Operation::Set, "5")];
        assert!(incremental(Target::Broker, &unknown_before, &changes, default).is_ok());
    }
}
