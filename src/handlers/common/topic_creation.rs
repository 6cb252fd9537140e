//! What a topic to be made becomes: its assignment from counts or by hand, its configs; refused as
//! Kafka refuses it (`ReplicationControlManager`, `ControllerConfigurationValidator`).

use std::collections::{BTreeMap, BTreeSet};

use cluster::ClusterError;
use cluster::metadata::{MetadataCommand, MetadataImage, apply, image::INTERNAL_TOPICS};
use protocol::error_code::ErrorCode;
use protocol::types::{BrokerId, TopicId};

use super::wire::Refusal;
use crate::config::{BrokerConfig, topic};
use crate::context::Services;
use crate::error_map::ToErrorCode;
use crate::ids;

/// A topic as its creator wants it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WantedTopic {
    /// Its name.
    pub name: String,
    /// -1 = the broker's default, or as the assignment says.
    pub num_partitions: i32,
    /// -1 = the broker's default, or as the assignment says.
    pub replication_factor: i16,
    /// Partition and its replicas; empty = the broker chooses.
    pub assignments: Vec<(i32, Vec<BrokerId>)>,
    /// Its own configs; `None` is no value.
    pub configs: Vec<(String, Option<String>)>,
}

/// A topic that was made, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeTopic {
    /// Nil where it would only be made.
    pub id: TopicId,
    /// How many.
    pub num_partitions: i32,
    /// How many replicas of each.
    pub replication_factor: i16,
    /// Its own configs.
    pub configs: BTreeMap<String, String>,
}

impl From<ClusterError> for Refusal {
    fn from(error: ClusterError) -> Refusal {
        Refusal::new(error.error_code(), sentence(&error))
    }
}

fn sentence(error: &ClusterError) -> String {
    match error {
        ClusterError::TopicExists(name) => format!("Topic '{name}' already exists."),
        ClusterError::NoReassignment => "No reassignment is in progress.".to_owned(),
        ClusterError::InvalidTopicName(reason)
        | ClusterError::InvalidPartitions(reason)
        | ClusterError::InvalidReplicationFactor(reason)
        | ClusterError::InvalidReplicaAssignment(reason) => reason.clone(),
        other => other.to_string(),
    }
}

/// Makes the topic; with `validate_only` says what would come of it.
pub async fn create(
    services: &Services,
    wanted: &WantedTopic,
    validate_only: bool,
) -> Result<MadeTopic, Refusal> {
    let image = services.cluster.metadata();
    let configs = own_configs(&wanted.configs)?;
    check_name(&image, &wanted.name)?;
    let assignment = match assigned_by_hand(wanted)? {
        Some(assignment) => assignment,
        None => {
            let (partitions, replicas) = counts(wanted, &services.config)?;
            services.cluster.plan_assignment(partitions, replicas)?
        }
    };
    let made = MadeTopic {
        id: TopicId(if validate_only { uuid::Uuid::nil() } else { ids::new_uuid() }),
        num_partitions: i32::try_from(assignment.len()).unwrap_or(i32::MAX),
        replication_factor: assignment
            .first()
            .map_or(0, |replicas| i16::try_from(replicas.len()).unwrap_or(i16::MAX)),
        configs: configs.clone(),
    };
    let command = MetadataCommand::CreateTopic {
        name: wanted.name.clone(),
        id: made.id,
        assignment,
        configs,
    };
    if validate_only {
        apply(&image, &command).2?;
    } else {
        services.cluster.submit(command).await?;
    }
    Ok(made)
}

/// A name that is refused is refused before anything else is looked at, as in Kafka.
fn check_name(image: &MetadataImage, name: &str) -> Result<(), Refusal> {
    cluster::metadata::topic_name::validate(name)
        .map_err(|reason| Refusal::from(ClusterError::InvalidTopicName(reason)))?;
    match image.topic(name) {
        Some(_) => Err(ClusterError::TopicExists(name.to_owned()).into()),
        None => Ok(()),
    }
}

fn own_configs(given: &[(String, Option<String>)]) -> Result<BTreeMap<String, String>, Refusal> {
    let mut configs = BTreeMap::new();
    for (key, value) in given {
        let Some(value) = value else {
            let message = format!("Null value not supported for topic configs: {key}");
            return Err(Refusal::new(ErrorCode::InvalidConfig, message));
        };
        configs.insert(key.clone(), value.trim().to_owned());
    }
    topic::check_own(&configs)
        .map_err(|message| Refusal::new(ErrorCode::InvalidConfig, message))?;
    Ok(configs)
}

/// The assignment that the creator wrote down, if any.
fn assigned_by_hand(wanted: &WantedTopic) -> Result<Option<Vec<Vec<BrokerId>>>, Refusal> {
    if wanted.assignments.is_empty() {
        return Ok(None);
    }
    for (what, is_given) in [
        ("number of partitions", wanted.num_partitions != -1),
        ("replication factor", wanted.replication_factor != -1),
    ] {
        if is_given {
            let message = format!("With a manual partition assignment, the {what} must be -1.");
            return Err(Refusal::new(ErrorCode::InvalidRequest, message));
        }
    }
    let indexes: BTreeSet<i32> = wanted.assignments.iter().map(|(index, _)| *index).collect();
    if indexes.len() != wanted.assignments.len() {
        let message = "A partition stands twice in the manual partition assignment.";
        return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
    }
    if !indexes.iter().copied().eq((0..).take(indexes.len())) {
        let message = "The partitions of a manual assignment must be 0, 1, 2 and so on.";
        return Err(Refusal::new(ErrorCode::InvalidReplicaAssignment, message));
    }
    let mut assignments = wanted.assignments.clone();
    assignments.sort();
    Ok(Some(assignments.into_iter().map(|(_, replicas)| replicas).collect()))
}

/// Number of partitions, and of replicas of each.
fn counts(wanted: &WantedTopic, config: &BrokerConfig) -> Result<(usize, usize), Refusal> {
    let replicas = match wanted.replication_factor {
        -1 => config.default_replication_factor,
        given => given,
    };
    let replicas = usize::try_from(replicas).ok().filter(|count| *count > 0).ok_or_else(|| {
        let message = "Replication factor must be larger than 0, or -1 for the default.";
        Refusal::new(ErrorCode::InvalidReplicationFactor, message)
    })?;
    let partitions = match wanted.num_partitions {
        -1 => config.num_partitions,
        given => given,
    };
    let partitions =
        usize::try_from(partitions).ok().filter(|count| *count > 0).ok_or_else(|| {
            let message = "Number of partitions must be larger than 0, or -1 for the default.";
            Refusal::new(ErrorCode::InvalidPartitions, message)
        })?;
    Ok((partitions, replicas))
}

/// The least that `segment.bytes` may be.
const SMALLEST_SEGMENT_BYTES: i32 = 1024 * 1024;

/// The topic that is made for a client which asks for one that does not exist.
#[must_use]
pub fn auto_created(name: &str, image: &MetadataImage, config: &BrokerConfig) -> WantedTopic {
    let name = name.to_owned();
    if !INTERNAL_TOPICS.contains(&name.as_str()) {
        return WantedTopic {
            name,
            num_partitions: -1,
            replication_factor: -1,
            ..Default::default()
        };
    }
    let prefix = match name.as_str() {
        "__consumer_offsets" => "offsets.topic",
        "__transaction_state" => "transaction.state.log",
        _ => "share.coordinator.state.topic",
    };
    let number = |suffix: &str| {
        let value = config.effective(image, &format!("{prefix}.{suffix}"));
        value.and_then(|value| value.trim().parse::<i32>().ok()).unwrap_or(1)
    };
    // A single broker must be able to keep the state that three would keep; the first of three
    // waits for the others rather than keep it alone for good.
    let expected = config.peers.as_ref().map_or(1, |peers| peers.voters.len());
    let brokers = i32::try_from(image.brokers.len().max(expected)).unwrap_or(i32::MAX);
    let replicas = number("replication.factor").min(brokers);
    // Kafka takes any size here, and none below this from a topic.
    let segment_bytes = number("segment.bytes").max(SMALLEST_SEGMENT_BYTES).to_string();
    let configs = [
        ("cleanup.policy", "compact"),
        ("compression.type", "producer"),
        ("segment.bytes", &segment_bytes),
    ];
    WantedTopic {
        name,
        num_partitions: number("num.partitions"),
        replication_factor: i16::try_from(replicas).unwrap_or(1),
        assignments: Vec::new(),
        configs: configs.map(|(key, value)| (key.to_owned(), Some(value.to_owned()))).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::metadata::BrokerImage;

    fn config(overrides: &[&str]) -> BrokerConfig {
        let overrides: Vec<_> = overrides.iter().map(|pair| (*pair).to_owned()).collect();
        BrokerConfig::from_sources("", &[], &overrides).expect("it loads").0
    }

    fn wanted(num_partitions: i32, replication_factor: i16) -> WantedTopic {
        WantedTopic { name: "t".into(), num_partitions, replication_factor, ..Default::default() }
    }

    fn code<T: std::fmt::Debug>(result: Result<T, Refusal>) -> ErrorCode {
        result.expect_err("it is refused").code
    }

    #[test]
    fn minus_one_is_the_brokers_default() {
        let config = config(&["num.partitions=3", "default.replication.factor=2"]);
        assert_eq!(counts(&wanted(-1, -1), &config), Ok((3, 2)));
        assert_eq!(counts(&wanted(5, 1), &config), Ok((5, 1)));
        assert_eq!(code(counts(&wanted(0, 1), &config)), ErrorCode::InvalidPartitions);
        assert_eq!(code(counts(&wanted(-2, 1), &config)), ErrorCode::InvalidPartitions);
        assert_eq!(code(counts(&wanted(1, 0), &config)), ErrorCode::InvalidReplicationFactor);
        assert_eq!(code(counts(&wanted(0, 0), &config)), ErrorCode::InvalidReplicationFactor);
    }

    #[test]
    fn an_assignment_by_hand_excludes_counts() {
        let by_hand = |assignments: &[(i32, i32)], num_partitions, replication_factor| {
            let assignments = assignments
                .iter()
                .map(|(index, broker)| (*index, vec![BrokerId(*broker)]))
                .collect();
            let wanted = wanted(num_partitions, replication_factor);
            assigned_by_hand(&WantedTopic { assignments, ..wanted })
        };
        let placed = by_hand(&[(1, 8), (0, 7)], -1, -1);
        assert_eq!(placed, Ok(Some(vec![vec![BrokerId(7)], vec![BrokerId(8)]])));
        assert_eq!(by_hand(&[], 1, 1), Ok(None));
        assert_eq!(code(by_hand(&[(0, 7)], 1, -1)), ErrorCode::InvalidRequest);
        assert_eq!(code(by_hand(&[(0, 7)], -1, 1)), ErrorCode::InvalidRequest);
        for bad in [&[(0, 7), (0, 8)][..], &[(1, 7)], &[(0, 7), (2, 8)], &[(-1, 7), (0, 7)]] {
            assert_eq!(code(by_hand(bad, -1, -1)), ErrorCode::InvalidReplicaAssignment);
        }
    }

    #[test]
    fn configs_are_checked() {
        let one = |key: &str, value: Option<&str>| {
            own_configs(&[(key.to_owned(), value.map(str::to_owned))])
        };
        assert!(one("retention.ms", Some("5")).is_ok());
        for (key, value) in [("retention.ms", None), ("retention.ms", Some("x")), ("no", Some("1"))]
        {
            assert_eq!(code(one(key, value)), ErrorCode::InvalidConfig);
        }
    }

    #[test]
    fn internal_topics_need_no_more_brokers_than_there_are() {
        let broker = BrokerImage {
            id: BrokerId(1),
            rack: None,
            endpoints: Vec::new(),
            peer_address: None,
            directory_id: None,
        };
        let register = MetadataCommand::RegisterBroker { broker };
        let image = apply(&MetadataImage::default(), &register).0;
        let topic = auto_created("__consumer_offsets", &image, &config(&[]));
        assert_eq!((topic.num_partitions, topic.replication_factor), (50, 1));
        assert!(own_configs(&topic.configs).is_ok_and(|own| own["cleanup.policy"] == "compact"));
        let topic = auto_created("orders", &image, &config(&[]));
        assert_eq!((topic.num_partitions, topic.replication_factor), (-1, -1));
    }
}
