//! For simulations: openraft's randomness by a seed.

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
