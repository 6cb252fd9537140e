//! ListConfigResources: what has configs, by type and name.

use std::sync::Arc;

use cluster::metadata::MetadataImage;
use kafka_protocol::messages::list_config_resources_response::ConfigResource;
use kafka_protocol::messages::{ApiKey, ListConfigResourcesRequest, ListConfigResourcesResponse};
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::config_resource::ResourceType;
use super::common::wire::{reply, text};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: client metrics alone (KIP-714, as ListClientMetricsResources)
/// - 1: every type of resource (KIP-1142)
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &["Client metrics have no configs, so there are none of them."],
    stage: Stage::Complete,
    ..ApiSpec::new(ApiKey::ListConfigResources, 0..=1)
};

/// From this version on the request says which types.
const TYPES_SINCE: i16 = 1;

/// Every type, in the order of Kafka's codes.
const ALL: [ResourceType; 5] = [
    ResourceType::Topic,
    ResourceType::Broker,
    ResourceType::BrokerLogger,
    ResourceType::ClientMetrics,
    ResourceType::Group,
];

/// Answers with the resources of the types that are asked for; of all where none is.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: ListConfigResourcesRequest,
) -> Reply {
    let asked = request.resource_types.iter().map(|code| ResourceType::from_code(*code));
    let wanted = match asked.collect::<Option<Vec<ResourceType>>>() {
        _ if context.api_version < TYPES_SINCE => vec![ResourceType::ClientMetrics],
        Some(types) if types.is_empty() => ALL.to_vec(),
        Some(types) => types,
        None => {
            let code = ErrorCode::UnsupportedVersion.code();
            return reply(ListConfigResourcesResponse::default().with_error_code(code));
        }
    };
    let image = services.cluster.metadata();
    let resources = ALL.into_iter().filter(|one| wanted.contains(one)).flat_map(|resource_type| {
        let row = move |name: String| {
            ConfigResource::default()
                .with_resource_name(text(&name))
                .with_resource_type(resource_type.code())
        };
        names(resource_type, &image).into_iter().map(row)
    });
    reply(ListConfigResourcesResponse::default().with_config_resources(resources.collect()))
}

fn names(resource_type: ResourceType, image: &MetadataImage) -> Vec<String> {
    match resource_type {
        ResourceType::Topic => image.topics.keys().cloned().collect(),
        ResourceType::Broker | ResourceType::BrokerLogger => {
            image.brokers.keys().map(ToString::to_string).collect()
        }
        ResourceType::ClientMetrics => Vec::new(),
        ResourceType::Group => image.group_configs.keys().cloned().collect(),
    }
}
