//! ElectLeaders, AlterPartitionReassignments, DescribeQuorum, AddRaftVoter, RemoveRaftVoter and
//! UnregisterBroker, of one broker.

use compat_tests::requests::{text, topic_name};
use kafka_protocol::messages::add_raft_voter_request::Listener;
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::describe_quorum_request as quorum;
use kafka_protocol::messages::elect_leaders_request as election;
use kafka_protocol::messages::{
    AddRaftVoterRequest, AlterPartitionReassignmentsRequest, ApiKey, BrokerId,
    DescribeQuorumRequest, ElectLeadersRequest, RemoveRaftVoterRequest, UnregisterBrokerRequest,
};
use uuid::Uuid;

use crate::case::Case;
use crate::setup::NUMBERS;

fn elect(topic: &str, partitions: &[i32]) -> ElectLeadersRequest {
    let rows = election::TopicPartitions::default()
        .with_topic(topic_name(topic))
        .with_partitions(partitions.to_vec());
    ElectLeadersRequest::default().with_topic_partitions(Some(vec![rows])).with_timeout_ms(5_000)
}

fn reassign(
    topic: &str,
    partition: i32,
    replicas: Option<&[i32]>,
) -> AlterPartitionReassignmentsRequest {
    let replicas = replicas.map(|ids| ids.iter().copied().map(BrokerId).collect());
    let partition =
        ReassignablePartition::default().with_partition_index(partition).with_replicas(replicas);
    let topic =
        ReassignableTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    AlterPartitionReassignmentsRequest::default().with_timeout_ms(5_000).with_topics(vec![topic])
}

fn describe_quorum(topic: &str, partition: i32) -> DescribeQuorumRequest {
    let partition = quorum::PartitionData::default().with_partition_index(partition);
    let topic = quorum::TopicData::default()
        .with_topic_name(topic_name(topic))
        .with_partitions(vec![partition]);
    DescribeQuorumRequest::default().with_topics(vec![topic])
}

/// A controller that would vote, reached by this listener.
fn voter(listener: &str) -> AddRaftVoterRequest {
    let listener =
        Listener::default().with_name(text(listener)).with_host(text("localhost")).with_port(9093);
    AddRaftVoterRequest::default()
        .with_timeout_ms(5_000)
        .with_voter_id(4)
        .with_voter_directory_id(Uuid::from_u128(4))
        .with_listeners(vec![listener])
}

fn voter_no_more(id: i32, directory_id: Uuid) -> RemoveRaftVoterRequest {
    RemoveRaftVoterRequest::default().with_voter_id(id).with_voter_directory_id(directory_id)
}

fn voter_cases() -> Vec<Case> {
    use ApiKey::{AddRaftVoter, RemoveRaftVoter};
    let foreign = || Some(text("another-cluster"));
    vec![
        Case::new(AddRaftVoter, "one more").ask(|_| voter("CONTROLLER")),
        Case::new(AddRaftVoter, "another listener").ask(|_| voter("INSIDE")),
        Case::new(AddRaftVoter, "no listener").ask(|_| voter("CONTROLLER").with_listeners(vec![])),
        Case::new(AddRaftVoter, "no id").ask(|_| voter("CONTROLLER").with_voter_id(-1)),
        Case::new(AddRaftVoter, "no directory")
            .ask(|_| voter("CONTROLLER").with_voter_directory_id(Uuid::nil())),
        Case::new(AddRaftVoter, "another cluster")
            .ask(move |_| voter("CONTROLLER").with_cluster_id(foreign())),
        Case::new(RemoveRaftVoter, "the only one").ask(|_| voter_no_more(1, Uuid::from_u128(1))),
        Case::new(RemoveRaftVoter, "an unknown one").ask(|_| voter_no_more(4, Uuid::from_u128(4))),
        Case::new(RemoveRaftVoter, "no id").ask(|_| voter_no_more(-1, Uuid::from_u128(4))),
        Case::new(RemoveRaftVoter, "no directory").ask(|_| voter_no_more(4, Uuid::nil())),
        Case::new(RemoveRaftVoter, "another cluster")
            .ask(move |_| voter_no_more(4, Uuid::from_u128(4)).with_cluster_id(foreign())),
    ]
}

pub fn cases() -> Vec<Case> {
    use ApiKey::{AlterPartitionReassignments, DescribeQuorum, ElectLeaders, UnregisterBroker};
    let reassigned = |name: &str, topic: &'static str, replicas: Option<&'static [i32]>| {
        Case::new(AlterPartitionReassignments, name).ask(move |_| reassign(topic, 0, replicas))
    };
    let mut cases = vec![
        Case::new(ElectLeaders, "the leader that is").ask(|_| elect(NUMBERS, &[0])),
        Case::new(ElectLeaders, "an unknown topic").ask(|_| elect("no-such-topic", &[0])),
        Case::new(ElectLeaders, "an unknown partition").ask(|_| elect(NUMBERS, &[77])),
        reassigned("the replicas that are", NUMBERS, Some(&[1])),
        reassigned("an unknown topic", "no-such-topic", Some(&[1])),
        reassigned("an unknown broker", NUMBERS, Some(&[7])),
        reassigned("a replica twice", NUMBERS, Some(&[1, 1])),
        reassigned("no replicas", NUMBERS, Some(&[])),
        reassigned("nothing to take back", NUMBERS, None),
        Case::new(DescribeQuorum, "another topic").ask(|_| describe_quorum(NUMBERS, 0)),
        Case::new(UnregisterBroker, "an unknown broker")
            .ask(|_| UnregisterBrokerRequest::default().with_broker_id(BrokerId(99))),
    ];
    cases.extend(voter_cases());
    cases
}
