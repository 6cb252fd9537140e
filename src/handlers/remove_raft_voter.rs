//! RemoveRaftVoter: would have a controller vote on metadata no more (KIP-853).

use std::sync::Arc;

use kafka_protocol::messages::{ApiKey, RemoveRaftVoterRequest, RemoveRaftVoterResponse};
use protocol::api::{ApiSpec, Stage};

use super::Reply;
use super::common::voters::{VOTERS_GAPS, VoterChange, refusal};
use super::common::wire::{reply, text};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
pub const SPEC: ApiSpec = ApiSpec {
    gaps: VOTERS_GAPS,
    stage: Stage::Partial,
    ..ApiSpec::new(ApiKey::RemoveRaftVoter, 0..=0)
};

/// Says why not.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: RemoveRaftVoterRequest,
) -> Reply {
    let change = VoterChange {
        cluster_id: request.cluster_id.as_deref(),
        voter_id: request.voter_id,
        directory_id: request.voter_directory_id,
        has_address: true,
    };
    let refusal = refusal(&change, &services.cluster.metadata().cluster_id);
    reply(
        RemoveRaftVoterResponse::default()
            .with_error_code(refusal.code.code())
            .with_error_message(Some(text(&refusal.message))),
    )
}
