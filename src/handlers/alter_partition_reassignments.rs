//! AlterPartitionReassignments: has partitions kept by other brokers (KIP-455). The answer says
//! that it begins; ListPartitionReassignments says whether it is still under way.

use std::sync::Arc;

use cluster::metadata::{MetadataCommand, TopicImage};
use kafka_protocol::messages::alter_partition_reassignments_request::ReassignablePartition;
use kafka_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ApiKey,
};
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;
use protocol::types::{BrokerId, PartitionId};

use super::Reply;
use super::common::wire::{Refusal, code_of, message_of, reply};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
/// - 1: a change of the replication factor may be forbidden (KIP-860)
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &[
        "A reassignment that was cancelled is listed for a moment longer: its new replicas leave \
         the partition's Raft group step by step.",
    ],
    stage: Stage::Partial,
    ..ApiSpec::new(ApiKey::AlterPartitionReassignments, 0..=1)
};

/// Handles each partition by itself.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: AlterPartitionReassignmentsRequest,
) -> Reply {
    let may_change_factor = request.allow_replication_factor_change;
    let image = services.cluster.metadata();
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in request.topics {
        let found = image.topic(&topic.name);
        let rows = topic.partitions.iter().map(|wanted| async {
            let result = match command(found.map(|topic| &**topic), wanted, may_change_factor) {
                Ok(command) => services.cluster.submit(command).await.map_err(Refusal::from),
                Err(refusal) => Err(refusal),
            };
            ReassignablePartitionResponse::default()
                .with_partition_index(wanted.partition_index)
                .with_error_code(code_of(&result))
                .with_error_message(message_of(&result))
        });
        let rows = futures::future::join_all(rows).await;
        let row = ReassignableTopicResponse::default().with_name(topic.name.clone());
        topics.push(row.with_partitions(rows));
    }
    reply(
        AlterPartitionReassignmentsResponse::default()
            .with_allow_replication_factor_change(may_change_factor)
            .with_error_message(None)
            .with_responses(topics),
    )
}

fn command(
    topic: Option<&TopicImage>,
    wanted: &ReassignablePartition,
    may_change_factor: bool,
) -> Result<MetadataCommand, Refusal> {
    let id = PartitionId(wanted.partition_index);
    let found = topic.and_then(|topic| Some((topic, topic.partition(id)?)));
    let (topic, partition) = found.ok_or_else(|| {
        let message = "There is no such partition.";
        Refusal::new(ErrorCode::UnknownTopicOrPartition, message)
    })?;
    let replicas = |ids: &Vec<kafka_protocol::messages::BrokerId>| {
        ids.iter().map(|id| BrokerId(id.0)).collect::<Vec<_>>()
    };
    let target = wanted.replicas.as_ref().map(replicas);
    let factor = partition.target_replicas().len();
    if let Some(target) = &target
        && !may_change_factor
        && target.len() != factor
    {
        let message = format!("The replication factor would change from {factor}.");
        return Err(Refusal::new(ErrorCode::InvalidReplicationFactor, message));
    }
    Ok(MetadataCommand::AlterPartitionReassignment { topic: topic.id, partition: id, target })
}

#[cfg(test)]
mod tests {
    use cluster::metadata::{BrokerImage, MetadataImage, apply};
    use kafka_protocol::messages;
    use protocol::types::TopicId;

    use super::*;

    fn image() -> MetadataImage {
        let broker = |id| {
            let broker = BrokerImage {
                id: BrokerId(id),
                rack: None,
                endpoints: Vec::new(),
                peer_address: None,
                directory_id: None,
            };
            MetadataCommand::RegisterBroker { broker }
        };
        let create = MetadataCommand::CreateTopic {
            name: "t".into(),
            id: TopicId(uuid::Uuid::from_u128(1)),
            assignment: vec![vec![BrokerId(1), BrokerId(2)]],
            configs: std::collections::BTreeMap::new(),
        };
        let commands = [broker(1), broker(2), create];
        commands.iter().fold(MetadataImage::default(), |image, command| apply(&image, command).0)
    }

    fn refused(index: i32, replicas: Option<&[i32]>, may_change_factor: bool) -> Option<ErrorCode> {
        let ids = |ids: &[i32]| ids.iter().copied().map(messages::BrokerId).collect();
        let wanted = ReassignablePartition::default()
            .with_partition_index(index)
            .with_replicas(replicas.map(ids));
        let image = image();
        let topic = image.topic("t").map(|topic| &**topic);
        command(topic, &wanted, may_change_factor).err().map(|refusal| refusal.code)
    }

    #[test]
    fn the_replication_factor_stays_where_it_must() {
        assert_eq!(refused(0, Some(&[2]), false), Some(ErrorCode::InvalidReplicationFactor));
        assert_eq!(refused(0, Some(&[2]), true), None);
        assert_eq!(refused(0, Some(&[2, 1]), false), None);
        assert_eq!(refused(0, None, false), None);
    }

    #[test]
    fn a_partition_that_is_not_there_is_unknown() {
        assert_eq!(refused(1, Some(&[2]), true), Some(ErrorCode::UnknownTopicOrPartition));
    }
}
