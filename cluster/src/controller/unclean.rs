//! Unclean elections: asks the replicas that are left what they have, has the metadata log decide
//! for one of them, and waits until it leads.

use std::time::Duration;

use futures::future::join_all;
use protocol::types::{BrokerId, PartitionId, TopicId};
use storage::log_store::GroupId;

use super::elections::ElectionOutcome;
use super::forwarding::Forwarding;
use super::metadata_log::{METADATA_GROUP, MetadataLog};
use super::presence::Presence;
use super::survivors::{LogEnd, candidates, survivor};
use crate::ClusterError;
use crate::limits::LOOKUP_TIMEOUT;
use crate::metadata::{MetadataCommand, PartitionImage};
use crate::replica::Leadership;
use crate::replica::registry::Registry;
use crate::transport::{PeerError, PeerMessage};

/// The message's kind.
pub(crate) const LOG_END: u8 = 69;

/// Leaders of which nobody here has heard may have had so many epochs more.
const EPOCH_MARGIN: u64 = 1_000;

/// Holds unclean elections.
pub(crate) struct UncleanElections<'a> {
    pub(crate) log: &'a MetadataLog,
    pub(crate) forwarding: &'a Forwarding,
    pub(crate) presence: &'a Presence,
    pub(crate) registry: &'a Registry,
}

impl UncleanElections<'_> {
    /// Has a replica of a partition lead whose majority is gone, whatever the others had, if that
    /// is allowed.
    pub(crate) async fn elect(
        &self,
        topic: TopicId,
        id: PartitionId,
        is_allowed: bool,
        timeout: Duration,
    ) -> ElectionOutcome {
        let Some(partition) = self.partition(topic, id) else { return ElectionOutcome::Unknown };
        let leadership = self.leadership(topic, &partition);
        let Some(candidates) = candidates(&partition, |id| self.presence.is_alive(id)) else {
            return match leadership.leader {
                Some(_) => ElectionOutcome::NotNeeded,
                None => ElectionOutcome::NotAvailable,
            };
        };
        if !is_allowed {
            return ElectionOutcome::NotAllowed;
        }
        let asked = candidates.into_iter().map(|id| self.ask(id, partition.group));
        let ends: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
        let Some(survivor) = survivor(&ends) else { return ElectionOutcome::NotAvailable };
        let terms = ends.iter().map(|(_, end)| end.term.max(end.last.0));
        let told = u64::try_from(leadership.leader_epoch.0).unwrap_or_default();
        let epoch = terms.fold(told, u64::max) + EPOCH_MARGIN;
        let command = MetadataCommand::ElectUncleanLeader {
            topic,
            partition: id,
            survivor,
            epoch,
            altered_at: partition.altered_at,
        };
        match self.forwarding.submit(self.log, &command).await {
            // It may have been decided: that is seen when the survivor leads.
            Ok(_) | Err(ClusterError::Undecided) => {}
            Err(error) => {
                tracing::warn!(survivor = survivor.0, %error, "no unclean election was held");
                return ElectionOutcome::NotAvailable;
            }
        }
        let leads = self.wait_until_leads(topic, id, survivor, epoch);
        match tokio::time::timeout(timeout, leads).await {
            Ok(true) => ElectionOutcome::Elected,
            _ => ElectionOutcome::TimedOut,
        }
    }

    fn partition(&self, topic: TopicId, id: PartitionId) -> Option<PartitionImage> {
        self.log.image().topic_by_id(topic)?.partition(id).cloned()
    }

    fn leadership(&self, topic: TopicId, partition: &PartitionImage) -> Leadership {
        let local = self.registry.get(topic, partition.id).map(|replica| replica.leadership());
        self.presence.leadership(partition, local)
    }

    async fn wait_until_leads(
        &self,
        topic: TopicId,
        id: PartitionId,
        survivor: BrokerId,
        epoch: u64,
    ) -> bool {
        let mut learned = self.presence.watch();
        loop {
            let Some(partition) = self.partition(topic, id) else { return false };
            let leadership = self.leadership(topic, &partition);
            let is_later =
                u64::try_from(leadership.leader_epoch.0).is_ok_and(|reign| reign > epoch);
            if leadership.leader == Some(survivor) && is_later {
                return true;
            }
            if learned.changed().await.is_err() {
                return false;
            }
        }
    }

    /// What a broker's replica has; `None` where it does not answer.
    async fn ask(&self, broker: BrokerId, group: u64) -> Option<(BrokerId, LogEnd)> {
        if broker == self.forwarding.broker_id {
            return Some((broker, log_end(self.registry, group)?));
        }
        let head = serde_json::to_vec(&group).ok()?.into();
        let message = PeerMessage { kind: LOG_END, head, body: Vec::new() };
        let transport = &self.forwarding.transport;
        let answer = transport.call(broker, METADATA_GROUP, message, LOOKUP_TIMEOUT).await.ok()?;
        let end: Option<LogEnd> = serde_json::from_slice(&answer.head).ok()?;
        Some((broker, end?))
    }
}

fn log_end(registry: &Registry, group: u64) -> Option<LogEnd> {
    Some(registry.by_group(GroupId(group))?.log_end())
}

/// Answers a broker that asks what the replica here has.
pub(crate) fn answer(registry: &Registry, message: &PeerMessage) -> Result<PeerMessage, PeerError> {
    let broken = |error: serde_json::Error| PeerError::Broken(error.to_string());
    let group: u64 = serde_json::from_slice(&message.head).map_err(broken)?;
    let head = serde_json::to_vec(&log_end(registry, group)).map_err(broken)?.into();
    Ok(PeerMessage { kind: LOG_END, head, body: Vec::new() })
}
