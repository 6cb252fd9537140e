//! Fetch: records from where a consumer stands, now or once there are enough.

use std::sync::Arc;

use cluster::metadata::MetadataImage;
use kafka_protocol::messages::fetch_response::{
    EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use kafka_protocol::messages::{ApiKey, BrokerId as WireBrokerId, FetchRequest, FetchResponse};
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;
use protocol::types::{Offset, TopicId};
use storage::log_store::{RecordSlice, Records};

use super::common::isolation::IsolationLevel;
use super::common::leadership::NamedLeaders;
use super::common::nodes::{Node, nodes};
use super::{FetchBody, Reply, ResponseBody};
use crate::context::{RequestContext, Services};
use crate::fetch::executor::{Execution, PartitionAnswer, Pass};
use crate::fetch::planner::{FetchParams, plan, session_request};
use crate::fetch::session::{Answered, FetchContext, Finished, PartitionKey, TopicKey};
use crate::ids;

/// Versions:
/// - 4: isolation level, last stable offset, aborted transactions (KIP-98)
/// - 5: log start offset (KIP-107)
/// - 6: KAFKA_STORAGE_ERROR may be answered (KIP-112)
/// - 7: incremental sessions (KIP-227)
/// - 8: throttled answers go out before the connection is muted (KIP-219)
/// - 9: the client's leader epoch (KIP-320)
/// - 10: topics may be compressed with zstd (KIP-110)
/// - 11: the client's rack, preferred read replica (KIP-392)
/// - 12: flexible; last fetched epoch and diverging epoch (KIP-595)
/// - 13: topic ids instead of names (KIP-516)
/// - 14: OFFSET_MOVED_TO_TIERED_STORAGE may be answered to followers (KIP-405)
/// - 15: `replica_state` instead of `replica_id` (KIP-903)
/// - 16: endpoints of new leaders (KIP-951)
/// - 17: the follower's directory (KIP-853)
/// - 18: the follower's high watermark (KIP-1166)
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &[
        "Fetches by followers (replica id 0 and above) are refused as from a replica that is not \
         assigned: replication goes over Raft.",
    ],
    stage: Stage::Complete,
    ..ApiSpec::new(ApiKey::Fetch, 4..=18)
};

/// Before it clients do not know KAFKA_STORAGE_ERROR.
const STORAGE_ERROR_SINCE: i16 = 6;
/// Before it clients cannot be given zstd.
const ZSTD_SINCE: i16 = 10;
/// The version that has replica id and epoch in `replica_state`.
const REPLICA_STATE_SINCE: i16 = 15;
/// Before it answers name no leaders.
const NODE_ENDPOINTS_SINCE: i16 = 16;

/// Answers a fetch.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: FetchRequest,
) -> Reply {
    let params = FetchParams::new(&request, context.api_version, services.config.fetch_max_bytes);
    let image = services.cluster.metadata();
    let name_of = |id: TopicId| image.topic_names.get(&id).map(|name| Arc::from(name.as_str()));
    let session_request = session_request(&request, context.api_version);
    let begun = services.fetch_sessions.lock().begin(context.now, session_request, &name_of);
    let (fetch_context, asked) = match begun {
        Ok(begun) => begun,
        Err(error) => return Reply::Now(session_error(error)),
    };
    let mut planned = plan(&image, asked);
    if let Some(error) = refused_follower(&request, context.api_version) {
        for partition in &mut planned {
            let believes = partition.asked.request.current_leader_epoch.is_some();
            partition.topic = partition.topic.clone().and(Err(error(believes)));
        }
    }
    let rack = services.config.selects_by_rack.then(|| request.rack_id.to_string());
    let mut execution = Execution::new(services.clone(), params, rack, planned);
    let answer = Answer { services: services.clone(), request: context.clone(), fetch_context };
    let pass = execution.pass();
    if execution.is_satisfied_by(&pass) {
        return Reply::Now(answer.body(&execution, pass, params.isolation_level));
    }
    drop(pass);
    Reply::Later(Box::pin(async move {
        let pass = execution.wait().await;
        answer.body(&execution, pass, params.isolation_level)
    }))
}

/// The error for a fetch of a follower, which depends on whether it says its leader's epoch
/// (Kafka: `Partition.followerReplicaOrThrow`): no broker follows through this API.
fn refused_follower(request: &FetchRequest, version: i16) -> Option<fn(bool) -> ErrorCode> {
    let replica = if version < REPLICA_STATE_SINCE {
        request.replica_id
    } else {
        request.replica_state.replica_id
    };
    (replica.0 >= 0).then_some(|believes_in_epoch| {
        if believes_in_epoch {
            ErrorCode::UnknownLeaderEpoch
        } else {
            ErrorCode::NotLeaderOrFollower
        }
    })
}

fn session_error(error: ErrorCode) -> ResponseBody {
    let response = FetchResponse::default().with_error_code(error.code());
    ResponseBody::Fetch(Box::new(FetchBody { response, records: Vec::new() }))
}

/// Everything that makes an answer out of a pass.
struct Answer {
    services: Arc<Services>,
    request: RequestContext,
    fetch_context: FetchContext,
}

impl Answer {
    fn body(
        &self,
        execution: &Execution,
        pass: Pass,
        isolation_level: IsolationLevel,
    ) -> ResponseBody {
        let image = self.services.cluster.metadata();
        let answers = self.for_version(&image, execution, pass.answers);
        let Finished { error, session_id, included } = self.finish(execution, &answers);
        let mut topics = TopicRows::default();
        let nodes = if answers.iter().any(|answer| answer.current_leader.is_some()) {
            nodes(&self.services, &self.request, &image)
        } else {
            Vec::new()
        };
        let mut leaders = NamedLeaders::among(&nodes);
        for (((asked, _), answer), included) in execution.asked().zip(answers).zip(included) {
            if !included {
                continue;
            }
            let mut row = partition_row(&answer, isolation_level);
            row.partition_index = asked.key.partition.0;
            if self.request.api_version >= NODE_ENDPOINTS_SINCE
                && let Some(leader) = &answer.current_leader
            {
                row.current_leader = LeaderIdAndEpoch::default()
                    .with_leader_id(WireBrokerId(leader.leader.0))
                    .with_leader_epoch(leader.leader_epoch.0);
                leaders.name(leader);
            }
            topics.push(&asked.key, row, answer.records);
        }
        let response = FetchResponse::default()
            .with_error_code(error.code())
            .with_session_id(session_id)
            .with_responses(topics.responses)
            .with_node_endpoints(leaders.endpoints(node_endpoint));
        ResponseBody::Fetch(Box::new(FetchBody { response, records: topics.records }))
    }

    /// What older clients cannot understand is said otherwise.
    fn for_version(
        &self,
        image: &MetadataImage,
        execution: &Execution,
        mut answers: Vec<PartitionAnswer>,
    ) -> Vec<PartitionAnswer> {
        let version = self.request.api_version;
        if version >= ZSTD_SINCE {
            return answers;
        }
        for ((_, topic), answer) in execution.asked().zip(&mut answers) {
            let is_zstd = topic.is_some_and(|topic| {
                let config = self.services.topic_config(image, topic);
                config.compression_type.as_deref() == Some("zstd")
            });
            if is_zstd && answer.error.is_none() {
                answer.error = ErrorCode::UnsupportedCompressionType;
                answer.offsets = None;
                answer.records = Records::default();
            }
            if version < STORAGE_ERROR_SINCE && answer.error == ErrorCode::KafkaStorageError {
                answer.error = ErrorCode::NotLeaderOrFollower;
            }
        }
        answers
    }

    fn finish(&self, execution: &Execution, answers: &[PartitionAnswer]) -> Finished {
        let answered: Vec<_> = execution
            .asked()
            .zip(answers)
            .map(|((asked, _), answer)| Answered {
                asked: asked.clone(),
                has_error: !answer.error.is_none(),
                has_records: answer.records.size_bytes > 0,
                diverges: answer.diverging.is_some(),
                high_watermark: answer.offsets.map_or(Offset(-1), |o| o.high_watermark),
                log_start_offset: answer.offsets.map_or(Offset(-1), |o| o.log_start_offset),
            })
            .collect();
        let candidate_id = match self.fetch_context {
            FetchContext::Full { .. } => ids::fetch_session_id(),
            FetchContext::Sessionless | FetchContext::Incremental { .. } => 0,
        };
        let now = self.request.now;
        let mut sessions = self.services.fetch_sessions.lock();
        sessions.finish(now, &self.fetch_context, &answered, candidate_id)
    }
}

fn node_endpoint(node: &Node) -> NodeEndpoint {
    NodeEndpoint::default()
        .with_node_id(node.wire_id())
        .with_host(node.wire_host())
        .with_port(i32::from(node.port))
        .with_rack(node.wire_rack())
}

/// The rows of a response, and their records beside them.
#[derive(Default)]
struct TopicRows {
    responses: Vec<FetchableTopicResponse>,
    records: Vec<Vec<Vec<RecordSlice>>>,
    last: Option<TopicKey>,
}

impl TopicRows {
    /// Neighbours of one topic share a row; the order of the partitions is kept.
    fn push(&mut self, key: &PartitionKey, row: PartitionData, records: Records) {
        if self.last.as_ref() != Some(&key.topic) {
            self.last = Some(key.topic.clone());
            let topic = FetchableTopicResponse::default();
            self.responses.push(match &key.topic {
                TopicKey::Name(name) => topic.with_topic(topic_name(name)),
                TopicKey::Id(id) => topic.with_topic_id(id.0),
            });
            self.records.push(Vec::new());
        }
        if let (Some(topic), Some(topic_records)) =
            (self.responses.last_mut(), self.records.last_mut())
        {
            topic.partitions.push(row);
            topic_records.push(records.slices);
        }
    }
}

fn topic_name(name: &str) -> kafka_protocol::messages::TopicName {
    kafka_protocol::messages::TopicName(name.to_owned().into())
}

/// A partition's answer but for its number, its leader and its records.
fn partition_row(answer: &PartitionAnswer, isolation_level: IsolationLevel) -> PartitionData {
    // What cannot even be looked up gets an empty list in Kafka, where others get none.
    let is_unknown = matches!(
        answer.error,
        ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
    );
    let mut row = PartitionData::default()
        .with_error_code(answer.error.code())
        .with_high_watermark(-1)
        .with_last_stable_offset(-1)
        .with_log_start_offset(-1)
        .with_preferred_read_replica(WireBrokerId(-1))
        .with_aborted_transactions(is_unknown.then(Vec::new))
        .with_records(None);
    if let Some(offsets) = &answer.offsets {
        row.high_watermark = offsets.high_watermark.0;
        row.last_stable_offset = offsets.last_stable_offset.0;
        row.log_start_offset = offsets.log_start_offset.0;
        if isolation_level == IsolationLevel::ReadCommitted {
            // No transaction was ever aborted here, and the client wants to be told so.
            row.aborted_transactions = Some(Vec::new());
        }
    }
    if let Some(preferred) = answer.preferred_replica {
        row.preferred_read_replica = WireBrokerId(preferred.0);
    }
    if let Some((epoch, end_offset)) = answer.diverging {
        row.diverging_epoch =
            EpochEndOffset::default().with_epoch(epoch.0).with_end_offset(end_offset.0);
    }
    row
}
