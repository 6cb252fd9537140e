//! Pure: producer state as bytes and back.
//!
//! ```text
//! version: u8 = 1   count   then `count` producers, by ascending id:
//!   producer_id   epoch   last_timestamp   flags: u8 = batches | OPEN_TRANSACTION
//!   [open_transaction: its first offset]
//!   batches * { base_offset   last_offset - base_offset   first_sequence   last_sequence
//!               timestamp - last_timestamp }
//! ```
//! All numbers but the two bytes are variable-length and zigzag coded: a producer with one batch
//! takes about 25 bytes.

use bytes::Bytes;
use protocol::types::{Offset, ProducerEpoch, ProducerId, Timestamp};

use super::{BatchMetadata, Producer, ProducerState, RETAINED_BATCHES, RecentBatches};
use crate::StorageError;

const VERSION: u8 = 1;
const OPEN_TRANSACTION: u8 = 0x80;

pub(super) fn encode(state: &ProducerState) -> Bytes {
    let mut out = vec![VERSION];
    put(&mut out, i64::try_from(state.producers.len()).unwrap_or(i64::MAX));
    for (id, producer) in &state.producers {
        put(&mut out, id.0);
        put(&mut out, producer.epoch.0.into());
        put(&mut out, producer.last_timestamp.0);
        let flag = if producer.open_transaction.is_some() { OPEN_TRANSACTION } else { 0 };
        out.push(flag | u8::try_from(producer.batches.count).unwrap_or(0));
        if let Some(first_offset) = producer.open_transaction {
            put(&mut out, first_offset.0);
        }
        for batch in producer.batches.iter() {
            put(&mut out, batch.base_offset.0);
            put(&mut out, batch.last_offset.0.wrapping_sub(batch.base_offset.0));
            put(&mut out, batch.first_sequence.into());
            put(&mut out, batch.last_sequence.into());
            put(&mut out, batch.timestamp.0.wrapping_sub(producer.last_timestamp.0));
        }
    }
    out.into()
}

pub(super) fn decode(bytes: &[u8]) -> Result<ProducerState, StorageError> {
    let mut input = Input(bytes);
    if input.byte()? != VERSION {
        return Err(corrupt("unknown version"));
    }
    let mut state = ProducerState::default();
    let mut previous_id = ProducerId::NONE;
    for _ in 0..input.number::<u64>()? {
        let (id, producer) = decode_producer(&mut input)?;
        if id <= previous_id {
            return Err(corrupt("producer ids do not ascend"));
        }
        previous_id = id;
        if let Some(first_offset) = producer.open_transaction {
            state.open_transactions.insert((first_offset, id));
        }
        state.producers.insert(id, producer);
    }
    if input.0.is_empty() { Ok(state) } else { Err(corrupt("bytes behind the last producer")) }
}

fn decode_producer(input: &mut Input<'_>) -> Result<(ProducerId, Producer), StorageError> {
    let id = ProducerId(input.number()?);
    let epoch = ProducerEpoch(input.number()?);
    let last_timestamp = Timestamp(input.number()?);
    let flags = input.byte()?;
    let open_transaction = match flags & OPEN_TRANSACTION {
        0 => None,
        _ => Some(Offset(input.number()?)),
    };
    let count = usize::from(flags & !OPEN_TRANSACTION);
    if count > RETAINED_BATCHES {
        return Err(corrupt("more batches than are retained"));
    }
    let mut batches = RecentBatches::default();
    for _ in 0..count {
        let base_offset: i64 = input.number()?;
        batches.push(BatchMetadata {
            base_offset: Offset(base_offset),
            last_offset: Offset(base_offset.wrapping_add(input.number()?)),
            first_sequence: input.number()?,
            last_sequence: input.number()?,
            timestamp: Timestamp(last_timestamp.0.wrapping_add(input.number()?)),
        });
    }
    Ok((id, Producer { epoch, last_timestamp, open_transaction, batches }))
}

fn put(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, StorageError> {
        let (first, rest) = self.0.split_first().ok_or_else(|| corrupt("cut short"))?;
        self.0 = rest;
        Ok(*first)
    }

    /// The next number, which has to fit the type it is read as.
    fn number<T: TryFrom<i64>>(&mut self) -> Result<T, StorageError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits.leading_zeros() < shift {
                return Err(corrupt("number too large"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                let signed = (value >> 1).cast_signed() ^ -(value & 1).cast_signed();
                return T::try_from(signed).map_err(|_| corrupt("number out of range"));
            }
        }
        Err(corrupt("number too long"))
    }
}

fn corrupt(what: &str) -> StorageError {
    StorageError::Corrupt(format!("producer state: {what}"))
}
