//! One client connection: reads requests, has them handled, and writes the replies in the order of
//! the requests.
//!
//! A request is handled up to the point that fixes its order (an append is queued, say) before the
//! next one is looked at; what is left of it overlaps with the requests behind it. One task does
//! all of it, so that nothing wakes another thread on the way.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use storage::log_store::RecordSlice;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::limits::{CONNECTION_IN_FLIGHT_BYTES, CONNECTION_OUTSTANDING_REPLIES, READ_AHEAD_BYTES};
use crate::net::budget::InFlightBudget;
use crate::net::frame_reader::{Frame, FrameError, FrameReader};
use crate::net::reply_writer::ReplyWriter;

/// A reply as it goes to the socket, length first; empty where nothing is to be sent.
pub type ReplyBytes = Vec<RecordSlice>;

/// Why a connection is closed.
#[derive(Debug)]
pub enum CloseReason {
    /// The client went, between requests.
    Client,
    /// Nothing came for `connections.max.idle.ms`.
    Idle,
    /// The broker shuts down.
    Shutdown,
    /// The request cannot be answered in a way that the client understands.
    Request(String),
    /// The socket failed, or the client broke the framing.
    Io(String),
}

impl CloseReason {
    /// The label of the metric.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            CloseReason::Client => "client",
            CloseReason::Idle => "idle",
            CloseReason::Shutdown => "shutdown",
            CloseReason::Request(_) => "request",
            CloseReason::Io(_) => "io",
        }
    }
}

/// What became of a request.
pub enum Handled {
    /// Its reply.
    Ready(ReplyBytes),
    /// Its reply is still to come.
    Later(BoxFuture<'static, Result<ReplyBytes, CloseReason>>),
    /// The connection must be closed.
    Close(CloseReason),
}

/// What a connection does not know: what requests mean.
pub trait RequestHandler: Send + Sync + 'static {
    /// Handles a request up to where its order is fixed.
    fn handle(&self, peer: &Peer, frame: Frame) -> impl Future<Output = Handled> + Send;
}

/// The two ends of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Name of the listener it came in by.
    pub listener: Arc<str>,
    /// The broker's end.
    pub local_address: SocketAddr,
    /// The client's end.
    pub peer_address: SocketAddr,
}

/// What connections are bounded by.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// `socket.request.max.bytes`.
    pub max_request_bytes: usize,
    /// `connections.max.idle.ms`.
    pub max_idle: Duration,
    /// The broker's.
    pub budget: Arc<InFlightBudget>,
}

/// Serves a connection until it ends.
pub async fn run_connection<H: RequestHandler>(
    stream: TcpStream,
    peer: Peer,
    handler: Arc<H>,
    limits: ConnectionLimits,
    shutdown: CancellationToken,
) -> CloseReason {
    let max_idle = limits.max_idle;
    let mut connection = Connection {
        reader: FrameReader::new(limits.max_request_bytes, Arc::clone(&limits.budget)),
        budget: limits.budget,
        writer: ReplyWriter::new(max_idle),
        replies: FuturesOrdered::new(),
        unanswered_bytes: 0,
        max_idle,
        stream,
        peer,
        handler,
    };
    let ended = connection.run(shutdown).await;
    if let Err(CloseReason::Request(_)) = &ended {
        // Replies to earlier requests that are there leave before the connection is closed.
        let _ = connection.writer.flush(&connection.stream).await;
    }
    ended.err().unwrap_or(CloseReason::Shutdown)
}

/// A reply in its turn, and how large its request was.
struct OrderedReply {
    request_bytes: usize,
    state: ReplyState,
}

enum ReplyState {
    /// `None` once taken.
    Ready(Option<ReplyBytes>),
    Later(BoxFuture<'static, Result<ReplyBytes, CloseReason>>),
}

impl Future for OrderedReply {
    type Output = (usize, Result<ReplyBytes, CloseReason>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = match &mut self.state {
            ReplyState::Ready(reply) => Ok(reply.take().unwrap_or_default()),
            ReplyState::Later(reply) => std::task::ready!(reply.as_mut().poll(context)),
        };
        Poll::Ready((self.request_bytes, reply))
    }
}

struct Connection<H> {
    stream: TcpStream,
    peer: Peer,
    handler: Arc<H>,
    reader: FrameReader,
    budget: Arc<InFlightBudget>,
    writer: ReplyWriter,
    replies: FuturesOrdered<OrderedReply>,
    /// Bytes of the requests whose replies are not yet written.
    unanswered_bytes: usize,
    max_idle: Duration,
}

impl<H: RequestHandler> Connection<H> {
    /// `Ok` when everything is answered after `shutdown`.
    async fn run(&mut self, shutdown: CancellationToken) -> Result<(), CloseReason> {
        let mut idle_timer = std::pin::pin!(tokio::time::sleep(self.max_idle));
        loop {
            self.write_finished_replies().await?;
            if shutdown.is_cancelled() && self.replies.is_empty() {
                return Ok(());
            }
            let may_read = !shutdown.is_cancelled() && self.may_read();
            tokio::select! {
                biased;
                Some((request_bytes, reply)) = self.replies.next() => {
                    self.take_reply(request_bytes, reply?);
                }
                () = shutdown.cancelled(), if !shutdown.is_cancelled() => {}
                frame = self.reader.next(&self.stream), if may_read => {
                    self.handle(frame.map_err(close_reason)?).await?;
                }
                () = idle_timer.as_mut() => {
                    let idle_since = self.reader.last_read_at();
                    let deadline = idle_since + self.max_idle;
                    if self.replies.is_empty() && deadline <= clock::monotonic() {
                        return Err(CloseReason::Idle);
                    }
                    let next_look = deadline.max(clock::monotonic() + self.max_idle / 8);
                    idle_timer.as_mut().reset(next_look.into());
                }
            }
        }
    }

    /// Whether another request is taken now. One that is refused here is taken once an earlier one
    /// of this connection is answered.
    fn may_read(&self) -> bool {
        let reads_ahead = self.replies.len() < CONNECTION_OUTSTANDING_REPLIES
            && self.unanswered_bytes < CONNECTION_IN_FLIGHT_BYTES
            && self.budget.in_flight_bytes() < READ_AHEAD_BYTES;
        reads_ahead || self.unanswered_bytes == 0
    }

    async fn handle(&mut self, frame: Frame) -> Result<(), CloseReason> {
        let request_bytes = frame.bytes.len();
        match self.handler.handle(&self.peer, frame).await {
            Handled::Close(reason) => {
                self.write_finished_replies().await?;
                return Err(reason);
            }
            Handled::Ready(reply) if self.replies.is_empty() => self.writer.push(reply),
            Handled::Ready(reply) => self.queue(request_bytes, ReplyState::Ready(Some(reply))),
            Handled::Later(reply) => self.queue(request_bytes, ReplyState::Later(reply)),
        }
        // A client that always has another request ready leaves the worker to others now and then.
        tokio::task::coop::consume_budget().await;
        Ok(())
    }

    fn queue(&mut self, request_bytes: usize, state: ReplyState) {
        self.unanswered_bytes += request_bytes;
        self.replies.push_back(OrderedReply { request_bytes, state });
    }

    /// Collects every reply whose turn has come, and writes them together.
    async fn write_finished_replies(&mut self) -> Result<(), CloseReason> {
        loop {
            while let Poll::Ready(Some((request_bytes, reply))) =
                futures::poll!(self.replies.next())
            {
                self.take_reply(request_bytes, reply?);
            }
            if self.writer.is_empty() {
                return Ok(());
            }
            let written = self.writer.flush(&self.stream).await;
            written.map_err(|error| CloseReason::Io(error.to_string()))?;
        }
    }

    fn take_reply(&mut self, request_bytes: usize, reply: ReplyBytes) {
        self.unanswered_bytes -= request_bytes;
        self.writer.push(reply);
    }
}

fn close_reason(error: FrameError) -> CloseReason {
    match error {
        FrameError::Closed => CloseReason::Client,
        FrameError::CutShort
        | FrameError::Size { .. }
        | FrameError::Memory(_)
        | FrameError::Io(_) => CloseReason::Io(error.to_string()),
    }
}
