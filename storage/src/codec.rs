//! Variable-length integers and little helpers for the rows and payloads of this crate.
//!
//! Pure: no I/O, no clock, no randomness. Reading never panics: what is missing is `None`.

/// Writes an unsigned integer, seven bits a byte, low bits first.
pub(crate) fn put_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a signed integer, small magnitudes short (zigzag).
pub(crate) fn put_i64(out: &mut Vec<u8>, value: i64) {
    put_u64(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Writes a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads what the `put_*` functions wrote.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        u32::try_from(self.u64()?).ok()
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        let raw = self.u64()?;
        Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u64()?).ok()?;
        let (first, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(first)
    }

    /// A count of things of which each takes a byte at least, so that a damaged count cannot make
    /// the caller reserve more than there are bytes.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.u64()?).ok()?;
        (count <= self.bytes.len()).then_some(count)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back() {
        for value in [0, 1, -1, 63, 64, -64, -65, 300, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_i64(&mut out, value);
            put_u64(&mut out, value as u64);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.i64(), Some(value));
            assert_eq!(reader.u64(), Some(value as u64));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn a_cut_or_endless_integer_is_none() {
        assert_eq!(Reader::new(&[0x80]).u64(), None);
        assert_eq!(Reader::new(&[0xff; 12]).u64(), None);
        assert_eq!(Reader::new(&[5, 1, 2]).bytes(), None);
        assert_eq!(Reader::new(&[5, 1, 2]).count(), None);
    }
}
