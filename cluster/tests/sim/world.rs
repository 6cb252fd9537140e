//! What outlives the simulated machines: their disks, the handles of those that run, the trace.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use cluster::Cluster;
use cluster::testing::faults::Scene;
use cluster::testing::machine::Machine;
use cluster::testing::{NODES, has_whole_logs};
use protocol::types::{BrokerId, PartitionId, TopicId};
use uuid::Uuid;

pub const TOPIC: TopicId = TopicId(Uuid::from_u128(7));
pub const PARTITION: PartitionId = PartitionId(0);

/// A batch that was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acked {
    pub producer: i64,
    pub sequence: i32,
    pub base_offset: i64,
}

#[derive(Default)]
pub struct State {
    pub running: BTreeMap<u64, Arc<Cluster>>,
    pub trace: Vec<String>,
    pub acked: Vec<Acked>,
    pub topics_acked: Vec<String>,
    /// Faults are over: from now on things must heal.
    pub healing: bool,
    /// Acknowledgements since healing began, by producer.
    pub acked_since_healing: BTreeMap<i64, u32>,
    pub log_start_acked: i64,
    pub formed: bool,
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

    pub fn on_acked(&self, acked: Acked) {
        let mut state = self.state();
        state.acked.push(acked);
        if state.healing {
            *state.acked_since_healing.entry(acked.producer).or_default() += 1;
        }
    }

    pub fn on_log_start(&self, offset: i64) {
        let mut state = self.state();
        state.log_start_acked = state.log_start_acked.max(offset);
    }

    pub fn running(&self) -> Vec<(u64, Arc<Cluster>)> {
        self.state().running.iter().map(|(id, cluster)| (*id, cluster.clone())).collect()
    }

    /// The broker that leads the partition, as far as it is concerned itself.
    pub fn leader(&self) -> Option<Arc<cluster::replica::Replica>> {
        let running = self.running();
        let replicas = running.iter().filter_map(|(_, node)| node.replica(TOPIC, PARTITION).ok());
        replicas.filter(|replica| replica.is_leader()).max_by_key(|r| r.offsets().leader_epoch)
    }

    pub fn controller(&self) -> Option<Arc<Cluster>> {
        let running = self.running();
        let leads = |id: u64, node: &Cluster| node.controller() == Some(BrokerId(id as i32));
        running.into_iter().find(|(id, node)| leads(*id, node)).map(|(_, node)| node)
    }

    pub fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.state().trace.hash(&mut hasher);
        hasher.finish()
    }
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
        running.len() == NODES.len() && running.iter().all(|(_, node)| has_whole_logs(node))
    }

    fn on_crash(&self, id: u64) {
        self.state().running.remove(&id);
    }
}
