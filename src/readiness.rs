//! Whether a produce would succeed now: what `/health/ready` answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use storage::StorageError;
use storage::log_store::{LogStore, StoreStats};

use crate::context::Services;

/// Shared by whoever starts and stops the broker, and whoever asks.
#[derive(Clone)]
pub struct Readiness {
    serving: Arc<AtomicBool>,
    store: LogStore,
}

impl Readiness {
    /// Not ready until [`set_serving`](Self::set_serving).
    #[must_use]
    pub fn new(store: LogStore) -> Readiness {
        Readiness { serving: Arc::default(), store }
    }

    /// The listeners are open, or no longer.
    pub fn set_serving(&self, serving: bool) {
        self.serving.store(serving, Ordering::Release);
    }

    /// What the store has counted.
    #[must_use]
    pub fn store_stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// Whether a produce would succeed.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self, services: &Services) -> Result<(), String> {
        if !self.serving.load(Ordering::Acquire) {
            return Err("the broker is starting or shutting down".to_owned());
        }
        // Looks at the disk again while it is full: without appends nobody else does.
        match self.store.check_space() {
            Ok(()) => {}
            Err(StorageError::NoSpace(_)) => return Err("the disk is full".to_owned()),
            Err(error) => return Err(format!("the store has stopped: {error}")),
        }
        if services.cluster.controller().is_none() {
            return Err("the metadata log has no leader".to_owned());
        }
        Ok(())
    }
}
