//! Every group and partition that has an offset, up to a limit.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::types::{Offset, PartitionId, Timestamp};

use super::ledger::LossCause;
use super::partition::{Commit, GroupPartition, LogEnds};
use crate::coordinator::shard::Now;

/// Whose commit it is, and on what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The group.
    pub group: &'a str,
    /// The topic.
    pub topic: &'a str,
    /// Its partition.
    pub partition: PartitionId,
}

#[derive(Debug, Default)]
struct Group {
    shard: PartitionId,
    topics: BTreeMap<Arc<str>, BTreeMap<PartitionId, GroupPartition>>,
}

/// The table.
#[derive(Debug)]
pub struct LagTable {
    groups: BTreeMap<Arc<str>, Group>,
    /// The groups of each topic.
    readers: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    count: usize,
    limit: usize,
    refused_commits: u64,
}

impl LagTable {
    /// An empty one for at most `limit` pairs of a group and a partition.
    #[must_use]
    pub fn new(limit: usize) -> LagTable {
        LagTable {
            groups: BTreeMap::new(),
            readers: BTreeMap::new(),
            count: 0,
            limit,
            refused_commits: 0,
        }
    }

    /// A group committed. `shard` is the partition of `__consumer_offsets` that says so; `log` what
    /// the log was like then, `None` while commits of the past are read back. `false` where the
    /// table is full and the commit is not looked at.
    pub fn on_commit(
        &mut self,
        now: Now,
        shard: PartitionId,
        place: Place<'_>,
        commit: Commit,
        log: Option<&LogEnds>,
    ) -> bool {
        if let Some(known) = self.get_mut(place) {
            known.on_commit(now, commit, log);
            return true;
        }
        if self.count >= self.limit {
            self.refused_commits += 1;
            return false;
        }
        self.count += 1;
        let group = match self.groups.get_key_value(place.group) {
            Some((name, _)) => name.clone(),
            None => Arc::from(place.group),
        };
        let topic = match self.readers.get_key_value(place.topic) {
            Some((name, _)) => name.clone(),
            None => Arc::from(place.topic),
        };
        self.readers.entry(topic.clone()).or_default().insert(group.clone());
        let group = self.groups.entry(group).or_default();
        group.shard = shard;
        let partitions = group.topics.entry(topic).or_default();
        partitions.insert(place.partition, GroupPartition::new(now, commit, log));
        true
    }

    /// The group's offset is forgotten: deleted, expired, or the topic's.
    pub fn on_forgotten(&mut self, place: Place<'_>) {
        let Some(group) = self.groups.get_mut(place.group) else { return };
        let Some(partitions) = group.topics.get_mut(place.topic) else { return };
        if partitions.remove(&place.partition).is_none() {
            return;
        }
        self.count -= 1;
        if !partitions.is_empty() {
            return;
        }
        group.topics.remove(place.topic);
        if group.topics.is_empty() {
            self.groups.remove(place.group);
        }
        self.remove_reader(place.topic, place.group);
    }

    /// The shard is no longer this broker's, or is about to be read anew.
    pub fn on_unloaded(&mut self, shard: PartitionId) {
        let of_shard = self.groups.iter().filter(|(_, group)| group.shard == shard);
        let names: Vec<Arc<str>> = of_shard.map(|(name, _)| name.clone()).collect();
        for name in names {
            let Some(group) = self.groups.remove(&name) else { continue };
            for (topic, partitions) in group.topics {
                self.count -= partitions.len();
                self.remove_reader(&topic, &name);
            }
        }
    }

    /// A log start moved: every group that had not read what lay before it has lost it.
    pub fn on_log_start(
        &mut self,
        topic: &str,
        partition: PartitionId,
        log_start_offset: Offset,
        at: Timestamp,
        cause: LossCause,
    ) {
        let Some(readers) = self.readers.get(topic) else { return };
        for name in readers {
            let group = self.groups.get_mut(name);
            let partitions = group.and_then(|group| group.topics.get_mut(topic));
            if let Some(known) = partitions.and_then(|known| known.get_mut(&partition)) {
                known.on_log_start(log_start_offset, at, cause);
            }
        }
    }

    fn remove_reader(&mut self, topic: &str, group: &str) {
        if let Some(readers) = self.readers.get_mut(topic) {
            readers.remove(group);
            if readers.is_empty() {
                self.readers.remove(topic);
            }
        }
    }

    /// What is known of a group on a partition.
    pub fn get_mut(&mut self, place: Place<'_>) -> Option<&mut GroupPartition> {
        let group = self.groups.get_mut(place.group)?;
        group.topics.get_mut(place.topic)?.get_mut(&place.partition)
    }

    /// The groups, by name.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.groups.keys()
    }

    /// The partitions of a group, by topic and number.
    pub fn partitions_of(
        &mut self,
        group: &str,
    ) -> impl Iterator<Item = (&Arc<str>, PartitionId, &mut GroupPartition)> {
        let topics = self.groups.get_mut(group).into_iter().flat_map(|group| &mut group.topics);
        topics.flat_map(|(topic, partitions)| {
            partitions.iter_mut().map(move |(partition, known)| (topic, *partition, known))
        })
    }

    /// How many pairs of a group and a partition there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Commits that were not looked at because the table was full.
    #[must_use]
    pub fn refused_commits(&self) -> u64 {
        self.refused_commits
    }
}
