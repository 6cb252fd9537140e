//! Brokers are killed, stopped and restarted under a load; told are the pauses of partitions.

use std::time::Duration;

use compat_tests::cluster::IDS;
use compat_tests::pauses::{Ms, longest};

use super::lanes::{Stream, Trace, Traffic, lost};
use super::{Turn, tell};
use crate::load::new_topic;
use crate::results::{Better, median};

/// The table.
const GROUP: &str = "restarts and failures of one of three brokers";
/// How often each partition is probed.
const PROBE_EVERY: Duration = Duration::from_millis(20);
/// The load beside it: batches of 16 KB, 120 a second over all partitions.
const LOAD_PARTITIONS: i32 = 12;
const LOAD_EVERY: Duration = Duration::from_millis(100);
const LOAD_RECORDS: u32 = 16;
/// How long a fault is watched at least, and how long nothing happens before the first one.
const WATCHED: Duration = Duration::from_secs(4);

/// As `--only` finds it.
pub fn name(partitions: i32) -> String {
    format!("{GROUP}/{partitions} partitions")
}

/// A fault, from its start until all is well again.
struct Fault {
    name: &'static str,
    from: Ms,
    to: Ms,
    /// Partitions of the probed topic that the broker led.
    led: Vec<i32>,
}

struct Scene {
    topics: [(String, i32); 2],
    traffic: Traffic,
    faults: Vec<Fault>,
}

/// Everything that happens to a topic of so many partitions.
pub fn measure(turn: &mut Turn, partitions: i32, hangs: bool) -> Result<(), String> {
    let topics = [(new_topic(), partitions), (new_topic(), LOAD_PARTITIONS)];
    for (topic, partitions) in &topics {
        turn.nodes.create_topic(topic, *partitions)?;
    }
    let [probe, load] = &topics;
    let probe = Stream { topic: probe.0.clone(), partitions, every: PROBE_EVERY, records: 1 };
    let load = Stream {
        topic: load.0.clone(),
        partitions: LOAD_PARTITIONS,
        every: LOAD_EVERY,
        records: LOAD_RECORDS,
    };
    let traffic = Traffic::start(&turn.nodes.addresses, &[probe, load]);
    let mut scene = Scene { topics, traffic, faults: Vec::new() };
    scene.nothing(turn)?;
    scene.kill(turn)?;
    if hangs {
        scene.hang(turn)?;
    }
    scene.rolling_restart(turn)?;
    let traces = scene.traffic.stop()?;
    tell("what was acknowledged is read");
    for fault in &scene.faults {
        report(turn, partitions, fault, &traces, &scene.topics[0].0);
    }
    let name = format!("{partitions} partitions, after all of it");
    let failed: u64 = traces.iter().map(|trace| trace.failed).sum();
    turn.add(GROUP, &name, "produces that failed after retries", Better::Less, failed as f64);
    let lost = lost(&turn.nodes, &traces)? as f64;
    turn.add(GROUP, &name, "acknowledged batches lost", Better::Less, lost);
    scene.topics.iter().try_for_each(|(topic, _)| turn.nodes.delete_topic(topic))
}

impl Scene {
    /// All replicas are in sync, leaders are where they belong, records flow.
    fn settle(&self, turn: &Turn) -> Result<(), String> {
        self.in_sync(turn)?;
        turn.nodes.elect_preferred_leaders()?;
        self.traffic.wait_until_it_flows(Duration::from_secs(2))
    }

    fn in_sync(&self, turn: &Turn) -> Result<(), String> {
        let topics = self.topics.each_ref().map(|(name, count)| (name.as_str(), *count));
        turn.nodes.wait_in_sync(&topics)
    }

    fn watched(turn: &Turn) -> Duration {
        if turn.settings.quick { WATCHED / 2 } else { WATCHED }
    }

    fn led_by(&self, turn: &Turn, id: i32) -> Result<Vec<i32>, String> {
        let mut leaders = turn.nodes.leaders(&self.topics[0].0)?;
        Ok(leaders.remove(&id).unwrap_or_default())
    }

    fn over(&mut self, name: &'static str, from: Ms, led: Vec<i32>) {
        self.faults.push(Fault { name, from, to: self.traffic.now(), led });
    }

    /// What a pause is when nothing happens.
    fn nothing(&mut self, turn: &Turn) -> Result<(), String> {
        self.settle(turn)?;
        let from = self.traffic.now();
        self.traffic.wait_until_it_flows(Scene::watched(turn))?;
        self.over("nothing happens", from, Vec::new());
        Ok(())
    }

    fn kill(&mut self, turn: &mut Turn) -> Result<(), String> {
        self.settle(turn)?;
        let id = IDS[turn.round % IDS.len()];
        let (led, from) = (self.led_by(turn, id)?, self.traffic.now());
        tell(&format!("kill -9 of broker {id}"));
        turn.nodes.kill(id);
        self.traffic.wait_until_it_flows(Scene::watched(turn))?;
        self.over("kill -9", from, led);
        turn.nodes.restart(id)
    }

    fn hang(&mut self, turn: &mut Turn) -> Result<(), String> {
        self.settle(turn)?;
        let id = IDS[(turn.round + 1) % IDS.len()];
        let (led, from) = (self.led_by(turn, id)?, self.traffic.now());
        tell(&format!("broker {id} hangs"));
        turn.nodes.signal(id, libc::SIGSTOP);
        let flows = self.traffic.wait_until_it_flows(Scene::watched(turn) * 2);
        turn.nodes.signal(id, libc::SIGCONT);
        flows?;
        self.in_sync(turn)?;
        self.over("a hang", from, led);
        Ok(())
    }

    fn rolling_restart(&mut self, turn: &mut Turn) -> Result<(), String> {
        self.settle(turn)?;
        let from = self.traffic.now();
        for id in IDS {
            tell(&format!("broker {id} is restarted"));
            turn.nodes.terminate(id)?;
            turn.nodes.restart(id)?;
            self.in_sync(turn)?;
            self.traffic.wait_until_it_flows(Scene::watched(turn) / 4)?;
        }
        self.over("rolling restart", from, Vec::new());
        Ok(())
    }
}

fn report(turn: &mut Turn, partitions: i32, fault: &Fault, traces: &[Trace], topic: &str) {
    let of = |led: bool| -> Vec<f64> {
        let probed = traces.iter().filter(|trace| trace.topic == topic);
        let chosen = probed.filter(|trace| fault.led.contains(&trace.partition) == led);
        let pause = |trace: &Trace| longest(&trace.acknowledged_at, fault.from, fault.to);
        chosen.map(|trace| f64::from(pause(trace))).collect()
    };
    let name = format!("{partitions} partitions, {}", fault.name);
    let mut add = |pauses: &[f64], which: &str| {
        let most = pauses.iter().copied().fold(0.0, f64::max);
        turn.add(GROUP, &name, &format!("longest pause{which}, ms"), Better::Less, most);
        if let Some(median) = median(pauses) {
            turn.add(GROUP, &name, &format!("median pause{which}, ms"), Better::Less, median);
        }
    };
    if fault.led.is_empty() {
        add(&of(false), "");
    } else {
        add(&of(true), " of partitions it led");
        add(&of(false), " of the others");
    }
}
