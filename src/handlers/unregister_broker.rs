//! UnregisterBroker: forgets a broker that does not come back (KIP-185, KIP-631).

use std::sync::Arc;

use cluster::metadata::MetadataCommand;
use kafka_protocol::messages::{ApiKey, UnregisterBrokerRequest, UnregisterBrokerResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;
use protocol::types::BrokerId;

use super::Reply;
use super::common::wire::{Refusal, code_of, message_of, reply};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::UnregisterBroker, 0..=0);

/// Answers when the broker is forgotten. Its replicas stay assigned to it, as in Kafka.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: UnregisterBrokerRequest,
) -> Reply {
    let broker = BrokerId(request.broker_id.0);
    let result = if services.cluster.metadata().brokers.contains_key(&broker) {
        let command = MetadataCommand::UnregisterBroker { broker };
        services.cluster.submit(command).await.map(|_| ()).map_err(Refusal::from)
    } else {
        let message = format!("Broker ID {broker} is not currently registered");
        Err(Refusal::new(ErrorCode::BrokerIdNotRegistered, message))
    };
    reply(
        UnregisterBrokerResponse::default()
            .with_error_code(code_of(&result))
            .with_error_message(message_of(&result)),
    )
}
