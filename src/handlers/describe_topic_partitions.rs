//! DescribeTopicPartitions: topics and their partitions, page by page (KIP-966).

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::metadata::{MetadataImage, topic_name as names};
use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{
    self, ApiKey, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::nodes::{Node, nodes};
use super::common::operations;
use super::common::partition_leader::partition_state;
use super::common::wire::{broker_ids, reply, topic_name};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::DescribeTopicPartitions, 0..=0);

/// Answers with one page.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: DescribeTopicPartitionsRequest,
) -> Reply {
    if !has_usable_cursor(&request) {
        return reply(refused(&request));
    }
    let image = services.cluster.metadata();
    let nodes = nodes(services, context, &image);
    let most = services.config.max_request_partitions.max(1);
    let limit = usize::try_from(request.response_partition_limit).unwrap_or_default();
    let (pages, next) = plan(&image, &request, limit.clamp(1, most));
    let topics = pages.iter().map(|page| topic_row(services, &image, &nodes, page));
    let next_cursor = next.map(|(topic, partition)| {
        Cursor::default().with_topic_name(topic_name(&topic)).with_partition_index(partition)
    });
    let topics = topics.collect();
    reply(
        DescribeTopicPartitionsResponse::default()
            .with_topics(topics)
            .with_next_cursor(next_cursor),
    )
}

/// The page begins at a topic that is asked for, and not before its first partition.
fn has_usable_cursor(request: &DescribeTopicPartitionsRequest) -> bool {
    request.cursor.as_ref().is_none_or(|cursor| {
        let mut topics = request.topics.iter();
        let is_asked = request.topics.is_empty() || topics.any(|t| t.name == cursor.topic_name);
        is_asked && cursor.partition_index >= 0
    })
}

/// The answer has no place for an error of its own: every topic gets it.
fn refused(request: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let topics = request.topics.iter().map(|topic| {
        DescribeTopicPartitionsResponseTopic::default()
            .with_error_code(ErrorCode::InvalidRequest.code())
            .with_name(Some(topic.name.clone()))
            .with_topic_authorized_operations(operations::on_topic(false))
    });
    DescribeTopicPartitionsResponse::default().with_topics(topics.collect()).with_next_cursor(None)
}

/// The partitions of one topic that are on the page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Page {
    topic: String,
    partitions: std::ops::Range<usize>,
}

/// Which partitions are on the page, and where the next one begins. Topics come by name; no topic
/// named is all of them. One that does not exist takes no room.
fn plan(
    image: &MetadataImage,
    request: &DescribeTopicPartitionsRequest,
    limit: usize,
) -> (Vec<Page>, Option<(String, i32)>) {
    let names: BTreeSet<String> = if request.topics.is_empty() {
        image.topics.keys().cloned().collect()
    } else {
        request.topics.iter().map(|topic| topic.name.to_string()).collect()
    };
    let (from_topic, from_partition) = match &request.cursor {
        Some(cursor) => {
            let partition = usize::try_from(cursor.partition_index).unwrap_or_default();
            (cursor.topic_name.to_string(), partition)
        }
        None => (String::new(), 0),
    };
    let mut pages = Vec::new();
    let mut room = limit;
    for topic in names.range(from_topic.clone()..) {
        let count = image.topic(topic).map_or(0, |image| image.partitions.len());
        let start = if *topic == from_topic { from_partition.min(count) } else { 0 };
        if room == 0 {
            return (pages, Some((topic.clone(), 0)));
        }
        let end = count.min(start + room);
        room -= end - start;
        pages.push(Page { topic: topic.clone(), partitions: start..end });
        if end < count {
            return (pages, Some((topic.clone(), i32::try_from(end).unwrap_or(i32::MAX))));
        }
    }
    (pages, None)
}

fn topic_row(
    services: &Services,
    image: &MetadataImage,
    nodes: &[Node],
    page: &Page,
) -> DescribeTopicPartitionsResponseTopic {
    let row = DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(topic_name(&page.topic)))
        .with_topic_authorized_operations(operations::on_topic(true));
    let Some(topic) = image.topic(&page.topic) else {
        let error = match names::validate(&page.topic) {
            Ok(()) => ErrorCode::UnknownTopicOrPartition,
            Err(_) => ErrorCode::InvalidTopicException,
        };
        return row.with_error_code(error.code());
    };
    let partitions = topic.partitions.get(page.partitions.clone()).unwrap_or_default();
    let partitions = partitions.iter().map(|partition| {
        let state = partition_state(services, topic, partition, nodes);
        DescribeTopicPartitionsResponsePartition::default()
            .with_error_code(state.error.code())
            .with_partition_index(partition.id.0)
            .with_leader_id(messages::BrokerId(state.leader.0))
            .with_leader_epoch(state.leader_epoch.0)
            .with_replica_nodes(broker_ids(&partition.replicas))
            .with_isr_nodes(broker_ids(&state.in_sync_replicas))
            .with_eligible_leader_replicas(Some(Vec::new()))
            .with_last_known_elr(Some(Vec::new()))
            .with_offline_replicas(broker_ids(&state.offline_replicas))
    });
    row.with_topic_id(topic.id.0)
        .with_is_internal(topic.is_internal())
        .with_partitions(partitions.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::metadata::{BrokerImage, MetadataCommand, apply};
    use kafka_protocol::messages::describe_topic_partitions_request::{
        Cursor as From, TopicRequest,
    };
    use protocol::types::{BrokerId, TopicId};

    fn image(topics: &[(&str, usize)]) -> MetadataImage {
        let broker = BrokerImage {
            id: BrokerId(1),
            rack: None,
            endpoints: Vec::new(),
            peer_address: None,
            directory_id: None,
        };
        let register = MetadataCommand::RegisterBroker { broker };
        let creates = topics.iter().enumerate().map(|(index, (name, partitions))| {
            MetadataCommand::CreateTopic {
                name: (*name).to_owned(),
                id: TopicId(uuid::Uuid::from_u128(index as u128 + 1)),
                assignment: vec![vec![BrokerId(1)]; *partitions],
                configs: Default::default(),
            }
        });
        std::iter::once(register)
            .chain(creates)
            .fold(MetadataImage::default(), |image, command| apply(&image, &command).0)
    }

    fn request(topics: &[&str], cursor: Option<(&str, i32)>) -> DescribeTopicPartitionsRequest {
        let named = topics.iter().map(|name| TopicRequest::default().with_name(topic_name(name)));
        let cursor = cursor.map(|(topic, partition)| {
            From::default().with_topic_name(topic_name(topic)).with_partition_index(partition)
        });
        DescribeTopicPartitionsRequest::default().with_topics(named.collect()).with_cursor(cursor)
    }

    fn all_pages(image: &MetadataImage, topics: &[&str], limit: usize) -> Vec<(String, usize)> {
        let mut seen = Vec::new();
        let mut cursor: Option<(String, i32)> = None;
        loop {
            let from = cursor.as_ref().map(|(topic, partition)| (topic.as_str(), *partition));
            let (pages, next) = plan(image, &request(topics, from), limit);
            let count: usize = pages.iter().map(|page| page.partitions.len()).sum();
            assert!(count <= limit);
            for page in pages {
                seen.extend(page.partitions.map(|partition| (page.topic.clone(), partition)));
            }
            assert!(next.is_none() || next != cursor, "no progress at {next:?}");
            match next {
                None => return seen,
                next => cursor = next,
            }
        }
    }

    #[test]
    fn every_partition_is_on_one_page_whatever_the_limit() {
        let image = image(&[("c", 5), ("a", 3), ("b", 1)]);
        let all: Vec<_> = [("a", 3), ("b", 1), ("c", 5)]
            .iter()
            .flat_map(|(name, count)| (0..*count).map(|index| ((*name).to_owned(), index)))
            .collect();
        for limit in 1..12 {
            assert_eq!(all_pages(&image, &[], limit), all, "limit {limit}");
            assert_eq!(all_pages(&image, &["c", "a"], limit).len(), 8, "limit {limit}");
        }
    }

    #[test]
    fn a_topic_that_does_not_exist_has_a_row() {
        let (pages, next) = plan(&image(&[("a", 1)]), &request(&["a", "b"], None), 10);
        let topics: Vec<_> = pages.iter().map(|page| page.topic.as_str()).collect();
        assert_eq!((topics, next), (vec!["a", "b"], None));
    }

    #[test]
    fn a_cursor_whose_topic_is_gone_goes_on_behind_it() {
        let image = image(&[("a", 2), ("c", 2)]);
        let (pages, _) = plan(&image, &request(&[], Some(("b", 1))), 10);
        assert_eq!(pages, [Page { topic: "c".into(), partitions: 0..2 }]);
    }

    #[test]
    fn a_cursor_points_into_what_is_asked_for() {
        assert!(has_usable_cursor(&request(&["a", "b"], None)));
        assert!(has_usable_cursor(&request(&["a", "b"], Some(("b", 7)))));
        assert!(has_usable_cursor(&request(&[], Some(("z", 0)))));
        let bad = request(&["a", "b"], Some(("z", 0)));
        assert!(!has_usable_cursor(&bad) && !has_usable_cursor(&request(&[], Some(("a", -1)))));
        let rows = refused(&bad).topics;
        let codes: Vec<i16> = rows.iter().map(|row| row.error_code).collect();
        assert_eq!(codes, [ErrorCode::InvalidRequest.code(); 2]);
    }
}
