//! Checks a value against its row of the table, and says what is allowed.
//!
//! Pure: no I/O, no clock, no randomness.

use super::definitions::{Allowed, Definition, Kind};
use crate::iso8601::parse_duration;

/// Checks one value. The error is a sentence with key, value and what is allowed; the value of a
/// password stays out of it.
pub fn check(definition: &Definition, value: &str) -> Result<(), String> {
    let value = value.trim();
    if has_type(definition.kind, value) && is_allowed(definition, value) {
        return Ok(());
    }
    let shown = if definition.is_sensitive() { "(hidden)" } else { value };
    Err(format!(
        "Invalid value {shown} for configuration {}: allowed is {}",
        definition.name,
        allowed(definition)
    ))
}

/// What is allowed, in words.
#[must_use]
pub fn allowed(definition: &Definition) -> String {
    let kind = match definition.kind {
        Kind::Boolean => "true or false",
        Kind::Int => "a whole number of 32 bits",
        Kind::Short => "a whole number of 16 bits",
        Kind::Long => "a whole number of 64 bits",
        Kind::Double => "a number",
        Kind::List => "a list separated by commas",
        Kind::String | Kind::Class | Kind::Password => "any text",
    };
    match definition.allowed {
        Allowed::Any => kind.to_owned(),
        Allowed::AtLeast(least) => format!("{kind}, at least {least}"),
        Allowed::Between(least, greatest) => format!("{kind} from {least} to {greatest}"),
        Allowed::BetweenOr(least, greatest, other) => {
            format!("{kind} from {least} to {greatest}, or {other}")
        }
        Allowed::OneOf([""]) => "nothing".to_owned(),
        Allowed::OneOf(values) if definition.kind == Kind::List => {
            format!("a list of {}", values.join(", "))
        }
        Allowed::OneOf(values) | Allowed::OneOfAnyCase(values) => {
            format!("one of {}", values.join(", "))
        }
        Allowed::OffsetReset => "earliest, latest, or by_duration:PnDTnHnMn.nS".to_owned(),
        Allowed::Replicas => "*, or pairs partition:broker separated by commas".to_owned(),
    }
}

/// The elements of a list, without the blanks around them.
pub fn elements(list: &str) -> impl DoubleEndedIterator<Item = &str> {
    list.split(',').map(str::trim).filter(|element| !element.is_empty())
}

/// `true` or `false`, whatever their case.
#[must_use]
pub fn as_bool(value: &str) -> Option<bool> {
    let value = value.trim();
    let is = |word: &str| value.eq_ignore_ascii_case(word);
    is("true").then_some(true).or_else(|| is("false").then_some(false))
}

/// A whole number.
#[must_use]
pub fn as_i64(value: &str) -> Option<i64> {
    value.trim().parse().ok()
}

fn has_type(kind: Kind, value: &str) -> bool {
    match kind {
        Kind::Boolean => as_bool(value).is_some(),
        Kind::Int => value.parse::<i32>().is_ok(),
        Kind::Short => value.parse::<i16>().is_ok(),
        Kind::Long => value.parse::<i64>().is_ok(),
        Kind::Double => value.parse::<f64>().is_ok_and(f64::is_finite),
        Kind::String | Kind::List | Kind::Class | Kind::Password => true,
    }
}

fn is_allowed(definition: &Definition, value: &str) -> bool {
    match definition.allowed {
        Allowed::Any => true,
        Allowed::AtLeast(least) => in_range(value, least, i64::MAX),
        Allowed::Between(least, greatest) => in_range(value, least, greatest),
        Allowed::BetweenOr(least, greatest, other) => {
            in_range(value, least, greatest) || as_i64(value) == Some(other)
        }
        Allowed::OneOf(values) if definition.kind == Kind::List => {
            elements(value).all(|element| values.contains(&element))
        }
        Allowed::OneOf(values) => values.contains(&value),
        Allowed::OneOfAnyCase(values) => values.iter().any(|one| one.eq_ignore_ascii_case(value)),
        Allowed::OffsetReset => match value.strip_prefix("by_duration:") {
            Some(duration) => parse_duration(duration).is_some_and(|ms| ms >= 0),
            None => ["earliest", "latest"].contains(&value),
        },
        Allowed::Replicas => {
            value == "*" || elements(value).all(|pair| is_replica(pair).unwrap_or(false))
        }
    }
}

fn in_range(value: &str, least: i64, greatest: i64) -> bool {
    match as_i64(value) {
        Some(number) => (least..=greatest).contains(&number),
        None => value.parse::<f64>().is_ok_and(|number| {
            number >= least as f64 && (greatest == i64::MAX || number <= greatest as f64)
        }),
    }
}

fn is_replica(pair: &str) -> Option<bool> {
    let (partition, broker) = pair.split_once(':')?;
    Some(partition.parse::<u32>().is_ok() && broker.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::super::definitions::{broker, topic};
    use super::*;

    #[track_caller]
    fn topic_check(key: &str, value: &str) -> Result<(), String> {
        check(topic(key).expect("a key of topics"), value)
    }

    #[test]
    fn values_are_judged_as_kafka_judges_them() {
        for (key, value) in [
            ("cleanup.policy", ""),
            ("cleanup.policy", "delete,delete"),
            ("cleanup.policy", "compact , delete"),
            ("retention.ms", "0"),
            ("retention.ms", "-1"),
            ("retention.ms", " 5 "),
            ("retention.bytes", "-5"),
            ("preallocate", "TRUE"),
            ("leader.replication.throttled.replicas", "*"),
            ("leader.replication.throttled.replicas", "0:1,1:2"),
            ("leader.replication.throttled.replicas", ""),
            ("compression.gzip.level", "-1"),
            ("min.cleanable.dirty.ratio", "0.5"),
        ] {
            assert_eq!(topic_check(key, value), Ok(()), "{key}={value}");
        }
        for (key, value) in [
            ("cleanup.policy", "Delete"),
            ("retention.ms", "-2"),
            ("retention.ms", "abc"),
            ("retention.ms", ""),
            ("segment.bytes", "10"),
            ("compression.type", "none"),
            ("compression.type", "GZIP"),
            ("compression.gzip.level", "0"),
            ("preallocate", "yes"),
            ("min.cleanable.dirty.ratio", "1.5"),
            ("max.message.bytes", "99999999999"),
            ("message.timestamp.type", "createtime"),
            ("leader.replication.throttled.replicas", "x"),
            ("min.insync.replicas", "0"),
            ("flush.ms", "12345678901234567890"),
        ] {
            assert!(topic_check(key, value).is_err(), "{key}={value}");
        }
    }

    #[test]
    fn an_error_names_key_value_and_what_is_allowed() {
        let error = topic_check("segment.bytes", "10").expect_err("too small");
        for part in ["segment.bytes", "10", "1048576"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_migration_policy_may_have_any_case() {
        let row = broker("group.consumer.migration.policy").expect("it is a key");
        assert_eq!(check(row, "Bidirectional"), Ok(()));
        assert!(check(row, "sideways").is_err());
    }
}
