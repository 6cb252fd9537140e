//! Scripts of a group's life on a partition, what holds whatever happens, and the table's bounds.
//!
//! The log of a script is a synthetic one: record `n` is `record_ms` younger than record `n - 1`,
//! record 0 is of the time 0, and each is `record_bytes` long; `batch` records make a batch. A
//! `gap=a..b` has no records, as compaction leaves it.

use std::fmt::Write as _;

use proptest::prelude::*;
use protocol::types::{LeaderEpoch, Offset, PartitionId, Timestamp};
use storage::log_store::NextRecord;
use storage::testing::script::{Command, run_scripts};

use super::Known;
use super::ledger::{LEDGER_RANGES, LossCause};
use super::partition::{Commit, Figures, GroupPartition, LogEnds, Retention};
use super::table::{LagTable, Place};
use crate::coordinator::shard::{Now, Steady};

const TOPIC: &str = "t";
const PARTITION: PartitionId = PartitionId(0);

/// A log whose records are computed.
#[derive(Debug, Clone, Copy)]
struct Log {
    start: i64,
    end: i64,
    record_ms: i64,
    record_bytes: i64,
    batch: i64,
    gap: (i64, i64),
    stamped: bool,
    readable: bool,
    retention: Retention,
}

impl Log {
    fn ends(&self) -> LogEnds {
        LogEnds {
            log_start_offset: Offset(self.start),
            end_offset: Offset(self.end),
            high_watermark: Offset(self.end),
            end_position: (self.end * self.record_bytes) as u64,
        }
    }

    fn next_record(&self, from: Offset, below: Offset) -> Known<Option<NextRecord>> {
        if !self.readable {
            return Err("the records cannot be read");
        }
        let within_gap = (self.gap.0..self.gap.1).contains(&from.0);
        let offset = if within_gap { self.gap.1 } else { from.0 };
        if offset >= below.0 {
            return Ok(None);
        }
        let batch_end = (offset / self.batch + 1) * self.batch;
        let time = |offset: i64| if self.stamped { offset * self.record_ms } else { -1 };
        Ok(Some(NextRecord {
            offset: Offset(offset),
            timestamp: Timestamp(time(offset)),
            expires_with: Timestamp(time(batch_end - 1)),
            batch_end_position: (batch_end * self.record_bytes) as u64,
        }))
    }
}

struct Machine {
    table: LagTable,
    log: Log,
    steady_ms: i64,
    wall_ms: i64,
    looks: usize,
}

impl Machine {
    fn new() -> Machine {
        let log = Log {
            start: 0,
            end: 0,
            record_ms: 100,
            record_bytes: 100,
            batch: 1,
            gap: (0, 0),
            stamped: true,
            readable: true,
            retention: Retention::default(),
        };
        Machine { table: LagTable::new(100), log, steady_ms: 0, wall_ms: 0, looks: 0 }
    }

    fn now(&self) -> Now {
        Now { wall: Timestamp(self.wall_ms), steady: Steady(self.steady_ms) }
    }

    fn run(&mut self, command: &Command) -> String {
        match command.name.as_str() {
            "log" => self.set_log(command),
            "wait" => {
                let ms = (command.arg::<f64>(0) * 1_000.0) as i64;
                self.steady_ms += ms;
                self.wall_ms += ms;
                self.log.end += command.option("produced").unwrap_or(0);
            }
            "clock-jumps" => self.wall_ms += command.arg::<i64>(0) * 1_000,
            "produce" => self.log.end += command.arg::<i64>(0),
            "commit" => self.commit(command),
            "commits" => self.commits(command),
            "read-back" => self.read_back(command),
            "delete-before" => self.delete_before(command),
            "forget" => self.table.on_forgotten(place(&command.arg::<String>(0))),
            "unload" => self.table.on_unloaded(PartitionId(command.arg(0))),
            "groups" => return self.table.groups().map(|group| format!("{group}\n")).collect(),
            "looks" => return self.looks.to_string(),
            "figures" => return self.figures(command),
            _ => command.unknown(),
        }
        String::new()
    }

    fn set_log(&mut self, command: &Command) {
        let set = |field: &mut i64, key: &str| *field = command.option(key).unwrap_or(*field);
        let log = &mut self.log;
        set(&mut log.start, "start");
        set(&mut log.end, "end");
        set(&mut log.record_ms, "record_ms");
        set(&mut log.record_bytes, "record_bytes");
        set(&mut log.batch, "batch");
        if let Some(gap) = command.option::<String>("gap") {
            let (from, to) = gap.split_once("..").unwrap();
            log.gap = (from.parse().unwrap(), to.parse().unwrap());
        }
        log.retention.ms = command.option("retention_ms").or(log.retention.ms);
        log.retention.bytes = command.option("retention_bytes").or(log.retention.bytes);
        log.stamped &= !command.has("without-timestamps");
        log.readable &= !command.has("unreadable");
    }

    fn commit_at(&mut self, group: &str, offset: i64) {
        let commit = commit(offset, self.wall_ms);
        let (now, ends) = (self.now(), self.log.ends());
        self.table.on_commit(now, PartitionId(0), place(group), commit, Some(&ends));
    }

    fn commit(&mut self, command: &Command) {
        self.commit_at(&command.arg::<String>(0), command.arg(1));
    }

    /// `commits g 5 every=10 by=20 produced=20`: so many commits, with a wait before each.
    fn commits(&mut self, command: &Command) {
        let group: String = command.arg(0);
        let (every, by) = (command.required::<f64>("every"), command.required::<i64>("by"));
        let mut offset: i64 = command.required("from");
        for _ in 0..command.arg::<usize>(1) {
            let ms = (every * 1_000.0) as i64;
            self.steady_ms += ms;
            self.wall_ms += ms;
            self.log.end += command.option("produced").unwrap_or(0);
            self.commit_at(&group, offset);
            offset += by;
        }
    }

    /// A commit of the past, as a shard is loaded.
    fn read_back(&mut self, command: &Command) {
        let ago_ms = command.required::<i64>("ago") * 1_000;
        let commit = commit(command.arg(1), self.wall_ms - ago_ms);
        let group: String = command.arg(0);
        self.table.on_commit(self.now(), PartitionId(0), place(&group), commit, None);
    }

    fn delete_before(&mut self, command: &Command) {
        let cause = match command.arg::<String>(1).as_str() {
            "time" => LossCause::RetentionTime,
            "size" => LossCause::RetentionSize,
            _ => LossCause::DeleteRecords,
        };
        self.log.start = command.arg(0);
        let (start, at) = (Offset(self.log.start), Timestamp(self.wall_ms));
        self.table.on_log_start(TOPIC, PARTITION, start, at, cause);
    }

    fn figures(&mut self, command: &Command) -> String {
        let group: String = command.arg(0);
        let (now, ends, log) = (self.now(), self.log.ends(), self.log);
        let looks = &mut self.looks;
        let Some(known) = self.table.get_mut(place(&group)) else { return "unknown".to_owned() };
        let figures = evaluate(known, now, &ends, &log, looks);
        let only: Vec<String> = command.args()[1..].to_vec();
        let mut text = String::new();
        for (name, value) in shown(&figures) {
            if only.is_empty() || only.iter().any(|wanted| wanted == name) {
                let _ = writeln!(text, "{name}: {value}");
            }
        }
        for loss in &figures.lost {
            let (from, to, at) = (loss.from, loss.to, loss.at);
            let _ = writeln!(text, "lost {from}..{to} at {at}: {}", loss.cause.name());
        }
        text
    }
}

fn evaluate(
    known: &mut GroupPartition,
    now: Now,
    ends: &LogEnds,
    log: &Log,
    looks: &mut usize,
) -> Figures {
    if let Some(from) = known.wants_record_from(ends) {
        *looks += 1;
        known.on_looked(from, ends.end_offset, log.next_record(from, ends.end_offset));
    }
    known.evaluate(now, Ok(ends), log.retention)
}

fn place(group: &str) -> Place<'_> {
    Place { group, topic: TOPIC, partition: PARTITION }
}

fn commit(offset: i64, at_ms: i64) -> Commit {
    Commit { offset: Offset(offset), leader_epoch: LeaderEpoch(0), at: Timestamp(at_ms) }
}

fn shown(figures: &Figures) -> Vec<(&'static str, String)> {
    let number = |value: Known<f64>| match value {
        Ok(value) => format!("{}", (value * 1_000.0).round() / 1_000.0),
        Err(why) => format!("({why})"),
    };
    let whole = |value: Known<u64>| value.map_or_else(|why| format!("({why})"), |v| v.to_string());
    vec![
        ("lag_records", whole(figures.lag_records)),
        ("lag_seconds", number(figures.lag_seconds)),
        ("commit_rate", number(figures.commit_rate)),
        ("produce_rate", number(figures.produce_rate)),
        ("drain_seconds", number(figures.drain_seconds)),
        ("time_to_loss_seconds", number(figures.time_to_loss_seconds)),
        ("status", figures.status.map_or_else(str::to_owned, |status| status.name().to_owned())),
        ("lost_records", figures.lost_records.to_string()),
    ]
}

#[test]
fn scripts() {
    run_scripts(concat!(env!("CARGO_MANIFEST_DIR"), "/src/lag/testdata"), || {
        let mut machine = Machine::new();
        move |command: &Command| machine.run(command)
    });
}

fn assert_never_negative(figures: &Figures) {
    let numbers = [
        figures.lag_seconds,
        figures.commit_rate,
        figures.produce_rate,
        figures.drain_seconds,
        figures.time_to_loss_seconds,
    ];
    for number in numbers.into_iter().flatten() {
        assert!(number.is_finite() && number >= 0.0, "{figures:?}");
    }
    assert!(figures.lost.len() <= LEDGER_RANGES);
    assert!(figures.lost.iter().all(|loss| loss.from < loss.to), "{figures:?}");
    assert!(figures.lost.windows(2).all(|pair| pair[0].to <= pair[1].from), "{figures:?}");
}

/// What can happen to a group on a partition.
#[derive(Debug, Clone)]
enum Step {
    Commit(i64),
    ReadBack(i64, i64),
    Produce(i64),
    Delete(i64),
    DeleteUnwatched(i64),
    Wait(i64),
    ClockJumps(i64),
    Truncate(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let offset = prop_oneof![0i64..2_000, Just(-1), Just(i64::MAX)];
    let time = -100_000i64..100_000;
    prop_oneof![
        4 => offset.clone().prop_map(Step::Commit),
        1 => (offset, time.clone()).prop_map(|(offset, ago)| Step::ReadBack(offset, ago)),
        2 => (0i64..500).prop_map(Step::Produce),
        1 => (0i64..2_000).prop_map(Step::Delete),
        1 => (0i64..2_000).prop_map(Step::DeleteUnwatched),
        2 => (0i64..100_000).prop_map(Step::Wait),
        1 => time.prop_map(Step::ClockJumps),
        1 => (0i64..2_000).prop_map(Step::Truncate),
    ]
}

impl Machine {
    fn take(&mut self, step: &Step) {
        match *step {
            Step::Commit(offset) => self.commit_at("g", offset),
            Step::ReadBack(offset, ago) => {
                let commit = commit(offset, self.wall_ms.saturating_sub(ago));
                self.table.on_commit(self.now(), PartitionId(0), place("g"), commit, None);
            }
            Step::Produce(count) => self.log.end += count,
            Step::Delete(to) | Step::DeleteUnwatched(to) => {
                self.log.start = self.log.start.max(to.min(self.log.end));
                if matches!(step, Step::Delete(_)) {
                    let (start, at) = (Offset(self.log.start), Timestamp(self.wall_ms));
                    let cause = LossCause::RetentionTime;
                    self.table.on_log_start(TOPIC, PARTITION, start, at, cause);
                }
            }
            Step::Wait(ms) => {
                self.steady_ms += ms;
                self.wall_ms += ms;
            }
            Step::ClockJumps(ms) => self.wall_ms += ms,
            Step::Truncate(end) => {
                self.log.end = end;
                self.log.start = self.log.start.min(end);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_negative_or_grows_whatever_happens(
        steps in proptest::collection::vec(step(), 1..60),
        ms in proptest::option::of(0i64..1_000_000),
        bytes in proptest::option::of(0i64..100_000),
    ) {
        let mut machine = Machine::new();
        machine.log.retention = Retention { ms, bytes };
        for step in &steps {
            machine.take(step);
            let (now, ends, log) = (machine.now(), machine.log.ends(), machine.log);
            let Some(known) = machine.table.get_mut(place("g")) else { continue };
            assert_never_negative(&evaluate(known, now, &ends, &log, &mut 0));
        }
    }

    #[test]
    fn what_was_read_or_counted_once_is_not_lost_again(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let mut machine = Machine::new();
        machine.log.end = 2_000;
        let (mut first, mut furthest) = (None, 0);
        for step in &steps {
            if matches!(step, Step::Truncate(_)) {
                continue;
            }
            machine.take(step);
            if let Step::Commit(offset) | Step::ReadBack(offset, _) = *step {
                first.get_or_insert(offset);
            }
            furthest = furthest.max(machine.log.start);
            let (now, ends, log) = (machine.now(), machine.log.ends(), machine.log);
            let Some(known) = machine.table.get_mut(place("g")) else { continue };
            let lost = evaluate(known, now, &ends, &log, &mut 0).lost_records as i64;
            prop_assert!(lost <= (furthest - first.unwrap_or(0)).max(0));
        }
    }
}

#[test]
fn a_full_table_says_how_much_it_does_not_look_at() {
    let mut table = LagTable::new(2);
    let now = Now { wall: Timestamp(0), steady: Steady(0) };
    let mut take =
        |group: &str| table.on_commit(now, PartitionId(0), place(group), commit(1, 0), None);
    assert_eq!([take("a"), take("b"), take("c"), take("a")], [true, true, false, true]);
    assert_eq!((table.len(), table.refused_commits()), (2, 1));
    table.on_forgotten(place("a"));
    assert!(table.on_commit(now, PartitionId(0), place("c"), commit(1, 0), None));
    assert_eq!(table.groups().map(|group| &**group).collect::<Vec<_>>(), ["b", "c"]);
    table.on_unloaded(PartitionId(0));
    assert!(table.is_empty());
}
