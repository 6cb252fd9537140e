//! How brokers talk to each other about their groups: one request, one answer, for a group.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use protocol::types::BrokerId;
use storage::log_store::GroupId;

mod client;
mod frame;
mod identity;
mod secret;
mod server;
#[cfg(test)]
mod tests;
mod tls;

pub use client::{TcpPeers, ask_for_voters};
pub use identity::{Identity, PeerSecurity};
pub use secret::ClusterSecret;
pub use server::{PeerHandler, serve_peers};
pub use tls::PeerTls;

/// A message between two replicas of a group. Small fields stand in `head`; record batches follow
/// as raw bytes, by reference, so that no byte of them is copied on the way out.
#[derive(Debug, Clone)]
pub struct PeerMessage {
    /// What the message is; the group's code knows the numbers.
    pub kind: u8,
    /// The message's fields.
    pub head: Bytes,
    /// Bytes that the fields speak of, in order; a transport may join them.
    pub body: Vec<Bytes>,
}

/// Why a peer gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// No connection: try again later.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The connection broke or the answer made no sense: try again.
    #[error("connection failed: {0}")]
    Broken(String),
    /// No answer in time.
    #[error("no answer in time")]
    TimedOut,
}

/// Carries messages to other brokers.
pub trait PeerTransport: Send + Sync + 'static {
    /// Sends a request about `group` to `target` and waits for the answer.
    fn call(
        &self,
        target: BrokerId,
        group: GroupId,
        message: PeerMessage,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<PeerMessage, PeerError>>;

    /// Whether a peer's machine says that nobody listens there any more: its process has ended.
    /// `false` also where that cannot be told.
    fn has_ended(&self, _target: BrokerId) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// The transport of a broker that is alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoPeers;

impl PeerTransport for NoPeers {
    fn call(
        &self,
        target: BrokerId,
        _group: GroupId,
        _message: PeerMessage,
        _timeout: Duration,
    ) -> BoxFuture<'static, Result<PeerMessage, PeerError>> {
        let error = PeerError::Unreachable(format!("broker {target} is not known here"));
        Box::pin(std::future::ready(Err(error)))
    }
}
