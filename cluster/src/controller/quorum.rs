//! Who votes on metadata, who follows, and how far they are: known by the leader of the metadata
//! log, told by any broker.

use std::sync::Arc;

use protocol::types::{BrokerId, LeaderEpoch, Offset, Timestamp};
use serde::{Deserialize, Serialize};

use super::forwarding::Forwarding;
use super::metadata_log::{METADATA_GROUP, MetadataLog};
use crate::ClusterError;
use crate::limits::FORWARD_TIMEOUT;
use crate::raft::{PeerProgress, Progress, broker_id};
use crate::transport::{PeerError, PeerMessage};

/// The message's kind.
pub(crate) const DESCRIBE: u8 = 67;

type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The metadata log's group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quorum {
    /// Who leads.
    pub leader: BrokerId,
    /// Its term.
    pub leader_epoch: LeaderEpoch,
    /// Entries below are committed.
    pub high_watermark: Offset,
    /// Those that vote.
    pub voters: Vec<QuorumReplica>,
    /// Those that follow without a vote.
    pub observers: Vec<QuorumReplica>,
}

/// A replica of the metadata log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumReplica {
    /// The broker.
    pub id: BrokerId,
    /// First entry that it is not known to have; -1 = nothing is known of it.
    pub log_end_offset: Offset,
    /// When it has answered last; -1 = never.
    pub last_fetch: Timestamp,
    /// When it had everything last; -1 = not since this leader leads.
    pub last_caught_up: Timestamp,
}

/// Asks the leader.
pub(crate) async fn describe(
    forwarding: &Forwarding,
    log: &MetadataLog,
    now: &Now,
) -> Result<Quorum, ClusterError> {
    let leader = log.leader().0.ok_or(ClusterError::NoController)?;
    if leader == forwarding.broker_id {
        return look(log, now);
    }
    let message = PeerMessage { kind: DESCRIBE, head: Vec::new().into(), body: Vec::new() };
    let answer = forwarding.transport.call(leader, METADATA_GROUP, message, FORWARD_TIMEOUT).await;
    let answer = answer.map_err(|_| ClusterError::NoController)?;
    serde_json::from_slice(&answer.head).map_err(|error| ClusterError::Storage(error.to_string()))
}

/// Answers a broker that is not the leader.
pub(crate) fn answer(log: &MetadataLog, now: &Now) -> Result<PeerMessage, PeerError> {
    let quorum = look(log, now).map_err(|error| PeerError::Unreachable(error.to_string()))?;
    let head = serde_json::to_vec(&quorum).map_err(|e| PeerError::Broken(e.to_string()))?;
    Ok(PeerMessage { kind: DESCRIBE, head: head.into(), body: Vec::new() })
}

fn look(log: &MetadataLog, now: &Now) -> Result<Quorum, ClusterError> {
    let group = log.group();
    let progress = group.progress().ok_or(ClusterError::NoController)?;
    let leader = broker_id(group.node_id()).ok_or(ClusterError::NoController)?;
    let members = group.members();
    let now = now();
    let own = QuorumReplica {
        id: leader,
        log_end_offset: behind(progress.last),
        last_fetch: now,
        last_caught_up: now,
    };
    let replica = |id: &u64| {
        if *id == group.node_id() {
            return Some(own);
        }
        let known = progress.peers.iter().find(|peer| peer.node_id == *id);
        Some(seen(broker_id(*id)?, known, &progress, now))
    };
    let voters = members.voters.iter().flatten().collect::<std::collections::BTreeSet<_>>();
    Ok(Quorum {
        leader,
        leader_epoch: log.leader().1,
        high_watermark: behind(group.committed()),
        voters: voters.into_iter().filter_map(replica).collect(),
        observers: members.learners.iter().filter_map(replica).collect(),
    })
}

fn behind(index: Option<u64>) -> Offset {
    Offset(index.map_or(0, |index| i64::try_from(index).unwrap_or(i64::MAX).saturating_add(1)))
}

fn seen(
    id: BrokerId,
    peer: Option<&PeerProgress>,
    progress: &Progress,
    now: Timestamp,
) -> QuorumReplica {
    const NEVER: Timestamp = Timestamp(-1);
    let acked_ago = peer.and_then(|peer| peer.acked_ago);
    let last_fetch = acked_ago.map_or(NEVER, |ago| {
        Timestamp(now.0.saturating_sub(i64::try_from(ago.as_millis()).unwrap_or(i64::MAX)))
    });
    let matched = peer.and_then(|peer| peer.matched);
    let has_all = matched.is_some() && matched >= progress.last;
    QuorumReplica {
        id,
        log_end_offset: if matched.is_some() { behind(matched) } else { Offset(-1) },
        last_fetch,
        last_caught_up: if has_all { last_fetch } else { NEVER },
    }
}
