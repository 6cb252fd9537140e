//! Producer state against Kafka's rules: by script, and by property.

use proptest::prelude::*;
use protocol::record_batch::BatchHeader;
use protocol::types::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::{ProducerState, Verdict};
use crate::testing::script::{Command, run_scripts};

const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

fn header(producer: i64, epoch: i16, base_sequence: i32, count: i32) -> BatchHeader {
    BatchHeader {
        base_offset: Offset(0),
        batch_length: 100,
        partition_leader_epoch: LeaderEpoch(0),
        magic: 2,
        crc: 0,
        attributes: 0,
        last_offset_delta: count - 1,
        base_timestamp: Timestamp(0),
        max_timestamp: Timestamp(0),
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(epoch),
        base_sequence,
        record_count: count,
    }
}

/// A partition's end: what is accepted goes in, as the log would have it.
#[derive(Default)]
struct Log {
    state: ProducerState,
    next_offset: i64,
}

impl Log {
    fn offer(&mut self, mut header: BatchHeader) -> Verdict {
        let verdict = self.state.check(&header);
        if verdict == Verdict::Accept {
            header.base_offset = Offset(self.next_offset);
            self.next_offset += i64::from(header.last_offset_delta) + 1;
            self.state.replay(&header);
        }
        verdict
    }

    fn run(&mut self, command: &Command) -> String {
        match command.name.as_str() {
            "append" | "marker" => self.run_append(command),
            "expire" => {
                self.state.expire(Timestamp(command.required("at")), command.required("ms"));
                format!("known {}", self.state.len())
            }
            "restart" => {
                self.state = ProducerState::decode(&self.state.encode()).unwrap();
                format!("known {}", self.state.len())
            }
            "unstable" => match self.state.first_unstable_offset() {
                Some(offset) => format!("first unstable offset {offset}"),
                None => "stable".to_owned(),
            },
            _ => command.unknown(),
        }
    }

    fn run_append(&mut self, command: &Command) -> String {
        let marker = command.name == "marker";
        let count = command.option("count").unwrap_or(1);
        let sequence = if marker { -1 } else { command.option("seq").unwrap_or(-1) };
        let epoch = command.option("epoch").unwrap_or(0);
        let mut header = header(command.arg(0), epoch, sequence, count);
        header.max_timestamp = Timestamp(command.option("at").unwrap_or(0));
        if marker {
            header.attributes |= CONTROL | TRANSACTIONAL;
        } else if command.has("txn") {
            header.attributes |= TRANSACTIONAL;
        }
        let base_offset = self.next_offset;
        match self.offer(header) {
            Verdict::Accept => format!("accepted at {base_offset}..{}", self.next_offset - 1),
            Verdict::Duplicate { base_offset, last_offset, timestamp } => {
                format!("duplicate of {base_offset}..{last_offset} timestamp {timestamp}")
            }
            Verdict::OutOfOrderSequence => "out of order".to_owned(),
            Verdict::InvalidProducerEpoch => "invalid epoch".to_owned(),
        }
    }
}

#[test]
fn scripts_print_what_kafka_would_answer() {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/src/producer_state/testdata");
    run_scripts(scripts, || {
        let mut log = Log::default();
        move |command: &Command| log.run(command)
    });
}

#[test]
fn a_batch_without_a_producer_leaves_no_trace() {
    let mut log = Log::default();
    assert_eq!(log.offer(header(-1, -1, -1, 10)), Verdict::Accept);
    assert!(log.state.is_empty());
}

#[test]
fn what_the_log_says_is_taken_in_even_if_it_would_be_refused() {
    let mut state = ProducerState::default();
    state.replay(&header(1, 5, 0, 3));
    state.replay(&header(1, 4, 9, 1));
    assert_eq!(state.check(&header(1, 4, 10, 1)), Verdict::Accept);
    assert_eq!(state.check(&header(1, 3, 0, 1)), Verdict::InvalidProducerEpoch);
}

#[test]
fn unknown_versions_and_trailing_bytes_are_corrupt() {
    let mut log = Log::default();
    log.offer(header(1, 0, 0, 1));
    let good = log.state.encode().to_vec();
    for length in 0..good.len() {
        assert!(ProducerState::decode(&good[..length]).is_err(), "cut at {length}");
    }
    assert!(ProducerState::decode(&[&good[..], &[0]].concat()).is_err());
    assert!(ProducerState::decode(&[&[9], &good[1..]].concat()).is_err());
}

#[test]
fn a_producer_takes_few_bytes() {
    let mut log = Log::default();
    for producer in 0..1000 {
        let mut header = header(producer, 0, 0, 100);
        header.max_timestamp = Timestamp(1_700_000_000_000);
        log.offer(header);
    }
    assert!(log.state.encode().len() < 25_000, "{}", log.state.encode().len());
}

prop_compose! {
    fn any_header()(
        producer in prop_oneof![0i64..4, any::<i64>()],
        epoch in prop_oneof![0i16..3, any::<i16>()],
        base_sequence in prop_oneof![0i32..4, i32::MAX - 2..=i32::MAX, any::<i32>()],
        count in 1i32..5,
        kind in prop_oneof![Just(0), Just(TRANSACTIONAL), Just(CONTROL | TRANSACTIONAL)],
        timestamp in prop_oneof![0i64..100, any::<i64>()],
        base_offset in 0i64..1_000_000,
    ) -> BatchHeader {
        let mut header = header(producer, epoch, base_sequence, count);
        header.attributes = kind;
        header.max_timestamp = Timestamp(timestamp);
        header.base_offset = Offset(base_offset);
        header
    }
}

proptest! {
    #[test]
    fn any_state_survives_encoding(headers in prop::collection::vec(any_header(), 0..60)) {
        let mut state = ProducerState::default();
        for header in &headers {
            state.replay(header);
        }
        prop_assert_eq!(ProducerState::decode(&state.encode()).unwrap(), state);
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = ProducerState::decode(&bytes);
        let versioned = [&[1u8, 4], &bytes[..]].concat();
        let _ = ProducerState::decode(&versioned);
    }

    #[test]
    fn a_changed_byte_never_panics(
        headers in prop::collection::vec(any_header(), 1..20),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut state = ProducerState::default();
        headers.iter().for_each(|header| state.replay(header));
        let mut bytes = state.encode().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(decoded) = ProducerState::decode(&bytes) {
            let _ = decoded.first_unstable_offset();
            headers.iter().for_each(|header| { let _ = decoded.check(header); });
        }
    }

    #[test]
    fn each_of_the_last_five_batches_is_a_duplicate_and_no_older_one(
        start in prop_oneof![Just(0), i32::MAX - 20..=i32::MAX],
        counts in prop::collection::vec(1i32..8, 1..15),
    ) {
        let mut log = Log::default();
        let mut sequence = start;
        let mut sent = Vec::new();
        for count in counts {
            let batch = header(1, 0, sequence, count);
            let base_offset = Offset(log.next_offset);
            prop_assert_eq!(log.offer(batch), Verdict::Accept);
            sent.push((batch, base_offset));
            sequence = i32::try_from((i64::from(sequence) + i64::from(count)) % (1 << 31)).unwrap();
        }
        for (age, (batch, base_offset)) in sent.iter().rev().enumerate() {
            let last_offset = base_offset.plus(i64::from(batch.last_offset_delta));
            let expected = match age {
                0..5 => Verdict::Duplicate {
                    base_offset: *base_offset, last_offset, timestamp: Timestamp(0),
                },
                _ => Verdict::OutOfOrderSequence,
            };
            prop_assert_eq!(log.state.check(batch), expected);
        }
    }

    #[test]
    fn the_first_unstable_offset_is_the_oldest_open_transaction(
        headers in prop::collection::vec(any_header(), 0..60),
    ) {
        let mut state = ProducerState::default();
        let mut open = std::collections::BTreeMap::new();
        for header in headers.iter().filter(|header| header.producer_id.is_some()) {
            state.replay(header);
            if header.is_control() {
                open.remove(&header.producer_id);
            } else if header.is_transactional() {
                open.entry(header.producer_id).or_insert(header.base_offset);
            }
            prop_assert_eq!(state.first_unstable_offset(), open.values().min().copied());
        }
    }
}
