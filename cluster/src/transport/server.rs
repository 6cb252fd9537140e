//! Answers other brokers over TCP.

use std::io;
use std::sync::Arc;

use futures::future::BoxFuture;
use protocol::types::BrokerId;
use storage::log_store::GroupId;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::frame::{self, FrameType, PeerFrame};
use super::identity::Identity;
use super::{PeerError, PeerMessage};
use crate::limits::{PEER_ACCEPT_DELAY, PEER_CALLS_IN_FLIGHT, PEER_CONNECT_TIMEOUT};

/// What answers the messages.
pub trait PeerHandler: Send + Sync + 'static {
    /// Answers a message about a group.
    fn handle(
        &self,
        group: GroupId,
        message: PeerMessage,
    ) -> BoxFuture<'_, Result<PeerMessage, PeerError>>;

    /// A peer has closed a connection, or it broke.
    fn on_disconnected(&self, peer: BrokerId);
}

/// Takes connections of other brokers until `stop`, and ends when the last one has ended.
pub async fn serve_peers(
    listener: TcpListener,
    identity: Arc<Identity>,
    handler: Arc<dyn PeerHandler>,
    stop: CancellationToken,
) {
    let connections = TaskTracker::new();
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Too many open files, say: others may close some.
                tracing::warn!(%error, "a peer connection could not be accepted");
                tokio::time::sleep(PEER_ACCEPT_DELAY).await;
                continue;
            }
        };
        let (identity, handler, stop) = (identity.clone(), handler.clone(), stop.clone());
        connections.spawn(async move {
            let served = stop.run_until_cancelled(serve_one(stream, &identity, handler)).await;
            if let Some(Err(error)) = served {
                tracing::debug!(%error, "a peer connection ended");
            }
        });
    }
    connections.close();
    connections.wait().await;
}

async fn serve_one(
    mut stream: TcpStream,
    identity: &Identity,
    handler: Arc<dyn PeerHandler>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no introduction in time");
    let introduced = tokio::time::timeout(PEER_CONNECT_TIMEOUT, meet(&mut stream, identity));
    let peer = introduced.await.map_err(|_| late())??;
    let served = serve_peer(stream, &handler).await;
    handler.on_disconnected(peer);
    served
}

async fn serve_peer(stream: TcpStream, handler: &Arc<dyn PeerHandler>) -> io::Result<()> {
    let (mut reader, writer) = stream.into_split();
    let (answers, queued) = mpsc::channel(PEER_CALLS_IN_FLIGHT);
    // Given up with the connection, whoever still works on an answer.
    let writing = AbortOnDropHandle::new(tokio::spawn(write_answers(writer, queued)));
    let in_flight = Arc::new(Semaphore::new(PEER_CALLS_IN_FLIGHT));
    while let Some(request) = frame::read(&mut reader).await? {
        if request.frame_type != FrameType::Request {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a request"));
        }
        // At the limit the socket is no longer read.
        let Ok(permit) = in_flight.clone().acquire_owned().await else { break };
        let (handler, answers) = (handler.clone(), answers.clone());
        tokio::spawn(async move {
            let PeerFrame { correlation, group, message, .. } = request;
            let answer = match handler.handle(group, message).await {
                Ok(message) => {
                    PeerFrame { frame_type: FrameType::Answer, correlation, group, message }
                }
                Err(error) => PeerFrame::refusal(correlation, group, error.to_string()),
            };
            // A connection that broke meanwhile wants no answer.
            answers.send(answer).await.ok();
            drop(permit);
        });
    }
    drop(answers);
    writing.await.unwrap_or(Ok(()))
}

/// The exchange of introductions: who is there.
async fn meet(stream: &mut TcpStream, identity: &Identity) -> io::Result<BrokerId> {
    let hello = frame::read(stream).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let (correlation, group) = (hello.correlation, hello.group);
    match identity.check(&hello.message.head) {
        Ok(met) => {
            let message = identity.hello().map_err(io::Error::other)?;
            let frame_type = FrameType::Answer;
            frame::write(stream, PeerFrame { frame_type, correlation, group, message }).await?;
            Ok(met.broker_id)
        }
        Err(why) => {
            tracing::warn!("{why}: it was refused");
            frame::write(stream, PeerFrame::refusal(correlation, group, why.clone())).await?;
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        }
    }
}

async fn write_answers(
    mut writer: OwnedWriteHalf,
    mut answers: mpsc::Receiver<PeerFrame>,
) -> io::Result<()> {
    while let Some(answer) = answers.recv().await {
        frame::write(&mut writer, answer).await?;
    }
    Ok(())
}
