//! A group's own configs: what may be set on one, within the bounds that the broker sets.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;

use super::definitions;
use super::topic::inherited;
use super::value::{as_i64, check};

/// Kinds of groups whose members report within a session.
const REPORTING: [&str; 3] = ["consumer", "share", "streams"];

/// Checks names and values. The error is a sentence.
pub(super) fn check_own(own: &BTreeMap<String, String>) -> Result<(), String> {
    for (key, value) in own {
        let definition =
            definitions::group(key).ok_or_else(|| format!("Unknown group config name: {key}"))?;
        check(definition, value)?;
    }
    Ok(())
}

/// Checks values against the broker's bounds, and against each other (Kafka:
/// `GroupConfig.validate`). `broker` is a key's value there. The error is a sentence.
pub fn check_bounds(
    own: &BTreeMap<String, String>,
    broker: impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    for (key, value) in own {
        let (Some(number), Some((least, most))) = (as_i64(value), bound_keys(key)) else {
            continue;
        };
        let bound = |key: &str| broker(key).as_deref().and_then(as_i64);
        let is_within = bound(&least).is_none_or(|least| number >= least)
            && bound(&most).is_none_or(|most| number <= most);
        if !is_within {
            let shown = |word, key: &str| bound(key).map(|bound| format!("{word} {bound} ({key})"));
            let bounds = [shown("at least", &least), shown("at most", &most)];
            let bounds = bounds.into_iter().flatten().collect::<Vec<_>>().join(", ");
            return Err(format!(
                "Invalid value {value} for configuration {key}: allowed is {bounds}"
            ));
        }
    }
    for kind in REPORTING {
        let number = |key: &str| {
            let row = definitions::group(key)?;
            let value = own.get(key).cloned().or_else(|| inherited(row, &broker));
            as_i64(&value?)
        };
        let (session, heartbeat) =
            (format!("{kind}.session.timeout.ms"), format!("{kind}.heartbeat.interval.ms"));
        let is_set = own.contains_key(&session) || own.contains_key(&heartbeat);
        let (timeout, interval) = (number(&session), number(&heartbeat));
        if is_set && timeout <= interval {
            return Err(format!("{session} must be greater than {heartbeat}"));
        }
    }
    Ok(())
}

/// The broker's keys for the least and the greatest value of a group's key.
fn bound_keys(key: &str) -> Option<(String, String)> {
    let (kind, name) = key.split_once('.')?;
    let name = name.strip_prefix("num.").unwrap_or(name);
    Some((format!("group.{kind}.min.{name}"), format!("group.{kind}.max.{name}")))
}

/// A number of a group as it counts: its own within the broker's bounds, which may have been
/// changed since it was set. `None` where the group has none of its own.
#[must_use]
pub fn effective(
    own: &BTreeMap<String, String>,
    key: &str,
    broker: impl Fn(&str) -> Option<String>,
) -> Option<i64> {
    let number = as_i64(own.get(key)?)?;
    let (least, most) = bound_keys(key)?;
    let bound = |key: &str| broker(key).as_deref().and_then(as_i64);
    let number = bound(&most).map_or(number, |most| number.min(most));
    Some(bound(&least).map_or(number, |least| number.max(least)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn default(key: &str) -> Option<String> {
        definitions::broker(key)?.default.map(str::to_owned)
    }

    #[test]
    fn every_bound_that_the_broker_has_is_one_of_a_groups_key() {
        let rows = definitions::rows(definitions::Scope::Group);
        let bounds: Vec<String> = rows
            .filter_map(|row| bound_keys(row.name))
            .flat_map(|(least, most)| [least, most])
            .collect();
        let is_bound = |name: &str| {
            let prefixes = |kind: &&str| ["min", "max"].map(|end| format!("group.{kind}.{end}."));
            REPORTING.iter().flat_map(prefixes).any(|prefix| name.starts_with(&prefix))
        };
        for row in definitions::rows(definitions::Scope::Broker).filter(|row| is_bound(row.name)) {
            let is_brokers = row.name.ends_with(".max.size") || row.name.ends_with(".sessions");
            assert!(is_brokers || bounds.contains(&row.name.to_owned()), "{}", row.name);
        }
    }

    #[test]
    fn values_are_within_the_brokers_bounds() {
        for (key, value, allowed) in [
            ("consumer.session.timeout.ms", "45000", true),
            ("consumer.session.timeout.ms", "60000", true),
            ("consumer.session.timeout.ms", "44999", false),
            ("consumer.session.timeout.ms", "60001", false),
            ("consumer.heartbeat.interval.ms", "15000", true),
            ("consumer.heartbeat.interval.ms", "4999", false),
            ("consumer.assignment.interval.ms", "0", true),
            ("consumer.assignment.interval.ms", "15001", false),
            ("share.record.lock.duration.ms", "14999", false),
            ("streams.num.standby.replicas", "3", false),
            ("share.isolation.level", "read_committed", true),
        ] {
            let checked = check_bounds(&configs(&[(key, value)]), default);
            assert_eq!(checked.is_ok(), allowed, "{key}={value}: {checked:?}");
        }
        let error = check_bounds(&configs(&[("consumer.session.timeout.ms", "1")]), default);
        let expected = "Invalid value 1 for configuration consumer.session.timeout.ms: allowed is \
                        at least 45000 (group.consumer.min.session.timeout.ms), at most 60000 \
                        (group.consumer.max.session.timeout.ms)";
        assert_eq!(error, Err(expected.to_owned()));
    }

    #[test]
    fn a_session_is_longer_than_the_time_between_two_reports() {
        let wide = |key: &str| match key {
            "group.consumer.min.session.timeout.ms" => Some("1".to_owned()),
            key => default(key),
        };
        let own = configs(&[("consumer.session.timeout.ms", "5000")]);
        let expected = "consumer.session.timeout.ms must be greater than \
                        consumer.heartbeat.interval.ms";
        assert_eq!(check_bounds(&own, wide), Err(expected.to_owned()));
        let own = configs(&[("consumer.session.timeout.ms", "5001")]);
        assert_eq!(check_bounds(&own, wide), Ok(()));
    }

    #[test]
    fn a_value_that_is_out_of_bounds_by_now_is_the_nearest_within() {
        let key = "consumer.session.timeout.ms";
        for (value, counts) in [("50000", 50_000), ("1", 45_000), ("100000", 60_000)] {
            assert_eq!(effective(&configs(&[(key, value)]), key, default), Some(counts));
        }
        assert_eq!(effective(&configs(&[]), key, default), None);
    }

    #[test]
    fn names_and_values_are_checked() {
        for (key, value, allowed) in [
            ("consumer.session.timeout.ms", "x", false),
            ("consumer.session.timeout.ms", "0", false),
            ("no.such.config", "1", false),
            ("retention.ms", "1", false),
            ("share.auto.offset.reset", "earliest", true),
            ("share.auto.offset.reset", "by_duration:PT1H", true),
            ("share.auto.offset.reset", "by_duration:-PT1H", false),
            ("share.auto.offset.reset", "by_duration:1h", false),
            ("share.auto.offset.reset", "none", false),
        ] {
            assert_eq!(check_own(&configs(&[(key, value)])).is_ok(), allowed, "{key}={value}");
        }
    }
}
