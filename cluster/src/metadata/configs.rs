//! Configs of topics, brokers and groups, as the log keeps them: keys and values were checked by
//! whoever proposed them, because what a key means is the broker's business.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::types::{BrokerId, TopicId};

use super::apply::MetadataDelta;
use super::command::{CommandOutcome, CommandResult};
use super::image::MetadataImage;
use crate::ClusterError;

pub(super) fn set_topic(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    topic: TopicId,
    configs: &BTreeMap<String, String>,
) -> CommandResult {
    let topic = image.topic_by_id(topic).ok_or(ClusterError::UnknownTopicId(topic.0))?;
    if topic.configs == *configs {
        return Ok(CommandOutcome::Done);
    }
    let mut changed = Arc::clone(topic);
    Arc::make_mut(&mut changed).configs = configs.clone();
    let name = changed.name.clone();
    Arc::make_mut(&mut image.topics).insert(name.clone(), changed);
    delta.topics_changed.push(name);
    Ok(CommandOutcome::Done)
}

/// Every topic may see other values afterwards, for a topic inherits what it does not set.
pub(super) fn set_broker(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    broker: Option<BrokerId>,
    configs: &BTreeMap<String, String>,
) -> CommandResult {
    if let Some(id) = broker
        && !image.brokers.contains_key(&id)
    {
        return Err(ClusterError::UnknownBroker(id.0));
    }
    let known = image.broker_configs.get(&broker);
    if known == Some(configs) || (known.is_none() && configs.is_empty()) {
        return Ok(CommandOutcome::Done);
    }
    let all = Arc::make_mut(&mut image.broker_configs);
    if configs.is_empty() {
        all.remove(&broker);
    } else {
        all.insert(broker, configs.clone());
    }
    delta.topics_changed = image.topics.keys().cloned().collect();
    Ok(CommandOutcome::Done)
}

/// A group need not exist: who makes it later finds it configured.
pub(super) fn set_group(
    image: &mut MetadataImage,
    group: &str,
    configs: &BTreeMap<String, String>,
) -> CommandResult {
    let all = Arc::make_mut(&mut image.group_configs);
    if configs.is_empty() {
        all.remove(group);
    } else {
        all.insert(group.to_owned(), configs.clone());
    }
    Ok(CommandOutcome::Done)
}
