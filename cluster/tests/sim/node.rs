//! One simulated machine: a store driven by hand on the simulated disk, and a broker over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cluster::metadata::BrokerImage;
use cluster::replica::ThrottledReplicas;
use cluster::{Cluster, ClusterOptions, PeerOptions, ReplicaSettings};
use protocol::types::{BrokerId, Timestamp};
use storage::log_store::{Durability, LogStore, LogStoreOptions, WriterMode};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::network::{SimTransport, serve};
use crate::world::{NODES, World};

/// Small files and checkpoints, so that a short history goes through many.
const JOURNAL_FILE_BYTES: u64 = 16 << 10;
const CHECKPOINT_BYTES: u64 = 8 << 10;
const TAIL_BYTES: usize = 4 << 10;
/// How long a sync takes.
const SYNC: Duration = Duration::from_millis(2);

pub fn image(id: u64) -> BrokerImage {
    BrokerImage {
        id: BrokerId(id as i32),
        rack: None,
        endpoints: Vec::new(),
        peer_address: None,
        directory_id: None,
    }
}

/// Runs until the machine is crashed.
pub async fn run(id: u64, life: u64, world: Arc<World>) -> turmoil::Result {
    let seed = world.seed.wrapping_mul(1_000).wrapping_add(id * 100).wrapping_add(life);
    cluster::testing::scope(seed, run_seeded(id, seed, world)).await
}

async fn run_seeded(id: u64, seed: u64, world: Arc<World>) -> turmoil::Result {
    let store = open_store(id, &world)?;
    // No machine ever makes one twice: a new disk is known by a new one.
    let uuids = AtomicU64::new(seed << 16);
    let options = ClusterOptions {
        broker: image(id),
        cluster_id: None,
        store,
        settings: Arc::new(|_, _| ReplicaSettings {
            durability: Durability::Fsync,
            retention_ms: None,
            retention_bytes: None,
            min_insync_replicas: 1,
            leader_throttled: ThrottledReplicas::Nothing,
            follower_throttled: ThrottledReplicas::Nothing,
        }),
        retention_check_interval: Duration::from_secs(300),
        producer_id_expiration: Duration::from_secs(86_400),
        now: Arc::new(|| {
            let elapsed = turmoil::sim_elapsed().unwrap_or(Duration::ZERO);
            Timestamp(elapsed.as_millis() as i64)
        }),
        new_uuid: Arc::new(move || {
            Uuid::from_u128(u128::from(uuids.fetch_add(1, Ordering::Relaxed)))
        }),
    };
    let peers = PeerOptions {
        voters: NODES.iter().map(|id| BrokerId(*id as i32)).collect(),
        transport: Arc::new(SimTransport::default()),
        heartbeat: Duration::from_millis(100),
        election_timeout: Duration::from_millis(300)..Duration::from_millis(600),
        presence_heartbeat: Duration::from_millis(200),
        session_timeout: Duration::from_millis(1_500),
        replica_lag_max: Duration::from_secs(2),
        rebalance_interval: Some(Duration::from_secs(2)),
    };
    let cluster = Cluster::start_with_peers(options, peers).await?;
    world.trace(format!("node {id} runs"));
    world.state().running.insert(id, cluster.clone());
    serve(cluster).await?;
    Ok(())
}

fn open_store(id: u64, world: &World) -> Result<LogStore, Box<dyn std::error::Error>> {
    let machine = &world.machines[&id];
    let queued = Arc::new(Notify::new());
    let wake = queued.clone();
    let options = LogStoreOptions {
        writer: WriterMode::Manual { wake: Some(Arc::new(move || wake.notify_one())) },
        journal_file_bytes: JOURNAL_FILE_BYTES,
        checkpoint_bytes: CHECKPOINT_BYTES,
        tail_bytes: TAIL_BYTES,
        ..LogStoreOptions::default()
    };
    let disk = Arc::new(machine.disk.clone());
    let store = LogStore::open(options, disk, machine.kv.clone())?;
    let writer = store.clone();
    cluster::testing::spawn(async move {
        loop {
            queued.notified().await;
            tokio::time::sleep(SYNC).await;
            while writer.step() {}
        }
    });
    Ok(store)
}
