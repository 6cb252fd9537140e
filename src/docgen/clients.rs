//! The part of COMPATIBILITY.md that comes from runs: which client does what, and how the suites
//! of others fare, with Apache Kafka beside. The runners in `compat-tests` write the data.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

/// What `compat-tests/run.sh` recorded.
#[derive(Deserialize)]
struct Matrix {
    scenarios: Vec<Scenario>,
    clients: Vec<Client>,
}

#[derive(Deserialize)]
struct Scenario {
    id: String,
    title: String,
    does: String,
}

#[derive(Deserialize)]
struct Client {
    title: String,
    /// Cases that only this client has.
    own: Vec<String>,
    cases: BTreeMap<String, Case>,
}

#[derive(Deserialize)]
struct Case {
    result: String,
    reason: String,
}

/// By suite and broker.
type Scores = BTreeMap<String, BTreeMap<String, Score>>;

/// What `compat-tests/suites/run.sh` recorded of a suite and a broker.
#[derive(Deserialize)]
struct Score {
    passed: usize,
    skipped: Vec<String>,
    /// With the reasons.
    failed: BTreeMap<String, String>,
}

/// Both sections, from the texts of the recorded files.
pub(super) fn sections(matrix: &str, suites: &str) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    matrix_section(&mut text, &serde_json::from_str(matrix)?);
    suites_section(&mut text, &serde_json::from_str(suites)?);
    Ok(text)
}

fn matrix_section(text: &mut String, matrix: &Matrix) {
    text.push_str(
        "\n## Clients\n\nWhat `make compat` tries with real clients, each through its own \
         language's test runner: ✓ passes, ✗ fails, – cannot be tried. `make compat-reference` \
         runs the same against Apache Kafka.\n\n",
    );
    let has_scenarios = |client: &&Client| {
        matrix.scenarios.iter().any(|scenario| client.cases.contains_key(&scenario.id))
    };
    let clients: Vec<&Client> = matrix.clients.iter().filter(has_scenarios).collect();
    let titles: Vec<&str> = clients.iter().map(|client| client.title.as_str()).collect();
    let _ = writeln!(text, "|Scenario|{}|", titles.join("|"));
    let _ = writeln!(text, "|-|{}|", vec![":-:"; clients.len()].join("|"));
    for Scenario { id, title, .. } in &matrix.scenarios {
        let sign = |client: &&Client| match client.cases.get(id).map(|case| case.result.as_str()) {
            Some("pass") => "✓",
            Some("fail") => "✗",
            Some("skip") => "–",
            _ => "?",
        };
        let signs: Vec<&str> = clients.iter().map(sign).collect();
        let _ = writeln!(text, "|{title}|{}|", signs.join("|"));
    }
    text.push_str("\nWhat the scenarios look at:\n\n");
    for Scenario { title, does, .. } in &matrix.scenarios {
        let _ = writeln!(text, "- **{title}.** {does}");
    }
    reasons(text, matrix);
    own_cases(text, matrix);
}

/// Why a case is not a pass, each reason once.
fn reasons(text: &mut String, matrix: &Matrix) {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for client in &matrix.clients {
        let mut cases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (id, case) in client.cases.iter().filter(|(_, case)| !case.reason.is_empty()) {
            cases.entry(&case.reason).or_default().push(id);
        }
        for (reason, ids) in cases {
            let all = ids.len() == client.cases.len();
            let which = if all { String::new() } else { format!(" ({})", ids.join(", ")) };
            by_reason.entry(reason).or_default().push(format!("{}{which}", client.title));
        }
    }
    if !by_reason.is_empty() {
        text.push_str("\nWhat is not a ✓, and why:\n\n");
    }
    for (reason, clients) in by_reason {
        let _ = writeln!(text, "- {}: {reason}", clients.join(", "));
    }
}

fn own_cases(text: &mut String, matrix: &Matrix) {
    text.push_str("\nBeyond these:\n\n");
    for client in matrix.clients.iter().filter(|client| !client.own.is_empty()) {
        let passes = |id: &&String| client.cases.get(*id).is_some_and(|c| c.result == "pass");
        let passed = client.own.iter().filter(passes).count();
        let total = client.own.len();
        let list = client.own.join(", ");
        let _ = writeln!(text, "- {}: {passed} of {total} cases of its own ({list})", client.title);
    }
}

fn suites_section(text: &mut String, suites: &Scores) {
    text.push_str(
        "\n## Suites of others\n\nlibrdkafka's own tests and franz-go's, as their authors \
         published them (`make suites`, and `make suites BROKER=kafka` for comparison).\n\n\
         |Suite|Broker|Passed|Failed|Skipped|\n|-|-|-:|-:|-:|\n",
    );
    for (suite, brokers) in suites {
        for (broker, Score { passed, skipped, failed }) in brokers {
            let (failed, skipped) = (failed.len(), skipped.len());
            let broker = if broker == "kafka" { "Apache Kafka 4.4.0" } else { "Highwater" };
            let _ = writeln!(text, "|{suite}|{broker}|{passed}|{failed}|{skipped}|");
        }
    }
    for (suite, brokers) in suites {
        let Some(ours) = brokers.get("highwater").filter(|ours| !ours.failed.is_empty()) else {
            continue;
        };
        let kafka = brokers.get("kafka");
        let _ = writeln!(text, "\nWhat fails of {suite}:\n");
        for (test, reason) in &ours.failed {
            let also = kafka.is_some_and(|kafka| kafka.failed.contains_key(test));
            let also = if also { " Apache Kafka fails it too." } else { "" };
            let _ = writeln!(text, "- `{test}`: {reason}{also}");
        }
    }
}
