//! What dispatch makes of replies; whole requests are tested through the wire in `tests/it`.

use bytes::Bytes;
use kafka_protocol::messages::FetchResponse;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use protocol::request::decode_head;

use super::*;
use crate::net::budget::InFlightBudget;

fn call(key: ApiKey, api_version: i16) -> Call {
    let metrics = telemetry::api_metrics(row_index(key as i16).expect("a row"));
    Call { key, api_version, correlation_id: 7, metrics, received_at: clock::monotonic() }
}

fn reservation(budget: &Arc<InFlightBudget>) -> Reservation {
    let mut reservation = budget.reservation();
    reservation.grow(10);
    reservation
}

fn fetch_row() -> &'static Row {
    crate::handlers::row(ApiKey::Fetch as i16).expect("a row")
}

#[test]
fn rows_are_found_by_key_and_no_others() {
    for (index, row) in TABLE.iter().enumerate() {
        assert_eq!(row_index(row.spec.code()), Some(index));
    }
    for key in [-1, i16::MIN, i16::MAX, 4, 127, 128] {
        assert_eq!(row_index(key), None, "{key}");
    }
}

#[tokio::test]
async fn a_panic_on_the_way_to_a_reply_costs_the_connection_and_holds_nothing() {
    let budget = InFlightBudget::new(100);
    for reply in [
        Reply::Later(Box::pin(async { panic!("a bug") })),
        Reply::Silent(Box::pin(async { panic!("a bug") })),
    ] {
        let handled = answer(fetch_row(), call(ApiKey::Fetch, 12), reply, reservation(&budget));
        let Handled::Later(reply) = handled else { panic!("the reply comes later") };
        assert!(matches!(reply.await, Err(CloseReason::Request(_))));
    }
    assert_eq!(budget.in_flight_bytes(), 0);
}

#[tokio::test]
async fn an_unanswered_request_sends_nothing_and_may_close() {
    let budget = InFlightBudget::new(100);
    let silent = |result| Reply::Silent(Box::pin(std::future::ready(result)));
    for (reply, closes) in [(silent(Ok(())), false), (silent(Err("no".to_owned())), true)] {
        let handled = answer(fetch_row(), call(ApiKey::Fetch, 12), reply, reservation(&budget));
        let Handled::Later(reply) = handled else { panic!("the reply comes later") };
        match reply.await {
            Ok(bytes) => assert!(bytes.is_empty() && !closes),
            Err(_) => assert!(closes),
        }
    }
}

#[test]
fn records_stand_where_they_belong_and_are_the_same_bytes() {
    let partition = |index| PartitionData::default().with_partition_index(index);
    let topic = |partitions| FetchableTopicResponse::default().with_partitions(partitions);
    let response = FetchResponse::default()
        .with_responses(vec![topic(vec![partition(0), partition(1)]), topic(vec![partition(2)])]);
    let (first, second) = (Bytes::from_static(b"first"), Bytes::from_static(b"second"));
    let records = vec![
        vec![vec![RecordSlice::Memory(first.clone())], vec![]],
        vec![vec![RecordSlice::Memory(second.clone())]],
    ];
    let body = FetchBody { response, records };
    let reply = encode_fetch(12, 7, body).expect("encodes");
    let is = |slice: &RecordSlice, bytes: &Bytes| match slice {
        RecordSlice::Memory(found) => found.as_ptr() == bytes.as_ptr(),
        RecordSlice::File { .. } => false,
    };
    assert!(is(&reply[1], &first) && is(&reply[3], &second));
    let RecordSlice::Memory(head) = &reply[0] else { panic!("the frame begins in memory") };
    let announced = u32::from_be_bytes(*head.first_chunk().expect("a length")) as usize;
    assert_eq!(announced + 4, reply.iter().map(slice_len).sum::<usize>());
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let Some(row) = crate::handlers::row(ApiKey::ApiVersions as i16) else { return };
    // Key 18, version 99, correlation id 7, client id "c", no tagged fields.
    let frame = Bytes::from_static(&[0, 18, 0, 99, 0, 0, 0, 7, 0, 1, b'c', 0]);
    let head = decode_head(&frame).expect("a head");
    let handled = refuse(RequestError::UnsupportedVersion { head }, &row.spec);
    let Handled::Ready(reply) = handled else { panic!("it is answered") };
    let [RecordSlice::Memory(bytes)] = &reply[..] else { panic!("in one piece") };
    let (min, max) = row.spec.advertised();
    let mut expected = vec![0, 0, 0, 16, 0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18];
    expected.extend(min.to_be_bytes());
    expected.extend(max.to_be_bytes());
    assert_eq!(bytes[..], expected[..]);
}
