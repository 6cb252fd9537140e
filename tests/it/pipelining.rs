//! Requests of one connection overlap; their answers leave in order.

use compat_tests::batches::{batch, of_producer};
use compat_tests::requests::{
    FETCH_VERSION, METADATA_VERSION, PRODUCE_VERSION, fetch, metadata, only_fetched, only_produced,
    produce,
};
use kafka_protocol::messages::{FetchRequest, MetadataRequest, ProduceRequest};
use protocol::ErrorCode;

use crate::harness::{connect, error};

#[test]
fn five_produce_requests_at_once_are_kept_and_answered_in_order() {
    let mut connection = connect();
    connection.create_topic("pipelining-produce", 1);
    let (id, epoch) = connection.init_producer_id();
    for round in 0..20 {
        let sequences = (5 * round..).take(5);
        let sent: Vec<_> = sequences
            .clone()
            .map(|sequence| {
                let records = of_producer(id, epoch, sequence, &["x"]);
                let request = produce("pipelining-produce", 0, records, -1);
                connection.send(PRODUCE_VERSION, &request).expect("sent")
            })
            .collect();
        for (correlation_id, sequence) in sent.into_iter().zip(sequences) {
            let (answered, response) =
                connection.receive::<ProduceRequest>(PRODUCE_VERSION).expect("an answer");
            assert_eq!(answered, correlation_id);
            let produced = only_produced(&response);
            assert_eq!(error(produced.error_code), ErrorCode::None);
            assert_eq!(produced.base_offset, i64::from(sequence));
        }
    }
}

#[test]
fn what_follows_a_waiting_fetch_is_answered_after_it() {
    let mut connection = connect();
    connection.create_topic("pipelining-wait", 1);
    let waiting = fetch("pipelining-wait", 0, 0).with_max_wait_ms(25_000);
    let first = connection.send(FETCH_VERSION, &waiting).expect("sent");
    let second =
        connection.send(METADATA_VERSION, &metadata(&["pipelining-wait"], false)).expect("sent");
    connect().append("pipelining-wait", 0, batch(&["wakes"]));
    let (answered, response) = connection.receive::<FetchRequest>(FETCH_VERSION).expect("answer");
    assert_eq!(answered, first);
    assert!(only_fetched(&response).records.is_some());
    let (answered, _) = connection.receive::<MetadataRequest>(METADATA_VERSION).expect("answer");
    assert_eq!(answered, second);
}

#[test]
fn a_thousand_requests_written_before_any_answer_is_read() {
    let mut connection = connect();
    connection.create_topic("pipelining-many", 1);
    let mut writer = connection.try_clone().expect("a second handle");
    let thread = std::thread::spawn(move || {
        for n in 0..1_000 {
            let request = produce("pipelining-many", 0, batch(&[format!("{n}")]), -1);
            writer.send(PRODUCE_VERSION, &request).expect("sent");
        }
    });
    for n in 0..1_000 {
        let (_, response) =
            connection.receive::<ProduceRequest>(PRODUCE_VERSION).expect("an answer");
        assert_eq!(only_produced(&response).base_offset, n);
    }
    thread.join().expect("the writer finishes");
    let all = connection.read_all("pipelining-many", 0, 0).expect("read");
    assert!(all.iter().enumerate().all(|(n, (_, value))| *value == n.to_string()));
}
