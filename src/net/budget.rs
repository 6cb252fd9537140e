//! Bytes of requests in flight, bounded for the broker as a whole: once the budget is spent, the
//! sockets are no longer read.
//!
//! A request is charged as its bytes arrive, not when its length is announced, so that an announced
//! length followed by silence holds nothing. The price is that many half-read requests may spend
//! the budget together while none is whole and can be answered; one of them at a time is therefore
//! let past the spent budget ([`InFlightBudget::completion_turn`]). A single request larger than
//! the whole budget passes the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The broker's budget; connections share it.
#[derive(Debug)]
pub struct InFlightBudget {
    limit_bytes: i64,
    /// May go below zero by what one read per connection takes, see
    /// [`SOCKET_READ_BYTES`](crate::limits::SOCKET_READ_BYTES).
    available_bytes: AtomicI64,
    returned: Notify,
    completion: Arc<Semaphore>,
}

/// The right to read on although the budget is spent.
#[derive(Debug)]
pub struct CompletionTurn {
    _permit: OwnedSemaphorePermit,
}

/// What one request holds of the budget; given back when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<InFlightBudget>,
    bytes: usize,
}

impl InFlightBudget {
    /// A budget of `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Arc<InFlightBudget> {
        let limit_bytes = i64::try_from(limit_bytes).unwrap_or(i64::MAX).max(1);
        Arc::new(InFlightBudget {
            limit_bytes,
            available_bytes: AtomicI64::new(limit_bytes),
            returned: Notify::new(),
            completion: Arc::new(Semaphore::new(1)),
        })
    }

    /// An empty reservation, to be grown as bytes arrive.
    #[must_use]
    pub fn reservation(self: &Arc<Self>) -> Reservation {
        Reservation { budget: Arc::clone(self), bytes: 0 }
    }

    /// Whether more may be read.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.available_bytes.load(Ordering::Acquire) > 0
    }

    /// Bytes held by requests now.
    #[must_use]
    pub fn in_flight_bytes(&self) -> i64 {
        self.limit_bytes - self.available_bytes.load(Ordering::Acquire)
    }

    /// Resolves once [`is_available`](Self::is_available).
    pub async fn available(&self) {
        let mut returned = std::pin::pin!(self.returned.notified());
        loop {
            // Registered before the look, so that what is given back in between is not missed.
            returned.as_mut().enable();
            if self.is_available() {
                return;
            }
            returned.as_mut().await;
            returned.set(self.returned.notified());
        }
    }

    /// Resolves when this connection may complete its half-read request past the spent budget:
    /// one at a time, in the order of asking.
    pub async fn completion_turn(&self) -> Option<CompletionTurn> {
        let permit = Arc::clone(&self.completion).acquire_owned().await.ok()?;
        Some(CompletionTurn { _permit: permit })
    }

    fn give_back(&self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let before = self.available_bytes.fetch_add(bytes, Ordering::AcqRel);
        if before <= 0 && before + bytes > 0 {
            self.returned.notify_waiters();
        }
    }
}

impl Reservation {
    /// Charges `bytes` that have arrived.
    pub fn grow(&mut self, bytes: usize) {
        let charged = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.budget.available_bytes.fetch_sub(charged, Ordering::AcqRel);
        self.bytes += bytes;
    }

    /// What is held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_spent_budget_is_available_again_once_a_reservation_is_dropped() {
        let budget = InFlightBudget::new(100);
        let mut reservation = budget.reservation();
        reservation.grow(100);
        assert!(!budget.is_available());
        assert!(budget.available().now_or_never().is_none());
        drop(reservation);
        assert!(budget.available().now_or_never().is_some());
        assert_eq!(budget.in_flight_bytes(), 0);
    }

    #[test]
    fn a_waiter_wakes_when_bytes_are_given_back() {
        let budget = InFlightBudget::new(10);
        let mut reservation = budget.reservation();
        reservation.grow(25);
        let mut waiting = Box::pin(budget.available());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(reservation);
        assert!(waiting.as_mut().now_or_never().is_some());
    }

    #[test]
    fn only_one_connection_at_a_time_completes_past_the_budget() {
        let budget = InFlightBudget::new(1);
        let first = budget.completion_turn().now_or_never().flatten();
        assert!(first.is_some());
        assert!(budget.completion_turn().now_or_never().is_none());
        drop(first);
        assert!(budget.completion_turn().now_or_never().flatten().is_some());
    }
}
