//! What is read, what is refused, and what waits.

use std::collections::BTreeMap;

use cluster::metadata::PartitionImage;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::{BrokerId as WireBrokerId, TopicName};
use protocol::types::BrokerId;
use uuid::Uuid;

use super::*;

fn offsets() -> ReplicaOffsets {
    ReplicaOffsets {
        log_start_offset: Offset(10),
        last_stable_offset: Offset(15),
        high_watermark: Offset(20),
        log_end_offset: Offset(25),
        leader_epoch: LeaderEpoch(3),
    }
}

fn from(fetch_offset: i64) -> PartitionRequest {
    PartitionRequest {
        fetch_offset: Offset(fetch_offset),
        max_bytes: 1000,
        current_leader_epoch: None,
        last_fetched_epoch: None,
    }
}

fn decide_as(is_leader: bool, request: PartitionRequest, level: IsolationLevel) -> Decision {
    // Epoch 1 ended at 12, epoch 3 ends with the log.
    let end_offset_for_epoch = |epoch: LeaderEpoch| match epoch.0 {
        0 => None,
        1 | 2 => Some((LeaderEpoch(1), Offset(12))),
        3 => Some((LeaderEpoch(3), Offset(25))),
        _ => None,
    };
    let view = PartitionView {
        is_leader,
        is_follower: !is_leader,
        offsets: offsets(),
        end_offset_for_epoch: &end_offset_for_epoch,
        preferred_replica: &|| None,
    };
    let params = FetchParams { isolation_level: level, ..params(0, 0, 0) };
    decide(&request, &view, &params)
}

fn decision(request: PartitionRequest) -> Decision {
    decide_as(true, request, IsolationLevel::ReadUncommitted)
}

#[test]
fn offsets_outside_the_log_are_out_of_range() {
    let out_of_range = Decision::Fail(ErrorCode::OffsetOutOfRange);
    assert_eq!(decision(from(9)), out_of_range);
    assert_eq!(decision(from(-1)), out_of_range);
    assert_eq!(decision(from(26)), out_of_range);
    assert_eq!(decision(from(10)), Decision::Read { upper_bound: Offset(20) });
}

#[test]
fn what_is_not_committed_is_empty_and_no_error() {
    for offset in [20, 22, 25] {
        assert_eq!(decision(from(offset)), Decision::Empty, "{offset}");
    }
}

#[test]
fn read_committed_ends_at_the_last_stable_offset() {
    let committed = |offset| decide_as(true, from(offset), IsolationLevel::ReadCommitted);
    assert_eq!(committed(14), Decision::Read { upper_bound: Offset(15) });
    assert_eq!(committed(15), Decision::Empty);
    assert_eq!(committed(26), Decision::Fail(ErrorCode::OffsetOutOfRange));
}

#[test]
fn the_leader_epoch_is_checked_before_leadership() {
    let with_epoch =
        |epoch| PartitionRequest { current_leader_epoch: Some(LeaderEpoch(epoch)), ..from(10) };
    let follower = |request| decide_as(false, request, IsolationLevel::ReadUncommitted);
    assert_eq!(follower(with_epoch(2)), Decision::Fail(ErrorCode::FencedLeaderEpoch));
    assert_eq!(follower(with_epoch(4)), Decision::Fail(ErrorCode::UnknownLeaderEpoch));
    assert_eq!(follower(with_epoch(3)), Decision::Fail(ErrorCode::NotLeaderOrFollower));
    assert_eq!(follower(from(10)), Decision::Fail(ErrorCode::NotLeaderOrFollower));
    assert_eq!(decision(with_epoch(3)), Decision::Read { upper_bound: Offset(20) });
}

#[test]
fn a_client_that_may_be_sent_to_a_follower_is_served_by_one() {
    let view = PartitionView {
        is_leader: false,
        is_follower: true,
        offsets: offsets(),
        end_offset_for_epoch: &|_| None,
        preferred_replica: &|| None,
    };
    let for_any = FetchParams { leader_only: false, ..params(0, 0, 0) };
    assert_eq!(decide(&from(10), &view, &for_any), Decision::Read { upper_bound: Offset(20) });
    assert_eq!(decide(&from(20), &view, &for_any), Decision::Empty);
    // One that is about to lead does not know yet what is committed.
    let neither = PartitionView { is_follower: false, ..view.clone() };
    let refused = Decision::Fail(ErrorCode::NotLeaderOrFollower);
    assert_eq!(decide(&from(10), &neither, &for_any), refused);
    let sends = PartitionView { preferred_replica: &|| Some(BrokerId(7)), ..view };
    assert_eq!(decide(&from(10), &sends, &for_any), Decision::ReadFrom(BrokerId(7)));
    let stale = PartitionRequest { current_leader_epoch: Some(LeaderEpoch(2)), ..from(10) };
    assert_eq!(decide(&stale, &sends, &for_any), Decision::Fail(ErrorCode::FencedLeaderEpoch));
}

#[test]
fn a_diverging_log_is_told_from_where() {
    let fetched = |epoch, offset| {
        decision(PartitionRequest { last_fetched_epoch: Some(LeaderEpoch(epoch)), ..from(offset) })
    };
    let diverge = Decision::Diverge { epoch: LeaderEpoch(1), end_offset: Offset(12) };
    // An epoch that this log does not have, and one that ended earlier here.
    assert_eq!(fetched(2, 12), diverge);
    assert_eq!(fetched(1, 13), diverge);
    assert_eq!(fetched(1, 12), Decision::Read { upper_bound: Offset(20) });
    assert_eq!(fetched(3, 26), Decision::Diverge { epoch: LeaderEpoch(3), end_offset: Offset(25) });
    assert_eq!(fetched(0, 12), Decision::Fail(ErrorCode::OffsetOutOfRange));
    assert_eq!(fetched(1, 9), Decision::Fail(ErrorCode::OffsetOutOfRange));
}

#[test]
fn only_the_first_records_may_exceed_the_limits() {
    let mut budget = Budget::new(100);
    let limit = budget.limit(10, Offset(5)).unwrap();
    assert_eq!((limit.max_bytes, limit.min_one_batch), (10, true));
    budget.spend(0);
    assert!(budget.limit(0, Offset(5)).unwrap().min_one_batch, "nothing was read yet");
    budget.spend(90);
    let limit = budget.limit(50, Offset(5)).unwrap();
    assert_eq!((limit.max_bytes, limit.min_one_batch), (10, false));
    assert!(budget.limit(0, Offset(5)).is_none());
    budget.spend(500);
    assert!(budget.limit(50, Offset(5)).is_none());
}

fn params(max_wait_ms: i32, min_bytes: i32, max_bytes: i32) -> FetchParams {
    let request = FetchRequest::default()
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(min_bytes)
        .with_max_bytes(max_bytes);
    FetchParams::new(&request, RACKS_SINCE - 1, 1000)
}

#[test]
fn the_broker_caps_what_a_request_asks_for() {
    let capped = params(500, 5000, i32::MAX);
    assert_eq!((capped.min_bytes, capped.max_bytes), (1000, 1000));
    let negative = params(-1, -1, -1);
    assert_eq!((negative.max_wait_ms, negative.min_bytes, negative.max_bytes), (0, 0, 0));
}

#[test]
fn a_fetch_waits_only_for_bytes() {
    let waiting = Progress { partition_count: 1, bytes: 9, must_tell: false };
    let params = params(500, 10, 100);
    assert!(!params.is_satisfied_by(waiting));
    assert!(params.is_satisfied_by(Progress { bytes: 10, ..waiting }));
    assert!(params.is_satisfied_by(Progress { must_tell: true, ..waiting }));
    assert!(params.is_satisfied_by(Progress::default()), "nothing is asked");
    assert!(FetchParams { max_wait_ms: 0, ..params }.is_satisfied_by(waiting));
    assert!(FetchParams { min_bytes: 0, ..params }.is_satisfied_by(waiting));
}

fn image(name: &str, id: u128) -> MetadataImage {
    let (name, id) = (name.to_owned(), TopicId(Uuid::from_u128(id)));
    let partition = PartitionImage {
        id: PartitionId(0),
        group: 1,
        replicas: vec![BrokerId(1)],
        ..PartitionImage::default()
    };
    let topic = TopicImage {
        name: name.clone(),
        id,
        partitions: vec![partition],
        configs: BTreeMap::new(),
    };
    MetadataImage {
        topics: Arc::new(BTreeMap::from([(name.clone(), Arc::new(topic))])),
        topic_names: Arc::new(BTreeMap::from([(id, name)])),
        ..MetadataImage::default()
    }
}

fn find(image: &MetadataImage, topic: TopicKey, partition: i32, known: Option<&str>) -> ErrorCode {
    let key = PartitionKey { topic, partition: PartitionId(partition) };
    let asked = Asked { key, known_name: known.map(Arc::from), request: from(0) };
    let planned = plan(image, vec![asked]).remove(0);
    planned.topic.err().unwrap_or(ErrorCode::None)
}

#[test]
fn topics_are_found_by_name_or_id() {
    let image = image("orders", 7);
    let named = |name: &str| TopicKey::Name(Arc::from(name));
    let id = |id| TopicKey::Id(TopicId(Uuid::from_u128(id)));
    assert_eq!(find(&image, named("orders"), 0, None), ErrorCode::None);
    assert_eq!(find(&image, named("orders"), 1, None), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(find(&image, named("order"), 0, None), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(find(&image, id(7), 0, None), ErrorCode::None);
    assert_eq!(find(&image, id(7), -1, None), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(find(&image, id(0), 0, None), ErrorCode::UnknownTopicId);
}

#[test]
fn the_id_of_a_topic_made_anew_is_inconsistent() {
    let image = image("orders", 7);
    let old = TopicKey::Id(TopicId(Uuid::from_u128(6)));
    assert_eq!(find(&image, old.clone(), 0, None), ErrorCode::UnknownTopicId);
    assert_eq!(find(&image, old.clone(), 0, Some("orders")), ErrorCode::InconsistentTopicId);
    assert_eq!(find(&image, old, 0, Some("gone")), ErrorCode::UnknownTopicOrPartition);
}

fn request() -> FetchRequest {
    let partition = |partition, fetch_offset| {
        FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(fetch_offset)
            .with_current_leader_epoch(-1)
            .with_last_fetched_epoch(2)
            .with_partition_max_bytes(-5)
    };
    let topic = FetchTopic::default()
        .with_topic(TopicName("t".into()))
        .with_topic_id(Uuid::from_u128(9))
        .with_partitions(vec![partition(0, 1), partition(1, 2), partition(0, 3)]);
    let forgotten = ForgottenTopic::default()
        .with_topic(TopicName("t".into()))
        .with_topic_id(Uuid::from_u128(9))
        .with_partitions(vec![4, 5]);
    FetchRequest::default()
        .with_replica_id(WireBrokerId(-1))
        .with_session_id(3)
        .with_session_epoch(4)
        .with_topics(vec![topic])
        .with_forgotten_topics_data(vec![forgotten])
}

#[test]
fn a_partition_named_twice_counts_as_it_was_last() {
    let asked = session_request(&request(), 12);
    assert_eq!((asked.session_id, asked.epoch, asked.uses_topic_ids), (3, 4, false));
    let partitions: Vec<_> = asked.partitions.iter().collect();
    assert_eq!(partitions.len(), 2);
    let (key, first) = partitions[0];
    assert_eq!(key.topic, TopicKey::Name(Arc::from("t")));
    assert_eq!((first.fetch_offset, first.max_bytes), (Offset(3), 0));
    assert_eq!(first.current_leader_epoch, None);
    assert_eq!(first.last_fetched_epoch, Some(LeaderEpoch(2)));
    assert_eq!(asked.forgotten.len(), 2);
}

#[test]
fn topics_are_named_by_id_from_version_13_on() {
    let asked = session_request(&request(), 13);
    assert!(asked.uses_topic_ids);
    let id = TopicKey::Id(TopicId(Uuid::from_u128(9)));
    assert!(asked.partitions.keys().chain(&asked.forgotten).all(|key| key.topic == id));
}
