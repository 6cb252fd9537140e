//! What is done for a partition from time to time: retention, purging, forgetting producers, going
//! dormant.

use std::sync::Arc;

use protocol::types::{Offset, Timestamp};

use super::handle::{LogStartCause, Shared};
use super::proposer::Phase;
use crate::raft::purge_dormant;

/// When a partition is looked at next.
#[derive(Debug, Default)]
pub(super) struct Maintenance {
    retention_due: Option<Timestamp>,
    /// Bytes of the log when retention was looked at last.
    looked_at_bytes: u64,
    purge_wanted: bool,
}

impl Maintenance {
    /// Settings have changed: retention is due.
    pub(super) fn look_again(&mut self) {
        self.retention_due = None;
    }
}

/// Retention is looked at this often between the checks that configuration asks for, so that a
/// short retention is kept to within seconds: a tenth of it.
const RETENTION_FRACTION: i64 = 10;
const SHORTEST_RETENTION_CHECK_MS: i64 = 1000;

impl Shared {
    /// One round of maintenance. It comes every second for every partition, so it does nothing
    /// beyond a few comparisons unless something is due.
    pub(super) async fn maintain(
        self: &Arc<Self>,
        now: Timestamp,
        retention_check_ms: i64,
        producer_expiration_ms: i64,
    ) {
        if self.is_retention_due(now, retention_check_ms) {
            if let Some((offset, cause)) = self.plan_retention(now)
                && let Err(error) = self.advance_log_start(offset, cause).await
            {
                tracing::debug!(group = self.log.id().0, %error, "retention is put off");
            }
            self.expire_producers(now, producer_expiration_ms);
        }
        if self.maintenance.lock().purge_wanted {
            self.purge().await;
        }
        self.close_if_idle().await;
    }

    fn is_retention_due(&self, now: Timestamp, retention_check_ms: i64) -> bool {
        let mut maintenance = self.maintenance.lock();
        let size_bytes = self.log.size_bytes();
        let due = maintenance.retention_due.is_none_or(|due| now >= due);
        if !due && size_bytes <= maintenance.looked_at_bytes {
            return false;
        }
        let settings = self.settings.lock();
        let too_large = settings
            .retention_bytes
            .is_some_and(|limit| i64::try_from(size_bytes).unwrap_or(i64::MAX) > limit);
        if !due && !too_large {
            return false;
        }
        let interval_ms = settings
            .retention_ms
            .map_or(retention_check_ms, |ms| (ms / RETENTION_FRACTION).min(retention_check_ms))
            .max(SHORTEST_RETENTION_CHECK_MS);
        maintenance.retention_due = Some(Timestamp(now.0.saturating_add(interval_ms)));
        maintenance.looked_at_bytes = size_bytes;
        true
    }

    /// Where the log should start by now, if it should move, and why.
    fn plan_retention(&self, now: Timestamp) -> Option<(Offset, LogStartCause)> {
        let (retention_ms, retention_bytes) = {
            let settings = self.settings.lock();
            (settings.retention_ms, settings.retention_bytes)
        };
        let unlimited = retention_ms.is_none() && retention_bytes.is_none();
        if unlimited || self.log.size_bytes() == 0 || !self.is_leader() {
            return None;
        }
        let upper_bound = self.published.get().high_watermark;
        let plan = |bytes| self.log.plan_retention(now, retention_ms, bytes, upper_bound);
        let planned = plan(retention_bytes).and_then(|offset| {
            let Some(offset) = offset.filter(|at| *at > self.log.offsets().log_start_offset) else {
                return Ok(None);
            };
            let by_time = retention_bytes.is_none() || plan(None)? >= Some(offset);
            let cause = match by_time {
                true => LogStartCause::RetentionTime,
                false => LogStartCause::RetentionSize,
            };
            Ok(Some((offset, cause)))
        });
        planned.unwrap_or_else(|error| {
            tracing::warn!(group = self.log.id().0, %error, "retention cannot be planned");
            None
        })
    }

    /// A dormant partition's producers stay as the index has them, and are judged when it wakes.
    fn expire_producers(&self, now: Timestamp, after_ms: i64) {
        if self.open_group().is_none() {
            return;
        }
        self.proposer.lock().expire_producers(now, after_ms);
        if let Err(error) = self.log.expire_producers(now, after_ms) {
            tracing::debug!(group = self.log.id().0, %error, "producers were not expired");
        }
    }

    /// Lets go of the entries below the log start.
    pub(super) async fn purge(&self) {
        let group = {
            let state = self.proposer.lock();
            match &state.phase {
                Phase::Open(group) => Some(group.clone()),
                Phase::Dormant => {
                    // Under the lock, so that no instance opens meanwhile.
                    if let Err(error) = purge_dormant(&self.log) {
                        tracing::warn!(group = self.log.id().0, %error, "log was not purged");
                    }
                    None
                }
                Phase::Opening | Phase::Closing => {
                    self.maintenance.lock().purge_wanted = true;
                    return;
                }
                Phase::Gone => return,
            }
        };
        self.maintenance.lock().purge_wanted = false;
        if let Some(group) = group {
            group.snapshot().await;
        }
    }
}
