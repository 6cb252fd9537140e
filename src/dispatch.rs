//! From a frame to a reply: finds the API's row in the table, decodes, calls the handler, encodes.
//! Knows no API by name but ApiVersions, which a client must be able to ask in any version.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::BoxFuture;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiKey, ApiVersionsResponse, ResponseKind};
use protocol::fetch_response::{FramePart, encode_fetch_response};
use protocol::request::{Request, RequestError, decode_request};
use protocol::response::{EncodeError, encode_response};
use protocol::{ApiSpec, ErrorCode};
use storage::log_store::RecordSlice;
use tracing::{Instrument, debug_span, error};

use crate::clock;
use crate::context::{RequestContext, Services};
use crate::handlers::{FetchBody, Reply, ResponseBody, Row, TABLE, row_index};
use crate::net::budget::Reservation;
use crate::net::connection::{CloseReason, Handled, Peer, ReplyBytes, RequestHandler};
use crate::net::frame_reader::Frame;
use crate::net::reply_writer::slice_len;
use crate::panics;
use crate::telemetry::{self, ApiMetrics};

/// Handles the requests of all connections.
pub struct Dispatcher {
    services: Arc<Services>,
}

impl Dispatcher {
    /// A dispatcher to the handlers of [`TABLE`].
    #[must_use]
    pub fn new(services: Arc<Services>) -> Dispatcher {
        Dispatcher { services }
    }
}

/// What answering needs to know of a request.
#[derive(Clone, Copy)]
struct Call {
    key: ApiKey,
    api_version: i16,
    correlation_id: i32,
    metrics: &'static ApiMetrics,
    received_at: Instant,
}

impl RequestHandler for Dispatcher {
    async fn handle(&self, peer: &Peer, frame: Frame) -> Handled {
        let received_at = clock::monotonic();
        let Frame { bytes, reservation } = frame;
        let request_bytes = bytes.len();
        let Some(index) = api_key(&bytes).and_then(row_index) else {
            telemetry::request_refused("unknown_key");
            return close("no API of that key".to_owned());
        };
        let row = &TABLE[index];
        let metrics = telemetry::api_metrics(index);
        metrics.received(request_bytes);
        let request = match panics::expected(|| decode_request(bytes, &row.spec)) {
            Ok(request) => request,
            Err(error) => return refuse(error, &row.spec),
        };
        let Request { head, body } = request;
        let call = Call {
            key: row.spec.key,
            api_version: head.api_version,
            correlation_id: head.correlation_id,
            metrics,
            received_at,
        };
        let context = RequestContext {
            api_version: head.api_version,
            client_id: head.client_id.map(|id| id.to_string()),
            listener: Arc::clone(&peer.listener),
            local_address: peer.local_address,
            peer_address: peer.peer_address,
            now: clock::now(),
        };
        let span = debug_span!(
            "request",
            api = ?call.key,
            version = call.api_version,
            correlation_id = call.correlation_id,
            client = %peer.peer_address,
        );
        let handled = (row.handle)(&self.services, &context, body).instrument(span);
        // A bug in a handler costs its connection, not the broker.
        let reply = match AssertUnwindSafe(handled).catch_unwind().await {
            Ok(reply) => reply,
            Err(_panic) => return Handled::Close(panicked(row)),
        };
        answer(row, call, reply, reservation)
    }
}

/// The first two bytes of every request.
fn api_key(frame: &[u8]) -> Option<i16> {
    frame.first_chunk().map(|key| i16::from_be_bytes(*key))
}

/// What Kafka does with a request that it cannot handle: it closes the connection, unless a client
/// asks for our versions in a version that we do not know (KIP-511).
fn refuse(error: RequestError, spec: &ApiSpec) -> Handled {
    match error {
        RequestError::UnsupportedVersion { head } if spec.key == ApiKey::ApiVersions => {
            telemetry::request_refused("unsupported_version");
            let body = unsupported_api_versions(spec);
            match encode_response(ApiKey::ApiVersions, 0, head.correlation_id, &body) {
                Ok(bytes) => Handled::Ready(vec![RecordSlice::Memory(bytes)]),
                Err(error) => Handled::Close(unencodable(ApiKey::ApiVersions, &error)),
            }
        }
        RequestError::UnsupportedVersion { .. } => {
            telemetry::request_refused("unsupported_version");
            close(error.to_string())
        }
        RequestError::UnknownKey { .. } => {
            telemetry::request_refused("unknown_key");
            close(error.to_string())
        }
        RequestError::Malformed { .. } => {
            telemetry::request_refused("malformed");
            close(error.to_string())
        }
    }
}

/// Only the error and the versions of ApiVersions itself, to ask again with.
fn unsupported_api_versions(spec: &ApiSpec) -> ResponseKind {
    let (min_version, max_version) = spec.advertised();
    let own = ApiVersion::default()
        .with_api_key(spec.code())
        .with_min_version(min_version)
        .with_max_version(max_version);
    ResponseKind::ApiVersions(
        ApiVersionsResponse::default()
            .with_error_code(ErrorCode::UnsupportedVersion.code())
            .with_api_keys(vec![own]),
    )
}

fn answer(row: &'static Row, call: Call, reply: Reply, reservation: Reservation) -> Handled {
    match reply {
        Reply::Now(body) => match encode(call, body) {
            Ok(reply) => Handled::Ready(reply),
            Err(reason) => Handled::Close(reason),
        },
        Reply::Later(body) => Handled::Later(answer_later(row, call, body, reservation)),
        Reply::Silent(done) => Handled::Later(Box::pin(async move {
            let done = AssertUnwindSafe(done).catch_unwind().await;
            drop(reservation);
            match done.map_err(|_panic| panicked(row))? {
                Ok(()) => {
                    call.metrics.answered(clock::since(call.received_at), 0);
                    Ok(ReplyBytes::new())
                }
                Err(why) => Err(CloseReason::Request(why)),
            }
        })),
        Reply::Close(why) => close(why),
    }
}

fn answer_later(
    row: &'static Row,
    call: Call,
    body: BoxFuture<'static, ResponseBody>,
    reservation: Reservation,
) -> BoxFuture<'static, Result<ReplyBytes, CloseReason>> {
    Box::pin(async move {
        let body = AssertUnwindSafe(body).catch_unwind().await;
        // The request's bytes are the store's business now; what is left is the reply.
        drop(reservation);
        encode(call, body.map_err(|_panic| panicked(row))?)
    })
}

fn encode(call: Call, body: ResponseBody) -> Result<ReplyBytes, CloseReason> {
    let Call { key, api_version, correlation_id, .. } = call;
    let reply = match body {
        ResponseBody::Message(body) => encode_response(key, api_version, correlation_id, &body)
            .map(|bytes| vec![RecordSlice::Memory(bytes)]),
        ResponseBody::Fetch(body) => encode_fetch(api_version, correlation_id, *body),
    };
    let reply = reply.map_err(|error| unencodable(key, &error))?;
    let reply_bytes = reply.iter().map(slice_len).sum();
    call.metrics.answered(clock::since(call.received_at), reply_bytes);
    Ok(reply)
}

/// The frame's own bytes with the records between them: by reference, none is copied.
fn encode_fetch(
    api_version: i16,
    correlation_id: i32,
    body: FetchBody,
) -> Result<ReplyBytes, EncodeError> {
    let FetchBody { response, mut records } = body;
    let frame =
        encode_fetch_response(api_version, correlation_id, &response, |topic, partition| {
            // Kafka answers with no bytes rather than null where there is nothing to read.
            Some(records[topic][partition].iter().map(slice_len).sum())
        })?;
    let mut reply = ReplyBytes::with_capacity(frame.parts.len());
    for part in frame.parts {
        match part {
            FramePart::Bytes(bytes) => reply.push(RecordSlice::Memory(bytes)),
            FramePart::Records { topic_index, partition_index } => {
                reply.append(&mut records[topic_index][partition_index]);
            }
        }
    }
    Ok(reply)
}

fn close(why: String) -> Handled {
    Handled::Close(CloseReason::Request(why))
}

/// A panic has been logged where it happened.
fn panicked(row: &Row) -> CloseReason {
    telemetry::request_refused("panic");
    CloseReason::Request(format!("the handler of {:?} failed", row.spec.key))
}

fn unencodable(key: ApiKey, error: &EncodeError) -> CloseReason {
    error!(api = ?key, %error, "a response cannot be encoded");
    CloseReason::Request(format!("the response of {key:?} cannot be encoded"))
}

#[cfg(test)]
mod tests;
