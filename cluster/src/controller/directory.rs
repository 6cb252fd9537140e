//! The directory that a broker keeps its logs in, and by which one the others know the broker.
//!
//! A broker whose directory was emptied looks like one that has never been. What it has answered
//! for is gone, though, and only the others know that there was something.

use bytes::Bytes;
use protocol::types::BrokerId;
use serde::{Deserialize, Serialize};
use storage::StorageError;
use storage::log_store::{GroupLog, LogStore};

use super::metadata_log::{METADATA_GROUP, MetadataLog};
use crate::limits::DIRECTORY_TIMEOUT;
use crate::metadata::MetadataImage;
use crate::raft::{LogStanding, wait, waiter};
use crate::transport::{PeerError, PeerMessage, PeerTransport};

/// The message's kind.
pub(crate) const ASK: u8 = 73;

/// Where the metadata log keeps the directory's id.
const ID_KEY: &[u8] = b"directory.id";
/// Where it keeps those of all brokers: its image is not known before there is a leader.
const KNOWN_KEY: &[u8] = b"directory.ids";

#[derive(Serialize, Deserialize)]
struct Question {
    broker: BrokerId,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    directory_id: Option<String>,
}

/// The id of the directory that the store is in; `fresh` when it is used for the first time.
pub(crate) async fn id_of(store: &LogStore, fresh: String) -> Result<String, StorageError> {
    let log = store.group(METADATA_GROUP);
    if let Some(kept) = log.get_state(ID_KEY)? {
        return String::from_utf8(kept.to_vec())
            .map_err(|error| StorageError::Corrupt(error.to_string()));
    }
    let (done, kept) = waiter();
    log.put_state(ID_KEY, Bytes::from(fresh.clone()), done)?;
    wait(kept).await?;
    Ok(fresh)
}

/// Keeps by which directories the brokers are known. Nobody waits for it: what is known from an
/// entry is on disk before anything that comes later.
pub(crate) fn keep_known(log: &GroupLog, image: &MetadataImage) -> Result<(), StorageError> {
    let known = image.brokers.values().map(|broker| (broker.id, &broker.directory_id));
    let known = serde_json::to_vec(&known.collect::<Vec<_>>());
    let known = known.map_err(|error| StorageError::Corrupt(error.to_string()))?;
    log.put_state(KNOWN_KEY, known.into(), Box::new(|_| ()))
}

/// By which directory a broker is known, or was known before this broker started.
fn known(log: &MetadataLog, broker: BrokerId) -> Result<Option<String>, PeerError> {
    if let Some(registered) = log.image().brokers.get(&broker) {
        return Ok(registered.directory_id.clone());
    }
    let kept = log.kept(KNOWN_KEY).map_err(|error| PeerError::Unreachable(error.to_string()))?;
    let Some(kept) = kept else { return Ok(None) };
    let kept: Vec<(BrokerId, Option<String>)> = serde_json::from_slice(&kept).map_err(broken)?;
    Ok(kept.into_iter().find(|(id, _)| *id == broker).and_then(|(_, directory)| directory))
}

/// Before a metadata log that was empty at the start hears another broker, it asks that one whether
/// it is in place of another.
///
/// # Errors
/// The other one did not say: it has to come again.
pub(crate) async fn ask_if_new(
    log: &MetadataLog,
    broker: BrokerId,
    directory_id: &str,
    transport: &dyn PeerTransport,
    message: &PeerMessage,
) -> Result<(), PeerError> {
    let group = log.group();
    if group.standing() != LogStanding::New {
        return Ok(());
    }
    let Some(sender) = group.sender_of(message).filter(|sender| *sender != broker) else {
        return Ok(());
    };
    let known = match ask(transport, sender, broker).await {
        // It is of a version that does not know the question, nor any directory.
        Err(PeerError::Broken(_)) => None,
        known => known?,
    };
    if known.is_some_and(|known| known != directory_id) && group.standing() == LogStanding::New {
        group.lose_log();
    }
    Ok(())
}

async fn ask(
    transport: &dyn PeerTransport,
    peer: BrokerId,
    broker: BrokerId,
) -> Result<Option<String>, PeerError> {
    let head = serde_json::to_vec(&Question { broker }).map_err(broken)?;
    let question = PeerMessage { kind: ASK, head: head.into(), body: Vec::new() };
    let answer = transport.call(peer, METADATA_GROUP, question, DIRECTORY_TIMEOUT).await?;
    let answer: Answer = serde_json::from_slice(&answer.head).map_err(broken)?;
    Ok(answer.directory_id)
}

/// Says by which directory a broker is known here.
pub(crate) fn answer(log: &MetadataLog, question: &PeerMessage) -> Result<PeerMessage, PeerError> {
    let question: Question = serde_json::from_slice(&question.head).map_err(broken)?;
    let answer = Answer { directory_id: known(log, question.broker)? };
    let head = serde_json::to_vec(&answer).map_err(broken)?;
    Ok(PeerMessage { kind: ASK, head: head.into(), body: Vec::new() })
}

fn broken(error: serde_json::Error) -> PeerError {
    PeerError::Broken(error.to_string())
}
