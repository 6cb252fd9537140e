//! One file per API, and the table of them: dispatch, ApiVersions, metrics and the documents read
//! it, so that what is advertised is what is implemented.

use futures::future::BoxFuture;
use kafka_protocol::messages::ResponseKind;
use storage::log_store::RecordSlice;

pub mod common;

/// What a handler answers with.
pub enum Reply {
    /// The answer.
    Now(ResponseBody),
    /// The answer comes later; the next request of the connection starts meanwhile. What fixes the
    /// order (queueing an append, say) happened before this was returned.
    Later(BoxFuture<'static, ResponseBody>),
    /// No answer at all (Produce with acks=0); once the future is done, the result says whether
    /// the connection must be closed (Kafka closes it on an error).
    Silent(BoxFuture<'static, Result<(), String>>),
    /// The connection is closed, for this reason.
    Close(String),
}

/// The body of an answer.
pub enum ResponseBody {
    /// Encoded by `protocol::response`.
    Message(Box<ResponseKind>),
    /// A fetch, whose record bytes go to the socket by reference or `sendfile`.
    Fetch(Box<FetchBody>),
}

/// A fetch response without its record bytes, and the bytes for the gaps.
pub struct FetchBody {
    /// `records` is `None` in every partition.
    pub response: kafka_protocol::messages::FetchResponse,
    /// Per topic, per partition, in the order of `response`: the records (empty = no bytes).
    pub records: Vec<Vec<Vec<RecordSlice>>>,
}

// CONTRACT (owner: rim). Each handler file has:
//   pub const SPEC: ApiSpec = ...;               (doc comment: one line per version; gaps)
//   pub async fn handle(services: &Arc<Services>, context: &RequestContext, request: XxxRequest) -> Reply
// and a row in TABLE here.
