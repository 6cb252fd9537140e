//! IncrementalAlterConfigs: sets, unsets and edits single configs (KIP-339).

use std::sync::Arc;

use kafka_protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{
    ApiKey, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};
use protocol::api::{ApiSpec, Stage};

use super::Reply;
use super::common::config_resource::{ALTERATION_GAPS, Alteration, Edit, alter_all};
use super::common::wire::{code_of, message_of, reply};
use crate::config::alter::{Change, Operation};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
/// - 1: flexible
pub const SPEC: ApiSpec = ApiSpec {
    gaps: ALTERATION_GAPS,
    stage: Stage::Partial,
    ..ApiSpec::new(ApiKey::IncrementalAlterConfigs, 0..=1)
};

/// Changes the configs of each resource, each by itself.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: IncrementalAlterConfigsRequest,
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
    reply(IncrementalAlterConfigsResponse::default().with_responses(responses.collect()))
}

fn alteration(resource: &AlterConfigsResource) -> Alteration {
    let changes: Result<Vec<Change>, i8> = resource
        .configs
        .iter()
        .map(|config| {
            let operation = Operation::from_code(config.config_operation);
            Ok(Change {
                key: config.name.to_string(),
                operation: operation.ok_or(config.config_operation)?,
                value: config.value.as_ref().map(ToString::to_string),
            })
        })
        .collect();
    Alteration {
        resource_type: resource.resource_type,
        resource_name: resource.resource_name.to_string(),
        edit: changes.map_or_else(Edit::UnknownOperation, Edit::Changes),
    }
}
