//! Elections that somebody asks for: a partition's leader is told to hand over to the preferred
//! replica. Every broker can ask; the controller does it by itself from time to time, so that
//! leadership is balanced again after a broker has come back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use protocol::types::{BrokerId, PartitionId, TopicId};
use serde::{Deserialize, Serialize};

use super::metadata_log::{METADATA_GROUP, MetadataLog};
use super::presence::Presence;
use crate::limits::{FORWARD_TIMEOUT, HAND_OVERS_AT_ONCE};
use crate::metadata::{MetadataImage, PartitionImage};
use crate::replica::registry::Registry;
use crate::transport::{PeerError, PeerMessage, PeerTransport};

/// The message's kind.
pub(crate) const HAND_OVER: u8 = 66;

/// Groups that the asked broker leads, and who shall lead each of them.
#[derive(Serialize, Deserialize)]
struct HandOver {
    wanted: Vec<(u64, BrokerId)>,
}

/// What became of an election.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElectionOutcome {
    /// The preferred replica leads now.
    Elected,
    /// It did already.
    NotNeeded,
    /// It is not there, does not follow closely, or nobody leads who could hand over to it.
    NotAvailable,
    /// It would be unclean, which is not allowed here.
    NotAllowed,
    /// It was not seen to lead in time.
    TimedOut,
    /// There is no such partition.
    Unknown,
}

/// Holds elections.
pub(crate) struct Elections {
    pub(crate) broker_id: BrokerId,
    pub(crate) presence: Arc<Presence>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) transport: Arc<dyn PeerTransport>,
}

impl Elections {
    pub(crate) async fn elect_preferred(
        &self,
        image: &MetadataImage,
        partitions: Vec<(TopicId, PartitionId)>,
        timeout: Duration,
    ) -> Vec<ElectionOutcome> {
        let mut outcomes = Vec::with_capacity(partitions.len());
        let mut by_leader: BTreeMap<BrokerId, Vec<(u64, BrokerId)>> = BTreeMap::new();
        let mut asked = Vec::new();
        for (topic, id) in partitions {
            let found = image.topic_by_id(topic).and_then(|topic| topic.partition(id));
            let outcome = match found.map(|partition| (partition, self.judge(topic, partition))) {
                None => ElectionOutcome::Unknown,
                Some((_, Err(outcome))) => outcome,
                Some((partition, Ok((leader, preferred)))) => {
                    by_leader.entry(leader).or_default().push((partition.group, preferred));
                    asked.push((outcomes.len(), topic, partition, preferred));
                    ElectionOutcome::TimedOut
                }
            };
            outcomes.push(outcome);
        }
        let calls = by_leader.into_iter().map(|(leader, wanted)| self.ask(leader, wanted, timeout));
        let accepted: Vec<u64> =
            futures::future::join_all(calls).await.into_iter().flatten().collect();
        for (place, topic, partition, preferred) in asked {
            outcomes[place] = if !accepted.contains(&partition.group) {
                ElectionOutcome::NotAvailable
            } else if self.see_lead(topic, partition, preferred, timeout).await {
                ElectionOutcome::Elected
            } else {
                ElectionOutcome::TimedOut
            };
        }
        outcomes
    }

    /// Who leads and who shall, or why nothing is to be done.
    fn judge(
        &self,
        topic: TopicId,
        partition: &PartitionImage,
    ) -> Result<(BrokerId, BrokerId), ElectionOutcome> {
        let local = self.registry.get(topic, partition.id).map(|replica| replica.leadership());
        let leadership = self.presence.leadership(partition, local);
        let preferred = partition.replicas.first().ok_or(ElectionOutcome::NotAvailable)?;
        let leader = leadership.leader.ok_or(ElectionOutcome::NotAvailable)?;
        if leader == *preferred {
            return Err(ElectionOutcome::NotNeeded);
        }
        let votes = !partition.adding.contains(preferred);
        if !votes || !leadership.in_sync_replicas.contains(preferred) {
            return Err(ElectionOutcome::NotAvailable);
        }
        Ok((leader, *preferred))
    }

    /// Which of the groups the leader has handed over.
    async fn ask(
        &self,
        leader: BrokerId,
        wanted: Vec<(u64, BrokerId)>,
        timeout: Duration,
    ) -> Vec<u64> {
        if leader == self.broker_id {
            return self.hand_over(wanted).await;
        }
        let Ok(head) = serde_json::to_vec(&HandOver { wanted }) else { return Vec::new() };
        let message = PeerMessage { kind: HAND_OVER, head: head.into(), body: Vec::new() };
        let timeout = timeout.min(FORWARD_TIMEOUT);
        let answer = self.transport.call(leader, METADATA_GROUP, message, timeout).await;
        let groups = answer.ok().and_then(|answer| serde_json::from_slice(&answer.head).ok());
        groups.unwrap_or_default()
    }

    async fn hand_over(&self, wanted: Vec<(u64, BrokerId)>) -> Vec<u64> {
        let mut done = Vec::new();
        // Not all at once: an election of each costs all replicas.
        for some in wanted.chunks(HAND_OVERS_AT_ONCE) {
            let handing_over = some.iter().map(|(group, to)| async move {
                let replica = self.registry.by_group(storage::log_store::GroupId(*group))?;
                replica.hand_over_to(*to).await.then_some(*group)
            });
            done.extend(futures::future::join_all(handing_over).await.into_iter().flatten());
        }
        done
    }

    /// Answers a broker that asks this one to hand over.
    pub(crate) async fn answer(&self, message: &PeerMessage) -> Result<PeerMessage, PeerError> {
        let broken = |error: serde_json::Error| PeerError::Broken(error.to_string());
        let request: HandOver = serde_json::from_slice(&message.head).map_err(broken)?;
        let done = self.hand_over(request.wanted).await;
        let head = serde_json::to_vec(&done).map_err(broken)?.into();
        Ok(PeerMessage { kind: HAND_OVER, head, body: Vec::new() })
    }

    /// Waits until this broker sees that `wanted` leads.
    async fn see_lead(
        &self,
        topic: TopicId,
        partition: &PartitionImage,
        wanted: BrokerId,
        timeout: Duration,
    ) -> bool {
        let mut learned = self.presence.watch();
        let seen = async {
            loop {
                let local =
                    self.registry.get(topic, partition.id).map(|replica| replica.leadership());
                if self.presence.leadership(partition, local).leader == Some(wanted) {
                    return true;
                }
                if learned.changed().await.is_err() {
                    return false;
                }
            }
        };
        tokio::time::timeout(timeout, seen).await.unwrap_or(false)
    }

    /// At the controller, gives leadership back to preferred replicas, round after round.
    pub(crate) async fn run_rebalance(&self, log: &MetadataLog, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            if log.leader().0 != Some(self.broker_id) {
                continue;
            }
            let image = log.image();
            let topics = image.topics.values();
            let all = topics.flat_map(|topic| {
                let partitions = topic.partitions.iter().filter(|p| p.replicas.len() > 1);
                partitions.map(|partition| (topic.id, partition.id))
            });
            let outcomes = self.elect_preferred(&image, all.collect(), FORWARD_TIMEOUT).await;
            let elected = outcomes.iter().filter(|o| **o == ElectionOutcome::Elected).count();
            if elected > 0 {
                tracing::info!(partitions = elected, "preferred replicas lead again");
            }
        }
    }
}
