//! `highwater lag`: how far behind consumer groups are, as a table.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::client::{Admin, encoded};
use super::duration::human;
use super::table::{Align, table};

/// How often `--watch` asks.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// To the top of the screen, and everything below gone.
const REPAINT: &str = "\x1b[H\x1b[J";
/// What stands for a figure that is not known.
const UNKNOWN: &str = "-";

/// Show how far behind consumer groups are.
#[derive(Args, Debug, Clone)]
pub struct LagArguments {
    /// The group, each of its partitions on a line; without it all groups, one on a line.
    pub group: Option<String>,
    /// Ask again every two seconds and repaint.
    #[arg(long)]
    pub watch: bool,
    /// Print what the broker answers, as JSON.
    #[arg(long)]
    pub json: bool,
    /// Count up to the last stable offset, which is what consumers of committed data are given.
    #[arg(long)]
    pub read_committed: bool,
    /// The broker's address for HTTP.
    #[arg(long, value_name = "URL", default_value = "http://localhost:9644")]
    pub admin: String,
}

/// Runs the command.
pub fn run(arguments: &LagArguments) -> ExitCode {
    let admin = match Admin::parse(&arguments.admin) {
        Ok(admin) => admin,
        Err(sentence) => return fail(&sentence),
    };
    if !arguments.watch {
        return match shown(&admin, arguments) {
            Ok(text) => print(&text),
            Err(sentence) => fail(&sentence),
        };
    }
    let repaint = if std::io::stdout().is_terminal() { REPAINT } else { "" };
    loop {
        // A broker that restarts is waited for: whoever watches wants to see it come back.
        let text = shown(&admin, arguments).unwrap_or_else(|sentence| sentence + "\n");
        if print(&format!("{repaint}{text}")) != ExitCode::SUCCESS {
            return ExitCode::FAILURE;
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

fn fail(sentence: &str) -> ExitCode {
    eprintln!("highwater: {sentence}");
    ExitCode::FAILURE
}

/// A reader that has gone (`| head`) ends the command in silence.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn shown(admin: &Admin, arguments: &LagArguments) -> Result<String, String> {
    let isolation = if arguments.read_committed { "?isolation_level=read_committed" } else { "" };
    let path = match &arguments.group {
        Some(group) => format!("/v1/groups/{}/lag{isolation}", encoded(group)),
        None => format!("/v1/groups{isolation}"),
    };
    let answer = admin.get(&path)?;
    let json: Value = serde_json::from_str(&answer.body)
        .map_err(|_| format!("what answers at {} is not Highwater", arguments.admin))?;
    if answer.status != 200 {
        let error = json["error"].as_str();
        return Err(error.map_or_else(|| format!("HTTP status {}", answer.status), str::to_owned));
    }
    if arguments.json {
        return Ok(answer.body + "\n");
    }
    let rows = json.as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(match &arguments.group {
        Some(group) if rows.is_empty() => format!("group {group} has no offsets and no members\n"),
        Some(_) => partitions(rows),
        None if rows.is_empty() => "there are no groups\n".to_owned(),
        None => groups(rows),
    })
}

fn partitions(rows: &[Value]) -> String {
    let columns = [
        ("TOPIC", Align::Left),
        ("PARTITION", Align::Right),
        ("COMMITTED", Align::Right),
        ("END", Align::Right),
        ("LAG", Align::Right),
        ("BEHIND", Align::Right),
        ("DRAINS-IN", Align::Right),
        ("LOSS-IN", Align::Right),
        ("LOST", Align::Right),
        ("STATUS", Align::Left),
        ("MEMBER", Align::Left),
    ];
    let row = |row: &Value| {
        vec![
            text(&row["topic"]),
            text(&row["partition"]),
            text(&row["committed_offset"]),
            text(&row["end_offset"]),
            text(&row["lag_records"]),
            duration(&row["lag_seconds"]),
            duration(&row["drain_seconds"]),
            duration(&row["time_to_loss_seconds"]),
            text(&row["lost_records"]),
            text(&row["status"]),
            text(&row["member"]),
        ]
    };
    table(&columns, &rows.iter().map(row).collect::<Vec<_>>())
}

fn groups(rows: &[Value]) -> String {
    let columns = [
        ("GROUP", Align::Left),
        ("STATE", Align::Left),
        ("PARTITIONS", Align::Right),
        ("LAG", Align::Right),
        ("BEHIND", Align::Right),
        ("DRAINS-IN", Align::Right),
        ("LOSS-IN", Align::Right),
        ("LOST", Align::Right),
        ("STATUS", Align::Left),
    ];
    let row = |row: &Value| {
        vec![
            text(&row["group"]),
            text(&row["state"]),
            text(&row["partitions"]),
            text(&row["lag_records"]),
            duration(&row["lag_seconds"]),
            duration(&row["drain_seconds"]),
            duration(&row["time_to_loss_seconds"]),
            text(&row["lost_records"]),
            text(&row["status"]),
        ]
    };
    table(&columns, &rows.iter().map(row).collect::<Vec<_>>())
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => UNKNOWN.to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn duration(value: &Value) -> String {
    value.as_f64().map_or_else(|| UNKNOWN.to_owned(), human)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash() {
        let rows = [json!({
            "topic": "orders", "partition": 0, "committed_offset": 5, "end_offset": 105,
            "lag_records": 100, "lag_seconds": 61.0, "drain_seconds": null,
            "time_to_loss_seconds": 90_000.0, "lost_records": 0, "status": "WARN", "member": null,
        })];
        let lines: Vec<String> = partitions(&rows).lines().map(str::to_owned).collect();
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        let expected = ["orders", "0", "5", "105", "100", "1m01s", "-", "1d1h", "0", "WARN", "-"];
        assert_eq!(words, expected);
        assert_eq!(lines[0].find("LAG").map(|at| at + 3), lines[1].find("100 ").map(|at| at + 3));
    }
}
