//! Each anomaly is found, and a history without one is left in peace.

use std::collections::BTreeSet;

use super::{Anomaly, Kind, check, context};
use crate::history::{History, Log, Mark, MarkKind, Outcome, Poll, Refusal, Sent, Session, Value};

const READER: u16 = 9;

fn value(sequence: u32) -> Value {
    Value { producer: 1, partition: 0, sequence }
}

fn records(sequences: &[u32]) -> Vec<(i64, Value)> {
    (0..).zip(sequences.iter().map(|sequence| value(*sequence))).collect()
}

fn session(start: i64, polls: &[&[(i64, Value)]]) -> Session {
    let polls = polls.iter().zip(0..).map(|(records, at)| Poll { at, records: records.to_vec() });
    Session { reader: READER, partition: 0, start, polls: polls.collect() }
}

fn mark(kind: MarkKind, offset: i64, at: u32) -> Mark {
    Mark { group: 5, partition: 0, offset, invoked: at, completed: at + 1, kind }
}

/// Four records, acknowledged and read by everybody.
struct Run {
    history: History,
    logs: Vec<Log>,
}

impl Run {
    fn new() -> Run {
        let sent = records(&[0, 1, 2, 3]).into_iter().map(|(offset, value)| {
            let outcome = Outcome::Acknowledged(Some(offset));
            Sent { value, invoked: 1, completed: 2, outcome }
        });
        let all = records(&[0, 1, 2, 3]);
        let sessions = vec![session(0, &[&all[..2], &all[2..]])];
        let marks = vec![mark(MarkKind::Committed, 2, 10), mark(MarkKind::Fetched, 2, 20)];
        let history = History { sent: sent.collect(), sessions, marks, ..History::default() };
        Run { history, logs: vec![vec![all]] }
    }

    fn with_log(mut self, sequences: &[u32]) -> Run {
        self.logs = vec![vec![records(sequences)]];
        self.unread()
    }

    fn unread(mut self) -> Run {
        self.history.sessions.clear();
        self
    }

    fn unanswered(mut self, index: usize) -> Run {
        self.history.sent[index].outcome = Outcome::Unknown;
        self
    }

    fn anomalies(&self, readers: &[u16]) -> Vec<Anomaly> {
        check(&self.history, &self.logs, &readers.iter().copied().collect::<BTreeSet<_>>())
    }

    fn finds(&self, readers: &[u16]) -> Vec<Kind> {
        self.anomalies(readers).into_iter().map(|anomaly| anomaly.kind).collect()
    }
}

#[test]
fn a_history_without_an_anomaly_has_none() {
    assert_eq!(Run::new().anomalies(&[READER]), []);
}

#[test]
fn a_record_whose_outcome_is_unknown_may_be_there_or_not() {
    assert_eq!(Run::new().unanswered(3).anomalies(&[READER]), []);
    assert_eq!(Run::new().unanswered(3).with_log(&[0, 1, 2]).anomalies(&[]), []);
}

#[test]
fn an_acknowledged_record_that_is_gone_is_lost() {
    assert_eq!(Run::new().with_log(&[0, 1, 2]).finds(&[]), [Kind::LostWrite]);
}

#[test]
fn an_acknowledged_record_that_one_replica_lacks_is_lost() {
    let mut run = Run::new();
    run.logs.push(vec![records(&[0, 1, 2])]);
    assert_eq!(run.unread().finds(&[]), [Kind::LostWrite]);
}

#[test]
fn a_record_that_was_read_and_is_gone_is_lost() {
    let mut run = Run::new().unanswered(3);
    run.logs = vec![vec![records(&[0, 1, 2])]];
    assert_eq!(run.finds(&[]), [Kind::LostWrite]);
}

#[test]
fn a_record_at_two_offsets_is_a_duplicate() {
    let found = Run::new().with_log(&[0, 1, 2, 3, 1]).anomalies(&[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].kind, found[0].offset), (Kind::Duplicate, Some(4)));
}

#[test]
fn records_in_another_order_than_they_were_sent_are_found() {
    let mut run = Run::new().with_log(&[0, 2, 1, 3]);
    for sent in &mut run.history.sent {
        sent.outcome = Outcome::Acknowledged(None);
    }
    assert_eq!(run.finds(&[]), [Kind::Reordered]);
}

#[test]
fn an_offset_with_two_values_is_found_in_acknowledgements_polls_and_replicas() {
    let mut acknowledged = Run::new();
    acknowledged.history.sent[3].outcome = Outcome::Acknowledged(Some(2));
    assert_eq!(acknowledged.finds(&[]), [Kind::InconsistentOffset]);

    let mut polled = Run::new();
    polled.history.sessions.push(session(2, &[&[(2, value(3))]]));
    assert_eq!(polled.finds(&[]), [Kind::InconsistentOffset]);

    let mut replicated = Run::new();
    replicated.logs.push(vec![records(&[0, 1, 3, 2])]);
    assert_eq!(replicated.finds(&[]), [Kind::InconsistentOffset; 2]);
}

#[test]
fn a_reader_that_is_led_past_a_record_is_found() {
    let all = records(&[0, 1, 2, 3]);
    let mut between = Run::new().unread();
    between.history.sessions.push(session(0, &[&all[..1], &all[2..]]));
    assert_eq!(between.finds(&[]), [Kind::PollSkip]);

    let mut within = Run::new().unread();
    within.history.sessions.push(session(0, &[&[all[0], all[3]]]));
    assert_eq!(within.finds(&[]), [Kind::PollSkip]);

    let mut at_the_start = Run::new().unread();
    at_the_start.history.sessions.push(session(1, &[&all[2..]]));
    assert_eq!(at_the_start.finds(&[]), [Kind::PollSkip]);
}

#[test]
fn offsets_that_hold_no_record_may_be_passed_over() {
    let mut run = Run::new();
    let gap: Vec<_> = records(&[0, 1, 2, 3]).into_iter().map(|(o, v)| (o * 2, v)).collect();
    for (sent, (offset, _)) in run.history.sent.iter_mut().zip(&gap) {
        sent.outcome = Outcome::Acknowledged(Some(*offset));
    }
    run.history.sessions = vec![session(0, &[&gap])];
    run.logs = vec![vec![gap]];
    assert_eq!(run.anomalies(&[READER]), []);
}

#[test]
fn a_reader_that_is_led_back_is_found() {
    let all = records(&[0, 1, 2, 3]);
    let mut run = Run::new();
    run.history.sessions.push(session(0, &[&all[..2], &all[1..]]));
    assert_eq!(run.finds(&[]), [Kind::NonMonotonicPoll]);
}

#[test]
fn an_acknowledged_record_that_a_reader_never_saw_is_found() {
    let mut run = Run::new();
    run.history.sessions = vec![session(0, &[&records(&[0, 1, 2])])];
    assert_eq!(run.finds(&[READER]), [Kind::Unseen]);
    assert_eq!(run.finds(&[]), []);
}

#[test]
fn a_committed_offset_that_goes_back_is_found() {
    let mut run = Run::new();
    run.history.marks.push(mark(MarkKind::Fetched, 1, 30));
    assert_eq!(run.finds(&[]), [Kind::CommittedWentBack]);
}

#[test]
fn a_fetch_of_the_committed_offset_may_overtake_a_commit_that_is_on_its_way() {
    let mut run = Run::new();
    run.history.marks.push(Mark { completed: 40, ..mark(MarkKind::Committed, 4, 30) });
    run.history.marks.push(mark(MarkKind::Fetched, 2, 35));
    assert_eq!(run.anomalies(&[]), []);
}

#[test]
fn what_nobody_sent_is_found() {
    let mut run = Run::new();
    run.logs[0][0].push((4, value(77)));
    run.history.foreign.push((0, 5));
    assert_eq!(run.finds(&[]), [Kind::Foreign, Kind::Foreign]);
}

#[test]
fn a_refused_sequence_is_found() {
    let mut run = Run::new();
    let error = "OUT_OF_ORDER_SEQUENCE_NUMBER".to_owned();
    run.history.refusals.push(Refusal { value: value(4), at: 7, error });
    assert_eq!(run.finds(&[]), [Kind::SequenceRefused]);
}

#[test]
fn the_history_around_an_anomaly_is_shown() {
    let run = Run::new().with_log(&[0, 1, 2]);
    let found = run.anomalies(&[]);
    let lines = context(&found[0], &run.history, &run.logs);
    assert_eq!(lines[0], "read 0 (ends at 3): 0 p1:0:0, 1 p1:0:1, 2 p1:0:2");
    assert_eq!(lines[4], "3 acknowledged: p1:0:3, sent at 1 ms, answered at 2 ms");
}
