//! The four codecs, used only where a batch must be looked into or rebuilt: validation, time
//! look-up, compaction, recompression. Decompression is bounded by its caller.
//!
//! Pure: no I/O, no clock, no randomness.

use std::io::{BufRead, BufReader, Read, Write};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::record_batch::BatchError;

/// How a batch's body is compressed, as attribute bits 0 to 2 say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Codec {
    /// Not at all.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy, in the framing of xerial's library or bare.
    Snappy,
    /// LZ4's frame format.
    Lz4,
    /// Zstandard; only from Produce v7 and Fetch v10 on.
    Zstd,
}

impl Codec {
    /// All codecs, in the order of their ids.
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    /// The attribute bits.
    #[must_use]
    pub fn id(self) -> i8 {
        match self {
            Codec::None => 0,
            Codec::Gzip => 1,
            Codec::Snappy => 2,
            Codec::Lz4 => 3,
            Codec::Zstd => 4,
        }
    }

    /// The codec of those attribute bits.
    #[must_use]
    pub fn from_id(id: i8) -> Option<Codec> {
        Self::ALL.into_iter().find(|codec| codec.id() == id)
    }

    /// Its name in configurations and tools.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// The codec of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Codec> {
        Self::ALL.into_iter().find(|codec| codec.name() == name)
    }
}

/// The start of a stream of xerial's snappy library, which Java clients write: these eight bytes
/// and two version numbers, then blocks with a length each.
const XERIAL_MAGIC: &[u8] = b"\x82SNAPPY\0";
const XERIAL_HEADER_LEN: usize = 16;
const XERIAL_BLOCK_BYTES: usize = 32 * 1024;

/// What a stream being decompressed holds at a time, beside the codec's own window.
const STREAM_BUFFER_BYTES: usize = 32 * 1024;

/// Compresses a body.
pub fn compress(codec: Codec, body: Bytes) -> Result<Bytes, BatchError> {
    match codec {
        Codec::None => Ok(body),
        Codec::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(
                BytesMut::with_capacity(body.len() / 2).writer(),
                flate2::Compression::default(),
            );
            encoder.write_all(&body).map_err(failed)?;
            Ok(encoder.finish().map_err(failed)?.into_inner().freeze())
        }
        Codec::Snappy => compress_xerial(&body),
        Codec::Lz4 => {
            let info = lz4_flex::frame::FrameInfo::new()
                .block_size(lz4_flex::frame::BlockSize::Max64KB)
                .block_mode(lz4_flex::frame::BlockMode::Independent);
            let out = BytesMut::with_capacity(body.len() / 2).writer();
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, out);
            encoder.write_all(&body).map_err(failed)?;
            Ok(encoder.finish().map_err(failed)?.into_inner().freeze())
        }
        Codec::Zstd => Ok(zstd::stream::encode_all(&body[..], 3).map_err(failed)?.into()),
    }
}

/// Decompresses a body into at most `limit_bytes`; an uncompressed one is passed on by reference.
pub fn decompress(codec: Codec, body: &Bytes, limit_bytes: usize) -> Result<Bytes, BatchError> {
    match codec {
        Codec::None if body.len() > limit_bytes => Err(BatchError::TooLarge { limit_bytes }),
        Codec::None => Ok(body.clone()),
        Codec::Gzip => read_bounded(flate2::bufread::MultiGzDecoder::new(&body[..]), limit_bytes),
        Codec::Snappy => decompress_snappy(body, limit_bytes),
        Codec::Lz4 => read_bounded(lz4_flex::frame::FrameDecoder::new(&body[..]), limit_bytes),
        Codec::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(&body[..]).map_err(failed)?;
            read_bounded(decoder, limit_bytes)
        }
    }
}

/// The decompressed body as a stream, of which one buffer is held at a time. The caller stops
/// reading when it has had enough; only snappy, whose blocks have no bound but which grows little,
/// is held to `limit_bytes` here.
pub(crate) fn stream<'a>(
    codec: Codec,
    body: &'a Bytes,
    limit_bytes: usize,
) -> Result<Box<dyn BufRead + 'a>, BatchError> {
    Ok(match codec {
        Codec::None => Box::new(&body[..]),
        Codec::Gzip => buffered(flate2::bufread::MultiGzDecoder::new(&body[..])),
        Codec::Snappy => Box::new(decompress_snappy(body, limit_bytes)?.reader()),
        Codec::Lz4 => buffered(lz4_flex::frame::FrameDecoder::new(&body[..])),
        Codec::Zstd => {
            buffered(zstd::stream::read::Decoder::with_buffer(&body[..]).map_err(failed)?)
        }
    })
}

fn buffered<'a>(reader: impl Read + 'a) -> Box<dyn BufRead + 'a> {
    Box::new(BufReader::with_capacity(STREAM_BUFFER_BYTES, reader))
}

/// Reads to the end, growing with what really arrives: a small body that claims to be huge costs
/// what it yields, and no more than the limit.
fn read_bounded(reader: impl Read, limit_bytes: usize) -> Result<Bytes, BatchError> {
    let mut out = Vec::new();
    let allowed = u64::try_from(limit_bytes).unwrap_or(u64::MAX).saturating_add(1);
    reader.take(allowed).read_to_end(&mut out).map_err(failed)?;
    if out.len() > limit_bytes {
        return Err(BatchError::TooLarge { limit_bytes });
    }
    Ok(out.into())
}

fn compress_xerial(body: &[u8]) -> Result<Bytes, BatchError> {
    let mut out = BytesMut::with_capacity(XERIAL_HEADER_LEN + body.len() / 2);
    out.put_slice(XERIAL_MAGIC);
    out.put_i32(1);
    out.put_i32(1);
    let mut encoder = snap::raw::Encoder::new();
    for block in body.chunks(XERIAL_BLOCK_BYTES) {
        let compressed = encoder.compress_vec(block).map_err(failed)?;
        out.put_u32(compressed.len() as u32);
        out.put_slice(&compressed);
    }
    Ok(out.freeze())
}

fn decompress_snappy(body: &[u8], limit_bytes: usize) -> Result<Bytes, BatchError> {
    let mut out = Vec::new();
    if !body.starts_with(XERIAL_MAGIC) {
        append_snappy_block(body, limit_bytes, &mut out)?;
        return Ok(out.into());
    }
    let Some(mut rest) = body.get(XERIAL_HEADER_LEN..) else {
        return Err(failed("the snappy stream's header is cut short"));
    };
    while !rest.is_empty() {
        let block = rest.split_first_chunk::<4>().and_then(|(length, tail)| {
            let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
            tail.split_at_checked(length)
        });
        let Some((block, tail)) = block else {
            return Err(failed("a snappy block is cut short"));
        };
        append_snappy_block(block, limit_bytes, &mut out)?;
        rest = tail;
    }
    Ok(out.into())
}

fn append_snappy_block(
    block: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), BatchError> {
    let length = snap::raw::decompress_len(block).map_err(failed)?;
    let end = out.len().saturating_add(length);
    if end > limit_bytes {
        return Err(BatchError::TooLarge { limit_bytes });
    }
    let start = out.len();
    out.resize(end, 0);
    snap::raw::Decoder::new().decompress(block, &mut out[start..]).map_err(failed)?;
    Ok(())
}

fn failed(error: impl std::fmt::Display) -> BatchError {
    BatchError::Compression(error.to_string())
}
