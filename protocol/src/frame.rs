//! Framing: a signed big-endian length of four bytes, then that many bytes.
//!
//! Pure: no I/O, no clock, no randomness (but for the traits of tokio-util, which do none).

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

/// Bytes of the length in front of a frame.
pub const LENGTH_LEN: usize = 4;

/// Why a frame cannot be read; the connection is closed on each of them, as Kafka does
/// (`NetworkReceive`).
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// A negative length.
    #[error("frame with a negative length ({0})")]
    Negative(i32),
    /// More than `socket.request.max.bytes`.
    #[error("frame of {length_bytes} bytes is larger than {max_bytes}")]
    TooLarge {
        /// As the peer says.
        length_bytes: usize,
        /// As configured.
        max_bytes: usize,
    },
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The length that `prefix` announces, not counting the prefix itself.
pub fn frame_length(prefix: [u8; LENGTH_LEN], max_bytes: usize) -> Result<usize, FrameError> {
    let length = i32::from_be_bytes(prefix);
    let length_bytes = usize::try_from(length).map_err(|_| FrameError::Negative(length))?;
    if length_bytes > max_bytes {
        return Err(FrameError::TooLarge { length_bytes, max_bytes });
    }
    Ok(length_bytes)
}

/// Cuts a stream into frames and back, for connections that need no more than that.
#[derive(Debug, Clone, Copy)]
pub struct FrameCodec {
    /// The largest frame that is read.
    pub max_bytes: usize,
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = FrameError;

    fn decode(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, FrameError> {
        let Some(prefix) = buffer.first_chunk::<LENGTH_LEN>() else { return Ok(None) };
        let length_bytes = frame_length(*prefix, self.max_bytes)?;
        // Nothing is reserved for a length that is only announced: the buffer grows with what
        // arrives.
        if buffer.len() < LENGTH_LEN + length_bytes {
            return Ok(None);
        }
        buffer.advance(LENGTH_LEN);
        Ok(Some(buffer.split_to(length_bytes).freeze()))
    }
}

impl Encoder<Bytes> for FrameCodec {
    type Error = FrameError;

    fn encode(&mut self, frame: Bytes, buffer: &mut BytesMut) -> Result<(), FrameError> {
        let max_bytes = i32::MAX as usize;
        let length = i32::try_from(frame.len())
            .map_err(|_| FrameError::TooLarge { length_bytes: frame.len(), max_bytes })?;
        buffer.reserve(LENGTH_LEN + frame.len());
        buffer.put_i32(length);
        buffer.put_slice(&frame);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_survive_any_cut_of_the_stream(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..6),
            cut in 1usize..20,
        ) {
            let mut codec = FrameCodec { max_bytes: 50 };
            let mut stream = BytesMut::new();
            for frame in &frames {
                codec.encode(Bytes::from(frame.clone()), &mut stream).unwrap();
            }
            let mut buffer = BytesMut::new();
            let mut read = Vec::new();
            for piece in stream.chunks(cut) {
                buffer.extend_from_slice(piece);
                while let Some(frame) = codec.decode(&mut buffer).unwrap() {
                    read.push(frame.to_vec());
                }
            }
            prop_assert_eq!(read, frames);
            prop_assert!(buffer.is_empty());
        }
    }

    #[test]
    fn negative_and_oversized_lengths_are_refused() {
        let refused = frame_length((-1i32).to_be_bytes(), 100);
        assert!(matches!(refused, Err(FrameError::Negative(-1))));
        let refused = frame_length(i32::MAX.to_be_bytes(), 100);
        assert!(matches!(refused, Err(FrameError::TooLarge { max_bytes: 100, .. })));
        assert_eq!(frame_length(100i32.to_be_bytes(), 100).unwrap(), 100);
        assert_eq!(frame_length([0; 4], 100).unwrap(), 0);
    }

    #[test]
    fn an_announced_frame_reserves_nothing() {
        let mut buffer = BytesMut::from(&[0x06, 0x40, 0, 0][..]);
        let capacity = buffer.capacity();
        let mut codec = FrameCodec { max_bytes: 104_857_600 };
        assert!(codec.decode(&mut buffer).unwrap().is_none());
        assert_eq!(buffer.capacity(), capacity);
    }
}
