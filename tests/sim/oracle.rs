//! What must hold at every moment, and of the logs in the end.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use cluster::testing::{NODES, logs};
use protocol::record_batch::RecordBatch;

use crate::workload::{CONSUMERS, PRODUCERS};
use crate::world::{PARTITIONS, World, replica};

/// Looks at every broker at every step.
#[derive(Default)]
pub struct Oracle {
    /// Highest watermark that any leader has shown, by partition.
    shown: BTreeMap<i32, i64>,
    /// Who has led, by partition and epoch.
    leaders: BTreeMap<(i32, i32), u64>,
}

impl Oracle {
    pub fn observe(&mut self, world: &World) {
        for (id, services) in world.running() {
            for partition in 0..PARTITIONS {
                if let Some(replica) = replica(&services, partition)
                    && replica.is_leader()
                {
                    let offsets = replica.offsets();
                    self.on_leader(id, partition, offsets.leader_epoch.0, offsets.high_watermark.0);
                }
            }
        }
    }

    fn on_leader(&mut self, id: u64, partition: i32, epoch: i32, high_watermark: i64) {
        let leader = *self.leaders.entry((partition, epoch)).or_insert(id);
        assert_eq!(leader, id, "two leaders of partition {partition} in epoch {epoch}");
        let newest = self.leaders.range((partition, 0)..(partition + 1, 0)).next_back();
        if newest.is_some_and(|((_, newest), _)| *newest == epoch) {
            let shown = self.shown.entry(partition).or_default();
            assert!(
                *shown <= high_watermark,
                "leader {id} of {partition} shows {high_watermark}, {shown} was shown before"
            );
            *shown = high_watermark;
        }
    }

    /// Whether everything has healed: all run, every client gets on, and all brokers hold the same
    /// logs, committed to their ends.
    pub fn healed(world: &World, wanted: u32) -> bool {
        let gets_on = |client: &&str| {
            world.state().done_since_healing.get(*client).is_some_and(|done| *done >= wanted)
        };
        let running = world.running();
        running.len() == NODES.len()
            && PRODUCERS.iter().chain(&CONSUMERS).all(gets_on)
            && (0..PARTITIONS).all(|partition| {
                let ends = running.iter().map(|(_, services)| {
                    let offsets = replica(services, partition)?.offsets();
                    let all_committed = offsets.high_watermark == offsets.log_end_offset;
                    all_committed.then_some((offsets.log_start_offset, offsets.high_watermark))
                });
                let ends: Vec<_> = ends.collect();
                ends[0].is_some() && ends.iter().all(|end| *end == ends[0])
            })
    }

    /// The logs, at a moment when all are the same.
    pub fn check_logs(world: &World) -> u64 {
        let mut hasher = DefaultHasher::new();
        for partition in 0..PARTITIONS {
            let mut copies = world.running().into_iter().map(|(id, services)| {
                let replica = replica(&services, partition).expect("the partition exists");
                (id, logs::committed_bytes(&replica))
            });
            let (first_id, first) = copies.next().expect("a broker runs");
            for (id, bytes) in copies {
                assert_eq!(bytes, first, "brokers {first_id} and {id} differ on {partition}");
            }
            first.hash(&mut hasher);
            check_records(world, partition, &records(&logs::batches(&first)));
        }
        hasher.finish()
    }
}

/// The values by their offsets, which have no hole.
fn records(batches: &BTreeMap<i64, RecordBatch>) -> Vec<String> {
    let mut values = Vec::new();
    for batch in batches.values() {
        for record in batch.records(1 << 20).expect("uncompressed") {
            let record = record.expect("a record");
            assert_eq!(record.offset.0, values.len() as i64, "a hole in the offsets");
            let value = record.value.expect("a value").to_vec();
            values.push(String::from_utf8(value).expect("text"));
        }
    }
    values
}

fn check_records(world: &World, partition: i32, values: &[String]) {
    let mut next: BTreeMap<&str, u64> = BTreeMap::new();
    for value in values {
        let (producer, number) = value.rsplit_once('/').expect("a producer and a number");
        let next = next.entry(producer).or_default();
        assert_eq!(number, next.to_string(), "{value} is doubled, missing or out of order");
        *next += 1;
    }
    let state = world.state();
    for ((_, offset), value) in state.read.range((partition, 0)..(partition + 1, 0)) {
        let found = values.get(*offset as usize);
        assert_eq!(found, Some(value), "what was read at {partition}:{offset} is not there");
    }
    for acked in state.acked.iter().filter(|acked| acked.partition == partition) {
        let found = match acked.base_offset {
            Some(base_offset) => values.get(base_offset as usize..),
            None => {
                values.iter().position(|value| *value == acked.values[0]).map(|at| &values[at..])
            }
        };
        let is_there = found.is_some_and(|values| values.starts_with(&acked.values));
        assert!(is_there, "{acked:?} was acknowledged and is not there");
    }
}
