//! `/health/live` and `/health/ready`, for healthchecks and load balancers.

use axum::extract::State;
use axum::http::StatusCode;

use super::HttpState;

/// The process runs.
pub async fn live() -> &'static str {
    "live\n"
}

/// A produce would succeed; else 503 and why not.
pub async fn ready(State(state): State<HttpState>) -> (StatusCode, String) {
    match state.readiness.check(&state.services) {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
    }
}
