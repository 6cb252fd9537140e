//! Pure: finds what may not be in a history, with the meaning that Jepsen's Kafka workload gives
//! it. The log of a partition is what the final read found; everything else is held against it.

mod context;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::history::{History, Log, MarkKind, Outcome, Partition, Sent, Session, Value};

pub use context::context;

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Acknowledged or read, and not in the log any more.
    LostWrite,
    /// One value at two offsets.
    Duplicate,
    /// A producer's records in another order than it sent them.
    Reordered,
    /// One offset, two values: between two reads, replicas, or a read and an acknowledgement.
    InconsistentOffset,
    /// A reader was led past a record.
    PollSkip,
    /// A reader was led back.
    NonMonotonicPoll,
    /// Acknowledged, in the log, and never shown to a reader that had the time to see it.
    Unseen,
    /// A group was told of an offset below one that it had committed.
    CommittedWentBack,
    /// An idempotent producer that did everything right was told that its sequence is wrong.
    SequenceRefused,
    /// A record that nobody has sent there.
    Foreign,
}

/// Something that may not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// What it is.
    pub kind: Kind,
    /// Where.
    pub partition: Partition,
    /// At which offset, where there is one.
    pub offset: Option<i64>,
    /// The rest.
    pub text: String,
}

/// Checks a history against what was read in the end, from several leaders one after the other.
pub fn check(history: &History, reads: &[Log], readers: &BTreeSet<u16>) -> Vec<Anomaly> {
    let partitions = reads.first().map_or(0, Vec::len);
    let mut found = Vec::new();
    for index in 0..partitions {
        let partition = Partition::try_from(index).unwrap_or(Partition::MAX);
        let mut check = Check::new(history, partition, &mut found);
        check.read_logs(reads.iter().filter_map(|log| log.get(index)));
        check.polls();
        check.acknowledgements();
        check.order();
        check.losses();
        check.unseen(readers);
        check.marks();
    }
    for (partition, offset) in &history.foreign {
        let text = "a record that no producer of this run has made".to_owned();
        let (kind, offset) = (Kind::Foreign, Some(*offset));
        found.push(Anomaly { kind, partition: *partition, offset, text });
    }
    found.extend(history.refusals.iter().map(|refusal| Anomaly {
        kind: Kind::SequenceRefused,
        partition: refusal.value.partition,
        offset: None,
        text: format!("{} at {} ms: {}", refusal.value, refusal.at, refusal.error),
    }));
    found
}

/// One partition being checked.
struct Check<'a> {
    history: &'a History,
    partition: Partition,
    /// What each read at the end has found.
    logs: Vec<HashSet<Value>>,
    /// What anybody has seen at an offset.
    by_offset: BTreeMap<i64, Value>,
    found: &'a mut Vec<Anomaly>,
}

impl<'a> Check<'a> {
    fn new(history: &'a History, partition: Partition, found: &'a mut Vec<Anomaly>) -> Check<'a> {
        let (logs, by_offset) = (Vec::new(), BTreeMap::new());
        Check { history, partition, logs, by_offset, found }
    }

    /// What was sent here.
    fn sent(&self) -> impl Iterator<Item = &'a Sent> + use<'a> {
        let (history, partition) = (self.history, self.partition);
        history.sent.iter().filter(move |sent| sent.value.partition == partition)
    }

    /// What was read here.
    fn sessions(&self) -> impl Iterator<Item = &'a Session> + use<'a> {
        let (history, partition) = (self.history, self.partition);
        history.sessions.iter().filter(move |session| session.partition == partition)
    }

    fn report(&mut self, kind: Kind, offset: Option<i64>, text: String) {
        self.found.push(Anomaly { kind, partition: self.partition, offset, text });
    }

    /// Whether `value` agrees with what else was seen at that offset.
    fn place(&mut self, offset: i64, value: Value, seen_by: &str) {
        let first = *self.by_offset.entry(offset).or_insert(value);
        if first != value {
            let text = format!("{first}, but {seen_by} has {value}");
            self.report(Kind::InconsistentOffset, Some(offset), text);
        }
    }

    fn read_logs<'l>(&mut self, logs: impl Iterator<Item = &'l Vec<(i64, Value)>>) {
        for (read, log) in logs.enumerate() {
            for (offset, value) in log {
                self.place(*offset, *value, &format!("read {read}"));
            }
            self.logs.push(log.iter().map(|(_, value)| *value).collect());
        }
    }

    /// The first of the reads at the end that has not found a record.
    fn missing(&self, value: Value) -> Option<usize> {
        self.logs.iter().position(|log| !log.contains(&value))
    }

    fn polls(&mut self) {
        for session in self.sessions() {
            let seen_by = format!("reader {}", session.reader);
            for (offset, value) in session.polls.iter().flat_map(|poll| &poll.records) {
                self.place(*offset, *value, &seen_by);
            }
        }
        for session in self.sessions() {
            let mut next = session.start;
            for poll in &session.polls {
                for (offset, value) in &poll.records {
                    let by = format!("reader {} at {} ms: {value}", session.reader, poll.at);
                    if *offset < next {
                        let text = format!("{by}, where {next} was due");
                        self.report(Kind::NonMonotonicPoll, Some(*offset), text);
                    } else if let Some((skipped, lost)) =
                        self.by_offset.range(next..*offset).next().map(|(o, v)| (*o, *v))
                    {
                        let text = format!("{by}, past {lost} at {skipped}");
                        self.report(Kind::PollSkip, Some(skipped), text);
                    }
                    next = offset + 1;
                }
            }
        }
    }

    fn acknowledgements(&mut self) {
        for sent in self.sent() {
            if let Outcome::Acknowledged(Some(offset)) = sent.outcome {
                self.place(offset, sent.value, "the acknowledgement");
            }
        }
    }

    /// Duplicates, reordering, and what was never sent.
    fn order(&mut self) {
        let sent: HashSet<Value> = self.sent().map(|sent| sent.value).collect();
        let mut places: HashMap<Value, i64> = HashMap::new();
        let mut last: HashMap<u16, Value> = HashMap::new();
        for (offset, value) in self.by_offset.clone() {
            if !sent.contains(&value) {
                self.report(Kind::Foreign, Some(offset), format!("{value} was not sent here"));
            }
            if let Some(first) = places.insert(value, offset) {
                let text = format!("{value} is at {first} as well");
                self.report(Kind::Duplicate, Some(offset), text);
                continue;
            }
            match last.insert(value.producer, value) {
                Some(before) if before.sequence > value.sequence => {
                    let text = format!("{value} stands behind {before}");
                    self.report(Kind::Reordered, Some(offset), text);
                }
                _ => {}
            }
        }
    }

    fn losses(&mut self) {
        for sent in self.sent() {
            let Outcome::Acknowledged(offset) = sent.outcome else { continue };
            if let Some(read) = self.missing(sent.value) {
                let (value, at) = (sent.value, sent.completed);
                let text = format!("{value}, acknowledged at {at} ms, is not in read {read}");
                self.report(Kind::LostWrite, offset, text);
            }
        }
        let mut told = HashSet::new();
        for session in self.sessions() {
            for poll in &session.polls {
                for (offset, value) in &poll.records {
                    let Some(read) = self.missing(*value) else { continue };
                    if told.insert(*value) {
                        let (by, at) = (session.reader, poll.at);
                        let text =
                            format!("{value}, read by {by} at {at} ms, is not in read {read}");
                        self.report(Kind::LostWrite, Some(*offset), text);
                    }
                }
            }
        }
    }

    fn unseen(&mut self, readers: &BTreeSet<u16>) {
        for reader in readers {
            let own = self.sessions().filter(|session| session.reader == *reader);
            let seen: HashSet<Value> =
                own.flat_map(|s| &s.polls).flat_map(|p| &p.records).map(|(_, v)| *v).collect();
            for sent in self.sent() {
                let Outcome::Acknowledged(offset) = sent.outcome else { continue };
                if !seen.contains(&sent.value) && self.missing(sent.value).is_none() {
                    let text = format!("{} was never shown to reader {reader}", sent.value);
                    self.report(Kind::Unseen, offset, text);
                }
            }
        }
    }

    /// What a group fetches is not below what it was told is committed before it asked.
    fn marks(&mut self) {
        let marks = self.history.marks.iter().filter(|mark| mark.partition == self.partition);
        let mut by_group: BTreeMap<u16, Vec<_>> = BTreeMap::new();
        for mark in marks {
            by_group.entry(mark.group).or_default().push(mark);
        }
        for (group, marks) in by_group {
            // Both what was acknowledged and what was shown must stay: in the order of completion
            // they make a line that later requests may not fall below.
            let mut known: Vec<_> =
                marks.iter().map(|mark| (mark.completed, mark.offset)).collect();
            known.sort_unstable();
            let mut highest = i64::MIN;
            for (_, offset) in &mut known {
                highest = highest.max(*offset);
                *offset = highest;
            }
            for mark in marks.iter().filter(|mark| mark.kind == MarkKind::Fetched) {
                let before = known.partition_point(|(completed, _)| *completed < mark.invoked);
                let floor = before.checked_sub(1).map_or(i64::MIN, |last| known[last].1);
                if mark.offset < floor {
                    let text = format!(
                        "group {group} had {floor} and was told {} at {} ms",
                        mark.offset, mark.completed
                    );
                    self.report(Kind::CommittedWentBack, Some(mark.offset), text);
                }
            }
        }
    }
}
