//! A producer's lane to one partition: acks=all, idempotent, up to five requests in flight, and
//! whatever is not acknowledged is sent again with its sequence, in its order, for as long as it
//! takes.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{io, thread};

use compat_tests::Connection;
use compat_tests::batches::of_producer;
use compat_tests::requests::{INIT_PRODUCER_ID_VERSION, PRODUCE_VERSION, only_produced, produce};
use kafka_protocol::messages::{InitProducerIdRequest, ProduceRequest};
use protocol::ErrorCode;

use crate::client::{BACKOFF, Client, Failure, Shared, TIMEOUT, error_name};
use crate::history::{History, Ms, Outcome, Partition, Refusal, Sent, Value};

/// Requests in flight, as clients have it by default; a broker remembers as many batches.
const IN_FLIGHT: u64 = 5;
/// The most records in a batch.
const BATCH: u64 = 6;
/// Pause between two bursts, at most.
const PAUSE_MS: u64 = 120;
/// How long a lane tries to have acknowledged what is left when sending stops.
const DRAINS_WITHIN: Duration = Duration::from_secs(60);

/// Records that are on their way together.
#[derive(Debug, Clone, Copy)]
struct Batch {
    sequence: u32,
    count: u32,
    invoked: Ms,
}

struct Lane<'a> {
    client: Client<'a>,
    partition: Partition,
    producer: u16,
    id: i64,
    epoch: i16,
    next_sequence: u32,
    /// In order of their sequences; the first `in_flight` are sent and not answered.
    waiting: VecDeque<Batch>,
    in_flight: usize,
    connection: Option<Connection>,
}

/// Sends to one partition until the run says stop; returns what it did.
pub fn run(shared: &Shared, partition: Partition, seed: u64) -> History {
    let mut lane = Lane {
        client: Client::new(shared, seed),
        partition,
        producer: 0,
        id: -1,
        epoch: -1,
        next_sequence: 0,
        waiting: VecDeque::new(),
        in_flight: 0,
        connection: None,
    };
    let mut deadline = None;
    while !shared.is_over() {
        let stopping = shared.stop_sending.load(Ordering::Relaxed);
        if stopping {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + DRAINS_WITHIN);
            if lane.waiting.is_empty() || Instant::now() > deadline {
                break;
            }
        }
        lane.round(!stopping);
    }
    lane.abandon();
    lane.client.history
}

impl Lane<'_> {
    /// Sends a burst, or what is left of the last one, and takes its answers.
    fn round(&mut self, sending: bool) {
        if self.id < 0 {
            match self.introduce() {
                Ok(()) => {}
                Err(failure) => return self.failed(&failure),
            }
        }
        if self.waiting.is_empty() && sending {
            thread::sleep(Duration::from_millis(self.client.dice.below(PAUSE_MS)));
            self.burst();
        }
        if let Err(failure) = self.send().and_then(|()| self.receive()) {
            self.failed(&failure);
        }
    }

    /// Gets a new producer id.
    fn introduce(&mut self) -> Result<(), Failure> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(None)
            .with_transaction_timeout_ms(60_000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1);
        let broker = self.client.anyone();
        let answer = self.client.call(broker, INIT_PRODUCER_ID_VERSION, &request)?;
        if answer.error_code != 0 {
            return Err(Failure::Answered(answer.error_code));
        }
        self.producer = self.client.shared.next_producer.fetch_add(1, Ordering::Relaxed);
        (self.id, self.epoch) = (answer.producer_id.0, answer.producer_epoch);
        self.next_sequence = 0;
        Ok(())
    }

    /// Some new batches, at most as many as may be in flight.
    fn burst(&mut self) {
        let invoked = self.client.shared.now();
        for _ in 0..=self.client.dice.below(IN_FLIGHT) {
            let count = self.client.dice.below(BATCH) as u32 + 1;
            self.waiting.push_back(Batch { sequence: self.next_sequence, count, invoked });
            self.next_sequence += count;
        }
    }

    /// Sends everything that is not in flight.
    fn send(&mut self) -> Result<(), Failure> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let leader = self.client.leader(self.partition)?;
                self.client.connect(leader.id)?
            }
        };
        while let Some(batch) = self.waiting.get(self.in_flight) {
            connection.send(PRODUCE_VERSION, &self.request(*batch))?;
            self.in_flight += 1;
        }
        self.connection = Some(connection);
        Ok(())
    }

    fn request(&self, batch: Batch) -> ProduceRequest {
        let values: Vec<_> = self.values(batch).map(Value::encode).collect();
        let sequence = batch.sequence.cast_signed();
        let records = of_producer(self.id, self.epoch, sequence, &values);
        let (topic, index) = self.client.shared.place(self.partition);
        let timeout = i32::try_from(TIMEOUT.as_millis()).unwrap_or(i32::MAX);
        produce(topic, index, records, -1).with_timeout_ms(timeout)
    }

    fn values(&self, batch: Batch) -> impl Iterator<Item = Value> + use<> {
        let (producer, partition) = (self.producer, self.partition);
        (batch.sequence..batch.sequence + batch.count).map(move |sequence| Value {
            producer,
            partition,
            sequence,
        })
    }

    /// Takes the answers to everything in flight, in their order.
    fn receive(&mut self) -> Result<(), Failure> {
        while self.in_flight > 0 {
            let connection = self.connection.as_mut().ok_or(io::ErrorKind::NotConnected);
            let connection = connection.map_err(io::Error::from)?;
            let (_, answer) = connection.receive::<ProduceRequest>(PRODUCE_VERSION)?;
            let row = only_produced(&answer);
            match ErrorCode::from_code(row.error_code) {
                Some(ErrorCode::None) => {
                    self.acknowledged(Some(row.base_offset).filter(|offset| *offset >= 0));
                }
                Some(ErrorCode::DuplicateSequenceNumber) => self.acknowledged(None),
                _ => return Err(Failure::Answered(row.error_code)),
            }
        }
        Ok(())
    }

    fn acknowledged(&mut self, base_offset: Option<i64>) {
        self.in_flight -= 1;
        let Some(batch) = self.waiting.pop_front() else { return };
        let completed = self.client.shared.now();
        let sent = self.values(batch).enumerate().map(|(index, value)| {
            let offset = base_offset.map(|base| base + index as i64);
            let outcome = Outcome::Acknowledged(offset);
            Sent { value, invoked: batch.invoked, completed, outcome }
        });
        self.client.history.sent.extend(sent);
        let (shared, index) = (self.client.shared, usize::from(self.partition));
        shared.last_acknowledged[index].fetch_max(completed, Ordering::Relaxed);
        if let Some(base) = base_offset {
            let end = base + i64::from(batch.count);
            shared.acknowledged_ends[index].fetch_max(end, Ordering::Release);
        }
    }

    /// Whatever was in flight is sent again, on a new connection, to whoever leads then.
    fn failed(&mut self, failure: &Failure) {
        self.connection = None;
        self.in_flight = 0;
        if let Failure::Answered(code) = failure
            && is_fatal(*code)
        {
            self.refused(*code);
        }
        self.client.failed("produce", self.partition, failure);
        thread::sleep(BACKOFF.mul_f64(self.client.dice.below(100) as f64 / 100.0));
    }

    /// The broker has lost track of this producer: it goes on as another one.
    fn refused(&mut self, code: i16) {
        if let Some(batch) = self.waiting.front() {
            let (producer, partition) = (self.producer, self.partition);
            let value = Value { producer, partition, sequence: batch.sequence };
            let (at, error) = (self.client.shared.now(), error_name(code));
            self.client.history.refusals.push(Refusal { value, at, error });
        }
        self.abandon();
        self.id = -1;
    }

    /// What is not acknowledged may be there or not.
    fn abandon(&mut self) {
        let completed = self.client.shared.now();
        for batch in std::mem::take(&mut self.waiting) {
            let (invoked, outcome) = (batch.invoked, Outcome::Unknown);
            let values = self.values(batch);
            let sent = values.map(|value| Sent { value, invoked, completed, outcome });
            self.client.history.sent.extend(sent);
        }
        self.in_flight = 0;
    }
}

/// What a correct idempotent producer is never told by a broker that has lost nothing.
fn is_fatal(code: i16) -> bool {
    matches!(
        ErrorCode::from_code(code),
        Some(
            ErrorCode::OutOfOrderSequenceNumber
                | ErrorCode::UnknownProducerId
                | ErrorCode::InvalidProducerEpoch
                | ErrorCode::CorruptMessage
                | ErrorCode::InvalidRecord
        ) | None
    )
}
