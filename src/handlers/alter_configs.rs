//! AlterConfigs: replaces all configs of a resource. What a request does not name goes back to its
//! default; who wants to change a single key uses IncrementalAlterConfigs.

use std::sync::Arc;

use kafka_protocol::messages::alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse, ApiKey};
use protocol::api::{ApiSpec, Stage};

use super::Reply;
use super::common::config_resource::{ALTERATION_GAPS, Alteration, Edit, alter_all};
use super::common::wire::{code_of, message_of, reply};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
/// - 1: throttling does not delay the answer (KIP-219)
/// - 2: flexible
pub const SPEC: ApiSpec = ApiSpec {
    gaps: ALTERATION_GAPS,
    stage: Stage::Partial,
    ..ApiSpec::new(ApiKey::AlterConfigs, 0..=2)
};

/// Replaces the configs of each resource, each by itself.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: AlterConfigsRequest,
) -> Reply {
    let alterations: Vec<_> = request.resources.iter().map(alteration).collect();
    let results = alter_all(services, &alterations, request.validate_only).await;
    let responses = request.resources.iter().zip(&results).map(|(resource, result)| {
        AlterConfigsResourceResponse::default()
            .with_error_code(code_of(result))
            .with_error_message(message_of(result))
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone())
    });
    reply(AlterConfigsResponse::default().with_responses(responses.collect()))
}

fn alteration(resource: &AlterConfigsResource) -> Alteration {
    let configs = resource.configs.iter();
    let pair = configs.map(|c| (c.name.to_string(), c.value.as_ref().map(ToString::to_string)));
    Alteration {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.to_string(),
        edit: Edit::Replace(pair.collect()),
    }
}
