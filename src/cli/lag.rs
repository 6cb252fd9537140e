//! `highwater lag`: how far behind consumer groups are, as a table.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::client::{Admin, encoded};
use super::duration::human;
use super::table::{Column, UNKNOWN, table, text};
use super::{fail, print};

/// How often `--watch` asks.
const WATCH_INTERVAL: Duration = Duration::from_secs(2);
/// To the top of the screen, and everything below gone.
const REPAINT: &str = "\x1b[H\x1b[J";
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

fn shown(admin: &Admin, arguments: &LagArguments) -> Result<String, String> {
    let isolation = if arguments.read_committed { "?isolation_level=read_committed" } else { "" };
    let path = match &arguments.group {
        Some(group) => format!("/v1/groups/{}/lag{isolation}", encoded(group)),
        None => format!("/v1/groups{isolation}"),
    };
    let (json, body) = admin.get(&path)?.json(&arguments.admin)?;
    if arguments.json {
        return Ok(body + "\n");
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
    let mut columns = vec![
        Column::left("TOPIC", |row: &Value| text(&row["topic"])),
        Column::right("PARTITION", |row| text(&row["partition"])),
        Column::right("COMMITTED", |row| text(&row["committed_offset"])),
        Column::right("END", |row| text(&row["end_offset"])),
    ];
    columns.extend(figures());
    columns.push(Column::left("MEMBER", |row| text(&row["member"])));
    table(&columns, rows)
}

fn groups(rows: &[Value]) -> String {
    let mut columns = vec![
        Column::left("GROUP", |row: &Value| text(&row["group"])),
        Column::left("STATE", |row| text(&row["state"])),
        Column::right("PARTITIONS", |row| text(&row["partitions"])),
    ];
    columns.extend(figures());
    table(&columns, rows)
}

/// What is known of a partition as of a group.
fn figures() -> [Column<Value>; 6] {
    [
        Column::right("LAG", |row| text(&row["lag_records"])),
        Column::right("BEHIND", |row| duration(&row["lag_seconds"])),
        Column::right("DRAINS-IN", |row| duration(&row["drain_seconds"])),
        Column::right("LOSS-IN", |row| duration(&row["time_to_loss_seconds"])),
        Column::right("LOST", |row| text(&row["lost_records"])),
        Column::left("STATUS", |row| text(&row["status"])),
    ]
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
