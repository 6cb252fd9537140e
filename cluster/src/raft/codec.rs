//! The messages between the replicas of a group, as bytes: fields as JSON, record batches raw.

use std::time::Duration;

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    VoteRequest, VoteResponse,
};
use protocol::record_batch::{HEADER_LEN, RecordBatch};
use protocol::types::Offset;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::command::GroupCommand;
use super::membership::{IdRecord, MembershipRecord, StoredMembershipRecord};
use super::snapshot::SnapshotMeta;
use super::type_config::{LogId, RaftEntry, RaftVote, TypeConfig};
use crate::transport::{PeerError, PeerMessage};

pub(super) const APPEND_ENTRIES: u8 = 1;
pub(super) const VOTE: u8 = 2;
pub(super) const PRE_VOTE: u8 = 3;
pub(super) const SNAPSHOT: u8 = 4;
pub(super) const TRANSFER_LEADER: u8 = 5;

pub(super) type AppendRequest = AppendEntriesRequest<TypeConfig>;
pub(super) type AppendResponse = AppendEntriesResponse<TypeConfig>;

#[derive(Serialize, Deserialize)]
struct VoteRecord {
    term: u64,
    node: u64,
    committed: bool,
}

#[derive(Serialize, Deserialize)]
struct AppendRecord {
    vote: VoteRecord,
    previous: Option<IdRecord>,
    committed: Option<IdRecord>,
    entries: Vec<EntryRecord>,
    /// The node is caught up at a rate, of which it may have a say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_slowed: bool,
}

#[derive(Serialize, Deserialize)]
struct EntryRecord {
    id: IdRecord,
    payload: PayloadRecord,
}

#[derive(Serialize, Deserialize)]
enum PayloadRecord {
    Blank,
    Membership(MembershipRecord),
    /// Sizes of the batches, which stand in the message's body.
    Batches(Vec<u32>),
    AdvanceLogStart(Offset),
    /// Size of the command, which stands in the message's body.
    Metadata(u32),
}

#[derive(Serialize, Deserialize)]
enum AppendAnswer {
    Success,
    Partial(Option<IdRecord>),
    Conflict,
    HigherVote(VoteRecord),
}

#[derive(Serialize, Deserialize)]
struct VoteRequestRecord {
    vote: VoteRecord,
    last: Option<IdRecord>,
    leadership_transfer: bool,
}

#[derive(Serialize, Deserialize)]
struct VoteAnswer {
    vote: VoteRecord,
    granted: bool,
    last: Option<IdRecord>,
}

#[derive(Serialize, Deserialize)]
struct SnapshotRecord {
    vote: VoteRecord,
    last: Option<IdRecord>,
    membership: StoredMembershipRecord,
}

#[derive(Serialize, Deserialize)]
struct TransferRecord {
    from: VoteRecord,
    to: u64,
    last: Option<IdRecord>,
}

/// What the messages of a leader or a candidate have in common.
#[derive(Deserialize)]
struct SentRecord {
    vote: VoteRecord,
}

impl VoteRecord {
    fn from_raft(vote: &RaftVote) -> Self {
        VoteRecord {
            term: vote.leader_id.term,
            node: vote.leader_id.voted_for,
            committed: vote.committed,
        }
    }

    fn to_raft(&self) -> RaftVote {
        if self.committed {
            RaftVote::new_committed(self.term, self.node)
        } else {
            RaftVote::new(self.term, self.node)
        }
    }
}

fn id_record(id: Option<&LogId>) -> Option<IdRecord> {
    id.map(IdRecord::from_log_id)
}

fn raft_id(record: Option<IdRecord>) -> Option<LogId> {
    record.map(IdRecord::to_log_id)
}

fn broken(error: impl std::fmt::Display) -> PeerError {
    PeerError::Broken(error.to_string())
}

fn size(len: usize) -> Result<u32, PeerError> {
    u32::try_from(len).map_err(broken)
}

fn message<T: Serialize>(kind: u8, head: &T, body: Vec<Bytes>) -> Result<PeerMessage, PeerError> {
    Ok(PeerMessage { kind, head: serde_json::to_vec(head).map_err(broken)?.into(), body })
}

fn head<T: DeserializeOwned>(message: &PeerMessage) -> Result<T, PeerError> {
    serde_json::from_slice(&message.head).map_err(broken)
}

/// The body of a message as one piece.
fn joined(message: &PeerMessage) -> Bytes {
    match message.body.as_slice() {
        [] => Bytes::new(),
        [one] => one.clone(),
        many => many.concat().into(),
    }
}

fn take(bytes: &mut Bytes, len: u32) -> Result<Bytes, PeerError> {
    let len = len as usize;
    if bytes.len() < len {
        return Err(PeerError::Broken("a message is cut short".into()));
    }
    Ok(bytes.split_to(len))
}

pub(super) fn encode_append(
    request: AppendRequest,
    is_slowed: bool,
) -> Result<PeerMessage, PeerError> {
    let mut body = Vec::new();
    let mut entries = Vec::with_capacity(request.entries.len());
    for entry in request.entries {
        let payload = match entry.payload {
            EntryPayload::Blank => PayloadRecord::Blank,
            EntryPayload::Membership(membership) => {
                PayloadRecord::Membership(MembershipRecord::from_raft(&membership))
            }
            EntryPayload::Normal(GroupCommand::Batches { batches, .. }) => {
                let mut sizes = Vec::with_capacity(batches.len());
                for batch in batches {
                    sizes.push(size(batch.size_in_bytes())?);
                    body.push(Bytes::copy_from_slice(batch.head()));
                    body.push(batch.body().clone());
                }
                PayloadRecord::Batches(sizes)
            }
            EntryPayload::Normal(GroupCommand::AdvanceLogStart { offset }) => {
                PayloadRecord::AdvanceLogStart(offset)
            }
            EntryPayload::Normal(GroupCommand::Metadata(command)) => {
                let len = size(command.len())?;
                body.push(command);
                PayloadRecord::Metadata(len)
            }
            EntryPayload::Normal(GroupCommand::Stored { .. }) => {
                return Err(PeerError::Broken("an entry was read without its batches".into()));
            }
        };
        entries.push(EntryRecord { id: IdRecord::from_log_id(&entry.log_id), payload });
    }
    let record = AppendRecord {
        vote: VoteRecord::from_raft(&request.vote),
        previous: id_record(request.prev_log_id.as_ref()),
        committed: id_record(request.leader_commit.as_ref()),
        entries,
        is_slowed,
    };
    message(APPEND_ENTRIES, &record, body)
}

/// The request, and whether the leader slows this node.
pub(super) fn decode_append(request: &PeerMessage) -> Result<(AppendRequest, bool), PeerError> {
    let record: AppendRecord = head(request)?;
    let is_slowed = record.is_slowed;
    let mut body = joined(request);
    let mut entries = Vec::with_capacity(record.entries.len());
    for entry in record.entries {
        let payload = match entry.payload {
            PayloadRecord::Blank => EntryPayload::Blank,
            PayloadRecord::Membership(membership) => EntryPayload::Membership(membership.to_raft()),
            PayloadRecord::Batches(sizes) => {
                let batches = decode_batches(&sizes, &mut body)?;
                EntryPayload::Normal(GroupCommand::Batches { batches, observer: None })
            }
            PayloadRecord::AdvanceLogStart(offset) => {
                EntryPayload::Normal(GroupCommand::AdvanceLogStart { offset })
            }
            PayloadRecord::Metadata(len) => {
                EntryPayload::Normal(GroupCommand::Metadata(take(&mut body, len)?))
            }
        };
        entries.push(RaftEntry { log_id: entry.id.to_log_id(), payload });
    }
    let request = AppendRequest {
        vote: record.vote.to_raft(),
        prev_log_id: raft_id(record.previous),
        entries,
        leader_commit: raft_id(record.committed),
    };
    Ok((request, is_slowed))
}

fn decode_batches(sizes: &[u32], body: &mut Bytes) -> Result<Vec<RecordBatch>, PeerError> {
    let mut batches = Vec::with_capacity(sizes.len());
    for size in sizes {
        let mut bytes = take(body, *size)?;
        if bytes.len() < HEADER_LEN {
            return Err(PeerError::Broken("a batch is shorter than its header".into()));
        }
        let batch = RecordBatch::split_from(&mut bytes).map_err(broken)?;
        let batch = batch.ok_or_else(|| PeerError::Broken("a batch is missing".into()))?;
        batch.verify_crc().map_err(broken)?;
        batches.push(batch);
    }
    Ok(batches)
}

/// The node that leads or wants to, by a message that says so.
pub(super) fn sender(message: &PeerMessage) -> Option<u64> {
    let said: SentRecord = head(message).ok()?;
    Some(said.vote.node)
}

/// How long the leader is to pause stands in the body, for one that has never heard of it to read
/// over it.
pub(super) fn encode_append_answer(
    answer: &AppendResponse,
    pause: Duration,
) -> Result<PeerMessage, PeerError> {
    let answer = match answer {
        AppendResponse::Success => AppendAnswer::Success,
        AppendResponse::PartialSuccess(id) => AppendAnswer::Partial(id_record(id.as_ref())),
        AppendResponse::Conflict => AppendAnswer::Conflict,
        AppendResponse::HigherVote(vote) => AppendAnswer::HigherVote(VoteRecord::from_raft(vote)),
    };
    let pause_ms = u32::try_from(pause.as_millis()).unwrap_or(u32::MAX);
    let pause = (pause_ms > 0).then(|| Bytes::copy_from_slice(&pause_ms.to_be_bytes()));
    message(APPEND_ENTRIES, &answer, pause.into_iter().collect())
}

/// The answer, and how long the node asks to be left alone.
pub(super) fn decode_append_answer(
    answer: &PeerMessage,
) -> Result<(AppendResponse, Duration), PeerError> {
    let pause_ms = joined(answer).first_chunk::<4>().map_or(0, |ms| u32::from_be_bytes(*ms));
    let answer = match head(answer)? {
        AppendAnswer::Success => AppendResponse::Success,
        AppendAnswer::Partial(id) => AppendResponse::PartialSuccess(raft_id(id)),
        AppendAnswer::Conflict => AppendResponse::Conflict,
        AppendAnswer::HigherVote(vote) => AppendResponse::HigherVote(vote.to_raft()),
    };
    Ok((answer, Duration::from_millis(u64::from(pause_ms))))
}

pub(super) fn encode_vote(
    kind: u8,
    request: &VoteRequest<TypeConfig>,
) -> Result<PeerMessage, PeerError> {
    let record = VoteRequestRecord {
        vote: VoteRecord::from_raft(&request.vote),
        last: id_record(request.last_log_id.as_ref()),
        leadership_transfer: request.leadership_transfer,
    };
    message(kind, &record, Vec::new())
}

pub(super) fn decode_vote(request: &PeerMessage) -> Result<VoteRequest<TypeConfig>, PeerError> {
    let record: VoteRequestRecord = head(request)?;
    let mut vote = VoteRequest::new(record.vote.to_raft(), raft_id(record.last));
    vote.leadership_transfer = record.leadership_transfer;
    Ok(vote)
}

pub(super) fn encode_vote_answer(
    kind: u8,
    answer: &VoteResponse<TypeConfig>,
) -> Result<PeerMessage, PeerError> {
    let record = VoteAnswer {
        vote: VoteRecord::from_raft(&answer.vote),
        granted: answer.vote_granted,
        last: id_record(answer.last_log_id.as_ref()),
    };
    message(kind, &record, Vec::new())
}

pub(super) fn decode_vote_answer(
    answer: &PeerMessage,
) -> Result<VoteResponse<TypeConfig>, PeerError> {
    let record: VoteAnswer = head(answer)?;
    let vote = record.vote.to_raft();
    Ok(VoteResponse::new(vote, raft_id(record.last), record.granted))
}

pub(super) fn encode_snapshot(
    vote: &RaftVote,
    meta: &SnapshotMeta,
    data: Bytes,
) -> Result<PeerMessage, PeerError> {
    let record = SnapshotRecord {
        vote: VoteRecord::from_raft(vote),
        last: id_record(meta.last_log_id.as_ref()),
        membership: StoredMembershipRecord::from_raft(&meta.last_membership),
    };
    message(SNAPSHOT, &record, vec![data])
}

pub(super) fn decode_snapshot(
    request: &PeerMessage,
) -> Result<(RaftVote, SnapshotMeta, Bytes), PeerError> {
    let record: SnapshotRecord = head(request)?;
    let meta = SnapshotMeta {
        last_log_id: raft_id(record.last),
        last_membership: record.membership.to_raft(),
    };
    Ok((record.vote.to_raft(), meta, joined(request)))
}

pub(super) fn encode_snapshot_answer(
    answer: &SnapshotResponse<TypeConfig>,
) -> Result<PeerMessage, PeerError> {
    message(SNAPSHOT, &VoteRecord::from_raft(&answer.vote), Vec::new())
}

pub(super) fn decode_snapshot_answer(
    answer: &PeerMessage,
) -> Result<SnapshotResponse<TypeConfig>, PeerError> {
    let vote: VoteRecord = head(answer)?;
    Ok(SnapshotResponse { vote: vote.to_raft() })
}

pub(super) fn encode_transfer(
    request: &TransferLeaderRequest<TypeConfig>,
) -> Result<PeerMessage, PeerError> {
    let record = TransferRecord {
        from: VoteRecord::from_raft(request.from_leader()),
        to: *request.to_node_id(),
        last: id_record(request.last_log_id()),
    };
    message(TRANSFER_LEADER, &record, Vec::new())
}

pub(super) fn decode_transfer(
    request: &PeerMessage,
) -> Result<TransferLeaderRequest<TypeConfig>, PeerError> {
    let record: TransferRecord = head(request)?;
    Ok(TransferLeaderRequest::new(record.from.to_raft(), record.to, raft_id(record.last)))
}

/// The answer to a leadership transfer says only that it arrived.
pub(super) fn encode_transfer_answer() -> Result<PeerMessage, PeerError> {
    message(TRANSFER_LEADER, &(), Vec::new())
}
