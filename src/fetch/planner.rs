//! What a fetch reads and when it is answered: the request against the metadata image and the
//! partitions' offsets (Kafka: `KafkaApis.handleFetchRequest`, `ReplicaManager.readFromLog`,
//! `Partition.readRecords`).
//!
//! Pure: no I/O, no clock, no randomness.

use std::sync::Arc;

use cluster::metadata::{MetadataImage, TopicImage};
use cluster::replica::ReplicaOffsets;
use indexmap::IndexMap;
use kafka_protocol::messages::FetchRequest;
use protocol::error_code::ErrorCode;
use protocol::types::{BrokerId, LeaderEpoch, Offset, PartitionId, TopicId};
use storage::log_store::ReadLimit;

use super::session::{Asked, PartitionKey, PartitionRequest, SessionRequest, TopicKey};
use crate::handlers::common::isolation::IsolationLevel;
use crate::handlers::common::leadership::{check_leader_epoch, epoch_from_wire};

#[cfg(test)]
mod tests;

/// From this version on topics are named by id.
pub const TOPIC_IDS_SINCE: i16 = 13;

/// What holds for the whole request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchParams {
    /// For so long the answer may wait for `min_bytes`.
    pub max_wait_ms: u64,
    /// With so many bytes it need not wait.
    pub min_bytes: usize,
    /// Of records in the whole response.
    pub max_bytes: usize,
    /// Up to where the client may see.
    pub isolation_level: IsolationLevel,
    /// A client that cannot be sent to a follower is not served by one either (KIP-392).
    pub leader_only: bool,
}

/// The version in which clients say their rack, and may be sent to a follower.
pub const RACKS_SINCE: i16 = 11;

impl FetchParams {
    /// The request's limits within the broker's `fetch.max.bytes`.
    #[must_use]
    pub fn new(request: &FetchRequest, version: i16, server_max_bytes: usize) -> Self {
        let max_bytes = from_wire(request.max_bytes).min(server_max_bytes);
        Self {
            max_wait_ms: u64::try_from(request.max_wait_ms).unwrap_or(0),
            min_bytes: from_wire(request.min_bytes).min(max_bytes),
            max_bytes,
            isolation_level: IsolationLevel::from_wire(request.isolation_level),
            leader_only: version < RACKS_SINCE,
        }
    }

    /// Whether the answer goes out now: nothing is asked, the client does not wait, there is
    /// enough, or there is something that it must know at once.
    #[must_use]
    pub fn is_satisfied_by(&self, progress: Progress) -> bool {
        self.max_wait_ms == 0
            || progress.partition_count == 0
            || progress.must_tell
            || progress.bytes >= self.min_bytes
    }
}

/// What one pass over the partitions yielded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Partitions that are fetched.
    pub partition_count: usize,
    /// Bytes of records.
    pub bytes: usize,
    /// A partition has an error, its log diverges from the client's, or another replica is to be
    /// read from.
    pub must_tell: bool,
}

fn from_wire(bytes: i32) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}

/// The part of the request that sessions are about. Names are copied out of the frame, so that a
/// session does not keep it alive.
#[must_use]
pub fn session_request(request: &FetchRequest, version: i16) -> SessionRequest {
    let uses_topic_ids = version >= TOPIC_IDS_SINCE;
    let topic_key = |name: &str, id: uuid::Uuid| {
        if uses_topic_ids { TopicKey::Id(TopicId(id)) } else { TopicKey::Name(Arc::from(name)) }
    };
    let count = request.topics.iter().map(|topic| topic.partitions.len()).sum();
    let mut partitions = IndexMap::with_capacity(count);
    for topic in &request.topics {
        let key = topic_key(&topic.topic, topic.topic_id);
        for asked in &topic.partitions {
            let key = PartitionKey { topic: key.clone(), partition: PartitionId(asked.partition) };
            let request = PartitionRequest {
                fetch_offset: Offset(asked.fetch_offset),
                max_bytes: from_wire(asked.partition_max_bytes),
                current_leader_epoch: epoch_from_wire(asked.current_leader_epoch),
                last_fetched_epoch: epoch_from_wire(asked.last_fetched_epoch),
            };
            partitions.insert(key, request);
        }
    }
    let mut forgotten = Vec::new();
    for topic in &request.forgotten_topics_data {
        let key = topic_key(&topic.topic, topic.topic_id);
        let keys = topic.partitions.iter().map(|partition| PartitionKey {
            topic: key.clone(),
            partition: PartitionId(*partition),
        });
        forgotten.extend(keys);
    }
    let (session_id, epoch) = (request.session_id, request.session_epoch);
    SessionRequest { session_id, epoch, uses_topic_ids, partitions, forgotten }
}

/// One partition of a fetch, and the topic that it stands for.
#[derive(Debug, Clone)]
pub struct PlannedPartition {
    /// As the client asks.
    pub asked: Asked,
    /// Its topic, or why it cannot be read.
    pub topic: Result<Arc<TopicImage>, ErrorCode>,
}

/// Finds the topics of what is asked.
#[must_use]
pub fn plan(image: &MetadataImage, asked: Vec<Asked>) -> Vec<PlannedPartition> {
    let planned = |asked: Asked| PlannedPartition { topic: find_topic(image, &asked), asked };
    asked.into_iter().map(planned).collect()
}

fn find_topic(image: &MetadataImage, asked: &Asked) -> Result<Arc<TopicImage>, ErrorCode> {
    let topic = match &asked.key.topic {
        TopicKey::Name(name) => image.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)?,
        TopicKey::Id(id) => image.topic_by_id(*id).ok_or_else(|| unknown_id(image, asked))?,
    };
    topic.partition(asked.key.partition).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok(topic.clone())
}

/// A session may still hold the id of a topic that was deleted, or made anew under its name.
fn unknown_id(image: &MetadataImage, asked: &Asked) -> ErrorCode {
    match &asked.known_name {
        None => ErrorCode::UnknownTopicId,
        Some(name) if image.topic(name).is_some() => ErrorCode::InconsistentTopicId,
        Some(_) => ErrorCode::UnknownTopicOrPartition,
    }
}

/// A partition as its replica shows it, all at one moment.
#[derive(Clone)]
pub struct PartitionView<'a> {
    /// Whether this broker leads it.
    pub is_leader: bool,
    /// Whether it follows another that does.
    pub is_follower: bool,
    /// Where its log begins and ends, and in which leader's epoch.
    pub offsets: ReplicaOffsets,
    /// The largest epoch that is not above the given one, and where it ends.
    pub end_offset_for_epoch: &'a dyn Fn(LeaderEpoch) -> Option<(LeaderEpoch, Offset)>,
    /// The follower that a leader sends this client to.
    pub preferred_replica: &'a dyn Fn() -> Option<BrokerId>,
}

/// What is done with a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Answered with an error.
    Fail(ErrorCode),
    /// The client has records that this log does not have: it must truncate to here (KIP-595).
    Diverge {
        /// The last epoch that both have.
        epoch: LeaderEpoch,
        /// Its end.
        end_offset: Offset,
    },
    /// Nothing is read here: the client is to ask this follower.
    ReadFrom(BrokerId),
    /// Nothing to see yet.
    Empty,
    /// Read up to here.
    Read {
        /// High watermark or last stable offset.
        upper_bound: Offset,
    },
}

/// Decides about one partition.
#[must_use]
pub fn decide(
    request: &PartitionRequest,
    view: &PartitionView<'_>,
    params: &FetchParams,
) -> Decision {
    if let Err(error) = check_leader_epoch(request.current_leader_epoch, view.offsets.leader_epoch)
    {
        return Decision::Fail(error);
    }
    if !view.is_leader && (params.leader_only || !view.is_follower) {
        return Decision::Fail(ErrorCode::NotLeaderOrFollower);
    }
    if let Some(follower) = (view.preferred_replica)() {
        return Decision::ReadFrom(follower);
    }
    let offsets = &view.offsets;
    if request.fetch_offset < offsets.log_start_offset {
        return Decision::Fail(ErrorCode::OffsetOutOfRange);
    }
    if let Some(fetched_epoch) = request.last_fetched_epoch {
        match (view.end_offset_for_epoch)(fetched_epoch) {
            None => return Decision::Fail(ErrorCode::OffsetOutOfRange),
            Some((epoch, end_offset))
                if epoch < fetched_epoch || end_offset < request.fetch_offset =>
            {
                return Decision::Diverge { epoch, end_offset };
            }
            Some(_) => {}
        }
    }
    if request.fetch_offset > offsets.log_end_offset {
        return Decision::Fail(ErrorCode::OffsetOutOfRange);
    }
    let upper_bound = params.isolation_level.upper_bound(offsets);
    // Between here and the log end lies what is not yet committed: no error, but nothing either.
    if request.fetch_offset >= upper_bound {
        return Decision::Empty;
    }
    Decision::Read { upper_bound }
}

/// The bytes that a response may still take (KIP-74).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    left_bytes: usize,
    /// Nothing was read yet: the next batch goes out however large it is, so that a client always
    /// makes progress.
    first: bool,
}

impl Budget {
    /// A whole response.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { left_bytes: max_bytes, first: true }
    }

    /// How much may be read of the next partition; `None` = nothing any more.
    #[must_use]
    pub fn limit(&self, partition_max_bytes: usize, upper_bound: Offset) -> Option<ReadLimit> {
        let max_bytes = self.left_bytes.min(partition_max_bytes);
        if max_bytes == 0 && !self.first {
            return None;
        }
        Some(ReadLimit { upper_bound, max_bytes, min_one_batch: self.first })
    }

    /// Takes off what was read.
    pub fn spend(&mut self, bytes: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
        self.first &= bytes == 0;
    }
}
