//! InitProducerId: an identity for an idempotent producer, so that its retries are recognised.

use std::sync::Arc;

use cluster::ClusterError;
use kafka_protocol::messages::{
    ApiKey, InitProducerIdRequest, InitProducerIdResponse, ProducerId as WireProducerId,
    ResponseKind,
};
use protocol::api::{ApiSpec, Stage};
use protocol::error_code::ErrorCode;
use protocol::types::{ProducerEpoch, ProducerId};

use super::{Reply, ResponseBody};
use crate::context::{RequestContext, Services};
use crate::error_map::ToErrorCode;

/// Versions:
/// - 0: producer id for a transactional id or none (KIP-98)
/// - 1: throttled answers go out before the connection is muted (KIP-219)
/// - 2: flexible
/// - 3: the identity that the producer has, to be bumped (KIP-360)
/// - 4: PRODUCER_FENCED may be answered
/// - 5: TRANSACTION_ABORTABLE may be answered (KIP-890)
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &[
        "Transactional ids: there is no transaction coordinator yet, every one is answered with \
         COORDINATOR_NOT_AVAILABLE.",
        "Version 6 (two-phase commit, KIP-939) is not decoded; Kafka does not enable it either.",
    ],
    stage: Stage::Partial,
    ..ApiSpec::new(ApiKey::InitProducerId, 0..=5)
};

/// The default of `transaction.max.timeout.ms`.
const TRANSACTION_MAX_TIMEOUT_MS: i32 = 15 * 60 * 1000;

/// Hands out a fresh producer id. An idempotent producer that names the id it has gets a fresh one
/// as well: it bumps its epoch itself, and comes here when it has run out of them.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: InitProducerIdRequest,
) -> Reply {
    if let Err(error) = check(&request) {
        return Reply::Now(body(Err(error)));
    }
    let cluster = services.cluster.clone();
    Reply::Later(Box::pin(async move {
        let id = cluster.next_producer_id().await;
        body(id.map_err(|error| match error {
            // As Kafka says it while it waits for a block of ids: producers try again.
            ClusterError::NoController | ClusterError::ShuttingDown => {
                ErrorCode::CoordinatorLoadInProgress
            }
            error => error.error_code(),
        }))
    }))
}

/// Refuses what is contradictory, and what would need a transaction coordinator.
fn check(request: &InitProducerIdRequest) -> Result<(), ErrorCode> {
    let has_id = request.producer_id.0 != ProducerId::NONE.0;
    let has_epoch = request.producer_epoch != ProducerEpoch::NONE.0;
    if has_id != has_epoch {
        return Err(ErrorCode::InvalidRequest);
    }
    let Some(transactional_id) = &request.transactional_id else { return Ok(()) };
    if transactional_id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    if !(1..=TRANSACTION_MAX_TIMEOUT_MS).contains(&request.transaction_timeout_ms) {
        return Err(ErrorCode::InvalidTransactionTimeout);
    }
    Err(ErrorCode::CoordinatorNotAvailable)
}

fn body(producer_id: Result<ProducerId, ErrorCode>) -> ResponseBody {
    let error = producer_id.err().unwrap_or(ErrorCode::None);
    let (id, epoch) = match producer_id {
        Ok(id) => (id, ProducerEpoch(0)),
        Err(_) => (ProducerId::NONE, ProducerEpoch::NONE),
    };
    let response = InitProducerIdResponse::default()
        .with_error_code(error.code())
        .with_producer_id(WireProducerId(id.0))
        .with_producer_epoch(epoch.0);
    ResponseBody::Message(Box::new(ResponseKind::InitProducerId(response)))
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::TransactionalId;

    use super::*;

    fn request(transactional_id: Option<&'static str>) -> InitProducerIdRequest {
        InitProducerIdRequest::default()
            .with_transactional_id(transactional_id.map(|id| TransactionalId(id.into())))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(WireProducerId(-1))
            .with_producer_epoch(-1)
    }

    #[test]
    fn an_idempotent_producer_needs_no_transactional_id() {
        assert_eq!(check(&request(None)), Ok(()));
        let bumps = request(None).with_producer_id(WireProducerId(7)).with_producer_epoch(3);
        assert_eq!(check(&bumps), Ok(()));
    }

    #[test]
    fn half_an_identity_is_an_invalid_request() {
        let no_epoch = request(None).with_producer_id(WireProducerId(7));
        assert_eq!(check(&no_epoch), Err(ErrorCode::InvalidRequest));
        let no_id = request(None).with_producer_epoch(3);
        assert_eq!(check(&no_id), Err(ErrorCode::InvalidRequest));
    }

    #[test]
    fn transactional_ids_have_no_coordinator() {
        assert_eq!(check(&request(Some(""))), Err(ErrorCode::InvalidRequest));
        let too_long = request(Some("t")).with_transaction_timeout_ms(900_001);
        assert_eq!(check(&too_long), Err(ErrorCode::InvalidTransactionTimeout));
        assert_eq!(check(&request(Some("t"))), Err(ErrorCode::CoordinatorNotAvailable));
    }
}
