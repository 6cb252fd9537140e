//! FindCoordinator: the broker that leads the partition which a key's state is in. The topic of
//! these partitions is made when it is first asked for.

use std::sync::Arc;

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{ApiKey, BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::nodes::{Node, nodes};
use super::common::partition_leader::partition_state;
use super::common::topic_creation::{auto_created, create};
use super::common::wire::{Refusal, reply, text};
use crate::context::{RequestContext, Services};
use crate::coordinator::group_runtime::OFFSETS_TOPIC;

/// Versions:
/// - 0: coordinators of groups
/// - 1: coordinators of transactions, error message (KIP-98)
/// - 2: throttled answers go out before the connection is muted (KIP-219)
/// - 3: flexible
/// - 4: many keys at once (KIP-699)
/// - 5: TRANSACTION_ABORTABLE may be answered (KIP-890)
/// - 6: coordinators of share groups (KIP-932)
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &[
        "There is no transaction coordinator yet: transactional ids get COORDINATOR_NOT_AVAILABLE.",
        "There is no share coordinator: its keys get INVALID_REQUEST, as from a Kafka whose share \
         groups are off.",
    ],
    stage: Stage::Partial,
    ..ApiSpec::new(ApiKey::FindCoordinator, 0..=6)
};

/// From this version on many keys are asked for at once.
const MANY_KEYS_SINCE: i16 = 4;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// Answers for every key.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: FindCoordinatorRequest,
) -> Reply {
    let keys = if context.api_version < MANY_KEYS_SINCE {
        vec![request.key]
    } else {
        request.coordinator_keys
    };
    let ready = match request.key_type {
        GROUP if keys.is_empty() => Ok(()),
        GROUP => ensure_topic(services).await,
        TRANSACTION => Err(Refusal::new(
            ErrorCode::CoordinatorNotAvailable,
            "this broker has no transaction coordinator yet",
        )),
        _ => Err(Refusal::new(
            ErrorCode::InvalidRequest,
            format!("no coordinator of type {}", request.key_type),
        )),
    };
    let nodes = nodes(services, context, &services.cluster.metadata());
    let rows = keys.into_iter().map(|key| {
        let node = ready.clone().and_then(|()| group_coordinator(services, &nodes, &key));
        row(key, node)
    });
    let mut rows: Vec<_> = rows.collect();
    if context.api_version >= MANY_KEYS_SINCE {
        return reply(FindCoordinatorResponse::default().with_coordinators(rows));
    }
    let row = rows.pop().unwrap_or_default();
    let response = FindCoordinatorResponse::default()
        .with_error_code(row.error_code)
        .with_error_message(row.error_message)
        .with_node_id(row.node_id)
        .with_host(row.host)
        .with_port(row.port);
    reply(response)
}

/// Makes the topic of groups if there is none, whatever `auto.create.topics.enable` says, as Kafka.
async fn ensure_topic(services: &Services) -> Result<(), Refusal> {
    let image = services.cluster.metadata();
    if image.topic(OFFSETS_TOPIC).is_some() {
        return Ok(());
    }
    let wanted = auto_created(OFFSETS_TOPIC, &image, &services.config);
    match create(services, &wanted, false).await {
        Ok(_) => Ok(()),
        // Another client was faster.
        Err(refusal) if refusal.code == ErrorCode::TopicAlreadyExists => Ok(()),
        Err(refusal) => {
            tracing::warn!(topic = OFFSETS_TOPIC, why = refusal.message, "topic cannot be made");
            Err(Refusal::new(ErrorCode::CoordinatorNotAvailable, refusal.message))
        }
    }
}

fn group_coordinator(services: &Services, nodes: &[Node], group_id: &str) -> Result<Node, Refusal> {
    let image = services.cluster.metadata();
    let topic = image.topic(OFFSETS_TOPIC);
    let leader = topic.and_then(|topic| {
        let partition = topic.partition(services.groups.partition_for(group_id)?)?;
        Some(partition_state(services, topic, partition, nodes).leader)
    });
    let node = leader.and_then(|leader| nodes.iter().find(|node| node.id == leader));
    node.cloned().ok_or_else(|| {
        Refusal::new(ErrorCode::CoordinatorNotAvailable, "the coordinator is not available")
    })
}

fn row(key: StrBytes, node: Result<Node, Refusal>) -> Coordinator {
    match node {
        Ok(node) => Coordinator::default()
            .with_key(key)
            .with_node_id(node.wire_id())
            .with_host(node.wire_host())
            .with_port(i32::from(node.port)),
        Err(refusal) => Coordinator::default()
            .with_key(key)
            .with_error_code(refusal.code.code())
            .with_error_message(Some(text(&refusal.message)))
            .with_node_id(BrokerId(-1))
            .with_port(-1),
    }
}
