//! Partitions that move: to other replicas, and back to the leaders that they prefer.

use compat_tests::requests::topic_name;
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, ApiKey, ApiVersionsRequest, BrokerId, ElectLeadersRequest,
};

use crate::client::{Client, Failure};
use crate::cluster::IDS;
use crate::history::Partition;
use crate::schedule::Dice;

const REASSIGN_VERSION: i16 = 0;
const ELECT_VERSION: i16 = 2;
/// How long the broker may take over a request.
const TIMEOUT_MS: i32 = 1_500;
/// What is answered when every leader is the preferred one.
const ELECTION_NOT_NEEDED: i16 = 84;

/// Whether the brokers have both APIs.
pub fn are_served(client: &mut Client<'_>) -> bool {
    let broker = client.anyone();
    let Ok(answer) = client.call(broker, 0, &ApiVersionsRequest::default()) else { return false };
    [ApiKey::AlterPartitionReassignments, ApiKey::ElectLeaders]
        .iter()
        .all(|key| answer.api_keys.iter().any(|api| api.api_key == *key as i16))
}

/// Three replicas in some order, or two of them.
pub fn draw_replicas(dice: &mut Dice) -> Vec<i32> {
    let turn = dice.below(3) as usize;
    let count = 2 + dice.below(2) as usize;
    let mut replicas = IDS.to_vec();
    replicas.rotate_left(turn);
    if dice.below(2) == 0 {
        replicas.swap(1, 2);
    }
    replicas.truncate(count);
    replicas
}

/// Asks some broker for it.
///
/// # Errors
/// It was refused, or not answered.
pub fn reassign(
    client: &mut Client<'_>,
    partition: Partition,
    replicas: &[i32],
) -> Result<(), Failure> {
    let (topic, index) = client.shared.place(partition);
    let replicas = replicas.iter().map(|id| BrokerId(*id)).collect();
    let row =
        ReassignablePartition::default().with_partition_index(index).with_replicas(Some(replicas));
    let topic =
        ReassignableTopic::default().with_name(topic_name(topic)).with_partitions(vec![row]);
    let request = AlterPartitionReassignmentsRequest::default()
        .with_timeout_ms(TIMEOUT_MS)
        .with_topics(vec![topic]);
    let broker = client.anyone();
    let answer = client.call(broker, REASSIGN_VERSION, &request)?;
    let rows = answer.responses.iter().flat_map(|topic| &topic.partitions);
    let codes = rows.map(|row| row.error_code).chain([answer.error_code]);
    codes.into_iter().find(|code| *code != 0).map_or(Ok(()), |code| Err(Failure::Answered(code)))
}

/// Has every partition led by its first replica.
///
/// # Errors
/// It was refused, or not answered.
pub fn elect_preferred(client: &mut Client<'_>) -> Result<(), Failure> {
    let request =
        ElectLeadersRequest::default().with_topic_partitions(None).with_timeout_ms(TIMEOUT_MS);
    let broker = client.anyone();
    let answer = client.call(broker, ELECT_VERSION, &request)?;
    match answer.error_code {
        0 | ELECTION_NOT_NEEDED => Ok(()),
        code => Err(Failure::Answered(code)),
    }
}
