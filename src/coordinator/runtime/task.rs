//! The task of one partition: waits to lead it, loads it, serves it, and begins anew when the
//! leadership is lost or an append has failed. There is one way to recover, the replay of the log.

use std::sync::Arc;
use std::time::Duration;

use cluster::{AppendError, ReadError, off_worker};
use protocol::compression::Codec;
use protocol::types::LeaderEpoch;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::active::{Active, next_commit};
use super::compaction::{Compaction, CompactionLimits};
use super::load::Replay;
use super::log::ShardLog;
use super::{Call, CoordinatorError};
use crate::coordinator::observer::ObservedShard;
use crate::coordinator::shard::{Event, Now, Shard, Steady};
use crate::limits::{
    COORDINATOR_APPENDS_IN_FLIGHT, COORDINATOR_CALLS_AT_ONCE as CALLS_AT_ONCE,
    COORDINATOR_LOAD_RETRY, COORDINATOR_STOP_DRAIN,
};
use crate::{clock, telemetry};

/// What the shards of a coordinator have in common.
pub(super) struct ShardContext<S: Shard> {
    /// The soft state that a load starts with.
    pub(super) new_soft: Box<dyn Fn() -> S::Soft + Send + Sync>,
    pub(super) clock: Box<dyn Fn() -> Now + Send + Sync>,
    pub(super) codec: Codec,
    pub(super) limits: CompactionLimits,
}

/// The task of one partition.
pub(super) struct ShardTask<S: Shard> {
    /// Topic and partition, for the log.
    pub(super) name: String,
    pub(super) log: Arc<dyn ShardLog>,
    pub(super) context: Arc<ShardContext<S>>,
    pub(super) calls: mpsc::Receiver<Call<S>>,
    pub(super) stop: CancellationToken,
    pub(super) observed: ObservedShard<S>,
    /// Woken when offsets or leadership have changed.
    pub(super) changed: Arc<Notify>,
}

/// Why a shard is not served any more.
enum Ended {
    Stopped,
    LeadershipLost,
    AppendFailed(AppendError),
}

/// What a served shard waits for.
enum Happened {
    Stop,
    Committed(Result<protocol::types::Offset, AppendError>),
    Changed,
    Moved(Result<(), AppendError>),
    Due,
    /// How many; none when nobody can call any more.
    Calls(usize),
}

impl<S: Shard> ShardTask<S> {
    pub(super) async fn run(mut self) {
        let watch = self.log.watch(Arc::clone(&self.changed));
        while let Some(epoch) = self.wait_to_lead().await {
            match self.load(epoch).await {
                Ok(Some(active)) => self.serve(active, epoch).await,
                Ok(None) => {}
                Err(error) => {
                    warn!(partition = %self.name, %error, "coordinator state cannot be loaded");
                    self.refuse_for(COORDINATOR_LOAD_RETRY, CoordinatorError::Unavailable).await;
                }
            }
            self.observed.on_unloaded();
        }
        drop(watch);
        self.calls.close();
        while let Some(call) = self.calls.recv().await {
            call.refuse(CoordinatorError::NotCoordinator);
        }
    }

    /// Resolves when this broker leads the partition; `None` when the shard is to stop.
    async fn wait_to_lead(&mut self) -> Option<LeaderEpoch> {
        while !self.log.is_leader() {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                () = self.changed.notified() => {}
                call = self.calls.recv() => call?.refuse(CoordinatorError::NotCoordinator),
            }
        }
        (!self.stop.is_cancelled()).then(|| self.log.offsets().leader_epoch)
    }

    fn leads(&self, epoch: LeaderEpoch) -> bool {
        self.log.is_leader() && self.log.offsets().leader_epoch == epoch
    }

    async fn refuse_for(&mut self, duration: Duration, error: CoordinatorError) {
        let mut over = std::pin::pin!(tokio::time::sleep(duration));
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = &mut over => return,
                Some(call) = self.calls.recv() => call.refuse(error),
            }
        }
    }

    /// Replays the log; `None` when the leadership was lost over it, or the shard is to stop.
    async fn load(&mut self, epoch: LeaderEpoch) -> Result<Option<Active<S>>, ReadError> {
        let started_at = clock::monotonic();
        // What an earlier attempt of this broker left in the log may not be committed yet.
        loop {
            let offsets = self.log.offsets();
            if offsets.high_watermark >= offsets.log_end_offset {
                break;
            }
            if !self.goes_on(epoch).await {
                return Ok(None);
            }
        }
        let offsets = self.log.offsets();
        let end = offsets.high_watermark;
        self.observed.on_unloaded();
        let mut replay = Replay::<S>::new(offsets.log_start_offset, self.observed.clone());
        while replay.next < end {
            let log = Arc::clone(&self.log);
            let work = off_worker(move || replay.piece(&*log, end));
            replay = match self.during(work).await {
                Some(piece) => piece?,
                None => return Ok(None),
            };
            if !self.leads(epoch) {
                return Ok(None);
            }
        }
        let (log_bytes, mut live_bytes) = (replay.log_bytes, 0);
        if log_bytes > self.context.limits.min_log_bytes {
            let work = off_worker(move || (replay.live_bytes(), replay));
            match self.during(work).await {
                Some(counted) => (live_bytes, replay) = counted,
                None => return Ok(None),
            }
        }
        if let Some((count, first)) = &replay.undecodable {
            error!(partition = %self.name, count, first, "records cannot be decoded, left out");
        }
        let took = clock::since(started_at);
        telemetry::coordinator_loaded(took);
        if log_bytes > 0 {
            let took_ms = took.as_millis() as u64;
            info!(partition = %self.name, log_bytes, took_ms, "coordinator state is loaded");
        }
        let compaction = Compaction::new(self.context.limits, log_bytes, live_bytes);
        let (log, context) = (Arc::clone(&self.log), Arc::clone(&self.context));
        let mut active = Active::new(log, context, self.observed.clone(), replay.hard, compaction);
        active.on_event(Event::Loaded);
        Ok(Some(active))
    }

    /// Waits for a change of the partition; false when there is no use in waiting on.
    async fn goes_on(&mut self, epoch: LeaderEpoch) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return false,
            () = self.changed.notified() => {}
            Some(call) = self.calls.recv() => call.refuse(CoordinatorError::Loading),
        }
        self.leads(epoch)
    }

    /// Waits for blocking work and refuses what comes meanwhile; `None` when the shard is to
    /// stop, or the work has failed.
    async fn during<T>(&mut self, work: impl Future<Output = Result<T, String>>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return None,
                done = &mut work => return done.ok(),
                Some(call) = self.calls.recv() => call.refuse(CoordinatorError::Loading),
            }
        }
    }

    async fn serve(&mut self, mut active: Active<S>, epoch: LeaderEpoch) {
        let _serving = telemetry::coordinator_serving();
        match self.serve_until_end(&mut active, epoch).await {
            Ended::Stopped => {
                let drained = tokio::time::timeout(COORDINATOR_STOP_DRAIN, active.drain()).await;
                if drained.is_err() {
                    warn!(partition = %self.name, "appends in flight took too long to wait for");
                }
                active.refuse_all(CoordinatorError::NotCoordinator);
            }
            Ended::LeadershipLost => {
                info!(partition = %self.name, "coordinator state is unloaded");
                active.refuse_all(CoordinatorError::NotCoordinator);
            }
            Ended::AppendFailed(error) => {
                telemetry::coordinator_append_failed();
                debug!(partition = %self.name, %error, "an append failed, the state is reloaded");
                active.refuse_all(CoordinatorError::from(&error));
                // Until all have failed or are in the log, the log is not what is to be replayed.
                tokio::select! {
                    () = self.stop.cancelled() => {}
                    () = active.drain() => {}
                }
            }
        }
    }

    async fn serve_until_end(&mut self, active: &mut Active<S>, epoch: LeaderEpoch) -> Ended {
        let mut calls = Vec::new();
        loop {
            active.compact();
            let has_room = active.in_flight.len() < COORDINATOR_APPENDS_IN_FLIGHT;
            let deadline = active.next_deadline();
            let Active { in_flight, compaction, .. } = &mut *active;
            let happened = tokio::select! {
                biased;
                () = self.stop.cancelled() => Happened::Stop,
                committed = next_commit(in_flight) => Happened::Committed(committed),
                () = self.changed.notified() => Happened::Changed,
                moved = compaction.moved() => Happened::Moved(moved),
                () = sleep_until(deadline, &self.context.clock) => Happened::Due,
                count = self.calls.recv_many(&mut calls, CALLS_AT_ONCE), if has_room => {
                    Happened::Calls(count)
                }
            };
            match happened {
                Happened::Stop | Happened::Calls(0) => return Ended::Stopped,
                Happened::Committed(committed) => {
                    if let Err(error) = active.on_committed(committed) {
                        return Ended::AppendFailed(error);
                    }
                }
                Happened::Changed if !self.leads(epoch) => return Ended::LeadershipLost,
                Happened::Changed => {}
                Happened::Moved(Ok(())) => {
                    telemetry::coordinator_compacted();
                    debug!(partition = %self.name, "coordinator log is compacted");
                }
                Happened::Moved(Err(error)) => {
                    warn!(partition = %self.name, %error, "coordinator log is not compacted");
                }
                Happened::Due => active.on_time(),
                Happened::Calls(_) => calls.drain(..).for_each(|call| active.on_call(call)),
            }
        }
    }
}

/// Resolves when it is time; never where there is no deadline.
async fn sleep_until(deadline: Option<Steady>, clock: &(dyn Fn() -> Now + Send + Sync)) {
    let Some(Steady(deadline_ms)) = deadline else { return std::future::pending().await };
    let left_ms = deadline_ms.saturating_sub(clock().steady.0);
    tokio::time::sleep(Duration::from_millis(u64::try_from(left_ms).unwrap_or(0))).await;
}
