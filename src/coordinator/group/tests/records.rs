//! Records as Kafka writes them, and bytes that are no record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use protocol::types::{LeaderEpoch, Offset, PartitionId, Timestamp, TopicId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::coordinator::group::GroupShard;
use crate::coordinator::group::event::{Client, JoinProtocol};
use crate::coordinator::group::record::{
    AssignmentMetadata, AssignmentState, BeforeRewind, ClassicMetadata, ClassicMetadataMember,
    ClassicProtocols, CommittedOffset, ConsumerMember, ConsumerMetadata, CurrentAssignment,
    GroupRecord, OwnedPartitions, Partitions, ResolvedRegex,
};
use crate::coordinator::shard::{KeyValue, Shard};

const GOLDEN: &str = include_str!("../testdata/records.hex");

fn golden() -> BTreeMap<&'static str, Bytes> {
    let lines = GOLDEN.lines().filter(|line| !line.starts_with('#'));
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    lines
        .map(|line| {
            let (name, hex) = line.split_once(' ').unwrap();
            (name, hex.as_bytes().chunks(2).map(byte).collect())
        })
        .collect()
}

/// The record behind a key and a value of Kafka's.
fn read(key: &str, value: &str) -> GroupRecord {
    let golden = golden();
    let record = KeyValue { key: golden[key].clone(), value: Some(golden[value].clone()) };
    GroupShard::decode(&record).unwrap().unwrap()
}

fn offset(expire_timestamp: Option<i64>, leader_epoch: i32) -> GroupRecord {
    GroupRecord::Offset {
        group_id: Arc::from("g"),
        topic: "orders".to_owned(),
        partition: PartitionId(7),
        value: Some(CommittedOffset {
            offset: Offset(42),
            leader_epoch: LeaderEpoch(leader_epoch),
            metadata: "note".to_owned(),
            commit_timestamp: Timestamp(1000),
            expire_timestamp: expire_timestamp.map(Timestamp),
        }),
    }
}

fn before_rewind(offset: Option<i64>) -> GroupRecord {
    GroupRecord::BeforeRewind {
        group_id: Arc::from("g"),
        topic: "orders".to_owned(),
        partition: PartitionId(7),
        value: Some(BeforeRewind {
            offset: offset.map(Offset),
            leader_epoch: LeaderEpoch(3),
            metadata: "note".to_owned(),
            rewind_timestamp: Timestamp(1000),
        }),
    }
}

/// Kafka has given out the numbers up to 20 or so, and leaves out keys of other numbers.
#[test]
fn what_is_kept_of_a_rewind_is_read_as_written_and_strange_to_kafka() {
    for offset in [None, Some(0), Some(i64::MAX)] {
        let record = before_rewind(offset);
        let bytes = GroupShard::encode(&record);
        assert_eq!(bytes.key[..2], *b"HW");
        assert_eq!(GroupShard::decode(&bytes), Ok(Some(record)));
    }
}

fn group(version: i32) -> GroupRecord {
    let member = ClassicMetadataMember {
        member_id: Arc::from("m"),
        group_instance_id: (version >= 3).then(|| "i".to_owned()),
        client: client(),
        rebalance_timeout_ms: if version >= 1 { 60_000 } else { 10_000 },
        session_timeout_ms: 10_000,
        subscription: Bytes::from_static(&[1, 2]),
        assignment: Bytes::from_static(&[3]),
    };
    let metadata = ClassicMetadata {
        protocol_type: "consumer".to_owned(),
        generation_id: 5,
        protocol_name: Some("range".to_owned()),
        leader: Some(Arc::from("m")),
        state_timestamp: (version >= 2).then_some(Timestamp(1234)),
        members: vec![member],
    };
    GroupRecord::Classic(Arc::from("g"), Some(metadata))
}

fn client() -> Client {
    Client { client_id: "c".to_owned(), client_host: "/h".to_owned() }
}

fn partitions(numbers: &[i32]) -> Partitions {
    let topic_id = TopicId(uuid::Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10));
    BTreeMap::from([(topic_id, numbers.iter().copied().map(PartitionId).collect())])
}

fn owned(partitions: &[(i32, i32)]) -> OwnedPartitions {
    let topic_id = TopicId(uuid::Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10));
    BTreeMap::from([(topic_id, partitions.iter().map(|&(p, e)| (PartitionId(p), e)).collect())])
}

fn consumer_member() -> ConsumerMember {
    ConsumerMember {
        instance_id: Some("i".to_owned()),
        rack_id: None,
        client: client(),
        subscribed_topic_names: vec!["orders".to_owned()],
        subscribed_topic_regex: Some("o.*".to_owned()),
        rebalance_timeout_ms: 300_000,
        server_assignor: Some("uniform".to_owned()),
        classic: None,
    }
}

/// What this Kafka version writes: read and written again, it is the same bytes.
#[test]
fn what_kafka_writes_is_what_is_written_here() {
    let (g, m) = (|| Arc::from("g"), || Arc::from("m"));
    let member = consumer_member();
    let protocol = JoinProtocol { name: "range".to_owned(), metadata: vec![1, 2].into() };
    let classic_member = ConsumerMember {
        instance_id: None,
        rack_id: Some("r".to_owned()),
        subscribed_topic_regex: None,
        server_assignor: None,
        classic: Some(ClassicProtocols { session_timeout_ms: 45_000, protocols: vec![protocol] }),
        ..member.clone()
    };
    let epoch = |hash| Some(ConsumerMetadata { epoch: 9, metadata_hash: hash });
    let target = |at| Some(AssignmentMetadata { epoch: 9, timestamp: Timestamp(at) });
    let current = CurrentAssignment {
        member_epoch: 9,
        previous_member_epoch: 8,
        state: AssignmentState::UnrevokedPartitions,
        assigned: owned(&[(0, 9), (1, 7)]),
        pending_revocation: owned(&[(2, 7)]),
    };
    let regex = ResolvedRegex {
        topics: BTreeSet::from(["orders".to_owned()]),
        version: 3,
        timestamp: Timestamp(1234),
    };
    let empty =
        ClassicMetadata { state_timestamp: Some(Timestamp(1234)), ..ClassicMetadata::default() };
    let expected = [
        ("key-offset", "value-offset-1", offset(Some(2000), -1)),
        ("key-offset", "value-offset-3", offset(None, 3)),
        ("key-group", "value-group-3", group(3)),
        ("key-group", "value-group-empty", GroupRecord::Classic(g(), Some(empty))),
        ("key-consumer", "value-consumer", GroupRecord::Consumer(g(), epoch(0))),
        ("key-consumer", "value-consumer-hash", GroupRecord::Consumer(g(), epoch(77))),
        ("key-member", "value-member", GroupRecord::ConsumerMember(g(), m(), Some(member))),
        (
            "key-member",
            "value-member-classic",
            GroupRecord::ConsumerMember(g(), m(), Some(classic_member)),
        ),
        (
            "key-target-metadata",
            "value-target-metadata",
            GroupRecord::TargetMetadata(g(), target(0)),
        ),
        (
            "key-target-metadata",
            "value-target-metadata-time",
            GroupRecord::TargetMetadata(g(), target(1234)),
        ),
        ("key-target", "value-target", GroupRecord::Target(g(), m(), Some(partitions(&[0, 1])))),
        ("key-current", "value-current", GroupRecord::Current(g(), m(), Some(current))),
        ("key-regex", "value-regex", GroupRecord::Regex(g(), "o.*".to_owned(), Some(regex))),
    ];
    let golden = golden();
    for (key, value, record) in expected {
        assert_eq!(read(key, value), record, "{value}");
        let written = GroupShard::encode(&record);
        assert_eq!(written.key, golden[key], "{key}");
        assert_eq!(written.value.as_ref(), Some(&golden[value]), "{value}");
    }
}

#[test]
fn what_earlier_and_later_kafkas_write_is_read() {
    assert_eq!(read("key-offset-legacy", "value-offset-0"), offset(None, -1));
    assert_eq!(read("key-offset", "value-offset-2"), offset(None, -1));
    assert_eq!(read("key-offset", "value-offset-4"), offset(None, 3));
    for version in [0, 1, 2, 4] {
        assert_eq!(read("key-group", &format!("value-group-{version}")), group(version));
    }
    let GroupRecord::Current(_, _, Some(current)) = read("key-current", "value-current-no-epochs")
    else {
        panic!("not what a member owns");
    };
    assert_eq!(current.assigned, owned(&[(0, 9), (1, 9)]), "the member's epoch stands for all");
}

#[test]
fn tombstones_have_the_key_alone() {
    let record = GroupRecord::Classic(Arc::from("g"), None);
    let written = GroupShard::encode(&record);
    assert_eq!(written, KeyValue { key: golden()["key-group"].clone(), value: None });
    assert_eq!(GroupShard::decode(&written), Ok(Some(record)));
}

/// Share and streams groups, and whatever a later Kafka adds.
#[test]
fn records_of_other_kinds_are_stepped_over() {
    for schema in [4i16, 9, 15, 17, 99, -1] {
        let key = Bytes::copy_from_slice(&schema.to_be_bytes());
        let value = Some(Bytes::from_static(b"whatever"));
        assert_eq!(GroupShard::decode(&KeyValue { key, value }), Ok(None));
    }
}

#[test]
fn a_value_of_a_later_version_is_refused_with_a_sentence() {
    let key = golden()["key-offset"].clone();
    let value = Some(Bytes::from_static(&[0, 5, 0, 0]));
    let refused = GroupShard::decode(&KeyValue { key, value }).unwrap_err();
    assert_eq!(refused, "version 5 of a value, 4 is the latest known");
}

/// Broken records are refused, and do not end the process.
#[test]
fn any_bytes_are_read_or_refused() {
    let golden = golden();
    let (keys, values): (Vec<_>, Vec<_>) =
        golden.iter().partition(|(name, _)| name.starts_with("key"));
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..20_000 {
        let mut broken = |all: &[(&&str, &Bytes)]| {
            let mut bytes = all[random.random_range(0..all.len())].1.to_vec();
            for _ in 0..random.random_range(0..3) {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
            let shortened = random.random_range(0..=bytes.len());
            bytes.truncate(if random.random_bool(0.5) { bytes.len() } else { shortened });
            Bytes::from(bytes)
        };
        let (key, value) = (broken(&keys), Some(broken(&values)));
        let _ = GroupShard::decode(&KeyValue { key, value });
    }
}
