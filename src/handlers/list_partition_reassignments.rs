//! ListPartitionReassignments: no partition is ever on its way from one broker to another here.

use std::sync::Arc;

use kafka_protocol::messages::{
    ApiKey, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};
use protocol::api::{ApiSpec, Stage};

use super::Reply;
use super::common::wire::reply;
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: the first
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &["Partitions cannot be reassigned, so the list is empty."],
    stage: Stage::Stub,
    ..ApiSpec::new(ApiKey::ListPartitionReassignments, 0..=0)
};

/// Answers with an empty list.
pub async fn handle(
    _services: &Arc<Services>,
    _context: &RequestContext,
    _request: ListPartitionReassignmentsRequest,
) -> Reply {
    reply(ListPartitionReassignmentsResponse::default().with_error_message(None))
}
