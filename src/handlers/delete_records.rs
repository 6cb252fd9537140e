//! DeleteRecords: raises the first offset of partitions, on all their replicas (KIP-107).

use std::sync::Arc;
use std::time::Duration;

use cluster::metadata::MetadataImage;
use cluster::replica::{Replica, ReplicaOffsets};
use futures::future::join_all;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{
    ApiKey, DeleteRecordsRequest, DeleteRecordsResponse, ResponseKind, TopicName,
};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;
use protocol::types::{Offset, PartitionId};

use super::common::deadline::replication_wait;
use super::common::leadership::check_leader;
use super::common::resolve;
use super::common::topic_errors::group_by_topic;
use super::{Reply, ResponseBody};
use crate::context::{RequestContext, Services};
use crate::error_map::ToErrorCode;

/// Versions:
/// - 0: (KIP-107)
/// - 1: throttled answers go out before the connection is muted (KIP-219)
/// - 2: flexible
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::DeleteRecords, 0..=2);

/// Stands for the high watermark: everything that is committed goes.
const HIGH_WATERMARK: i64 = -1;

/// Raises the log start of every partition that may be; answers when all replicas have, or the
/// request's time is up.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: DeleteRecordsRequest,
) -> Reply {
    let image = services.cluster.metadata();
    // A partition that is named twice counts as it was last.
    let mut asked = indexmap::IndexMap::<(TopicName, i32), i64>::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            asked.insert((topic.name.clone(), partition.partition_index), partition.offset);
        }
    }
    let timeout = replication_wait(request.timeout_ms);
    let deletions: Vec<_> = asked
        .into_iter()
        .map(|((topic, partition), offset)| {
            let checked = check(services, &image, &topic, PartitionId(partition), offset);
            async move { (topic, row(partition, delete(checked, timeout).await)) }
        })
        .collect();
    Reply::Later(Box::pin(async move {
        let topics = group_by_topic(join_all(deletions).await);
        let topics = topics.into_iter().map(|(name, partitions)| {
            DeleteRecordsTopicResult::default().with_name(name).with_partitions(partitions)
        });
        let response = DeleteRecordsResponse::default().with_topics(topics.collect());
        ResponseBody::Message(Box::new(ResponseKind::DeleteRecords(response)))
    }))
}

fn check(
    services: &Services,
    image: &MetadataImage,
    name: &str,
    partition: PartitionId,
    offset: i64,
) -> Result<(Arc<Replica>, Offset), ErrorCode> {
    let topic = resolve::topic_with_partition(image, name, partition)?;
    if topic.is_internal() {
        return Err(ErrorCode::InvalidTopicException);
    }
    let replica = resolve::local_replica(services, topic.id, partition)?;
    check_leader(&replica, None)?;
    if !services.topic_config(image, topic).cleanup_delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let new_start = new_log_start(offset, &replica.offsets())?;
    Ok((replica, new_start))
}

/// Where the log shall begin; what is not committed cannot go.
fn new_log_start(offset: i64, offsets: &ReplicaOffsets) -> Result<Offset, ErrorCode> {
    let offset = if offset == HIGH_WATERMARK { offsets.high_watermark } else { Offset(offset) };
    if offset < Offset::ZERO || offset > offsets.high_watermark {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    Ok(offset)
}

async fn delete(
    checked: Result<(Arc<Replica>, Offset), ErrorCode>,
    timeout: Duration,
) -> Result<Offset, ErrorCode> {
    let (replica, offset) = checked?;
    match tokio::time::timeout(timeout, replica.advance_log_start(offset)).await {
        Ok(low_watermark) => low_watermark.map_err(|error| error.error_code()),
        Err(_) => Err(ErrorCode::RequestTimedOut),
    }
}

fn row(
    partition_index: i32,
    low_watermark: Result<Offset, ErrorCode>,
) -> DeleteRecordsPartitionResult {
    let error = low_watermark.err().unwrap_or(ErrorCode::None);
    DeleteRecordsPartitionResult::default()
        .with_partition_index(partition_index)
        .with_low_watermark(low_watermark.unwrap_or(Offset(-1)).0)
        .with_error_code(error.code())
}

#[cfg(test)]
mod tests {
    use protocol::types::LeaderEpoch;

    use super::*;

    #[test]
    fn only_what_is_committed_can_be_deleted() {
        let offsets = ReplicaOffsets {
            log_start_offset: Offset(10),
            high_watermark: Offset(20),
            last_stable_offset: Offset(20),
            log_end_offset: Offset(25),
            leader_epoch: LeaderEpoch(1),
        };
        assert_eq!(new_log_start(-1, &offsets), Ok(Offset(20)));
        assert_eq!(new_log_start(15, &offsets), Ok(Offset(15)));
        assert_eq!(new_log_start(20, &offsets), Ok(Offset(20)));
        // Below the log start there is nothing to delete, which is no error.
        assert_eq!(new_log_start(5, &offsets), Ok(Offset(5)));
        assert_eq!(new_log_start(21, &offsets), Err(ErrorCode::OffsetOutOfRange));
        assert_eq!(new_log_start(-2, &offsets), Err(ErrorCode::OffsetOutOfRange));
    }
}
