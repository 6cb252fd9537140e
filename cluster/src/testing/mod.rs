//! For simulations: whatever a run depends on comes from its seed. Time and chance, the network
//! between machines, the machines' disks, what goes wrong with them, and how seeds are run.

pub mod faults;
pub mod logs;
pub mod machine;
pub mod network;
pub mod seeds;

use std::cell::RefCell;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

thread_local! {
    static CHANCE: RefCell<StdRng> = RefCell::new(StdRng::seed_from_u64(0));
}

/// The machines of a simulation.
pub const NODES: [u64; 3] = [1, 2, 3];

/// Runs a simulated machine: everything that is spawned below draws its randomness from the seed.
pub async fn scope<F: Future>(seed: u64, machine: F) -> F::Output {
    crate::raft::scope(seed, machine).await
}

/// Whether all logs that a machine keeps have what it has answered for.
#[must_use]
pub fn has_whole_logs(cluster: &crate::Cluster) -> bool {
    cluster.has_whole_logs()
}

/// Spawns a task of a simulated machine.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    crate::raft::spawn(task);
}

/// How long the simulation runs by its own clock; nothing outside of one.
#[must_use]
pub fn elapsed() -> Duration {
    turmoil::sim_elapsed().unwrap_or(Duration::ZERO)
}

/// Random bytes, for ids.
#[must_use]
pub fn random_bytes() -> [u8; 16] {
    CHANCE.with_borrow_mut(|chance| chance.random())
}

/// Has the ids of this process, which runs one seed, come from the seed.
fn seed_chance(seed: u64) {
    CHANCE.set(StdRng::seed_from_u64(seed));
}
