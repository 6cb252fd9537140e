//! DescribeLogDirs: what lies on this broker's disk, partition by partition (KIP-113).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cluster::metadata::{MetadataImage, TopicImage};
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{ApiKey, DescribeLogDirsRequest, DescribeLogDirsResponse};
use protocol::api::{ApiSpec, Stage};
use protocol::types::PartitionId;

use super::Reply;
use super::common::wire::{reply, text, topic_name};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 1: throttling does not delay the answer (KIP-219)
/// - 2: flexible
/// - 3: an error of the whole answer
/// - 4: size and free space of the volume (KIP-827)
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &["There is one directory; a partition's size is that of its live batches."],
    stage: Stage::Complete,
    ..ApiSpec::new(ApiKey::DescribeLogDirs, 1..=4)
};

/// Answers for the one directory that there is.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: DescribeLogDirsRequest,
) -> Reply {
    let image = services.cluster.metadata();
    let topics = match &request.topics {
        None => image.topics.values().filter_map(|t| topic_row(services, t, None)).collect(),
        Some(asked) => asked.iter().filter_map(|one| asked_row(services, &image, one)).collect(),
    };
    let (total_bytes, usable_bytes) = volume(&services.config.log_dir);
    let log_dir = std::path::absolute(&services.config.log_dir)
        .unwrap_or_else(|_| services.config.log_dir.clone());
    let result = DescribeLogDirsResult::default()
        .with_log_dir(text(&log_dir.to_string_lossy()))
        .with_topics(topics)
        .with_total_bytes(total_bytes)
        .with_usable_bytes(usable_bytes);
    reply(DescribeLogDirsResponse::default().with_results(vec![result]))
}

fn asked_row(
    services: &Services,
    image: &MetadataImage,
    asked: &DescribableLogDirTopic,
) -> Option<DescribeLogDirsTopic> {
    topic_row(services, image.topic(&asked.topic)?, Some(&asked.partitions))
}

/// The partitions of a topic that are here; what is not here is left out.
fn topic_row(
    services: &Services,
    topic: &TopicImage,
    asked: Option<&[i32]>,
) -> Option<DescribeLogDirsTopic> {
    let asked: Option<BTreeSet<i32>> = asked.map(|indexes| indexes.iter().copied().collect());
    let is_asked = |id: PartitionId| asked.as_ref().is_none_or(|asked| asked.contains(&id.0));
    let here = topic.partitions.iter().filter(|partition| is_asked(partition.id));
    let rows: Vec<_> = here.filter_map(|p| partition_row(services, topic, p.id)).collect();
    let row = DescribeLogDirsTopic::default().with_name(topic_name(&topic.name));
    (!rows.is_empty()).then(|| row.with_partitions(rows))
}

fn partition_row(
    services: &Services,
    topic: &TopicImage,
    partition: PartitionId,
) -> Option<DescribeLogDirsPartition> {
    let replica = services.cluster.replica(topic.id, partition).ok()?;
    let offsets = replica.offsets();
    let lag = offsets.log_end_offset.0 - offsets.high_watermark.0;
    let row = DescribeLogDirsPartition::default()
        .with_partition_index(partition.0)
        .with_partition_size(i64::try_from(replica.size_bytes()).unwrap_or(i64::MAX))
        .with_offset_lag(lag.max(0));
    Some(row)
}

/// Size and free space of the volume; -1 where the system does not say.
fn volume(log_dir: &Path) -> (i64, i64) {
    let Ok(stat) = rustix::fs::statvfs(log_dir) else { return (-1, -1) };
    let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(stat.f_frsize)).unwrap_or(-1);
    (bytes(stat.f_blocks), bytes(stat.f_bavail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_has_a_size_and_no_more_free_space_than_that() {
        let directory = tempfile::tempdir().expect("a directory");
        let (total, usable) = volume(directory.path());
        assert!(total > 0 && (0..=total).contains(&usable), "{total} {usable}");
        assert_eq!(volume(&directory.path().join("missing")), (-1, -1));
    }
}
