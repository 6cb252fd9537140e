//! Unclean elections: where the majority of a partition's Raft group is gone, one of its replicas
//! goes on alone with what it has. The others, should they come back, begin with an empty log and
//! are added to it like new ones, so nothing that only they had can come up again.
//!
//! Pure: no I/O, no clock, no randomness.

use protocol::types::{BrokerId, PartitionId, TopicId};

use super::apply::MetadataDelta;
use super::command::{CommandOutcome, CommandResult};
use super::image::{MetadataImage, Survivor};
use super::reassignments::{find, replace};
use crate::ClusterError;

/// What was decided.
pub(super) struct Election {
    pub topic: TopicId,
    pub partition: PartitionId,
    pub survivor: BrokerId,
    pub epoch: u64,
    pub altered_at: u64,
}

/// Makes a replica the only one that has something. Refused where the replicas are not those any
/// more that the decision was made for.
pub(super) fn elect(
    image: &mut MetadataImage,
    delta: &mut MetadataDelta,
    election: &Election,
) -> CommandResult {
    let found = find(image, election.topic, election.partition)?;
    let survivor = election.survivor;
    let has_records = found.replicas.contains(&survivor) && !found.adding.contains(&survivor);
    if !has_records || found.altered_at != election.altered_at {
        let reason = format!("{survivor} is no replica that could go on alone");
        return Err(ClusterError::InvalidReplicaAssignment(reason));
    }
    let mut changed = found.clone();
    // Whoever was to leave has nothing to hand over any more.
    changed.replicas.retain(|id| *id == survivor || !found.removing.contains(id));
    changed.removing.retain(|id| *id == survivor);
    changed.returning.clear();
    changed.adding = changed.replicas.iter().copied().filter(|id| *id != survivor).collect();
    changed.founders = vec![survivor];
    changed.log_ids.retain(|id, _| *id == survivor);
    for other in &changed.adding {
        changed.log_ids.insert(*other, image.next_group_id);
        image.next_group_id += 1;
    }
    let (number, epoch) = (image.next_group_id, election.epoch);
    image.next_group_id += 1;
    changed.survivor = Some(Survivor { broker: survivor, number, epoch });
    changed.altered_at = image.version;
    replace(image, delta, election.topic, changed);
    Ok(CommandOutcome::Done)
}

#[cfg(test)]
mod tests {
    use super::super::image::PartitionImage;
    use super::super::{BrokerImage, MetadataCommand, apply};
    use super::*;

    const TOPIC: TopicId = TopicId(uuid::Uuid::from_u128(1));
    const PARTITION: PartitionId = PartitionId(0);

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn carried_out(image: &MetadataImage, command: &MetadataCommand) -> MetadataImage {
        let (image, _, result) = apply(image, command);
        result.expect("carried out");
        image
    }

    fn image(replicas: &[i32]) -> MetadataImage {
        let register = |id| {
            let (rack, endpoints, peer_address) = (None, Vec::new(), None);
            let (id, directory_id) = (BrokerId(id), None);
            let broker = BrokerImage { id, rack, endpoints, peer_address, directory_id };
            MetadataCommand::RegisterBroker { broker }
        };
        let create = MetadataCommand::CreateTopic {
            name: "t".into(),
            id: TOPIC,
            assignment: vec![ids(replicas)],
            configs: std::collections::BTreeMap::new(),
        };
        let commands = (1..=4).map(register).chain([create]);
        commands.fold(MetadataImage::default(), |image, command| carried_out(&image, &command))
    }

    fn partition(image: &MetadataImage) -> PartitionImage {
        find(image, TOPIC, PARTITION).expect("there").clone()
    }

    fn election(image: &MetadataImage, survivor: i32) -> MetadataCommand {
        MetadataCommand::ElectUncleanLeader {
            topic: TOPIC,
            partition: PARTITION,
            survivor: BrokerId(survivor),
            epoch: 7,
            altered_at: partition(image).altered_at,
        }
    }

    fn reassign(image: &MetadataImage, target: &[i32]) -> MetadataImage {
        let command = MetadataCommand::AlterPartitionReassignment {
            topic: TOPIC,
            partition: PARTITION,
            target: Some(ids(target)),
        };
        carried_out(image, &command)
    }

    fn completed(image: &MetadataImage) -> MetadataImage {
        let command = MetadataCommand::CompletePartitionReassignment {
            topic: TOPIC,
            partition: PARTITION,
            altered_at: partition(image).altered_at,
        };
        carried_out(image, &command)
    }

    #[test]
    fn the_survivor_keeps_its_log_and_the_others_begin_anew() {
        let before = image(&[1, 2, 3]);
        let image = carried_out(&before, &election(&before, 2));
        let (before, after) = (partition(&before), partition(&image));
        assert_eq!((&after.replicas, after.group), (&before.replicas, before.group));
        assert_eq!((after.founders(), &after.adding), (&ids(&[2])[..], &ids(&[1, 3])));
        assert_eq!(after.log_id(BrokerId(2)), before.log_id(BrokerId(2)));
        for id in ids(&[1, 2, 3]) {
            assert_ne!(after.node_id(id), before.node_id(id), "{id} is another node");
            assert_ne!(after.call_number(id), before.call_number(id), "{id} is called otherwise");
        }
        assert_eq!(after.survivor_on(BrokerId(2)).map(|survivor| survivor.epoch), Some(7));
        let done = partition(&completed(&image));
        assert!(!done.is_reassigning() && done.node_id(BrokerId(2)) == after.node_id(BrokerId(2)));
    }

    #[test]
    fn another_one_may_survive_the_next_time() {
        let image = image(&[1, 2]);
        let image = completed(&carried_out(&image, &election(&image, 2)));
        let before = partition(&image);
        let after = partition(&carried_out(&image, &election(&image, 1)));
        assert_eq!(after.log_id(BrokerId(1)), before.log_id(BrokerId(1)));
        assert_ne!(after.log_id(BrokerId(2)), before.log_id(BrokerId(2)));
        assert_eq!(after.survivor_on(BrokerId(2)), None);
    }

    #[test]
    fn a_survivor_that_leaves_is_none_any_more() {
        let image = image(&[1, 2]);
        let image = carried_out(&image, &election(&image, 2));
        let image = completed(&reassign(&image, &[3, 4]));
        assert_eq!(partition(&image).survivor, None);
    }

    #[test]
    fn who_has_nothing_or_was_not_judged_is_refused() {
        let before = image(&[1, 2]);
        let late = election(&before, 1);
        assert!(apply(&before, &election(&before, 3)).2.is_err(), "no replica");
        let image = reassign(&before, &[1, 2, 3]);
        assert!(apply(&image, &election(&image, 3)).2.is_err(), "it is only being added");
        assert!(apply(&image, &late).2.is_err(), "the replicas have changed since");
    }
}
