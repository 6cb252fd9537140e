//! What clients do: idempotent producers that retry until they are answered, as Kafka's do, and
//! consumers that read everything, from the beginning and on.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use compat_tests::batches;
use compat_tests::requests::{
    CREATE_TOPICS_VERSION, FETCH_VERSION, INIT_PRODUCER_ID_VERSION, PRODUCE_VERSION, create_topics,
    fetch, produce,
};
use kafka_protocol::messages::InitProducerIdRequest;
use protocol::ErrorCode;
use protocol::record_batch::{BatchBuilder, RecordBatch};
use protocol::types::{ProducerEpoch, ProducerId, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::client::{Client, PAUSE};
use crate::world::{Acked, PARTITIONS, TOPIC, World};

/// As the clients are called whose progress is watched.
pub const PRODUCERS: [&str; 3] = ["producer-1", "producer-2", "producer-3"];
pub const CONSUMERS: [&str; 2] = ["consumer-1", "consumer-2"];
/// Within the patience of a client.
const PRODUCE_TIMEOUT_MS: i32 = 1_000;
const FETCH_WAIT_MS: i32 = 300;
/// Small, so that a fetch ends in the middle of things.
const FETCH_BYTES: i32 = 400;

fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or_else(|| panic!("{code} is no error of Kafka's"))
}

fn client(world: &World, number: u64) -> Client {
    Client::new(StdRng::seed_from_u64(world.seed.wrapping_mul(97).wrapping_add(number)))
}

/// Makes the topic, and starts the clients.
pub async fn run(world: Arc<World>) {
    let mut admin = client(&world, 0);
    loop {
        let node = admin.any();
        let request = create_topics(TOPIC, PARTITIONS, &[]);
        if let Ok(response) = admin.call(node, CREATE_TOPICS_VERSION, &request).await {
            match error(response.topics[0].error_code) {
                ErrorCode::None | ErrorCode::TopicAlreadyExists => break,
                code => world.trace(format!("topic is not made: {code}")),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    for partition in 0..PARTITIONS {
        admin.leader(partition).await;
    }
    world.trace(String::from("formed"));
    world.state().formed = true;
    for (name, number) in PRODUCERS.into_iter().zip(1..) {
        cluster::testing::spawn(run_producer(world.clone(), name, client(&world, number)));
    }
    for (name, number) in CONSUMERS.into_iter().zip(100..) {
        cluster::testing::spawn(run_consumer(world.clone(), name, client(&world, number)));
    }
}

async fn producer_id(client: &mut Client) -> ProducerId {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_producer_id((-1).into())
        .with_producer_epoch(-1)
        .with_transaction_timeout_ms(60_000);
    loop {
        let node = client.any();
        let answer = client.call(node, INIT_PRODUCER_ID_VERSION, &request).await;
        if let Ok(response) = answer {
            match error(response.error_code) {
                ErrorCode::None => return ProducerId(response.producer_id.0),
                code => assert!(code.is_retriable(), "no producer id: {code}"),
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn batch(id: ProducerId, sequence: i32, values: &[String]) -> Bytes {
    let builder = BatchBuilder::new().producer(id, ProducerEpoch(0), sequence);
    let record = |builder: BatchBuilder, value: &String| {
        builder.record(Timestamp(1_700_000_000_000), None, Some(value.as_bytes()))
    };
    batches::sealed(values.iter().fold(builder, record))
}

/// Sends one batch after the other, each until it is acknowledged.
async fn run_producer(world: Arc<World>, name: &'static str, mut client: Client) {
    let id = producer_id(&mut client).await;
    world.trace(format!("{name} is {id}"));
    let mut sequences = vec![0; PARTITIONS as usize];
    loop {
        let partition = client.rng.random_range(0..PARTITIONS);
        let sequence = sequences[partition as usize];
        let count = client.rng.random_range(1..=3);
        let values: Vec<_> =
            (sequence..sequence + count).map(|n| format!("{name}/{partition}/{n}")).collect();
        let batch = batch(id, sequence, &values);
        let base_offset = deliver(&world, &mut client, partition, &batch).await;
        world.trace(format!("{} at {base_offset:?}", values[0]));
        world.state().acked.push(Acked { partition, values, base_offset });
        world.on_done(name);
        sequences[partition as usize] += count;
        let pause_ms = client.rng.random_range(1..40);
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
    }
}

/// Sends a batch until it is in the log; returns where, if the broker still knows.
async fn deliver(world: &World, client: &mut Client, partition: i32, batch: &Bytes) -> Option<i64> {
    let request = produce(TOPIC, partition, batch.clone(), -1).with_timeout_ms(PRODUCE_TIMEOUT_MS);
    loop {
        let leader = client.leader(partition).await.node;
        if let Ok(response) = client.call(leader, PRODUCE_VERSION, &request).await {
            let row = &response.responses[0].partition_responses[0];
            match error(row.error_code) {
                ErrorCode::None => return Some(row.base_offset),
                ErrorCode::DuplicateSequenceNumber => return None,
                code if code.is_retriable() => {
                    world.trace(format!("partition {partition} on {leader}: {code}"));
                }
                code => panic!("a batch for partition {partition} was refused: {code}"),
            }
        }
        client.forget_leader(partition).await;
    }
}

/// Reads every partition from the beginning and on; what it sees may never change, and no offset
/// is left out.
async fn run_consumer(world: Arc<World>, name: &'static str, mut client: Client) {
    let mut positions = vec![0; PARTITIONS as usize];
    loop {
        let partition = client.rng.random_range(0..PARTITIONS);
        let position = &mut positions[partition as usize];
        let leader = client.leader(partition).await;
        let mut request = fetch(TOPIC, partition, *position)
            .with_max_wait_ms(FETCH_WAIT_MS)
            .with_max_bytes(FETCH_BYTES);
        // Or a broker that follows by now might say how much less it has (KIP-320).
        request.topics[0].partitions[0].current_leader_epoch = leader.epoch;
        let Ok(response) = client.call(leader.node, FETCH_VERSION, &request).await else {
            client.forget_leader(partition).await;
            continue;
        };
        let row = &response.responses[0].partitions[0];
        match error(row.error_code) {
            ErrorCode::None => {
                let batches = batches::split(row.records.as_ref());
                world.trace(format!("{name} reads {} of {partition}", batches.len()));
                take(&world, partition, position, &batches);
                world.on_done(name);
            }
            // A leader that does not know yet how far the log is committed says so.
            code if code.is_retriable() => client.forget_leader(partition).await,
            code => panic!(
                "{name} cannot read partition {partition} at {position} on {}: {code}\n{}",
                leader.node,
                world.describe()
            ),
        }
    }
}

fn take(world: &World, partition: i32, position: &mut i64, batches: &[RecordBatch]) {
    for batch in batches {
        batch.verify_crc().expect("unharmed batches");
        for record in batch.records(1 << 20).expect("uncompressed") {
            let record = record.expect("a record");
            let offset = record.offset.0;
            if offset < *position {
                continue;
            }
            assert_eq!(offset, *position, "a hole in partition {partition}");
            let value = record.value.expect("a value");
            let value = String::from_utf8(value.to_vec()).expect("text");
            world.on_read(partition, offset, value);
            *position = offset + 1;
        }
    }
}
