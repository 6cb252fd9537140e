//! DeleteTopics: deletes topics; once answered, the name is free for another one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cluster::ClusterError;
use cluster::metadata::{MetadataCommand, MetadataImage};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{ApiKey, DeleteTopicsRequest, DeleteTopicsResponse};
use protocol::api::ApiSpec;
use protocol::error_code::ErrorCode;
use protocol::types::TopicId;
use uuid::Uuid;

use super::Reply;
use super::common::wire::{Refusal, code_of, message_of, reply, topic_name};
use crate::context::{RequestContext, Services};

/// Versions:
/// - 1: throttle time
/// - 2: throttling does not delay the answer (KIP-219)
/// - 3: TOPIC_DELETION_DISABLED
/// - 4: flexible
/// - 5: error messages; may be refused by a quota on changes (KIP-599)
/// - 6: by id (KIP-516)
pub const SPEC: ApiSpec = ApiSpec::new(ApiKey::DeleteTopics, 1..=6);

/// First version that knows of deletion being disabled.
const DISABLED_VERSION: i16 = 3;
/// First version that names topics by their ids.
const IDS_VERSION: i16 = 6;

/// A topic to be deleted, as it is found.
struct Found {
    name: Option<String>,
    id: Uuid,
    by_name: bool,
    result: Result<(), Refusal>,
}

/// Deletes all topics at once, each by itself.
pub async fn handle(
    services: &Arc<Services>,
    context: &RequestContext,
    request: DeleteTopicsRequest,
) -> Reply {
    let by_name = |name| DeleteTopicState::default().with_name(Some(name));
    let wanted = match context.api_version {
        IDS_VERSION.. => request.topics,
        _ => request.topic_names.into_iter().map(by_name).collect(),
    };
    let found = find(&services.cluster.metadata(), &wanted);
    let is_enabled = services.config.delete_topic_enable;
    let version = context.api_version;
    let rows = found.into_iter().map(|mut found| async move {
        if !is_enabled {
            found.result = Err(disabled(version));
        }
        if found.result.is_ok() {
            found.result = delete(services, &found).await;
        }
        row(&found, version)
    });
    let responses = futures::future::join_all(rows).await;
    reply(DeleteTopicsResponse::default().with_responses(responses))
}

async fn delete(services: &Services, found: &Found) -> Result<(), Refusal> {
    let command = MetadataCommand::DeleteTopic { id: TopicId(found.id) };
    match services.cluster.submit(command).await {
        Ok(_) => Ok(()),
        // Somebody else was faster.
        Err(ClusterError::UnknownTopicId(_)) if found.by_name => Err(unknown_name()),
        Err(error) => Err(error.into()),
    }
}

fn unknown_name() -> Refusal {
    let message = "This server does not host this topic.";
    Refusal::new(ErrorCode::UnknownTopicOrPartition, message)
}

fn disabled(api_version: i16) -> Refusal {
    let code = if api_version < DISABLED_VERSION {
        ErrorCode::InvalidRequest
    } else {
        ErrorCode::TopicDeletionDisabled
    };
    Refusal::new(code, "delete.topic.enable is false.")
}

fn row(found: &Found, api_version: i16) -> DeletableTopicResult {
    // Before ids there was no null for a name.
    let absent = if api_version >= IDS_VERSION { None } else { Some(topic_name("")) };
    DeletableTopicResult::default()
        .with_name(found.name.as_deref().map(topic_name).or(absent))
        .with_topic_id(found.id)
        .with_error_code(code_of(&found.result))
        .with_error_message(message_of(&found.result))
}

/// Looks all of them up, as `ControllerApis.deleteTopics` does: what is named twice in the same
/// words is refused in these, once.
fn find(image: &MetadataImage, wanted: &[DeleteTopicState]) -> Vec<Found> {
    let mut times: HashMap<_, usize> = HashMap::new();
    for topic in wanted {
        *times.entry((&topic.name, topic.topic_id)).or_default() += 1;
    }
    let mut found = Vec::new();
    for topic in wanted {
        let is_named_once = topic.name.is_none() != topic.topic_id.is_nil();
        match times.get_mut(&(&topic.name, topic.topic_id)) {
            Some(times) if is_named_once && *times != 1 => {
                if std::mem::take(times) > 1 {
                    found.push(repeated(topic));
                }
            }
            _ => found.push(find_one(image, topic)),
        }
    }
    without_aliases(found)
}

fn repeated(wanted: &DeleteTopicState) -> Found {
    let message = "Duplicate topic name or id.";
    Found {
        name: wanted.name.as_ref().map(|name| name.0.to_string()),
        id: wanted.topic_id,
        by_name: wanted.name.is_some(),
        result: Err(Refusal::new(ErrorCode::InvalidRequest, message)),
    }
}

/// A topic that is named once by its name and once by its id is refused, once.
fn without_aliases(mut found: Vec<Found>) -> Vec<Found> {
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for topic in &found {
        if topic.name.is_some() && !seen.insert(topic.name.clone()) {
            twice.insert(topic.name.clone());
        }
    }
    for topic in found.iter_mut().filter(|topic| twice.contains(&topic.name)) {
        let message = "The topic is named by its name and by its id.";
        topic.result = Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    let mut answered = BTreeSet::new();
    found.retain(|topic| !twice.contains(&topic.name) || answered.insert(topic.name.clone()));
    found
}

fn find_one(image: &MetadataImage, wanted: &DeleteTopicState) -> Found {
    let name = wanted.name.as_ref().map(|name| name.0.to_string());
    let by_name = name.is_some();
    let topic = match (&name, wanted.topic_id.is_nil()) {
        (Some(_), false) => {
            let message = "A topic is named by its name or by its id, not by both.";
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
        (None, true) => {
            let message = "A topic is named neither by its name nor by its id.";
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
        (Some(name), true) => image.topic(name).ok_or_else(unknown_name),
        (None, false) => image
            .topic_by_id(TopicId(wanted.topic_id))
            .ok_or_else(|| Refusal::new(ErrorCode::UnknownTopicId, "No topic has this id.")),
    };
    match topic {
        Ok(topic) => {
            Found { name: Some(topic.name.clone()), id: topic.id.0, by_name, result: Ok(()) }
        }
        Err(refusal) => Found { name, id: wanted.topic_id, by_name, result: Err(refusal) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::metadata::{BrokerImage, apply};
    use protocol::types::BrokerId;

    fn image() -> MetadataImage {
        let broker = BrokerImage {
            id: BrokerId(1),
            rack: None,
            endpoints: Vec::new(),
            peer_address: None,
            directory_id: None,
        };
        let create = MetadataCommand::CreateTopic {
            name: "a".into(),
            id: TopicId(Uuid::from_u128(7)),
            assignment: vec![vec![BrokerId(1)]],
            configs: Default::default(),
        };
        let registered =
            apply(&MetadataImage::default(), &MetadataCommand::RegisterBroker { broker }).0;
        apply(&registered, &create).0
    }

    fn wanted(name: Option<&str>, id: u128) -> DeleteTopicState {
        DeleteTopicState::default()
            .with_name(name.map(topic_name))
            .with_topic_id(Uuid::from_u128(id))
    }

    fn codes(wanted: &[DeleteTopicState]) -> Vec<i16> {
        find(&image(), wanted).iter().map(|found| code_of(&found.result)).collect()
    }

    #[test]
    fn topics_are_found_by_name_or_id() {
        assert_eq!(codes(&[wanted(Some("a"), 0)]), [0]);
        assert_eq!(codes(&[wanted(None, 7)]), [0]);
        let unknown = [ErrorCode::UnknownTopicOrPartition.code(), ErrorCode::UnknownTopicId.code()];
        assert_eq!(codes(&[wanted(Some("b"), 0), wanted(None, 8)]), unknown);
        let invalid = ErrorCode::InvalidRequest.code();
        assert_eq!(codes(&[wanted(Some("a"), 7)]), [invalid]);
        assert_eq!(codes(&[wanted(None, 0)]), [invalid]);
    }

    #[test]
    fn a_topic_named_twice_is_refused_once() {
        let invalid = ErrorCode::InvalidRequest.code();
        assert_eq!(codes(&[wanted(Some("a"), 0), wanted(Some("a"), 0)]), [invalid]);
        assert_eq!(codes(&[wanted(Some("a"), 0), wanted(None, 7)]), [invalid]);
        assert_eq!(codes(&[wanted(None, 8), wanted(None, 8)]), [invalid]);
    }

    #[test]
    fn what_is_named_twice_is_refused_in_the_same_words() {
        let by_name = find(&image(), &[wanted(Some("a"), 0), wanted(Some("a"), 0)]);
        assert_eq!((by_name[0].name.as_deref(), by_name[0].id), (Some("a"), Uuid::nil()));
        let by_id = find(&image(), &[wanted(None, 7), wanted(None, 7)]);
        assert_eq!((by_id[0].name.as_deref(), by_id[0].id), (None, Uuid::from_u128(7)));
    }

    #[test]
    fn a_name_is_never_null_before_ids() {
        let found = find(&image(), &[wanted(None, 8)]);
        assert_eq!(row(&found[0], 6).name, None);
        assert_eq!(row(&found[0], 5).name, Some(topic_name("")));
    }
}
