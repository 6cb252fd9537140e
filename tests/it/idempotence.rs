//! Idempotent producers: a retry is answered and not kept twice, a gap is refused, also after a
//! restart.

use bytes::Bytes;
use compat_tests::Connection;
use compat_tests::batches::of_producer;
use protocol::ErrorCode;

use crate::harness::{Scene, connect, error};

/// A batch of two records.
fn pair(id: i64, epoch: i16, sequence: i32) -> Bytes {
    of_producer(id, epoch, sequence, &["a", "b"])
}

fn refusal(connection: &mut Connection, topic: &str, batch: Bytes) -> ErrorCode {
    error(connection.produce(topic, 0, batch).error_code)
}

#[test]
fn producer_ids_differ_and_start_at_epoch_zero() {
    let mut connection = connect();
    let (first, first_epoch) = connection.init_producer_id();
    let (second, second_epoch) = connection.init_producer_id();
    assert!(first >= 0 && second >= 0 && first != second);
    assert_eq!((first_epoch, second_epoch), (0, 0));
}

#[test]
fn a_retry_of_any_of_the_last_five_batches_is_answered_as_the_first_time() {
    let mut connection = connect();
    connection.create_topic("idempotence-five", 1);
    let (id, epoch) = connection.init_producer_id();
    for (sequence, offset) in (0..10).step_by(2).zip((0..).step_by(2)) {
        assert_eq!(connection.append("idempotence-five", 0, pair(id, epoch, sequence)), offset);
    }
    for (sequence, offset) in (0..10).step_by(2).zip((0..).step_by(2)) {
        let retried = connection.produce("idempotence-five", 0, pair(id, epoch, sequence));
        assert_eq!(error(retried.error_code), ErrorCode::None, "sequence {sequence}");
        assert_eq!(retried.base_offset, offset, "sequence {sequence}");
    }
    assert_eq!(connection.offset_of("idempotence-five", 0, -1).offset, 10, "nothing twice");
    // The sixth batch pushes the first out of memory: its retry is no longer known for one.
    connection.append("idempotence-five", 0, pair(id, epoch, 10));
    let code = refusal(&mut connection, "idempotence-five", pair(id, epoch, 0));
    assert_eq!(code, ErrorCode::OutOfOrderSequenceNumber);
}

#[test]
fn a_gap_in_the_sequence_is_refused() {
    let mut connection = connect();
    connection.create_topic("idempotence-gap", 1);
    let (id, epoch) = connection.init_producer_id();
    connection.append("idempotence-gap", 0, pair(id, epoch, 0));
    let code = refusal(&mut connection, "idempotence-gap", pair(id, epoch, 3));
    assert_eq!(code, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(connection.append("idempotence-gap", 0, pair(id, epoch, 2)), 2);
}

#[test]
fn a_producer_nobody_knows_may_begin_anywhere() {
    let mut connection = connect();
    connection.create_topic("idempotence-unknown", 1);
    let (id, epoch) = connection.init_producer_id();
    assert_eq!(connection.append("idempotence-unknown", 0, pair(id, epoch, 41)), 0);
    assert_eq!(connection.append("idempotence-unknown", 0, pair(id, epoch, 43)), 2);
}

#[test]
fn sequences_wrap_behind_the_largest() {
    let mut connection = connect();
    connection.create_topic("idempotence-wrap", 1);
    let (id, epoch) = connection.init_producer_id();
    connection.append("idempotence-wrap", 0, pair(id, epoch, i32::MAX - 1));
    assert_eq!(connection.append("idempotence-wrap", 0, pair(id, epoch, 0)), 2);
}

#[test]
fn an_older_epoch_is_refused_and_a_newer_one_begins_at_zero() {
    let mut connection = connect();
    connection.create_topic("idempotence-epoch", 1);
    let (id, _) = connection.init_producer_id();
    connection.append("idempotence-epoch", 0, pair(id, 3, 0));
    let code = refusal(&mut connection, "idempotence-epoch", pair(id, 2, 2));
    assert_eq!(code, ErrorCode::InvalidProducerEpoch);
    let code = refusal(&mut connection, "idempotence-epoch", pair(id, 4, 7));
    assert_eq!(code, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(connection.append("idempotence-epoch", 0, pair(id, 4, 0)), 2);
}

#[test]
fn what_a_producer_sent_is_known_after_a_crash() {
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    connection.create_topic("t", 1);
    let (id, epoch) = connection.init_producer_id();
    for sequence in [0, 2, 4] {
        connection.append("t", 0, pair(id, epoch, sequence));
    }
    let scene = scene.restart_after_kill();
    let mut connection = scene.broker.connect();
    let retried = connection.produce("t", 0, pair(id, epoch, 2));
    assert_eq!((error(retried.error_code), retried.base_offset), (ErrorCode::None, 2));
    let code = refusal(&mut connection, "t", pair(id, epoch, 8));
    assert_eq!(code, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(connection.append("t", 0, pair(id, epoch, 6)), 6);
    let (other, _) = connection.init_producer_id();
    assert_ne!(other, id, "an id is not given twice, also after a crash");
}
