//! Does to the cluster what the schedule says, heals it, and waits until all is well again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::requests::{METADATA_VERSION, metadata};

use crate::client::Client;
use crate::clock::Clock;
use crate::cluster::{Cluster, IDS};
use crate::consumer::read_everything;
use crate::disk::Disk;
use crate::history::{Log, Ms, Partition};
use crate::moves;
use crate::network::Network;
use crate::rules::{CLIENTS, Host, Rules, Trouble};
use crate::run::READS_WITHIN;
use crate::schedule::{Dice, Fault, Step, Target};
use crate::stalls::Window;

/// How long the cluster may take to be well again.
const RECOVERS_WITHIN: Duration = Duration::from_secs(60);
/// How often the cluster is looked at.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// Set by a signal: the run ends early.
pub static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whoever does it.
pub struct Nemesis<'a> {
    /// The brokers.
    pub cluster: &'a mut Cluster,
    /// Their network, where there is one.
    pub network: Option<Arc<Network>>,
    /// The clock of one broker, where it can be set.
    pub clock: Option<Clock>,
    /// The disks of the brokers, where they can be made slow.
    pub disk: Option<Disk>,
    /// Whether partitions can move.
    pub moves: bool,
    /// Partitions that have other replicas than they shall have in the end.
    pub moved: Vec<Partition>,
    /// Asks who leads.
    pub client: Client<'a>,
    /// What was done, and how long it is answered for.
    pub windows: Vec<Window>,
    /// What went wrong beside what the clients see.
    pub problems: Vec<String>,
    /// When no further fault begins.
    pub until: Instant,
}

impl Nemesis<'_> {
    /// Goes through a schedule as long as there is time.
    pub fn run(&mut self, schedule: impl Iterator<Item = Step>) {
        for (number, step) in (1..).zip(schedule) {
            if !self.goes_on() || Instant::now() > self.until {
                break;
            }
            self.step(number, step);
        }
    }

    fn goes_on(&self) -> bool {
        !INTERRUPTED.load(Ordering::Relaxed)
    }

    fn step(&mut self, number: u32, step: Step) {
        let mut dice = Dice::new(step.dice);
        let Some(victim) = self.victim(step.fault, &mut dice) else {
            self.problem(format!("{number}: nobody says whom {} would hit", step.fault));
            return;
        };
        let from = self.client.shared.now();
        let (at, hold) = (f64::from(from) / 1e3, step.hold_ms as f64 / 1e3);
        let whom = match step.fault.target() {
            Some(_) => format!("broker {victim}, "),
            None => String::new(),
        };
        let leaders = self.leaders();
        println!("{at:7.1} s  {number:3}  {}: {whom}{hold:.1} s; leaders {leaders}", step.fault);
        // Every third fault comes while a partition changes its replicas.
        if self.moves && (step.fault == Fault::Reassign || dice.below(3) == 0) {
            self.reassign(&mut dice);
        }
        // A partition that has two replicas for a while waits for both of them.
        let moving = step.fault != Fault::Reassign && !self.moved.is_empty();
        let beside = if moving { ", a partition moving" } else { "" };
        let name = format!("{}{beside}", step.fault.name());
        self.inflict(step, victim, &mut dice);
        self.heal(victim);
        let healed = self.client.shared.now();
        let seconds = match self.wait_until_well(healed) {
            Ok(()) => f64::from(self.client.shared.now() - healed) / 1e3,
            Err(why) => {
                self.problem(format!("{number}: {} is not recovered from: {why}", step.fault));
                RECOVERS_WITHIN.as_secs_f64()
            }
        };
        if seconds > 5.0 {
            println!("               well again after {seconds:.1} s");
        }
        let to = self.client.shared.now();
        self.windows.push(Window { name, from, to });
        self.rest(step.calm_ms);
    }

    fn problem(&mut self, text: String) {
        println!("PROBLEM  {text}");
        self.problems.push(text);
    }

    /// Sleeps, and looks whether the brokers live.
    fn rest(&mut self, milliseconds: u64) {
        let end = Instant::now() + Duration::from_millis(milliseconds);
        while self.goes_on() && Instant::now() < end {
            thread::sleep(LOOKS_EVERY.min(end.saturating_duration_since(Instant::now())));
            self.look();
        }
    }

    fn look(&mut self) {
        for ended in self.cluster.ended() {
            self.problem(ended);
        }
    }

    /// Whom a fault hits. Whoever is asked may be down or wrong for a moment.
    fn victim(&mut self, fault: Fault, dice: &mut Dice) -> Option<i32> {
        let target = match fault {
            Fault::ClockJump(_) => return self.clock.as_ref().map(Clock::broker),
            _ => fault.target(),
        };
        let deadline = Instant::now() + RECOVERS_WITHIN;
        let partition = dice.below(self.client.shared.ends.len() as u64) as Partition;
        while Instant::now() < deadline {
            let found = match target {
                Some(Target::Controller) => self.controller(),
                Some(Target::Follower) => {
                    let others = self.leader(partition).map(others);
                    others.and_then(|others| dice.pick(&others).copied())
                }
                Some(Target::Leader) | None => self.leader(partition),
            };
            if found.is_some() {
                return found;
            }
            thread::sleep(LOOKS_EVERY);
        }
        None
    }

    fn leader(&mut self, partition: Partition) -> Option<i32> {
        self.client.forget(partition);
        Some(self.client.leader(partition).ok()?.id)
    }

    fn controller(&mut self) -> Option<i32> {
        let broker = self.client.anyone();
        let answer = self.client.call(broker, METADATA_VERSION, &metadata(&[], false)).ok()?;
        Some(answer.controller_id.0).filter(|id| IDS.contains(id))
    }

    fn inflict(&mut self, step: Step, victim: i32, dice: &mut Dice) {
        match step.fault {
            Fault::Kill(_) => self.cluster.kill(&[victim]),
            Fault::KillAll => self.cluster.kill(&IDS),
            Fault::Pause(_) => self.cluster.pause(victim),
            Fault::RollingRestart => return self.rolling_restart(),
            Fault::ClockJump(_) => {
                if let Some(Err(error)) = self.clock.as_ref().map(|clock| clock.jump(dice)) {
                    self.problem(error);
                }
            }
            Fault::SlowDisk(_) => {
                let pid = self.cluster.pid(victim);
                if let Some(Err(error)) = self.disk.as_ref().map(|disk| disk.slow_down(pid, dice)) {
                    self.problem(error);
                }
            }
            Fault::ElectLeaders => return self.elect_leaders(step.hold_ms),
            fault => {
                if let Some(network) = &self.network {
                    network.set(|rules| trouble(rules, fault, victim, dice));
                }
            }
        }
        self.rest(step.hold_ms);
    }

    /// One after the other goes down and comes back; the next one waits until all is well.
    fn rolling_restart(&mut self) {
        for id in IDS {
            if let Err(error) = self.cluster.terminate(id) {
                self.problem(error);
            }
            self.heal(id);
            let now = self.client.shared.now();
            if let Err(why) = self.wait_until_well(now) {
                self.problem(format!("after the restart of broker {id}: {why}"));
            }
        }
    }

    fn heal(&mut self, victim: i32) {
        self.look();
        if let Some(network) = &self.network {
            network.set(|_| {});
        }
        if let Some(Err(error)) = self.clock.as_ref().map(Clock::reset) {
            self.problem(error);
        }
        if let Some(Err(error)) = self.disk.as_ref().map(Disk::reset) {
            self.problem(error);
        }
        self.cluster.resume(victim);
        if let Err(error) = self.cluster.start_all() {
            self.problem(format!("a broker cannot be started: {error}"));
        }
        for partition in std::mem::take(&mut self.moved) {
            self.move_back(partition);
        }
    }

    /// Gives some partition other replicas.
    fn reassign(&mut self, dice: &mut Dice) {
        let partition = dice.below(self.client.shared.ends.len() as u64) as Partition;
        let replicas = moves::draw_replicas(dice);
        let (topic, index) = self.client.shared.place(partition);
        println!("               {topic}-{index} moves to {replicas:?}");
        // Without an answer it may come to it, too.
        self.moved.push(partition);
        if let Err(failure) = moves::reassign(&mut self.client, partition, &replicas) {
            self.client.failed("reassign", partition, &failure);
        }
    }

    fn move_back(&mut self, partition: Partition) {
        let deadline = Instant::now() + RECOVERS_WITHIN;
        while let Err(failure) = moves::reassign(&mut self.client, partition, &IDS) {
            self.client.failed("reassign", partition, &failure);
            if Instant::now() > deadline {
                return self.problem(format!("a partition is not moved: {}", failure.name()));
            }
        }
    }

    fn elect_leaders(&mut self, hold_ms: u64) {
        let end = Instant::now() + Duration::from_millis(hold_ms);
        while self.goes_on() && Instant::now() < end {
            if let Err(failure) = moves::elect_preferred(&mut self.client) {
                self.client.history.error(format!("elect leaders: {}", failure.name()));
            }
            self.rest(LOOKS_EVERY.as_millis() as u64);
        }
    }

    /// Reads everything while each broker in turn is down, so that others lead what it has led:
    /// every replica has to show what it holds. Nobody produces any more.
    pub fn read_without_each(&mut self, logs: &mut Vec<Log>) {
        for id in IDS {
            if !self.goes_on() {
                return;
            }
            let killed = Instant::now();
            self.cluster.kill(&[id]);
            match read_everything(&mut self.client, READS_WITHIN) {
                Ok(log) => logs.push(log),
                Err(why) => self.problem(format!("nothing is read without broker {id}: {why}")),
            }
            let read = killed.elapsed().as_secs_f64();
            self.heal(id);
            if let Err(why) = self.wait_until(Nemesis::out_of_sync) {
                self.problem(format!("after the death of broker {id}: {why}"));
            }
            let well = killed.elapsed().as_secs_f64() - read;
            println!("               broker {id}: read in {read:.1} s, in sync {well:.1} s later");
        }
    }

    /// Until every partition has acknowledged something since then, and has all its replicas in
    /// sync.
    fn wait_until_well(&mut self, since: Ms) -> Result<(), String> {
        self.wait_until(|own| own.silent(since).or_else(|| own.out_of_sync()))
    }

    /// Until `unwell` has nothing to say; else, the last that it said.
    fn wait_until(
        &mut self,
        mut unwell: impl FnMut(&mut Self) -> Option<String>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + RECOVERS_WITHIN;
        loop {
            let Some(why) = unwell(self) else { return Ok(()) };
            if !self.goes_on() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(why);
            }
            self.rest(LOOKS_EVERY.as_millis() as u64);
        }
    }

    fn silent(&self, since: Ms) -> Option<String> {
        let shared = self.client.shared;
        let silent = shared.partitions().find(|partition| {
            shared.last_acknowledged[usize::from(*partition)].load(Ordering::Relaxed) <= since
        });
        let (topic, index) = shared.place(silent?);
        Some(format!("{topic}-{index} has acknowledged nothing since {since} ms"))
    }

    /// Who leads the partitions, as some broker says.
    fn leaders(&mut self) -> String {
        let topics: Vec<&str> =
            self.client.shared.topics.iter().map(|(topic, _)| topic.as_str()).collect();
        let broker = self.client.anyone();
        let answer = self.client.call(broker, METADATA_VERSION, &metadata(&topics, false));
        let Ok(answer) = answer else { return "unknown".to_owned() };
        let rows = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let mut leaders: Vec<(i32, i32)> =
            rows.map(|row| (row.partition_index, row.leader_id.0)).collect();
        leaders.sort_unstable();
        leaders.iter().map(|(_, leader)| leader.to_string()).collect::<Vec<_>>().join(" ")
    }

    fn out_of_sync(&mut self) -> Option<String> {
        let topics: Vec<&str> =
            self.client.shared.topics.iter().map(|(topic, _)| topic.as_str()).collect();
        let broker = self.client.anyone();
        let answer = match self.client.call(broker, METADATA_VERSION, &metadata(&topics, false)) {
            Ok(answer) => answer,
            Err(error) => return Some(format!("broker {broker} gives no metadata: {error}")),
        };
        let rows = answer.topics.iter().flat_map(|t| t.partitions.iter().map(move |p| (t, p)));
        let bad = rows.into_iter().find(|(_, row)| row.isr_nodes.len() < IDS.len())?;
        let name = bad.0.name.as_ref().map_or("", |name| name.0.as_str());
        Some(format!(
            "broker {broker} says that of {name}-{} only {:?} are in sync",
            bad.1.partition_index, bad.1.isr_nodes
        ))
    }
}

fn others(id: i32) -> Vec<i32> {
    IDS.into_iter().filter(|other| *other != id).collect()
}

/// What a fault means for the network.
fn trouble(rules: &mut Rules, fault: Fault, victim: i32, dice: &mut Dice) {
    let host = |id: i32| Host::try_from(id).unwrap_or_default();
    let own = host(victim);
    let peers: Vec<Host> = others(victim).into_iter().map(host).collect();
    let everybody: Vec<Host> = peers.iter().copied().chain([CLIENTS]).collect();
    let cut = Trouble { cut: true, ..Trouble::default() };
    match fault {
        Fault::Isolate(_) => everybody.iter().for_each(|to| rules.set_both(own, *to, cut)),
        Fault::CutFromPeers(_) => peers.iter().for_each(|to| rules.set_both(own, *to, cut)),
        Fault::Mute(_) => peers.iter().for_each(|to| rules.set(own, *to, cut)),
        Fault::Deafen(_) => peers.iter().for_each(|from| rules.set(*from, own, cut)),
        Fault::OneWay(_) => peers.iter().for_each(|to| rules.set_one_way(own, *to)),
        Fault::CutPair(_) => {
            if let Some(peer) = dice.pick(&peers) {
                rules.set_both(own, *peer, cut);
            }
        }
        Fault::SlowLink(_) => {
            let delay = Duration::from_millis(20 + dice.below(280));
            let slow = Trouble { delay, ..Trouble::default() };
            everybody.iter().for_each(|to| rules.set_both(own, *to, slow));
        }
        Fault::PacketLoss(_) => {
            let lossy = Trouble { lost_of_1000: 20 + dice.below(180), ..Trouble::default() };
            everybody.iter().for_each(|to| rules.set_both(own, *to, lossy));
        }
        Fault::Kill(_)
        | Fault::KillAll
        | Fault::Pause(_)
        | Fault::RollingRestart
        | Fault::ClockJump(_)
        | Fault::SlowDisk(_)
        | Fault::Reassign
        | Fault::ElectLeaders => {}
    }
}
