//! Claims about `apply`: what is carried out, what is refused, and that nothing is ever reused.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use protocol::types::{BrokerId, PartitionId, TopicId};
use uuid::Uuid;

use super::*;
use crate::ClusterError;

fn broker(id: i32) -> BrokerImage {
    BrokerImage {
        id: BrokerId(id),
        rack: None,
        endpoints: vec![EndpointImage {
            listener: "PLAINTEXT".into(),
            host: "localhost".into(),
            port: 9092,
            security_protocol: "PLAINTEXT".into(),
        }],
        peer_address: None,
        directory_id: None,
    }
}

fn topic_id(n: u128) -> TopicId {
    TopicId(Uuid::from_u128(n))
}

fn create(name: &str, id: u128, partitions: usize) -> MetadataCommand {
    MetadataCommand::CreateTopic {
        name: name.into(),
        id: topic_id(id),
        assignment: vec![vec![BrokerId(1)]; partitions],
        configs: BTreeMap::new(),
    }
}

fn applied(commands: &[MetadataCommand]) -> MetadataImage {
    let mut image = MetadataImage::default();
    let first = MetadataCommand::RegisterBroker { broker: broker(1) };
    for command in std::iter::once(&first).chain(commands) {
        let (next, _, result) = apply(&image, command);
        result.expect("the command is carried out");
        image = next;
    }
    image
}

#[track_caller]
fn refused(image: &MetadataImage, command: &MetadataCommand) -> ClusterError {
    let (next, delta, result) = apply(image, command);
    assert_eq!(&next, image, "a refused command changed the image");
    assert_eq!(delta, MetadataDelta::default());
    result.expect_err("the command is refused")
}

#[test]
fn a_created_topic_is_found_by_name_and_id() {
    let image = applied(&[]);
    let (image, delta, result) = apply(&image, &create("orders", 7, 3));
    let partitions = (0..3).map(PartitionId).collect();
    assert_eq!(result, Ok(CommandOutcome::TopicCreated { id: topic_id(7), partitions }));
    assert_eq!(delta.added_groups, vec![1, 2, 3]);
    assert_eq!(delta.topics_changed, vec!["orders".to_owned()]);
    assert_eq!(image.topic("orders"), image.topic_by_id(topic_id(7)));
    let topic = image.topic("orders").expect("it is there");
    assert_eq!(topic.partition(PartitionId(2)).map(|p| p.group), Some(3));
    assert_eq!(topic.partition(PartitionId(3)), None);
    assert_eq!(topic.partition(PartitionId(-1)), None);
}

#[test]
fn a_name_is_taken_once() {
    let image = applied(&[create("a", 1, 1)]);
    assert_eq!(refused(&image, &create("a", 2, 1)), ClusterError::TopicExists("a".into()));
}

#[test]
fn an_id_is_taken_once() {
    let image = applied(&[create("a", 1, 1)]);
    assert_eq!(refused(&image, &create("b", 1, 1)), ClusterError::TopicExists("a".into()));
}

#[test]
fn bad_names_are_refused() {
    let image = applied(&[]);
    for name in ["", ".", "..", "a b", "a/b", "ä", "a:b", "a\0", &"x".repeat(250)] {
        let error = refused(&image, &create(name, 1, 1));
        assert!(matches!(error, ClusterError::InvalidTopicName(_)), "{name}: {error}");
    }
    for name in ["...", "a", "A-1_b.c", &"x".repeat(249)] {
        assert_eq!(topic_name::validate(name), Ok(()), "{name}");
    }
}

#[test]
fn a_name_that_differs_in_dot_and_underscore_only_collides() {
    let image = applied(&[create("a.b_c", 1, 1)]);
    for name in ["a_b_c", "a.b.c", "a_b.c"] {
        let error = refused(&image, &create(name, 2, 1));
        assert!(matches!(error, ClusterError::InvalidTopicName(_)), "{name}: {error}");
    }
    let (_, _, result) = apply(&image, &create("a-b_c", 2, 1));
    assert!(result.is_ok());
}

#[test]
fn groups_are_not_reused_after_a_delete() {
    let image = applied(&[create("a", 1, 2)]);
    let (image, delta, _) = apply(&image, &MetadataCommand::DeleteTopic { id: topic_id(1) });
    assert_eq!(delta.removed_groups, vec![1, 2]);
    assert_eq!(image.topic("a"), None);
    assert_eq!(image.topic_by_id(topic_id(1)), None);
    let (_, delta, _) = apply(&image, &create("a", 2, 1));
    assert_eq!(delta.added_groups, vec![3]);
}

#[test]
fn four_thousand_partitions_are_one_command() {
    let image = applied(&[create("a", 1, 1)]);
    let added = vec![vec![BrokerId(1)]; 4_000];
    let command = MetadataCommand::CreatePartitions { topic: topic_id(1), added };
    let (image, delta, result) = apply(&image, &command);
    assert_eq!(result, Ok(CommandOutcome::Done));
    assert_eq!(delta.added_groups.len(), 4_000);
    let topic = image.topic("a").expect("it is there");
    assert_eq!(topic.partitions.len(), 4_001);
    assert!(topic.partitions.iter().enumerate().all(|(i, p)| p.id.0 as usize == i));
}

#[test]
fn assignments_are_checked() {
    let image = applied(&[MetadataCommand::RegisterBroker { broker: broker(2) }]);
    let with = |assignment: Vec<Vec<i32>>| MetadataCommand::CreateTopic {
        name: "t".into(),
        id: topic_id(1),
        assignment: assignment
            .into_iter()
            .map(|replicas| replicas.into_iter().map(BrokerId).collect())
            .collect(),
        configs: BTreeMap::new(),
    };
    let none = refused(&image, &with(vec![]));
    assert!(matches!(none, ClusterError::InvalidPartitions(_)), "{none}");
    for bad in [vec![vec![]], vec![vec![1, 1]], vec![vec![9]], vec![vec![1], vec![1, 2]]] {
        let error = refused(&image, &with(bad));
        assert!(matches!(error, ClusterError::InvalidReplicaAssignment(_)), "{error}");
    }
    let (image, _, result) = apply(&image, &with(vec![vec![1, 2], vec![2, 1]]));
    assert!(result.is_ok());
    let added = vec![vec![BrokerId(1)]];
    let fewer = MetadataCommand::CreatePartitions { topic: topic_id(1), added };
    let error = refused(&image, &fewer);
    assert!(matches!(error, ClusterError::InvalidReplicaAssignment(_)), "{error}");
}

#[test]
fn what_does_not_exist_is_not_changed() {
    let image = applied(&[]);
    let unknown = ClusterError::UnknownTopicId(topic_id(9).0);
    let id = topic_id(9);
    assert_eq!(refused(&image, &MetadataCommand::DeleteTopic { id }), unknown);
    let added = vec![vec![BrokerId(1)]];
    assert_eq!(refused(&image, &MetadataCommand::CreatePartitions { topic: id, added }), unknown);
    let configs = BTreeMap::new();
    let command = MetadataCommand::SetTopicConfigs { topic: id, configs: configs.clone() };
    assert_eq!(refused(&image, &command), unknown);
    let command = MetadataCommand::SetBrokerConfigs { broker: Some(BrokerId(9)), configs };
    assert_eq!(refused(&image, &command), ClusterError::UnknownBroker(9));
    let command = MetadataCommand::AllocateProducerIds { broker: BrokerId(9), count: 1 };
    assert_eq!(refused(&image, &command), ClusterError::UnknownBroker(9));
}

#[test]
fn the_first_cluster_id_stays() {
    let init = |id: &str| MetadataCommand::InitCluster { cluster_id: id.into() };
    assert_eq!(applied(&[init("first"), init("second")]).cluster_id, "first");
}

#[test]
fn a_broker_that_registers_again_replaces_itself() {
    let again = BrokerImage { rack: Some("r".into()), ..broker(1) };
    let image = applied(&[MetadataCommand::RegisterBroker { broker: again.clone() }]);
    assert_eq!(image.brokers.values().collect::<Vec<_>>(), vec![&again]);
}

#[test]
fn configs_are_replaced_whole() {
    let set = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<BTreeMap<_, _>>()
    };
    let image = applied(&[
        create("a", 1, 1),
        MetadataCommand::SetTopicConfigs {
            topic: topic_id(1),
            configs: set(&[("retention.ms", "1"), ("segment.bytes", "2")]),
        },
        MetadataCommand::SetTopicConfigs {
            topic: topic_id(1),
            configs: set(&[("retention.ms", "3")]),
        },
        MetadataCommand::SetBrokerConfigs {
            broker: None,
            configs: set(&[("log.retention.ms", "4")]),
        },
        MetadataCommand::SetBrokerConfigs {
            broker: Some(BrokerId(1)),
            configs: set(&[("log.retention.ms", "5")]),
        },
    ]);
    let group = |configs| MetadataCommand::SetGroupConfigs { group: "g".to_owned(), configs };
    let configured = applied(&[
        group(set(&[
            ("consumer.session.timeout.ms", "1"),
            ("consumer.heartbeat.interval.ms", "2"),
        ])),
        group(set(&[("consumer.session.timeout.ms", "3")])),
    ]);
    let expected = set(&[("consumer.session.timeout.ms", "3")]);
    assert_eq!(configured.group_configs.get("g"), Some(&expected));
    let unset = applied(&[group(expected), group(BTreeMap::new())]);
    assert!(unset.group_configs.is_empty());
    assert_eq!(image.topic("a").map(|t| t.configs.clone()), Some(set(&[("retention.ms", "3")])));
    assert_eq!(image.dynamic_broker_config(BrokerId(1), "log.retention.ms"), Some("5"));
    assert_eq!(image.dynamic_broker_config(BrokerId(2), "log.retention.ms"), Some("4"));
    assert_eq!(image.dynamic_broker_config(BrokerId(1), "log.segment.bytes"), None);
}

#[test]
fn blocks_of_producer_ids_do_not_overlap() {
    let mut image = applied(&[]);
    let mut next = 0;
    for asked in [1_000, 1, 0, -5, 1_000] {
        let command = MetadataCommand::AllocateProducerIds { broker: BrokerId(1), count: asked };
        let (after, _, result) = apply(&image, &command);
        let count = asked.max(0);
        assert_eq!(result, Ok(CommandOutcome::ProducerIds { first: next, count }));
        next += count;
        image = after;
    }
}

#[test]
fn only_the_brokers_own_topics_are_internal() {
    let image = applied(&[create("__consumer_offsets", 1, 1), create("__heartbeat", 2, 1)]);
    assert!(image.topic("__consumer_offsets").is_some_and(|t| t.is_internal()));
    assert!(image.topic("__heartbeat").is_some_and(|t| !t.is_internal()));
}

fn any_command() -> impl Strategy<Value = MetadataCommand> {
    let id = (0u128..6).prop_map(topic_id);
    let replicas = proptest::collection::vec((0i32..4).prop_map(BrokerId), 0..3);
    let assignment = proptest::collection::vec(replicas, 0..4);
    let pairs = proptest::collection::btree_map("[a-c]", "[0-9]", 0..3);
    let name = prop_oneof!["[ab._]{1,3}", "[ab ]{0,2}"];
    prop_oneof![
        "[a-z]{1,3}".prop_map(|cluster_id| MetadataCommand::InitCluster { cluster_id }),
        (0i32..4).prop_map(|id| MetadataCommand::RegisterBroker { broker: broker(id) }),
        (name, id.clone(), assignment.clone(), pairs.clone()).prop_map(
            |(name, id, assignment, configs)| MetadataCommand::CreateTopic {
                name,
                id,
                assignment,
                configs
            }
        ),
        id.clone().prop_map(|id| MetadataCommand::DeleteTopic { id }),
        (id.clone(), assignment)
            .prop_map(|(topic, added)| MetadataCommand::CreatePartitions { topic, added }),
        (id, pairs.clone())
            .prop_map(|(topic, configs)| MetadataCommand::SetTopicConfigs { topic, configs }),
        (proptest::option::of((0i32..4).prop_map(BrokerId)), pairs)
            .prop_map(|(broker, configs)| MetadataCommand::SetBrokerConfigs { broker, configs }),
        ((0i32..4).prop_map(BrokerId), -3i64..9)
            .prop_map(|(broker, count)| { MetadataCommand::AllocateProducerIds { broker, count } }),
    ]
}

fn check_consistent(image: &MetadataImage) -> Result<(), TestCaseError> {
    prop_assert_eq!(image.topics.len(), image.topic_names.len());
    let mut groups = BTreeSet::new();
    for (name, topic) in image.topics.iter() {
        prop_assert_eq!(name, &topic.name);
        prop_assert_eq!(image.topic_names.get(&topic.id), Some(name));
        for (index, partition) in topic.partitions.iter().enumerate() {
            prop_assert_eq!(partition.id.0 as usize, index);
            prop_assert!(partition.group > 0 && partition.group < image.next_group_id);
            prop_assert!(groups.insert(partition.group), "a group serves two partitions");
        }
    }
    let names: Vec<_> = image.topics.keys().collect();
    for (index, name) in names.iter().enumerate() {
        prop_assert!(names[index + 1..].iter().all(|other| !topic_name::collide(name, other)));
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_history_keeps_the_image_consistent(
        commands in proptest::collection::vec(any_command(), 0..60)
    ) {
        let mut image = MetadataImage::default();
        let mut ever = BTreeSet::new();
        for command in &commands {
            let (next, delta, result) = apply(&image, command);
            if result.is_err() {
                prop_assert_eq!(&next, &image);
                prop_assert_eq!(&delta, &MetadataDelta::default());
            }
            for group in &delta.added_groups {
                prop_assert!(ever.insert(*group), "group {} was used before", group);
            }
            let before: BTreeSet<_> = groups_of(&image);
            let after: BTreeSet<_> = groups_of(&next);
            prop_assert_eq!(
                after.difference(&before).copied().collect::<Vec<_>>(),
                delta.added_groups.clone()
            );
            prop_assert_eq!(
                before.difference(&after).copied().collect::<BTreeSet<_>>(),
                delta.removed_groups.iter().copied().collect::<BTreeSet<_>>()
            );
            check_consistent(&next)?;
            image = next;
        }
        let json = serde_json::to_vec(&image).expect("an image is JSON");
        let back: MetadataImage = serde_json::from_slice(&json).expect("and comes back");
        prop_assert_eq!(back, image);
    }

    #[test]
    fn a_command_survives_json(command in any_command()) {
        let json = serde_json::to_vec(&command).expect("a command is JSON");
        let back: MetadataCommand = serde_json::from_slice(&json).expect("and comes back");
        prop_assert_eq!(back, command);
    }
}

fn groups_of(image: &MetadataImage) -> BTreeSet<u64> {
    image.topics.values().flat_map(|t| t.partitions.iter().map(|p| p.group)).collect()
}
