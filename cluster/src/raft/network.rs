//! openraft's network on a [`PeerTransport`]: one client per peer and group.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use openraft::OptionalSend;
use openraft::alias::SnapshotOf;
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::{
    RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2, stream_append_sequential,
};
use openraft::raft::{
    SnapshotResponse, StreamAppendResult, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use storage::log_store::GroupId;

use super::codec::{self, AppendRequest, AppendResponse};
use super::group::{address, broker_id};
use super::pacing::{Pacing, Turn};
use super::type_config::{RaftVote, TypeConfig};
use crate::transport::{PeerError, PeerMessage, PeerTransport};

/// A snapshot is sent whole, so it may take longer than a heartbeat.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes the clients of one group.
pub(super) struct NetworkFactory {
    pub(super) node_id: u64,
    pub(super) group: GroupId,
    pub(super) transport: Arc<dyn PeerTransport>,
    pub(super) pacing: Option<Arc<dyn Pacing>>,
}

/// Talks to one peer about one group.
pub(super) struct Network {
    node_id: u64,
    target: u64,
    group: GroupId,
    transport: Arc<dyn PeerTransport>,
    turn: Arc<Turn>,
}

impl RaftNetworkFactory<TypeConfig> for NetworkFactory {
    type Network = Network;

    async fn new_client(&mut self, target: u64, _node: &()) -> Network {
        Network {
            node_id: self.node_id,
            target,
            group: self.group,
            transport: self.transport.clone(),
            turn: Turn::new(self.pacing.clone(), target),
        }
    }
}

impl Network {
    async fn call(
        &self,
        message: PeerMessage,
        timeout: Duration,
    ) -> Result<PeerMessage, PeerError> {
        let target = broker_id(self.target)
            .ok_or_else(|| PeerError::Unreachable(format!("no broker of node {}", self.target)))?;
        let address = address(self.target, self.group);
        self.transport.call(target, address, message, timeout).await
    }

    /// A vote, or the question whether there would be one: they differ in the message's kind alone.
    async fn ask_for_vote(
        &self,
        kind: u8,
        request: &VoteRequest<TypeConfig>,
        timeout: Duration,
    ) -> Result<VoteResponse<TypeConfig>, Error> {
        let answer = async {
            let request = codec::encode_vote(kind, request)?;
            codec::decode_vote_answer(&self.call(request, timeout).await?)
        };
        answer.await.map_err(|error| self.error(RPCTypes::Vote, timeout, &error))
    }

    fn error(&self, action: RPCTypes, timeout: Duration, error: &PeerError) -> Error {
        match error {
            PeerError::Unreachable(_) => Error::Unreachable(Unreachable::new(error)),
            PeerError::Broken(_) => Error::Network(NetworkError::new(error)),
            PeerError::TimedOut => {
                Error::Timeout(Timeout { action, id: self.node_id, target: self.target, timeout })
            }
        }
    }
}

type Error = RPCError<TypeConfig>;

impl RaftNetworkV2<TypeConfig> for Network {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        request: AppendRequest,
        option: RPCOption,
    ) -> Result<AppendResponse, Error> {
        let timeout = option.soft_ttl();
        let is_slowed = !request.entries.is_empty() && self.turn.wait().await;
        let answer = async {
            let message = codec::encode_append(request, is_slowed)?;
            if is_slowed {
                self.turn.on_sent(message.body.iter().map(|piece| piece.len() as u64).sum());
            }
            let (answer, pause) = codec::decode_append_answer(&self.call(message, timeout).await?)?;
            if is_slowed {
                self.turn.on_pause_asked(pause);
            }
            Ok(answer)
        };
        answer.await.map_err(|error| self.error(RPCTypes::AppendEntries, timeout, &error))
    }

    /// One after the other, as openraft does it by itself, but for what has to wait.
    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<TypeConfig>, Error>>, Error>>
    where
        S: Stream<Item = AppendRequest> + OptionalSend + Unpin + 'static,
    {
        let input = Box::pin(self.turn.clone().hold_back(input));
        stream_append_sequential(self, input, option)
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Error> {
        self.ask_for_vote(codec::VOTE, &request, option.soft_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Error> {
        self.ask_for_vote(codec::PRE_VOTE, &request, option.soft_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: RaftVote,
        snapshot: SnapshotOf<TypeConfig, Bytes>,
        _cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let answer = async {
            let request = codec::encode_snapshot(&vote, &snapshot.meta, snapshot.snapshot)?;
            codec::decode_snapshot_answer(&self.call(request, SNAPSHOT_TIMEOUT).await?)
        };
        answer.await.map_err(|error: PeerError| {
            match self.error(RPCTypes::InstallSnapshot, SNAPSHOT_TIMEOUT, &error) {
                Error::Timeout(timeout) => StreamingError::Timeout(timeout),
                Error::Network(network) => StreamingError::Network(network),
                _ => StreamingError::Unreachable(Unreachable::new(&error)),
            }
        })
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, Error> {
        let timeout = option.soft_ttl();
        let answer = async {
            self.call(codec::encode_transfer(&request)?, timeout).await?;
            Ok(())
        };
        let answer: Result<(), PeerError> = answer.await;
        answer.map(Ok).map_err(|error| self.error(RPCTypes::TransferLeader, timeout, &error))
    }
}
