//! How the broker's long-lived tasks are started.

use tokio_util::task::TaskTracker;

/// Starts a task that the tracker waits for.
#[cfg(not(feature = "sim"))]
pub fn spawn(tracker: &TaskTracker, task: impl Future<Output = ()> + Send + 'static) {
    tracker.spawn(task);
}

/// Starts a task that the tracker waits for, and that draws its randomness from the simulation's.
#[cfg(feature = "sim")]
pub fn spawn(tracker: &TaskTracker, task: impl Future<Output = ()> + Send + 'static) {
    cluster::testing::spawn(tracker.track_future(task));
}
