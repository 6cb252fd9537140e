//! Incremental fetch sessions (KIP-227): what a consumer fetches is kept here between its requests,
//! so that a request names only what changed, and an answer only what is new (Kafka:
//! `FetchSession.scala`).
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use indexmap::IndexMap;
use protocol::error_code::ErrorCode;
use protocol::types::{LeaderEpoch, Offset, PartitionId, Timestamp, TopicId};

#[cfg(test)]
mod tests;

/// The session id of a fetch that belongs to none.
pub const INVALID_SESSION_ID: i32 = 0;
/// The epoch of a request that asks for a new session.
pub const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request that wants no session, and closes the one it names.
pub const FINAL_EPOCH: i32 = -1;

/// `max.incremental.fetch.session.cache.slots` where nothing else is said.
const DEFAULT_SLOTS: usize = 1000;
/// For so long a session is safe from others (`MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS`).
const EVICTION_MS: i64 = 120_000;
/// Partitions kept for all sessions together. Beyond it fetches are answered without a session,
/// which every client understands; about 150 bytes each.
const MAX_CACHED_PARTITIONS: usize = 250_000;

/// A topic as the request names it: by name up to version 12, by id from version 13 on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopicKey {
    /// Up to version 12.
    Name(Arc<str>),
    /// From version 13 on.
    Id(TopicId),
}

/// A partition as the request names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionKey {
    /// Its topic.
    pub topic: TopicKey,
    /// Its number.
    pub partition: PartitionId,
}

/// What is asked of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionRequest {
    /// From here on.
    pub fetch_offset: Offset,
    /// At most so many bytes (`partition_max_bytes`).
    pub max_bytes: usize,
    /// Epoch of the leader that the client believes in, if it says so.
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// Epoch of the last batch that it has, if it wants a divergence to be found (v12).
    pub last_fetched_epoch: Option<LeaderEpoch>,
}

/// The part of a fetch request that sessions are about.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    /// The session, or [`INVALID_SESSION_ID`].
    pub session_id: i32,
    /// Number of the request within its session.
    pub epoch: i32,
    /// Whether this request's version names topics by id.
    pub uses_topic_ids: bool,
    /// New and changed partitions, or all of them; a partition named twice counts as it was last.
    pub partitions: IndexMap<PartitionKey, PartitionRequest>,
    /// Partitions to drop.
    pub forgotten: Vec<PartitionKey>,
}

/// One partition to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Which.
    pub key: PartitionKey,
    /// The name that the topic id stood for when the session first saw it.
    pub known_name: Option<Arc<str>>,
    /// What.
    pub request: PartitionRequest,
}

/// How a fetch will be answered; goes from [`FetchSessionCache::begin`] to
/// [`FetchSessionCache::finish`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchContext {
    /// In full, without a session.
    Sessionless,
    /// In full, with a new session if there is room.
    Full {
        /// How its topics are named.
        uses_topic_ids: bool,
    },
    /// Only what changed.
    Incremental {
        /// The session.
        session_id: i32,
        /// The epoch that it must still be in when the answer is made.
        epoch: i32,
    },
}

/// What of a partition's answer matters to its session.
#[derive(Debug, Clone)]
pub struct Answered {
    /// As it was asked.
    pub asked: Asked,
    /// Whether it has an error.
    pub has_error: bool,
    /// Whether it has records.
    pub has_records: bool,
    /// Whether it says where the logs diverge.
    pub diverges: bool,
    /// As in the answer.
    pub high_watermark: Offset,
    /// As in the answer.
    pub log_start_offset: Offset,
}

/// The session's part of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// For the response's top level.
    pub error: ErrorCode,
    /// For the response.
    pub session_id: i32,
    /// For each answered partition, whether it is in the response.
    pub included: Vec<bool>,
}

/// The broker's fetch sessions, bounded by `max.incremental.fetch.session.cache.slots`.
#[derive(Debug)]
pub struct FetchSessionCache {
    slots: usize,
    sessions: BTreeMap<i32, FetchSession>,
    last_used: BTreeSet<(Timestamp, i32)>,
    /// Old enough to make room for a larger one: (partitions, session).
    evictable: BTreeSet<(usize, i32)>,
    cached_partitions: usize,
    evictions: u64,
}

impl Default for FetchSessionCache {
    fn default() -> Self {
        Self::new(DEFAULT_SLOTS)
    }
}

/// The epoch behind `epoch`: after the largest comes 1, because 0 opens a session.
fn next_epoch(epoch: i32) -> i32 {
    match epoch {
        i32::MIN..0 => FINAL_EPOCH,
        i32::MAX => 1,
        epoch => epoch + 1,
    }
}

impl FetchSessionCache {
    /// Room for `slots` sessions.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            slots,
            sessions: BTreeMap::new(),
            last_used: BTreeSet::new(),
            evictable: BTreeSet::new(),
            cached_partitions: 0,
            evictions: 0,
        }
    }

    /// Sessions that are open.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// Partitions of all sessions.
    #[must_use]
    pub fn partition_count(&self) -> usize {
        self.cached_partitions
    }

    /// Sessions that had to make room so far.
    #[must_use]
    pub fn eviction_count(&self) -> u64 {
        self.evictions
    }

    /// Takes in a request: which partitions to read, and how to answer. `name_of` resolves topic
    /// ids. An error is for the response's top level, which then names no partition.
    pub fn begin(
        &mut self,
        now: Timestamp,
        request: SessionRequest,
        name_of: &dyn Fn(TopicId) -> Option<Arc<str>>,
    ) -> Result<(FetchContext, Vec<Asked>), ErrorCode> {
        if request.epoch == INITIAL_EPOCH || request.epoch == FINAL_EPOCH {
            // A full request closes the session that it names, whatever else it wants.
            self.remove(request.session_id);
            let context = if request.epoch == FINAL_EPOCH {
                FetchContext::Sessionless
            } else {
                FetchContext::Full { uses_topic_ids: request.uses_topic_ids }
            };
            return Ok((context, asked_in_full(request.partitions)));
        }
        let session =
            self.sessions.get(&request.session_id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != request.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_topic_ids != request.uses_topic_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        self.continue_session(now, request, name_of)
    }

    fn continue_session(
        &mut self,
        now: Timestamp,
        request: SessionRequest,
        name_of: &dyn Fn(TopicId) -> Option<Arc<str>>,
    ) -> Result<(FetchContext, Vec<Asked>), ErrorCode> {
        let session_id = request.session_id;
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return Err(ErrorCode::FetchSessionIdNotFound);
        };
        let added =
            request.partitions.keys().filter(|key| !session.positions.contains_key(*key)).count();
        if added > 0 && self.cached_partitions + added > MAX_CACHED_PARTITIONS {
            // The client opens a new session on this, and gets none: it goes on without.
            self.remove(session_id);
            return Err(ErrorCode::FetchSessionIdNotFound);
        }
        let size_before = session.partitions.len();
        session.update(&request);
        let size = session.partitions.len();
        if size == 0 {
            self.cached_partitions -= size_before;
            // What `remove` takes off is what the session has now.
            self.remove_sized(session_id, size_before);
            return Ok((FetchContext::Sessionless, asked_in_full(request.partitions)));
        }
        session.epoch = next_epoch(session.epoch);
        let context = FetchContext::Incremental { session_id, epoch: session.epoch };
        let asked = session.asked(name_of);
        self.cached_partitions = self.cached_partitions - size_before + size;
        self.touch(session_id, now, size_before);
        Ok((context, asked))
    }

    /// Decides which of the answered partitions the response names, and remembers them.
    /// `candidate_id` is a random positive number: the id of a session that is to be opened.
    pub fn finish(
        &mut self,
        now: Timestamp,
        context: &FetchContext,
        answered: &[Answered],
        candidate_id: i32,
    ) -> Finished {
        let all = |session_id| Finished {
            error: ErrorCode::None,
            session_id,
            included: vec![true; answered.len()],
        };
        match *context {
            FetchContext::Sessionless => all(INVALID_SESSION_ID),
            FetchContext::Full { uses_topic_ids } => {
                all(self.create(now, uses_topic_ids, answered, candidate_id))
            }
            FetchContext::Incremental { session_id, epoch } => {
                let Some(session) = self.sessions.get_mut(&session_id) else {
                    // It was evicted meanwhile; the next request will be told.
                    return all(session_id);
                };
                if session.epoch != epoch {
                    // The same request twice: the other one has the session now.
                    let (error, included) = (ErrorCode::InvalidFetchSessionEpoch, Vec::new());
                    return Finished { error, session_id, included };
                }
                let included = answered.iter().map(|one| session.take_answer(one)).collect();
                Finished { error: ErrorCode::None, session_id, included }
            }
        }
    }

    fn create(
        &mut self,
        now: Timestamp,
        uses_topic_ids: bool,
        answered: &[Answered],
        candidate_id: i32,
    ) -> i32 {
        let size = answered.len();
        if self.cached_partitions + size > MAX_CACHED_PARTITIONS {
            return INVALID_SESSION_ID;
        }
        if self.sessions.len() >= self.slots && !self.evict_for(now, size) {
            return INVALID_SESSION_ID;
        }
        let mut id = candidate_id.max(1);
        while self.sessions.contains_key(&id) {
            id = next_epoch(id);
        }
        let mut session = FetchSession::new(now, uses_topic_ids);
        for one in answered {
            session.push(one.asked.key.clone(), CachedPartition::from_answer(one));
        }
        self.cached_partitions += session.partitions.len();
        self.sessions.insert(id, session);
        self.last_used.insert((now, id));
        id
    }

    /// Makes room for a session of `size` partitions: the longest unused one goes if it is stale,
    /// else the smallest one of age if it is smaller.
    fn evict_for(&mut self, now: Timestamp, size: usize) -> bool {
        let Some(&(last_used, oldest)) = self.last_used.first() else { return false };
        let victim = if now.0.saturating_sub(last_used.0) > EVICTION_MS {
            oldest
        } else {
            match self.evictable.first() {
                Some(&(victim_size, victim)) if victim_size < size => victim,
                _ => return false,
            }
        };
        self.remove(victim);
        self.evictions += 1;
        true
    }

    fn remove(&mut self, session_id: i32) {
        if let Some(session) = self.sessions.get(&session_id) {
            let size = session.partitions.len();
            self.cached_partitions -= size;
            self.remove_sized(session_id, size);
        }
    }

    /// Forgets a session that stands in `evictable` with `size`.
    fn remove_sized(&mut self, session_id: i32, size: usize) {
        if let Some(session) = self.sessions.remove(&session_id) {
            self.last_used.remove(&(session.last_used, session_id));
            self.evictable.remove(&(size, session_id));
        }
    }

    fn touch(&mut self, session_id: i32, now: Timestamp, size_before: usize) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        self.last_used.remove(&(session.last_used, session_id));
        self.evictable.remove(&(size_before, session_id));
        session.last_used = now;
        self.last_used.insert((now, session_id));
        if now.0.saturating_sub(session.created.0) > EVICTION_MS {
            self.evictable.insert((session.partitions.len(), session_id));
        }
    }
}

fn asked_in_full(partitions: IndexMap<PartitionKey, PartitionRequest>) -> Vec<Asked> {
    let asked = |(key, request)| Asked { key, known_name: None, request };
    partitions.into_iter().map(asked).collect()
}

#[derive(Debug)]
struct FetchSession {
    uses_topic_ids: bool,
    created: Timestamp,
    last_used: Timestamp,
    /// The epoch that the next request must have.
    epoch: i32,
    /// In the order in which they are read. One that gave records goes to the end, so that a busy
    /// partition cannot keep the others from their share of the response.
    partitions: BTreeMap<u64, (PartitionKey, CachedPartition)>,
    positions: HashMap<PartitionKey, u64>,
    next_position: u64,
}

#[derive(Debug, Clone)]
struct CachedPartition {
    request: PartitionRequest,
    known_name: Option<Arc<str>>,
    /// As last answered; -1 forces the next answer to name the partition.
    high_watermark: Offset,
    log_start_offset: Offset,
}

impl FetchSession {
    fn new(now: Timestamp, uses_topic_ids: bool) -> Self {
        Self {
            uses_topic_ids,
            created: now,
            last_used: now,
            epoch: next_epoch(INITIAL_EPOCH),
            partitions: BTreeMap::new(),
            positions: HashMap::new(),
            next_position: 0,
        }
    }

    fn push(&mut self, key: PartitionKey, partition: CachedPartition) {
        let position = self.next_position;
        self.next_position += 1;
        if let Some(old) = self.positions.insert(key.clone(), position) {
            self.partitions.remove(&old);
        }
        self.partitions.insert(position, (key, partition));
    }

    fn update(&mut self, request: &SessionRequest) {
        for (key, asked) in &request.partitions {
            let known = self.positions.get(key).and_then(|at| self.partitions.get_mut(at));
            match known {
                Some((_, partition)) => partition.request = *asked,
                None => self.push(key.clone(), CachedPartition::new(*asked)),
            }
        }
        for key in &request.forgotten {
            if let Some(position) = self.positions.remove(key) {
                self.partitions.remove(&position);
            }
        }
    }

    fn asked(&mut self, name_of: &dyn Fn(TopicId) -> Option<Arc<str>>) -> Vec<Asked> {
        // Neighbours are mostly of one topic: they share the name.
        let mut last: Option<(TopicId, Arc<str>)> = None;
        let mut asked = Vec::with_capacity(self.partitions.len());
        for (key, partition) in self.partitions.values_mut() {
            if let (TopicKey::Id(id), None) = (&key.topic, &partition.known_name) {
                partition.known_name = match &last {
                    Some((last_id, name)) if last_id == id => Some(name.clone()),
                    _ => name_of(*id),
                };
                last = partition.known_name.clone().map(|name| (*id, name));
            }
            let (key, known_name) = (key.clone(), partition.known_name.clone());
            asked.push(Asked { key, known_name, request: partition.request });
        }
        asked
    }

    /// Remembers an answer; whether the response must name its partition.
    fn take_answer(&mut self, answered: &Answered) -> bool {
        let Some(position) = self.positions.get(&answered.asked.key).copied() else { return true };
        let Some((_, partition)) = self.partitions.get_mut(&position) else { return true };
        let changed = partition.high_watermark != answered.high_watermark
            || partition.log_start_offset != answered.log_start_offset;
        partition.high_watermark = answered.high_watermark;
        partition.log_start_offset = answered.log_start_offset;
        if answered.has_error {
            // So that the partition is named again once the error is over.
            partition.high_watermark = Offset(-1);
        }
        if answered.has_records
            && let Some((key, partition)) = self.partitions.remove(&position)
        {
            self.positions.remove(&key);
            self.push(key, partition);
        }
        changed || answered.has_records || answered.has_error || answered.diverges
    }
}

impl CachedPartition {
    fn new(request: PartitionRequest) -> Self {
        let (high_watermark, log_start_offset) = (Offset(-1), Offset(-1));
        Self { request, known_name: None, high_watermark, log_start_offset }
    }

    fn from_answer(answered: &Answered) -> Self {
        Self {
            request: answered.asked.request,
            known_name: answered.asked.known_name.clone(),
            high_watermark: answered.high_watermark,
            log_start_offset: answered.log_start_offset,
        }
    }
}
