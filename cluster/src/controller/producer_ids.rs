//! This broker's block of producer ids: handed out one by one, fetched again when used up.

use std::ops::Range;

/// The ids that were fetched and not yet handed out. Ids of a block that a restart forgets are
/// never used.
#[derive(Debug, Default)]
pub(crate) struct ProducerIdBlock {
    left: Range<i64>,
}

impl ProducerIdBlock {
    pub(crate) fn new(first: i64, count: i64) -> Self {
        ProducerIdBlock { left: first..first.saturating_add(count) }
    }

    pub(crate) fn take(&mut self) -> Option<i64> {
        self.left.next()
    }
}
