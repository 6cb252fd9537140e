//! Carries a fetch plan out: reads the partitions within the response's limits, and waits until
//! there is enough (Kafka: `ReplicaManager.fetchMessages`, `DelayedFetch`).
//!
//! A read looks into the index only; record bytes stay where they are until the socket takes them.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cluster::ReadError;
use cluster::metadata::TopicImage;
use cluster::replica::{Replica, ReplicaOffsets};
use protocol::error_code::ErrorCode;
use protocol::types::{BrokerId, LeaderEpoch, Offset};
use storage::log_store::Records;
use tokio::sync::Notify;

use super::planner::{
    Budget, Decision, FetchParams, PartitionView, PlannedPartition, Progress, decide,
};
use super::replica_selector::{Candidate, preferred};
use super::session::Asked;
use crate::context::Services;
use crate::error_map::ToErrorCode;
use crate::handlers::common::leadership::CurrentLeader;
use crate::handlers::common::resolve;

/// What a partition's read yielded.
#[derive(Debug, Clone)]
pub struct PartitionAnswer {
    /// [`ErrorCode::None`], or why there is nothing else in it.
    pub error: ErrorCode,
    /// The partition's offsets, unless there is an error.
    pub offsets: Option<ReplicaOffsets>,
    /// Where the client's log and this one part.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Where to go instead, on an error that says so.
    pub current_leader: Option<CurrentLeader>,
    /// The follower to read from instead.
    pub preferred_replica: Option<BrokerId>,
    /// The batches.
    pub records: Records,
}

impl PartitionAnswer {
    fn failed(error: ErrorCode) -> Self {
        let (offsets, diverging, current_leader, preferred_replica) = (None, None, None, None);
        let records = Records::default();
        Self { error, offsets, diverging, current_leader, preferred_replica, records }
    }

    fn must_be_told(&self) -> bool {
        !self.error.is_none() || self.diverging.is_some() || self.preferred_replica.is_some()
    }

    fn empty(offsets: ReplicaOffsets) -> Self {
        Self { offsets: Some(offsets), ..Self::failed(ErrorCode::None) }
    }
}

/// One partition of the fetch, found.
struct Source {
    asked: Asked,
    /// As the plan found it.
    topic: Option<Arc<TopicImage>>,
    replica: Result<Arc<Replica>, ErrorCode>,
}

/// A fetch in progress.
pub struct Execution {
    services: Arc<Services>,
    params: FetchParams,
    /// The consumer's, where replicas are picked by it.
    rack: Option<String>,
    sources: Vec<Source>,
}

/// The answers of one pass, in the order of the plan.
pub struct Pass {
    /// One for each partition.
    pub answers: Vec<PartitionAnswer>,
    progress: Progress,
}

impl Execution {
    /// Finds the replicas of a plan.
    #[must_use]
    pub fn new(
        services: Arc<Services>,
        params: FetchParams,
        rack: Option<String>,
        planned: Vec<PlannedPartition>,
    ) -> Self {
        let find = |planned: PlannedPartition| {
            let PlannedPartition { asked, topic } = planned;
            let partition = asked.key.partition;
            let replica = match &topic {
                Ok(topic) => resolve::local_replica(&services, topic.id, partition),
                Err(error) => Err(*error),
            };
            Source { asked, topic: topic.ok(), replica }
        };
        let sources = planned.into_iter().map(find).collect();
        Self { services, params, rack, sources }
    }

    /// What was asked, and of which topic, in the order of the plan.
    pub fn asked(&self) -> impl Iterator<Item = (&Asked, Option<&Arc<TopicImage>>)> {
        self.sources.iter().map(|source| (&source.asked, source.topic.as_ref()))
    }

    /// Whether the answers of a pass go out without waiting.
    #[must_use]
    pub fn is_satisfied_by(&self, pass: &Pass) -> bool {
        self.params.is_satisfied_by(pass.progress)
    }

    /// Reads every partition once.
    #[must_use]
    pub fn pass(&self) -> Pass {
        let mut budget = Budget::new(self.params.max_bytes);
        let partition_count = self.sources.len();
        let mut progress = Progress { partition_count, ..Progress::default() };
        let mut answers = Vec::with_capacity(partition_count);
        for source in &self.sources {
            let answer = self.read(source, &budget);
            budget.spend(answer.records.size_bytes);
            progress.bytes += answer.records.size_bytes;
            progress.must_tell |= answer.must_be_told();
            answers.push(answer);
        }
        Pass { answers, progress }
    }

    /// Passes again whenever one of the partitions moves, until there is enough or the time is up.
    pub async fn wait(&mut self) -> Pass {
        let notify = Arc::new(Notify::new());
        let replicas = self.sources.iter().filter_map(|source| source.replica.as_ref().ok());
        // Watched before they are looked at: what happens in between is not missed.
        let _watches: Vec<_> =
            replicas.map(|replica| replica.watch_offsets(notify.clone())).collect();
        let mut expiry = pin!(tokio::time::sleep(Duration::from_millis(self.params.max_wait_ms)));
        let mut is_over = false;
        loop {
            self.drop_what_is_gone();
            let pass = self.pass();
            if is_over || self.is_satisfied_by(&pass) {
                return pass;
            }
            tokio::select! {
                () = notify.notified() => {}
                () = &mut expiry => is_over = true,
            }
        }
    }

    /// A topic that is deleted while a fetch waits wakes it.
    fn drop_what_is_gone(&mut self) {
        for source in &mut self.sources {
            if let (Ok(_), Some(topic)) = (&source.replica, &source.topic) {
                let partition = source.asked.key.partition;
                source.replica = resolve::local_replica(&self.services, topic.id, partition);
            }
        }
    }

    /// Where this consumer should read instead of here, which only a leader says.
    fn preferred_replica(&self, replica: &Replica, fetch_offset: Offset) -> Option<BrokerId> {
        let rack = self.rack.as_deref()?;
        if !replica.is_leader() {
            return None;
        }
        let followers = || {
            let image = self.services.cluster.metadata();
            let candidate = |(id, log_end_offset)| {
                let rack = image.brokers.get(&id).and_then(|broker| broker.rack.clone());
                Candidate { id, rack, log_end_offset }
            };
            replica.followers_that_hold(fetch_offset).into_iter().map(candidate).collect()
        };
        preferred(rack, self.services.config.rack.as_deref(), followers)
    }

    fn read(&self, source: &Source, budget: &Budget) -> PartitionAnswer {
        let replica = match &source.replica {
            Ok(replica) => replica,
            Err(error) => return PartitionAnswer::failed(*error),
        };
        let offsets = replica.offsets();
        let request = &source.asked.request;
        let view = PartitionView {
            is_leader: replica.is_leader(),
            is_follower: replica.is_follower(),
            offsets,
            end_offset_for_epoch: &|epoch| replica.end_offset_for_epoch(epoch),
            preferred_replica: &|| self.preferred_replica(replica, request.fetch_offset),
        };
        match decide(request, &view, &self.params) {
            Decision::Fail(error) => failed(replica, error),
            Decision::Diverge { epoch, end_offset } => {
                let diverging = Some((epoch, end_offset));
                PartitionAnswer { diverging, ..PartitionAnswer::empty(offsets) }
            }
            Decision::ReadFrom(follower) => {
                let preferred_replica = Some(follower);
                PartitionAnswer { preferred_replica, ..PartitionAnswer::empty(offsets) }
            }
            Decision::Empty => PartitionAnswer::empty(offsets),
            Decision::Read { upper_bound } => {
                let Some(limit) = budget.limit(request.max_bytes, upper_bound) else {
                    return PartitionAnswer::empty(offsets);
                };
                match replica.read(request.fetch_offset, limit) {
                    Ok(records) => PartitionAnswer { records, ..PartitionAnswer::empty(offsets) },
                    Err(error) => read_failed(source, replica, &error),
                }
            }
        }
    }
}

fn read_failed(source: &Source, replica: &Replica, error: &ReadError) -> PartitionAnswer {
    if let ReadError::Storage(error) = error {
        let partition = &source.asked.key;
        tracing::warn!(?partition, %error, "a fetch could not be read");
    }
    failed(replica, error.error_code())
}

/// An error, and the leader to go to where that is the remedy.
fn failed(replica: &Replica, error: ErrorCode) -> PartitionAnswer {
    let sends_elsewhere =
        matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
    let current_leader = if sends_elsewhere { CurrentLeader::of(replica) } else { None };
    PartitionAnswer { current_leader, ..PartitionAnswer::failed(error) }
}
