//! The proposer of a partition: what is waiting becomes the next entry.
//!
//! It has no task of its own. Whoever changes its state (an append, an entry that got its place,
//! an entry that was applied) takes the next step, so an append costs no hop between tasks.
//!
//! At most one proposal is without its place in the log at any time. An instance may refuse a
//! proposal and accept the next one; were two on their way, a producer's second batch could enter
//! the log without its first. So a proposal is sent only after the one before it was appended or
//! refused, and a refusal refuses everything that waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use protocol::record_batch::{BatchHeader, RecordBatch};
use protocol::types::Offset;
use storage::StorageError;
use storage::producer_state::{ProducerState, Verdict};

use super::handle::{Appended, Shared};
use super::ticket::Ticket;
use crate::AppendError;
use crate::limits::{ENTRIES_IN_FLIGHT, ENTRY_BYTES, QUEUED_BYTES};
use crate::raft::{AppendObserver, Applied, GroupCommand, ProposeError, RaftGroup};

/// Where the partition's Raft instance stands.
#[derive(Clone, Default)]
pub(super) enum Phase {
    /// Not open; the first append opens it.
    #[default]
    Dormant,
    Opening,
    Open(RaftGroup),
    /// Going dormant; appends wait until it has.
    Closing,
    /// The partition was deleted, or the broker shuts down.
    Gone,
}

#[derive(Default)]
pub(super) struct ProposerState {
    pub(super) phase: Phase,
    queue: VecDeque<Queued>,
    queued_bytes: usize,
    /// The proposal that is on its way to its place in the log.
    unplaced: Option<u64>,
    in_flight: usize,
    proposals: u64,
    /// The producers and the end of the log as they will be once everything queued is appended.
    expected: Option<Expected>,
    /// Retries of batches that are in the log but not committed.
    duplicates: Vec<(Offset, Offset, Arc<Ticket>)>,
    /// An append came since the last look.
    pub(super) touched: bool,
    pub(super) idle_rounds: u32,
    /// This process had the instance open, and the log is whole since.
    pub(super) resume: bool,
}

struct Expected {
    producers: ProducerState,
    next_offset: Offset,
}

struct Queued {
    batch: RecordBatch,
    ticket: Arc<Ticket>,
}

/// What a change of the state asks for, done after the lock is released.
pub(super) enum Step {
    Nothing,
    Open,
    Propose(Proposal),
}

/// Batches that become one entry.
pub(super) struct Proposal {
    number: u64,
    group: RaftGroup,
    batches: Vec<RecordBatch>,
    /// Each batch's ticket, with its first offset counted from the entry's first.
    tickets: Vec<(Offset, Arc<Ticket>)>,
}

impl ProposerState {
    pub(super) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.in_flight == 0 && self.unplaced.is_none()
    }

    /// Takes everything that waits and is not yet proposed; what was expected does not hold any
    /// more, and is read from the log again.
    pub(super) fn take_waiting(&mut self) -> Vec<Arc<Ticket>> {
        self.expected = None;
        self.queued_bytes = 0;
        let queued = self.queue.drain(..).map(|queued| queued.ticket);
        let duplicates = self.duplicates.drain(..).map(|(_, _, ticket)| ticket);
        queued.chain(duplicates).collect()
    }

    pub(super) fn expire_producers(&mut self, now: protocol::types::Timestamp, after_ms: i64) {
        if let Some(expected) = &mut self.expected {
            expected.producers.expire(now, after_ms);
        }
    }

    fn next_step(&mut self) -> Step {
        if self.queue.is_empty() || self.unplaced.is_some() || self.in_flight >= ENTRIES_IN_FLIGHT {
            return Step::Nothing;
        }
        match &self.phase {
            Phase::Open(group) => {
                let group = group.clone();
                let (batches, tickets) = self.next_entry();
                self.proposals += 1;
                self.unplaced = Some(self.proposals);
                self.in_flight += 1;
                Step::Propose(Proposal { number: self.proposals, group, batches, tickets })
            }
            Phase::Dormant => {
                self.phase = Phase::Opening;
                Step::Open
            }
            Phase::Opening | Phase::Closing | Phase::Gone => Step::Nothing,
        }
    }

    /// Batches up to the bound of an entry, and each one's ticket with its first record's offset
    /// counted from the entry's first.
    fn next_entry(&mut self) -> (Vec<RecordBatch>, Vec<(Offset, Arc<Ticket>)>) {
        let mut batches = Vec::new();
        let mut tickets = Vec::new();
        let mut bytes = 0;
        let mut delta = Offset::ZERO;
        while let Some(queued) = self.queue.front() {
            let size = queued.batch.size_in_bytes();
            if !batches.is_empty() && bytes + size > ENTRY_BYTES {
                break;
            }
            let Some(queued) = self.queue.pop_front() else { break };
            bytes += size;
            tickets.push((delta, queued.ticket));
            delta = delta.plus(record_count(queued.batch.header()));
            batches.push(queued.batch);
        }
        self.queued_bytes -= bytes;
        (batches, tickets)
    }
}

fn record_count(header: &BatchHeader) -> i64 {
    i64::from(header.last_offset_delta) + 1
}

impl Shared {
    pub(super) fn append(
        self: &Arc<Self>,
        batch: RecordBatch,
        ticket: &Arc<Ticket>,
        needs_followers: bool,
    ) {
        let step = {
            let mut state = self.proposer.lock();
            let admitted = match self.check_followers(&state.phase, needs_followers) {
                Ok(()) => self.admit(&mut state, batch, ticket),
                refused => refused,
            };
            match admitted {
                Ok(()) => state.next_step(),
                Err(error) => {
                    ticket.failed(error);
                    Step::Nothing
                }
            }
        };
        self.take(step);
    }

    /// Queues a batch, or answers a retry of one that is in the log.
    fn admit(
        &self,
        state: &mut ProposerState,
        batch: RecordBatch,
        ticket: &Arc<Ticket>,
    ) -> Result<(), AppendError> {
        if matches!(state.phase, Phase::Gone) {
            return Err(AppendError::Gone);
        }
        if !self.is_leader() {
            return Err(self.not_leader());
        }
        if state.queued_bytes > QUEUED_BYTES {
            return Err(AppendError::Busy);
        }
        self.environment.check_space()?;
        let header = *batch.header();
        let verdict = match self.expected(state)? {
            expected if header.producer_id.is_some() => expected.producers.check(&header),
            _ => Verdict::Accept,
        };
        match verdict {
            Verdict::Accept => {}
            // A leader that was replaced and does not know it yet knows less of the producer than
            // its successor, and clients take these errors for final.
            Verdict::OutOfOrderSequence | Verdict::InvalidProducerEpoch
                if !self.leads_for_sure(&state.phase) =>
            {
                return Err(self.not_leader());
            }
            Verdict::OutOfOrderSequence => return Err(AppendError::OutOfOrderSequence),
            Verdict::InvalidProducerEpoch => return Err(AppendError::InvalidProducerEpoch),
            Verdict::Duplicate { base_offset, last_offset, .. } => {
                if last_offset < self.published.get().high_watermark {
                    ticket.committed(self.appended(base_offset, true));
                } else {
                    state.duplicates.push((base_offset, last_offset, ticket.clone()));
                }
                return Ok(());
            }
        }
        if let Some(expected) = &mut state.expected {
            let placed = BatchHeader { base_offset: expected.next_offset, ..header };
            if header.producer_id.is_some() {
                expected.producers.replay(&placed);
            }
            expected.next_offset = expected.next_offset.plus(record_count(&header));
        }
        state.touched = true;
        state.queued_bytes += batch.size_in_bytes();
        state.queue.push_back(Queued { batch, ticket: ticket.clone() });
        Ok(())
    }

    /// The expected producers, read from the log if they are not known.
    fn expected<'a>(&self, state: &'a mut ProposerState) -> Result<&'a Expected, AppendError> {
        if state.expected.is_none() {
            if state.unplaced.is_some() {
                // The log does not say yet what a proposal under way will make of it.
                return Err(self.not_leader());
            }
            let producers = self.log.producer_state()?;
            let next_offset = self.log.offsets().log_end_offset;
            state.expected = Some(Expected { producers, next_offset });
        }
        state.expected.as_ref().ok_or(AppendError::Busy)
    }

    fn appended(&self, base_offset: Offset, duplicate: bool) -> Appended {
        let log_start_offset = self.log.offsets().log_start_offset;
        Appended { base_offset, log_start_offset, duplicate }
    }

    /// Takes the step that waits, if one does.
    pub(super) fn advance(self: &Arc<Self>) {
        let step = self.proposer.lock().next_step();
        self.take(step);
    }

    fn take(self: &Arc<Self>, step: Step) {
        match step {
            Step::Nothing => {}
            Step::Open => self.spawn_open(),
            Step::Propose(Proposal { number, group, batches, tickets }) => {
                let entry = Arc::new(InFlight {
                    shared: self.clone(),
                    number,
                    tickets,
                    first_offset: AtomicI64::new(0),
                });
                let observer: Arc<dyn AppendObserver> = entry.clone();
                let command = GroupCommand::Batches { batches, observer: Some(observer) };
                let asked = group.clone();
                group.propose(command, move |result| entry.on_decided(&asked, result));
            }
        }
    }
}

/// An entry that was proposed and not yet decided.
struct InFlight {
    shared: Arc<Shared>,
    number: u64,
    /// Offsets are counted from the entry's first.
    tickets: Vec<(Offset, Arc<Ticket>)>,
    first_offset: AtomicI64,
}

impl InFlight {
    fn appended(&self, delta: Offset) -> Appended {
        let first_offset = Offset(self.first_offset.load(Ordering::Acquire));
        self.shared.appended(first_offset.plus(delta.0), false)
    }

    fn on_decided(&self, group: &RaftGroup, result: Result<Applied, ProposeError>) {
        match result {
            Ok(_) => self.on_applied(),
            Err(error) => self.on_failed(group, &error),
        }
    }

    fn on_applied(&self) {
        let high_watermark = self.shared.published.get().high_watermark;
        let mut confirmed = Vec::new();
        let step = {
            let mut state = self.shared.proposer.lock();
            state.in_flight -= 1;
            if !state.duplicates.is_empty() {
                let waiting = std::mem::take(&mut state.duplicates);
                let (done, waiting) =
                    waiting.into_iter().partition(|(_, last, _)| *last < high_watermark);
                state.duplicates = waiting;
                confirmed = done;
            }
            state.next_step()
        };
        self.shared.take(step);
        for (delta, ticket) in &self.tickets {
            ticket.committed(self.appended(*delta));
        }
        for (base_offset, _, ticket) in confirmed {
            ticket.committed(self.shared.appended(base_offset, true));
        }
    }

    fn on_failed(&self, group: &RaftGroup, error: &ProposeError) {
        let waiting = {
            let mut state = self.shared.proposer.lock();
            state.in_flight -= 1;
            state.unplaced.take_if(|number| *number == self.number);
            if matches!(error, ProposeError::Stopped) {
                self.shared.on_instance_stopped(&mut state, group);
            }
            state.take_waiting()
        };
        let error = match error {
            ProposeError::Stopped => self.shared.stopped(Some(group)),
            ProposeError::NotLeader | ProposeError::Discarded => self.shared.not_leader(),
        };
        for ticket in self.tickets.iter().map(|(_, ticket)| ticket).chain(&waiting) {
            ticket.failed(error.clone());
        }
    }
}

impl AppendObserver for InFlight {
    fn on_placed(&self, first_offset: Offset) {
        self.first_offset.store(first_offset.0, Ordering::Release);
    }

    fn on_appended(&self) {
        let step = {
            let mut state = self.shared.proposer.lock();
            state.unplaced.take_if(|number| *number == self.number);
            state.next_step()
        };
        self.shared.take(step);
    }

    fn on_written(&self, result: Result<(), StorageError>) {
        for (delta, ticket) in &self.tickets {
            match &result {
                Ok(()) => ticket.written(self.appended(*delta)),
                Err(error) => ticket.failed(AppendError::Storage(error.clone())),
            }
        }
    }
}
