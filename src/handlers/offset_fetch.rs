//! OffsetFetch: what is remembered for groups.

use std::sync::Arc;

use futures::future::join_all;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{ApiKey, GroupId, OffsetFetchRequest, OffsetFetchResponse};
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;
use protocol::types::{LeaderEpoch, Offset, PartitionId, TopicId};

use super::Reply;
use super::common::groups::{as_offset_fetch_error, ask, body, shared};
use super::common::wire::{text, topic_name};
use crate::context::{RequestContext, Services};
use crate::coordinator::group::event::{
    FetchedOffset, FetchedTopic, OffsetFetch, OffsetFetchReply, OffsetFetchTopic,
};

/// Versions:
/// - 1: offsets that the coordinator keeps
/// - 2: all that the group has, an error of the whole answer
/// - 3: throttle time
/// - 4: throttled answers go out before the connection is muted (KIP-219)
/// - 5: leader epochs (KIP-320)
/// - 6: flexible
/// - 7: offsets that a transaction is about to change are an error on demand (KIP-447)
/// - 8: many groups at once (KIP-709)
/// - 9: members with an epoch (KIP-848)
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &["Version 10 (topic ids instead of names, KIP-848) is not decoded."],
    stage: Stage::Complete,
    ..ApiSpec::new(ApiKey::OffsetFetch, 1..=9)
};

/// From this version on the answer as a whole can be an error.
const WHOLE_ERROR_SINCE: i16 = 2;
/// From this version on many groups are asked for at once.
const MANY_GROUPS_SINCE: i16 = 8;

/// Asks the coordinator for every group.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: OffsetFetchRequest,
) -> Reply {
    let version = context.api_version;
    let require_stable = request.require_stable;
    let wanted = if version >= MANY_GROUPS_SINCE {
        request.groups.into_iter().map(|group| wanted(group, require_stable)).collect()
    } else {
        vec![wanted_of_one(request)]
    };
    let answers: Vec<_> = wanted
        .into_iter()
        .map(|wanted| {
            let asked = wanted.topics.clone().unwrap_or_default();
            let group_id = GroupId(text(&wanted.group_id));
            let answer = ask!(services, &wanted.group_id.clone(), OffsetFetch(wanted));
            async move {
                let refused = |error| OffsetFetchReply {
                    error: as_offset_fetch_error(error),
                    topics: Vec::new(),
                };
                (group_id, asked, answer.await.unwrap_or_else(refused))
            }
        })
        .collect();
    Reply::Later(Box::pin(async move {
        let mut answers = join_all(answers).await;
        if version >= MANY_GROUPS_SINCE {
            let groups = answers.into_iter().map(|(group_id, _, answer)| group(group_id, answer));
            return body(OffsetFetchResponse::default().with_groups(groups.collect()));
        }
        let (_, asked, answer) = answers.pop().unwrap_or_else(|| {
            let refused = OffsetFetchReply { error: ErrorCode::InvalidRequest, topics: vec![] };
            (GroupId::default(), Vec::new(), refused)
        });
        body(response_of_one(asked, answer, version))
    }))
}

fn wanted(group: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetch {
    let topics = group.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| asked(&topic.name, &topic.partition_indexes));
        topics.collect()
    });
    OffsetFetch {
        group_id: shared(&group.group_id),
        member_id: group.member_id.map(|id| shared(&id)),
        member_epoch: group.member_epoch,
        topics,
        require_stable,
    }
}

fn wanted_of_one(request: OffsetFetchRequest) -> OffsetFetch {
    let topics = request.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| asked(&topic.name, &topic.partition_indexes));
        topics.collect()
    });
    OffsetFetch {
        group_id: shared(&request.group_id),
        member_id: None,
        member_epoch: -1,
        topics,
        require_stable: request.require_stable,
    }
}

fn asked(topic: &str, partition_indexes: &[i32]) -> OffsetFetchTopic {
    OffsetFetchTopic {
        topic: topic.to_owned(),
        topic_id: TopicId::default(),
        partitions: partition_indexes.iter().copied().map(PartitionId).collect(),
    }
}

fn group(group_id: GroupId, answer: OffsetFetchReply) -> OffsetFetchResponseGroup {
    let partition = |row: FetchedOffset| {
        OffsetFetchResponsePartitions::default()
            .with_partition_index(row.partition.0)
            .with_committed_offset(row.offset.0)
            .with_committed_leader_epoch(row.leader_epoch.0)
            .with_metadata(Some(text(&row.metadata)))
            .with_error_code(row.error.code())
    };
    let topics = answer.topics.into_iter().map(|topic| {
        OffsetFetchResponseTopics::default()
            .with_name(topic_name(&topic.topic))
            .with_partitions(topic.partitions.into_iter().map(partition).collect())
    });
    OffsetFetchResponseGroup::default()
        .with_group_id(group_id)
        .with_error_code(answer.error.code())
        .with_topics(topics.collect())
}

fn response_of_one(
    asked: Vec<OffsetFetchTopic>,
    answer: OffsetFetchReply,
    version: i16,
) -> OffsetFetchResponse {
    let OffsetFetchReply { mut error, mut topics } = answer;
    // Where the answer as a whole cannot be an error, each of its rows is.
    if version < WHOLE_ERROR_SINCE && !error.is_none() {
        topics = asked.into_iter().map(|topic| failed(topic, error)).collect();
        error = ErrorCode::None;
    }
    let partition = |row: FetchedOffset| {
        OffsetFetchResponsePartition::default()
            .with_partition_index(row.partition.0)
            .with_committed_offset(row.offset.0)
            .with_committed_leader_epoch(row.leader_epoch.0)
            .with_metadata(Some(text(&row.metadata)))
            .with_error_code(row.error.code())
    };
    let topics = topics.into_iter().map(|topic| {
        OffsetFetchResponseTopic::default()
            .with_name(topic_name(&topic.topic))
            .with_partitions(topic.partitions.into_iter().map(partition).collect())
    });
    OffsetFetchResponse::default().with_error_code(error.code()).with_topics(topics.collect())
}

fn failed(topic: OffsetFetchTopic, error: ErrorCode) -> FetchedTopic {
    let row = |partition| FetchedOffset {
        partition,
        offset: Offset(-1),
        leader_epoch: LeaderEpoch::UNKNOWN,
        metadata: String::new(),
        error,
    };
    let partitions = topic.partitions.into_iter().map(row).collect();
    FetchedTopic { topic: topic.topic, topic_id: topic.topic_id, partitions }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_one_says_the_groups_error_in_every_row() {
        let answer = OffsetFetchReply { error: ErrorCode::NotCoordinator, topics: Vec::new() };
        let response = response_of_one(vec![asked("t", &[0, 3])], answer.clone(), 1);
        assert_eq!(response.error_code, 0);
        let rows: Vec<_> = response.topics[0].partitions.iter().map(|p| p.error_code).collect();
        assert_eq!(rows, [16, 16]);
        let response = response_of_one(vec![asked("t", &[0, 3])], answer, 2);
        assert_eq!((response.error_code, response.topics.len()), (16, 0));
    }
}
