//! Runs the shards of one coordinator: a task for each partition of its topic that this broker
//! leads, and the bounded queues between the handlers and these tasks.
//!
//! Partitions that hold something are loaded as soon as this broker leads them; an empty one gets
//! its task when somebody asks for it, so that a broker without groups pays nothing.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cluster::metadata::{MetadataImage, TopicImage};
use cluster::{AppendError, Cluster};
use parking_lot::Mutex;
use protocol::compression::Codec;
use protocol::types::{PartitionId, TopicId};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::compaction::CompactionLimits;
use self::log::ShardLog;
use self::task::{ShardContext, ShardTask};
use super::observer::{ObservedShard, Observer, ObserverCell};
use super::shard::{Now, RequestToken, Shard, Steady};
use crate::limits::{
    COORDINATOR_COMPACTION_GROWTH, COORDINATOR_COMPACTION_MIN_BYTES,
    COORDINATOR_COMPACTION_PIECE_BYTES, COORDINATOR_QUEUED_CALLS,
};
use crate::{clock, tasks};

mod active;
mod batch;
mod compaction;
mod load;
mod log;
mod task;
#[cfg(test)]
mod tests;
mod timers;

/// Why the runtime answered in a shard's stead. Clients try again after each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorError {
    /// Another broker leads the partition, or this one goes down.
    #[error("not the coordinator")]
    NotCoordinator,
    /// The partition is being replayed.
    #[error("the coordinator is loading")]
    Loading,
    /// Too many requests wait for the shard.
    #[error("the coordinator is busy")]
    Busy,
    /// The topic does not exist, or the partition cannot be read or written.
    #[error("the coordinator is not available")]
    Unavailable,
}

impl From<&AppendError> for CoordinatorError {
    /// As Kafka's coordinators translate a failed write (`CoordinatorOperationExceptionHelper`).
    fn from(error: &AppendError) -> CoordinatorError {
        match error {
            AppendError::NotEnoughReplicas | AppendError::Busy => CoordinatorError::Unavailable,
            AppendError::NotLeader { .. }
            | AppendError::Gone
            | AppendError::OutOfOrderSequence
            | AppendError::InvalidProducerEpoch
            | AppendError::Storage(_) => CoordinatorError::NotCoordinator,
        }
    }
}

/// What a shard says to a request, or the runtime in its stead.
pub type Answer<S> = Result<<S as Shard>::Reply, CoordinatorError>;

/// A request on its way to a shard.
struct Call<S: Shard> {
    token: RequestToken,
    request: S::Request,
    answer: oneshot::Sender<Answer<S>>,
}

impl<S: Shard> Call<S> {
    fn refuse(self, error: CoordinatorError) {
        let _gone = self.answer.send(Err(error));
    }
}

/// A coordinator, whose machine is `S`.
pub struct Coordinator<S: Shard> {
    topic: &'static str,
    cluster: Arc<Cluster>,
    context: Arc<ShardContext<S>>,
    next_token: AtomicU64,
    observer: ObserverCell<S>,
    shards: Mutex<Shards<S>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The tasks of one incarnation of the topic.
struct Shards<S: Shard> {
    topic: Option<TopicId>,
    by_partition: BTreeMap<PartitionId, ShardHandle<S>>,
}

struct ShardHandle<S: Shard> {
    calls: mpsc::Sender<Call<S>>,
    stop: CancellationToken,
}

impl<S: Shard> Drop for ShardHandle<S> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl<S: Shard> Coordinator<S> {
    /// A coordinator that keeps its state in that topic. `new_soft` makes the soft state that each
    /// load of a shard starts with.
    pub fn new(
        topic: &'static str,
        cluster: Arc<Cluster>,
        codec: Codec,
        new_soft: impl Fn() -> S::Soft + Send + Sync + 'static,
    ) -> Arc<Coordinator<S>> {
        let limits = CompactionLimits {
            min_log_bytes: COORDINATOR_COMPACTION_MIN_BYTES,
            growth: COORDINATOR_COMPACTION_GROWTH,
            piece_bytes: COORDINATOR_COMPACTION_PIECE_BYTES,
        };
        let new_soft = Box::new(new_soft);
        let context = ShardContext { new_soft, clock: Box::new(now), codec, limits };
        Arc::new(Coordinator {
            topic,
            cluster,
            context: Arc::new(context),
            next_token: AtomicU64::new(1),
            observer: ObserverCell::default(),
            shards: Mutex::new(Shards { topic: None, by_partition: BTreeMap::new() }),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    /// Has `observer` told of every record from now on; to be called before `start`. The first
    /// observer stays.
    pub fn observe(&self, observer: Arc<dyn Observer<S>>) {
        self.observer.get_or_init(|| observer);
    }

    /// The topic that holds the state.
    #[must_use]
    pub fn topic(&self) -> &'static str {
        self.topic
    }

    /// The partition whose leader is the key's coordinator; `None` while there is no topic.
    #[must_use]
    pub fn partition_for(&self, key: &str) -> Option<PartitionId> {
        let partition_count = self.cluster.metadata().topic(self.topic)?.partitions.len();
        Some(partition_for(key, partition_count))
    }

    /// Hands a request to a shard. It is queued when this returns: the order of calls is the order
    /// of requests.
    pub fn call(
        &self,
        partition: PartitionId,
        request: S::Request,
    ) -> impl Future<Output = Answer<S>> + Send + use<S> {
        let (answer, answered) = oneshot::channel();
        let token = RequestToken(self.next_token.fetch_add(1, Ordering::Relaxed));
        let queued = self.queue(partition, Call { token, request, answer });
        async move {
            queued?;
            // Not answered at all: the task is gone.
            answered.await.unwrap_or(Err(CoordinatorError::NotCoordinator))
        }
    }

    /// Partitions that have a shard here, loaded or loading.
    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionId> {
        self.shards.lock().by_partition.keys().copied().collect()
    }

    fn queue(&self, partition: PartitionId, call: Call<S>) -> Result<(), CoordinatorError> {
        let image = self.cluster.metadata();
        let topic = image.topic(self.topic).ok_or(CoordinatorError::NotCoordinator)?;
        let mut shards = self.shards.lock();
        self.follow(&mut shards, topic.id);
        let mut call = call;
        if let Some(shard) = shards.by_partition.get(&partition) {
            match shard.calls.try_send(call) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(_)) => return Err(CoordinatorError::Busy),
                // Its task has died of a bug; the next one replays the log.
                Err(TrySendError::Closed(back)) => call = back,
            }
        }
        let shard = self.spawn(topic, partition).ok_or(CoordinatorError::NotCoordinator)?;
        let queued = shard.calls.try_send(call).map_err(|_| CoordinatorError::Busy);
        shards.by_partition.insert(partition, shard);
        queued
    }

    /// Stops the tasks of a topic that was deleted, or made anew.
    fn follow(&self, shards: &mut Shards<S>, topic: TopicId) {
        if shards.topic != Some(topic) {
            shards.by_partition.clear();
            shards.topic = Some(topic);
        }
    }

    /// Starts a partition's task; `None` where the partition is not here.
    fn spawn(&self, topic: &TopicImage, partition: PartitionId) -> Option<ShardHandle<S>> {
        if self.stop.is_cancelled() {
            return None;
        }
        let replica = self.cluster.replica(topic.id, partition).ok()?;
        let (calls, receiver) = mpsc::channel(COORDINATOR_QUEUED_CALLS);
        let stop = self.stop.child_token();
        let task = ShardTask {
            name: format!("{}-{partition}", self.topic),
            log: Arc::new(replica),
            context: Arc::clone(&self.context),
            calls: receiver,
            stop: stop.clone(),
            observed: ObservedShard::new(Arc::clone(&self.observer), partition),
            changed: Arc::new(Notify::new()),
        };
        tasks::spawn(&self.tasks, task.run());
        Some(ShardHandle { calls, stop })
    }

    /// Follows the metadata until the coordinator is stopped: loads what is to be loaded without
    /// being asked, and lets go of what is gone.
    pub fn start(self: &Arc<Self>) {
        let coordinator = Arc::clone(self);
        let mut images = self.cluster.watch_metadata();
        tasks::spawn(&self.tasks, async move {
            loop {
                let image = images.borrow_and_update().clone();
                coordinator.reconcile(&image);
                tokio::select! {
                    biased;
                    () = coordinator.stop.cancelled() => return,
                    changed = images.changed() => if changed.is_err() { return },
                }
            }
        });
    }

    fn reconcile(&self, image: &MetadataImage) {
        let mut shards = self.shards.lock();
        let Some(topic) = image.topic(self.topic) else {
            shards.by_partition.clear();
            shards.topic = None;
            return;
        };
        self.follow(&mut shards, topic.id);
        for partition in &topic.partitions {
            if shards.by_partition.contains_key(&partition.id) {
                continue;
            }
            let Ok(replica) = self.cluster.replica(topic.id, partition.id) else { continue };
            let offsets = ShardLog::offsets(&replica);
            let holds_something = offsets.log_end_offset > offsets.log_start_offset;
            // Of several replicas any may come to lead, whatever it holds now.
            if (holds_something || partition.replicas.len() > 1)
                && let Some(shard) = self.spawn(topic, partition.id)
            {
                shards.by_partition.insert(partition.id, shard);
            }
        }
    }

    /// Answers everyone who waits, and ends the tasks. The log must still be open.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.shards.lock().by_partition.clear();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Both of the broker's clocks.
fn now() -> Now {
    Now { wall: clock::now(), steady: Steady(clock::steady_ms()) }
}

/// The partition of a key, as every tool that reads these topics computes it: the absolute value of
/// Java's hash of the string, 0 for the number that has none (`Utils.abs`).
#[must_use]
pub fn partition_for(key: &str, partition_count: usize) -> PartitionId {
    let hash = key
        .encode_utf16()
        .fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let partition_count = i32::try_from(partition_count).unwrap_or(i32::MAX).max(1);
    PartitionId(hash.checked_abs().unwrap_or(0) % partition_count)
}
