//! The end of a run: one table, and every anomaly with the history around it.

use std::collections::BTreeMap;

use crate::checker::{Anomaly, Kind, check, context};
use crate::history::{MarkKind, Outcome};
use crate::run::Found;
use crate::stalls::costs;

/// How many anomalies of a kind are shown.
const SHOWN: usize = 5;

/// Prints it; whether nothing was wrong.
pub fn print(found: &Found, seed: u64) -> bool {
    let anomalies = check(&found.history, &found.reads, &found.readers);
    counts(found);
    faults(found);
    for (error, count) in &found.history.errors {
        println!("{count:>9}  {error}");
    }
    for note in &found.notes {
        println!("note: {note}");
    }
    for problem in &found.problems {
        println!("PROBLEM  {problem}");
    }
    let mut by_kind: BTreeMap<Kind, Vec<&Anomaly>> = BTreeMap::new();
    for anomaly in &anomalies {
        by_kind.entry(anomaly.kind).or_default().push(anomaly);
    }
    for (kind, anomalies) in &by_kind {
        println!("ANOMALY  {kind:?}: {}", anomalies.len());
        anomalies.iter().take(SHOWN).for_each(|anomaly| show(anomaly, found));
    }
    let well = anomalies.is_empty() && found.problems.is_empty();
    let (faults, count) = (found.windows.len(), anomalies.len() + found.problems.len());
    match well {
        true => println!("seed {seed}: {faults} faults, no anomaly"),
        false => println!("seed {seed}: {faults} faults, {count} ANOMALIES"),
    }
    well
}

fn show(anomaly: &Anomaly, found: &Found) {
    let partition = found.partitions.get(usize::from(anomaly.partition));
    let partition = partition.map_or("", String::as_str);
    let offset = anomaly.offset.map(|offset| format!(" at {offset}")).unwrap_or_default();
    println!("  {partition}{offset}: {}", anomaly.text);
    for line in context(anomaly, &found.history, &found.reads) {
        println!("      {line}");
    }
}

fn counts(found: &Found) {
    let history = &found.history;
    let acknowledged =
        history.sent.iter().filter(|sent| matches!(sent.outcome, Outcome::Acknowledged(_)));
    let acknowledged = acknowledged.count();
    let unknown = history.sent.len() - acknowledged;
    let polls = history.sessions.iter().flat_map(|session| &session.polls);
    let read: usize = polls.clone().map(|poll| poll.records.len()).sum();
    let commits = history.marks.iter().filter(|mark| mark.kind == MarkKind::Committed).count();
    let fetched = history.marks.len() - commits;
    println!();
    println!("{:>9}  records sent", history.sent.len());
    println!("{acknowledged:>9}  acknowledged");
    println!("{unknown:>9}  of unknown outcome");
    println!("{read:>9}  records read, in {} polls", polls.count());
    println!("{commits:>9}  offsets committed, {fetched} fetched");
    println!("{:>9}  reads of everything at the end, three with a broker down", found.reads.len());
}

fn faults(found: &Found) {
    println!();
    println!("{:<48} {:>6} {:>16} {:>16}", "fault", "times", "one partition", "all partitions");
    for (name, cost) in costs(&found.history, &found.windows) {
        let seconds = |ms| format!("{:.1} s", f64::from(ms) / 1e3);
        let (one, all) = (seconds(cost.one_partition), seconds(cost.all_partitions));
        println!("{name:<48} {:>6} {one:>16} {all:>16}", cost.count);
    }
    println!("(the longest time without a successful produce, fault and recovery together)");
    println!();
}
