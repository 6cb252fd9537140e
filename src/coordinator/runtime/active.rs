//! A loaded shard: decides, appends, replays at once, and holds what must not be said before it is
//! committed.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::sync::Arc;

use cluster::AppendError;
use futures::FutureExt;
use protocol::types::{Offset, Timestamp};
use storage::StorageError;
use tokio::sync::oneshot;

use super::batch::to_batch;
use super::compaction::Compaction;
use super::log::{Committed, ShardLog};
use super::task::ShardContext;
use super::timers::Timers;
use super::{Answer, Call, CoordinatorError};
use crate::coordinator::observer::{ObservedShard, Origin};
use crate::coordinator::shard::{Effect, Event, KeyValue, Now, RequestToken, Shard, Steady, When};

/// An append that is not yet known to be committed, and the answers that wait for it.
pub(super) struct InFlight<S: Shard> {
    number: u64,
    committed: Committed,
    replies: Vec<(RequestToken, S::Reply)>,
}

/// The state of a shard, and everyone who waits for it.
pub(super) struct Active<S: Shard> {
    log: Arc<dyn ShardLog>,
    context: Arc<ShardContext<S>>,
    observed: ObservedShard<S>,
    hard: S::Hard,
    soft: S::Soft,
    timers: Timers<S::Timer>,
    waiting: HashMap<RequestToken, oneshot::Sender<Answer<S>>>,
    /// In the order of the log.
    pub(super) in_flight: VecDeque<InFlight<S>>,
    append_count: u64,
    pub(super) compaction: Compaction<S>,
    effects: Vec<Effect<S>>,
}

impl<S: Shard> Active<S> {
    pub(super) fn new(
        log: Arc<dyn ShardLog>,
        context: Arc<ShardContext<S>>,
        observed: ObservedShard<S>,
        hard: S::Hard,
        compaction: Compaction<S>,
    ) -> Self {
        Active {
            log,
            observed,
            hard,
            soft: (context.new_soft)(),
            context,
            timers: Timers::default(),
            waiting: HashMap::new(),
            in_flight: VecDeque::new(),
            append_count: 0,
            compaction,
            effects: Vec::new(),
        }
    }

    /// A request came in.
    pub(super) fn on_call(&mut self, call: Call<S>) {
        let Call { token, request, answer } = call;
        self.waiting.insert(token, answer);
        self.on_event(Event::Request(token, request));
    }

    /// Fires what is due.
    pub(super) fn on_time(&mut self) {
        while let Some(timer) = self.timers.pop_due((self.context.clock)().steady) {
            self.on_event(Event::Timer(timer));
        }
    }

    /// When the next timer is due.
    pub(super) fn next_deadline(&self) -> Option<Steady> {
        self.timers.earliest()
    }

    /// Decides, and carries the effects out in their order.
    pub(super) fn on_event(&mut self, event: Event<S>) {
        let now = (self.context.clock)();
        let mut effects = std::mem::take(&mut self.effects);
        S::decide(&self.hard, &mut self.soft, now, event, &mut effects);
        for effect in effects.drain(..) {
            self.carry_out(now, effect);
        }
        self.effects = effects;
    }

    fn carry_out(&mut self, now: Now, effect: Effect<S>) {
        match effect {
            Effect::Append(records) if records.is_empty() => {}
            Effect::Append(records) => {
                let encoded: Vec<KeyValue> = records.iter().map(S::encode).collect();
                let batch_bytes = self.append(now.wall, &encoded);
                self.compaction.on_append(&encoded, batch_bytes);
                for record in &records {
                    S::replay(&mut self.hard, record);
                    self.observed.on_record(Origin::Decided, record);
                }
            }
            Effect::Reply { token, reply, when } => match self.in_flight.back_mut() {
                Some(last) if when == When::Durable => last.replies.push((token, reply)),
                _ => self.answer(token, reply),
            },
            Effect::SetTimer(timer, deadline) => self.timers.set(timer, deadline),
            Effect::CancelTimer(timer) => self.timers.cancel(&timer),
        }
    }

    /// Appends a batch; returns its size. A failure shows when the append is waited for.
    fn append(&mut self, timestamp: Timestamp, records: &[KeyValue]) -> usize {
        self.append_count += 1;
        let (batch_bytes, committed) = match to_batch(records, timestamp, self.context.codec) {
            Ok(batch) => (batch.size_in_bytes(), self.log.append(batch)),
            Err(error) => {
                let error = AppendError::Storage(StorageError::Io(error.to_string()));
                (0, std::future::ready(Err(error)).boxed())
            }
        };
        let number = self.append_count;
        self.in_flight.push_back(InFlight { number, committed, replies: Vec::new() });
        batch_bytes
    }

    /// A token is answered once; the client may be gone.
    fn answer(&mut self, token: RequestToken, reply: S::Reply) {
        if let Some(answer) = self.waiting.remove(&token) {
            let _gone = answer.send(Ok(reply));
        }
    }

    /// The oldest append in flight is committed, or failed.
    pub(super) fn on_committed(
        &mut self,
        committed: Result<Offset, AppendError>,
    ) -> Result<(), AppendError> {
        let Some(append) = self.in_flight.pop_front() else { return Ok(()) };
        let base_offset = committed?;
        for (token, reply) in append.replies {
            self.answer(token, reply);
        }
        self.compaction.on_committed(append.number, base_offset);
        Ok(())
    }

    /// Takes the next step of compaction, if one is due.
    pub(super) fn compact(&mut self) {
        if self.compaction.is_due() {
            self.compaction.begin(S::snapshot(&self.hard), self.append_count + 1);
        }
        if let Some(piece) = self.compaction.next_piece() {
            let batch_bytes = self.append((self.context.clock)().wall, &piece);
            self.compaction.on_piece(self.append_count, batch_bytes);
        }
        if let Some(offset) = self.compaction.new_log_start() {
            self.compaction.on_moving(self.log.advance_log_start(offset));
        }
    }

    /// Waits for everything in flight, and answers what waits for it.
    pub(super) async fn drain(&mut self) {
        while !self.in_flight.is_empty() {
            let committed = next_commit(&mut self.in_flight).await;
            if self.on_committed(committed).is_err() {
                // What follows a failed append fails with it; its answers are the runtime's.
                self.in_flight.iter_mut().for_each(|append| append.replies.clear());
            }
        }
    }

    /// Answers everyone who still waits.
    pub(super) fn refuse_all(&mut self, error: CoordinatorError) {
        for (_, answer) in self.waiting.drain() {
            let _gone = answer.send(Err(error));
        }
    }
}

/// Resolves when the oldest append in flight is committed or failed; never where there is none.
pub(super) async fn next_commit<S: Shard>(
    in_flight: &mut VecDeque<InFlight<S>>,
) -> Result<Offset, AppendError> {
    match in_flight.front_mut() {
        Some(oldest) => (&mut oldest.committed).await,
        None => pending().await,
    }
}
