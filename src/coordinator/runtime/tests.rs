//! The runtime, over a tiny machine and a log in memory.

mod memory_log;
mod register;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::compression::Codec;
use protocol::types::PartitionId;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::memory_log::MemoryLog;
use self::register::{COUNT, Register, Request};
use super::compaction::CompactionLimits;
use super::task::{ShardContext, ShardTask};
use super::{Answer, Call, CoordinatorError, now, partition_for};
use crate::coordinator::observer::{ObservedShard, ObserverCell};
use crate::coordinator::shard::RequestToken;

const NO_COMPACTION: CompactionLimits =
    CompactionLimits { min_log_bytes: u64::MAX, growth: 1, piece_bytes: 1 };

/// A running shard.
struct Scene {
    calls: mpsc::Sender<Call<Register>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
    call_count: u64,
}

type Answered = oneshot::Receiver<Answer<Register>>;

impl Scene {
    fn start(log: &MemoryLog, limits: CompactionLimits) -> Scene {
        let (calls, receiver) = mpsc::channel(1000);
        let stop = CancellationToken::new();
        let context = ShardContext {
            new_soft: Box::new(register::Soft::default),
            clock: Box::new(now),
            codec: Codec::None,
            limits,
        };
        let task = ShardTask::<Register> {
            name: "test".to_owned(),
            log: Arc::new(log.clone()),
            context: Arc::new(context),
            calls: receiver,
            stop: stop.clone(),
            observed: ObservedShard::new(ObserverCell::default(), PartitionId(0)),
            changed: Arc::new(Notify::new()),
        };
        let task = tokio::spawn(task.run());
        Scene { calls, stop, task, call_count: 0 }
    }

    /// Queues a request.
    fn send(&mut self, request: Request) -> Answered {
        self.call_count += 1;
        let (answer, answered) = oneshot::channel();
        let call = Call { token: RequestToken(self.call_count), request, answer };
        assert!(self.calls.try_send(call).is_ok(), "the queue has room");
        answered
    }

    async fn ask(&mut self, request: Request) -> Answer<Register> {
        self.send(request).await.expect("an answer")
    }

    fn write(&mut self, key: &'static str, value: &str) -> Answered {
        self.send(Request::Write(key, Some(value.to_owned())))
    }

    async fn stop(self) {
        self.stop.cancel();
        self.task.await.expect("the task ends");
    }
}

/// What a broker finds that starts on this log.
async fn state_of(log: &MemoryLog) -> BTreeMap<String, String> {
    let mut scene = Scene::start(log, NO_COMPACTION);
    let mut state = BTreeMap::new();
    for key in ["a", "b", "c", "d", "e", COUNT] {
        // Requests that come while the log is replayed are refused.
        let value = loop {
            match scene.ask(Request::Read(key)).await {
                Ok(value) => break value,
                Err(CoordinatorError::Loading) => {}
                Err(error) => panic!("{error}"),
            }
        };
        if value != "none" {
            state.insert(key.to_owned(), value);
        }
    }
    scene.stop().await;
    state
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_restart() {
    let log = MemoryLog::new();
    let mut scene = Scene::start(&log, NO_COMPACTION);
    for (key, value) in [("a", "1"), ("b", "2"), ("a", "3")] {
        scene.write(key, value).await.expect("an answer").expect("it is written");
    }
    scene.ask(Request::Write("b", None)).await.expect("it is written");
    scene.stop().await;
    let state = state_of(&log).await;
    assert_eq!(state, BTreeMap::from([("a".into(), "3".into()), (COUNT.into(), "4".into())]));
}

#[tokio::test]
async fn durable_answers_wait_for_the_commit_of_all_that_was_appended_before() {
    let log = MemoryLog::new();
    log.hold();
    let mut scene = Scene::start(&log, NO_COMPACTION);
    let mut first = scene.write("a", "1");
    let mut second = scene.write("a", "2");
    let mut read = scene.send(Request::Read("a"));
    // Answered at once, and behind the others in the queue: they have been decided.
    assert_eq!(scene.ask(Request::Wait(0)).await, Ok("time".to_owned()));
    assert!(first.try_recv().is_err() && second.try_recv().is_err() && read.try_recv().is_err());
    assert!(log.commit_next());
    assert_eq!(first.await.expect("an answer"), Ok("1".to_owned()));
    assert!(second.try_recv().is_err() && read.try_recv().is_err());
    assert!(log.commit_next());
    assert_eq!(second.await.expect("an answer"), Ok("2".to_owned()));
    assert_eq!(read.await.expect("an answer"), Ok("2".to_owned()));
    scene.stop().await;
}

#[tokio::test]
async fn a_failed_append_answers_everyone_and_the_state_is_what_the_log_says() {
    let log = MemoryLog::new();
    let mut scene = Scene::start(&log, NO_COMPACTION);
    scene.write("a", "kept").await.expect("an answer").expect("it is written");
    log.hold();
    let parked = scene.send(Request::Park);
    let lost = [scene.write("a", "lost"), scene.write("b", "lost")];
    assert_eq!(parked.await.expect("an answer"), Ok(String::new()));
    let parked = scene.send(Request::Park);
    let read = scene.send(Request::Read("a"));
    scene.ask(Request::Wait(0)).await.expect("the above is decided");
    log.fail_held();
    for answer in lost.into_iter().chain([parked, read]) {
        let answer = answer.await.expect("an answer");
        assert_eq!(answer, Err(CoordinatorError::NotCoordinator));
    }
    let state = state_of(&log).await;
    assert_eq!(state, BTreeMap::from([("a".into(), "kept".into()), (COUNT.into(), "1".into())]));
    // The shard itself has begun anew.
    loop {
        match scene.ask(Request::Read("a")).await {
            Err(CoordinatorError::Loading) => {}
            answer => break assert_eq!(answer, Ok("kept".to_owned())),
        }
    }
    scene.stop().await;
}

#[tokio::test]
async fn a_write_that_is_refused_is_retriable() {
    let log = MemoryLog::new();
    let mut scene = Scene::start(&log, NO_COMPACTION);
    log.set_fails(true);
    let refused = scene.write("a", "1").await.expect("an answer");
    assert_eq!(refused, Err(CoordinatorError::Unavailable));
    log.set_fails(false);
    assert_eq!(scene.write("a", "2").await.expect("an answer"), Ok("1".to_owned()));
    scene.stop().await;
}

#[tokio::test]
async fn a_lost_leadership_unloads_and_a_new_one_loads() {
    let log = MemoryLog::new();
    let mut scene = Scene::start(&log, NO_COMPACTION);
    scene.write("a", "1").await.expect("an answer").expect("it is written");
    let parked = scene.send(Request::Park);
    scene.ask(Request::Wait(0)).await.expect("the above is decided");
    log.set_leads(false);
    assert_eq!(parked.await.expect("an answer"), Err(CoordinatorError::NotCoordinator));
    let refused = scene.ask(Request::Read("a")).await;
    assert_eq!(refused, Err(CoordinatorError::NotCoordinator));
    log.set_leads(true);
    let value = loop {
        match scene.ask(Request::Read("a")).await {
            Err(CoordinatorError::NotCoordinator | CoordinatorError::Loading) => {}
            answer => break answer,
        }
    };
    assert_eq!(value, Ok("1".to_owned()));
    scene.stop().await;
}

#[tokio::test]
async fn stopping_answers_what_is_committed_and_refuses_what_waits() {
    let log = MemoryLog::new();
    log.hold();
    let mut scene = Scene::start(&log, NO_COMPACTION);
    let written = scene.write("a", "1");
    let parked = scene.send(Request::Park);
    scene.ask(Request::Wait(0)).await.expect("the above is decided");
    scene.stop.cancel();
    tokio::task::yield_now().await;
    assert!(log.commit_next());
    assert_eq!(written.await.expect("an answer"), Ok("1".to_owned()));
    assert_eq!(parked.await.expect("an answer"), Err(CoordinatorError::NotCoordinator));
    scene.task.await.expect("the task ends");
}

#[tokio::test]
async fn timers_fire_in_time() {
    let mut scene = Scene::start(&MemoryLog::new(), NO_COMPACTION);
    let late = scene.send(Request::Wait(40));
    let early = scene.send(Request::Wait(5));
    let started_at = crate::clock::monotonic();
    early.await.expect("an answer").expect("it fires");
    late.await.expect("an answer").expect("it fires");
    assert!(crate::clock::since(started_at) >= Duration::from_millis(35));
    scene.stop().await;
}

#[tokio::test]
async fn compaction_between_writes_keeps_the_state_at_every_crash() {
    let limits = CompactionLimits { min_log_bytes: 1500, growth: 2, piece_bytes: 1 };
    let log = MemoryLog::new();
    log.hold();
    let mut scene = Scene::start(&log, limits);
    // The state after each write, by its number.
    let mut states = vec![BTreeMap::new()];
    let mut random = 1_u32;
    while log.dead_batch_count() == 0 || states.len() % 40 != 0 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = ["a", "b", "c", "d", "e"][(random >> 16) as usize % 5];
        let value = (random >> 24 & 3 != 0).then(|| states.len().to_string());
        let mut state = states.last().cloned().unwrap_or_default();
        match &value {
            Some(value) => state.insert(key.to_owned(), value.clone()),
            None => state.remove(key),
        };
        state.insert(COUNT.to_owned(), states.len().to_string());
        states.push(state);
        scene.send(Request::Write(key, value));
        // Behind it in the queue, so it has been decided; then some appends are committed, a piece
        // of the snapshot among them perhaps, and the next piece follows before the next write.
        scene.ask(Request::Wait(0)).await.expect("the above is decided");
        for _ in 0..(random >> 20) % 4 {
            log.commit_next();
        }
    }
    let last = states.last().cloned().unwrap_or_default();
    let dead = log.dead_batch_count();
    assert!(dead > 10 && log.batch_count() > states.len() - 1, "it was compacted in pieces");
    let whole = log.uncut();
    for batch_count in 1..=whole.batch_count() {
        let state = state_of(&whole.prefix(batch_count)).await;
        let number: usize = state[COUNT].parse().expect("a number");
        assert_eq!(state, states[number], "after {batch_count} batches");
    }
    // What the shard itself would find now, its log cut.
    assert_eq!(state_of(&log.prefix(log.batch_count())).await, last);
    scene.stop.cancel();
    while log.commit_next() {}
    scene.task.await.expect("the task ends");
}

#[test]
fn keys_are_spread_as_java_spreads_them() {
    // `String.hashCode` of each: 99162322, -1808118735, 0, and the one without an absolute value.
    assert_eq!(partition_for("hello", 50), PartitionId(22));
    assert_eq!(partition_for("String", 50), PartitionId(35));
    assert_eq!(partition_for("", 50), PartitionId(0));
    assert_eq!(partition_for("polygenelubricants", 50), PartitionId(0));
    // UTF-16: a surrogate pair counts twice.
    assert_eq!(partition_for("\u{1F600}", 7), PartitionId(1_772_899 % 7));
}
