//! ListOffsets: the first, the last, the newest offset of partitions, or the first at a time.

use std::collections::HashSet;
use std::sync::Arc;

use cluster::replica::{Replica, ReplicaOffsets};
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{
    ApiKey, ListOffsetsRequest, ListOffsetsResponse, ResponseKind, TopicName,
};
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;
use protocol::types::{LeaderEpoch, Offset, PartitionId, Timestamp};
use storage::log_store::TimestampOffset;

use super::common::isolation::IsolationLevel;
use super::common::leadership::{check_leader, check_leader_epoch, epoch_from_wire};
use super::common::resolve;
use super::common::topic_errors::group_by_topic;
use super::{Reply, ResponseBody};
use crate::context::{RequestContext, Services};
use crate::error_map::ToErrorCode;

/// Versions:
/// - 1: one offset with its timestamp for each partition (KIP-79)
/// - 2: isolation level (KIP-98)
/// - 3: throttled answers go out before the connection is muted (KIP-219)
/// - 4: the client's leader epoch, and the offset's (KIP-320)
/// - 5: OFFSET_NOT_AVAILABLE may be answered (KIP-207); never here, where a new leader leads only
///   once it knows all that was committed before it
/// - 6: flexible
/// - 7: the offset of the largest timestamp, -3 (KIP-734)
/// - 8: the first offset on local disks, -4 (KIP-405)
/// - 9: the last offset in tiered storage, -5 (KIP-1005)
/// - 10: a timeout for lookups in tiered storage (KIP-1075)
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &[
        "There is no tiered storage: the earliest local offset (-4) is the earliest, the latest \
         tiered one (-5) is -1.",
        "Version 11 (the earliest offset that waits for upload, -6) is not decoded.",
    ],
    stage: Stage::Complete,
    ..ApiSpec::new(ApiKey::ListOffsets, 1..=10)
};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

/// The `replica_id` of a client, which may see what its isolation level lets it.
const CONSUMER_REPLICA_ID: i32 = -1;
/// The `replica_id` of tools that may ask any replica.
const DEBUGGING_REPLICA_ID: i32 = -2;
/// From it on offsets come with their leader epoch.
const LEADER_EPOCH_SINCE: i16 = 4;

/// Answers for every partition that is asked for.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: ListOffsetsRequest,
) -> Reply {
    let image = services.cluster.metadata();
    let duplicates = duplicates(&request);
    let version = context.api_version;
    let lookup = Lookup {
        replica_id: request.replica_id.0,
        isolation_level: IsolationLevel::from_wire(request.isolation_level),
    };
    let mut answered = HashSet::new();
    let mut rows = Vec::new();
    for topic in &request.topics {
        for asked in &topic.partitions {
            if !answered.insert((&topic.name, asked.partition_index)) {
                continue;
            }
            let found = if duplicates.contains(&(&topic.name, asked.partition_index)) {
                Err(ErrorCode::InvalidRequest)
            } else if is_unsupported(asked.timestamp, version) {
                Err(ErrorCode::UnsupportedVersion)
            } else {
                let partition = PartitionId(asked.partition_index);
                resolve::replica_by_name(services, &image, &topic.name, partition)
                    .and_then(|replica| lookup.find(&replica, asked))
            };
            rows.push((topic.name.clone(), row(asked.partition_index, found, version)));
        }
    }
    let topics = group_by_topic(rows).into_iter().map(|(name, partitions)| {
        ListOffsetsTopicResponse::default().with_name(name).with_partitions(partitions)
    });
    let response = ListOffsetsResponse::default().with_topics(topics.collect());
    Reply::Now(ResponseBody::Message(Box::new(ResponseKind::ListOffsets(response))))
}

/// Partitions that the request names more than once: they get INVALID_REQUEST.
fn duplicates(request: &ListOffsetsRequest) -> HashSet<(&TopicName, i32)> {
    let mut seen = HashSet::new();
    let mut duplicates = HashSet::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            let key = (&topic.name, partition.partition_index);
            if !seen.insert(key) {
                duplicates.insert(key);
            }
        }
    }
    duplicates
}

/// Negative timestamps are questions of their own, each from some version on.
fn is_unsupported(timestamp: i64, version: i16) -> bool {
    let since = match timestamp {
        0.. | LATEST | EARLIEST => 1,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        _ => return true,
    };
    version < since
}

/// An offset that was found, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    offset: Offset,
    timestamp: Timestamp,
    leader_epoch: Option<LeaderEpoch>,
}

impl Found {
    const NOTHING: Found =
        Found { offset: Offset(-1), timestamp: Timestamp::UNKNOWN, leader_epoch: None };

    fn at(offset: Offset, leader_epoch: Option<LeaderEpoch>) -> Found {
        Found { offset, timestamp: Timestamp::UNKNOWN, leader_epoch }
    }
}

impl From<TimestampOffset> for Found {
    fn from(found: TimestampOffset) -> Found {
        let leader_epoch = (found.leader_epoch.0 >= 0).then_some(found.leader_epoch);
        Found { offset: found.offset, timestamp: found.timestamp, leader_epoch }
    }
}

fn row(
    partition_index: i32,
    found: Result<Found, ErrorCode>,
    version: i16,
) -> ListOffsetsPartitionResponse {
    let error = found.err().unwrap_or(ErrorCode::None);
    let found = found.unwrap_or(Found::NOTHING);
    let leader_epoch = found.leader_epoch.filter(|_| version >= LEADER_EPOCH_SINCE);
    ListOffsetsPartitionResponse::default()
        .with_partition_index(partition_index)
        .with_error_code(error.code())
        .with_offset(found.offset.0)
        .with_timestamp(found.timestamp.0)
        .with_leader_epoch(leader_epoch.unwrap_or(LeaderEpoch::UNKNOWN).0)
}

/// What all partitions of a request have in common.
struct Lookup {
    replica_id: i32,
    isolation_level: IsolationLevel,
}

impl Lookup {
    fn find(&self, replica: &Replica, asked: &ListOffsetsPartition) -> Result<Found, ErrorCode> {
        let believed = epoch_from_wire(asked.current_leader_epoch);
        if self.replica_id == DEBUGGING_REPLICA_ID {
            check_leader_epoch(believed, replica.offsets().leader_epoch)?;
        } else {
            check_leader(replica, believed)?;
        }
        let offsets = replica.offsets();
        let upper_bound = if self.replica_id == CONSUMER_REPLICA_ID {
            self.isolation_level.upper_bound(&offsets)
        } else {
            offsets.log_end_offset
        };
        let found = match asked.timestamp {
            LATEST => return Ok(Found::at(upper_bound, Some(offsets.leader_epoch))),
            EARLIEST | EARLIEST_LOCAL => return Ok(earliest(replica, &offsets)),
            LATEST_TIERED => return Ok(Found::NOTHING),
            MAX_TIMESTAMP => replica.offset_of_max_timestamp(upper_bound),
            timestamp => replica.offset_for_timestamp(Timestamp(timestamp), upper_bound),
        };
        let found = found.map_err(|error| error.error_code())?;
        Ok(found.map_or(Found::NOTHING, Found::from))
    }
}

fn earliest(replica: &Replica, offsets: &ReplicaOffsets) -> Found {
    let start = offsets.log_start_offset;
    let leader_epoch = if start < offsets.log_end_offset {
        replica.epoch_for_offset(start)
    } else {
        // The first record to come will be of this epoch.
        Some(offsets.leader_epoch)
    };
    Found::at(start, leader_epoch)
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::list_offsets_request::ListOffsetsTopic;

    use super::*;

    #[test]
    fn special_timestamps_are_known_from_their_version_on() {
        for (timestamp, since) in [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (0, 1)] {
            assert!(!is_unsupported(timestamp, since), "{timestamp}");
            assert!(is_unsupported(timestamp, since - 1), "{timestamp}");
        }
        assert!(is_unsupported(-6, 10));
        assert!(is_unsupported(i64::MIN, 10));
    }

    #[test]
    fn a_partition_named_twice_is_a_duplicate_also_across_topic_rows() {
        let topic = |name: &'static str, indexes: &[i32]| {
            let partitions = indexes
                .iter()
                .map(|index| ListOffsetsPartition::default().with_partition_index(*index));
            ListOffsetsTopic::default()
                .with_name(TopicName(name.into()))
                .with_partitions(partitions.collect())
        };
        let topics = vec![topic("a", &[0, 1]), topic("b", &[0]), topic("a", &[1])];
        let request = ListOffsetsRequest::default().with_topics(topics);
        let duplicates = duplicates(&request);
        assert_eq!(duplicates.len(), 1);
        assert!(duplicates.contains(&(&TopicName("a".into()), 1)));
    }

    #[test]
    fn the_leader_epoch_is_told_from_version_4_on() {
        let found = Found::at(Offset(7), Some(LeaderEpoch(3)));
        assert_eq!(row(0, Ok(found), 3).leader_epoch, -1);
        assert_eq!(row(0, Ok(found), 4).leader_epoch, 3);
        let failed = row(0, Err(ErrorCode::FencedLeaderEpoch), 10);
        assert_eq!((failed.error_code, failed.offset, failed.timestamp), (74, -1, -1));
    }
}
