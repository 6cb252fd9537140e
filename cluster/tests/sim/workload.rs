//! What clients do: idempotent producers that retry until they are answered, topics that are made,
//! and now and then records that are deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::metadata::MetadataCommand;
use cluster::testing::NODES;
use cluster::{AppendError, ClusterError};
use protocol::record_batch::{BatchBuilder, RecordBatch};
use protocol::types::{BrokerId, Offset, ProducerEpoch, ProducerId, Timestamp, TopicId};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use uuid::Uuid;

use crate::node::image;
use crate::world::{Acked, PARTITION, TOPIC, World};

pub const PRODUCERS: [i64; 3] = [11, 12, 13];
const PATIENCE: Duration = Duration::from_millis(800);
const PAUSE: Duration = Duration::from_millis(25);

/// Registers the brokers and makes the topic.
pub async fn form(world: &World) {
    for id in NODES {
        submit(world, MetadataCommand::RegisterBroker { broker: image(id) }).await;
    }
    let assignment = vec![NODES.iter().map(|id| BrokerId(*id as i32)).collect()];
    create(world, "orders", TOPIC, assignment).await;
    world.trace(String::from("formed"));
    world.state().formed = true;
}

async fn submit(world: &World, command: MetadataCommand) {
    loop {
        if let Some(node) = world.controller() {
            match tokio::time::timeout(PATIENCE, node.submit(command.clone())).await {
                Ok(Ok(_) | Err(ClusterError::TopicExists(_) | ClusterError::NoReassignment)) => {
                    return;
                }
                Ok(Err(
                    ClusterError::NoController
                    | ClusterError::Undecided
                    | ClusterError::ShuttingDown,
                ))
                | Err(_) => {}
                Ok(Err(ClusterError::Storage(_))) => {}
                Ok(Err(error)) => panic!("{command:?} was refused: {error}"),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn create(world: &World, name: &str, id: TopicId, assignment: Vec<Vec<BrokerId>>) {
    let command = MetadataCommand::CreateTopic {
        name: name.to_owned(),
        id,
        assignment,
        configs: BTreeMap::new(),
    };
    submit(world, command).await;
    world.trace(format!("topic {name} acked"));
    world.state().topics_acked.push(name.to_owned());
}

/// Makes topics, one after the other, on alternating brokers.
pub async fn make_topics(world: Arc<World>) {
    for number in 0_u32.. {
        let broker = NODES[number as usize % NODES.len()];
        let id = TopicId(Uuid::from_u128(1_000 + u128::from(number)));
        let assignment = vec![vec![BrokerId(broker as i32)]];
        create(&world, &format!("topic-{number}"), id, assignment).await;
        tokio::time::sleep(PAUSE * 20).await;
    }
}

fn batch(producer: i64, sequence: i32, count: i32) -> RecordBatch {
    let mut builder =
        BatchBuilder::new().producer(ProducerId(producer), ProducerEpoch(0), sequence);
    for i in 0..count {
        let value = format!("{producer}-{}", sequence + i);
        builder = builder.record(Timestamp(1), None, Some(value.as_bytes()));
    }
    builder.build().expect("a batch")
}

/// Sends one batch after the other, each until it is acknowledged.
pub async fn produce(world: Arc<World>, producer: i64) {
    let mut rng = StdRng::seed_from_u64(world.seed.wrapping_mul(97).wrapping_add(producer as u64));
    let mut sequence = 0;
    loop {
        let count = rng.random_range(1..=3);
        let base_offset = deliver(&world, producer, sequence, count).await;
        world.trace(format!("{producer}:{sequence} at {base_offset}"));
        world.on_acked(Acked { producer, sequence, base_offset });
        sequence += count;
        tokio::time::sleep(Duration::from_millis(rng.random_range(1..30))).await;
    }
}

async fn deliver(world: &World, producer: i64, sequence: i32, count: i32) -> i64 {
    loop {
        if let Some(leader) = world.leader() {
            let ticket = leader.append(batch(producer, sequence, count));
            match tokio::time::timeout(PATIENCE, ticket.committed()).await {
                Ok(Ok(appended)) => return appended.base_offset.0,
                Ok(Err(AppendError::OutOfOrderSequence | AppendError::InvalidProducerEpoch)) => {
                    panic!("the log forgot what it acknowledged to producer {producer}");
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Deletes the older half of the records now and then.
pub async fn delete_records(world: Arc<World>) {
    let mut rng = StdRng::seed_from_u64(world.seed.wrapping_mul(89));
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(1_000..4_000))).await;
        let Some(leader) = world.leader() else { continue };
        let offsets = leader.offsets();
        let offset = (offsets.log_start_offset.0 + offsets.high_watermark.0) / 2;
        let advanced = leader.advance_log_start(Offset(offset));
        if let Ok(Ok(offset)) = tokio::time::timeout(PATIENCE, advanced).await {
            world.trace(format!("log starts at {offset}"));
            world.on_log_start(offset.0);
        }
    }
}

/// Has the partition kept by other machines every few seconds, and by all of them in the end.
pub async fn reassign(world: Arc<World>) {
    let mut rng = StdRng::seed_from_u64(world.seed.wrapping_mul(83));
    let all: Vec<BrokerId> = NODES.iter().map(|id| BrokerId(*id as i32)).collect();
    loop {
        tokio::time::sleep(Duration::from_millis(rng.random_range(500..4_000))).await;
        let target = if world.state().healing {
            if is_on(&world, &all) {
                continue;
            }
            Some(all.clone())
        } else {
            // Whatever is under way has another end now, or goes back.
            (rng.random_range(0..6) > 0).then(|| some_of(&all, &mut rng))
        };
        world.trace(format!("reassign to {target:?}"));
        let (topic, partition) = (TOPIC, PARTITION);
        submit(&world, MetadataCommand::AlterPartitionReassignment { topic, partition, target })
            .await;
    }
}

fn some_of(all: &[BrokerId], rng: &mut StdRng) -> Vec<BrokerId> {
    let mut some = all.to_vec();
    for place in (1..some.len()).rev() {
        some.swap(place, rng.random_range(0..=place));
    }
    some.truncate(rng.random_range(1..=all.len()));
    some
}

/// Whether the partition is to be kept by these, in any order.
fn is_on(world: &World, brokers: &[BrokerId]) -> bool {
    let target = world.controller().and_then(|controller| {
        let image = controller.metadata();
        Some(image.topic_by_id(TOPIC)?.partition(PARTITION)?.target_replicas())
    });
    target.is_some_and(|target| brokers.iter().all(|id| target.contains(id)))
}
