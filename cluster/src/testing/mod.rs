//! For simulations: openraft's randomness by a seed.

/// Runs a simulated machine: everything that is spawned below draws its randomness from the seed.
pub async fn scope<F: Future>(seed: u64, machine: F) -> F::Output {
    crate::raft::scope(seed, machine).await
}

/// Spawns a task of a simulated machine.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    crate::raft::spawn(task);
}
