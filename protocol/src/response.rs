//! Responses: header and body into one frame, its length in front.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{ApiKey, ResponseKind};

use crate::frame::LENGTH_LEN;
use crate::header;

/// Why a response cannot be encoded: always a mistake of ours, never of the client.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum EncodeError {
    /// A field is set that this version does not have, or a value does not fit its field.
    #[error("cannot encode: {0}")]
    Unencodable(String),
    /// More bytes than the length can say.
    #[error("a frame of {length_bytes} bytes is too large")]
    TooLarge {
        /// Bytes of the frame.
        length_bytes: usize,
    },
}

/// Encodes a response with its length in front, ready for the socket.
///
/// For an ApiVersions request of an unknown version, `api_version` is 0.
pub fn encode_response(
    api_key: ApiKey,
    api_version: i16,
    correlation_id: i32,
    body: &ResponseKind,
) -> Result<Bytes, EncodeError> {
    let mut frame = BytesMut::with_capacity(256);
    frame.put_i32(0);
    let header_version = header::response_header_version(api_key, api_version);
    header::write_response_head(&mut frame, correlation_id, header_version);
    body.encode(&mut frame, api_version)
        .map_err(|error| EncodeError::Unencodable(error.to_string()))?;
    set_length(&mut frame, 0)?;
    Ok(frame.freeze())
}

/// Writes the frame's length, with `elsewhere_bytes` that are not in `frame`, in front of it.
/// Answers with the bytes of the whole, the length itself included.
pub(crate) fn set_length(
    frame: &mut BytesMut,
    elsewhere_bytes: usize,
) -> Result<usize, EncodeError> {
    let length_bytes = frame.len() - LENGTH_LEN + elsewhere_bytes;
    let length = i32::try_from(length_bytes).map_err(|_| EncodeError::TooLarge { length_bytes })?;
    frame[..LENGTH_LEN].copy_from_slice(&length.to_be_bytes());
    Ok(LENGTH_LEN + length_bytes)
}
