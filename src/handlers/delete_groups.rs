//! DeleteGroups: groups without members go, with their offsets.

use std::sync::Arc;

use futures::future::join_all;
use indexmap::IndexSet;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{ApiKey, DeleteGroupsRequest, DeleteGroupsResponse};
use protocol::api::ApiSpec;

use super::Reply;
use super::common::groups::{ask, body, shared};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 0: (KIP-229)
/// - 1: throttled answers go out before the connection is muted (KIP-219)
/// - 2: flexible
pub const SPEC: ApiSpec = ApiSpec {
    gaps: &["Version 3 (an error message for each group) is not decoded."],
    ..ApiSpec::new(ApiKey::DeleteGroups, 0..=2)
};

/// Asks the shard of every group, once for one that is named twice.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: DeleteGroupsRequest,
) -> Reply {
    let group_ids: IndexSet<_> = request.groups_names.into_iter().collect();
    let answers = group_ids.into_iter().map(|group_id| {
        let answer = ask!(services, &group_id, DeleteGroup(shared(&group_id)));
        async move {
            let (Ok(error) | Err(error)) = answer.await;
            DeletableGroupResult::default().with_group_id(group_id).with_error_code(error.code())
        }
    });
    let answers = join_all(answers.collect::<Vec<_>>());
    Reply::Later(Box::pin(async move {
        body(DeleteGroupsResponse::default().with_results(answers.await))
    }))
}
