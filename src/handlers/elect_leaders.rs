//! ElectLeaders: has preferred replicas lead their partitions (KIP-183), or one that is left where
//! the majority is gone (KIP-460).

use std::sync::Arc;
use std::time::Duration;

use cluster::ElectionOutcome;
use cluster::metadata::MetadataImage;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ApiKey, ElectLeadersRequest, ElectLeadersResponse};
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;
use protocol::types::{PartitionId, TopicId};

use super::Reply;
use super::common::wire::{Refusal, reply, text, topic_name};
use crate::config::TopicConfig;
use crate::context::{RequestContext, Services};
use crate::telemetry;

/// Versions:
/// - 0: preferred replicas
/// - 1: an error of the whole answer; the type of the election (KIP-460)
/// - 2: flexible
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &[
        "An unclean election is held only on demand, and only for a topic that has \
         unclean.leader.election.enable, which Kafka does not ask for on demand; without it the \
         answer is ELIGIBLE_LEADERS_NOT_AVAILABLE.",
        "An unclean election is held wherever the majority of the replicas is gone, also while the \
         one that is left leads, for nothing can be committed then. The others are listed as being \
         added until they are back.",
    ],
    stage: Stage::Partial,
    ..ApiSpec::new(ApiKey::ElectLeaders, 0..=2)
};

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;
/// Requests have a time, but what stands there need not be one.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Each asks the replicas that are left, and writes to the metadata log.
const UNCLEAN_AT_ONCE: usize = 16;

type Asked = (String, i32, Option<TopicId>);

/// Answers when the replicas lead, or cannot.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: ElectLeadersRequest,
) -> Reply {
    if ![PREFERRED, UNCLEAN].contains(&request.election_type) {
        let code = ErrorCode::InvalidRequest.code();
        return reply(ElectLeadersResponse::default().with_error_code(code));
    }
    let image = services.cluster.metadata();
    let asked = match &request.topic_partitions {
        Some(topics) => named(&image, topics),
        None => all(&image),
    };
    let known = asked.iter().filter_map(|(_, index, id)| Some(((*id)?, PartitionId(*index))));
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let timeout = timeout.min(LONGEST_WAIT);
    let outcomes = match request.election_type {
        PREFERRED => services.cluster.elect_preferred(known.collect(), timeout).await,
        _ => unclean(services, &image, known.collect(), timeout).await,
    };
    let mut outcomes = outcomes.into_iter();
    let mut results: Vec<ReplicaElectionResult> = Vec::new();
    for (topic, index, id) in asked {
        let outcome = id.and_then(|_| outcomes.next()).unwrap_or(ElectionOutcome::Unknown);
        let refusal = refusal(outcome, request.election_type, &topic, index);
        if results.last().is_none_or(|last| last.topic.as_str() != topic) {
            results.push(ReplicaElectionResult::default().with_topic(topic_name(&topic)));
        }
        // Who asks about all is told only of those where something was to be done.
        if request.topic_partitions.is_none() && outcome == ElectionOutcome::NotNeeded {
            continue;
        }
        if let Some(last) = results.last_mut() {
            last.partition_result.push(row(index, refusal));
        }
    }
    reply(ElectLeadersResponse::default().with_replica_election_results(results))
}

fn named(image: &MetadataImage, topics: &[TopicPartitions]) -> Vec<Asked> {
    let partitions = topics.iter().flat_map(|topic| {
        let id = image.topic(&topic.topic).map(|topic| topic.id);
        topic.partitions.iter().map(move |index| (topic.topic.to_string(), *index, id))
    });
    partitions.collect()
}

fn all(image: &MetadataImage) -> Vec<Asked> {
    let partitions = image.topics.values().flat_map(|topic| {
        let ids = topic.partitions.iter().map(|partition| partition.id.0);
        ids.map(|index| (topic.name.clone(), index, Some(topic.id)))
    });
    partitions.collect()
}

async fn unclean(
    services: &Services,
    image: &MetadataImage,
    partitions: Vec<(TopicId, PartitionId)>,
    timeout: Duration,
) -> Vec<ElectionOutcome> {
    let mut outcomes = Vec::with_capacity(partitions.len());
    for some in partitions.chunks(UNCLEAN_AT_ONCE) {
        let elections = some.iter().map(|(topic, partition)| {
            let is_allowed = image.topic_by_id(*topic).is_some_and(|topic| {
                TopicConfig::resolve(&topic.configs, image, &services.config)
                    .unclean_leader_election
            });
            services.cluster.elect_unclean(*topic, *partition, is_allowed, timeout)
        });
        outcomes.extend(futures::future::join_all(elections).await);
    }
    let held = outcomes.iter().filter(|outcome| **outcome == ElectionOutcome::Elected).count();
    telemetry::unclean_leader_elections_held(held as u64);
    outcomes
}

/// `None` where the election was held.
fn refusal(outcome: ElectionOutcome, kind: i8, topic: &str, index: i32) -> Option<Refusal> {
    let (code, message) = match outcome {
        ElectionOutcome::Elected => return None,
        ElectionOutcome::NotNeeded => {
            (ErrorCode::ElectionNotNeeded, "Leader election not needed for topic partition.")
        }
        ElectionOutcome::NotAvailable if kind == UNCLEAN => (
            ErrorCode::EligibleLeadersNotAvailable,
            "No replica is there that has anything, or a majority is, which elects a leader.",
        ),
        ElectionOutcome::NotAllowed => (
            ErrorCode::EligibleLeadersNotAvailable,
            "The majority of the replicas is gone, and unclean.leader.election.enable is false.",
        ),
        ElectionOutcome::NotAvailable => (
            ErrorCode::PreferredLeaderNotAvailable,
            "The preferred replica is not there or does not follow closely.",
        ),
        ElectionOutcome::TimedOut => {
            (ErrorCode::RequestTimedOut, "The elected replica did not lead in time.")
        }
        ElectionOutcome::Unknown => {
            let message = format!("There is no partition {topic}-{index}.");
            return Some(Refusal::new(ErrorCode::UnknownTopicOrPartition, message));
        }
    };
    Some(Refusal::new(code, message))
}

fn row(index: i32, refusal: Option<Refusal>) -> PartitionResult {
    let code = refusal.as_ref().map_or(ErrorCode::None, |refusal| refusal.code);
    PartitionResult::default()
        .with_partition_id(index)
        .with_error_code(code.code())
        .with_error_message(refusal.map(|refusal| text(&refusal.message)))
}
