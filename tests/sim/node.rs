//! One simulated machine: the store on its disk, the cluster over it, and a broker's services on
//! top, put together as `broker.rs` does.

use std::sync::Arc;

use cluster::metadata::EndpointImage;
use cluster::testing::NODES;
use cluster::testing::network::{SimTransport, host, serve};
use cluster::{Cluster, PeerOptions};
use highwater::config::BrokerConfig;
use highwater::{broker, peers};
use protocol::types::BrokerId;

use crate::front;
use crate::world::World;

/// Everything is quicker than by default, so that a short history sees many changes.
const CONFIG: &[&str] = &[
    "default.replication.factor=3",
    "num.partitions=3",
    "offsets.topic.num.partitions=3",
    "offsets.topic.replication.factor=3",
    "group.initial.rebalance.delay.ms=200",
    "group.min.session.timeout.ms=500",
    "broker.heartbeat.interval.ms=200",
    "broker.session.timeout.ms=1500",
    "replica.lag.time.max.ms=2000",
    "leader.imbalance.check.interval.seconds=2",
];

fn config(id: u64) -> Arc<BrokerConfig> {
    let voters: Vec<_> = NODES.iter().map(|id| format!("{id}@{}:9093", host(*id))).collect();
    let mut overrides: Vec<_> = CONFIG.iter().map(|pair| (*pair).to_owned()).collect();
    overrides.push(format!("node.id={id}"));
    overrides.push(format!("listeners=PLAINTEXT://{}:{}", host(id), front::PORT));
    overrides.push(format!("controller.quorum.voters={}", voters.join(",")));
    let (config, unknown) = BrokerConfig::from_sources("", &[], &overrides).expect("it loads");
    assert!(unknown.is_empty(), "unknown keys: {unknown:?}");
    Arc::new(config)
}

/// Runs until the machine is crashed.
pub async fn run(id: u64, life: u64, world: Arc<World>) -> turmoil::Result {
    let seed = world.seed.wrapping_mul(1_000).wrapping_add(id * 100).wrapping_add(life);
    let ended = cluster::testing::scope(seed, run_seeded(id, world.clone())).await;
    if world.machines[&id].disk.is_down() {
        // A broker whose disk is gone does not start; the machine is about to crash.
        return std::future::pending().await;
    }
    ended
}

async fn run_seeded(id: u64, world: Arc<World>) -> turmoil::Result {
    let config = config(id);
    let store = world.machines[&id].open_store()?;
    let endpoint = EndpointImage {
        listener: "PLAINTEXT".to_owned(),
        host: host(id),
        port: front::PORT,
        security_protocol: "PLAINTEXT".to_owned(),
    };
    let options = broker::cluster_options(&config, vec![endpoint], store);
    let image = options.broker.clone();
    let voters = NODES.iter().map(|id| BrokerId(*id as i32)).collect();
    let defaults = PeerOptions::new(voters, Arc::new(SimTransport::default()));
    let options_of_peers = peers::peer_options(config.timing, defaults);
    let cluster = Cluster::start_with_peers(options, options_of_peers).await?;
    let peers = cluster.clone();
    cluster::testing::spawn(async move {
        serve(peers).await.expect("the port is free");
    });
    cluster.join(image, None).await?;
    let services = broker::services(cluster, &config);
    services.groups.start();
    world.trace(format!("node {id} runs"));
    world.state().running.insert(id, services.clone());
    front::serve(services).await?;
    Ok(())
}
