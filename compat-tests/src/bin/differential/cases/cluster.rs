//! DescribeCluster, DescribeLogDirs and ListPartitionReassignments.

use compat_tests::requests::topic_name;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::list_partition_reassignments_request as listed;
use kafka_protocol::messages::{
    ApiKey, DescribeClusterRequest, DescribeLogDirsRequest, ListPartitionReassignmentsRequest,
};

use crate::case::Case;
use crate::setup::{EMPTY, NUMBERS};

fn cluster(endpoint_type: i8) -> DescribeClusterRequest {
    DescribeClusterRequest::default().with_endpoint_type(endpoint_type)
}

fn log_dirs(topics: Option<&[(&str, &[i32])]>) -> DescribeLogDirsRequest {
    let topics = topics.map(|topics| {
        let topics = topics.iter().map(|(name, partitions)| {
            DescribableLogDirTopic::default()
                .with_topic(topic_name(name))
                .with_partitions(partitions.to_vec())
        });
        topics.collect()
    });
    DescribeLogDirsRequest::default().with_topics(topics)
}

fn reassignments(topics: Option<&[(&str, &[i32])]>) -> ListPartitionReassignmentsRequest {
    let topics = topics.map(|topics| {
        let topics = topics.iter().map(|(name, partitions)| {
            listed::ListPartitionReassignmentsTopics::default()
                .with_name(topic_name(name))
                .with_partition_indexes(partitions.to_vec())
        });
        topics.collect()
    });
    ListPartitionReassignmentsRequest::default().with_timeout_ms(5_000).with_topics(topics)
}

pub fn cases() -> Vec<Case> {
    use ApiKey::{DescribeCluster, DescribeLogDirs, ListPartitionReassignments};
    vec![
        Case::new(DescribeCluster, "the brokers").ask(|_| cluster(1)),
        Case::new(DescribeCluster, "the operations")
            .ask(|_| cluster(1).with_include_cluster_authorized_operations(true)),
        Case::new(DescribeCluster, "the controllers").versions(1..=2).ask(|_| cluster(2)),
        Case::new(DescribeCluster, "an unknown kind of endpoint")
            .versions(1..=2)
            .ask(|_| cluster(7)),
        Case::new(DescribeCluster, "no kind of endpoint").versions(1..=2).ask(|_| cluster(0)),
        Case::new(DescribeCluster, "fenced brokers too")
            .versions(2..=2)
            .ask(|_| cluster(1).with_include_fenced_brokers(true)),
        Case::new(DescribeLogDirs, "some topics")
            .ask(|_| log_dirs(Some(&[(NUMBERS, &[0, 1, 2]), (EMPTY, &[0])]))),
        Case::new(DescribeLogDirs, "an unknown topic")
            .ask(|_| log_dirs(Some(&[("no-such-topic", &[0])]))),
        Case::new(DescribeLogDirs, "an unknown partition")
            .ask(|_| log_dirs(Some(&[(NUMBERS, &[0, 9, -1])]))),
        Case::new(DescribeLogDirs, "a partition twice")
            .ask(|_| log_dirs(Some(&[(NUMBERS, &[0, 0])]))),
        Case::new(DescribeLogDirs, "no partitions").ask(|_| log_dirs(Some(&[(NUMBERS, &[])]))),
        Case::new(DescribeLogDirs, "no topics").ask(|_| log_dirs(Some(&[]))),
        Case::new(ListPartitionReassignments, "all").ask(|_| reassignments(None)),
        Case::new(ListPartitionReassignments, "a topic")
            .ask(|_| reassignments(Some(&[(NUMBERS, &[0, 1])]))),
        Case::new(ListPartitionReassignments, "an unknown topic")
            .ask(|_| reassignments(Some(&[("no-such-topic", &[0])]))),
        Case::new(ListPartitionReassignments, "no topics").ask(|_| reassignments(Some(&[]))),
        Case::new(ListPartitionReassignments, "no time")
            .ask(|_| reassignments(None).with_timeout_ms(0)),
    ]
}
