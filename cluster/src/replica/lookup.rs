//! Where a partition's log begins and ends, and which record is the first of a time: asked of the
//! broker that leads the partition, wherever that is.

use std::sync::Arc;

use protocol::types::{BrokerId, Offset, PartitionId, Timestamp, TopicId};
use serde::{Deserialize, Serialize};

use super::Replica;
use super::registry::Registry;
use crate::blocking::off_worker;
use crate::limits::LOOKUP_TIMEOUT;
use crate::metadata::PartitionImage;
use crate::transport::{PeerError, PeerMessage, PeerTransport};

/// The message's kind.
pub(crate) const LOOKUP: u8 = 72;

/// What is asked of a partition's log.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct LogQuestion {
    /// The topic.
    pub topic: TopicId,
    /// Its partition.
    pub partition: PartitionId,
    /// Looks for the first record of this time or later.
    pub time: Option<Timestamp>,
}

/// What a partition's log says, all of it at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPlaces {
    /// The first offset.
    pub log_start_offset: Offset,
    /// The end for consumers.
    pub high_watermark: Offset,
    /// The record that was looked for; `None` also where there is none of that time.
    pub found: Option<Offset>,
}

/// Why nothing is known of a partition's log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// None of the brokers that keep the partition leads it, as far as they can be reached.
    #[error("no leader of the partition can be reached")]
    NoLeader,
    /// Its leader cannot read it.
    #[error("the partition's log cannot be read: {0}")]
    Unreadable(String),
}

/// Looks into the log if this broker leads it.
async fn here(replica: Arc<Replica>, time: Option<Timestamp>) -> Result<LogPlaces, LookupError> {
    if !replica.is_leader() {
        return Err(LookupError::NoLeader);
    }
    // A record may have to be read from the disk.
    let look = move || -> Result<LogPlaces, String> {
        let offsets = replica.offsets();
        let find = |time| replica.offset_for_timestamp(time, offsets.high_watermark);
        let found = time.map(find).transpose().map_err(|error| error.to_string())?;
        Ok(LogPlaces {
            log_start_offset: offsets.log_start_offset,
            high_watermark: offsets.high_watermark,
            found: found.flatten().map(|found| found.offset),
        })
    };
    off_worker(look).await.and_then(|looked| looked).map_err(LookupError::Unreadable)
}

/// Where a partition's log is.
pub(crate) struct Places<'a> {
    /// This broker.
    pub(crate) own: BrokerId,
    /// Who leads, as far as is known here.
    pub(crate) leader: Option<BrokerId>,
    /// Who keeps it.
    pub(crate) partition: &'a PartitionImage,
}

/// Looks here, or asks the leader, or else those who keep the partition until one leads it.
pub(crate) async fn anywhere(
    places: Places<'_>,
    registry: &Registry,
    transport: &dyn PeerTransport,
    question: LogQuestion,
) -> Result<LogPlaces, LookupError> {
    let Places { own, leader, partition } = places;
    if let Some(replica) = registry.get(question.topic, question.partition) {
        match here(replica, question.time).await {
            Err(LookupError::NoLeader) => {}
            result => return result,
        }
    }
    let others = partition.replicas.iter().copied().filter(|id| Some(*id) != leader);
    for broker in leader.into_iter().chain(others).filter(|id| *id != own) {
        match ask(transport, broker, question).await {
            // It does not lead, or does not answer.
            Err(LookupError::NoLeader) => {}
            result => return result,
        }
    }
    Err(LookupError::NoLeader)
}

/// What another broker says.
type Answer = Result<LogPlaces, Option<String>>;

async fn ask(
    transport: &dyn PeerTransport,
    broker: BrokerId,
    question: LogQuestion,
) -> Result<LogPlaces, LookupError> {
    let unreadable = |error: serde_json::Error| LookupError::Unreadable(error.to_string());
    let head = serde_json::to_vec(&question).map_err(unreadable)?.into();
    let message = PeerMessage { kind: LOOKUP, head, body: Vec::new() };
    // The question says which partition; the metadata group stands for "none in particular".
    let group = crate::controller::metadata_log::METADATA_GROUP;
    let Ok(answer) = transport.call(broker, group, message, LOOKUP_TIMEOUT).await else {
        return Err(LookupError::NoLeader);
    };
    let answer: Answer = serde_json::from_slice(&answer.head).map_err(unreadable)?;
    answer.map_err(|why| why.map_or(LookupError::NoLeader, LookupError::Unreadable))
}

/// Answers another broker.
pub(crate) async fn answer(
    registry: &Registry,
    message: &PeerMessage,
) -> Result<PeerMessage, PeerError> {
    let broken = |error: serde_json::Error| PeerError::Broken(error.to_string());
    let question: LogQuestion = serde_json::from_slice(&message.head).map_err(broken)?;
    let looked = match registry.get(question.topic, question.partition) {
        Some(replica) => here(replica, question.time).await,
        None => Err(LookupError::NoLeader),
    };
    let answer: Answer = looked.map_err(|error| match error {
        LookupError::NoLeader => None,
        LookupError::Unreadable(why) => Some(why),
    });
    let head = serde_json::to_vec(&answer).map_err(broken)?;
    Ok(PeerMessage { kind: LOOKUP, head: head.into(), body: Vec::new() })
}
