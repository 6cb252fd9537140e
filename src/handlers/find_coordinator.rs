//! FindCoordinator: no group and no transaction has a coordinator here yet, and clients are told so
//! in the way that they know from a broker whose coordinator is not there at the moment.

use std::sync::Arc;

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{ApiKey, BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::wire::reply;
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: coordinators of groups
/// - 1: coordinators of transactions, error message (KIP-98)
/// - 2: throttled answers go out before the connection is muted (KIP-219)
/// - 3: flexible
/// - 4: many keys at once (KIP-699)
/// - 5: TRANSACTION_ABORTABLE may be answered (KIP-890)
/// - 6: coordinators of share groups (KIP-932)
///
/// Advertised although there is no coordinator: librdkafka before 2.11.1 compresses with lz4 only
/// where it finds this API.
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &["There is no coordinator yet: every key gets COORDINATOR_NOT_AVAILABLE."],
    stage: Stage::Stub,
    ..ApiSpec::new(ApiKey::FindCoordinator, 0..=6)
};

/// From this version on many keys are asked for at once.
const MANY_KEYS_SINCE: i16 = 4;

const NO_NODE: BrokerId = BrokerId(-1);
const NO_PORT: i32 = -1;

fn message() -> Option<StrBytes> {
    Some(StrBytes::from_static_str("this broker has no coordinators yet"))
}

/// Answers that no coordinator is available.
pub async fn handle(
    _services: &Arc<Services>,
    context: &RequestContext,
    request: FindCoordinatorRequest,
) -> Reply {
    let error_code = ErrorCode::CoordinatorNotAvailable.code();
    if context.api_version < MANY_KEYS_SINCE {
        let response = FindCoordinatorResponse::default()
            .with_error_code(error_code)
            .with_error_message(message())
            .with_node_id(NO_NODE)
            .with_port(NO_PORT);
        return reply(response);
    }
    let coordinators = request.coordinator_keys.into_iter().map(|key| {
        Coordinator::default()
            .with_key(key)
            .with_error_code(error_code)
            .with_error_message(message())
            .with_node_id(NO_NODE)
            .with_port(NO_PORT)
    });
    reply(FindCoordinatorResponse::default().with_coordinators(coordinators.collect()))
}
