//! A message on a connection between brokers, as bytes.
//!
//! ```text
//! length u32 │ type u8 │ correlation u64 │ group u64 │ kind u8 │ head length u32 │ head │ body
//! ```
//! All numbers are big-endian; `length` counts what follows it. The body is whatever is left:
//! record batches, which go out and come in by reference.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use storage::log_store::GroupId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::PeerMessage;
use super::tls::refused;
use crate::limits::PEER_FRAME_BYTES;

/// Type, correlation, group, kind, head length.
const FIXED_LEN: usize = 1 + 8 + 8 + 1 + 4;

/// What a frame is to its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameType {
    Request,
    Answer,
    /// The head is a sentence that says why there is no answer.
    Refused,
}

impl FrameType {
    fn from_byte(byte: u8) -> io::Result<FrameType> {
        match byte {
            0 => Ok(FrameType::Request),
            1 => Ok(FrameType::Answer),
            2 => Ok(FrameType::Refused),
            _ => Err(malformed(format!("unknown type of frame {byte}"))),
        }
    }
}

/// One frame.
#[derive(Debug, Clone)]
pub(super) struct PeerFrame {
    pub(super) frame_type: FrameType,
    /// The request's, which its answer repeats.
    pub(super) correlation: u64,
    pub(super) group: GroupId,
    pub(super) message: PeerMessage,
}

impl PeerFrame {
    /// The refusal of a request, with a sentence.
    pub(super) fn refusal(correlation: u64, group: GroupId, why: String) -> PeerFrame {
        let message = PeerMessage { kind: 0, head: why.into(), body: Vec::new() };
        PeerFrame { frame_type: FrameType::Refused, correlation, group, message }
    }

    /// A refusal's sentence.
    pub(super) fn sentence(&self) -> String {
        String::from_utf8_lossy(&self.message.head).into_owned()
    }
}

fn malformed(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Writes a frame; the body's bytes are not copied in user space.
pub(super) async fn write<W: AsyncWrite + Unpin>(
    stream: &mut W,
    frame: PeerFrame,
) -> io::Result<()> {
    let message = frame.message;
    let body_len: usize = message.body.iter().map(Bytes::len).sum();
    let length = FIXED_LEN + message.head.len() + body_len;
    if length > PEER_FRAME_BYTES {
        return Err(malformed(format!("a frame of {length} bytes is too large to be sent")));
    }
    let mut start = BytesMut::with_capacity(4 + FIXED_LEN + message.head.len());
    start.put_u32(length as u32);
    start.put_u8(frame.frame_type as u8);
    start.put_u64(frame.correlation);
    start.put_u64(frame.group.0);
    start.put_u8(message.kind);
    start.put_u32(message.head.len() as u32);
    start.put_slice(&message.head);
    let pieces = std::iter::once(start.freeze()).chain(message.body);
    let mut segments = Segments(pieces.filter(|piece| !piece.is_empty()).collect());
    stream.write_all_buf(&mut segments).await?;
    stream.flush().await
}

/// Reads a frame; `None` when the connection was closed between two.
pub(super) async fn read<R: AsyncRead + Unpin>(stream: &mut R) -> io::Result<Option<PeerFrame>> {
    read_within(stream, PEER_FRAME_BYTES).await
}

/// The same with another limit than that of all frames.
pub(super) async fn read_within<R: AsyncRead + Unpin>(
    stream: &mut R,
    limit: usize,
) -> io::Result<Option<PeerFrame>> {
    let mut prefix = [0; 4];
    match stream.read_exact(&mut prefix).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_be_bytes(prefix) as usize;
    if !(FIXED_LEN..=limit).contains(&length) {
        if is_tls(prefix) {
            return Err(refused("it speaks TLS, and this broker PLAINTEXT".to_owned()));
        }
        return Err(malformed(format!("a frame of {length} bytes")));
    }
    let mut bytes = BytesMut::with_capacity(length);
    while bytes.len() < length {
        let missing = length - bytes.len();
        if stream.read_buf(&mut (&mut bytes).limit(missing)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    decode(bytes.freeze()).map(Some)
}

/// The first bytes of a handshake or of an alert; as a length they are far beyond the limit.
fn is_tls([kind, major, ..]: [u8; 4]) -> bool {
    matches!(kind, 0x15 | 0x16) && major == 3
}

fn decode(mut bytes: Bytes) -> io::Result<PeerFrame> {
    let frame_type = FrameType::from_byte(bytes.get_u8())?;
    let correlation = bytes.get_u64();
    let group = GroupId(bytes.get_u64());
    let kind = bytes.get_u8();
    let head_len = bytes.get_u32() as usize;
    if head_len > bytes.len() {
        return Err(malformed(format!("a head of {head_len} bytes in {}", bytes.len())));
    }
    let head = bytes.split_to(head_len);
    let message = PeerMessage { kind, head, body: vec![bytes] };
    Ok(PeerFrame { frame_type, correlation, group, message })
}

/// Pieces that go out as if they were one.
struct Segments(VecDeque<Bytes>);

impl Buf for Segments {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.0.front().map_or(&[], |piece| piece)
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let Some(front) = self.0.front_mut() else { return };
            let step = count.min(front.len());
            front.advance(step);
            count -= step;
            if front.is_empty() {
                self.0.pop_front();
            }
        }
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let count = slices.len().min(self.0.len());
        for (slice, piece) in slices.iter_mut().zip(&self.0) {
            *slice = IoSlice::new(piece);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(body: &[&'static [u8]]) -> PeerFrame {
        let body = body.iter().map(|piece| Bytes::from_static(piece)).collect();
        let message = PeerMessage { kind: 7, head: Bytes::from_static(b"head"), body };
        PeerFrame { frame_type: FrameType::Answer, correlation: 9, group: GroupId(11), message }
    }

    #[tokio::test]
    async fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        write(&mut bytes, frame(&[b"one", b"", b"two"])).await.unwrap();
        write(&mut bytes, frame(&[])).await.unwrap();
        let mut rest = &bytes[..];
        let first = read(&mut rest).await.unwrap().unwrap();
        assert_eq!(first.frame_type, FrameType::Answer);
        assert_eq!((first.correlation, first.group, first.message.kind), (9, GroupId(11), 7));
        assert_eq!(&first.message.head[..], b"head");
        assert_eq!(first.message.body.concat(), b"onetwo");
        assert!(read(&mut rest).await.unwrap().unwrap().message.body.concat().is_empty());
        assert!(read(&mut rest).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_frame_that_contradicts_itself_is_refused() {
        let mut good = Vec::new();
        write(&mut good, frame(&[b"body"])).await.unwrap();
        let with = |at: usize, byte: u8| {
            let mut bad = good.clone();
            bad[at] = byte;
            bad
        };
        // Too long, too short, of no type, a head longer than the frame, cut off.
        let bad = [with(0, 0x7f), vec![0, 0, 0, 3, 0, 0, 0], with(4, 9), with(22, 0x7f)];
        for bad in bad.iter().map(Vec::as_slice).chain([&good[..good.len() - 1]]) {
            assert!(read(&mut &bad[..]).await.is_err(), "{bad:?}");
        }
    }
}
