//! What the handlers of groups share: asking the group's shard, and its types as messages have
//! them.

use std::sync::Arc;

use kafka_protocol::messages::{self, ResponseKind};
use kafka_protocol::protocol::StrBytes;
use protocol::error_code::ErrorCode;

use crate::context::RequestContext;
use crate::coordinator::group::event::Client;
use crate::coordinator::group_runtime::answered;
use crate::coordinator::runtime::CoordinatorError;
use crate::error_map::ToErrorCode;
use crate::handlers::ResponseBody;

/// Asks a group's shard: `ask!(services, "group", Heartbeat(request))` is queued at once, and a
/// future of the reply of the same name, or of the code that stands for it.
macro_rules! ask {
    ($services:expr, $group_id:expr, $variant:ident($request:expr)) => {
        $crate::handlers::common::groups::reply_of(
            $services.groups.call(
                $group_id,
                $crate::coordinator::group::event::GroupRequest::$variant($request),
            ),
            |reply| match reply {
                $crate::coordinator::group::event::GroupReply::$variant(reply) => Some(reply),
                _ => None,
            },
        )
    };
}
pub(crate) use ask;

/// The reply that was asked for, or the code that stands for it.
pub async fn reply_of<T>(
    answer: impl Future<
        Output = crate::coordinator::runtime::Answer<crate::coordinator::group::GroupShard>,
    >,
    take: impl FnOnce(crate::coordinator::group::event::GroupReply) -> Option<T>,
) -> Result<T, ErrorCode> {
    match answered(answer, take).await {
        Ok(reply) => reply.ok_or(ErrorCode::UnknownServerError),
        Err(error) => Err(error.error_code()),
    }
}

/// What consumers before Kafka 3.9 try again after: of COORDINATOR_NOT_AVAILABLE as an answer to
/// OffsetFetch they know nothing (`GroupCoordinatorService.handleOffsetFetchException`).
#[must_use]
pub fn as_offset_fetch_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::CoordinatorNotAvailable => CoordinatorError::NotCoordinator.error_code(),
        error => error,
    }
}

/// Who asks, as Kafka writes it.
#[must_use]
pub fn client(context: &RequestContext) -> Client {
    Client {
        client_id: context.client_id.clone().unwrap_or_default(),
        client_host: format!("/{}", context.peer_address.ip().to_canonical()),
    }
}

/// A group's name as messages have it.
#[must_use]
pub fn wire_group_id(group_id: &str) -> messages::GroupId {
    messages::GroupId(StrBytes::from_string(group_id.to_owned()))
}

/// A text that outlives its request.
#[must_use]
pub fn shared(text: &str) -> Arc<str> {
    Arc::from(text)
}

/// A text that may be missing.
#[must_use]
pub fn owned(text: Option<&StrBytes>) -> Option<String> {
    text.map(ToString::to_string)
}

/// A body.
#[must_use]
pub fn body(response: impl Into<ResponseKind>) -> ResponseBody {
    ResponseBody::Message(Box::new(response.into()))
}
