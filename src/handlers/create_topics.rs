//! CreateTopics: makes topics; the answer goes out when they can be produced to.

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster::metadata::image::METADATA_TOPIC;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{
    CreatableTopicConfigs, CreatableTopicResult,
};
use kafka_protocol::messages::{ApiKey, CreateTopicsRequest, CreateTopicsResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;
use protocol::types::BrokerId;

use super::Reply;
use super::common::topic_creation::{MadeTopic, WantedTopic, create};
use super::common::wire::{Refusal, code_of, message_of, reply, text};
use crate::config::describe::topic_entries;
use crate::context::{RequestContext, Services};

/// Versions:
/// - 2: throttle time
/// - 3: throttling does not delay the answer (KIP-219)
/// - 4: -1 for the broker's number of partitions and replicas (KIP-464)
/// - 5: flexible; the answer has partitions, replicas and configs (KIP-525)
/// - 6: may be refused by a quota on changes (KIP-599)
/// - 7: the answer has the topic's id (KIP-516)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::CreateTopics, 2..=7);

/// First version whose answer has the configs.
const CONFIGS_VERSION: i16 = 5;

/// Makes all topics at once, each by itself: one that is refused does not keep the others.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: CreateTopicsRequest,
) -> Reply {
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<_> =
        request.topics.iter().map(|topic| &topic.name).filter(|name| !seen.insert(*name)).collect();
    let mut answered = BTreeSet::new();
    let topics = request.topics.iter().filter(|topic| answered.insert(&topic.name)).map(|topic| {
        let is_twice = twice.contains(&topic.name);
        async move {
            let result = if is_twice {
                Err(Refusal::new(ErrorCode::InvalidRequest, "Duplicate topic name."))
            } else if topic.name.as_str() == METADATA_TOPIC {
                let message = format!("Nobody may create {METADATA_TOPIC}.");
                Err(Refusal::new(ErrorCode::InvalidRequest, message))
            } else {
                create(services, &wanted(topic), request.validate_only).await
            };
            row(services, topic, &result, context.api_version)
        }
    });
    let topics = futures::future::join_all(topics).await;
    reply(CreateTopicsResponse::default().with_topics(topics))
}

fn wanted(topic: &CreatableTopic) -> WantedTopic {
    let replicas = |ids: &[kafka_protocol::messages::BrokerId]| {
        ids.iter().map(|id| BrokerId(id.0)).collect::<Vec<_>>()
    };
    let assignments = topic.assignments.iter();
    let configs = topic.configs.iter();
    WantedTopic {
        name: topic.name.to_string(),
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments.map(|a| (a.partition_index, replicas(&a.broker_ids))).collect(),
        configs: configs
            .map(|c| (c.name.to_string(), c.value.as_ref().map(ToString::to_string)))
            .collect(),
    }
}

fn row(
    services: &Services,
    topic: &CreatableTopic,
    result: &Result<MadeTopic, Refusal>,
    api_version: i16,
) -> CreatableTopicResult {
    let row = CreatableTopicResult::default()
        .with_name(topic.name.clone())
        .with_error_code(code_of(result))
        .with_error_message(message_of(result));
    match result {
        Ok(made) if api_version >= CONFIGS_VERSION => row
            .with_topic_id(made.id.0)
            .with_num_partitions(made.num_partitions)
            .with_replication_factor(made.replication_factor)
            .with_configs(Some(configs(services, made))),
        _ => row,
    }
}

fn configs(services: &Services, made: &MadeTopic) -> Vec<CreatableTopicConfigs> {
    let entries = topic_entries(&made.configs, &services.cluster.metadata(), &services.config);
    let row = |entry: &crate::config::describe::Entry| {
        CreatableTopicConfigs::default()
            .with_name(text(entry.definition.name))
            .with_value(entry.value.as_deref().map(text))
            .with_config_source(entry.source.code())
            .with_is_sensitive(entry.definition.is_sensitive())
    };
    entries.iter().map(row).collect()
}
