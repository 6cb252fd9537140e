//! ApiVersions: answered whatever version a client begins with, and true.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, BytesMut};
use compat_tests::broker::is_kafka;
use compat_tests::requests::{metadata, text};
use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest, RequestHeader};
use kafka_protocol::protocol::{Encodable, Request};
use protocol::ErrorCode;

use crate::harness::{connect, error};

fn api_versions_request() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(text("compat-tests"))
        .with_client_software_version(text("1.0"))
}

/// Key → lowest and highest version.
fn advertised(version: i16) -> BTreeMap<i16, (i16, i16)> {
    let response = connect().call(version, &api_versions_request());
    assert_eq!(error(response.error_code), ErrorCode::None);
    response.api_keys.iter().map(|k| (k.api_key, (k.min_version, k.max_version))).collect()
}

#[test]
fn every_version_is_answered_with_the_same_table() {
    let newest = advertised(4);
    for version in 0..4 {
        assert_eq!(advertised(version), newest, "v{version}");
    }
    for key in [0, 1, 2, 3, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 44, 46, 60, 75] {
        assert!(newest.contains_key(&key), "key {key} is advertised");
    }
}

#[test]
fn produce_is_advertised_from_version_zero() {
    // librdkafka before 2.11.1 sends nothing compressed otherwise.
    assert_eq!(advertised(3)[&0].0, 0);
}

#[test]
fn an_unknown_version_gets_the_v0_answer_with_error_35() {
    for version in [6, 99, i16::MAX] {
        let mut connection = connect();
        let mut frame = BytesMut::new();
        // The header ends with no tagged fields; nothing is known of what follows.
        frame.put_i16(ApiVersionsRequest::KEY);
        frame.put_i16(version);
        frame.put_i32(77);
        frame.put_i16(-1);
        frame.put_slice(&[0x00, 0xff, 0x7f]);
        connection.send_frame(&frame).expect("sent");
        let mut answer = connection.receive_frame().expect("read").expect("not closed");
        assert_eq!(answer.get_i32(), 77, "correlation id");
        assert_eq!(error(answer.get_i16()), ErrorCode::UnsupportedVersion);
        assert_eq!(answer.get_i32(), 1, "one row");
        assert_eq!((answer.get_i16(), answer.get_i16()), (18, 0), "ApiVersions, from v0");
        assert!(answer.get_i16() >= 4);
        assert!(!answer.has_remaining());
        // The same connection goes on with a version that both know.
        let response = connection.call(3, &api_versions_request());
        assert_eq!(error(response.error_code), ErrorCode::None);
    }
}

#[test]
fn a_client_software_name_that_is_no_name_is_refused() {
    for (name, version) in [("-bad", "1"), ("ok", "bad version"), ("", "1")] {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(text(name))
            .with_client_software_version(text(version));
        let response = connect().call(3, &request);
        assert_eq!(error(response.error_code), ErrorCode::InvalidRequest, "{name:?} {version:?}");
    }
}

#[test]
fn every_advertised_version_of_metadata_is_answered() {
    let mut connection = connect();
    connection.create_topic("versions-of-metadata", 1);
    let (min, max) = advertised(4)[&MetadataRequest::KEY];
    assert!(min == 0 && max >= 12, "{min}..={max}");
    for version in min..=max.min(13) {
        let response = connection.call(version, &metadata(&["versions-of-metadata"], true));
        assert_eq!(response.topics.len(), 1, "v{version}");
        assert_eq!(error(response.topics[0].error_code), ErrorCode::None, "v{version}");
        assert_eq!(response.topics[0].partitions.len(), 1, "v{version}");
        assert_eq!(response.topics[0].topic_id.is_nil(), version < 10, "v{version}");
    }
}

#[test]
fn an_unsupported_version_of_another_api_closes_the_connection() {
    let mut connection = connect();
    let mut frame = BytesMut::new();
    RequestHeader::default()
        .with_request_api_key(MetadataRequest::KEY)
        .with_request_api_version(99)
        .encode(&mut frame, 2)
        .expect("a header is encoded");
    frame.put_slice(&[0; 16]);
    connection.send_frame(&frame).expect("sent");
    assert!(connection.is_closed_by_peer());
}

#[test]
fn features_that_are_not_built_are_not_finalized() {
    if is_kafka() {
        return;
    }
    let response = connect().call(4, &api_versions_request());
    let finalized = response.finalized_features.iter();
    let finalized: Vec<_> =
        finalized.map(|feature| (feature.name.as_str(), feature.max_version_level)).collect();
    // Not transaction.version, share.version, streams.version.
    assert_eq!(finalized, [("group.version", 1)]);
}
