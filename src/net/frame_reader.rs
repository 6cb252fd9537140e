//! Reads requests off a socket: each becomes one buffer of exactly its own size, so that record
//! bytes which are kept (in the tail of a partition) keep nothing else alive, and none is copied.
//!
//! The four bytes of the next request's length are read together with the current request, so that
//! a request costs one system call where its bytes are there.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::net::TcpStream;

use crate::clock;
use crate::limits::{COMPLETION_TURN_STALL, SOCKET_READ_BYTES};
use crate::net::budget::{CompletionTurn, InFlightBudget, Reservation};
use crate::net::system::read_into;

const PREFIX_LEN: usize = 4;

/// Why no further request comes from a connection.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The client closed the connection between requests.
    #[error("closed by the client")]
    Closed,
    /// The client closed the connection within a request.
    #[error("closed by the client within a request")]
    CutShort,
    /// The announced length is negative or above `socket.request.max.bytes`.
    #[error("a request of {announced} bytes is not within 0..={limit}")]
    Size {
        /// As read.
        announced: i32,
        /// What is allowed.
        limit: usize,
    },
    /// There is no memory for the request.
    #[error("no memory for a request of {0} bytes")]
    Memory(usize),
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A request as it came: its bytes without the length, and what it holds of the budget.
#[derive(Debug)]
pub struct Frame {
    /// Header and body.
    pub bytes: Bytes,
    /// To be dropped once the request is answered.
    pub reservation: Reservation,
}

/// The reading half of a connection. `next` may be dropped at any await: nothing read is lost.
#[derive(Debug)]
pub struct FrameReader {
    max_frame_bytes: usize,
    budget: Arc<InFlightBudget>,
    prefix: [u8; PREFIX_LEN],
    prefix_filled: usize,
    partial: Option<PartialFrame>,
    last_read_at: Instant,
}

#[derive(Debug)]
struct PartialFrame {
    /// Capacity for the whole request. Its pages cost nothing until bytes arrive: the allocator
    /// gets buffers of this size from the kernel untouched, and nothing here touches them.
    bytes: Vec<u8>,
    length: usize,
    reservation: Reservation,
    turn: Option<CompletionTurn>,
}

impl FrameReader {
    /// A reader that refuses requests above `max_frame_bytes`.
    #[must_use]
    pub fn new(max_frame_bytes: usize, budget: Arc<InFlightBudget>) -> FrameReader {
        FrameReader {
            max_frame_bytes,
            budget,
            prefix: [0; PREFIX_LEN],
            prefix_filled: 0,
            partial: None,
            last_read_at: clock::monotonic(),
        }
    }

    /// When bytes last came.
    #[must_use]
    pub fn last_read_at(&self) -> Instant {
        self.last_read_at
    }

    /// The next request, whole.
    ///
    /// # Errors
    /// Any error ends the connection.
    pub async fn next(&mut self, stream: &TcpStream) -> Result<Frame, FrameError> {
        loop {
            if self.partial.is_none() && self.prefix_filled == PREFIX_LEN {
                // What is in flight is answered without anything being read, so this wait ends.
                self.budget.available().await;
                self.begin_frame()?;
            }
            if let Some(frame) = self.take_whole_frame() {
                return Ok(frame);
            }
            self.wait_for_budget(stream).await?;
            self.read_some(stream).await?;
        }
    }

    fn begin_frame(&mut self) -> Result<(), FrameError> {
        let announced = i32::from_be_bytes(self.prefix);
        let limit = self.max_frame_bytes;
        let length = usize::try_from(announced)
            .ok()
            .filter(|length| *length <= limit)
            .ok_or(FrameError::Size { announced, limit })?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| FrameError::Memory(length))?;
        self.prefix_filled = 0;
        let reservation = self.budget.reservation();
        self.partial = Some(PartialFrame { bytes, length, reservation, turn: None });
        Ok(())
    }

    fn take_whole_frame(&mut self) -> Option<Frame> {
        let partial = self.partial.take_if(|partial| partial.bytes.len() == partial.length)?;
        Some(Frame { bytes: Bytes::from(partial.bytes), reservation: partial.reservation })
    }

    /// Reads what one system call yields: into the request and, when it can become whole, also
    /// into the length of the next one.
    async fn read_some(&mut self, stream: &TcpStream) -> Result<(), FrameError> {
        let prefix_spare = &mut self.prefix[self.prefix_filled..];
        let Some(partial) = &mut self.partial else {
            let mut nothing = Vec::new();
            let read = read_into(stream, &mut nothing, 0, prefix_spare).await?;
            if read == 0 {
                let between = self.prefix_filled == 0;
                return Err(if between { FrameError::Closed } else { FrameError::CutShort });
            }
            self.prefix_filled += read;
            self.last_read_at = clock::monotonic();
            return Ok(());
        };
        let missing = partial.length - partial.bytes.len();
        let wanted = missing.min(SOCKET_READ_BYTES);
        let prefix_spare = if wanted == missing { prefix_spare } else { &mut [] };
        let read = read_into(stream, &mut partial.bytes, wanted, prefix_spare).await?;
        if read == 0 {
            return Err(FrameError::CutShort);
        }
        partial.reservation.grow(read.min(wanted));
        self.prefix_filled += read.saturating_sub(wanted);
        self.last_read_at = clock::monotonic();
        Ok(())
    }

    /// Waits until a half-read request may go on: the budget has room, or it is this connection's
    /// turn to go past it. A turn is lost when the client sends nothing for a while.
    async fn wait_for_budget(&mut self, stream: &TcpStream) -> Result<(), FrameError> {
        let Some(partial) = &mut self.partial else { return Ok(()) };
        while !self.budget.is_available() {
            if partial.turn.is_none() {
                tokio::select! {
                    () = self.budget.available() => return Ok(()),
                    turn = self.budget.completion_turn() => partial.turn = turn,
                }
            }
            match tokio::time::timeout(COMPLETION_TURN_STALL, stream.readable()).await {
                Ok(readable) => return Ok(readable?),
                Err(_stalled) => partial.turn = None,
            }
        }
        Ok(())
    }
}
