//! DescribeConfigs: the configs of topics, brokers and groups, with where each value comes from.

use std::sync::Arc;

use cluster::metadata::{MetadataImage, topic_name as names};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{ApiKey, DescribeConfigsRequest, DescribeConfigsResponse};
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::config_resource::{ResourceType, broker_named};
use super::common::wire::{Refusal, code_of, message_of, reply, text};
use crate::config::describe::{
    Entry, broker_entries, cluster_entries, group_entries, topic_entries,
};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 1: sources and synonyms (KIP-226)
/// - 2: throttling does not delay the answer (KIP-219)
/// - 3: types and documentation (KIP-569)
/// - 4: flexible
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &[
        "Client metrics have no configs; their list is empty.",
        "Of a broker's loggers there is the root one, and its level cannot be changed.",
    ],
    stage: Stage::Partial,
    ..ApiSpec::new(ApiKey::DescribeConfigs, 1..=4)
};

/// Kafka's code for the level of a logger as a source, and for a string as a type.
const LOGGER_SOURCE: i8 = 6;
const STRING_TYPE: i8 = 2;

/// Answers for each resource by itself.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: DescribeConfigsRequest,
) -> Reply {
    let image = services.cluster.metadata();
    let results = request.resources.iter().map(|resource| {
        let configs = describe(services, &image, resource, &request);
        DescribeConfigsResult::default()
            .with_error_code(code_of(&configs))
            // Kafka's answer has no null for "no error" here.
            .with_error_message(Some(message_of(&configs).unwrap_or_default()))
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone())
            .with_configs(configs.unwrap_or_default())
    });
    reply(DescribeConfigsResponse::default().with_results(results.collect()))
}

fn describe(
    services: &Services,
    image: &MetadataImage,
    resource: &DescribeConfigsResource,
    request: &DescribeConfigsRequest,
) -> Result<Vec<DescribeConfigsResourceResult>, Refusal> {
    let name = resource.resource_name.as_str();
    let entries = match ResourceType::from_code(resource.resource_type) {
        Some(ResourceType::Topic) => of_topic(services, image, name)?,
        Some(ResourceType::Broker) if name.is_empty() => cluster_entries(image),
        Some(ResourceType::Broker) => {
            this_broker(services, name)?;
            broker_entries(image, &services.config)
        }
        Some(ResourceType::BrokerLogger) => {
            this_broker(services, name)?;
            return Ok(vec![root_logger()]);
        }
        Some(ResourceType::ClientMetrics | ResourceType::Group) if name.is_empty() => {
            let message = "Groups and client metrics are described by their names.";
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
        Some(ResourceType::Group) => {
            let own = image.group_configs.get(name).cloned().unwrap_or_default();
            group_entries(&own, image, &services.config)
        }
        Some(ResourceType::ClientMetrics) => Vec::new(),
        None => return Err(ResourceType::unknown(resource.resource_type)),
    };
    // Kafka reads an empty list of keys as it reads none: all of them.
    let keys = resource.configuration_keys.as_ref().filter(|keys| !keys.is_empty());
    let wanted = |entry: &&Entry| {
        keys.is_none_or(|keys| keys.iter().any(|key| key.as_str() == entry.definition.name))
    };
    Ok(entries.iter().filter(wanted).map(|entry| row(entry, request)).collect())
}

fn of_topic(services: &Services, image: &MetadataImage, name: &str) -> Result<Vec<Entry>, Refusal> {
    names::validate(name)
        .map_err(|reason| Refusal::new(ErrorCode::InvalidTopicException, reason))?;
    let topic = image.topic(name).ok_or_else(|| {
        let message = "This server does not host this topic.";
        Refusal::new(ErrorCode::UnknownTopicOrPartition, message)
    })?;
    Ok(topic_entries(&topic.configs, image, &services.config))
}

/// What a broker runs with only it can say.
fn this_broker(services: &Services, name: &str) -> Result<(), Refusal> {
    let me = services.config.node_id;
    let named = broker_named(name)?;
    if named == me {
        return Ok(());
    }
    let message = format!("This is broker {me}, not broker {named}.");
    Err(Refusal::new(ErrorCode::InvalidRequest, message))
}

fn row(entry: &Entry, request: &DescribeConfigsRequest) -> DescribeConfigsResourceResult {
    let definition = entry.definition;
    let mut row = DescribeConfigsResourceResult::default()
        .with_name(text(definition.name))
        .with_value(entry.value.as_deref().map(text))
        .with_read_only(entry.read_only)
        .with_config_source(entry.source.code())
        .with_is_sensitive(definition.is_sensitive())
        .with_documentation(None)
        .with_config_type(definition.kind.code());
    if request.include_synonyms {
        let synonyms = entry.synonyms.iter().map(|synonym| {
            DescribeConfigsSynonym::default()
                .with_name(text(synonym.name))
                .with_value(synonym.value.as_deref().map(text))
                .with_source(synonym.source.code())
        });
        row.synonyms = synonyms.collect();
    }
    if request.include_documentation {
        row.documentation = Some(text(definition.doc));
    }
    row
}

fn root_logger() -> DescribeConfigsResourceResult {
    let level = tracing::level_filters::LevelFilter::current().to_string().to_ascii_uppercase();
    DescribeConfigsResourceResult::default()
        .with_name(text("root"))
        .with_value(Some(text(&level)))
        .with_read_only(true)
        .with_config_source(LOGGER_SOURCE)
        .with_config_type(STRING_TYPE)
}
