//! A fetch response around its records: everything but the record bytes, which go to the socket
//! from where they are.
//!
//! `kafka-protocol` copies the records into its output; this encoder writes the same bytes and
//! leaves gaps. The structs without records are encoded by the library.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::fetch_response::{
    EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
    SnapshotId,
};
use kafka_protocol::messages::{ApiKey, FetchResponse};
use kafka_protocol::protocol::Encodable;

use crate::header;
use crate::response::{self, EncodeError};
use crate::varint;

/// The versions that can be encoded.
pub const FETCH_VERSIONS: RangeInclusive<i16> = 4..=18;

/// First version with compact lengths and tagged fields.
const FLEXIBLE_FROM: i16 = 12;
/// First version with topic ids instead of names.
const TOPIC_IDS_FROM: i16 = 13;
/// First version with the endpoints of new leaders (KIP-951).
const NODE_ENDPOINTS_FROM: i16 = 16;

/// A piece of a frame, in the order of the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FramePart {
    /// These bytes.
    Bytes(Bytes),
    /// The records of this partition: as many bytes as was said when the frame was encoded.
    Records {
        /// Index in `FetchResponse::responses`.
        topic_index: usize,
        /// Index in that topic's `partitions`.
        partition_index: usize,
    },
}

/// A frame in pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchFrame {
    /// The pieces. None of them is empty.
    pub parts: Vec<FramePart>,
    /// Bytes of the frame with its records and the length in front.
    pub total_bytes: usize,
}

/// Encodes `response` around gaps for its records, the frame's length in front.
///
/// `records_bytes` says how many bytes of records a partition has, by the index of its topic and
/// its own index in that topic: `None` for null, `Some(0)` for none. The `records` of `response`
/// itself must be null or empty.
pub fn encode_fetch_response(
    api_version: i16,
    correlation_id: i32,
    response: &FetchResponse,
    records_bytes: impl Fn(usize, usize) -> Option<usize>,
) -> Result<FetchFrame, EncodeError> {
    if !FETCH_VERSIONS.contains(&api_version) {
        return Err(EncodeError::Unencodable(format!("no version {api_version} of Fetch")));
    }
    let out = BytesMut::with_capacity(256);
    let mut writer = Writer { out, api_version, gaps: Vec::new() };
    writer.out.put_i32(0);
    let header_version = header::response_header_version(ApiKey::Fetch, api_version);
    header::write_response_head(&mut writer.out, correlation_id, header_version);
    writer.put_response(response, records_bytes)?;
    writer.finish()
}

/// Where records belong: behind so many bytes of what is written.
struct Gap {
    at: usize,
    bytes: usize,
    topic_index: usize,
    partition_index: usize,
}

struct Writer {
    out: BytesMut,
    api_version: i16,
    gaps: Vec<Gap>,
}

impl Writer {
    fn put_response(
        &mut self,
        response: &FetchResponse,
        records_bytes: impl Fn(usize, usize) -> Option<usize>,
    ) -> Result<(), EncodeError> {
        self.out.put_i32(response.throttle_time_ms);
        if self.api_version >= 7 {
            self.out.put_i16(response.error_code);
            self.out.put_i32(response.session_id);
        } else if response.session_id != 0 {
            return Err(not_in_version("session_id"));
        }
        self.put_array_len(Some(response.responses.len()))?;
        for (topic_index, topic) in response.responses.iter().enumerate() {
            self.put_topic(topic, |partition_index, writer| {
                let bytes = records_bytes(topic_index, partition_index);
                writer.put_gap(topic_index, partition_index, bytes)
            })?;
        }
        let endpoints = self.node_endpoints(&response.node_endpoints)?;
        self.put_tagged(endpoints.into_iter().collect(), &response.unknown_tagged_fields)
    }

    fn node_endpoints(
        &mut self,
        endpoints: &[NodeEndpoint],
    ) -> Result<Option<(u32, BytesMut)>, EncodeError> {
        if endpoints.is_empty() || self.api_version < NODE_ENDPOINTS_FROM {
            return Ok(None);
        }
        let mut field = BytesMut::new();
        varint::put_unsigned(&mut field, endpoints.len() as u64 + 1);
        for endpoint in endpoints {
            endpoint.encode(&mut field, self.api_version).map_err(unencodable)?;
        }
        Ok(Some((0, field)))
    }

    fn put_topic(
        &mut self,
        topic: &FetchableTopicResponse,
        put_records: impl Fn(usize, &mut Writer) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        if self.api_version >= TOPIC_IDS_FROM {
            self.out.put_slice(topic.topic_id.as_bytes());
        } else {
            self.put_name(topic.topic.as_bytes())?;
        }
        self.put_array_len(Some(topic.partitions.len()))?;
        for (partition_index, partition) in topic.partitions.iter().enumerate() {
            self.put_partition(partition, |writer| put_records(partition_index, writer))?;
        }
        self.put_tagged(Vec::new(), &topic.unknown_tagged_fields)
    }

    fn put_partition(
        &mut self,
        partition: &PartitionData,
        put_records: impl FnOnce(&mut Writer) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        if partition.records.as_ref().is_some_and(|records| !records.is_empty()) {
            let what = "records are given by their length, not in the response".to_owned();
            return Err(EncodeError::Unencodable(what));
        }
        self.out.put_i32(partition.partition_index);
        self.out.put_i16(partition.error_code);
        self.out.put_i64(partition.high_watermark);
        self.out.put_i64(partition.last_stable_offset);
        if self.api_version >= 5 {
            self.out.put_i64(partition.log_start_offset);
        }
        let aborted = partition.aborted_transactions.as_deref();
        self.put_array_len(aborted.map(<[_]>::len))?;
        for transaction in aborted.unwrap_or_default() {
            transaction.encode(&mut self.out, self.api_version).map_err(unencodable)?;
        }
        if self.api_version >= 11 {
            self.out.put_i32(partition.preferred_read_replica.0);
        } else if partition.preferred_read_replica.0 != -1 {
            return Err(not_in_version("preferred_read_replica"));
        }
        put_records(self)?;
        let mut tagged = Vec::new();
        if self.api_version >= FLEXIBLE_FROM {
            self.add_if_set(
                &mut tagged,
                0,
                &partition.diverging_epoch,
                &EpochEndOffset::default(),
            )?;
            self.add_if_set(
                &mut tagged,
                1,
                &partition.current_leader,
                &LeaderIdAndEpoch::default(),
            )?;
            self.add_if_set(&mut tagged, 2, &partition.snapshot_id, &SnapshotId::default())?;
        }
        self.put_tagged(tagged, &partition.unknown_tagged_fields)
    }

    fn add_if_set<T: Encodable + PartialEq>(
        &self,
        tagged: &mut Vec<(u32, BytesMut)>,
        tag: u32,
        value: &T,
        default: &T,
    ) -> Result<(), EncodeError> {
        if value != default {
            let mut field = BytesMut::new();
            value.encode(&mut field, self.api_version).map_err(unencodable)?;
            tagged.push((tag, field));
        }
        Ok(())
    }

    /// The length of the records, which themselves stay away.
    fn put_gap(
        &mut self,
        topic_index: usize,
        partition_index: usize,
        bytes: Option<usize>,
    ) -> Result<(), EncodeError> {
        self.put_array_len(bytes)?;
        if let Some(bytes) = bytes.filter(|&bytes| bytes > 0) {
            let at = self.out.len();
            self.gaps.push(Gap { at, bytes, topic_index, partition_index });
        }
        Ok(())
    }

    /// Lengths of arrays and of bytes look alike, null included.
    fn put_array_len(&mut self, len: Option<usize>) -> Result<(), EncodeError> {
        let length = len.map_or(Ok(-1), i32::try_from);
        let length =
            length.map_err(|_| EncodeError::TooLarge { length_bytes: len.unwrap_or_default() })?;
        if self.api_version >= FLEXIBLE_FROM {
            varint::put_unsigned(&mut self.out, (i64::from(length) + 1) as u64);
        } else {
            self.out.put_i32(length);
        }
        Ok(())
    }

    fn put_name(&mut self, name: &[u8]) -> Result<(), EncodeError> {
        let length = i16::try_from(name.len())
            .map_err(|_| EncodeError::Unencodable("a topic's name is too long".to_owned()))?;
        if self.api_version >= FLEXIBLE_FROM {
            varint::put_unsigned(&mut self.out, name.len() as u64 + 1);
        } else {
            self.out.put_i16(length);
        }
        self.out.put_slice(name);
        Ok(())
    }

    fn put_tagged(
        &mut self,
        known: Vec<(u32, BytesMut)>,
        unknown: &BTreeMap<i32, Bytes>,
    ) -> Result<(), EncodeError> {
        if self.api_version < FLEXIBLE_FROM {
            return Ok(());
        }
        varint::put_unsigned(&mut self.out, (known.len() + unknown.len()) as u64);
        let unknown = unknown.iter().map(|(&tag, field)| (tag as u32, &field[..]));
        for (tag, field) in known.iter().map(|(tag, field)| (*tag, &field[..])).chain(unknown) {
            varint::put_unsigned(&mut self.out, u64::from(tag));
            varint::put_unsigned(&mut self.out, field.len() as u64);
            self.out.put_slice(field);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<FetchFrame, EncodeError> {
        let records_bytes = self.gaps.iter().map(|gap| gap.bytes).sum();
        let total_bytes = response::set_length(&mut self.out, records_bytes)?;
        let mut rest = self.out.freeze();
        let mut parts = Vec::with_capacity(2 * self.gaps.len() + 1);
        let mut written = 0;
        for Gap { at, topic_index, partition_index, .. } in self.gaps {
            parts.push(FramePart::Bytes(rest.split_to(at - written)));
            parts.push(FramePart::Records { topic_index, partition_index });
            written = at;
        }
        if !rest.is_empty() {
            parts.push(FramePart::Bytes(rest));
        }
        Ok(FetchFrame { parts, total_bytes })
    }
}

fn not_in_version(field: &str) -> EncodeError {
    EncodeError::Unencodable(format!("{field} is set, which this version does not have"))
}

fn unencodable(error: impl std::fmt::Display) -> EncodeError {
    EncodeError::Unencodable(error.to_string())
}

#[cfg(test)]
mod tests;
