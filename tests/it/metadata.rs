//! Metadata: brokers, topics, and topics that come into being by being asked for.

use compat_tests::batches::batch;
use compat_tests::broker::is_kafka;
use compat_tests::requests::{METADATA_VERSION, metadata};
use kafka_protocol::messages::MetadataRequest;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::ErrorCode;

use crate::harness::{connect, error, shared};

#[test]
fn names_the_broker_where_the_client_found_it() {
    let response = connect().call(METADATA_VERSION, &metadata(&[], false));
    assert_eq!(response.brokers.len(), 1);
    assert_eq!(response.brokers[0].host.as_str(), "127.0.0.1");
    assert_eq!(response.brokers[0].port, i32::from(shared().address().port()));
    assert_eq!(response.controller_id, response.brokers[0].node_id);
    assert_eq!(response.cluster_id.expect("a cluster id").len(), 22);
}

#[test]
fn null_means_all_topics_and_an_empty_list_none() {
    let mut connection = connect();
    connection.create_topic("metadata-all", 1);
    let all = |version, topics| {
        let request = MetadataRequest::default().with_topics(topics);
        connect().call(version, &request).topics
    };
    let names = |version, topics| -> Vec<String> {
        all(version, topics).iter().filter_map(|t| Some(t.name.as_ref()?.to_string())).collect()
    };
    assert!(names(METADATA_VERSION, None).contains(&"metadata-all".to_owned()));
    assert!(all(METADATA_VERSION, Some(Vec::new())).is_empty());
    assert!(names(0, Some(Vec::new())).contains(&"metadata-all".to_owned()), "v0 has no null");
}

#[test]
fn an_unknown_topic_is_not_created_unless_the_client_allows_it() {
    let mut connection = connect();
    let topic = connection.describe_topic("metadata-unknown");
    assert_eq!(error(topic.error_code), ErrorCode::UnknownTopicOrPartition);
    let topic = connection.describe_topic("metadata-unknown");
    assert_eq!(error(topic.error_code), ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn an_invalid_name_is_an_invalid_topic() {
    for name in ["", ".", "..", "with space", "with/slash", &"x".repeat(250)] {
        let response = connect().call(METADATA_VERSION, &metadata(&[name], true));
        let code = error(response.topics[0].error_code);
        assert_eq!(code, ErrorCode::InvalidTopicException, "{name:?}");
    }
}

#[test]
fn a_topic_is_found_by_its_id_and_an_unknown_id_is_said_so() {
    let mut connection = connect();
    connection.create_topic("metadata-by-id", 2);
    let id = connection.describe_topic("metadata-by-id").topic_id;
    assert!(!id.is_nil());
    let mut ask = |id| {
        let topic = MetadataRequestTopic::default().with_topic_id(id).with_name(None);
        let request = MetadataRequest::default().with_topics(Some(vec![topic]));
        connection.call(METADATA_VERSION, &request).topics[0].clone()
    };
    let found = ask(id);
    assert_eq!(error(found.error_code), ErrorCode::None);
    assert_eq!(found.name.expect("a name").as_str(), "metadata-by-id");
    assert_eq!(found.partitions.len(), 2);
    let unknown = ask(uuid::Uuid::from_u128(7));
    assert_eq!(error(unknown.error_code), ErrorCode::UnknownTopicId);
}

#[test]
fn a_topic_that_metadata_shows_as_created_takes_the_first_produce() {
    let mut connection = connect();
    for round in 0..30 {
        let name = format!("metadata-auto-{round}");
        // Kafka says UNKNOWN_TOPIC_OR_PARTITION while it creates; clients ask again.
        loop {
            let response = connection.call(METADATA_VERSION, &metadata(&[&name], true));
            match error(response.topics[0].error_code) {
                ErrorCode::None => break,
                ErrorCode::UnknownTopicOrPartition | ErrorCode::LeaderNotAvailable => {}
                other => panic!("{name}: {other:?}"),
            }
        }
        let produced = connection.produce(&name, 0, batch(&["first"]));
        if is_kafka() && produced.error_code != 0 {
            continue;
        }
        assert_eq!(error(produced.error_code), ErrorCode::None, "{name}");
        assert_eq!(produced.base_offset, 0);
    }
}
