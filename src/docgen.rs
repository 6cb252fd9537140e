//! The documents that are made from the tables of the code, so that they cannot lie:
//! COMPATIBILITY.md from the APIs, CONFIG.md from the configuration keys, METRICS.md from the
//! metrics. `tests/docs.rs` fails when a file differs, and rewrites it with `UPDATE_EXPECT=1`.
//!
//! Pure: no I/O, no clock, no randomness.

mod clients;

use std::fmt::Write;

use protocol::{ApiSpec, Stage};

use crate::config::BrokerConfig;
use crate::config::definitions::{self, Definition, Dynamic, Effect, Scope, Section};
use crate::config::value;
use crate::handlers::TABLE;
use crate::telemetry::METRICS;

const GENERATED: &str =
    "<!-- Generated from the code: UPDATE_EXPECT=1 cargo test --test docs -->\n";

/// Every document: its path in the repository, and its text. The two arguments are what the runs
/// of clients and of suites recorded.
pub fn documents(
    matrix: &str,
    suites: &str,
) -> Result<[(&'static str, String); 3], serde_json::Error> {
    let compatibility = compatibility() + &clients::sections(matrix, suites)?;
    Ok([
        ("docs/COMPATIBILITY.md", compatibility),
        ("docs/CONFIG.md", config()),
        ("docs/METRICS.md", metric_list()),
    ])
}

fn compatibility() -> String {
    let mut text = format!(
        "# Compatibility\n\n{GENERATED}\n\
         What of Kafka's protocol is served. *Advertised* is what ApiVersions says; it is wider \
         than *served* only where clients look at the number without using it. An API that is not \
         in this table is not advertised, and a request of it closes the connection, as in Kafka. \
         *Complete* means: as Kafka does it, but for the gaps named below. *Partial* means: \
         clients get along with it, and whole parts are missing. *Stub* means: it answers what is \
         true of a broker without the feature.\n\n\
         |Key|API|Served|Advertised|Stage|\n|-:|-|-|-|-|\n"
    );
    for row in TABLE {
        let ApiSpec { key, implemented, stage, .. } = &row.spec;
        let (min, max) = row.spec.advertised();
        let served = format!("{}-{}", implemented.start(), implemented.end());
        let stage = stage_name(*stage);
        let code = row.spec.code();
        line(&mut text, format_args!("|{code}|{key:?}|{served}|{min}-{max}|{stage}|"));
    }
    text.push_str("\n## Gaps\n");
    for row in TABLE.iter().filter(|row| !row.spec.gaps.is_empty()) {
        line(&mut text, format_args!("\n**{:?}**\n", row.spec.key));
        for gap in row.spec.gaps {
            line(&mut text, format_args!("- {gap}"));
        }
    }
    text
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Complete => "complete",
        Stage::Partial => "partial",
        Stage::Stub => "stub",
    }
}

fn config() -> String {
    let mut text = format!(
        "# Configuration\n\n{GENERATED}\n\
         Keys have Kafka's names; those that Kafka does not have begin with `highwater.`. They are \
         read from the file given by `--config` (the format of `server.properties`), then from the \
         environment (`KAFKA_LOG_DIRS` or `KAFKA_CFG_LOG_DIRS` for `log.dirs`), then from \
         `--override key=value`; the last one counts. A wrong value stops the start. A key that is \
         in no table here is named in a warning and ignored. *Dynamic* says whether \
         `kafka-configs` can change a broker's key while it runs; a topic's key always can be \
         changed, and so can a group's.\n"
    );
    for section in definitions::TABLE {
        config_section(&mut text, section);
    }
    text
}

fn config_section(text: &mut String, section: &Section) {
    let (effective, ineffective): (Vec<&Definition>, Vec<&Definition>) =
        section.rows.iter().partition(|row| row.effect == Effect::Yes);
    line(text, format_args!("\n## {}\n", section.title));
    if !effective.is_empty() {
        let heading = match section.scope {
            Scope::Broker => "|Key|Default|Allowed|Dynamic|What it does|\n|-|-|-|-|-|",
            Scope::Topic | Scope::Group => {
                "|Key|Default|Allowed|Default from|What it does|\n|-|-|-|-|-|"
            }
        };
        line(text, format_args!("{heading}"));
    }
    for row in effective {
        let origin = match section.scope {
            Scope::Broker => dynamic_name(row.dynamic).to_owned(),
            Scope::Topic | Scope::Group => row.synonyms.join(", "),
        };
        let Definition { name, default, doc, .. } = row;
        let default = cell(default.unwrap_or(""));
        let allowed = cell(&value::allowed(row));
        line(text, format_args!("|`{name}`|{default}|{allowed}|{origin}|{}|", cell(doc)));
    }
    if !ineffective.is_empty() {
        text.push_str("\nAccepted and shown, without effect:\n\n|Key|Default|Why|\n|-|-|-|\n");
    }
    for row in ineffective {
        let Effect::No(reason) = row.effect else { continue };
        let default = cell(row.default.unwrap_or(""));
        line(text, format_args!("|`{}`|{default}|{}|", row.name, cell(reason)));
    }
}

fn dynamic_name(dynamic: Dynamic) -> &'static str {
    match dynamic {
        Dynamic::ReadOnly => "no",
        Dynamic::PerBroker => "per broker",
        Dynamic::ClusterWide => "cluster-wide",
    }
}

fn metric_list() -> String {
    let mut text = format!(
        "# Metrics\n\n{GENERATED}\n\
         In Prometheus' text format at `/metrics` of `highwater.http.listener`. A series appears \
         once it has a value.\n\n|Metric|Type|Labels|What it says|\n|-|-|-|-|\n"
    );
    for metric in METRICS {
        let labels = metric.labels.join(", ");
        let kind = metric.kind.name();
        line(&mut text, format_args!("|`{}`|{kind}|{labels}|{}|", metric.name, metric.help));
    }
    text
}

/// The configuration that a broker would run with, as a properties file. Passwords are hidden.
#[must_use]
pub fn effective_config(config: &BrokerConfig) -> String {
    let mut text = String::new();
    for (key, entry) in &config.values {
        let hidden = definitions::broker(key).is_some_and(Definition::is_sensitive);
        match &entry.value {
            Some(_) if hidden => line(&mut text, format_args!("{key}=[hidden]")),
            Some(value) => line(&mut text, format_args!("{key}={value}")),
            None => line(&mut text, format_args!("# {key} has no value")),
        }
    }
    text
}

/// A table's cell must not hold what ends it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn line(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{arguments}");
}
