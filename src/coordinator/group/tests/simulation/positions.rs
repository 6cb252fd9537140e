//! What a member consumes, and from where: it commits what it has read, and asks for what was
//! committed of a partition that it is given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::types::{LeaderEpoch, Offset, PartitionId, TopicId};
use rand::Rng;

use super::GROUP;
use super::network::Network;
use crate::coordinator::group::event::{
    GroupRequest, MemberId, OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, OffsetFetch,
    OffsetFetchReply,
};

/// How long a client waits for offsets.
const REQUEST_MS: i64 = 4_000;

/// In whose name a member commits.
pub(super) struct Identity {
    pub(super) index: usize,
    pub(super) member_id: MemberId,
    pub(super) instance_id: Option<String>,
    pub(super) epoch: i32,
    /// It names itself also where it asks for offsets.
    pub(super) is_modern: bool,
}

#[derive(Debug, Default)]
pub(super) struct Positions {
    known: BTreeMap<i32, i64>,
    /// Owned, but where to begin is not known yet.
    starting: BTreeSet<i32>,
    /// The request for offsets that is under way, and until when it is waited for.
    fetching: Option<(u64, i64)>,
}

impl Positions {
    pub(super) fn owned(&self) -> BTreeSet<i32> {
        self.known.keys().chain(&self.starting).copied().collect()
    }

    /// Whether the member knows where it is, in all that it owns.
    pub(super) fn are_known(&self) -> bool {
        self.starting.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Positions::default();
    }

    /// Gives up all but these.
    pub(super) fn keep(&mut self, partitions: &BTreeSet<i32>) {
        self.known.retain(|partition, _| partitions.contains(partition));
        self.starting.retain(|partition| partitions.contains(partition));
    }

    /// Takes over what is new among these.
    pub(super) fn take(&mut self, partitions: &BTreeSet<i32>) {
        let new: Vec<i32> = partitions.difference(&self.owned()).copied().collect();
        if !new.is_empty() {
            // A request under way does not know of these.
            self.fetching = None;
        }
        self.starting.extend(new);
    }

    /// Commits what was read since, or asks where to begin.
    pub(super) fn use_offsets(&mut self, network: &mut Network, me: &Identity) {
        self.fetching = self.fetching.filter(|(_, until)| *until >= network.now_ms);
        if self.are_known() {
            return self.commit(network, me);
        }
        if self.fetching.is_some() {
            return;
        }
        let request = OffsetFetch {
            group_id: Arc::from(GROUP),
            member_id: me.is_modern.then(|| me.member_id.clone()),
            member_epoch: if me.is_modern { me.epoch } else { -1 },
            topics: None,
            require_stable: me.is_modern,
        };
        let sent = network.send(me.index, &GroupRequest::OffsetFetch(request));
        self.fetching = Some((sent.token, network.now_ms + REQUEST_MS));
    }

    fn commit(&mut self, network: &mut Network, me: &Identity) {
        let step = network.random.random_range(0..5);
        self.known.values_mut().for_each(|position| *position += step);
        let partitions = self.known.iter().map(|(&partition, &offset)| OffsetCommitPartition {
            partition: PartitionId(partition),
            offset: Offset(offset),
            leader_epoch: LeaderEpoch(-1),
            metadata: None,
        });
        let topic = OffsetCommitTopic {
            topic: "t".to_owned(),
            topic_id: TopicId::default(),
            partitions: partitions.collect(),
        };
        let request = OffsetCommit {
            group_id: Arc::from(GROUP),
            generation_id_or_member_epoch: me.epoch,
            member_id: me.member_id.clone(),
            group_instance_id: me.instance_id.clone(),
            retention_time_ms: None,
            supports_member_epochs: true,
            topics: vec![topic],
        };
        network.send(me.index, &GroupRequest::OffsetCommit(request));
    }

    pub(super) fn on_fetched(&mut self, token: u64, reply: &OffsetFetchReply) {
        if self.fetching.is_none_or(|(awaited, _)| awaited != token) {
            return;
        }
        self.fetching = None;
        if !reply.error.is_none() {
            return;
        }
        let rows = reply.topics.iter().flat_map(|topic| &topic.partitions);
        let committed: BTreeMap<i32, i64> =
            rows.map(|row| (row.partition.0, row.offset.0)).collect();
        for partition in std::mem::take(&mut self.starting) {
            self.known.insert(partition, committed.get(&partition).copied().unwrap_or(0));
        }
    }
}
