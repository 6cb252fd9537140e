//! An append's ticket: one slot that the proposer fills in two steps, written and committed, and
//! that whoever waits polls for the step it wants.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::handle::Appended;
use crate::AppendError;

type Outcome = Result<Appended, AppendError>;

/// The step that a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Step {
    #[default]
    Written,
    Committed,
}

#[derive(Debug, Default)]
struct Slot {
    outcome: Option<(Step, Outcome)>,
    waiter: Option<(Step, Waker)>,
}

/// The slot of one append.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    slot: Mutex<Slot>,
}

impl Ticket {
    pub(super) fn written(&self, appended: Appended) {
        self.resolve(Step::Written, Ok(appended));
    }

    pub(super) fn committed(&self, appended: Appended) {
        self.resolve(Step::Committed, Ok(appended));
    }

    pub(super) fn failed(&self, error: AppendError) {
        self.resolve(Step::Committed, Err(error));
    }

    /// The first failure and the furthest step stay.
    fn resolve(&self, step: Step, outcome: Outcome) {
        let waker = {
            let mut slot = self.slot.lock();
            let decided = slot
                .outcome
                .as_ref()
                .is_some_and(|(known, outcome)| *known >= step || outcome.is_err());
            if decided {
                return;
            }
            slot.outcome = Some((step, outcome));
            slot.waiter.take_if(|(wanted, _)| *wanted <= step)
        };
        if let Some((_, waker)) = waker {
            waker.wake();
        }
    }
}

/// An append that was queued; its place in the order is fixed.
#[must_use = "an append is answered through its ticket"]
#[derive(Debug)]
pub struct AppendTicket {
    pub(super) ticket: Arc<Ticket>,
}

impl AppendTicket {
    /// Resolves when the leader has written it (acks=1).
    pub async fn written(self) -> Result<Appended, AppendError> {
        Wait { ticket: self.ticket, step: Step::Written }.await
    }

    /// Resolves when it is committed: synced on a majority (acks=all).
    pub async fn committed(self) -> Result<Appended, AppendError> {
        Wait { ticket: self.ticket, step: Step::Committed }.await
    }
}

struct Wait {
    ticket: Arc<Ticket>,
    step: Step,
}

impl Future for Wait {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut slot = self.ticket.slot.lock();
        if let Some((step, outcome)) = &slot.outcome
            && (*step >= self.step || outcome.is_err())
        {
            return Poll::Ready(outcome.clone());
        }
        slot.waiter = Some((self.step, context.waker().clone()));
        Poll::Pending
    }
}
