//! Reassignments: a partition's replicas become others. While that is under way both the old and
//! the new ones stand in the image; the partition's Raft group changes its members step by step,
//! and who is to leave does so when that is complete.
//!
//! Pure: no I/O, no clock, no randomness.

use std::collections::BTreeSet;
use std::sync::Arc;

use protocol::types::{BrokerId, PartitionId, TopicId};

use super::apply::MetadataDelta;
use super::command::{CommandOutcome, CommandResult};
use super::image::{MetadataImage, PartitionImage, TopicImage};
use crate::ClusterError;

/// Has a partition kept by `target`; `None` goes back to those that kept it before.
///
/// Replicas that a former reassignment was adding may be voters of the group by now, so they too
/// leave step by step.
pub(super) fn alter(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    topic: TopicId,
    partition: PartitionId,
    target: Option<&[BrokerId]>,
) -> CommandResult {
    let found = find(image, topic, partition)?;
    let target = match target {
        Some(target) => target.to_vec(),
        None if !found.is_reassigning() => return Err(ClusterError::NoReassignment),
        None => found.settled_replicas(),
    };
    check(image, &target)?;
    let known: BTreeSet<BrokerId> = found.replicas.iter().copied().collect();
    let wanted: BTreeSet<BrokerId> = target.iter().copied().collect();
    let mut changed = found.clone();
    changed.adding = target
        .iter()
        .copied()
        .filter(|id| !known.contains(id) || found.adding.contains(id))
        .collect();
    let was_leaving = |id: &BrokerId| found.removing.contains(id) || found.returning.contains(id);
    changed.returning = target.iter().copied().filter(was_leaving).collect();
    changed.removing = known.difference(&wanted).copied().collect();
    changed.altered_at = image.version;
    changed.replicas = target.iter().chain(&changed.removing).copied().collect();
    if changed.founders.is_empty() && known != wanted {
        changed.founders = found.replicas.clone();
    }
    for broker in wanted.difference(&known) {
        changed.log_ids.insert(*broker, image.next_group_id);
        image.next_group_id += 1;
    }
    replace(image, delta, topic, changed);
    Ok(CommandOutcome::Done)
}

/// The partition's Raft group is what the reassignment of that version of the image was to lead to.
/// Nothing happens where another one is under way by now.
pub(super) fn complete(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    topic: TopicId,
    partition: PartitionId,
    altered_at: u64,
) -> CommandResult {
    let found = find(image, topic, partition)?;
    if !found.is_reassigning() || found.altered_at != altered_at {
        return Ok(CommandOutcome::Done);
    }
    let mut changed = found.clone();
    changed.replicas = found.target_replicas();
    changed.adding.clear();
    changed.removing.clear();
    changed.returning.clear();
    let replicas = &changed.replicas;
    changed.log_ids.retain(|broker, _| replicas.contains(broker));
    changed.survivor = changed.survivor.filter(|survivor| replicas.contains(&survivor.broker));
    replace(image, delta, topic, changed);
    Ok(CommandOutcome::Done)
}

pub(super) fn find(
    image: &MetadataImage,
    topic: TopicId,
    partition: PartitionId,
) -> Result<&PartitionImage, ClusterError> {
    let topic = image.topic_by_id(topic).ok_or(ClusterError::UnknownTopicId(topic.0))?;
    topic.partition(partition).ok_or_else(|| ClusterError::UnknownTopic(topic.name.clone()))
}

fn check(image: &MetadataImage, target: &[BrokerId]) -> Result<(), ClusterError> {
    let invalid = |reason: String| Err(ClusterError::InvalidReplicaAssignment(reason));
    if target.is_empty() {
        return invalid("The list of replicas is empty.".to_owned());
    }
    if let Some(unknown) = target.iter().find(|id| !image.brokers.contains_key(id)) {
        return invalid(format!("No broker {unknown} is registered."));
    }
    if target.iter().collect::<BTreeSet<_>>().len() != target.len() {
        let ids: Vec<i32> = target.iter().map(|id| id.0).collect();
        return invalid(format!("A broker stands twice in {ids:?}."));
    }
    Ok(())
}

pub(super) fn replace(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    topic: TopicId,
    changed: PartitionImage,
) {
    let Some(found) = image.topic_by_id(topic) else { return };
    let mut topic = TopicImage::clone(found);
    let place = topic.partitions.iter_mut().find(|partition| partition.id == changed.id);
    if let Some(place) = place {
        *place = changed;
    }
    delta.topics_changed.push(topic.name.clone());
    Arc::make_mut(&mut image.topics).insert(topic.name.clone(), Arc::new(topic));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{BrokerImage, MetadataCommand, apply};
    use super::*;

    const TOPIC: TopicId = TopicId(uuid::Uuid::from_u128(1));

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn image(replicas: &[i32]) -> MetadataImage {
        let register = |id| {
            let (rack, endpoints) = (None, Vec::new());
            let (peer_address, directory_id) = (None, None);
            let id = BrokerId(id);
            let broker = BrokerImage { id, rack, endpoints, peer_address, directory_id };
            MetadataCommand::RegisterBroker { broker }
        };
        let create = MetadataCommand::CreateTopic {
            name: "t".into(),
            id: TOPIC,
            assignment: vec![ids(replicas)],
            configs: BTreeMap::new(),
        };
        let commands = (1..=5).map(register).chain([create]);
        commands.fold(MetadataImage::default(), |image, command| {
            let (image, _, result) = apply(&image, &command);
            result.expect("carried out");
            image
        })
    }

    fn partition(image: &MetadataImage) -> PartitionImage {
        find(image, TOPIC, PartitionId(0)).expect("there").clone()
    }

    fn altered(image: &MetadataImage, target: Option<&[i32]>) -> MetadataImage {
        let (topic, partition, target) = (TOPIC, PartitionId(0), target.map(ids));
        let command = MetadataCommand::AlterPartitionReassignment { topic, partition, target };
        let (image, _, result) = apply(image, &command);
        result.expect("carried out");
        image
    }

    fn completed(image: &MetadataImage, altered_at: u64) -> MetadataImage {
        let (topic, partition) = (TOPIC, PartitionId(0));
        let command =
            MetadataCommand::CompletePartitionReassignment { topic, partition, altered_at };
        apply(image, &command).0
    }

    #[test]
    fn old_and_new_replicas_stand_there_until_it_is_complete() {
        let image = altered(&image(&[1, 2, 3]), Some(&[4, 1, 2]));
        let under_way = partition(&image);
        assert_eq!(under_way.replicas, ids(&[4, 1, 2, 3]));
        assert_eq!((&under_way.adding, &under_way.removing), (&ids(&[4]), &ids(&[3])));
        assert_eq!(under_way.founders(), ids(&[1, 2, 3]));
        assert_ne!(under_way.log_id(BrokerId(4)), under_way.log_id(BrokerId(1)));
        let done = partition(&completed(&image, under_way.altered_at));
        assert_eq!(done.replicas, ids(&[4, 1, 2]));
        assert!(!done.is_reassigning() && done.founders() == ids(&[1, 2, 3]));
    }

    #[test]
    fn a_replica_that_comes_back_has_another_log() {
        let mut image = image(&[1]);
        let mut numbers = vec![partition(&image).log_id(BrokerId(1))];
        for target in [&[2][..], &[1], &[2], &[1]] {
            image = altered(&image, Some(target));
            image = completed(&image, partition(&image).altered_at);
            let partition = partition(&image);
            assert_eq!(partition.replicas, ids(target));
            numbers.push(partition.log_id(partition.replicas[0]));
        }
        let distinct: BTreeSet<_> = numbers.iter().collect();
        assert_eq!(distinct.len(), numbers.len(), "{numbers:?}");
    }

    #[test]
    fn what_is_cancelled_goes_back_step_by_step() {
        let image = altered(&image(&[1, 2]), Some(&[3, 4]));
        let image = altered(&image, None);
        let back = partition(&image);
        assert_eq!((&back.replicas, &back.removing), (&ids(&[1, 2, 3, 4]), &ids(&[3, 4])));
        assert_eq!((back.target_replicas(), back.adding), (ids(&[1, 2]), vec![]));
        let done = partition(&completed(&image, back.altered_at));
        assert_eq!(done.replicas, ids(&[1, 2]));
        let command = MetadataCommand::AlterPartitionReassignment {
            topic: TOPIC,
            partition: PartitionId(0),
            target: None,
        };
        let image = completed(&image, back.altered_at);
        assert_eq!(apply(&image, &command).2, Err(ClusterError::NoReassignment));
    }

    #[test]
    fn who_was_leaving_and_stays_is_taken_back() {
        let leaving = altered(&image(&[1, 2, 3]), Some(&[2, 3]));
        let back = altered(&leaving, None);
        let returning = partition(&back);
        assert_eq!(
            (returning.replicas.clone(), &returning.returning),
            (ids(&[2, 3, 1]), &ids(&[1]))
        );
        assert!(returning.is_reassigning(), "the group may be without it");
        assert_eq!(returning.settled_replicas(), ids(&[2, 3, 1]));
        // Also when it is moved on before that is done.
        let moved = partition(&altered(&back, Some(&[1, 2])));
        assert_eq!((&moved.returning, &moved.removing), (&ids(&[1]), &ids(&[3])));
        let done = partition(&completed(&back, returning.altered_at));
        assert!(!done.is_reassigning() && done.returning.is_empty());
    }

    #[test]
    fn a_late_note_of_the_end_ends_no_other_reassignment() {
        let first = altered(&image(&[1, 2]), Some(&[3]));
        let again = altered(&altered(&first, None), Some(&[3]));
        let untouched = completed(&again, partition(&first).altered_at);
        assert_eq!(partition(&untouched), partition(&again));
    }

    #[test]
    fn another_order_needs_no_change_of_members() {
        let partition = partition(&altered(&image(&[1, 2]), Some(&[2, 1])));
        assert!(!partition.is_reassigning());
        assert_eq!((partition.replicas, partition.founders), (ids(&[2, 1]), vec![]));
    }

    #[test]
    fn replicas_that_cannot_be_are_refused() {
        for target in [&[][..], &[1, 1], &[1, 9]] {
            let command = MetadataCommand::AlterPartitionReassignment {
                topic: TOPIC,
                partition: PartitionId(0),
                target: Some(ids(target)),
            };
            let refused = apply(&image(&[1, 2]), &command).2;
            assert!(matches!(refused, Err(ClusterError::InvalidReplicaAssignment(_))));
        }
    }
}
