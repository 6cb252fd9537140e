//! Corners in which the answer is Apache Kafka's own, found by sending both the same requests
//! (`make differential`).

use compat_tests::batches::{batch, of_producer};
use compat_tests::requests::{
    DELETE_TOPICS_VERSION, FETCH_VERSION, LIST_OFFSETS_VERSION, METADATA_VERSION, PRODUCE_VERSION,
    fetch, list_offsets, metadata, only_fetched, only_produced, produce, text, topic_name,
};
use kafka_protocol::messages::alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::{
    AlterConfigsRequest, DeleteTopicsRequest, DescribeTopicPartitionsRequest, ProduceRequest,
};
use protocol::ErrorCode;
use uuid::Uuid;

use crate::harness::{connect, error};

#[test]
fn a_topic_that_is_named_twice_is_refused_in_the_words_of_the_client() {
    let mut connection = connect();
    connection.create_topic("answers-twice", 1);
    let id = connection.describe_topic("answers-twice").topic_id;
    let name = Some(topic_name("answers-twice"));
    let delete = |state: DeleteTopicState| {
        DeleteTopicsRequest::default().with_topics(vec![state.clone(), state])
    };
    let by_name = delete(DeleteTopicState::default().with_name(name.clone()));
    let rows = connection.call(DELETE_TOPICS_VERSION, &by_name).responses;
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0].name, rows[0].topic_id), (&name, Uuid::nil()));
    let by_id = delete(DeleteTopicState::default().with_name(None).with_topic_id(id));
    let rows = connection.call(DELETE_TOPICS_VERSION, &by_id).responses;
    assert_eq!((rows.len(), &rows[0].name, rows[0].topic_id), (1, &None, id));
    assert_eq!(error(rows[0].error_code), ErrorCode::InvalidRequest);
}

#[test]
fn a_page_that_begins_outside_of_what_is_asked_for_is_refused_for_every_topic() {
    let mut connection = connect();
    connection.create_topic("answers-page", 2);
    let mut ask = |topic: &str, partition: i32| {
        let cursor =
            Cursor::default().with_topic_name(topic_name(topic)).with_partition_index(partition);
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(vec![TopicRequest::default().with_name(topic_name("answers-page"))])
            .with_response_partition_limit(10)
            .with_cursor(Some(cursor));
        let row = connection.call(0, &request).topics.remove(0);
        (error(row.error_code), row.partitions.len())
    };
    assert_eq!(ask("answers-page", 1), (ErrorCode::None, 1));
    assert_eq!(ask("answers-page", -1), (ErrorCode::InvalidRequest, 0));
    assert_eq!(ask("another", 0), (ErrorCode::InvalidRequest, 0));
}

#[test]
fn configs_of_another_broker_and_of_no_topic_are_invalid_requests() {
    let mut connection = connect();
    for (kind, name) in [(4, "77"), (2, "")] {
        let resource =
            AlterConfigsResource::default().with_resource_type(kind).with_resource_name(text(name));
        let request = AlterConfigsRequest::default().with_resources(vec![resource]);
        let row = connection.call(2, &request).responses.remove(0);
        assert_eq!(error(row.error_code), ErrorCode::InvalidRequest, "{kind} {name}");
    }
}

#[test]
fn an_internal_topic_is_internal_before_it_exists() {
    let answer = connect().call(METADATA_VERSION, &metadata(&["__share_group_state"], false));
    assert!(answer.topics[0].is_internal);
}

#[test]
fn any_epoch_but_minus_one_is_compared() {
    let mut connection = connect();
    connection.create_topic("answers-epoch", 1);
    let mut request = list_offsets("answers-epoch", 0, -1);
    request.topics[0].partitions[0].current_leader_epoch = -9;
    let row = &connection.call(LIST_OFFSETS_VERSION, &request).topics[0].partitions[0];
    assert_eq!(error(row.error_code), ErrorCode::FencedLeaderEpoch);
}

#[test]
fn a_produce_to_no_partition_of_a_topic_is_answered_without_the_topic() {
    let mut connection = connect();
    let mut request = produce("answers-nothing", 0, batch(&["a"]), -1);
    request.topic_data[0].partition_data.clear();
    assert!(connection.call(PRODUCE_VERSION, &request).responses.is_empty());
}

#[test]
fn acks_one_needs_no_time() {
    let mut connection = connect();
    connection.create_topic("answers-time", 1);
    for _ in 0..20 {
        let request: ProduceRequest =
            produce("answers-time", 0, batch(&["a"]), 1).with_timeout_ms(0);
        let answer = connection.call(PRODUCE_VERSION, &request);
        assert_eq!(error(only_produced(&answer).error_code), ErrorCode::None);
    }
}

#[test]
fn the_log_start_is_told_where_the_records_are_refused_and_not_where_the_bytes_are() {
    let mut connection = connect();
    connection.create_topic_with("answers-start", 1, &[("max.message.bytes", "200")]);
    let (id, epoch) = connection.init_producer_id();
    connection.append("answers-start", 0, of_producer(id, epoch, 0, &["a"]));
    let gap = connection.produce("answers-start", 0, of_producer(id, epoch, 7, &["a"]));
    let out_of_order = ErrorCode::OutOfOrderSequenceNumber;
    assert_eq!((error(gap.error_code), gap.log_start_offset), (out_of_order, 0));
    let large = connection.produce("answers-start", 0, batch(&[[b'x'; 300]]));
    let too_large = ErrorCode::MessageTooLarge;
    assert_eq!((error(large.error_code), large.log_start_offset), (too_large, -1));
}

#[test]
fn what_cannot_be_looked_up_has_an_empty_list_of_aborted_transactions() {
    let mut connection = connect();
    connection.create_topic("answers-aborted", 1);
    let mut aborted = |partition: i32, offset: i64| {
        let answer = connection.call(FETCH_VERSION, &fetch("answers-aborted", partition, offset));
        only_fetched(&answer).aborted_transactions.clone()
    };
    assert_eq!(aborted(9, 0), Some(Vec::new()));
    assert_eq!(aborted(0, 50), None);
}
