//! What must hold at every moment, and of the logs in the end.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use cluster::Cluster;
use cluster::replica::Replica;
use cluster::testing::{NODES, logs};
use protocol::record_batch::RecordBatch;
use protocol::types::Offset;

use crate::world::{PARTITION, TOPIC, World};

/// Looks at every machine at every step.
#[derive(Default)]
pub struct Oracle {
    /// Highest watermark seen, by machine, of which replica: one that was let go and came back
    /// begins anew, as does one of the machine's next life.
    watermarks: BTreeMap<u64, (Weak<Replica>, u64, i64)>,
    /// Highest watermark that any leader has shown to consumers.
    shown: i64,
    leaders: BTreeMap<i32, u64>,
}

impl Oracle {
    pub fn observe(&mut self, world: &World, lives: &BTreeMap<u64, u64>) {
        for (id, node) in world.running() {
            let Ok(replica) = node.replica(TOPIC, PARTITION) else { continue };
            let offsets = replica.offsets();
            let high_watermark = offsets.high_watermark.0;
            assert!(
                offsets.log_start_offset.0 <= high_watermark
                    && high_watermark <= offsets.log_end_offset.0,
                "offsets out of order on node {id}: {offsets:?}"
            );
            let (this, life) = (Arc::downgrade(&replica), lives[&id]);
            if let Some((before, life_before, seen)) = self.watermarks.get(&id) {
                let is_same = before.ptr_eq(&this) && *life_before == life;
                assert!(
                    !is_same || *seen <= high_watermark,
                    "high watermark of node {id} went back from {seen}"
                );
            }
            self.watermarks.insert(id, (this, life, high_watermark));
            if replica.is_leader() {
                let epoch = offsets.leader_epoch.0;
                let leader = *self.leaders.entry(epoch).or_insert(id);
                assert_eq!(leader, id, "two leaders in epoch {epoch}");
                let newest = self.leaders.keys().next_back() == Some(&epoch);
                if newest {
                    assert!(
                        self.shown <= high_watermark,
                        "leader {id} of epoch {epoch} shows {high_watermark}, {} was shown before",
                        self.shown
                    );
                    self.shown = high_watermark;
                }
            }
        }
    }

    /// Whether everything has healed: all run, all know the same log to be committed to its end.
    pub fn healed(world: &World, wanted_acks: u32) -> bool {
        let acks = {
            let state = world.state();
            let acks = state.acked_since_healing.values().copied().min().unwrap_or(0);
            if state.acked_since_healing.len() < crate::workload::PRODUCERS.len() {
                0
            } else {
                acks
            }
        };
        let running = world.running();
        if acks < wanted_acks || running.len() < NODES.len() {
            return false;
        }
        let ends: Vec<_> = running.iter().filter_map(|(_, node)| end(node)).collect();
        let images: Vec<_> = running.iter().map(|(_, node)| node.metadata()).collect();
        ends.len() == NODES.len()
            && ends.iter().all(|(start, committed, end)| {
                committed == end && (*start, *committed) == (ends[0].0, ends[0].1)
            })
            && images.iter().all(|image| *image == images[0])
    }

    /// The logs, once nothing changes any more.
    pub fn check_logs(world: &World) -> u64 {
        let mut logs = Vec::new();
        for (id, node) in world.running() {
            let replica = node.replica(TOPIC, PARTITION).expect("the partition exists");
            logs.push((id, logs::committed_bytes(&replica), replica.offsets()));
        }
        let (first_id, first, offsets) = &logs[0];
        for (id, bytes, _) in &logs[1..] {
            assert_eq!(bytes, first, "the logs of nodes {first_id} and {id} differ");
        }
        let batches = logs::batches(first);
        let mut next = offsets.log_start_offset.0;
        if let Some(first_batch) = batches.keys().next() {
            assert!(*first_batch <= next, "the log begins behind its start");
            next = *first_batch;
        }
        for (base, batch) in &batches {
            assert_eq!(*base, next, "a hole in the offsets");
            next = batch.header().next_offset().0;
        }
        assert_eq!(next, offsets.high_watermark.0, "the log ends early");
        check_acked(world, &batches, offsets.log_start_offset.0);
        check_topics(world);
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        first.hash(&mut hasher);
        hasher.finish()
    }
}

fn end(node: &Arc<Cluster>) -> Option<(Offset, Offset, Offset)> {
    let offsets = node.replica(TOPIC, PARTITION).ok()?.offsets();
    Some((offsets.log_start_offset, offsets.high_watermark, offsets.log_end_offset))
}

fn check_acked(world: &World, batches: &BTreeMap<i64, RecordBatch>, log_start: i64) {
    let state = world.state();
    assert!(log_start >= state.log_start_acked, "deleted records are back");
    let mut placed: BTreeMap<(i64, i32), i64> = BTreeMap::new();
    for (base, batch) in batches {
        let header = batch.header();
        let key = (header.producer_id.0, header.base_sequence);
        let before = placed.insert(key, *base);
        assert_eq!(before, None, "batch {key:?} is in the log twice");
    }
    for acked in &state.acked {
        if acked.base_offset < log_start {
            continue;
        }
        let at = placed.get(&(acked.producer, acked.sequence));
        assert_eq!(at, Some(&acked.base_offset), "{acked:?} was acknowledged and is not there");
    }
}

fn check_topics(world: &World) {
    for (id, node) in world.running() {
        let image = node.metadata();
        for topic in &world.state().topics_acked {
            assert!(image.topics.contains_key(topic), "node {id} lost topic {topic}");
        }
    }
}
