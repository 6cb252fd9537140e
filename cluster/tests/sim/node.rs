//! One simulated machine: a store driven by hand on the simulated disk, and a broker over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cluster::metadata::BrokerImage;
use cluster::replica::ThrottledReplicas;
use cluster::testing::NODES;
use cluster::testing::network::{SimTransport, serve};
use cluster::{Cluster, ClusterOptions, PeerOptions, ReplicaSettings};
use protocol::types::{BrokerId, Timestamp};
use storage::log_store::Durability;
use uuid::Uuid;

use crate::world::World;

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
    let store = world.machines[&id].open_store()?;
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
        now: Arc::new(|| Timestamp(cluster::testing::elapsed().as_millis() as i64)),
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
