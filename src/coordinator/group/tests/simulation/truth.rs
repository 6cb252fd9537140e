//! What the coordinator has told anyone: from then on it is bound by it.

use std::collections::{BTreeMap, BTreeSet};

use protocol::types::PartitionId;

use super::GROUP;
use super::classic::assigned_partitions;
use crate::coordinator::group::event::{GroupReply, GroupRequest, OffsetCommit};
use crate::coordinator::group::hard::GroupHard;
use crate::coordinator::shard::RequestToken;

/// A group that begins anew counts its epochs anew.
pub(super) type Life = u32;

enum Asked {
    /// The generation of a SyncGroup.
    Sync(i32),
    Report,
    Commit(BTreeMap<i32, i64>),
}

#[derive(Default)]
pub(super) struct Truth {
    /// By token: who asked (a static member by its name), as which member, for what.
    asked: BTreeMap<u64, (String, String, Asked)>,
    /// Who was given a partition in an epoch.
    owners: BTreeMap<(Life, i32, i32), String>,
    /// The last epoch that a member was given something in.
    epochs: BTreeMap<String, (Life, i32)>,
    acknowledged: BTreeMap<i32, i64>,
}

fn positions(commit: &OffsetCommit) -> BTreeMap<i32, i64> {
    let rows = commit.topics.iter().flat_map(|topic| &topic.partitions);
    rows.map(|row| (row.partition.0, row.offset.0)).collect()
}

impl Truth {
    /// A request arrives.
    pub(super) fn on_request(&mut self, token: u64, request: &GroupRequest) {
        let (member_id, instance_id, asked) = match request {
            GroupRequest::SyncGroup(sync) => {
                (&sync.member_id, &sync.group_instance_id, Asked::Sync(sync.generation_id))
            }
            GroupRequest::ConsumerGroupHeartbeat(report) => {
                (&report.member_id, &report.instance_id, Asked::Report)
            }
            GroupRequest::OffsetCommit(commit) => {
                (&commit.member_id, &commit.group_instance_id, Asked::Commit(positions(commit)))
            }
            _ => return,
        };
        let owner = instance_id.clone().unwrap_or_else(|| member_id.to_string());
        self.asked.insert(token, (owner, member_id.to_string(), asked));
    }

    /// An answer goes out, whether or not it arrives.
    pub(super) fn on_reply(&mut self, life: Life, token: RequestToken, reply: &GroupReply) {
        let Some((owner, member_id, asked)) = self.asked.get(&token.0) else { return };
        let (owner, member_id) = (owner.clone(), member_id.clone());
        match (asked, reply) {
            (Asked::Sync(generation), GroupReply::SyncGroup(reply)) if reply.error.is_none() => {
                let partitions = assigned_partitions(&reply.assignment);
                self.given(owner, member_id, (life, *generation), partitions);
            }
            (Asked::Report, GroupReply::ConsumerGroupHeartbeat(reply))
                if reply.error.is_none() && reply.member_epoch > 0 =>
            {
                let topics = reply.assignment.iter().flatten();
                let partitions = topics.flat_map(|topic| topic.partitions.iter().map(|p| p.0));
                self.given(owner, member_id, (life, reply.member_epoch), partitions.collect());
            }
            (Asked::Commit(positions), GroupReply::OffsetCommit(reply)) => {
                let rows = reply.topics.iter().flat_map(|topic| &topic.partitions);
                for (partition, _) in rows.filter(|(_, error)| error.is_none()) {
                    let Some(&offset) = positions.get(&partition.0) else { continue };
                    let known = self.acknowledged.entry(partition.0).or_insert(0);
                    *known = offset.max(*known);
                }
            }
            _ => {}
        }
    }

    /// In one epoch a partition belongs to one member, and a member's epoch never goes back.
    fn given(
        &mut self,
        owner: String,
        member_id: String,
        (life, epoch): (Life, i32),
        partitions: BTreeSet<i32>,
    ) {
        let before = self.epochs.insert(member_id.clone(), (life, epoch));
        assert!(before <= Some((life, epoch)), "{member_id} at {epoch} was at {before:?}");
        for partition in partitions {
            let first = self.owners.entry((life, epoch, partition)).or_insert(owner.clone());
            assert_eq!(*first, owner, "{partition} has two owners in epoch {epoch}");
        }
    }

    /// What was acknowledged is there.
    pub(super) fn assert_kept(&self, hard: &GroupHard) {
        let group = hard.group(GROUP);
        for (&partition, &acknowledged) in &self.acknowledged {
            let committed = group.and_then(|group| group.offset("t", PartitionId(partition)));
            let committed = committed.map(|committed| committed.offset.0);
            assert!(committed >= Some(acknowledged), "{committed:?}, {acknowledged} was told");
        }
    }
}
