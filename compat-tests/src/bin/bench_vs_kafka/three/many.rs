//! A thousand partitions with three replicas each: how long they take to make, and what they cost
//! when nobody does anything.

use std::thread;
use std::time::{Duration, Instant};

use compat_tests::Broker;

use super::{Turn, tell};
use crate::load::new_topic;
use crate::results::Better;

/// The table.
pub const NAME: &str = "a thousand partitions on three brokers";
const PARTITIONS: i32 = 1_000;
/// With `--quick`.
const FEW: i32 = 100;
/// How long brokers are left alone before they are looked at, and how long they are looked at.
const IDLE: Duration = Duration::from_secs(5);
const MEBIBYTE: f64 = (1 << 20) as f64;

/// Measures it.
pub fn measure(turn: &mut Turn) -> Result<(), String> {
    let partitions = if turn.settings.quick { FEW } else { PARTITIONS };
    let name = &format!("{partitions} partitions, 3 replicas");
    idle(turn, "no partitions", if turn.settings.quick { IDLE / 5 } else { IDLE });
    let topic = new_topic();
    let started = Instant::now();
    turn.nodes.create_topic(&topic, partitions)?;
    let created = started.elapsed().as_secs_f64();
    tell(&format!("{name}: made in {created:.2} s"));
    turn.add(NAME, name, "s until all serve and are in sync", Better::Less, created);
    let leaders = turn.nodes.leaders(&topic)?;
    let counts = leaders.values().map(|led| led.len() as f64);
    let most = counts.clone().fold(0.0, f64::max);
    let least = counts.fold(f64::INFINITY, f64::min);
    turn.add(NAME, name, "leaders on the broker with most", Better::Less, most);
    turn.add(NAME, name, "leaders on the broker with fewest", Better::More, least);
    idle(turn, name, if turn.settings.quick { IDLE / 5 } else { IDLE });
    Ok(())
}

fn idle(turn: &mut Turn, name: &str, time: Duration) {
    thread::sleep(time);
    let (cpu, started) = (turn.nodes.cpu_time(), Instant::now());
    thread::sleep(time);
    let cpu = turn.nodes.cpu_time().saturating_sub(cpu).as_secs_f64();
    let count = turn.nodes.brokers().count() as f64;
    let share = 100.0 * cpu / started.elapsed().as_secs_f64() / count;
    tell(&format!("{name}, idle: {share:.1} % of a core per broker"));
    turn.add(NAME, &format!("{name}, idle"), "% of a core per broker", Better::Less, share);
    let resident: u64 = turn.nodes.brokers().map(Broker::rss_bytes).sum();
    let resident = resident as f64 / MEBIBYTE / count;
    turn.add(NAME, &format!("{name}, idle"), "MiB resident per broker", Better::Less, resident);
}
