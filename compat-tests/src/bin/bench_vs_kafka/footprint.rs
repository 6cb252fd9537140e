//! Start-up and memory.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::Broker;
use compat_tests::batches::batch;
use compat_tests::requests::{METADATA_VERSION, metadata};

use crate::race::{Durability, Turn, Who};
use crate::results::Better;

const MEBIBYTE: f64 = (1 << 20) as f64;
/// How long a broker is left alone before its memory and its idle processor time are looked at.
const IDLE: Duration = Duration::from_secs(1);

/// The first acknowledged produce, to a topic that comes into being by it, and what the broker
/// needs when nobody does anything.
pub fn start_up(turn: &mut Turn, started: Instant, durability: Durability) {
    let ready = first_append(turn.broker);
    if durability == Durability::Fsync || !turn.settings.wants("footprint") {
        return;
    }
    let elapsed = match turn.who {
        Who::Highwater => ready.duration_since(started).as_secs_f64(),
        // Kafka's directory is formatted by another process first, which does not count.
        Who::Kafka => age_seconds(turn.broker.pid()),
    };
    let name = "from exec to the first acknowledged produce";
    turn.add("footprint", name, "ms", Better::Less, elapsed * 1e3);
    let cpu = turn.broker.cpu_time();
    thread::sleep(IDLE);
    let cpu = turn.broker.cpu_time().saturating_sub(cpu).as_secs_f64();
    let share = 100.0 * cpu / IDLE.as_secs_f64();
    // A clock tick is a hundredth of a second: less than one cannot be told from none.
    turn.add("footprint", "idle, one topic", "% of a core", Better::Less, share);
    let rss = turn.broker.rss_bytes() as f64 / MEBIBYTE;
    turn.add("footprint", "idle, one topic", "MiB resident", Better::Less, rss);
}

/// Memory at the end of the turn.
pub fn after_load(turn: &mut Turn, durability: Durability) {
    if durability == Durability::Fsync || !turn.settings.wants("footprint") {
        return;
    }
    let rss = turn.broker.rss_bytes() as f64 / MEBIBYTE;
    turn.add("footprint", "after all loads", "MiB resident", Better::Less, rss);
    let peak = turn.broker.peak_rss_bytes() as f64 / MEBIBYTE;
    turn.add("footprint", "the most it ever had", "MiB resident", Better::Less, peak);
}

fn first_append(broker: &Broker) -> Instant {
    let mut connection = broker.connect();
    while connection.call(METADATA_VERSION, &metadata(&["first"], true)).topics[0].error_code != 0 {
    }
    while connection.produce("first", 0, batch(&["x"])).error_code != 0 {}
    Instant::now()
}

/// How long ago a process was started, to a hundredth of a second.
fn age_seconds(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Field 22, counted behind the command's name, which may hold anything.
    let start = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(19));
    let start: f64 = start.and_then(|ticks| ticks.parse().ok()).unwrap_or_default();
    let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let now: f64 = uptime.split(' ').next().and_then(|s| s.parse().ok()).unwrap_or_default();
    now - start / 100.0
}
