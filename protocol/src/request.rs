//! Requests: header and body off a frame, whatever the frame holds.
//!
//! `kafka-protocol` trusts the lengths on the wire: an array of two thousand million elements is
//! reserved before its first element is read. There is no place to look at such a length before
//! the library does, so the guard has two parts: the process runs on jemalloc, where a reservation
//! that is never touched costs address space only and the decode fails at the first missing
//! element; and what the library answers with a panic is caught here. `tests/hostile_bytes.rs`
//! and the fuzz target `request_decode` hold that.
//!
//! Record bytes are not looked at: they stay slices of the frame.
//!
//! Pure: no I/O, no clock, no randomness.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, RequestKind};

use crate::api::ApiSpec;
use crate::frame::LENGTH_LEN;
use crate::header::{self, RequestHead};
use crate::response::EncodeError;

/// A request, decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its header.
    pub head: RequestHead,
    /// Its body.
    pub body: RequestKind,
}

/// Why a frame is no request that can be handled.
#[derive(Debug, thiserror::Error, Clone, PartialEq)]
pub enum RequestError {
    /// An API that Kafka's protocol does not have, or that we do not know. The connection is
    /// closed.
    #[error("unknown API key {api_key} (version {api_version})")]
    UnknownKey {
        /// As the client says.
        api_key: i16,
        /// As the client says.
        api_version: i16,
    },
    /// A version that is not implemented. The connection is closed, but for ApiVersions: that is
    /// answered with a v0 body and UNSUPPORTED_VERSION (KIP-511), to which end the head is here.
    #[error("unsupported version {} of API key {}", head.api_version, head.api_key)]
    UnsupportedVersion {
        /// The request's header; its body was not read.
        head: RequestHead,
    },
    /// The bytes are not what header and version say. The connection is closed.
    #[error("malformed request (API key {api_key}, version {api_version}): {reason}")]
    Malformed {
        /// As the client says; -1 if not even that can be read.
        api_key: i16,
        /// As the client says; -1 if not even that can be read.
        api_version: i16,
        /// What is wrong with it, for the log.
        reason: String,
    },
}

/// Reads a request's header, leaving the body alone: enough to find the API's row in the table.
pub fn decode_head(frame: &Bytes) -> Result<RequestHead, RequestError> {
    split_head(frame.clone()).map(|(_, head, _)| head)
}

/// Decodes a request of the API that `spec` describes. Bytes behind the body are ignored, as Kafka
/// does (`AbstractRequest.parseRequest`).
pub fn decode_request(frame: Bytes, spec: &ApiSpec) -> Result<Request, RequestError> {
    let (api_key, head, body) = split_head(frame)?;
    if api_key != spec.key || !spec.supports(head.api_version) {
        return Err(RequestError::UnsupportedVersion { head });
    }
    let body = decode_body(api_key, head.api_version, body)?;
    Ok(Request { head, body })
}

/// Decodes the body of a request of any version that `kafka-protocol` has; never panics.
pub fn decode_body(
    api_key: ApiKey,
    api_version: i16,
    mut body: Bytes,
) -> Result<RequestKind, RequestError> {
    let reason = match catch_unwind(AssertUnwindSafe(|| {
        RequestKind::decode(api_key, &mut body, api_version)
    })) {
        Ok(Ok(request)) => return Ok(request),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "a length that cannot be".to_owned(),
    };
    Err(RequestError::Malformed { api_key: api_key as i16, api_version, reason })
}

/// Encodes a request with its length in front, for clients: tests, tools, golden frames.
pub fn encode_request(head: &RequestHead, body: &RequestKind) -> Result<Bytes, EncodeError> {
    let api_key = ApiKey::try_from(head.api_key)
        .map_err(|()| EncodeError::Unencodable(format!("unknown API key {}", head.api_key)))?;
    let mut frame = BytesMut::with_capacity(256);
    frame.put_i32(0);
    let header_version = header::request_header_version(api_key, head.api_version);
    header::write_request_head(&mut frame, head, header_version);
    body.encode(&mut frame, head.api_version)
        .map_err(|error| EncodeError::Unencodable(error.to_string()))?;
    let length = i32::try_from(frame.len() - LENGTH_LEN)
        .map_err(|_| EncodeError::TooLarge { length_bytes: frame.len() })?;
    frame[..LENGTH_LEN].copy_from_slice(&length.to_be_bytes());
    Ok(frame.freeze())
}

fn split_head(mut frame: Bytes) -> Result<(ApiKey, RequestHead, Bytes), RequestError> {
    let malformed = |api_key, api_version, reason: &str| RequestError::Malformed {
        api_key,
        api_version,
        reason: reason.to_owned(),
    };
    let mut peek = &frame[..];
    let (Ok(code), Ok(api_version)) = (peek.try_get_i16(), peek.try_get_i16()) else {
        return Err(malformed(-1, -1, "shorter than an API key and a version"));
    };
    let api_key = ApiKey::try_from(code)
        .map_err(|()| RequestError::UnknownKey { api_key: code, api_version })?;
    let header_version = header::request_header_version(api_key, api_version);
    let head = header::read_request_head(&mut frame, header_version)
        .map_err(|reason| malformed(code, api_version, reason))?;
    Ok((api_key, head, frame))
}

#[cfg(test)]
mod tests;
