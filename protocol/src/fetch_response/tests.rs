//! The frame with gaps is, once they are filled, what the library itself would have written.

use kafka_protocol::messages::fetch_response::AbortedTransaction;
use kafka_protocol::messages::{BrokerId, ProducerId, TopicName};
use kafka_protocol::protocol::{Decodable, StrBytes};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn records_of(response: &FetchResponse, topic: usize, partition: usize) -> Option<&Bytes> {
    response.responses[topic].partitions[partition].records.as_ref()
}

fn without_records(response: &FetchResponse) -> FetchResponse {
    let mut bare = response.clone();
    for partition in bare.responses.iter_mut().flat_map(|topic| &mut topic.partitions) {
        partition.records = None;
    }
    bare
}

fn spliced(api_version: i16, response: &FetchResponse) -> BytesMut {
    let lengths = |topic, partition| records_of(response, topic, partition).map(Bytes::len);
    let frame =
        encode_fetch_response(api_version, 77, &without_records(response), lengths).unwrap();
    let mut bytes = BytesMut::new();
    for part in &frame.parts {
        match part {
            FramePart::Bytes(part) => bytes.extend_from_slice(part),
            FramePart::Records { topic_index, partition_index } => bytes
                .extend_from_slice(records_of(response, *topic_index, *partition_index).unwrap()),
        }
    }
    assert_eq!(bytes.len(), frame.total_bytes);
    bytes
}

fn library_frame(api_version: i16, response: &FetchResponse) -> Bytes {
    let body = kafka_protocol::messages::ResponseKind::Fetch(response.clone());
    response::encode_response(ApiKey::Fetch, api_version, 77, &body).unwrap()
}

/// Takes away what the version does not have, for the library refuses to encode that.
fn fit_to_version(response: &mut FetchResponse, api_version: i16) {
    if api_version < 7 {
        response.session_id = 0;
    }
    for topic in &mut response.responses {
        for partition in &mut topic.partitions {
            if api_version < 11 {
                partition.preferred_read_replica = BrokerId(-1);
            }
        }
    }
}

fn optional_bytes() -> impl Strategy<Value = Option<Bytes>> {
    proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300).prop_map(Bytes::from))
}

fn unknown_fields() -> impl Strategy<Value = BTreeMap<i32, Bytes>> {
    let field = proptest::collection::vec(any::<u8>(), 0..5).prop_map(Bytes::from);
    proptest::collection::btree_map(100..200i32, field, 0..2)
}

fn partition() -> impl Strategy<Value = PartitionData> {
    let aborted = proptest::collection::vec((any::<i64>(), any::<i64>()), 0..3);
    (
        (any::<i32>(), any::<i16>(), any::<i64>(), any::<i64>(), any::<i64>()),
        proptest::option::of(aborted),
        -1..3i32,
        optional_bytes(),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        unknown_fields(),
    )
        .prop_map(
            |((index, error, hw, lso, start), aborted, replica, records, tags, unknown)| {
                let mut partition = PartitionData::default()
                    .with_partition_index(index)
                    .with_error_code(error)
                    .with_high_watermark(hw)
                    .with_last_stable_offset(lso)
                    .with_log_start_offset(start)
                    .with_preferred_read_replica(BrokerId(replica))
                    .with_records(records)
                    .with_unknown_tagged_fields(unknown);
                partition.aborted_transactions = aborted.map(|all| {
                    all.into_iter()
                        .map(|(id, offset)| {
                            AbortedTransaction::default()
                                .with_producer_id(ProducerId(id))
                                .with_first_offset(offset)
                        })
                        .collect()
                });
                if tags.0 {
                    partition.diverging_epoch =
                        EpochEndOffset::default().with_epoch(3).with_end_offset(hw);
                }
                if tags.1 {
                    partition.current_leader = LeaderIdAndEpoch::default()
                        .with_leader_id(BrokerId(2))
                        .with_leader_epoch(9);
                }
                if tags.2 {
                    partition.snapshot_id =
                        SnapshotId::default().with_epoch(1).with_end_offset(lso);
                }
                partition
            },
        )
}

fn any_response() -> impl Strategy<Value = FetchResponse> {
    let topic = (any::<u128>(), "[a-z]{0,200}", proptest::collection::vec(partition(), 0..4))
        .prop_map(|(id, name, partitions)| {
            FetchableTopicResponse::default()
                .with_topic(TopicName(StrBytes::from_string(name)))
                .with_topic_id(Uuid::from_u128(id))
                .with_partitions(partitions)
        });
    let endpoint = (any::<i32>(), "[a-z]{0,20}", any::<i32>(), any::<bool>()).prop_map(
        |(id, host, port, rack)| {
            NodeEndpoint::default()
                .with_node_id(BrokerId(id))
                .with_host(StrBytes::from_string(host))
                .with_port(port)
                .with_rack(rack.then(|| StrBytes::from_static_str("r1")))
        },
    );
    (
        (any::<i32>(), any::<i16>(), any::<i32>()),
        proptest::collection::vec(topic, 0..4),
        proptest::collection::vec(endpoint, 0..3),
        unknown_fields(),
    )
        .prop_map(|((throttle, error, session), topics, endpoints, unknown)| {
            FetchResponse::default()
                .with_throttle_time_ms(throttle)
                .with_error_code(error)
                .with_session_id(session)
                .with_responses(topics)
                .with_node_endpoints(endpoints)
                .with_unknown_tagged_fields(unknown)
        })
}

proptest! {
    #[test]
    fn filled_gaps_give_the_bytes_of_the_library(response in any_response()) {
        for api_version in FETCH_VERSIONS {
            let mut response = response.clone();
            fit_to_version(&mut response, api_version);
            // Before version 12 the library refuses tagged fields only within their own structs,
            // so that the rest may stay as it is.
            let ours = spliced(api_version, &response);
            let theirs = library_frame(api_version, &response);
            prop_assert_eq!(&ours[..], &theirs[..], "version {}", api_version);

            let mut rest = ours.freeze();
            let header_version = header::response_header_version(ApiKey::Fetch, api_version);
            let _ = rest.split_to(if header_version == 0 { 8 } else { 9 });
            let read = FetchResponse::decode(&mut rest, api_version).unwrap();
            prop_assert!(rest.is_empty());
            for (t, topic) in read.responses.iter().enumerate() {
                for (p, partition) in topic.partitions.iter().enumerate() {
                    prop_assert_eq!(partition.records.as_ref(), records_of(&response, t, p));
                }
            }
        }
    }
}

#[test]
fn fields_that_a_version_lacks_are_refused() {
    let session = FetchResponse::default().with_session_id(1);
    assert!(encode_fetch_response(6, 0, &session, |_, _| None).is_err());
    assert!(encode_fetch_response(7, 0, &session, |_, _| None).is_ok());
    assert!(encode_fetch_response(3, 0, &FetchResponse::default(), |_, _| None).is_err());
    assert!(encode_fetch_response(19, 0, &FetchResponse::default(), |_, _| None).is_err());
}

#[test]
fn records_in_the_response_itself_are_a_mistake() {
    let partition = PartitionData::default().with_records(Some(Bytes::from_static(b"x")));
    let topic = FetchableTopicResponse::default().with_partitions(vec![partition]);
    let response = FetchResponse::default().with_responses(vec![topic]);
    assert!(encode_fetch_response(12, 0, &response, |_, _| Some(1)).is_err());
}

#[test]
fn a_frame_beyond_what_its_length_can_say_is_refused() {
    let partition = PartitionData::default().with_records(None);
    let topic =
        FetchableTopicResponse::default().with_partitions(vec![partition.clone(), partition]);
    let response = FetchResponse::default().with_responses(vec![topic]);
    let huge = |_, _| Some(i32::MAX as usize / 2);
    assert!(matches!(
        encode_fetch_response(12, 0, &response, huge),
        Err(EncodeError::TooLarge { .. })
    ));
}
