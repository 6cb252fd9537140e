//! `POST /v1/groups/{group}/rewind` and `…/rewind/undo`: a group begins elsewhere, also one that is
//! at work. Where an offset is null, `why` has the reason under its name.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Serialize;

use super::HttpState;
use super::lag::Refused;
use crate::clock;
use crate::rewind::question;
use crate::rewind::service::{self, Outcome, Refusal, Row};

/// A partition before and after.
#[derive(Debug, Serialize)]
pub(super) struct RewoundPartition {
    group: String,
    r#type: &'static str,
    /// The generation of a classic group, the epoch of a KIP-848 one.
    epoch: i32,
    topic: String,
    partition: i32,
    before: Option<i64>,
    after: Option<i64>,
    dry_run: bool,
    warning: Option<String>,
    why: BTreeMap<&'static str, String>,
}

/// Rewinds.
pub(super) async fn rewind(
    State(state): State<HttpState>,
    Path(group): Path<String>,
    body: Bytes,
) -> Result<Json<Vec<RewoundPartition>>, Refused> {
    let question = question::parse(&body, clock::now()).map_err(wrong)?;
    let outcome = service::rewind(&state.services, &group, &question).await;
    answer(&group, question.is_dry_run, outcome)
}

/// Undoes the last rewind.
pub(super) async fn undo(
    State(state): State<HttpState>,
    Path(group): Path<String>,
    body: Bytes,
) -> Result<Json<Vec<RewoundPartition>>, Refused> {
    let is_dry_run = question::parse_undo(&body).map_err(wrong)?;
    let outcome = service::undo(&state.services, &group, is_dry_run).await;
    answer(&group, is_dry_run, outcome)
}

fn wrong(sentence: String) -> Refused {
    Refused(StatusCode::BAD_REQUEST, sentence)
}

fn answer(
    group: &str,
    is_dry_run: bool,
    outcome: Result<Outcome, Refusal>,
) -> Result<Json<Vec<RewoundPartition>>, Refused> {
    let Outcome { group_type, epoch, rows } = outcome.map_err(|refusal| match refusal {
        Refusal::Wrong(sentence) => wrong(sentence),
        Refusal::UnknownGroup(sentence) => Refused(StatusCode::NOT_FOUND, sentence),
        Refusal::NothingToUndo(sentence) => Refused(StatusCode::CONFLICT, sentence),
        Refusal::Elsewhere(sentence) => Refused(StatusCode::MISDIRECTED_REQUEST, sentence),
        Refusal::NotNow(sentence) => Refused(StatusCode::SERVICE_UNAVAILABLE, sentence),
    })?;
    if !is_dry_run {
        tracing::info!(group, epoch, partitions = rows.len(), "group is rewound");
    }
    let partition = |row: Row| {
        let mut why = BTreeMap::new();
        let before = row.before.map_err(|reason| why.insert("before", reason.to_owned()));
        let after = row.after.map_err(|reason| why.insert("after", reason));
        RewoundPartition {
            group: group.to_owned(),
            r#type: group_type.name(),
            epoch,
            topic: row.topic,
            partition: row.partition.0,
            before: before.ok().map(|offset| offset.0),
            after: after.ok().map(|offset| offset.0),
            dry_run: is_dry_run,
            warning: row.warning,
            why,
        }
    };
    Ok(Json(rows.into_iter().map(partition).collect()))
}
