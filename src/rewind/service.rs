//! The rim of rewinding: finds what each partition's target is in its log, asks the group's
//! coordinator, and puts the rows together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster::metadata::MetadataImage;
use cluster::replica::{LogPlaces, LogQuestion};
use futures::StreamExt;
use protocol::error_code::ErrorCode;
use protocol::types::{BrokerId, Offset, PartitionId};

use super::question::{Question, Target};
use crate::context::Services;
use crate::coordinator::group::event::{
    GroupId, GroupReply, GroupRequest, GroupType, OffsetFetch, OffsetFetchReply, Rewind,
    RewindOutcome, RewindPlace, RewindRefusal, RewindReply, RewindTarget, RewindTo, Rewound,
};
use crate::coordinator::group_runtime::OFFSETS_TOPIC;
use crate::coordinator::runtime::CoordinatorError;
use crate::lag::members;
use crate::limits::REWIND_LOOKUPS;

/// What became of a group, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Which protocol the group speaks.
    pub group_type: GroupType,
    /// The generation of a classic group, the epoch of a KIP-848 one: as of the rewind.
    pub epoch: i32,
    /// By topic and number.
    pub rows: Vec<Row>,
}

/// What became of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The topic's name.
    pub topic: String,
    /// The partition.
    pub partition: PartitionId,
    /// What was committed, or why there is nothing to tell.
    pub before: Result<Offset, &'static str>,
    /// What is committed now, or why there is nothing, or nothing was changed.
    pub after: Result<Offset, String>,
    /// What the administrator should know.
    pub warning: Option<String>,
}

/// Why there is no outcome; each with a sentence that needs no other words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// What was asked makes no sense here.
    Wrong(String),
    /// There is no such group.
    UnknownGroup(String),
    /// There is nothing to undo.
    NothingToUndo(String),
    /// Another broker coordinates the group.
    Elsewhere(String),
    /// It may be possible a little later.
    NotNow(String),
}

const NO_OFFSET: &str = "the group had committed no offset here";

/// A partition, and where it is in the cluster.
type Place = (String, PartitionId);

/// What a partition's log says of the target.
#[derive(Debug)]
struct Found {
    place: RewindPlace,
    warning: Option<String>,
}

/// Has a group begin elsewhere.
///
/// # Errors
/// Nothing was changed.
pub async fn rewind(
    services: &Arc<Services>,
    group: &str,
    question: &Question,
) -> Result<Outcome, Refusal> {
    let committed = committed(services, group).await?;
    let places = selected(services, group, question, &committed).await?;
    let found = lookup(services, places, question.target).await;
    let (mut rows, mut asked, mut warnings) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (place, found) in found {
        match found {
            Ok(found) => {
                warnings.insert(place, found.warning);
                asked.push(found.place);
            }
            Err(why) => {
                let before = committed.get(&place).copied().ok_or(NO_OFFSET);
                let (topic, partition) = place;
                rows.push(Row { topic, partition, before, after: Err(why), warning: None });
            }
        }
    }
    let to = RewindTo::Places(asked.clone());
    let reply = ask(services, group, to, question.is_dry_run).await?;
    rows.extend(asked.iter().zip(reply.rows).map(|(place, rewound)| {
        let key = (rewound.topic.clone(), rewound.partition);
        let warning = warnings.remove(&key).flatten();
        row(&rewound, clamped(place, &rewound).or(warning))
    }));
    rows.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    Ok(Outcome { group_type: reply.group_type, epoch: reply.epoch, rows })
}

/// Has a group begin where it stood before the last rewind.
///
/// # Errors
/// Nothing was changed.
pub async fn undo(
    services: &Arc<Services>,
    group: &str,
    is_dry_run: bool,
) -> Result<Outcome, Refusal> {
    let reply = ask(services, group, RewindTo::Before, is_dry_run).await?;
    let image = services.cluster.metadata();
    let image = &*image;
    let rows = reply.rows.into_iter().map(|rewound| async move {
        let warning = deleted_meanwhile(services, image, &rewound).await;
        row(&rewound, warning)
    });
    let rows = futures::stream::iter(rows).buffered(REWIND_LOOKUPS).collect().await;
    Ok(Outcome { group_type: reply.group_type, epoch: reply.epoch, rows })
}

fn row(rewound: &Rewound, warning: Option<String>) -> Row {
    let why = match rewound.outcome {
        RewindOutcome::NothingToShift => "there is no offset to be shifted: nothing was changed",
        _ => "there was none before: the offset is forgotten",
    };
    Row {
        topic: rewound.topic.clone(),
        partition: rewound.partition,
        before: rewound.before.ok_or(NO_OFFSET),
        after: rewound.after.ok_or_else(|| why.to_owned()),
        warning,
    }
}

/// Says so where the nearest offset was taken for one that is not in the log.
fn clamped(place: &RewindPlace, rewound: &Rewound) -> Option<String> {
    if rewound.outcome != RewindOutcome::Clamped {
        return None;
    }
    let wanted = match (place.target, rewound.before) {
        (RewindTarget::Shift(by), Some(before)) => Offset(before.0.saturating_add(by)),
        (RewindTarget::Offset(offset), _) => offset,
        (RewindTarget::Shift(_), None) => return None,
    };
    let (start, end) = (place.log_start_offset, place.end_offset);
    Some(match wanted < start {
        true => format!("{wanted} is before the log start offset {start}, which is taken"),
        false => format!("{wanted} is behind the end offset {end}, which is taken"),
    })
}

/// What is restored may be gone from the log by now.
async fn deleted_meanwhile(
    services: &Services,
    image: &MetadataImage,
    rewound: &Rewound,
) -> Option<String> {
    let (topic, after) = (image.topic(&rewound.topic)?, rewound.after?);
    let question = LogQuestion { topic: topic.id, partition: rewound.partition, time: None };
    let start = services.cluster.look_up(question).await.ok()?.log_start_offset;
    (after < start).then(|| {
        format!(
            "records below {start} are deleted by now: members begin where their \
             auto.offset.reset says"
        )
    })
}

/// What the group has committed.
async fn committed(
    services: &Arc<Services>,
    group: &str,
) -> Result<BTreeMap<Place, Offset>, Refusal> {
    let fetch = OffsetFetch {
        group_id: GroupId::from(group),
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: false,
    };
    let reply = call(services, group, GroupRequest::OffsetFetch(fetch)).await?;
    let GroupReply::OffsetFetch(OffsetFetchReply { error: ErrorCode::None, topics }) = reply else {
        return Err(Refusal::NotNow(format!("group {group}: its offsets cannot be read")));
    };
    let rows = topics.into_iter().flat_map(|topic| {
        let of = topic.partitions.into_iter();
        of.map(move |row| ((topic.topic.clone(), row.partition), row.offset))
    });
    Ok(rows.collect())
}

async fn ask(
    services: &Arc<Services>,
    group: &str,
    to: RewindTo,
    is_dry_run: bool,
) -> Result<RewindReply, Refusal> {
    let request = Rewind { group_id: GroupId::from(group), to, is_dry_run };
    match call(services, group, GroupRequest::Rewind(request)).await? {
        GroupReply::Rewind(reply) => match reply.refusal {
            None => Ok(reply),
            Some(RewindRefusal::UnknownGroup) => Err(unknown_group(group)),
            Some(RewindRefusal::NothingToUndo) => {
                let sentence = format!("group {group}: there is no rewind to be undone");
                Err(Refusal::NothingToUndo(sentence))
            }
        },
        _ => Err(Refusal::NotNow(format!("group {group}: its coordinator gave no answer"))),
    }
}

fn unknown_group(group: &str) -> Refusal {
    Refusal::UnknownGroup(format!("group {group}: the group does not exist"))
}

async fn call(
    services: &Arc<Services>,
    group: &str,
    request: GroupRequest,
) -> Result<GroupReply, Refusal> {
    // Without the topic there is no group.
    let Some(partition) = services.groups.partition_for(group) else {
        return Err(unknown_group(group));
    };
    services.groups.call(group, request).await.map_err(|error| match error {
        CoordinatorError::NotCoordinator => elsewhere(services, group, partition),
        CoordinatorError::Loading | CoordinatorError::Busy | CoordinatorError::Unavailable => {
            Refusal::NotNow(format!("group {group}: {error}, try again in a moment"))
        }
    })
}

fn elsewhere(services: &Services, group: &str, partition: PartitionId) -> Refusal {
    let image = services.cluster.metadata();
    let leader = image.topic(OFFSETS_TOPIC).and_then(|topic| {
        services.cluster.leadership(topic.id, topic.partition(partition)?).leader
    });
    match leader.filter(|leader| *leader != services.config.node_id) {
        Some(leader) => Refusal::Elsewhere(format!(
            "group {group}: its coordinator is broker {leader}{}, ask that one's \
             highwater.http.listener",
            host_of(&image, leader)
        )),
        None => Refusal::NotNow(format!("group {group}: it has no coordinator at the moment")),
    }
}

/// Where the broker's clients reach it, for a person who has to find its other port.
fn host_of(image: &MetadataImage, broker: BrokerId) -> String {
    let endpoints = image.brokers.get(&broker).map(|broker| broker.endpoints.as_slice());
    let host = endpoints.and_then(|all| all.iter().find(|endpoint| !endpoint.host.is_empty()));
    host.map(|endpoint| format!(" on {}", endpoint.host)).unwrap_or_default()
}

/// The partitions that are meant: those that were named, or else those that the group has an offset
/// of or whose records its members are given.
async fn selected(
    services: &Arc<Services>,
    group: &str,
    question: &Question,
    committed: &BTreeMap<Place, Offset>,
) -> Result<BTreeSet<Place>, Refusal> {
    if question.topics.is_empty() {
        let owned = members::describe(services, group).await.map(|known| known.owners);
        let owned = owned.unwrap_or_default().into_keys();
        let owned = owned.map(|(topic, partition)| (topic, PartitionId(partition)));
        return Ok(committed.keys().cloned().chain(owned).collect());
    }
    let image = services.cluster.metadata();
    let mut places = BTreeSet::new();
    for selected in &question.topics {
        let name = &selected.topic;
        let topic = image
            .topic(name)
            .ok_or_else(|| Refusal::Wrong(format!("topics={name}: there is no such topic")))?;
        let all: BTreeSet<i32> = topic.partitions.iter().map(|of| of.id.0).collect();
        let wanted = selected.partitions.as_ref().unwrap_or(&all);
        if let Some(unknown) = wanted.difference(&all).next() {
            let last = all.last().copied().unwrap_or_default();
            return Err(Refusal::Wrong(format!(
                "topics={name}:{unknown}: the partitions of {name} are 0 to {last}"
            )));
        }
        places.extend(wanted.iter().map(|partition| (name.clone(), PartitionId(*partition))));
    }
    Ok(places)
}

/// Asks the partitions' leaders, some at a time.
async fn lookup(
    services: &Services,
    places: BTreeSet<Place>,
    target: Target,
) -> Vec<(Place, Result<Found, String>)> {
    let image = services.cluster.metadata();
    let image = &*image;
    let found = places.into_iter().map(|place| async move {
        let found = find(services, image, &place, target).await;
        (place, found)
    });
    futures::stream::iter(found).buffered(REWIND_LOOKUPS).collect().await
}

async fn find(
    services: &Services,
    image: &MetadataImage,
    (name, partition): &Place,
    target: Target,
) -> Result<Found, String> {
    let topic = image.topic(name).ok_or("the topic does not exist")?;
    topic.partition(*partition).ok_or("the topic has no such partition")?;
    let time = match target {
        Target::Time(at) => Some(at),
        _ => None,
    };
    let question = LogQuestion { topic: topic.id, partition: *partition, time };
    let places = services.cluster.look_up(question).await.map_err(|error| error.to_string())?;
    let LogPlaces { log_start_offset: start, high_watermark: end, found } = places;
    let (target, warning) = match target {
        Target::Earliest => (RewindTarget::Offset(start), None),
        Target::Latest => (RewindTarget::Offset(end), None),
        Target::Offset(offset) => (RewindTarget::Offset(Offset(offset)), None),
        Target::Shift(by) => (RewindTarget::Shift(by), None),
        Target::Time(_) => {
            let nothing = || format!("no record is of that time or later: the end {end} is taken");
            (RewindTarget::Offset(found.unwrap_or(end)), found.is_none().then(nothing))
        }
    };
    let place = RewindPlace {
        topic: name.clone(),
        topic_id: topic.id,
        partition: *partition,
        target,
        log_start_offset: start,
        end_offset: end,
    };
    Ok(Found { place, warning })
}
