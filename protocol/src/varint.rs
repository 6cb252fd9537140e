//! Zig-zag varints and unsigned varints, as Kafka's `ByteUtils` writes them.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::{BufMut, BytesMut};

/// Bytes of the longest varint of 32 bits.
const MAX_LEN_32: usize = 5;
/// Bytes of the longest varint of 64 bits.
const MAX_LEN_64: usize = 10;

/// Reads an unsigned varint; `None` if it does not end or does not fit.
#[inline]
pub(crate) fn read_unsigned(bytes: &[u8]) -> Option<(u64, usize)> {
    match *bytes {
        [byte, ..] if byte < 0x80 => Some((u64::from(byte), 1)),
        [low, high, ..] if high < 0x80 => Some((u64::from(low & 0x7f) | u64::from(high) << 7, 2)),
        _ => read_longer(bytes),
    }
}

/// Lengths and deltas are rarely beyond two bytes.
fn read_longer(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(MAX_LEN_64).enumerate() {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * i as u32;
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Reads a zig-zag varint of 32 bits.
#[inline]
pub(crate) fn read_i32(bytes: &[u8]) -> Option<(i32, usize)> {
    let (raw, len) = read_unsigned(bytes)?;
    let raw = u32::try_from(raw).ok().filter(|_| len <= MAX_LEN_32)?;
    Some((((raw >> 1) as i32) ^ -((raw & 1) as i32), len))
}

/// Reads a zig-zag varint of 64 bits.
#[inline]
pub(crate) fn read_i64(bytes: &[u8]) -> Option<(i64, usize)> {
    let (raw, len) = read_unsigned(bytes)?;
    Some((((raw >> 1) as i64) ^ -((raw & 1) as i64), len))
}

/// Writes an unsigned varint.
pub(crate) fn put_unsigned(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Writes a zig-zag varint; those of 32 and of 64 bits look alike.
pub(crate) fn put_signed(out: &mut BytesMut, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Bytes that [`put_signed`] writes.
pub(crate) fn signed_len(value: i64) -> usize {
    unsigned_len(((value << 1) ^ (value >> 63)) as u64)
}

/// Bytes that [`put_unsigned`] writes.
pub(crate) fn unsigned_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in any::<i64>()) {
            let mut out = BytesMut::new();
            put_signed(&mut out, value);
            prop_assert_eq!(out.len(), signed_len(value));
            prop_assert_eq!(read_i64(&out), Some((value, out.len())));
            let small = i32::try_from(value).ok();
            prop_assert_eq!(read_i32(&out).map(|(v, _)| v), small);
        }

        #[test]
        fn small_values_are_read_back(value in any::<i32>()) {
            let mut out = BytesMut::new();
            put_signed(&mut out, i64::from(value));
            prop_assert_eq!(read_i32(&out), Some((value, out.len())));
        }
    }

    #[test]
    fn an_endless_varint_is_refused() {
        assert_eq!(read_unsigned(&[0xff; 20]), None);
        assert_eq!(read_unsigned(&[0x80, 0x80]), None);
        assert_eq!(read_i32(&[0xff, 0xff, 0xff, 0xff, 0x7f]), None);
    }
}
