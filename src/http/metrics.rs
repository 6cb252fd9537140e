//! `/metrics`, in Prometheus' text format.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::HttpState;
use crate::telemetry::{ScrapedValues, set_scraped};

/// Every metric of the broker.
pub async fn metrics(State(state): State<HttpState>) -> impl IntoResponse {
    let image = state.services.cluster.metadata();
    set_scraped(&ScrapedValues {
        request_bytes_in_flight: state.budget.in_flight_bytes(),
        topics: image.topics.len(),
        partitions: image.topics.values().map(|topic| topic.partitions.len()).sum(),
        ready: state.readiness.check(&state.services).is_ok(),
        fetch_sessions: state.services.fetch_sessions.lock().session_count(),
        store: state.readiness.store_stats(),
    });
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], state.metrics.render())
}
