//! What outlives the simulated machines: their disks, the handles of those that run, what clients
//! were told, the trace.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use cluster::replica::Replica;
use cluster::testing::faults::Scene;
use cluster::testing::machine::Machine;
use cluster::testing::{NODES, has_whole_logs};
use highwater::context::Services;
use protocol::types::PartitionId;

pub const TOPIC: &str = "orders";
pub const PARTITIONS: i32 = 3;

/// A batch that was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acked {
    pub partition: i32,
    pub values: Vec<String>,
    /// Unknown where the broker knows the batch as a duplicate of one long gone.
    pub base_offset: Option<i64>,
}

#[derive(Default)]
pub struct State {
    pub running: BTreeMap<u64, Arc<Services>>,
    pub trace: Vec<String>,
    pub acked: Vec<Acked>,
    /// Every record that a consumer was ever shown, by partition and offset.
    pub read: BTreeMap<(i32, i64), String>,
    pub formed: bool,
    /// Faults are over: from now on things must heal.
    pub healing: bool,
    /// What each client has done since healing began.
    pub done_since_healing: BTreeMap<String, u32>,
}

/// Shared by machines, workload and faults; everything runs on one thread.
pub struct World {
    pub seed: u64,
    pub machines: BTreeMap<u64, Machine>,
    state: Mutex<State>,
}

impl World {
    pub fn new(seed: u64) -> Arc<World> {
        let machine = |id: u64| Machine::new(seed.wrapping_mul(31).wrapping_add(id));
        Arc::new(World {
            seed,
            machines: NODES.iter().map(|id| (*id, machine(*id))).collect(),
            state: Mutex::default(),
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    pub fn trace(&self, event: String) {
        let at = cluster::testing::elapsed();
        if std::env::var_os("TRACE").is_some() {
            println!("{at:?} {event}");
        }
        self.state().trace.push(format!("{at:?} {event}"));
    }

    /// A client has got something done.
    pub fn on_done(&self, client: &str) {
        let mut state = self.state();
        if state.healing {
            *state.done_since_healing.entry(client.to_owned()).or_default() += 1;
        }
    }

    /// A consumer was shown a record: the same as whoever read that offset before.
    pub fn on_read(&self, partition: i32, offset: i64, value: String) {
        let mut state = self.state();
        let before = state.read.entry((partition, offset)).or_insert_with(|| value.clone());
        assert_eq!(*before, value, "offset {offset} of partition {partition} has changed");
    }

    pub fn running(&self) -> Vec<(u64, Arc<Services>)> {
        self.state().running.iter().map(|(id, services)| (*id, services.clone())).collect()
    }

    /// Who leads what, and how far the clients are.
    pub fn describe(&self) -> String {
        let running = self.running();
        let mut lines = vec![format!("{:?}", self.state().done_since_healing)];
        for (id, services) in &running {
            lines.push(format!("node {id}: controller {:?}", services.cluster.controller()));
            for replica in (0..PARTITIONS).filter_map(|partition| replica(services, partition)) {
                lines.push(format!("  {:?} {:?}", replica.leadership(), replica.offsets()));
            }
        }
        lines.join("\n")
    }

    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.state().trace.hash(&mut hasher);
        hasher.finish()
    }
}

/// A broker's replica of a partition of the topic.
pub fn replica(services: &Services, partition: i32) -> Option<Arc<Replica>> {
    let image = services.cluster.metadata();
    services.cluster.replica(image.topic(TOPIC)?.id, PartitionId(partition)).ok()
}

impl Scene for World {
    fn machine(&self, id: u64) -> &Machine {
        &self.machines[&id]
    }

    fn trace(&self, event: String) {
        World::trace(self, event);
    }

    fn is_whole(&self) -> bool {
        let running = self.running();
        let is_whole = |services: &Services| has_whole_logs(&services.cluster);
        running.len() == NODES.len() && running.iter().all(|(_, services)| is_whole(services))
    }

    fn on_crash(&self, id: u64) {
        self.state().running.remove(&id);
    }
}
