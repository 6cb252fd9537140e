//! CreatePartitions: adds partitions to topics (KIP-195).

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::metadata::{MetadataCommand, apply};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{ApiKey, CreatePartitionsRequest, CreatePartitionsResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;
use protocol::types::BrokerId;

use super::Reply;
use super::common::wire::{Refusal, code_of, message_of, reply};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
/// - 1: throttling does not delay the answer (KIP-219)
/// - 2: flexible
/// - 3: may be refused by a quota on changes (KIP-599)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::CreatePartitions, 0..=3);

/// Handles each topic by itself.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: CreatePartitionsRequest,
) -> Reply {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<_> =
        request.topics.iter().map(|topic| &topic.name).filter(|name| !seen.insert(*name)).collect();
    let mut answered = BTreeSet::new();
    let mut results = Vec::with_capacity(request.topics.len());
    for topic in request.topics.iter().filter(|topic| answered.insert(&topic.name)) {
        let result = if twice.contains(&topic.name) {
            Err(Refusal::new(ErrorCode::InvalidRequest, "Duplicate topic name."))
        } else {
            add(services, topic, request.validate_only).await
        };
        results.push(
            CreatePartitionsTopicResult::default()
                .with_name(topic.name.clone())
                .with_error_code(code_of(&result))
                .with_error_message(message_of(&result)),
        );
    }
    reply(CreatePartitionsResponse::default().with_results(results))
}

async fn add(
    services: &Services,
    wanted: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<(), Refusal> {
    let image = services.cluster.metadata();
    let topic = image.topic(&wanted.name).ok_or_else(|| {
        let message = "This server does not host this topic.";
        Refusal::new(ErrorCode::UnknownTopicOrPartition, message)
    })?;
    let additional = additional(topic.partitions.len(), wanted.count)?;
    let added = match &wanted.assignments {
        None => {
            let replicas = topic.partitions.first().map_or(1, |first| first.replicas.len());
            services.cluster.plan_assignment(additional, replicas)?
        }
        Some(assignments) if assignments.len() != additional => {
            let message = format!(
                "{additional} partition(s) are added, but {} assignment(s) are given.",
                assignments.len()
            );
            return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
        }
        Some(assignments) => assignments
            .iter()
            .map(|assignment| assignment.broker_ids.iter().map(|id| BrokerId(id.0)).collect())
            .collect(),
    };
    let command = MetadataCommand::CreatePartitions { topic: topic.id, added };
    if validate_only {
        apply(&image, &command).2?;
    } else {
        services.cluster.submit(command).await?;
    }
    Ok(())
}

fn additional(now: usize, wanted: i32) -> Result<usize, Refusal> {
    match usize::try_from(wanted) {
        Ok(wanted) if wanted > now => Ok(wanted - now),
        Ok(wanted) if wanted == now => {
            let message = format!("The topic already has {now} partition(s).");
            Err(Refusal::new(ErrorCode::InvalidPartitions, message))
        }
        _ => {
            let message =
                format!("The topic has {now} partition(s); {wanted} would be no increase.");
            Err(Refusal::new(ErrorCode::InvalidPartitions, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_can_only_become_more() {
        assert_eq!(additional(3, 5), Ok(2));
        for wanted in [3, 2, 0, -1] {
            let refusal = additional(3, wanted).expect_err("no increase");
            assert_eq!(refusal.code, ErrorCode::InvalidPartitions);
        }
    }
}
