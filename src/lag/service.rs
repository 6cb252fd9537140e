//! The rim of lag: feeds the table with what the group coordinator replays and with what the logs
//! say, and evaluates when someone asks.
//!
//! Nothing runs by itself. A commit costs two look-ups and a place in a window; a question costs
//! what it asks about. The next unread record is read from the log once for each commit that is
//! asked about, and blocks, so questions are for blocking tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use cluster::Cluster;
use cluster::metadata::MetadataImage;
use cluster::replica::{LogStartCause, LogStartMoved, Replica};
use parking_lot::Mutex;
use protocol::types::{Offset, PartitionId};
use storage::log_store::NextRecord;

use super::Known;
use super::ledger::LossCause;
use super::partition::{Commit, Figures, GroupPartition, LogEnds, Retention};
use super::table::{LagTable, Place};
use crate::clock;
use crate::config::{BrokerConfig, TopicConfig};
use crate::coordinator::group::{GroupRecord, GroupShard};
use crate::coordinator::observer::{Observer, Origin};
use crate::coordinator::shard::{Now, Steady};
use crate::handlers::common::isolation::IsolationLevel;
use crate::limits::{LAG_GROUP_PARTITIONS, LAG_LOOK_ROUNDS};

const NO_TOPIC: &str = "the topic does not exist";
const NO_REPLICA: &str = "this broker does not lead the partition";
const UNREADABLE: &str = "the next unread record cannot be read";

/// A group on a partition, evaluated.
#[derive(Debug, Clone)]
pub struct LagRow {
    /// The topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: PartitionId,
    /// What is known of the group there.
    pub figures: Figures,
}

/// Consumer lag of this broker.
pub struct LagService {
    cluster: Arc<Cluster>,
    config: Arc<BrokerConfig>,
    table: Mutex<LagTable>,
}

/// A partition's log, and what its topic keeps.
type Log = Known<(Arc<Replica>, Retention)>;

/// A look for a record, to be made without the table's lock.
struct Wanted {
    topic: Arc<str>,
    partition: PartitionId,
    replica: Arc<Replica>,
    from: Offset,
    below: Offset,
}

impl LagService {
    /// Watches the log starts of `cluster` from now on.
    #[must_use]
    pub fn new(cluster: Arc<Cluster>, config: Arc<BrokerConfig>) -> Arc<LagService> {
        let table = Mutex::new(LagTable::new(LAG_GROUP_PARTITIONS));
        let service = Arc::new(LagService { cluster, config, table });
        let watched: Weak<LagService> = Arc::downgrade(&service);
        service.cluster.observe_log_starts(Arc::new(move |moved| {
            if let Some(service) = watched.upgrade() {
                service.on_log_start(moved);
            }
        }));
        service
    }

    /// A group committed just now. `shard` is the partition of `__consumer_offsets` that says so.
    pub fn on_commit(&self, shard: PartitionId, place: Place<'_>, commit: Commit) {
        let log = self.log_of(&self.cluster.metadata(), place.topic, place.partition).ok();
        let ends = log.map(|replica| ends(&replica, IsolationLevel::ReadUncommitted));
        self.take(shard, place, commit, ends.as_ref());
    }

    /// A commit of the past, while a shard is loaded.
    pub fn on_commit_read_back(&self, shard: PartitionId, place: Place<'_>, commit: Commit) {
        self.take(shard, place, commit, None);
    }

    fn take(&self, shard: PartitionId, place: Place<'_>, commit: Commit, ends: Option<&LogEnds>) {
        let mut table = self.table.lock();
        let taken = table.on_commit(now(), shard, place, commit, ends);
        let is_first_refused = !taken && table.refused_commits() == 1;
        drop(table);
        if is_first_refused {
            tracing::warn!(
                limit = LAG_GROUP_PARTITIONS,
                group = place.group,
                topic = place.topic,
                "the lag of groups and partitions beyond the limit is not watched"
            );
        }
    }

    /// An offset is forgotten.
    pub fn on_forgotten(&self, place: Place<'_>) {
        self.table.lock().on_forgotten(place);
    }

    fn on_log_start(&self, moved: LogStartMoved) {
        let image = self.cluster.metadata();
        let Some(topic) = image.topic_by_id(moved.topic_id) else { return };
        let cause = match moved.cause {
            LogStartCause::RetentionTime => LossCause::RetentionTime,
            LogStartCause::RetentionSize => LossCause::RetentionSize,
            LogStartCause::Request => LossCause::DeleteRecords,
        };
        let (at, start) = (clock::now(), moved.log_start_offset);
        self.table.lock().on_log_start(&topic.name, moved.partition, start, at, cause);
    }

    /// The groups that have an offset, by name.
    #[must_use]
    pub fn groups(&self) -> Vec<Arc<str>> {
        self.table.lock().groups().cloned().collect()
    }

    /// How many pairs of a group and a partition are watched, and how many commits of others were
    /// not looked at.
    #[must_use]
    pub fn watched(&self) -> (usize, u64) {
        let table = self.table.lock();
        (table.len(), table.refused_commits())
    }

    /// The group's partitions, evaluated, by topic and number. Blocks on the disk.
    #[must_use]
    pub fn rows(&self, group: &str, isolation: IsolationLevel) -> Vec<LagRow> {
        let mut logs =
            Logs { service: self, image: self.cluster.metadata(), topics: BTreeMap::new() };
        let mut rows = BTreeMap::new();
        // A group that commits while its records are looked for has to be looked at again.
        for round in 0..=LAG_LOOK_ROUNDS {
            let is_last = round == LAG_LOOK_ROUNDS;
            let wanted = self.evaluate(group, isolation, &mut logs, is_last, &mut rows);
            for wanted in &wanted {
                self.look(group, wanted);
            }
            if wanted.is_empty() {
                break;
            }
        }
        rows.into_values().collect()
    }

    /// Evaluates what is not in `rows` yet, but for those whose next record must be looked for
    /// first.
    fn evaluate(
        &self,
        group: &str,
        isolation: IsolationLevel,
        logs: &mut Logs<'_>,
        is_last: bool,
        rows: &mut BTreeMap<(Arc<str>, PartitionId), LagRow>,
    ) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        let mut table = self.table.lock();
        for (topic, partition, known) in table.partitions_of(group) {
            if rows.contains_key(&(topic.clone(), partition)) {
                continue;
            }
            let log = logs.get(topic, partition);
            if let Some(look) = wants(known, topic, partition, &log, isolation).filter(|_| !is_last)
            {
                wanted.push(look);
                continue;
            }
            let row = LagRow {
                topic: topic.clone(),
                partition,
                figures: figures(known, &log, isolation),
            };
            rows.insert((topic.clone(), partition), row);
        }
        wanted
    }

    fn look(&self, group: &str, wanted: &Wanted) {
        let Wanted { topic, partition, replica, from, below } = wanted;
        let found: Known<Option<NextRecord>> =
            replica.next_record(*from, *below).map_err(|error| {
                tracing::debug!(%topic, %partition, %from, %error, "no next record for lag");
                UNREADABLE
            });
        let place = Place { group, topic, partition: *partition };
        if let Some(known) = self.table.lock().get_mut(place) {
            known.on_looked(*from, *below, found);
        }
    }

    fn log_of(
        &self,
        image: &MetadataImage,
        topic: &str,
        partition: PartitionId,
    ) -> Known<Arc<Replica>> {
        let topic = image.topic(topic).ok_or(NO_TOPIC)?;
        let replica = self.cluster.replica(topic.id, partition).map_err(|_| NO_REPLICA)?;
        if replica.is_leader() { Ok(replica) } else { Err(NO_REPLICA) }
    }
}

/// The logs that one question is about; what each topic keeps is resolved once.
struct Logs<'a> {
    service: &'a LagService,
    image: Arc<MetadataImage>,
    topics: BTreeMap<Arc<str>, Retention>,
}

impl Logs<'_> {
    fn get(&mut self, topic: &Arc<str>, partition: PartitionId) -> Log {
        let replica = self.service.log_of(&self.image, topic, partition)?;
        if let Some(retention) = self.topics.get(topic) {
            return Ok((replica, *retention));
        }
        let known = self.image.topic(topic).ok_or(NO_TOPIC)?;
        let config = TopicConfig::resolve(&known.configs, &self.image, &self.service.config);
        let retention = Retention {
            ms: config.retention_ms.filter(|_| config.cleanup_delete),
            bytes: config.retention_bytes.filter(|_| config.cleanup_delete),
        };
        self.topics.insert(topic.clone(), retention);
        Ok((replica, retention))
    }
}

fn wants(
    known: &GroupPartition,
    topic: &Arc<str>,
    partition: PartitionId,
    log: &Log,
    isolation: IsolationLevel,
) -> Option<Wanted> {
    let (replica, _) = log.as_ref().ok()?;
    let ends = ends(replica, isolation);
    let from = known.wants_record_from(&ends)?;
    let (topic, replica, below) = (topic.clone(), replica.clone(), ends.end_offset);
    Some(Wanted { topic, partition, replica, from, below })
}

fn figures(known: &mut GroupPartition, log: &Log, isolation: IsolationLevel) -> Figures {
    match log {
        Ok((replica, retention)) => {
            known.evaluate(now(), Ok(&ends(replica, isolation)), *retention)
        }
        Err(why) => known.evaluate(now(), Err(why), Retention::default()),
    }
}

fn ends(replica: &Replica, isolation: IsolationLevel) -> LogEnds {
    let offsets = replica.offsets();
    LogEnds {
        log_start_offset: offsets.log_start_offset,
        end_offset: isolation.upper_bound(&offsets),
        high_watermark: offsets.high_watermark,
        end_position: replica.end_position(),
    }
}

/// Both of the broker's clocks.
fn now() -> Now {
    Now { wall: clock::now(), steady: Steady(clock::steady_ms()) }
}

impl Observer<GroupShard> for LagService {
    fn on_record(&self, shard: PartitionId, origin: Origin, record: &GroupRecord) {
        let GroupRecord::Offset { group_id, topic, partition, value } = record else { return };
        let place = Place { group: group_id, topic, partition: *partition };
        let Some(value) = value else { return self.on_forgotten(place) };
        let commit = Commit {
            offset: value.offset,
            leader_epoch: value.leader_epoch,
            at: value.commit_timestamp,
        };
        match origin {
            Origin::Decided => self.on_commit(shard, place, commit),
            Origin::ReadBack => self.on_commit_read_back(shard, place, commit),
        }
    }

    fn on_unloaded(&self, shard: PartitionId) {
        self.table.lock().on_unloaded(shard);
    }
}
