//! `highwater rewind`: has a group begin elsewhere, also one that is at work, and shows where it
//! stood before and stands after.

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use serde_json::{Map, Value};

use super::client::{Admin, encoded};
use super::table::{Column, table, text};
use super::{fail, print};

/// Have a consumer group begin elsewhere, also while its members run.
///
/// The members of a running group are made to begin at the new offsets; what they commit of before
/// is not taken.
#[derive(Args, Debug, Clone)]
#[command(group = ArgGroup::new("target").required(true).args([
    "to_datetime", "by_duration", "to_offset", "to_earliest", "to_latest", "shift_by", "undo",
]))]
pub struct RewindArguments {
    /// The group.
    pub group: String,
    /// To the first record of that time or later: 2024-12-31T23:59:59.000, in UTC unless there is
    /// an offset behind it (+01:00).
    #[arg(long, value_name = "DATETIME")]
    pub to_datetime: Option<String>,
    /// To the first record that is not older than that: PT1H30M, P7D.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub by_duration: Option<String>,
    /// To that offset.
    #[arg(long, value_name = "OFFSET")]
    pub to_offset: Option<u64>,
    /// To the first record that there is.
    #[arg(long)]
    pub to_earliest: bool,
    /// To the end: nothing that there is now is read.
    #[arg(long)]
    pub to_latest: bool,
    /// So many records on, or back where it is negative.
    #[arg(long, value_name = "RECORDS", allow_negative_numbers = true)]
    pub shift_by: Option<i64>,
    /// Back to where the group stood before the last rewind.
    #[arg(long, conflicts_with = "topics")]
    pub undo: bool,
    /// Only this topic, or these partitions of it (T:0,1); may be given more than once. Without
    /// it, all partitions that the group has an offset of or that a member reads.
    #[arg(long = "topic", value_name = "T[:P,P]")]
    pub topics: Vec<String>,
    /// Show what would become of it, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Print what the broker answers, as JSON.
    #[arg(long)]
    pub json: bool,
    /// The address for HTTP of the broker that coordinates the group.
    #[arg(long, value_name = "URL", default_value = "http://localhost:9644")]
    pub admin: String,
}

/// Runs the command.
pub fn run(arguments: &RewindArguments) -> ExitCode {
    match rewound(arguments) {
        Ok(text) => print(&text),
        Err(sentence) => fail(&sentence),
    }
}

fn rewound(arguments: &RewindArguments) -> Result<String, String> {
    let admin = Admin::parse(&arguments.admin)?;
    let undo = if arguments.undo { "/undo" } else { "" };
    let path = format!("/v1/groups/{}/rewind{undo}", encoded(&arguments.group));
    let answer = admin.post(&path, &question(arguments).to_string())?;
    let (json, body) = answer.json(&arguments.admin)?;
    if arguments.json {
        return Ok(body + "\n");
    }
    let rows = json.as_array().map(Vec::as_slice).unwrap_or_default();
    match rows.is_empty() {
        true => Err(format!(
            "group {} has no offsets and its members read nothing: name topics with --topic",
            arguments.group
        )),
        false => Ok(shown(rows)),
    }
}

/// What is asked, as the broker takes it.
fn question(arguments: &RewindArguments) -> Value {
    let mut fields = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(key.to_owned(), value);
        }
    };
    set("to_datetime", arguments.to_datetime.clone().map(Value::from));
    set("by_duration", arguments.by_duration.clone().map(Value::from));
    set("to_offset", arguments.to_offset.map(Value::from));
    set("shift_by", arguments.shift_by.map(Value::from));
    set("to_earliest", arguments.to_earliest.then_some(Value::Bool(true)));
    set("to_latest", arguments.to_latest.then_some(Value::Bool(true)));
    set("dry_run", arguments.dry_run.then_some(Value::Bool(true)));
    let topics = Some(&arguments.topics).filter(|topics| !topics.is_empty());
    set("topics", topics.map(|topics| Value::from(topics.clone())));
    Value::Object(fields)
}

fn shown(rows: &[Value]) -> String {
    let columns = [
        Column::left("TOPIC", |row: &Value| text(&row["topic"])),
        Column::right("PARTITION", |row| text(&row["partition"])),
        Column::right("BEFORE", |row| text(&row["before"])),
        Column::right("AFTER", |row| text(&row["after"])),
        Column::left("NOTE", note),
    ];
    let first = &rows[0];
    let epoch = match first["type"].as_str() {
        Some("consumer") => "epoch",
        _ => "generation",
    };
    let is_dry_run = first["dry_run"] == Value::Bool(true);
    let done = if is_dry_run { "dry run, nothing is changed" } else { "rewound" };
    let head = format!("{} ({epoch} {}): {done}\n", text(&first["group"]), text(&first["epoch"]));
    head + &table(&columns, rows)
}

/// What there is to say of a row: a warning, or else why there is no offset.
fn note(row: &Value) -> String {
    let words = [&row["warning"], &row["why"]["after"]];
    words.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        rewind: RewindArguments,
    }

    fn parsed(words: &[&str]) -> Result<RewindArguments, String> {
        let words = ["rewind", "g"].iter().chain(words);
        Command::try_parse_from(words).map(|c| c.rewind).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_typed_is_what_is_asked() {
        for (words, asked) in [
            (&["--to-earliest"][..], json!({"to_earliest": true})),
            (&["--to-latest", "--dry-run"], json!({"to_latest": true, "dry_run": true})),
            (&["--shift-by", "-5"], json!({"shift_by": -5})),
            (&["--to-offset=7"], json!({"to_offset": 7})),
            (&["--by-duration", "PT1H"], json!({"by_duration": "PT1H"})),
            (
                &["--to-datetime", "2024-01-01T00:00:00.000", "--topic", "a", "--topic", "b:0,1"],
                json!({"to_datetime": "2024-01-01T00:00:00.000", "topics": ["a", "b:0,1"]}),
            ),
            (&["--undo"], json!({})),
        ] {
            assert_eq!(parsed(words).map(|arguments| question(&arguments)), Ok(asked), "{words:?}");
        }
    }

    #[test]
    fn one_target_is_needed_and_no_two_are_taken() {
        for words in [
            &[][..],
            &["--dry-run"],
            &["--to-earliest", "--to-latest"],
            &["--undo", "--shift-by", "1"],
            &["--undo", "--topic", "t"],
            &["--to-offset", "-1"],
        ] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn before_and_after_stand_side_by_side() {
        let row = |partition: i32, after: Value, warning: Value| {
            json!({
                "group": "g", "type": "classic", "epoch": 4, "topic": "orders",
                "partition": partition, "before": 10, "after": after, "dry_run": false,
                "warning": warning, "why": {},
            })
        };
        let rows = [row(0, json!(2), Value::Null), row(1, Value::Null, json!("look out"))];
        let expected = "\
g (generation 4): rewound
TOPIC   PARTITION  BEFORE  AFTER  NOTE
orders          0      10      2
orders          1      10      -  look out
";
        assert_eq!(shown(&rows), expected);
    }
}
