//! DescribeQuorum: who votes on metadata, who follows, and how far they are (KIP-595, KIP-836).

use std::sync::Arc;

use cluster::metadata::image::METADATA_TOPIC;
use cluster::{Quorum, QuorumReplica};
use kafka_protocol::messages::describe_quorum_request::TopicData as Asked;
use kafka_protocol::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use kafka_protocol::messages::{self, ApiKey, DescribeQuorumRequest, DescribeQuorumResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;
use protocol::types::BrokerId;

use super::Reply;
use super::common::voters::CONTROLLER_LISTENER;
use super::common::wire::{Refusal, reply, text};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
/// - 1: when replicas have fetched and caught up last (KIP-836)
/// - 2: error messages, where voters are reached (KIP-853)
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &["Directory ids are nil: voters are told apart by their node.id alone."],
    ..ApiSpec::new(ApiKey::DescribeQuorum, 0..=2)
};

/// From this version on answers have sentences, and say where voters are reached.
const NODES_SINCE: i16 = 2;

/// Answers with what the leader of the metadata log knows.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: DescribeQuorumRequest,
) -> Reply {
    let quorum = match services.cluster.describe_quorum().await {
        Ok(quorum) => quorum,
        Err(error) => {
            let refusal = Refusal::from(error);
            let message = text(&refusal.message);
            return reply(
                DescribeQuorumResponse::default()
                    .with_error_code(refusal.code.code())
                    .with_error_message((context.api_version >= NODES_SINCE).then_some(message)),
            );
        }
    };
    let topics = request.topics.iter().map(|topic| topic_row(topic, &quorum));
    let mut response =
        DescribeQuorumResponse::default().with_topics(topics.collect()).with_error_message(None);
    if context.api_version >= NODES_SINCE {
        response.nodes = quorum.voters.iter().map(|voter| node(services, voter.id)).collect();
    }
    reply(response)
}

fn topic_row(topic: &Asked, quorum: &Quorum) -> TopicData {
    let partitions = topic.partitions.iter().map(|partition| {
        let row = PartitionData::default()
            .with_partition_index(partition.partition_index)
            .with_error_message(None);
        if topic.topic_name.as_str() != METADATA_TOPIC || partition.partition_index != 0 {
            return row.with_error_code(ErrorCode::UnknownTopicOrPartition.code());
        }
        row.with_leader_id(messages::BrokerId(quorum.leader.0))
            .with_leader_epoch(quorum.leader_epoch.0)
            .with_high_watermark(quorum.high_watermark.0)
            .with_current_voters(quorum.voters.iter().map(replica).collect())
            .with_observers(quorum.observers.iter().map(replica).collect())
    });
    TopicData::default()
        .with_topic_name(topic.topic_name.clone())
        .with_partitions(partitions.collect())
}

fn replica(replica: &QuorumReplica) -> ReplicaState {
    ReplicaState::default()
        .with_replica_id(messages::BrokerId(replica.id.0))
        .with_log_end_offset(replica.log_end_offset.0)
        .with_last_fetch_timestamp(replica.last_fetch.0)
        .with_last_caught_up_timestamp(replica.last_caught_up.0)
}

fn node(services: &Services, id: BrokerId) -> Node {
    let peers = services.config.peers.as_ref();
    let address = peers.and_then(|peers| peers.voters.get(&id)?.rsplit_once(':'));
    let listeners = address.map(|(host, port)| {
        Listener::default()
            .with_name(text(CONTROLLER_LISTENER))
            .with_host(text(host))
            .with_port(port.parse().unwrap_or_default())
    });
    Node::default()
        .with_node_id(messages::BrokerId(id.0))
        .with_listeners(listeners.into_iter().collect())
}
