//! Topics are created, grown, deleted and created anew.

use compat_tests::batches::batch;
use compat_tests::broker::is_kafka;
use compat_tests::requests::{CREATE_TOPICS_VERSION, create_topics, text, topic_name};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableReplicaAssignment;
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::{
    BrokerId, CreatePartitionsRequest, CreateTopicsRequest, DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
};
use protocol::ErrorCode;

use crate::harness::{Scene, connect, error};

fn create(request: &CreateTopicsRequest) -> CreatableTopicResult {
    connect().call(CREATE_TOPICS_VERSION, request).topics[0].clone()
}

#[test]
fn the_answer_has_id_partitions_and_effective_configs() {
    let created = create(&create_topics("topics-answer", 3, &[("retention.ms", "100000")]));
    assert_eq!(error(created.error_code), ErrorCode::None);
    assert!(!created.topic_id.is_nil());
    assert_eq!((created.num_partitions, created.replication_factor), (3, 1));
    let configs = created.configs.expect("configs");
    let value = |name: &str| {
        let config = configs.iter().find(|config| config.name == text(name));
        config.and_then(|config| config.value.clone()).map(|value| value.to_string())
    };
    assert_eq!(value("retention.ms").as_deref(), Some("100000"));
    assert_eq!(value("cleanup.policy").as_deref(), Some("delete"));
}

#[test]
fn what_cannot_be_created_is_refused_with_its_reason() {
    let mut connection = connect();
    connection.create_topic("topics-taken.name", 1);
    let cases = [
        (create_topics("topics-taken.name", 1, &[]), ErrorCode::TopicAlreadyExists),
        (create_topics("topics-taken_name", 1, &[]), ErrorCode::InvalidTopicException),
        (create_topics("topics invalid", 1, &[]), ErrorCode::InvalidTopicException),
        (create_topics("topics-zero", 0, &[]), ErrorCode::InvalidPartitions),
        (create_topics("topics-key", 1, &[("no.such.key", "1")]), ErrorCode::InvalidConfig),
        (create_topics("topics-value", 1, &[("retention.ms", "soon")]), ErrorCode::InvalidConfig),
    ];
    for (request, expected) in cases {
        let refused = create(&request);
        assert_eq!(error(refused.error_code), expected, "{request:?}");
    }
    let mut request = create_topics("topics-factor", 1, &[]);
    request.topics[0].replication_factor = 3;
    assert_eq!(error(create(&request).error_code), ErrorCode::InvalidReplicationFactor);
}

#[test]
fn a_topic_with_assignments_needs_brokers_that_exist() {
    let with_broker = |broker| {
        let assignment = CreatableReplicaAssignment::default()
            .with_partition_index(0)
            .with_broker_ids(vec![BrokerId(broker)]);
        let mut request = create_topics("topics-assigned", -1, &[]);
        request.topics[0].assignments = vec![assignment];
        request
    };
    let refused = create(&with_broker(4711));
    assert_eq!(error(refused.error_code), ErrorCode::InvalidReplicaAssignment);
    let node = connect().call(12, &compat_tests::requests::metadata(&[], false)).brokers[0].node_id;
    assert_eq!(error(create(&with_broker(node.0)).error_code), ErrorCode::None);
}

#[test]
fn validate_only_creates_nothing() {
    let request = create_topics("topics-validated", 1, &[]).with_validate_only(true);
    assert_eq!(error(create(&request).error_code), ErrorCode::None);
    let topic = connect().describe_topic("topics-validated");
    assert_eq!(error(topic.error_code), ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn a_name_deleted_and_created_anew_is_another_topic() {
    let mut connection = connect();
    let mut last_id = uuid::Uuid::nil();
    let rounds = if is_kafka() { 3 } else { 100 };
    for round in 0..rounds {
        connection.create_topic("topics-again", 2);
        let id = connection.describe_topic("topics-again").topic_id;
        assert!(id != last_id && !id.is_nil(), "round {round}");
        last_id = id;
        assert_eq!(connection.append("topics-again", 1, batch(&["x"])), 0, "round {round}");
        assert_eq!(error(connection.delete_topic("topics-again")), ErrorCode::None);
        let topic = connection.describe_topic("topics-again");
        assert_eq!(error(topic.error_code), ErrorCode::UnknownTopicOrPartition, "round {round}");
    }
    assert_eq!(error(connection.delete_topic("topics-again")), ErrorCode::UnknownTopicOrPartition);
    let produced = connection.produce("topics-again", 0, batch(&["x"]));
    assert_eq!(error(produced.error_code), ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn a_deleted_topic_stays_deleted_after_a_crash() {
    let scene = Scene::start();
    let mut connection = scene.broker.connect();
    connection.create_topic("gone", 1);
    connection.append("gone", 0, batch(&["x"]));
    connection.create_topic("stays", 1);
    let id = connection.describe_topic("stays").topic_id;
    assert_eq!(error(connection.delete_topic("gone")), ErrorCode::None);
    let scene = scene.restart_after_kill();
    let mut connection = scene.broker.connect();
    assert_eq!(
        error(connection.describe_topic("gone").error_code),
        ErrorCode::UnknownTopicOrPartition
    );
    assert_eq!(connection.describe_topic("stays").topic_id, id);
    connection.create_topic("gone", 1);
    assert!(connection.read_all("gone", 0, 0).expect("read").is_empty());
}

#[test]
fn partitions_can_be_added_and_not_taken_away() {
    let mut connection = connect();
    connection.create_topic("topics-grow", 2);
    let mut grow = |count| {
        let topic = CreatePartitionsTopic::default()
            .with_name(topic_name("topics-grow"))
            .with_count(count)
            .with_assignments(None);
        let request =
            CreatePartitionsRequest::default().with_topics(vec![topic]).with_timeout_ms(20_000);
        error(connection.call(3, &request).results[0].error_code)
    };
    assert_eq!(grow(4), ErrorCode::None);
    assert_eq!(grow(4), ErrorCode::InvalidPartitions);
    assert_eq!(grow(3), ErrorCode::InvalidPartitions);
    let mut connection = connect();
    let mut partitions = 0;
    while partitions != 4 {
        partitions = connection.describe_topic("topics-grow").partitions.len();
    }
    if !is_kafka() {
        assert_eq!(connection.append("topics-grow", 3, batch(&["x"])), 0);
    }
}

#[test]
fn describe_topic_partitions_pages_through_them() {
    let mut connection = connect();
    connection.create_topic("topics-pages", 5);
    let topic = TopicRequest::default().with_name(topic_name("topics-pages"));
    let mut request = DescribeTopicPartitionsRequest::default()
        .with_topics(vec![topic])
        .with_response_partition_limit(2)
        .with_cursor(None);
    let mut seen = Vec::new();
    loop {
        let response = connection.call(0, &request);
        assert_eq!(error(response.topics[0].error_code), ErrorCode::None);
        seen.extend(response.topics[0].partitions.iter().map(|p| p.partition_index));
        let Some(next) = response.next_cursor else { break };
        request.cursor = Some(
            kafka_protocol::messages::describe_topic_partitions_request::Cursor::default()
                .with_topic_name(next.topic_name)
                .with_partition_index(next.partition_index),
        );
    }
    assert_eq!(seen, [0, 1, 2, 3, 4]);
}

#[test]
fn no_partition_is_being_reassigned() {
    let request =
        ListPartitionReassignmentsRequest::default().with_timeout_ms(10_000).with_topics(None);
    let response = connect().call(0, &request);
    assert_eq!(error(response.error_code), ErrorCode::None);
    assert!(response.topics.is_empty());
}
