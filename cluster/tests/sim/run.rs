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

/// Milliseconds with faults, once the cluster is formed.
const SAFETY_MS: u64 = 15_000;
/// Milliseconds in which everything must be well again.
const LIVENESS_MS: u64 = 20_000;
/// Milliseconds in which three brokers must form a cluster.
const FORMING_MS: u64 = 20_000;
/// Acknowledgements that each producer must get after the faults.
const ACKS_AFTER_FAULTS: u32 = 5;

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
    start_clients(&mut sim, &world);
    let mut faults = Faults::new(seed);
    let mut oracle = Oracle::default();
    let mut now = 0;
    let mut step = |now: &mut u64, sim: &mut turmoil::Sim<'_>, faults: &Faults| {
        *now += 1;
        sim.step().expect("no client fails");
        oracle.observe(&world, &faults.lives);
    };
    while !world.state().formed {
        assert!(now < FORMING_MS, "no cluster was formed");
        step(&mut now, &mut sim, &faults);
    }
    let end_of_faults = now + SAFETY_MS;
    while now < end_of_faults {
        faults.step(now, &mut sim, &*world);
        step(&mut now, &mut sim, &faults);
    }
    faults.heal(&mut sim, &*world);
    world.trace(String::from("healing"));
    world.state().healing = true;
    let deadline = now + LIVENESS_MS;
    while !Oracle::healed(&world, ACKS_AFTER_FAULTS) {
        assert!(now < deadline, "the cluster does not heal: {}", describe(&world));
        step(&mut now, &mut sim, &faults);
    }
    let log_hash = Oracle::check_logs(&world);
    let (acks, events) = {
        let state = world.state();
        (state.acked.len(), state.trace.len())
    };
    let hash = world.hash() ^ log_hash;
    println!("seed {seed} ms {now} acks {acks} events {events} hash {hash:016x}");
}

fn start_clients(sim: &mut turmoil::Sim<'_>, world: &Arc<World>) {
    let forming = world.clone();
    let seed = world.seed;
    sim.client(
        "forming",
        cluster::testing::scope(seed, async move {
            workload::form(&forming).await;
            let topics = forming.clone();
            cluster::testing::spawn(workload::make_topics(topics));
            cluster::testing::spawn(workload::delete_records(forming.clone()));
            cluster::testing::spawn(workload::reassign(forming.clone()));
            for producer in workload::PRODUCERS {
                cluster::testing::spawn(workload::produce(forming.clone(), producer));
            }
            std::future::pending::<()>().await;
            Ok(())
        }),
    );
}

fn describe(world: &World) -> String {
    let running = world.running();
    let lines = running.iter().map(|(id, node)| {
        let replica = node.replica(crate::world::TOPIC, crate::world::PARTITION);
        let replica = replica.map(|r| format!("{:?} {:?}", r.leadership(), r.offsets()));
        format!("node {id}: controller {:?}, {replica:?}", node.controller())
    });
    let acks = format!("{:?}", world.state().acked_since_healing);
    lines.chain([acks]).collect::<Vec<_>>().join("\n")
}
