//! What goes wrong: machines stop and lose what was not synced, also in the middle of a write;
//! connections are cut between two machines, or around one, in one direction or in both.

use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use turmoil::Sim;

use super::NODES;
use super::machine::Machine;
use super::network::host;

/// What faults happen to.
pub trait Scene {
    /// What survives a machine.
    fn machine(&self, id: u64) -> &Machine;
    /// Notes an event of the history.
    fn trace(&self, event: String);
    /// Whether all machines run, and each holds all of its logs.
    fn is_whole(&self) -> bool;
    /// The machine does not run any more.
    fn on_crash(&self, id: u64);
}

/// The plan of faults, by the seed.
#[derive(Debug)]
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
    /// The plan of a seed.
    #[must_use]
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
    pub fn step(&mut self, now: u64, sim: &mut Sim<'_>, scene: &dyn Scene) {
        self.crash_stopped_disks(now, sim, scene);
        self.mend(now, sim, scene);
        if self.next_at == 0 {
            self.next_at = now + self.rng.random_range(200..1_500);
        }
        if now < self.next_at {
            return;
        }
        self.next_at = now + self.rng.random_range(300..2_500);
        let node = NODES[self.rng.random_range(0..NODES.len())];
        match self.rng.random_range(0..11) {
            0..3 => self.crash(now, node, sim, scene),
            10 => self.lose_disk(now, node, sim, scene),
            3..6 => {
                let disk = &scene.machine(node).disk;
                disk.crash_at(disk.operations() + self.rng.random_range(1..40));
            }
            6..8 => {
                let other = NODES[self.rng.random_range(0..NODES.len())];
                if other != node {
                    self.cut(now, node, other, sim, scene);
                }
            }
            _ => {
                for other in NODES {
                    if other != node {
                        self.cut(now, node, other, sim, scene);
                    }
                }
            }
        }
    }

    /// Everything is mended at once.
    pub fn heal(&mut self, sim: &mut Sim<'_>, scene: &dyn Scene) {
        // First: what has stopped does not go on with a disk that is well again.
        self.crash_stopped_disks(0, sim, scene);
        for node in NODES {
            scene.machine(node).disk.clear_faults();
            scene.machine(node).slow_down(0);
        }
        for at in self.restart_at.values_mut().chain(self.repair_at.values_mut()) {
            *at = 0;
        }
        self.mend(u64::MAX, sim, scene);
    }

    fn crash_stopped_disks(&mut self, now: u64, sim: &mut Sim<'_>, scene: &dyn Scene) {
        for node in NODES {
            if scene.machine(node).disk.is_down() && !self.restart_at.contains_key(&node) {
                self.crash(now, node, sim, scene);
            }
        }
    }

    fn crash(&mut self, now: u64, node: u64, sim: &mut Sim<'_>, scene: &dyn Scene) {
        if self.restart_at.contains_key(&node) {
            return;
        }
        scene.trace(format!("node {node} crashes"));
        scene.on_crash(node);
        sim.crash(host(node));
        let machine = scene.machine(node);
        machine.disk.crash();
        machine.kv.crash();
        self.restart_at.insert(node, now + self.rng.random_range(50..3_000));
    }

    /// Another disk, which is empty, in place of a machine's. Not while one has not been brought up
    /// to date: two of three may have been the only ones that held something.
    fn lose_disk(&mut self, now: u64, node: u64, sim: &mut Sim<'_>, scene: &dyn Scene) {
        if !scene.is_whole() {
            return;
        }
        self.crash(now, node, sim, scene);
        scene.trace(format!("node {node} has another disk"));
        let machine = scene.machine(node);
        machine.disk.replace();
        machine.kv.lose();
    }

    fn cut(&mut self, now: u64, one: u64, other: u64, sim: &mut Sim<'_>, scene: &dyn Scene) {
        let pair = (one.min(other), one.max(other));
        if self.repair_at.contains_key(&pair) {
            return;
        }
        if self.rng.random_ratio(1, 3) {
            scene.trace(format!("{one} is not heard by {other}"));
            sim.partition_oneway(host(one), host(other));
        } else {
            scene.trace(format!("cut between {one} and {other}"));
            sim.partition(host(one), host(other));
        }
        self.repair_at.insert(pair, now + self.rng.random_range(100..4_000));
    }

    fn mend(&mut self, now: u64, sim: &mut Sim<'_>, scene: &dyn Scene) {
        let due = |at: &BTreeMap<u64, u64>| -> BTreeSet<u64> {
            at.iter().filter(|(_, at)| **at <= now).map(|(node, _)| *node).collect()
        };
        for node in due(&self.restart_at) {
            self.restart_at.remove(&node);
            *self.lives.entry(node).or_default() += 1;
            scene.machine(node).disk.clear_faults();
            scene.trace(format!("node {node} starts again"));
            sim.bounce(host(node));
        }
        let mended: Vec<_> =
            self.repair_at.iter().filter(|(_, at)| **at <= now).map(|(pair, _)| *pair).collect();
        for pair in mended {
            self.repair_at.remove(&pair);
            scene.trace(format!("mended between {} and {}", pair.0, pair.1));
            sim.repair(host(pair.0), host(pair.1));
        }
    }
}
