//! `/v1/groups` and `/v1/groups/{group}/lag`: consumer lag as JSON. A figure that is not known is
//! null, and `why` has the reason under its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

use super::HttpState;
use crate::context::Services;
use crate::handlers::common::isolation::IsolationLevel;
use crate::lag::Known;
use crate::lag::ledger::Loss;
use crate::lag::members::{self, GroupMembers, ListedGroups};
use crate::lag::service::LagRow;

/// Why a figure is null, by its name.
type Why = BTreeMap<&'static str, &'static str>;

/// A group on a partition.
#[derive(Debug, Serialize)]
pub(super) struct PartitionLag {
    group: String,
    topic: String,
    partition: i32,
    committed_offset: Option<i64>,
    end_offset: Option<i64>,
    lag_records: Option<u64>,
    lag_seconds: Option<f64>,
    drain_seconds: Option<f64>,
    time_to_loss_seconds: Option<f64>,
    status: Option<&'static str>,
    lost_records: u64,
    member: Option<String>,
    log_start_offset: Option<i64>,
    committed_at_ms: Option<i64>,
    commit_rate: Option<f64>,
    produce_rate: Option<f64>,
    lost: Vec<LostRange>,
    why: Why,
}

/// Records that were deleted unread.
#[derive(Debug, Serialize)]
struct LostRange {
    from_offset: i64,
    to_offset: i64,
    at_ms: i64,
    cause: &'static str,
}

/// A group as a whole: sums of records, the least time to loss, the largest of everything else.
#[derive(Debug, Serialize)]
pub(super) struct GroupLag {
    group: String,
    state: Option<&'static str>,
    r#type: Option<&'static str>,
    protocol_type: Option<String>,
    partitions: usize,
    lag_records: Option<u64>,
    lag_seconds: Option<f64>,
    drain_seconds: Option<f64>,
    time_to_loss_seconds: Option<f64>,
    status: Option<&'static str>,
    lost_records: u64,
    why: Why,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct Refused(pub(super) StatusCode, pub(super) String);

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Refused(status, error) = self;
        (status, Json(BTreeMap::from([("error", error)]))).into_response()
    }
}

/// `?isolation_level=read_committed` counts lag to the last stable offset.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Asked {
    isolation_level: Option<String>,
}

impl Asked {
    fn isolation(&self) -> Result<IsolationLevel, Refused> {
        match self.isolation_level.as_deref() {
            None | Some("read_uncommitted") => Ok(IsolationLevel::ReadUncommitted),
            Some("read_committed") => Ok(IsolationLevel::ReadCommitted),
            Some(other) => Err(Refused(
                StatusCode::BAD_REQUEST,
                format!("isolation_level={other}: allowed is read_uncommitted or read_committed"),
            )),
        }
    }
}

/// All groups.
pub(super) async fn groups(
    State(state): State<HttpState>,
    Query(asked): Query<Asked>,
) -> Result<Json<Vec<GroupLag>>, Refused> {
    let isolation = asked.isolation()?;
    let services = state.services;
    let listed = members::list(&services).await;
    let names: BTreeSet<String> = listed
        .keys()
        .cloned()
        .chain(services.lag.groups().iter().map(|name| name.to_string()))
        .collect();
    let rows = evaluate(&services, names, isolation).await?;
    Ok(Json(all_groups(&listed, &rows)))
}

/// Off the async workers, because a record may have to be read from the disk.
async fn evaluate(
    services: &Arc<Services>,
    names: BTreeSet<String>,
    isolation: IsolationLevel,
) -> Result<Vec<(String, Vec<LagRow>)>, Refused> {
    let services = Arc::clone(services);
    let rows = move || {
        let rows = |name: String| {
            let rows = services.lag.rows(&name, isolation);
            (name, rows)
        };
        names.into_iter().map(rows).collect()
    };
    tokio::task::spawn_blocking(rows)
        .await
        .map_err(|error| Refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}

fn all_groups(listed: &ListedGroups, groups: &[(String, Vec<LagRow>)]) -> Vec<GroupLag> {
    let group_lag = |(name, rows): &(String, Vec<LagRow>)| {
        let known = listed.get(name);
        let mut why = Why::new();
        GroupLag {
            group: name.clone(),
            state: known.map(|group| group.state.name()),
            r#type: known.map(|group| group.group_type.name()),
            protocol_type: known.map(|group| group.protocol_type.clone()),
            partitions: rows.len(),
            lag_records: combined(
                rows,
                "lag_records",
                |r| r.figures.lag_records,
                &mut why,
                |a, b| a.saturating_add(b),
            ),
            lag_seconds: combined(
                rows,
                "lag_seconds",
                |row| row.figures.lag_seconds,
                &mut why,
                f64::max,
            ),
            drain_seconds: combined(
                rows,
                "drain_seconds",
                |row| row.figures.drain_seconds,
                &mut why,
                f64::max,
            ),
            time_to_loss_seconds: combined(
                rows,
                "time_to_loss_seconds",
                |row| row.figures.time_to_loss_seconds,
                &mut why,
                f64::min,
            ),
            status: combined(rows, "status", |row| row.figures.status, &mut why, Ord::max)
                .map(|status| status.name()),
            lost_records: rows.iter().map(|row| row.figures.lost_records).sum(),
            why,
        }
    };
    groups.iter().map(group_lag).collect()
}

/// A figure of all rows that have it; else the reason of the first.
fn combined<T>(
    rows: &[LagRow],
    name: &'static str,
    figure: impl Fn(&LagRow) -> Known<T>,
    why: &mut Why,
    combine: impl Fn(T, T) -> T,
) -> Option<T> {
    let known = rows.iter().filter_map(|row| figure(row).ok()).reduce(combine);
    if known.is_none() {
        let reason = rows.first().and_then(|row| figure(row).err());
        why.insert(name, reason.unwrap_or("the group has committed no offset"));
    }
    known
}

/// One group, an object for each partition that it has committed an offset of or that a member
/// owns.
pub(super) async fn lag(
    State(state): State<HttpState>,
    Path(group): Path<String>,
    Query(asked): Query<Asked>,
) -> Result<Json<Vec<PartitionLag>>, Refused> {
    let isolation = asked.isolation()?;
    let services = state.services;
    let members = members::describe(&services, &group).await;
    let mut groups = evaluate(&services, BTreeSet::from([group.clone()]), isolation).await?;
    let rows = groups.pop().map(|(_, rows)| rows).unwrap_or_default();
    match members {
        Err(why) if rows.is_empty() => {
            Err(Refused(StatusCode::NOT_FOUND, format!("group {group}: {why}")))
        }
        members => Ok(Json(partitions(&group, rows, members))),
    }
}

fn partitions(group: &str, rows: Vec<LagRow>, members: Known<GroupMembers>) -> Vec<PartitionLag> {
    let mut owners = members.as_ref().map(|known| known.owners.clone()).unwrap_or_default();
    let no_owner = members.map_or_else(|why| why, |known| known.no_owner);
    let mut all: Vec<PartitionLag> = rows
        .into_iter()
        .map(|row| {
            let owner = owners.remove(&(row.topic.to_string(), row.partition.0));
            partition_lag(group, row, owner.ok_or(no_owner))
        })
        .collect();
    all.extend(
        owners
            .into_iter()
            .map(|((topic, partition), member)| without_offset(group, topic, partition, member)),
    );
    all.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    all
}

fn partition_lag(group: &str, row: LagRow, member: Known<String>) -> PartitionLag {
    let figures = row.figures;
    let mut why = Why::new();
    PartitionLag {
        group: group.to_owned(),
        topic: row.topic.to_string(),
        partition: row.partition.0,
        committed_offset: Some(figures.commit.offset.0),
        end_offset: noted(&mut why, "end_offset", figures.end_offset.map(|offset| offset.0)),
        lag_records: noted(&mut why, "lag_records", figures.lag_records),
        lag_seconds: noted(&mut why, "lag_seconds", figures.lag_seconds),
        drain_seconds: noted(&mut why, "drain_seconds", figures.drain_seconds),
        time_to_loss_seconds: noted(&mut why, "time_to_loss_seconds", figures.time_to_loss_seconds),
        status: noted(&mut why, "status", figures.status.map(|status| status.name())),
        lost_records: figures.lost_records,
        member: noted(&mut why, "member", member),
        log_start_offset: noted(
            &mut why,
            "log_start_offset",
            figures.log_start_offset.map(|offset| offset.0),
        ),
        committed_at_ms: Some(figures.commit.at.0),
        commit_rate: noted(&mut why, "commit_rate", figures.commit_rate),
        produce_rate: noted(&mut why, "produce_rate", figures.produce_rate),
        lost: figures.lost.iter().map(lost_range).collect(),
        why,
    }
}

/// A partition that a member owns and that the group has no offset of.
fn without_offset(group: &str, topic: String, partition: i32, member: String) -> PartitionLag {
    let unknown = [
        "committed_offset",
        "end_offset",
        "lag_records",
        "lag_seconds",
        "drain_seconds",
        "time_to_loss_seconds",
        "status",
        "log_start_offset",
        "committed_at_ms",
        "commit_rate",
        "produce_rate",
    ];
    PartitionLag {
        group: group.to_owned(),
        topic,
        partition,
        committed_offset: None,
        end_offset: None,
        lag_records: None,
        lag_seconds: None,
        drain_seconds: None,
        time_to_loss_seconds: None,
        status: None,
        lost_records: 0,
        member: Some(member),
        log_start_offset: None,
        committed_at_ms: None,
        commit_rate: None,
        produce_rate: None,
        lost: Vec::new(),
        why: unknown.map(|name| (name, "the group has committed no offset here")).into(),
    }
}

fn noted<T>(why: &mut Why, name: &'static str, figure: Known<T>) -> Option<T> {
    figure.map_err(|reason| why.insert(name, reason)).ok()
}

fn lost_range(loss: &Loss) -> LostRange {
    LostRange {
        from_offset: loss.from.0,
        to_offset: loss.to.0,
        at_ms: loss.at.0,
        cause: loss.cause.name(),
    }
}
