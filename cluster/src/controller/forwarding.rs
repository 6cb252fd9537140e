//! Metadata commands on their way to the metadata leader, from whichever broker was asked.

use std::sync::Arc;

use bytes::Bytes;
use protocol::types::BrokerId;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::metadata_log::{METADATA_GROUP, MetadataLog};
use crate::ClusterError;
use crate::limits::{FORWARD_RETRY_DELAY, FORWARD_TIMEOUT};
use crate::metadata::{CommandOutcome, CommandResult, MetadataCommand};
use crate::transport::{PeerError, PeerMessage, PeerTransport};

/// The message's kind; the kinds below belong to Raft.
pub(crate) const SUBMIT: u8 = 64;

/// What the leader made of a command, and the image in which it can be seen.
#[derive(Serialize, Deserialize)]
struct Answer {
    version: u64,
    result: CommandResult,
}

/// The way to the metadata leader.
pub(crate) struct Forwarding {
    pub(crate) broker_id: BrokerId,
    pub(crate) transport: Arc<dyn PeerTransport>,
    /// Nobody else could be the leader.
    pub(crate) is_alone: bool,
    /// Who is asked as long as the leader is not known: a broker that is new knows the voters only.
    pub(crate) voters: Vec<BrokerId>,
}

impl Forwarding {
    /// Carries a command out wherever the leader is, and waits until it is applied here too. While
    /// there is no leader it waits for one, for a while.
    pub(crate) async fn submit(
        &self,
        log: &MetadataLog,
        command: &MetadataCommand,
    ) -> Result<CommandOutcome, ClusterError> {
        if self.is_alone {
            return log.submit(command).await;
        }
        let attempts = async {
            let mut voters = self.voters.iter().filter(|id| **id != self.broker_id).cycle();
            loop {
                match log.submit(command).await {
                    Err(ClusterError::NoController) => {}
                    result => return result,
                }
                let leader = log.leader().0.or_else(|| voters.next().copied());
                if let Some(leader) = leader.filter(|leader| *leader != self.broker_id) {
                    match self.ask(log, leader, command).await {
                        // Not carried out: it knows no leader either, or could not be reached.
                        Err(ClusterError::NoController) => {}
                        result => return result,
                    }
                }
                tokio::time::sleep(FORWARD_RETRY_DELAY).await;
            }
        };
        timeout(FORWARD_TIMEOUT, attempts).await.unwrap_or(Err(ClusterError::NoController))
    }

    async fn ask(
        &self,
        log: &MetadataLog,
        leader: BrokerId,
        command: &MetadataCommand,
    ) -> Result<CommandOutcome, ClusterError> {
        let head = serde_json::to_vec(command).map_err(|e| ClusterError::Storage(e.to_string()))?;
        let message = PeerMessage { kind: SUBMIT, head: head.into(), body: Vec::new() };
        let call = self.transport.call(leader, METADATA_GROUP, message, FORWARD_TIMEOUT);
        let answer = match call.await {
            Ok(answer) => answer,
            Err(PeerError::Unreachable(_)) => return Err(ClusterError::NoController),
            // It may have been carried out: whoever asked has to look.
            Err(PeerError::Broken(_) | PeerError::TimedOut) => {
                return Err(ClusterError::Undecided);
            }
        };
        let answer: Answer = serde_json::from_slice(&answer.head)
            .map_err(|error| ClusterError::Storage(error.to_string()))?;
        match answer.result {
            Ok(outcome) => log.wait_for_version(answer.version).await.map(|()| outcome),
            // The other broker's end is not ours, and the command may be in the log all the same.
            Err(ClusterError::Storage(_) | ClusterError::ShuttingDown) => {
                Err(ClusterError::Undecided)
            }
            refused => refused,
        }
    }
}

/// Answers a broker that is not the leader.
pub(crate) async fn answer(log: &MetadataLog, command: &Bytes) -> Result<PeerMessage, PeerError> {
    let broken = |error: serde_json::Error| PeerError::Broken(error.to_string());
    let command: MetadataCommand = serde_json::from_slice(command).map_err(broken)?;
    let result = log.submit(&command).await;
    let answer = Answer { version: log.image().version, result };
    let head = serde_json::to_vec(&answer).map_err(broken)?;
    Ok(PeerMessage { kind: SUBMIT, head: head.into(), body: Vec::new() })
}
