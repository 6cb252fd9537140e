//! Pure: what an administrator asks, read from JSON, and what is wrong with it in a sentence.

use std::collections::BTreeSet;

use protocol::types::Timestamp;
use serde_json::{Map, Value};

use crate::iso8601::{parse_datetime, parse_duration};

/// The keys that say where to; exactly one of them is given.
const TARGETS: &[&str] =
    &["to_datetime", "by_duration", "to_offset", "to_earliest", "to_latest", "shift_by"];
const DATETIME: &str = "YYYY-MM-DDThh:mm:ss.sss, with Z or an offset as +01:00 behind it; \
                        without, it is UTC";
const DURATION: &str = "an ISO 8601 duration such as PT1H30M or P7D";
const TOPICS: &str = "a list of \"topic\" or \"topic:partition,partition\"";

/// A rewind as it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Where to.
    pub target: Target,
    /// Where; none for all that the group has or reads.
    pub topics: Vec<Selected>,
    /// Nothing is to be changed.
    pub is_dry_run: bool,
}

/// Where a group is to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// At the first record of that time or later.
    Time(Timestamp),
    /// At that offset.
    Offset(i64),
    /// At the log start.
    Earliest,
    /// At the end.
    Latest,
    /// So much further on, or back.
    Shift(i64),
}

/// A topic, all of it or some partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// Its name.
    pub topic: String,
    /// `None` for all.
    pub partitions: Option<BTreeSet<i32>>,
}

/// Reads the question; `now` is what a duration is counted back from.
///
/// # Errors
/// A sentence that names the key, its value, and what is allowed.
pub fn parse(body: &[u8], now: Timestamp) -> Result<Question, String> {
    let fields = fields(body, &[TARGETS, &["topics", "dry_run"]].concat())?;
    let given: Vec<&str> =
        TARGETS.iter().copied().filter(|key| fields.contains_key(*key)).collect();
    let [key] = given[..] else {
        let given = if given.is_empty() { "none".to_owned() } else { given.join(" and ") };
        return Err(format!("{given} is given: exactly one of {} must be", TARGETS.join(", ")));
    };
    Ok(Question {
        target: target(key, &fields[key], now)?,
        topics: fields.get("topics").map_or_else(|| Ok(Vec::new()), topics)?,
        is_dry_run: dry_run(&fields)?,
    })
}

/// Reads what is asked of an undo: whether it is a dry run.
///
/// # Errors
/// As [`parse`].
pub fn parse_undo(body: &[u8]) -> Result<bool, String> {
    match body.trim_ascii() {
        [] => Ok(false),
        body => dry_run(&fields(body, &["dry_run"])?),
    }
}

fn fields(body: &[u8], allowed: &[&str]) -> Result<Map<String, Value>, String> {
    let fields: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| format!("the body is no JSON object: {error}"))?;
    match fields.iter().find(|(key, _)| !allowed.contains(&key.as_str())) {
        Some((key, value)) => {
            Err(format!("{key}={value}: there is no such key; allowed are {}", allowed.join(", ")))
        }
        None => Ok(fields),
    }
}

fn dry_run(fields: &Map<String, Value>) -> Result<bool, String> {
    match fields.get("dry_run") {
        None => Ok(false),
        Some(Value::Bool(is_dry_run)) => Ok(*is_dry_run),
        Some(other) => Err(wrong("dry_run", other, "true or false")),
    }
}

fn wrong(key: &str, value: &Value, allowed: &str) -> String {
    format!("{key}={value}: allowed is {allowed}")
}

fn target(key: &str, value: &Value, now: Timestamp) -> Result<Target, String> {
    let whole = "a whole number";
    let (target, allowed) = match key {
        "to_datetime" => (value.as_str().and_then(parse_datetime).map(Target::Time), DATETIME),
        "by_duration" => {
            let ago_ms = value.as_str().and_then(parse_duration);
            let at = ago_ms.and_then(|ago_ms| now.0.checked_sub(ago_ms));
            (at.map(|at| Target::Time(Timestamp(at))), DURATION)
        }
        "to_offset" => {
            let offset = value.as_i64().filter(|offset| *offset >= 0);
            (offset.map(Target::Offset), "a whole number from 0 on")
        }
        "shift_by" => (value.as_i64().map(Target::Shift), whole),
        "to_earliest" => ((*value == Value::Bool(true)).then_some(Target::Earliest), "true"),
        _ => ((*value == Value::Bool(true)).then_some(Target::Latest), "true"),
    };
    target.ok_or_else(|| wrong(key, value, allowed))
}

fn topics(value: &Value) -> Result<Vec<Selected>, String> {
    let wrong = |value: &Value| wrong("topics", value, TOPICS);
    let all = value.as_array().ok_or_else(|| wrong(value))?;
    all.iter().map(|one| one.as_str().and_then(selected).ok_or_else(|| wrong(one))).collect()
}

/// `topic`, `topic:0` or `topic:0,1`: no topic has a colon in its name.
fn selected(text: &str) -> Option<Selected> {
    let (topic, partitions) = match text.split_once(':') {
        Some((topic, partitions)) => {
            let numbers = partitions.split(',').map(|number| number.trim().parse().ok());
            let numbers = numbers.map(|number: Option<i32>| number.filter(|number| *number >= 0));
            (topic, Some(numbers.collect::<Option<BTreeSet<i32>>>()?))
        }
        None => (text, None),
    };
    let topic = topic.to_owned();
    (!topic.is_empty()).then_some(Selected { topic, partitions })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &str) -> Result<Question, String> {
        parse(body.as_bytes(), Timestamp(10_000))
    }

    fn target_of(body: &str) -> Target {
        parsed(body).expect("it is a question").target
    }

    #[test]
    fn every_form_is_taken() {
        assert_eq!(target_of(r#"{"to_earliest": true}"#), Target::Earliest);
        assert_eq!(target_of(r#"{"to_latest": true}"#), Target::Latest);
        assert_eq!(target_of(r#"{"to_offset": 7}"#), Target::Offset(7));
        assert_eq!(target_of(r#"{"shift_by": -7}"#), Target::Shift(-7));
        assert_eq!(target_of(r#"{"by_duration": "PT4S"}"#), Target::Time(Timestamp(6_000)));
        let datetime = r#"{"to_datetime": "1970-01-01T00:00:05.000"}"#;
        assert_eq!(target_of(datetime), Target::Time(Timestamp(5_000)));
    }

    #[test]
    fn topics_and_partitions_are_selected() {
        let body = r#"{"to_latest": true, "topics": ["a", "b:2,0"], "dry_run": true}"#;
        let question = parsed(body).expect("it is a question");
        let selected = |topic: &str, partitions: Option<&[i32]>| Selected {
            topic: topic.to_owned(),
            partitions: partitions.map(|partitions| partitions.iter().copied().collect()),
        };
        assert_eq!(question.topics, [selected("a", None), selected("b", Some(&[0, 2]))]);
        assert!(question.is_dry_run);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_value_and_what_is_allowed() {
        for (body, expected) in [
            ("", "the body is no JSON object"),
            ("[]", "the body is no JSON object"),
            ("{}", "none is given: exactly one of to_datetime, by_duration, to_offset"),
            (
                r#"{"to_latest": true, "shift_by": 1}"#,
                "to_latest and shift_by is given: exactly one of",
            ),
            (r#"{"to_latest": false}"#, "to_latest=false: allowed is true"),
            (r#"{"to_offset": -1}"#, "to_offset=-1: allowed is a whole number from 0 on"),
            (r#"{"to_offset": "1"}"#, "to_offset=\"1\": allowed is"),
            (r#"{"shift_by": 1.5}"#, "shift_by=1.5: allowed is a whole number"),
            (r#"{"to_datetime": "today"}"#, "to_datetime=\"today\": allowed is YYYY-MM-DDThh"),
            (r#"{"by_duration": "1h"}"#, "by_duration=\"1h\": allowed is an ISO 8601 duration"),
            (r#"{"to_latest": true, "topics": "t"}"#, "topics=\"t\": allowed is a list of"),
            (r#"{"to_latest": true, "topics": [":1"]}"#, "topics=\":1\": allowed is"),
            (r#"{"to_latest": true, "topics": ["t:x"]}"#, "topics=\"t:x\": allowed is"),
            (r#"{"to_latest": true, "topics": ["t:-1"]}"#, "topics=\"t:-1\": allowed is"),
            (r#"{"to_latest": true, "dry_run": 1}"#, "dry_run=1: allowed is true or false"),
            (r#"{"to_latest": true, "topic": "t"}"#, "topic=\"t\": there is no such key; allowed"),
        ] {
            let sentence = parsed(body).expect_err(body);
            assert!(sentence.starts_with(expected), "{body}: {sentence}");
        }
    }

    #[test]
    fn an_undo_needs_no_body() {
        assert_eq!(parse_undo(b" \n"), Ok(false));
        assert_eq!(parse_undo(br#"{"dry_run": true}"#), Ok(true));
        assert!(parse_undo(br#"{"to_latest": true}"#).is_err());
    }
}
