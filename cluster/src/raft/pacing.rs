//! How entries wait for their turn on the way to a node that is to be caught up at a rate.
//!
//! Heartbeats never wait: they have no entries, and a client of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;

use super::group::Clock;
use crate::limits::THROTTLE_LOOK_AGAIN;

/// What decides on the rate.
pub(crate) trait Pacing: Send + Sync + 'static {
    /// How long what goes to a node has to wait; `None` where it is not to be slowed.
    fn pause(&self, node_id: u64) -> Option<Duration>;
    /// So many bytes go to a node that is slowed.
    fn on_sent(&self, bytes: u64);
    /// Changes with the rates: what a node has asked for by others counts no more.
    fn rates_version(&self) -> u64;
    /// So many bytes have come from a leader that slows this node; how long it is to pause.
    fn on_received(&self, bytes: u64) -> Duration;
}

/// What is sent to one node.
pub(super) struct Turn {
    pacing: Option<Arc<dyn Pacing>>,
    node_id: u64,
    clock: Clock,
    /// As the node has asked for: until when by `clock`, and by which version of the rates.
    asked: Mutex<(u64, u64)>,
    /// Entries have gone out slowly, so the next ones are not even read before it is their turn.
    has_slowed: AtomicBool,
}

impl Turn {
    pub(super) fn new(pacing: Option<Arc<dyn Pacing>>, node_id: u64) -> Arc<Turn> {
        Arc::new(Turn {
            pacing,
            node_id,
            clock: Clock::start(),
            asked: Mutex::default(),
            has_slowed: AtomicBool::new(false),
        })
    }

    fn pause(&self) -> Option<Duration> {
        let pacing = self.pacing.as_ref()?;
        let pause = pacing.pause(self.node_id)?;
        let (until_ms, version) = *self.asked.lock();
        if version != pacing.rates_version() {
            return Some(pause);
        }
        Some(pause.max(Duration::from_millis(until_ms.saturating_sub(self.clock.elapsed_ms()))))
    }

    /// Waits until something may go out; whether it is slowed. Looks again from time to time: the
    /// node may be in sync by then, or the rate another one.
    pub(super) async fn wait(&self) -> bool {
        loop {
            match self.pause() {
                None => return false,
                Some(Duration::ZERO) => return true,
                Some(pause) => tokio::time::sleep(pause.min(THROTTLE_LOOK_AGAIN)).await,
            }
        }
    }

    pub(super) fn on_sent(&self, bytes: u64) {
        self.has_slowed.store(true, Ordering::Relaxed);
        if let Some(pacing) = &self.pacing {
            pacing.on_sent(bytes);
        }
    }

    /// The node has asked to be sent nothing for a while.
    pub(super) fn on_pause_asked(&self, pause: Duration) {
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
        let until_ms = self.clock.elapsed_ms().saturating_add(pause_ms);
        let version = self.pacing.as_ref().map_or(0, |pacing| pacing.rates_version());
        *self.asked.lock() = (until_ms, version);
    }

    /// The same stream, from which nothing is taken while it could not go out.
    pub(super) fn hold_back<S>(self: Arc<Self>, input: S) -> impl Stream<Item = S::Item> + Send
    where
        S: Stream + Send + Unpin,
    {
        stream::unfold((self, input), |(turn, mut input)| async move {
            if turn.has_slowed.load(Ordering::Relaxed) {
                turn.wait().await;
            }
            let item = input.next().await?;
            Some((item, (turn, input)))
        })
    }
}
