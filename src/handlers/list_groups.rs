//! ListGroups: the groups whose coordinator this broker is.

use std::sync::Arc;

use kafka_protocol::messages::list_groups_response::ListedGroup as WireGroup;
use kafka_protocol::messages::{ApiKey, ListGroupsRequest, ListGroupsResponse};
use kafka_protocol::protocol::StrBytes;
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;

use super::Reply;
use super::common::groups::{body, wire_group_id};
use super::common::wire::text;
use crate::context::{RequestContext, Services};
use crate::coordinator::group::GroupShard;
use crate::coordinator::group::event::{GroupReply, GroupRequest, ListGroups, ListedGroup};
use crate::coordinator::runtime::{Answer, CoordinatorError};
use crate::error_map::ToErrorCode;

/// Versions:
/// - 0:
/// - 1: throttle time
/// - 2: throttled answers go out before the connection is muted (KIP-219)
/// - 3: flexible
/// - 4: states, also to choose by (KIP-518)
/// - 5: types, also to choose by (KIP-848)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::ListGroups, 0..=5);

/// Asks every shard of this broker.
pub async fn handle(
    services: &Arc<Services>,
    _context: &RequestContext,
    request: ListGroupsRequest,
) -> Reply {
    let texts = |texts: &[StrBytes]| texts.iter().map(ToString::to_string).collect();
    let list =
        ListGroups { states: texts(&request.states_filter), types: texts(&request.types_filter) };
    let answers = services.groups.call_all(&GroupRequest::ListGroups(list));
    Reply::Later(Box::pin(async move {
        let (error, groups) = collect(answers.await);
        let rows = groups.into_iter().map(row).collect();
        body(ListGroupsResponse::default().with_error_code(error.code()).with_groups(rows))
    }))
}

/// The groups of all shards, or the first error. A shard that another broker has is that one's to
/// answer for.
fn collect(answers: Vec<Answer<GroupShard>>) -> (ErrorCode, Vec<ListedGroup>) {
    let mut all = Vec::new();
    for answer in answers {
        match answer {
            Ok(GroupReply::ListGroups(groups)) => all.extend(groups),
            Ok(_) => return (ErrorCode::UnknownServerError, Vec::new()),
            Err(CoordinatorError::NotCoordinator) => {}
            Err(error) => return (error.error_code(), Vec::new()),
        }
    }
    (ErrorCode::None, all)
}

fn row(group: ListedGroup) -> WireGroup {
    WireGroup::default()
        .with_group_id(wire_group_id(&group.group_id))
        .with_protocol_type(text(&group.protocol_type))
        .with_group_state(text(group.state.name()))
        .with_group_type(text(group.group_type.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_loads_fails_the_list_and_one_that_is_elsewhere_does_not() {
        let some = || Ok(GroupReply::ListGroups(Vec::new()));
        let elsewhere = vec![some(), Err(CoordinatorError::NotCoordinator)];
        assert_eq!(collect(elsewhere).0, ErrorCode::None);
        let loading = vec![some(), Err(CoordinatorError::Loading)];
        assert_eq!(collect(loading).0, ErrorCode::CoordinatorLoadInProgress);
    }
}
