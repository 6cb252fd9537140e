//! What goes wrong: machines stop and lose what was not synced, also in the middle of a write;
//! connections are cut between two machines, or around one, in one direction or in both.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::testing::has_whole_logs;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use turmoil::Sim;

use crate::network::host;
use crate::world::{NODES, World};

/// The plan of faults, by the seed.
pub struct Faults {
    rng: StdRng,
    next_at: u64,
    /// When a stopped machine starts again.
    restart_at: BTreeMap<u64, u64>,
    /// When a cut is mended.
    repair_at: BTreeMap<(u64, u64), u64>,
    /// How often each machine was started.
    pub lives: BTreeMap<u64, u64>,
}

impl Faults {
    pub fn new(seed: u64) -> Faults {
        Faults {
            rng: StdRng::seed_from_u64(seed.wrapping_mul(7).wrapping_add(5)),
            next_at: 0,
            restart_at: BTreeMap::new(),
            repair_at: BTreeMap::new(),
            lives: NODES.iter().map(|id| (*id, 1)).collect(),
        }
    }

    /// One millisecond of the safety phase.
    pub fn step(&mut self, now: u64, sim: &mut Sim<'_>, world: &Arc<World>) {
        self.crash_stopped_disks(now, sim, world);
        self.mend(now, sim, world);
        if self.next_at == 0 {
            self.next_at = now + self.rng.random_range(200..1_500);
        }
        if now < self.next_at {
            return;
        }
        self.next_at = now + self.rng.random_range(300..2_500);
        let node = NODES[self.rng.random_range(0..NODES.len())];
        match self.rng.random_range(0..11) {
            0..3 => self.crash(now, node, sim, world),
            10 => self.lose_disk(now, node, sim, world),
            3..6 => {
                let disk = &world.machines[&node].disk;
                disk.crash_at(disk.operations() + self.rng.random_range(1..40));
            }
            6..8 => {
                let other = NODES[self.rng.random_range(0..NODES.len())];
                if other != node {
                    self.cut(now, node, other, sim, world);
                }
            }
            _ => {
                for other in NODES {
                    if other != node {
                        self.cut(now, node, other, sim, world);
                    }
                }
            }
        }
    }

    /// Everything is mended at once.
    pub fn heal(&mut self, sim: &mut Sim<'_>, world: &Arc<World>) {
        for node in NODES {
            world.machines[&node].disk.clear_faults();
        }
        self.crash_stopped_disks(0, sim, world);
        for at in self.restart_at.values_mut().chain(self.repair_at.values_mut()) {
            *at = 0;
        }
        self.mend(u64::MAX, sim, world);
    }

    fn crash_stopped_disks(&mut self, now: u64, sim: &mut Sim<'_>, world: &Arc<World>) {
        for node in NODES {
            if world.machines[&node].disk.is_down() && !self.restart_at.contains_key(&node) {
                self.crash(now, node, sim, world);
            }
        }
    }

    fn crash(&mut self, now: u64, node: u64, sim: &mut Sim<'_>, world: &Arc<World>) {
        if self.restart_at.contains_key(&node) {
            return;
        }
        world.trace(format!("node {node} crashes"));
        world.state().running.remove(&node);
        sim.crash(host(node));
        let machine = &world.machines[&node];
        machine.disk.crash();
        machine.kv.crash();
        self.restart_at.insert(node, now + self.rng.random_range(50..3_000));
    }

    /// Another disk, which is empty, in place of a machine's. Not while one has not been brought up
    /// to date: two of three may have been the only ones that held something.
    fn lose_disk(&mut self, now: u64, node: u64, sim: &mut Sim<'_>, world: &Arc<World>) {
        let running = world.running();
        if running.len() < NODES.len() || !running.iter().all(|(_, n)| has_whole_logs(n)) {
            return;
        }
        self.crash(now, node, sim, world);
        world.trace(format!("node {node} has another disk"));
        let machine = &world.machines[&node];
        machine.disk.replace();
        machine.kv.lose();
    }

    fn cut(&mut self, now: u64, one: u64, other: u64, sim: &mut Sim<'_>, world: &Arc<World>) {
        let pair = (one.min(other), one.max(other));
        if self.repair_at.contains_key(&pair) {
            return;
        }
        if self.rng.random_ratio(1, 3) {
            world.trace(format!("{one} is not heard by {other}"));
            sim.partition_oneway(host(one), host(other));
        } else {
            world.trace(format!("cut between {one} and {other}"));
            sim.partition(host(one), host(other));
        }
        self.repair_at.insert(pair, now + self.rng.random_range(100..4_000));
    }

    fn mend(&mut self, now: u64, sim: &mut Sim<'_>, world: &Arc<World>) {
        let due = |at: &BTreeMap<u64, u64>| -> BTreeSet<u64> {
            at.iter().filter(|(_, at)| **at <= now).map(|(node, _)| *node).collect()
        };
        for node in due(&self.restart_at) {
            self.restart_at.remove(&node);
            *self.lives.entry(node).or_default() += 1;
            world.machines[&node].disk.clear_faults();
            world.trace(format!("node {node} starts again"));
            sim.bounce(host(node));
        }
        let mended: Vec<_> =
            self.repair_at.iter().filter(|(_, at)| **at <= now).map(|(pair, _)| *pair).collect();
        for pair in mended {
            self.repair_at.remove(&pair);
            world.trace(format!("mended between {} and {}", pair.0, pair.1));
            sim.repair(host(pair.0), host(pair.1));
        }
    }
}
