//! OffsetForLeaderEpoch: where a leader epoch ended, so that a consumer finds out whether what it
//! has read was truncated (KIP-320).

use std::sync::Arc;

use cluster::metadata::MetadataImage;
use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{
    ApiKey, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ResponseKind,
};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;
use protocol::types::{LeaderEpoch, Offset, PartitionId};

use super::common::leadership::{check_leader, epoch_from_wire};
use super::common::resolve;
use super::{Reply, ResponseBody};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 2: the client's leader epoch; throttle time (KIP-320)
/// - 3: the replica id, for who may ask whom (KIP-392)
/// - 4: flexible
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::OffsetForLeaderEpoch, 2..=4);

/// Answers for every partition that is asked for.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: OffsetForLeaderEpochRequest,
) -> Reply {
    let image = services.cluster.metadata();
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|asked| {
            let end = end_offset(services, &image, &topic.topic, asked);
            row(asked.partition, end)
        });
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic.clone())
            .with_partitions(partitions.collect())
    });
    let response = OffsetForLeaderEpochResponse::default().with_topics(topics.collect());
    Reply::Now(ResponseBody::Message(Box::new(ResponseKind::OffsetForLeaderEpoch(response))))
}

fn end_offset(
    services: &Services,
    image: &MetadataImage,
    topic: &str,
    asked: &OffsetForLeaderPartition,
) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
    let replica = resolve::replica_by_name(services, image, topic, PartitionId(asked.partition))?;
    check_leader(&replica, epoch_from_wire(asked.current_leader_epoch))?;
    Ok(replica.end_offset_for_epoch(LeaderEpoch(asked.leader_epoch)))
}

/// An epoch that nothing is known of is no error: its end is -1.
fn row(partition: i32, end: Result<Option<(LeaderEpoch, Offset)>, ErrorCode>) -> EpochEndOffset {
    let error = end.err().unwrap_or(ErrorCode::None);
    let (epoch, offset) = end.ok().flatten().unwrap_or((LeaderEpoch::UNKNOWN, Offset(-1)));
    EpochEndOffset::default()
        .with_partition(partition)
        .with_error_code(error.code())
        .with_leader_epoch(epoch.0)
        .with_end_offset(offset.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_epoch_is_no_error() {
        let known = row(1, Ok(Some((LeaderEpoch(2), Offset(40)))));
        assert_eq!((known.error_code, known.leader_epoch, known.end_offset), (0, 2, 40));
        let unknown = row(1, Ok(None));
        assert_eq!((unknown.error_code, unknown.leader_epoch, unknown.end_offset), (0, -1, -1));
        let failed = row(1, Err(ErrorCode::NotLeaderOrFollower));
        assert_eq!((failed.error_code, failed.leader_epoch, failed.end_offset), (6, -1, -1));
    }
}
