//! The resources that have configs, and the change of them: common to AlterConfigs and
//! IncrementalAlterConfigs.

use std::collections::{BTreeMap, BTreeSet};

use cluster::metadata::{MetadataCommand, MetadataImage, topic_name};
use protocol::error_code::ErrorCode;
use protocol::types::{BrokerId, TopicId};

use super::wire::Refusal;
use crate::config::alter::{AlterError, Change, Target, incremental, replace};
use crate::config::definitions::Definition;
use crate::config::{group, topic};
use crate::context::Services;

/// What neither of the two APIs does.
pub const ALTERATION_GAPS: &[&str] = &[
    "Client metrics and loggers cannot be configured.",
    "A group's consumer.assignor.offload.enable, which Kafka takes and hides, is refused.",
    "Listeners, limits on connections and producer.id.expiration.ms are read at start only.",
    "Unknown broker keys, which Kafka keeps for plugins, are refused.",
];

/// Kafka's `ConfigResource.Type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceType {
    /// A topic, by name.
    Topic,
    /// A broker by id, or all of them by the empty name.
    Broker,
    /// A broker's loggers.
    BrokerLogger,
    /// What clients' metrics are asked for (KIP-714).
    ClientMetrics,
    /// A group (KIP-848).
    Group,
}

impl ResourceType {
    /// As the wire says it.
    #[must_use]
    pub fn code(self) -> i8 {
        match self {
            ResourceType::Topic => 2,
            ResourceType::Broker => 4,
            ResourceType::BrokerLogger => 8,
            ResourceType::ClientMetrics => 16,
            ResourceType::Group => 32,
        }
    }

    /// What the wire says.
    #[must_use]
    pub fn from_code(code: i8) -> Option<ResourceType> {
        match code {
            2 => Some(ResourceType::Topic),
            4 => Some(ResourceType::Broker),
            8 => Some(ResourceType::BrokerLogger),
            16 => Some(ResourceType::ClientMetrics),
            32 => Some(ResourceType::Group),
            _ => None,
        }
    }

    /// The refusal of another one.
    #[must_use]
    pub fn unknown(code: i8) -> Refusal {
        let message = format!("Resources of type {code} have no configs.");
        Refusal::new(ErrorCode::InvalidRequest, message)
    }
}

/// The broker that a resource's name names.
pub fn broker_named(name: &str) -> Result<BrokerId, Refusal> {
    name.parse().map(BrokerId).map_err(|_| {
        let message = format!("A broker's id is a number, and '{name}' is none.");
        Refusal::new(ErrorCode::InvalidRequest, message)
    })
}

/// A change of one resource's configs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alteration {
    /// Code of the resource's type.
    pub resource_type: i8,
    /// The resource's name.
    pub resource_name: String,
    /// What is changed.
    pub edit: Edit,
}

/// How configs are changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// All are replaced.
    Replace(Vec<(String, Option<String>)>),
    /// Some are changed.
    Changes(Vec<Change>),
    /// An operation that there is not.
    UnknownOperation(i8),
}

impl From<AlterError> for Refusal {
    fn from(error: AlterError) -> Refusal {
        match error {
            AlterError::InvalidConfig(message) => Refusal::new(ErrorCode::InvalidConfig, message),
            AlterError::InvalidRequest(message) => Refusal::new(ErrorCode::InvalidRequest, message),
        }
    }
}

/// Whose configs, as they stand.
enum Resource {
    Topic(TopicId),
    Broker(Option<BrokerId>),
    Group(String),
}

/// A change is read, edited and written: two at once would lose one of them.
static ALTERING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Carries out all of them, each by itself; answers in their order.
pub async fn alter_all(
    services: &Services,
    alterations: &[Alteration],
    validate_only: bool,
) -> Vec<Result<(), Refusal>> {
    let _guard = ALTERING.lock().await;
    let mut seen = BTreeSet::new();
    let twice: BTreeSet<_> = alterations
        .iter()
        .map(|one| (one.resource_type, &one.resource_name))
        .filter(|resource| !seen.insert(*resource))
        .collect();
    let mut results = Vec::with_capacity(alterations.len());
    for one in alterations {
        results.push(if twice.contains(&(one.resource_type, &one.resource_name)) {
            let message = "Each resource must appear at most once.";
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        } else {
            alter(services, one, validate_only).await
        });
    }
    results
}

async fn alter(
    services: &Services,
    alteration: &Alteration,
    validate_only: bool,
) -> Result<(), Refusal> {
    let image = services.cluster.metadata();
    let (target, resource, current) = find(&image, alteration)?;
    if let Resource::Broker(Some(broker)) = resource
        && broker != services.config.node_id
    {
        let message = format!("This is broker {}, not broker {broker}.", services.config.node_id);
        return Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    let of_broker = |key: &str| services.config.effective(&image, key).map(str::to_owned);
    let inherited = |row: &Definition| match target {
        Target::Topic => services.config.topic_default(row),
        Target::Group => topic::inherited(row, of_broker),
        Target::Broker | Target::AllBrokers => {
            services.config.values.get(row.name).and_then(|value| value.value.clone())
        }
    };
    let configs = match &alteration.edit {
        Edit::Replace(configs) => replace(target, &current, configs)?,
        Edit::Changes(changes) => incremental(target, &current, changes, inherited)?,
        Edit::UnknownOperation(code) => {
            let message = format!("There is no operation {code}.");
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
    };
    if target == Target::Group {
        group::check_bounds(&configs, of_broker).map_err(AlterError::InvalidConfig)?;
    }
    if validate_only || configs == current {
        return Ok(());
    }
    let command = match resource {
        Resource::Topic(topic) => MetadataCommand::SetTopicConfigs { topic, configs },
        Resource::Broker(broker) => MetadataCommand::SetBrokerConfigs { broker, configs },
        Resource::Group(group) => MetadataCommand::SetGroupConfigs { group, configs },
    };
    services.cluster.submit(command).await?;
    Ok(())
}

fn find(
    image: &MetadataImage,
    alteration: &Alteration,
) -> Result<(Target, Resource, BTreeMap<String, String>), Refusal> {
    let name = alteration.resource_name.as_str();
    match ResourceType::from_code(alteration.resource_type) {
        Some(ResourceType::Topic) if name.is_empty() => {
            let message = "There is no default for topics: a topic has a name.";
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
        Some(ResourceType::Topic) => {
            topic_name::validate(name)
                .map_err(|reason| Refusal::new(ErrorCode::InvalidTopicException, reason))?;
            let topic = image.topic(name).ok_or_else(|| {
                let message = format!("The topic '{name}' does not exist.");
                Refusal::new(ErrorCode::UnknownTopicOrPartition, message)
            })?;
            Ok((Target::Topic, Resource::Topic(topic.id), topic.configs.clone()))
        }
        Some(ResourceType::Broker) => {
            let broker = if name.is_empty() { None } else { Some(broker_named(name)?) };
            let target = if broker.is_none() { Target::AllBrokers } else { Target::Broker };
            let current = image.broker_configs.get(&broker).cloned().unwrap_or_default();
            Ok((target, Resource::Broker(broker), current))
        }
        Some(ResourceType::BrokerLogger) => {
            let message = "The level of logs is given at start, by RUST_LOG.";
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
        Some(ResourceType::Group) if name.is_empty() => {
            let message = "There is no default for groups: a group has a name.";
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
        Some(ResourceType::Group) => {
            let current = image.group_configs.get(name).cloned().unwrap_or_default();
            Ok((Target::Group, Resource::Group(name.to_owned()), current))
        }
        Some(ResourceType::ClientMetrics) => {
            let message = "Client metrics have no configs.";
            Err(Refusal::new(ErrorCode::InvalidRequest, message))
        }
        None => Err(ResourceType::unknown(alteration.resource_type)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::metadata::{BrokerImage, apply};

    fn found(resource_type: i8, name: &str) -> Result<Target, ErrorCode> {
        let broker = BrokerImage {
            id: BrokerId(1),
            rack: None,
            endpoints: Vec::new(),
            peer_address: None,
            directory_id: None,
        };
        let image = apply(&MetadataImage::default(), &MetadataCommand::RegisterBroker { broker }).0;
        let resource_name = name.to_owned();
        let alteration = Alteration { resource_type, resource_name, edit: Edit::Changes(vec![]) };
        find(&image, &alteration).map(|found| found.0).map_err(|refusal| refusal.code)
    }

    #[test]
    fn resources_are_found_by_type_and_name() {
        assert_eq!(found(4, ""), Ok(Target::AllBrokers));
        assert_eq!(found(4, "1"), Ok(Target::Broker));
        assert_eq!(found(4, "x"), Err(ErrorCode::InvalidRequest));
        assert_eq!(found(2, "t"), Err(ErrorCode::UnknownTopicOrPartition));
        assert_eq!(found(2, "not a name"), Err(ErrorCode::InvalidTopicException));
        assert_eq!(found(2, ""), Err(ErrorCode::InvalidRequest));
        assert_eq!(found(32, "g"), Ok(Target::Group));
        assert_eq!(found(32, ""), Err(ErrorCode::InvalidRequest));
        for resource_type in [0, 1, 3, 8, 16] {
            assert_eq!(found(resource_type, "1"), Err(ErrorCode::InvalidRequest));
        }
    }
}
