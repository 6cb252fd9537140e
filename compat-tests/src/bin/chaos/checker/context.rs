//! Pure: what a history says around an anomaly, for whoever looks for its cause.

use super::Anomaly;
use crate::history::{History, Log, Outcome};

/// How many offsets before and behind are shown.
const AROUND: i64 = 3;
/// How many reads of an offset are shown.
const READS: usize = 6;

/// The log around an anomaly, who sent what stands there, and who read it.
pub fn context(anomaly: &Anomaly, history: &History, reads: &[Log]) -> Vec<String> {
    let Some(offset) = anomaly.offset else { return Vec::new() };
    let near = (offset - AROUND)..=(offset + AROUND);
    let mut lines = Vec::new();
    for (read, log) in reads.iter().enumerate() {
        let log = log.get(usize::from(anomaly.partition)).map_or(&[][..], Vec::as_slice);
        let first = log.partition_point(|(at, _)| at < near.start());
        let there = log[first..].iter().take_while(|(at, _)| near.contains(at));
        let there: Vec<String> = there.map(|(at, value)| format!("{at} {value}")).collect();
        let end = log.last().map_or(0, |(at, _)| at + 1);
        lines.push(format!("read {read} (ends at {end}): {}", there.join(", ")));
    }
    for sent in history.sent.iter().filter(|sent| sent.value.partition == anomaly.partition) {
        if let Outcome::Acknowledged(Some(at)) = sent.outcome
            && near.contains(&at)
        {
            lines.push(format!(
                "{at} acknowledged: {}, sent at {} ms, answered at {} ms",
                sent.value, sent.invoked, sent.completed
            ));
        }
    }
    let sessions = history.sessions.iter().filter(|s| s.partition == anomaly.partition);
    let reads = sessions.flat_map(|session| {
        let polls = session.polls.iter();
        polls.flat_map(move |poll| {
            let here = poll.records.iter().filter(move |(at, _)| *at == offset);
            here.map(move |(at, value)| {
                format!("{at} read: {value}, by {} at {} ms", session.reader, poll.at)
            })
        })
    });
    lines.extend(reads.take(READS));
    lines
}
