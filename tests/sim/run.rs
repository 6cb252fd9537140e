//! One seed: a safety phase with faults, then a phase in which everything must heal.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::testing::NODES;
use cluster::testing::faults::Faults;
use cluster::testing::network::host;

use crate::oracle::Oracle;
use crate::world::World;
use crate::{node, workload};

/// Milliseconds with faults, once the topic is there.
const SAFETY_MS: u64 = 15_000;
/// Milliseconds in which everything must be well again.
const LIVENESS_MS: u64 = 40_000;
/// Milliseconds in which three brokers must form a cluster and make a topic.
const FORMING_MS: u64 = 30_000;
/// What each client must get done after the faults.
const DONE_AFTER_FAULTS: u32 = 5;

pub fn run(seed: u64) {
    let world = World::new(seed);
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(Duration::from_secs(3_600))
        .tick_duration(Duration::from_millis(1))
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(Duration::from_millis(15))
        .tcp_capacity(65_536)
        .build();
    for id in NODES {
        let world = world.clone();
        let life = Rc::new(Cell::new(0));
        sim.host(host(id), move || {
            life.set(life.get() + 1);
            node::run(id, life.get(), world.clone())
        });
    }
    let clients = world.clone();
    sim.client(
        "clients",
        cluster::testing::scope(seed, async move {
            workload::run(clients).await;
            std::future::pending::<()>().await;
            Ok(())
        }),
    );
    let mut faults = Faults::new(seed);
    let mut oracle = Oracle::default();
    let mut now = 0;
    let mut step = |now: &mut u64, sim: &mut turmoil::Sim<'_>| {
        *now += 1;
        sim.step().expect("no client fails");
        oracle.observe(&world);
    };
    while !world.state().formed {
        assert!(now < FORMING_MS, "no topic was made: {}", world.describe());
        step(&mut now, &mut sim);
    }
    let end_of_faults = now + SAFETY_MS;
    while now < end_of_faults {
        faults.step(now, &mut sim, &*world);
        step(&mut now, &mut sim);
    }
    faults.heal(&mut sim, &*world);
    world.trace(String::from("healing"));
    world.state().healing = true;
    let deadline = now + LIVENESS_MS;
    while !Oracle::healed(&world, DONE_AFTER_FAULTS) {
        assert!(now < deadline, "the brokers do not heal: {}", world.describe());
        step(&mut now, &mut sim);
    }
    let log_hash = Oracle::check_logs(&world);
    report(seed, now, &world, log_hash);
}

fn report(seed: u64, now: u64, world: &Arc<World>, log_hash: u64) {
    let hash = world.hash() ^ log_hash;
    let state = world.state();
    let (acks, read, events) = (state.acked.len(), state.read.len(), state.trace.len());
    println!("seed {seed} ms {now} acks {acks} read {read} events {events} hash {hash:016x}");
}
