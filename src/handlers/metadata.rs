//! Metadata: the brokers, and the topics that the client asks about; makes those that do not exist,
//! where client and configuration allow it.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::metadata::image::INTERNAL_TOPICS;
use cluster::metadata::{MetadataImage, TopicImage, topic_name as names};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{self, ApiKey, MetadataRequest, MetadataResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;
use protocol::types::TopicId;
use uuid::Uuid;

use super::Reply;
use super::common::nodes::{Node, controller, nodes};
use super::common::operations;
use super::common::partition_leader::{PartitionState, partition_state};
use super::common::topic_creation::{auto_created, create};
use super::common::wire::{broker_ids, reply, text, topic_name};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: an empty list of topics is all topics
/// - 1: null is all topics; racks, controller, internal topics
/// - 2: cluster id
/// - 3: throttle time
/// - 4: the client may forbid that topics are made
/// - 5: offline replicas
/// - 6: throttling does not delay the answer (KIP-219)
/// - 7: leader epochs (KIP-320)
/// - 8: authorized operations (KIP-430)
/// - 9: flexible
/// - 10: topic ids (KIP-516)
/// - 11: no more operations on the cluster (DescribeCluster has them)
/// - 12: topics may be asked for by id
/// - 13: an error of the whole answer (KIP-1102)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::Metadata, 0..=13);

/// Versions in which the cluster's operations can be asked for.
const CLUSTER_OPERATIONS: std::ops::RangeInclusive<i16> = 8..=10;
/// First version with operations on topics.
const TOPIC_OPERATIONS_VERSION: i16 = 8;
/// First version that asks by id, and in which a topic's name may be null.
const BY_ID_VERSION: i16 = 12;

/// What the client asks about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    /// A topic by name.
    Name(String),
    /// A topic by id.
    Id(Uuid),
    /// A topic by neither, or by id before that was possible.
    Wrongly(String, Uuid),
}

/// Answers. A topic that is made on the way is ready to be produced to when the answer goes out.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: MetadataRequest,
) -> Reply {
    let version = context.api_version;
    let asked = asked(&request, version);
    let mut image = services.cluster.metadata();
    let mut refused = Vec::new();
    if request.allow_auto_topic_creation && services.config.auto_create_topics_enable {
        let missing = missing(&image, asked.as_deref().unwrap_or_default());
        if !missing.is_empty() {
            refused = make(services, &image, missing).await;
            image = services.cluster.metadata();
        }
    }
    let nodes = nodes(services, context, &image);
    let rows = Rows { services, image: &image, nodes: &nodes, refused, request: &request, version };
    let topics = match &asked {
        None => image.topics.values().map(|topic| rows.found(topic)).collect(),
        Some(asked) => asked.iter().map(|topic| rows.row(topic)).collect(),
    };
    let mut response = MetadataResponse::default()
        .with_brokers(nodes.iter().map(broker_row).collect())
        .with_cluster_id(Some(text(&image.cluster_id)))
        .with_controller_id(controller(services, &nodes))
        .with_topics(topics);
    if CLUSTER_OPERATIONS.contains(&version) {
        response.cluster_authorized_operations =
            operations::on_cluster(request.include_cluster_authorized_operations);
    }
    reply(response)
}

/// `None` is all topics. A topic that is asked for twice is answered once.
fn asked(request: &MetadataRequest, version: i16) -> Option<Vec<Asked>> {
    let topics = request.topics.as_ref()?;
    if version == 0 && topics.is_empty() {
        return None;
    }
    let mut seen = BTreeSet::new();
    let first = |topic: &&MetadataRequestTopic| seen.insert((topic.name.clone(), topic.topic_id));
    Some(topics.iter().filter(first).map(|topic| asked_one(topic, version)).collect())
}

fn asked_one(topic: &MetadataRequestTopic, version: i16) -> Asked {
    let name = topic.name.as_ref().map(|name| name.0.to_string());
    match (name, topic.topic_id.is_nil()) {
        (_, false) if version >= BY_ID_VERSION => Asked::Id(topic.topic_id),
        (Some(name), true) => Asked::Name(name),
        (name, _) => Asked::Wrongly(name.unwrap_or_default(), topic.topic_id),
    }
}

/// Names of topics to be made.
fn missing(image: &MetadataImage, asked: &[Asked]) -> Vec<String> {
    let name = |asked: &Asked| match asked {
        Asked::Name(name) if image.topic(name).is_none() => Some(name.clone()),
        _ => None,
    };
    asked.iter().filter_map(name).filter(|name| names::validate(name).is_ok()).collect()
}

/// Makes topics; returns those that were refused, and why.
async fn make(
    services: &Services,
    image: &MetadataImage,
    missing: Vec<String>,
) -> Vec<(String, ErrorCode)> {
    let made = missing.into_iter().map(|name| async move {
        let wanted = auto_created(&name, image, &services.config);
        match create(services, &wanted, false).await {
            Ok(_) => None,
            // Another client was faster.
            Err(refusal) if refusal.code == ErrorCode::TopicAlreadyExists => None,
            Err(refusal) => Some((name, refusal.code)),
        }
    });
    futures::future::join_all(made).await.into_iter().flatten().collect()
}

fn broker_row(node: &Node) -> MetadataResponseBroker {
    MetadataResponseBroker::default()
        .with_node_id(node.wire_id())
        .with_host(node.wire_host())
        .with_port(i32::from(node.port))
        .with_rack(node.wire_rack())
}

/// Makes the topics' rows.
struct Rows<'a> {
    services: &'a Services,
    image: &'a MetadataImage,
    nodes: &'a [Node],
    refused: Vec<(String, ErrorCode)>,
    request: &'a MetadataRequest,
    version: i16,
}

impl Rows<'_> {
    fn row(&self, asked: &Asked) -> MetadataResponseTopic {
        match asked {
            Asked::Name(name) => match self.image.topic(name) {
                Some(topic) => self.found(topic),
                None => self.not_found(Some(name), Uuid::nil(), self.why_not(name)),
            },
            Asked::Id(id) => match self.image.topic_by_id(TopicId(*id)) {
                Some(topic) => self.found(topic),
                None => self.not_found(None, *id, ErrorCode::UnknownTopicId),
            },
            Asked::Wrongly(name, id) => self.not_found(Some(name), *id, ErrorCode::InvalidRequest),
        }
    }

    fn why_not(&self, name: &str) -> ErrorCode {
        if names::validate(name).is_err() {
            return ErrorCode::InvalidTopicException;
        }
        let refused = self.refused.iter().find(|(refused, _)| refused == name);
        refused.map_or(ErrorCode::UnknownTopicOrPartition, |(_, code)| *code)
    }

    fn not_found(&self, name: Option<&str>, id: Uuid, code: ErrorCode) -> MetadataResponseTopic {
        let row = MetadataResponseTopic::default()
            .with_error_code(code.code())
            .with_name(name.map(topic_name))
            .with_topic_id(id)
            .with_is_internal(name.is_some_and(|name| INTERNAL_TOPICS.contains(&name)));
        self.with_operations(row)
    }

    fn found(&self, topic: &TopicImage) -> MetadataResponseTopic {
        let partitions = topic.partitions.iter().map(|partition| {
            let state = partition_state(self.services, topic, partition, self.nodes);
            partition_row(partition.id.0, broker_ids(&partition.replicas), &state, self.version)
        });
        let row = MetadataResponseTopic::default()
            .with_name(Some(topic_name(&topic.name)))
            .with_topic_id(topic.id.0)
            .with_is_internal(topic.is_internal())
            .with_partitions(partitions.collect());
        self.with_operations(row)
    }

    fn with_operations(&self, row: MetadataResponseTopic) -> MetadataResponseTopic {
        if self.version < TOPIC_OPERATIONS_VERSION {
            return row;
        }
        let asked = self.request.include_topic_authorized_operations;
        row.with_topic_authorized_operations(operations::on_topic(asked))
    }
}

fn partition_row(
    index: i32,
    replicas: Vec<messages::BrokerId>,
    state: &PartitionState,
    version: i16,
) -> MetadataResponsePartition {
    /// Before that, clients know of no listener that is missing.
    const LISTENER_NOT_FOUND_VERSION: i16 = 6;
    let error = match state.error {
        ErrorCode::ListenerNotFound if version < LISTENER_NOT_FOUND_VERSION => {
            ErrorCode::LeaderNotAvailable
        }
        error => error,
    };
    MetadataResponsePartition::default()
        .with_error_code(error.code())
        .with_partition_index(index)
        .with_leader_id(messages::BrokerId(state.leader.0))
        .with_leader_epoch(state.leader_epoch.0)
        .with_replica_nodes(replicas)
        .with_isr_nodes(broker_ids(&state.in_sync_replicas))
        .with_offline_replicas(broker_ids(&state.offline_replicas))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(topics: Option<&[(Option<&str>, u128)]>) -> MetadataRequest {
        let topic = |(name, id): &(Option<&str>, u128)| {
            MetadataRequestTopic::default()
                .with_name(name.map(topic_name))
                .with_topic_id(Uuid::from_u128(*id))
        };
        let topics = topics.map(|topics| topics.iter().map(topic).collect());
        MetadataRequest::default().with_topics(topics)
    }

    #[test]
    fn all_topics_are_asked_for_by_null_and_once_by_an_empty_list() {
        assert_eq!(asked(&request(None), 1), None);
        assert_eq!(asked(&request(Some(&[])), 0), None);
        assert_eq!(asked(&request(Some(&[])), 1), Some(vec![]));
    }

    #[test]
    fn ids_are_understood_from_version_twelve_on() {
        let by_id = request(Some(&[(None, 7)]));
        assert_eq!(asked(&by_id, 12), Some(vec![Asked::Id(Uuid::from_u128(7))]));
        let wrongly = Asked::Wrongly(String::new(), Uuid::from_u128(7));
        assert_eq!(asked(&by_id, 11), Some(vec![wrongly]));
        let neither = request(Some(&[(None, 0)]));
        let wrongly = Asked::Wrongly(String::new(), Uuid::nil());
        assert_eq!(asked(&neither, 12), Some(vec![wrongly]));
    }

    #[test]
    fn a_topic_that_is_asked_for_twice_is_answered_once() {
        let twice = request(Some(&[(Some("a"), 0), (Some("a"), 0), (Some("b"), 0)]));
        let names = ["a", "b"].map(|name| Asked::Name(name.into())).to_vec();
        assert_eq!(asked(&twice, 9), Some(names));
    }

    #[test]
    fn only_well_named_topics_are_made() {
        let asked = ["ok", "not ok", "."].map(|name| Asked::Name(name.into()));
        assert_eq!(missing(&MetadataImage::default(), &asked), ["ok"]);
    }
}
