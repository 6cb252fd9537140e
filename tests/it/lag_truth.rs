//! Consumer lag against truth, while a producer, members of a group and retention are at work:
//! whatever a look shows must have been so at a moment between its question and its answer.

use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use compat_tests::batches::sealed;
use compat_tests::broker::is_kafka;
use compat_tests::{Broker, Connection};
use protocol::ErrorCode;
use protocol::compression::Codec;
use protocol::record_batch::BatchBuilder;
use protocol::types::Timestamp;
use serde_json::Value;

use crate::group_client::{Member, delete, ensure_coordinator};
use crate::harness::Scene;
use crate::lag::{commits, delete_before, lag, lag_row, now_ms, until};

const TOPIC: &str = "truth";
const RETENTION_MS: i64 = 4_000;
/// The group whose members read faster than is produced, and one that has committed once.
const READER: &str = "reader";
const LATE: &str = "late";
const LATE_AT: i64 = 5;
const BACKLOG: i64 = 800;
/// How much is produced and read in each round.
const ROUND: Duration = Duration::from_millis(100);
const PRODUCED: i64 = 20;
const READ: i64 = 40;

/// What was done, as far as the clients know.
#[derive(Default)]
struct Truth {
    /// By offset: the timestamp of the record, and the largest of its batch. Noted before it is
    /// sent.
    records: Mutex<Vec<(i64, i64)>>,
    acknowledged: AtomicI64,
    committing: AtomicI64,
    committed: AtomicI64,
    stop: AtomicBool,
    /// The machine kept somebody from working in time: rates were not what they should be.
    is_unsteady: AtomicBool,
}

/// Whoever works stops when the test is over, also when it has failed.
struct StopsAtEnd<'a>(&'a Truth);

impl Drop for StopsAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
    }
}

impl Truth {
    /// Appends records that end now, a millisecond apart.
    fn append(&self, connection: &mut Connection, count: i64) {
        let codecs = [Codec::None, Codec::Zstd, Codec::Lz4, Codec::Gzip, Codec::Snappy];
        let (base, codec, last) = {
            let mut records = self.records.lock().expect("not poisoned");
            let (base, last) = (records.len() as i64, now_ms());
            records.extend((0..count).map(|n| (last - count + 1 + n, last)));
            (base, codecs[records.len() / 20 % codecs.len()], last)
        };
        let add = |batch: BatchBuilder, n: i64| {
            batch.record(Timestamp(last - count + 1 + n), None, Some(b"some value"))
        };
        let batch = sealed((0..count).fold(BatchBuilder::new().codec(codec), add));
        assert_eq!(connection.append(TOPIC, 0, batch), base);
        self.acknowledged.store(base + count, Ordering::SeqCst);
    }

    fn sent(&self) -> i64 {
        self.records.lock().expect("not poisoned").len() as i64
    }

    fn record(&self, offset: i64) -> (i64, i64) {
        self.records.lock().expect("not poisoned")[offset as usize]
    }

    fn commit(&self, member: &mut Member, offset: i64) {
        self.committing.store(offset, Ordering::SeqCst);
        assert_eq!(member.commit(TOPIC, 0, offset), ErrorCode::None);
        self.committed.store(offset, Ordering::SeqCst);
    }

    /// Does something once a round, whatever the machine's hiccups.
    fn each_round(&self, mut act: impl FnMut()) {
        let mut next = Instant::now();
        while !self.stop.load(Ordering::SeqCst) {
            if next.elapsed() > ROUND / 2 {
                self.is_unsteady.store(true, Ordering::SeqCst);
            }
            act();
            next += ROUND;
            sleep(next.saturating_duration_since(Instant::now()));
        }
    }

    /// Whether rates have been what they should be all along.
    fn is_steady(&self) -> bool {
        !self.is_unsteady.load(Ordering::SeqCst)
    }

    fn read_on(&self, member: &mut Member) {
        let end = self.acknowledged.load(Ordering::SeqCst);
        let next = self.committed.load(Ordering::SeqCst) + READ;
        self.commit(member, next.min(end));
    }

    /// Looks at a group and compares. `committed` are the offsets that it may have committed.
    fn look(&self, broker: &Broker, group: &str) -> Look {
        let load = |number: &AtomicI64| number.load(Ordering::SeqCst);
        let (least_end, from_ms) = (load(&self.acknowledged), now_ms());
        let least = if group == LATE { LATE_AT } else { load(&self.committed) };
        let row = lag_row(broker, group);
        let most = if group == LATE { LATE_AT } else { load(&self.committing) };
        let look = Look { asked_ms: from_ms, answered_ms: now_ms(), row };
        let (committed, end) = (look.number("committed_offset"), look.number("end_offset"));
        let start = look.number("log_start_offset");
        assert!((least..=most).contains(&committed), "{least}..={most}: {look:?}");
        assert!((least_end..=self.sent()).contains(&end), "{least_end}: {look:?}");
        assert_eq!(look.number("lag_records"), end - committed.max(start), "{look:?}");
        assert!(look.number("lag_records") >= 0, "{look:?}");
        if committed.max(start) == end {
            assert_eq!(look.seconds("lag_seconds"), Some(0.0), "{look:?}");
            assert_eq!(look.row["why"]["time_to_loss_seconds"], "nothing is unread");
            return look;
        }
        let (made, with) = self.record(committed.max(start));
        look.assert_within("lag_seconds", look.asked_ms - made..=look.answered_ms - made);
        let goes = with + RETENTION_MS;
        look.assert_within("time_to_loss_seconds", goes - look.answered_ms..=goes - look.asked_ms);
        if group == LATE {
            assert_eq!(look.number("lost_records"), (start - LATE_AT).max(0), "{look:?}");
        }
        look
    }
}

/// A row, and when it was asked for.
#[derive(Debug)]
struct Look {
    asked_ms: i64,
    answered_ms: i64,
    row: Value,
}

impl Look {
    fn number(&self, name: &str) -> i64 {
        self.row[name].as_i64().unwrap_or_else(|| panic!("{name} in {self:?}"))
    }

    fn seconds(&self, name: &str) -> Option<f64> {
        self.row[name].as_f64()
    }

    /// None of them is below zero.
    fn assert_within(&self, name: &str, milliseconds: RangeInclusive<i64>) {
        let known = self.seconds(name).unwrap_or_else(|| panic!("{name} in {self:?}"));
        let (least, most) = (*milliseconds.start().max(&0), *milliseconds.end().max(&0));
        let possible = least as f64 / 1e3..=most as f64 / 1e3;
        assert!(possible.contains(&known), "{name} is none of {possible:?}: {self:?}");
    }
}

/// What a figure promised, and what became of it.
#[derive(Debug, Default)]
struct Promise {
    promised_ms: Option<i64>,
    came_true_ms: Option<i64>,
}

impl Promise {
    fn note(&mut self, look: &Look, seconds: Option<f64>, is_true: bool) {
        if let (None, Some(seconds)) = (self.promised_ms, seconds) {
            self.promised_ms = Some(look.answered_ms + (seconds * 1e3) as i64);
        }
        if is_true && self.came_true_ms.is_none() {
            self.came_true_ms = Some(look.answered_ms);
        }
    }

    fn is_over(&self) -> bool {
        self.came_true_ms.is_some()
    }

    /// How much later than promised.
    fn late_ms(&self) -> i64 {
        let (Some(promised), Some(came)) = (self.promised_ms, self.came_true_ms) else {
            panic!("{self:?}");
        };
        came - promised
    }
}

fn near(look: &Look, name: &str, expected: f64) {
    let known = look.seconds(name).unwrap_or_else(|| panic!("{name} in {look:?}"));
    assert!((known / expected - 1.0).abs() < 0.1, "{name} is {known} and not {expected}");
}

/// Looks on while the backlog is read and the first records expire.
fn watch(broker: &Broker, truth: &Truth, started_ms: i64) {
    let (mut drained, mut lost) = (Promise::default(), Promise::default());
    until("the backlog is read and the first records are gone", || {
        let look = truth.look(broker, READER);
        // At the rates of two seconds.
        let is_time = look.asked_ms - started_ms > 2_000;
        let known = look.seconds("drain_seconds").filter(|_| is_time);
        if is_time && drained.promised_ms.is_none() && truth.is_steady() {
            near(&look, "commit_rate", READ as f64 / ROUND.as_secs_f64());
            near(&look, "produce_rate", PRODUCED as f64 / ROUND.as_secs_f64());
        }
        drained.note(&look, known, look.number("lag_records") <= PRODUCED);
        let look = truth.look(broker, LATE);
        lost.note(&look, look.seconds("time_to_loss_seconds"), look.number("lost_records") > 0);
        drained.is_over() && lost.is_over()
    });
    assert!(lost.late_ms() >= -100, "{lost:?}");
    if truth.is_steady() {
        // Two of four seconds were left, and a round is a tenth.
        assert!(drained.late_ms().abs() <= 400, "{drained:?}");
        // Retention is looked at once a second.
        assert!(lost.late_ms() <= 1_400, "{lost:?}");
    } else {
        eprintln!("the machine is busy: rates are not judged");
    }
}

#[test]
fn every_figure_is_true_while_clients_and_retention_are_at_work() {
    if is_kafka() {
        return;
    }
    let scene = Scene::start_with(|options| {
        options
            .with("log.retention.check.interval.ms", "100")
            .with("group.initial.rebalance.delay.ms", "0")
    });
    let broker = &scene.broker;
    let mut connection = broker.connect();
    let retention = RETENTION_MS.to_string();
    connection.create_topic_with(TOPIC, 1, &[("retention.ms", &retention)]);
    let truth = Truth::default();
    (0..BACKLOG / 100).for_each(|_| truth.append(&mut connection, 100));
    commits(&mut connection, LATE, TOPIC, 0, LATE_AT);
    let mut member = Member::new(broker, READER);
    member.join_alone();
    truth.commit(&mut member, 0);
    let started_ms = now_ms();
    scope(|scope| {
        let _stops = StopsAtEnd(&truth);
        scope.spawn(|| truth.each_round(|| truth.append(&mut connection, PRODUCED)));
        let reader = scope.spawn(|| {
            truth.each_round(|| truth.read_on(&mut member));
            member
        });
        watch(broker, &truth, started_ms);
        // Somebody joins: the group rebalances, and its member goes on committing.
        let mut second = Member::new(broker, READER);
        second.send_join();
        until("the group rebalances", || {
            truth.look(broker, READER).row["why"]["member"] == "the group is rebalancing"
        });
        (0..10).for_each(|_| drop(truth.look(broker, READER)));
        truth.stop.store(true, Ordering::SeqCst);
        let mut member = reader.join().expect("the reader reads");
        assert_eq!(member.join().members.len(), 2);
        assert_eq!(second.receive_join().error_code, 0);
        assert_eq!((member.leave(), second.leave()), (ErrorCode::None, ErrorCode::None));
    });
    let gone = truth.look(broker, READER);
    assert_eq!(gone.row["why"]["member"], "the group has no members");
    outlives_its_broker(scene, &truth);
}

/// Without members, after DeleteRecords, and after the broker was killed, figures are the same;
/// and they are gone with the group.
fn outlives_its_broker(scene: Scene, truth: &Truth) {
    let mut connection = scene.broker.connect();
    let read = truth.committed.load(Ordering::SeqCst);
    // While the group commits nothing, every record is either there for it or lost.
    let there_or_lost = |look: &Look| look.number("lag_records") + look.number("lost_records");
    let before = there_or_lost(&truth.look(&scene.broker, READER));
    truth.append(&mut connection, 30);
    delete_before(&mut connection, TOPIC, truth.sent() - 10);
    let look = truth.look(&scene.broker, READER);
    assert!(look.number("lost_records") >= 20, "{look:?}");
    assert_eq!(there_or_lost(&look), before + 30);
    let late = truth.look(&scene.broker, LATE);
    let losses = late.row["lost"].as_array().expect("a list");
    assert!(losses.iter().any(|loss| loss["cause"] == "DeleteRecords"), "{late:?}");
    let scene = scene.restart_after_kill();
    let broker = &scene.broker;
    let mut connection = broker.connect();
    for group in [READER, LATE] {
        ensure_coordinator(&mut connection, group);
        until("its offsets are read back", || !lag(broker, group).is_empty());
    }
    // The ledger begins anew with the broker: what is missing behind the commit is lost.
    assert_eq!(there_or_lost(&truth.look(broker, READER)), truth.sent() - read);
    truth.look(broker, LATE);
    for group in [READER, LATE] {
        assert_eq!(delete(&mut connection, group), ErrorCode::None);
        assert_eq!(lag(broker, group), Vec::<Value>::new());
        let (_, metrics) = broker.http_get("/metrics").expect("metrics");
        assert!(!metrics.contains(&format!("group=\"{group}\"")), "{group} is shown no more");
    }
}
