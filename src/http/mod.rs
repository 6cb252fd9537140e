//! HTTP beside the Kafka protocol: metrics for Prometheus, health for whoever starts and watches
//! the broker, consumer lag as JSON, and the rewinding of groups.

mod health;
mod lag;
mod metrics;
mod rewind;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::context::Services;
use crate::net::budget::InFlightBudget;
use crate::readiness::Readiness;

/// What the pages are made of.
#[derive(Clone)]
pub struct HttpState {
    /// Renders the metrics.
    pub metrics: PrometheusHandle,
    /// For what is looked up at a scrape.
    pub services: Arc<Services>,
    /// For what is looked up at a scrape.
    pub budget: Arc<InFlightBudget>,
    /// Whether a produce would succeed.
    pub readiness: Readiness,
}

/// Binds `address` (`host:port`).
///
/// # Errors
/// A sentence with the address and what the system says.
pub async fn bind(address: &str) -> Result<TcpListener, String> {
    let failed =
        |error: io::Error| format!("highwater.http.listener cannot be bound to {address}: {error}");
    TcpListener::bind(address).await.map_err(failed)
}

/// Serves until `shutdown`.
pub async fn run_http(listener: TcpListener, state: HttpState, shutdown: CancellationToken) {
    let router = Router::new()
        .route("/metrics", get(metrics::metrics))
        .route("/health/live", get(health::live))
        .route("/health/ready", get(health::ready))
        .route("/v1/groups", get(lag::groups))
        .route("/v1/groups/{group}/lag", get(lag::lag))
        .route("/v1/groups/{group}/rewind", post(rewind::rewind))
        .route("/v1/groups/{group}/rewind/undo", post(rewind::undo))
        .with_state(state);
    let address = listener.local_addr().unwrap_or_else(|_| SocketAddr::from(([0; 4], 0)));
    tracing::info!(%address, "serving metrics, health and lag over HTTP");
    let server = axum::serve(listener, router);
    // Scrapes in flight are not waited for: nobody's data depends on them.
    tokio::select! {
        served = server => {
            if let Err(error) = served {
                tracing::error!(%error, "HTTP ended");
            }
        }
        () = shutdown.cancelled() => {}
    }
}
