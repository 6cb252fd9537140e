//! Round trips and refusals. Random and hostile bodies are in `tests/hostile_bytes.rs`, which runs
//! on the broker's allocator.

use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest, ProduceRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use proptest::prelude::*;

use super::*;

const METADATA: ApiSpec = ApiSpec::new(ApiKey::Metadata, 0..=13);
const PRODUCE: ApiSpec = ApiSpec::new(ApiKey::Produce, 3..=13);
const API_VERSIONS: ApiSpec = ApiSpec::new(ApiKey::ApiVersions, 0..=4);

fn head(api_key: ApiKey, api_version: i16) -> RequestHead {
    let client_id = Some(StrBytes::from_static_str("client"));
    RequestHead { api_key: api_key as i16, api_version, correlation_id: 42, client_id }
}

fn frame(head: &RequestHead, body: &RequestKind) -> Bytes {
    encode_request(head, body).unwrap().slice(LENGTH_LEN..)
}

#[test]
fn a_request_is_read_back_in_every_version() {
    for api_version in METADATA.implemented.clone() {
        let head = head(ApiKey::Metadata, api_version);
        let body = RequestKind::Metadata(MetadataRequest::default());
        let frame = frame(&head, &body);
        assert_eq!(decode_head(&frame).unwrap(), head);
        let request = decode_request(frame.clone(), &METADATA).unwrap();
        assert_eq!(request, Request { head, body });
        let with_rest = Bytes::from([&frame[..], b"rest"].concat());
        assert_eq!(decode_request(with_rest, &METADATA).unwrap(), request);
    }
}

#[test]
fn produced_records_are_slices_of_the_frame() {
    for api_version in PRODUCE.implemented.clone() {
        let records = Bytes::from(vec![7; 1000]);
        let partition = PartitionProduceData::default().with_records(Some(records.clone()));
        let mut topic = TopicProduceData::default().with_partition_data(vec![partition]);
        if api_version < 13 {
            topic.name = TopicName(StrBytes::from_static_str("topic"));
        }
        let produce = ProduceRequest::default().with_acks(-1).with_topic_data(vec![topic]);
        let frame = frame(&head(ApiKey::Produce, api_version), &RequestKind::Produce(produce));
        let request = decode_request(frame.clone(), &PRODUCE).unwrap();
        let RequestKind::Produce(produce) = request.body else { panic!("not a Produce") };
        let read = produce.topic_data[0].partition_data[0].records.clone().unwrap();
        assert_eq!(read, records);
        let frame = frame.as_ptr_range();
        let read = read.as_ptr_range();
        assert!(frame.start <= read.start && read.end <= frame.end, "version {api_version}");
    }
}

#[test]
fn an_unknown_api_versions_version_still_shows_its_head() {
    let newer = head(ApiKey::ApiVersions, 99);
    let mut bytes = BytesMut::new();
    header::write_request_head(&mut bytes, &newer, 2);
    bytes.extend_from_slice(b"a body of a later time");
    let refused = decode_request(bytes.freeze(), &API_VERSIONS);
    assert_eq!(refused, Err(RequestError::UnsupportedVersion { head: newer }));
    let known = head(ApiKey::ApiVersions, 3);
    let body = RequestKind::ApiVersions(ApiVersionsRequest::default());
    assert!(decode_request(frame(&known, &body), &API_VERSIONS).is_ok());
}

#[test]
fn unknown_keys_and_versions_are_told_apart() {
    let unknown = Bytes::from_static(&[0x03, 0xe8, 0, 7, 0, 0, 0, 1, 0xff, 0xff]);
    let refused = RequestError::UnknownKey { api_key: 1000, api_version: 7 };
    assert_eq!(decode_head(&unknown), Err(refused));
    let too_new = head(ApiKey::Metadata, 14);
    let mut bytes = BytesMut::new();
    header::write_request_head(&mut bytes, &too_new, 2);
    assert_eq!(
        decode_request(bytes.freeze(), &METADATA),
        Err(RequestError::UnsupportedVersion { head: too_new })
    );
}

#[test]
fn every_cut_of_a_request_is_malformed() {
    let whole = frame(
        &head(ApiKey::ApiVersions, 3),
        &RequestKind::ApiVersions(ApiVersionsRequest::default()),
    );
    for len in 0..whole.len() {
        let cut = decode_request(whole.slice(..len), &API_VERSIONS);
        assert!(matches!(cut, Err(RequestError::Malformed { .. })), "{len} bytes: {cut:?}");
    }
}

#[test]
fn a_null_client_id_is_kept_and_a_bad_one_refused() {
    let mut anonymous = head(ApiKey::Metadata, 1);
    anonymous.client_id = None;
    let body = RequestKind::Metadata(MetadataRequest::default());
    let good = frame(&anonymous, &body);
    assert_eq!(decode_head(&good).unwrap(), anonymous);
    for (length, tail) in [(-2i16, &b""[..]), (5, b"abc"), (2, b"\xff\xfe"), (i16::MAX, b"x")] {
        let bad = [&good[..8], &length.to_be_bytes(), tail].concat();
        assert!(matches!(decode_head(&Bytes::from(bad)), Err(RequestError::Malformed { .. })));
    }
}

proptest! {
    #[test]
    fn random_heads_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = 0;
        }
        let _ = decode_head(&Bytes::from(bytes));
    }
}
