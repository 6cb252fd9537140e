//! Reading and writing the primitive types of Kafka's schemas, in their plain and their flexible
//! form. What does not decode is an error, whatever the bytes; nothing is reserved by a length
//! before the bytes are there.
//!
//! Pure: no I/O, no clock, no randomness.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use uuid::Uuid;

/// Why a record does not decode.
pub(super) type DecodeResult<T> = Result<T, String>;

/// Bytes being read; `flexible` says how lengths are written (KIP-482).
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    flexible: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn plain(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, flexible: false }
    }

    pub(super) fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    fn take(&mut self, len: usize) -> DecodeResult<&'a [u8]> {
        if len > self.rest.len() {
            return Err(format!("{len} bytes expected, {} left", self.rest.len()));
        }
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> DecodeResult<[u8; N]> {
        let bytes = self.take(N)?;
        let mut array = [0; N];
        array.copy_from_slice(bytes);
        Ok(array)
    }

    pub(super) fn i8(&mut self) -> DecodeResult<i8> {
        Ok(i8::from_be_bytes(self.array()?))
    }

    pub(super) fn i16(&mut self) -> DecodeResult<i16> {
        Ok(i16::from_be_bytes(self.array()?))
    }

    pub(super) fn i32(&mut self) -> DecodeResult<i32> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    pub(super) fn i64(&mut self) -> DecodeResult<i64> {
        Ok(i64::from_be_bytes(self.array()?))
    }

    pub(super) fn uuid(&mut self) -> DecodeResult<Uuid> {
        Ok(Uuid::from_bytes(self.array()?))
    }

    fn unsigned_varint(&mut self) -> DecodeResult<u32> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| "a varint is too large".to_owned());
            }
        }
        Err("a varint does not end".to_owned())
    }

    /// A length or count; `None` for null.
    fn len(
        &mut self,
        plain: impl Fn(&mut Self) -> DecodeResult<i64>,
    ) -> DecodeResult<Option<usize>> {
        let len = match self.flexible {
            true => i64::from(self.unsigned_varint()?) - 1,
            false => plain(self)?,
        };
        match len {
            -1 => Ok(None),
            len => usize::try_from(len).map(Some).map_err(|_| format!("a length of {len}")),
        }
    }

    pub(super) fn nullable_string(&mut self) -> DecodeResult<Option<String>> {
        let Some(len) = self.len(|reader| reader.i16().map(i64::from))? else { return Ok(None) };
        let text = std::str::from_utf8(self.take(len)?).map_err(|_| "text is not UTF-8")?;
        Ok(Some(text.to_owned()))
    }

    pub(super) fn string(&mut self) -> DecodeResult<String> {
        self.nullable_string()?.ok_or_else(|| "a text is missing".to_owned())
    }

    /// A name that is shared.
    pub(super) fn name(&mut self) -> DecodeResult<Arc<str>> {
        self.string().map(Arc::from)
    }

    pub(super) fn bytes(&mut self) -> DecodeResult<Bytes> {
        let len = self.len(|reader| reader.i32().map(i64::from))?.ok_or("bytes are missing")?;
        Ok(Bytes::copy_from_slice(self.take(len)?))
    }

    pub(super) fn nullable_vec<T>(
        &mut self,
        element: impl Fn(&mut Self) -> DecodeResult<T>,
    ) -> DecodeResult<Option<Vec<T>>> {
        let Some(count) = self.len(|reader| reader.i32().map(i64::from))? else { return Ok(None) };
        let mut elements = Vec::with_capacity(count.min(self.rest.len()).min(64));
        for _ in 0..count {
            // An element of no bytes would let a count alone fill the memory.
            if self.rest.is_empty() {
                return Err(format!("{count} elements expected"));
            }
            elements.push(element(self)?);
        }
        Ok(Some(elements))
    }

    pub(super) fn vec<T>(
        &mut self,
        element: impl Fn(&mut Self) -> DecodeResult<T>,
    ) -> DecodeResult<Vec<T>> {
        self.nullable_vec(element)?.ok_or_else(|| "an array is missing".to_owned())
    }

    /// The tagged fields that end a flexible structure: `known` gets each tag with its bytes.
    pub(super) fn tagged(
        &mut self,
        mut known: impl FnMut(u32, &mut Reader<'a>) -> DecodeResult<()>,
    ) -> DecodeResult<()> {
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            let len = self.unsigned_varint()? as usize;
            let mut field = Reader { rest: self.take(len)?, flexible: true };
            known(tag, &mut field)?;
        }
        Ok(())
    }

    /// Tagged fields of which none is known.
    pub(super) fn no_tagged(&mut self) -> DecodeResult<()> {
        self.tagged(|_, _| Ok(()))
    }
}

/// Bytes being written.
pub(super) struct Writer {
    out: BytesMut,
    flexible: bool,
}

impl Writer {
    /// Begins with the schema's version, as every key and value does.
    pub(super) fn plain(version: i16) -> Self {
        Self::begin(version, false)
    }

    pub(super) fn flexible(version: i16) -> Self {
        Self::begin(version, true)
    }

    fn begin(version: i16, flexible: bool) -> Self {
        let mut out = BytesMut::with_capacity(64);
        out.put_i16(version);
        Self { out, flexible }
    }

    pub(super) fn finish(self) -> Bytes {
        self.out.freeze()
    }

    pub(super) fn i8(&mut self, value: i8) {
        self.out.put_i8(value);
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    pub(super) fn uuid(&mut self, value: Uuid) {
        self.out.put_slice(value.as_bytes());
    }

    fn unsigned_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.out.put_u8(value as u8);
    }

    fn compact_len(&mut self, len: usize) {
        self.unsigned_varint(u32::try_from(len + 1).expect("a length fits 31 bits"));
    }

    pub(super) fn nullable_string(&mut self, text: Option<&str>) {
        match (text, self.flexible) {
            (None, true) => self.unsigned_varint(0),
            (None, false) => self.out.put_i16(-1),
            (Some(text), true) => self.compact_len(text.len()),
            (Some(text), false) => {
                self.out.put_i16(i16::try_from(text.len()).expect("checked where it came in"));
            }
        }
        self.out.put_slice(text.unwrap_or_default().as_bytes());
    }

    pub(super) fn string(&mut self, text: &str) {
        self.nullable_string(Some(text));
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.out.put_slice(bytes);
    }

    /// The length of bytes or the count of an array.
    fn count(&mut self, count: usize) {
        match self.flexible {
            true => self.compact_len(count),
            false => self.out.put_i32(i32::try_from(count).expect("a count fits 31 bits")),
        }
    }

    pub(super) fn vec<T>(
        &mut self,
        elements: impl ExactSizeIterator<Item = T>,
        mut element: impl FnMut(&mut Self, T),
    ) {
        self.count(elements.len());
        for one in elements {
            element(self, one);
        }
    }

    /// Ends a flexible structure without tagged fields.
    pub(super) fn no_tagged(&mut self) {
        self.out.put_u8(0);
    }

    /// Ends a flexible structure with one tagged field, tag 0.
    pub(super) fn tagged(&mut self, field: impl FnOnce(&mut Self)) {
        let mut inner = Writer { out: BytesMut::new(), flexible: true };
        field(&mut inner);
        self.unsigned_varint(1);
        self.unsigned_varint(0);
        self.unsigned_varint(u32::try_from(inner.out.len()).expect("a field fits 31 bits"));
        self.out.put_slice(&inner.out);
    }
}
