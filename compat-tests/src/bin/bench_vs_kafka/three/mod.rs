//! The same race with three brokers each: what replication costs, and how long clients wait when
//! a broker is restarted, dies or hangs.

mod faults;
mod lanes;
mod load;
mod many;
mod nodes;

use std::time::Instant;

use nodes::Nodes;
use tempfile::TempDir;

use crate::Settings;
use crate::race::{Durability, Who};
use crate::results::{Better, Key, Results};

/// Partitions of the topics under which brokers fail, and whether one hangs too.
const FAULTS: [(i32, bool); 2] = [(12, true), (48, false)];

/// Three brokers in their turn.
struct Turn<'a> {
    settings: &'a Settings,
    who: Who,
    durability: Durability,
    round: usize,
    nodes: Nodes,
    results: &'a mut Results,
    // Dropped behind the brokers.
    _dir: TempDir,
}

impl<'a> Turn<'a> {
    /// On empty directories.
    fn start(
        settings: &'a Settings,
        who: Who,
        durability: Durability,
        round: usize,
        results: &'a mut Results,
    ) -> Result<Turn<'a>, String> {
        let dir = TempDir::new().map_err(|error| error.to_string())?;
        let nodes = Nodes::start(settings, who, durability, dir.path())?;
        Ok(Turn { settings, who, durability, round, nodes, results, _dir: dir })
    }

    /// Keeps a value.
    fn add(&mut self, group: &str, name: &str, metric: &str, better: Better, value: f64) {
        self.results.add(self.who, Key::new(group, name, metric, better), value);
    }

    /// A row's name.
    fn named(&self, name: &str) -> String {
        match self.durability {
            Durability::Os => name.to_owned(),
            Durability::Fsync => format!("{name}, fsync"),
        }
    }

    /// What one has left to write shall not slow the other.
    fn end(self) {
        drop(self);
        // SAFETY: sync(2) takes nothing and returns nothing.
        unsafe { libc::sync() };
    }
}

/// All rounds.
pub fn race(settings: &Settings, results: &mut Results) -> Result<(), String> {
    let started = Instant::now();
    for round in 0..settings.rounds {
        for part in [loads_and_faults, loads_synced, many_partitions] {
            let mut order = vec![Who::Highwater, Who::Kafka];
            order.rotate_left(round % 2);
            order.retain(|who| settings.with_kafka || *who == Who::Highwater);
            for who in order {
                let text = format!("round {} of {}, {who:?}", round + 1, settings.rounds);
                eprintln!("{:4.0} s  {text}", started.elapsed().as_secs_f64());
                part(settings, who, round, results)?;
            }
        }
        // A run that is stopped has its rounds.
        results.write(&settings.results)?;
    }
    eprintln!("{:.0} s in all", started.elapsed().as_secs_f64());
    Ok(())
}

/// Tells what is going on.
fn tell(text: &str) {
    eprintln!("        {text}");
}

fn loads_synced(
    settings: &Settings,
    who: Who,
    round: usize,
    results: &mut Results,
) -> Result<(), String> {
    if !load::is_wanted(settings) {
        return Ok(());
    }
    let mut turn = Turn::start(settings, who, Durability::Fsync, round, results)?;
    load::measure(&mut turn)?;
    turn.end();
    Ok(())
}

fn loads_and_faults(
    settings: &Settings,
    who: Who,
    round: usize,
    results: &mut Results,
) -> Result<(), String> {
    let faults = FAULTS.iter().filter(|(partitions, _)| {
        // Apache Kafka takes minutes over them: the larger topic has one round.
        let its_round = *partitions == FAULTS[0].0 || round == 0 && !settings.quick;
        settings.wants(&faults::name(*partitions)) && its_round
    });
    let faults: Vec<_> = faults.collect();
    if faults.is_empty() && !load::is_wanted(settings) {
        return Ok(());
    }
    let mut turn = Turn::start(settings, who, Durability::Os, round, results)?;
    load::measure(&mut turn)?;
    for (partitions, hangs) in faults {
        faults::measure(&mut turn, *partitions, *hangs)?;
    }
    turn.end();
    Ok(())
}

fn many_partitions(
    settings: &Settings,
    who: Who,
    round: usize,
    results: &mut Results,
) -> Result<(), String> {
    if !settings.wants(many::NAME) {
        return Ok(());
    }
    let mut turn = Turn::start(settings, who, Durability::Os, round, results)?;
    many::measure(&mut turn)?;
    turn.end();
    Ok(())
}
