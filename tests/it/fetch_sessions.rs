//! Incremental fetch sessions (KIP-227).

use compat_tests::Connection;
use compat_tests::batches::{batch, records};
use compat_tests::requests::{FETCH_VERSION, fetch, topic_name};
use kafka_protocol::messages::fetch_request::{FetchPartition, ForgottenTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use protocol::ErrorCode;

use crate::harness::{connect, error};

fn partition(index: i32, offset: i64) -> FetchPartition {
    FetchPartition::default()
        .with_partition(index)
        .with_current_leader_epoch(-1)
        .with_last_fetched_epoch(-1)
        .with_log_start_offset(-1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20)
}

/// A request of session `id` at `epoch` that names these partitions.
fn in_session(topic: &str, id: i32, epoch: i32, partitions: Vec<FetchPartition>) -> FetchRequest {
    let mut request = fetch(topic, 0, 0).with_session_id(id).with_session_epoch(epoch);
    if partitions.is_empty() {
        request.topics.clear();
    } else {
        request.topics[0].partitions = partitions;
    }
    request
}

/// Partition → number of records, of what an answer names.
fn named(response: &FetchResponse) -> Vec<(i32, usize)> {
    assert_eq!(error(response.error_code), ErrorCode::None);
    let rows = response.responses.iter().flat_map(|topic| &topic.partitions);
    let mut named: Vec<_> =
        rows.map(|p| (p.partition_index, records(p.records.as_ref()).len())).collect();
    named.sort_unstable();
    named
}

/// A topic of three partitions with a record in each, and a session on all from the beginning.
fn open_session(connection: &mut Connection, topic: &str) -> i32 {
    connection.create_topic(topic, 3);
    for index in 0..3 {
        connection.append(topic, index, batch(&["first"]));
    }
    let request = in_session(topic, 0, 0, (0..3).map(|index| partition(index, 0)).collect());
    let response = connection.call(FETCH_VERSION, &request);
    assert_eq!(named(&response), [(0, 1), (1, 1), (2, 1)]);
    assert_ne!(response.session_id, 0, "a session is opened");
    response.session_id
}

#[test]
fn an_incremental_fetch_names_only_what_has_changed() {
    let mut connection = connect();
    let topic = "sessions-changed";
    let id = open_session(&mut connection, topic);
    // The client has read them all: it says where it stands now.
    let request = in_session(topic, id, 1, (0..3).map(|index| partition(index, 1)).collect());
    assert_eq!(named(&connection.call(FETCH_VERSION, &request)), []);
    connection.append(topic, 1, batch(&["second"]));
    let request = in_session(topic, id, 2, Vec::new());
    assert_eq!(named(&connection.call(FETCH_VERSION, &request)), [(1, 1)]);
    // Not read yet, so it comes again.
    let request = in_session(topic, id, 3, Vec::new());
    assert_eq!(named(&connection.call(FETCH_VERSION, &request)), [(1, 1)]);
}

#[test]
fn a_forgotten_partition_is_no_longer_served() {
    let mut connection = connect();
    let topic = "sessions-forgotten";
    let id = open_session(&mut connection, topic);
    let forgotten =
        ForgottenTopic::default().with_topic(topic_name(topic)).with_partitions(vec![0, 2]);
    let mut request = in_session(topic, id, 1, Vec::new());
    request.forgotten_topics_data = vec![forgotten];
    assert_eq!(named(&connection.call(FETCH_VERSION, &request)), [(1, 1)]);
}

#[test]
fn a_wrong_epoch_and_an_unknown_session_are_refused() {
    let mut connection = connect();
    let topic = "sessions-wrong";
    let id = open_session(&mut connection, topic);
    let mut answer = |id, epoch| {
        let request = in_session(topic, id, epoch, Vec::new());
        error(connection.call(FETCH_VERSION, &request).error_code)
    };
    assert_eq!(answer(id, 7), ErrorCode::InvalidFetchSessionEpoch);
    let unknown = if id == i32::MAX { 1 } else { id + 1 };
    assert_eq!(answer(unknown, 1), ErrorCode::FetchSessionIdNotFound);
}

#[test]
fn a_closed_session_is_gone() {
    let mut connection = connect();
    let topic = "sessions-closed";
    let id = open_session(&mut connection, topic);
    let request = in_session(topic, id, -1, vec![partition(0, 0)]);
    let response = connection.call(FETCH_VERSION, &request);
    assert_eq!((named(&response), response.session_id), (vec![(0, 1)], 0));
    let request = in_session(topic, id, 1, Vec::new());
    let response = connection.call(FETCH_VERSION, &request);
    assert_eq!(error(response.error_code), ErrorCode::FetchSessionIdNotFound);
}
