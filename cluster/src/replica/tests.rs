//! A single broker's partitions: order, retries, durability steps, retention, restart, dormancy.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use protocol::record_batch::{BatchBuilder, RecordBatch};
use protocol::types::{
    BrokerId, LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, Timestamp, TopicId,
};
use storage::StorageError;
use storage::disk::file::FileDisk;
use storage::disk::sim::SimDisk;
use storage::kv::memory::MemoryKv;
use storage::log_store::{Durability, GroupId, LogStore, LogStoreOptions, ReadLimit, Vote};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{LogStartCause, LogStartMoved, Replica, ReplicaOffsets};
use crate::metadata::command::CommandOutcome;
use crate::metadata::{BrokerImage, MetadataCommand};
use crate::replica::ThrottledReplicas;
use crate::{AppendError, Cluster, ClusterError, ClusterOptions, ReadError, ReplicaSettings};

const BROKER: BrokerId = BrokerId(1);
const TOPIC: TopicId = TopicId(Uuid::from_u128(7));

/// A broker on a directory that outlives it.
struct Broker {
    cluster: Arc<Cluster>,
    store: LogStore,
    clock: Arc<AtomicI64>,
}

fn settings() -> ReplicaSettings {
    ReplicaSettings {
        durability: Durability::Fsync,
        retention_ms: None,
        retention_bytes: None,
        min_insync_replicas: 1,
        leader_throttled: ThrottledReplicas::Nothing,
        follower_throttled: ThrottledReplicas::Nothing,
    }
}

async fn start(dir: &Path) -> Broker {
    start_with(dir, settings()).await
}

/// Opens the store, once the last task of the broker before has let go of it.
async fn open_store(dir: &Path) -> LogStore {
    for _ in 0..100_000 {
        let disk = Arc::new(FileDisk::open(dir).expect("a disk"));
        match LogStore::open(LogStoreOptions::default(), disk, Arc::new(MemoryKv::new())) {
            Ok(store) => return store,
            Err(StorageError::Locked(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the broker before never let go of its store");
}

async fn start_with(dir: &Path, settings: ReplicaSettings) -> Broker {
    start_on(open_store(dir).await, settings).await
}

async fn start_on(store: LogStore, settings: ReplicaSettings) -> Broker {
    let clock = Arc::new(AtomicI64::new(1_000_000));
    let now = clock.clone();
    let options = ClusterOptions {
        broker: BrokerImage {
            id: BROKER,
            rack: None,
            endpoints: Vec::new(),
            peer_address: None,
            directory_id: None,
        },
        cluster_id: None,
        store: store.clone(),
        settings: Arc::new(move |_, _| settings.clone()),
        retention_check_interval: Duration::from_millis(100),
        producer_id_expiration: Duration::from_secs(86_400),
        now: Arc::new(move || Timestamp(now.load(Ordering::SeqCst))),
        new_uuid: Arc::new(|| Uuid::from_u128(42)),
    };
    let cluster = Cluster::start(options).await.expect("the broker starts");
    Broker { cluster, store, clock }
}

impl Broker {
    async fn create_topic(&self, partitions: usize) {
        let command = MetadataCommand::CreateTopic {
            name: String::from("orders"),
            id: TOPIC,
            assignment: self.cluster.plan_assignment(partitions, 1).expect("placed"),
            configs: BTreeMap::new(),
        };
        let outcome = self.cluster.submit(command).await.expect("created");
        assert!(matches!(outcome, CommandOutcome::TopicCreated { .. }));
    }

    fn replica(&self) -> Arc<Replica> {
        self.cluster.replica(TOPIC, PartitionId(0)).expect("the replica is here")
    }

    async fn stop(self) {
        self.cluster.shutdown().await;
        self.store.close().expect("the store closes");
    }
}

fn batch(value: &str) -> RecordBatch {
    batch_at(Timestamp(1_000_000), value)
}

fn batch_at(timestamp: Timestamp, value: &str) -> RecordBatch {
    BatchBuilder::new().record(timestamp, None, Some(value.as_bytes())).build().expect("a batch")
}

fn produced(producer: i64, epoch: i16, sequence: i32, value: &str) -> RecordBatch {
    BatchBuilder::new()
        .producer(ProducerId(producer), ProducerEpoch(epoch), sequence)
        .record(Timestamp(1_000_000), None, Some(value.as_bytes()))
        .build()
        .expect("a batch")
}

fn read_all(replica: &Replica) -> Vec<(i64, String)> {
    let ReplicaOffsets { log_start_offset, high_watermark, .. } = replica.offsets();
    let limit = ReadLimit { upper_bound: high_watermark, max_bytes: 1 << 20, min_one_batch: true };
    let records = replica.read(log_start_offset, limit).expect("readable");
    let mut bytes = records.read_to_bytes().expect("the files have it");
    let mut found = Vec::new();
    while let Some(batch) = RecordBatch::split_from(&mut bytes).expect("a batch") {
        let text = String::from_utf8_lossy(batch.body());
        let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
        found.push((batch.header().base_offset.0, text));
    }
    found
}

#[tokio::test]
async fn what_is_appended_can_be_read_back_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path()).await;
    broker.create_topic(1).await;
    let replica = broker.replica();
    let tickets: Vec<_> = (0..50).map(|i| replica.append(batch(&format!("v{i}")))).collect();
    for (i, ticket) in tickets.into_iter().enumerate() {
        let appended = ticket.committed().await.expect("committed");
        assert_eq!(appended.base_offset, Offset(i as i64));
        assert!(!appended.duplicate);
    }
    let read = read_all(&replica);
    let expected: Vec<_> = (0..50).map(|i| (i, format!("v{i}"))).collect();
    assert_eq!(read, expected);
    assert_eq!(replica.offsets().log_end_offset, Offset(50));
    broker.stop().await;
}

#[tokio::test]
async fn an_append_is_answered_when_written_and_again_when_committed() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path()).await;
    broker.create_topic(1).await;
    let replica = broker.replica();
    let written = replica.append(batch("a")).written().await.expect("written");
    assert_eq!(written.base_offset, Offset(0));
    let committed = replica.append(batch("b")).committed().await.expect("committed");
    assert_eq!(committed.base_offset, Offset(1));
    assert_eq!(replica.offsets().high_watermark, Offset(2));
    broker.stop().await;
}

#[tokio::test]
async fn a_retry_is_answered_with_the_first_ones_offset() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path()).await;
    broker.create_topic(1).await;
    let replica = broker.replica();
    // The retry arrives while the first is in flight, and once more when it is committed.
    let first = replica.append(produced(9, 0, 0, "a"));
    let in_flight = replica.append(produced(9, 0, 0, "a"));
    let next = replica.append(produced(9, 0, 1, "b"));
    assert_eq!(first.committed().await.expect("committed").base_offset, Offset(0));
    let retried = in_flight.committed().await.expect("known");
    assert_eq!((retried.base_offset, retried.duplicate), (Offset(0), true));
    assert_eq!(next.committed().await.expect("committed").base_offset, Offset(1));
    let late = replica.append(produced(9, 0, 1, "b")).committed().await.expect("known");
    assert_eq!((late.base_offset, late.duplicate), (Offset(1), true));
    assert_eq!(replica.offsets().log_end_offset, Offset(2));
    broker.stop().await;
}

#[tokio::test]
async fn a_gap_in_the_sequence_and_an_old_epoch_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path()).await;
    broker.create_topic(1).await;
    let replica = broker.replica();
    replica.append(produced(9, 1, 0, "a")).committed().await.expect("committed");
    let gap = replica.append(produced(9, 1, 2, "c")).committed().await;
    assert!(matches!(gap, Err(AppendError::OutOfOrderSequence)));
    let old = replica.append(produced(9, 0, 1, "b")).committed().await;
    assert!(matches!(old, Err(AppendError::InvalidProducerEpoch)));
    replica.append(produced(9, 1, 1, "b")).committed().await.expect("the next is taken");
    broker.stop().await;
}

#[tokio::test]
async fn producers_records_and_epochs_survive_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path()).await;
    broker.create_topic(1).await;
    let cluster_id = broker.cluster.metadata().cluster_id.clone();
    let epoch = broker.replica().leadership().leader_epoch;
    broker.replica().append(produced(9, 0, 0, "a")).committed().await.expect("committed");
    assert_eq!(broker.replica().leadership().leader_epoch, epoch, "opening changed the epoch");
    broker.stop().await;

    let broker = start(dir.path()).await;
    assert_eq!(broker.cluster.metadata().cluster_id, cluster_id);
    let replica = broker.replica();
    let before = replica.leadership();
    assert!(before.leader_epoch > epoch, "a new process leads in a new term");
    assert_eq!(before.leader, Some(BROKER));
    assert_eq!(replica.offsets().high_watermark, Offset(1), "known without opening the instance");
    assert_eq!(read_all(&replica), [(0, String::from("a"))]);
    let retried = replica.append(produced(9, 0, 0, "a")).committed().await.expect("known");
    assert!(retried.duplicate);
    let next = replica.append(produced(9, 0, 1, "b")).committed().await.expect("committed");
    assert_eq!(next.base_offset, Offset(1));
    assert_eq!(replica.leadership().leader_epoch, before.leader_epoch);
    assert_eq!(replica.epoch_for_offset(Offset(1)), Some(before.leader_epoch));
    assert_eq!(replica.end_offset_for_epoch(epoch), Some((epoch, Offset(1))));
    let current = Some((before.leader_epoch, Offset(2)));
    assert_eq!(replica.end_offset_for_epoch(before.leader_epoch), current);
    assert_eq!(replica.end_offset_for_epoch(LeaderEpoch(before.leader_epoch.0 + 1)), None);
    broker.stop().await;
}

#[tokio::test]
async fn the_log_start_moves_and_stays_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path()).await;
    broker.create_topic(1).await;
    let replica = broker.replica();
    for i in 0..10 {
        replica.append(batch(&format!("v{i}"))).committed().await.expect("committed");
    }
    assert!(matches!(
        replica.advance_log_start(Offset(11)).await,
        Err(AppendError::Storage(StorageError::OffsetOutOfRange { .. }))
    ));
    assert_eq!(replica.advance_log_start(Offset(4)).await.expect("moved"), Offset(4));
    assert_eq!(replica.advance_log_start(Offset(2)).await.expect("kept"), Offset(4));
    replica.append(batch("v10")).committed().await.expect("committed");
    drop(replica);
    broker.stop().await;

    let broker = start(dir.path()).await;
    let replica = broker.replica();
    assert_eq!(replica.offsets().log_start_offset, Offset(4));
    // Dormant now: the log start moves without opening the instance.
    assert_eq!(replica.advance_log_start(Offset(6)).await.expect("moved"), Offset(6));
    let appended = replica.append(batch("v11")).committed().await.expect("committed");
    assert_eq!((appended.base_offset, appended.log_start_offset), (Offset(11), Offset(6)));
    assert_eq!(read_all(&replica).first(), Some(&(6, String::from("v6"))));
    drop(replica);
    broker.stop().await;

    let broker = start(dir.path()).await;
    let replica = broker.replica();
    assert_eq!(replica.offsets().log_start_offset, Offset(6));
    replica.append(batch("v12")).committed().await.expect("the instance opens on a purged log");
    assert_eq!(replica.advance_log_start(Offset(13)).await.expect("moved"), Offset(13));
    assert_eq!(read_all(&replica), []);
    let appended = replica.append(batch("v13")).committed().await.expect("committed");
    assert_eq!(appended.base_offset, Offset(13));
    broker.stop().await;
}

#[tokio::test]
async fn retention_by_time_drops_single_batches_within_its_interval() {
    let dir = tempfile::tempdir().expect("a directory");
    let keep = ReplicaSettings { retention_ms: Some(1_000), ..settings() };
    let broker = start_with(dir.path(), keep).await;
    broker.create_topic(1).await;
    let replica = broker.replica();
    let changed = Arc::new(Notify::new());
    let _watch = replica.watch_offsets(changed.clone());
    replica.append(batch_at(Timestamp(1_000_000), "old")).committed().await.expect("committed");
    replica.append(batch_at(Timestamp(1_005_000), "new")).committed().await.expect("committed");
    broker.clock.store(1_004_000, Ordering::SeqCst);
    while replica.offsets().log_start_offset < Offset(1) {
        changed.notified().await;
    }
    assert_eq!(read_all(&replica), [(1, String::from("new"))]);
    broker.stop().await;
}

#[tokio::test]
async fn who_watches_log_starts_is_told_why_they_moved() {
    let dir = tempfile::tempdir().expect("a directory");
    let size = batch("old").size_in_bytes() as i64;
    let keep =
        ReplicaSettings { retention_ms: Some(1_000), retention_bytes: Some(size), ..settings() };
    let broker = start_with(dir.path(), keep).await;
    let (told, mut moves) = tokio::sync::mpsc::channel(10);
    let observer = move |moved: LogStartMoved| told.try_send(moved).expect("there is room");
    broker.cluster.observe_log_starts(Arc::new(observer));
    broker.create_topic(1).await;
    let replica = broker.replica();
    replica.append(batch("one")).committed().await.expect("committed");
    replica.append(batch("two")).committed().await.expect("committed");
    let (partition, log_start_offset) = (PartitionId(0), Offset(1));
    let first = LogStartMoved {
        topic_id: TOPIC,
        partition,
        log_start_offset,
        cause: LogStartCause::RetentionSize,
    };
    assert_eq!(moves.recv().await, Some(first));
    broker.clock.store(1_001_001, Ordering::SeqCst);
    let by_time = LogStartCause::RetentionTime;
    let second = LogStartMoved { log_start_offset: Offset(2), cause: by_time, ..first };
    assert_eq!(moves.recv().await, Some(second));
    replica.append(batch_at(Timestamp(1_001_001), "six")).committed().await.expect("committed");
    replica.advance_log_start(Offset(3)).await.expect("moved");
    let asked = LogStartCause::Request;
    let third = LogStartMoved { log_start_offset: Offset(3), cause: asked, ..first };
    assert_eq!(moves.recv().await, Some(third));
    replica.advance_log_start(Offset(1)).await.expect("stays");
    assert!(moves.try_recv().is_err());
    broker.stop().await;
}

#[tokio::test]
async fn a_deleted_topics_partitions_are_gone_for_good() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path()).await;
    broker.create_topic(2).await;
    let replica = broker.replica();
    replica.append(batch("a")).committed().await.expect("committed");
    let changed = Arc::new(Notify::new());
    let _watch = replica.watch_offsets(changed.clone());
    broker.cluster.submit(MetadataCommand::DeleteTopic { id: TOPIC }).await.expect("deleted");
    assert!(matches!(broker.cluster.replica(TOPIC, PartitionId(0)), Err(ReadError::Gone)));
    changed.notified().await;
    let refused = replica.append(batch("b")).committed().await;
    assert!(matches!(refused, Err(AppendError::Gone)));
    drop(replica);
    broker.stop().await;

    let broker = start(dir.path()).await;
    assert_eq!(broker.store.group_ids(), [GroupId(0)]);
    broker.stop().await;
}

#[tokio::test]
async fn what_a_crash_left_of_a_deleted_topic_is_removed_at_the_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path()).await;
    broker.create_topic(1).await;
    broker.cluster.submit(MetadataCommand::DeleteTopic { id: TOPIC }).await.expect("deleted");
    // A group that no topic has, below and at the next number to be handed out.
    broker.create_topic(2).await;
    let next = broker.cluster.metadata().next_group_id;
    broker.cluster.submit(MetadataCommand::DeleteTopic { id: TOPIC }).await.expect("deleted");
    broker.stop().await;
    let vote = Vote { term: 1, node_id: Some(1), committed: true };
    let (left, foreign) = (GroupId(next - 1), GroupId(next));
    {
        let store = open_store(dir.path()).await;
        for group in [left, foreign] {
            store.group(group).save_vote(vote, Box::new(|_| ())).expect("saved");
        }
        store.close().expect("closed");
    }
    let broker = start(dir.path()).await;
    let groups = broker.store.group_ids();
    assert!(!groups.contains(&left), "left behind");
    assert!(groups.contains(&foreign), "a number not handed out is not for the image to judge");
    broker.stop().await;
}

#[tokio::test]
async fn an_idle_partition_goes_dormant_and_wakes_in_the_same_term() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path()).await;
    broker.create_topic(1).await;
    let replica = broker.replica();
    replica.append(batch("a")).committed().await.expect("committed");
    let epoch = replica.leadership().leader_epoch;
    assert!(replica.group().is_some());
    for _ in 0..crate::limits::IDLE_ROUNDS + 1 {
        replica.shared.close_if_idle().await;
    }
    assert!(replica.group().is_none(), "still open");
    assert_eq!(read_all(&replica), [(0, String::from("a"))]);
    let appended = replica.append(batch("b")).committed().await.expect("committed");
    assert_eq!(appended.base_offset, Offset(1));
    assert_eq!(replica.leadership().leader_epoch, epoch);
    broker.stop().await;
}

#[tokio::test]
async fn producer_ids_are_handed_out_once_across_restarts() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..2 {
        let broker = start(dir.path()).await;
        for _ in 0..1_500 {
            let id = broker.cluster.next_producer_id().await.expect("an id");
            assert!(seen.insert(id), "{id} was handed out before");
        }
        broker.stop().await;
    }
}

#[tokio::test]
async fn the_metadata_log_goes_on_behind_its_snapshot() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = start(dir.path()).await;
    broker.create_topic(3).await;
    for i in 0..2_500 {
        let configs = BTreeMap::from([(String::from("retention.ms"), i.to_string())]);
        let command = MetadataCommand::SetTopicConfigs { topic: TOPIC, configs };
        broker.cluster.submit(command).await.expect("set");
    }
    let image = broker.cluster.metadata();
    broker.stop().await;
    let broker = start(dir.path()).await;
    assert_eq!(*broker.cluster.metadata(), *image);
    let state = broker.store.group(GroupId(0)).log_state();
    assert!(state.last_purged.is_some(), "the log was never cut");
    let refused =
        broker.cluster.submit(MetadataCommand::DeleteTopic { id: TopicId(Uuid::from_u128(8)) });
    assert!(matches!(refused.await, Err(ClusterError::UnknownTopicId(_))));
    broker.stop().await;
}

#[tokio::test]
async fn a_full_disk_refuses_appends_until_there_is_room() {
    let disk = SimDisk::new(1);
    let options = LogStoreOptions { reserve_bytes: 0, ..LogStoreOptions::default() };
    let store = LogStore::open(options, Arc::new(disk.clone()), Arc::new(MemoryKv::new()));
    let broker = start_on(store.expect("a store"), settings()).await;
    broker.create_topic(1).await;
    let replica = broker.replica();
    replica.append(produced(9, 0, 0, "a")).committed().await.expect("committed");
    disk.set_capacity(Some(0));
    for _ in 0..3 {
        let refused = replica.append(produced(9, 0, 1, "b")).committed().await;
        assert!(matches!(refused, Err(AppendError::Storage(StorageError::NoSpace(_)))));
    }
    assert_eq!(read_all(&replica), [(0, String::from("a"))], "reading goes on");
    disk.set_capacity(None);
    // The instance that the full disk stopped may still be the one that is asked.
    let appended = loop {
        match replica.append(produced(9, 0, 1, "b")).committed().await {
            Err(AppendError::Storage(StorageError::NoSpace(_))) => tokio::task::yield_now().await,
            other => break other.expect("there is room"),
        }
    };
    assert_eq!(appended.base_offset, Offset(1));
    assert_eq!(read_all(&replica), [(0, String::from("a")), (1, String::from("b"))]);
    broker.stop().await;
}
