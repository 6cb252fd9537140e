//! `/metrics`, in Prometheus' text format.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;

use super::HttpState;
use crate::context::Services;
use crate::handlers::common::isolation::IsolationLevel;
use crate::telemetry::lag::LagExposition;
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
    let services = Arc::clone(&state.services);
    // Off the async workers, because a record may have to be read from the disk.
    let lag = tokio::task::spawn_blocking(move || lag_series(&services)).await;
    let text = state.metrics.render() + &lag.unwrap_or_default();
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

fn lag_series(services: &Services) -> String {
    let mut exposition = LagExposition::new(services.config.lag_max_series);
    for group in services.lag.groups() {
        exposition.group(&group, &services.lag.rows(&group, IsolationLevel::ReadUncommitted));
    }
    exposition.finish(services.lag.watched())
}
