//! What the members of a classic consumer group tell each other through the broker: the
//! subscription in a JoinGroup's metadata and the assignment in a SyncGroup (Kafka:
//! `ConsumerProtocolSubscription`, `ConsumerProtocolAssignment`).
//!
//! The broker passes these bytes on untouched; it reads them only to show and to watch a group, and
//! to migrate it (KIP-848). A version later than ours is read as ours, as Kafka does.
//!
//! Pure: no I/O, no clock, no randomness.

use bytes::{BufMut, Bytes, BytesMut};
use nom::bytes::complete::take;
use nom::combinator::{map_opt, map_res, verify};
use nom::multi::count;
use nom::number::complete::{be_i16, be_i32};
use nom::{IResult, Parser};

/// The bytes are not what their version says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the embedded consumer protocol")]
pub struct ConsumerProtocolError;

/// Partitions of one topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPartitions {
    /// The topic's name.
    pub topic: String,
    /// Its partitions.
    pub partitions: Vec<i32>,
}

/// What a member wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// As written; 3 is the latest known.
    pub version: i16,
    /// Topics it wants partitions of.
    pub topics: Vec<String>,
    /// For its assignor.
    pub user_data: Option<Bytes>,
    /// What it holds now; from version 1 on.
    pub owned_partitions: Vec<TopicPartitions>,
    /// The generation it holds that since, or -1; from version 2 on.
    pub generation_id: i32,
    /// Where it runs; from version 3 on.
    pub rack_id: Option<String>,
}

/// What a member gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// As written; 3 is the latest known.
    pub version: i16,
    /// Its partitions.
    pub assigned_partitions: Vec<TopicPartitions>,
    /// For its assignor.
    pub user_data: Option<Bytes>,
}

impl Subscription {
    /// Reads a subscription; bytes behind it are ignored.
    pub fn decode(bytes: &[u8]) -> Result<Subscription, ConsumerProtocolError> {
        let (_, subscription) = subscription(bytes).map_err(|_| ConsumerProtocolError)?;
        Ok(subscription)
    }

    /// Writes the fields that its version has.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i16(self.version);
        put_len(&mut out, self.topics.len());
        for topic in &self.topics {
            put_string(&mut out, topic);
        }
        put_nullable_bytes(&mut out, self.user_data.as_deref());
        if self.version >= 1 {
            put_topic_partitions(&mut out, &self.owned_partitions);
        }
        if self.version >= 2 {
            out.put_i32(self.generation_id);
        }
        if self.version >= 3 {
            match &self.rack_id {
                Some(rack_id) => put_string(&mut out, rack_id),
                None => out.put_i16(-1),
            }
        }
        out.freeze()
    }
}

impl Assignment {
    /// Reads an assignment; bytes behind it are ignored.
    pub fn decode(bytes: &[u8]) -> Result<Assignment, ConsumerProtocolError> {
        let (_, assignment) = assignment(bytes).map_err(|_| ConsumerProtocolError)?;
        Ok(assignment)
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_i16(self.version);
        put_topic_partitions(&mut out, &self.assigned_partitions);
        put_nullable_bytes(&mut out, self.user_data.as_deref());
        out.freeze()
    }
}

fn subscription(input: &[u8]) -> IResult<&[u8], Subscription> {
    let (input, version) = version(input)?;
    let (input, topics) = array(string, input)?;
    let (input, user_data) = nullable_bytes(input)?;
    let (input, owned_partitions) = match version {
        ..=0 => (input, Vec::new()),
        _ => array(topic_partitions, input)?,
    };
    let (input, generation_id) = match version {
        ..=1 => (input, -1),
        _ => be_i32(input)?,
    };
    let (input, rack_id) = match version {
        ..=2 => (input, None),
        _ => nullable_string(input)?,
    };
    let subscription =
        Subscription { version, topics, user_data, owned_partitions, generation_id, rack_id };
    Ok((input, subscription))
}

fn assignment(input: &[u8]) -> IResult<&[u8], Assignment> {
    let (input, version) = version(input)?;
    let (input, assigned_partitions) = array(topic_partitions, input)?;
    let (input, user_data) = nullable_bytes(input)?;
    Ok((input, Assignment { version, assigned_partitions, user_data }))
}

fn version(input: &[u8]) -> IResult<&[u8], i16> {
    verify(be_i16, |&version| version >= 0).parse(input)
}

fn topic_partitions(input: &[u8]) -> IResult<&[u8], TopicPartitions> {
    let (input, topic) = string(input)?;
    let (input, partitions) = array(be_i32, input)?;
    Ok((input, TopicPartitions { topic, partitions }))
}

/// A length and that many elements. `count` reserves little, whatever the length says.
fn array<'a, T>(
    element: impl Fn(&'a [u8]) -> IResult<&'a [u8], T>,
    input: &'a [u8],
) -> IResult<&'a [u8], Vec<T>> {
    let (input, len) = map_opt(be_i32, |len| usize::try_from(len).ok()).parse(input)?;
    count(element, len).parse(input)
}

fn string(input: &[u8]) -> IResult<&[u8], String> {
    let (input, len) = map_opt(be_i16, |len| usize::try_from(len).ok()).parse(input)?;
    utf8(len, input)
}

fn nullable_string(input: &[u8]) -> IResult<&[u8], Option<String>> {
    let (input, len) = be_i16(input)?;
    let Ok(len) = usize::try_from(len) else { return Ok((input, None)) };
    let (input, string) = utf8(len, input)?;
    Ok((input, Some(string)))
}

fn utf8(len: usize, input: &[u8]) -> IResult<&[u8], String> {
    map_res(take(len), |bytes: &[u8]| std::str::from_utf8(bytes).map(str::to_owned)).parse(input)
}

fn nullable_bytes(input: &[u8]) -> IResult<&[u8], Option<Bytes>> {
    let (input, len) = be_i32(input)?;
    let Ok(len) = usize::try_from(len) else { return Ok((input, None)) };
    let (input, bytes) = take(len).parse(input)?;
    Ok((input, Some(Bytes::copy_from_slice(bytes))))
}

fn put_topic_partitions(out: &mut BytesMut, all: &[TopicPartitions]) {
    put_len(out, all.len());
    for TopicPartitions { topic, partitions } in all {
        put_string(out, topic);
        put_len(out, partitions.len());
        for &partition in partitions {
            out.put_i32(partition);
        }
    }
}

fn put_len(out: &mut BytesMut, len: usize) {
    out.put_i32(i32::try_from(len).expect("fewer elements than an i32 can count"));
}

fn put_string(out: &mut BytesMut, string: &str) {
    let len = i16::try_from(string.len()).expect("names are shorter than 32 KiB");
    out.put_i16(len);
    out.put_slice(string.as_bytes());
}

fn put_nullable_bytes(out: &mut BytesMut, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_len(out, bytes.len());
            out.put_slice(bytes);
        }
        None => out.put_i32(-1),
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::ConsumerProtocolSubscription;
    use kafka_protocol::protocol::{Encodable, StrBytes};
    use proptest::prelude::*;

    use super::*;

    fn partitions() -> impl Strategy<Value = Vec<TopicPartitions>> {
        let one = ("[a-z]{0,9}", proptest::collection::vec(any::<i32>(), 0..5))
            .prop_map(|(topic, partitions)| TopicPartitions { topic, partitions });
        proptest::collection::vec(one, 0..4)
    }

    fn user_data() -> impl Strategy<Value = Option<Bytes>> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..9).prop_map(Bytes::from);
        proptest::option::of(bytes)
    }

    proptest! {
        #[test]
        fn subscriptions_are_read_back(
            version in 0..5i16,
            topics in proptest::collection::vec(".{0,9}", 0..4),
            user_data in user_data(),
            owned in partitions(),
            generation in any::<i32>(),
            rack in proptest::option::of(".{0,9}"),
        ) {
            let written = Subscription {
                version,
                topics,
                user_data,
                owned_partitions: if version >= 1 { owned } else { Vec::new() },
                generation_id: if version >= 2 { generation } else { -1 },
                rack_id: rack.filter(|_| version >= 3),
            };
            prop_assert_eq!(Subscription::decode(&written.encode()), Ok(written));
        }

        #[test]
        fn assignments_are_read_back(
            version in 0..5i16, assigned_partitions in partitions(), user_data in user_data(),
        ) {
            let written = Assignment { version, assigned_partitions, user_data };
            prop_assert_eq!(Assignment::decode(&written.encode()), Ok(written));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = 0;
            }
            let _ = Subscription::decode(&bytes);
            let _ = Assignment::decode(&bytes);
        }
    }

    #[test]
    fn the_library_writes_what_is_read_here() {
        let theirs = ConsumerProtocolSubscription::default()
            .with_topics(vec![StrBytes::from_static_str("orders")])
            .with_generation_id(4)
            .with_rack_id(Some(StrBytes::from_static_str("r1")));
        let mut bytes = BytesMut::new();
        bytes.put_i16(3);
        theirs.encode(&mut bytes, 3).unwrap();
        let read = Subscription::decode(&bytes).unwrap();
        assert_eq!(read.topics, ["orders"]);
        assert_eq!((read.generation_id, read.rack_id.as_deref()), (4, Some("r1")));
        assert_eq!(read.encode(), bytes);
    }

    #[test]
    fn a_huge_count_is_refused_at_once() {
        let bytes = [&[0, 1][..], &i32::MAX.to_be_bytes(), b"\0\x01x"].concat();
        assert_eq!(Subscription::decode(&bytes), Err(ConsumerProtocolError));
        assert_eq!(Subscription::decode(&[0xff, 0xff, 0, 0]), Err(ConsumerProtocolError));
    }
}
