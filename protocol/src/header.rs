//! The headers in front of request and response bodies, and which version of them goes with which
//! version of an API.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::StrBytes;

use crate::varint;

/// What every request begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// The API, whether we know it or not.
    pub api_key: i16,
    /// The version of it, whether we have it or not.
    pub api_version: i16,
    /// What the client expects to find in the response.
    pub correlation_id: i32,
    /// As the client names itself. Kafka takes null for the empty string; so may callers.
    pub client_id: Option<StrBytes>,
}

/// The version of the request header: from 2 on it ends in tagged fields.
#[must_use]
pub fn request_header_version(api_key: ApiKey, api_version: i16) -> i16 {
    api_key.request_header_version(api_version)
}

/// The version of the response header: from 1 on it ends in tagged fields. Always 0 for
/// ApiVersions, whose answer a client must be able to read before it knows our versions (KIP-511).
#[must_use]
pub fn response_header_version(api_key: ApiKey, api_version: i16) -> i16 {
    match api_key {
        ApiKey::ApiVersions => 0,
        _ => api_key.response_header_version(api_version),
    }
}

/// Reads a request header of that version off `frame`; on failure, what was wrong.
pub(crate) fn read_request_head(
    frame: &mut Bytes,
    header_version: i16,
) -> Result<RequestHead, &'static str> {
    let short = |_| "the header is cut short";
    let api_key = frame.try_get_i16().map_err(short)?;
    let api_version = frame.try_get_i16().map_err(short)?;
    let correlation_id = frame.try_get_i32().map_err(short)?;
    // The client id is a string of the old kind even in headers that are flexible otherwise.
    let length = frame.try_get_i16().map_err(short)?;
    let client_id = match usize::try_from(length) {
        Err(_) if length == -1 => None,
        Err(_) => return Err("the client id has a negative length"),
        Ok(length) if length > frame.len() => return Err("the client id is cut short"),
        Ok(length) => {
            let utf8 = StrBytes::from_utf8(frame.split_to(length));
            Some(utf8.map_err(|_| "the client id is not UTF-8")?)
        }
    };
    if header_version >= 2 {
        skip_tagged_fields(frame).ok_or("the header's tagged fields are cut short")?;
    }
    Ok(RequestHead { api_key, api_version, correlation_id, client_id })
}

fn skip_tagged_fields(frame: &mut Bytes) -> Option<()> {
    let count = take_unsigned(frame)?;
    for _ in 0..count {
        let _tag = take_unsigned(frame)?;
        let length = usize::try_from(take_unsigned(frame)?).ok()?;
        if length > frame.len() {
            return None;
        }
        frame.advance(length);
    }
    Some(())
}

fn take_unsigned(frame: &mut Bytes) -> Option<u64> {
    let (value, len) = varint::read_unsigned(frame)?;
    frame.advance(len);
    Some(value)
}

/// Writes a request header, for clients: tests, tools, golden frames.
pub fn write_request_head(out: &mut BytesMut, head: &RequestHead, header_version: i16) {
    out.put_i16(head.api_key);
    out.put_i16(head.api_version);
    out.put_i32(head.correlation_id);
    match &head.client_id {
        None => out.put_i16(-1),
        Some(client_id) => {
            // A client id that does not fit its length field is cut, not a reason to fail.
            let bytes = client_id.as_bytes();
            let bytes = &bytes[..bytes.len().min(i16::MAX as usize)];
            out.put_i16(bytes.len() as i16);
            out.put_slice(bytes);
        }
    }
    if header_version >= 2 {
        out.put_u8(0);
    }
}

/// Writes a response header.
pub(crate) fn write_response_head(out: &mut BytesMut, correlation_id: i32, header_version: i16) {
    out.put_i32(correlation_id);
    if header_version >= 1 {
        out.put_u8(0);
    }
}
