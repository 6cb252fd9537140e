//! What replication costs: throughput and processor time of all three, and latency.

use std::time::Duration;

use compat_tests::load::Cost;

use super::{Turn, tell};
use crate::Settings;
use crate::ballast;
use crate::latency::{self, Times};
use crate::load::{Shape, new_topic};
use crate::plan::{MEGABYTE, USUAL};
use crate::results::Better;

/// The table of throughput.
const PRODUCE: &str = "produce to three brokers";
/// The table of latency.
const LATENCY: &str = "latency of three brokers";
/// What is produced.
const SHAPES: [(&str, Shape); 2] =
    [("16 KB batches", USUAL), ("1 MB batches", Shape { batch_bytes: MEGABYTE, ..USUAL })];
/// Records a second at which latency is measured.
const RATES: [u32; 2] = [50, 200];
/// How many loads' time one measurement of latency takes: the tail needs many records.
const LATENCY_LOADS: u32 = 3;
/// Gigabytes that three brokers may write in a load.
const ROOM_GIBIBYTES: usize = 6;
/// How long the load lasts that lets Kafka compile what it uses most.
const WARM_UP: Duration = Duration::from_secs(4);
/// How often a load is begun anew when a leader changes during it.
const ATTEMPTS: usize = 3;

/// Whether there is anything to measure.
pub fn is_wanted(settings: &Settings) -> bool {
    SHAPES.iter().any(|(name, _)| settings.wants(&produce_name(name))) || settings.wants(LATENCY)
}

fn produce_name(name: &str) -> String {
    format!("{PRODUCE}/{name}")
}

/// Measures all of it.
pub fn measure(turn: &mut Turn) -> Result<(), String> {
    if !is_wanted(turn.settings) {
        return Ok(());
    }
    let time = if turn.settings.quick { WARM_UP / 10 } else { WARM_UP };
    for (_, shape) in SHAPES {
        produce(turn, &shape, time / 2)?;
    }
    for (name, shape) in SHAPES {
        if !turn.settings.wants(&produce_name(name)) {
            continue;
        }
        let cost = produce(turn, &shape, turn.settings.each)?;
        let name = turn.named(name);
        tell(&format!("{name}: {:.1} MB/s", cost.megabytes_per_second()));
        turn.add(PRODUCE, &name, "MB/s", Better::More, cost.megabytes_per_second());
        let cpu = cost.cpu_seconds_per_gigabyte();
        turn.add(PRODUCE, &name, "CPU-s/GB of all three", Better::Less, cpu);
    }
    if turn.settings.wants(LATENCY) {
        RATES.into_iter().try_for_each(|rate| latency(turn, rate))?;
    }
    Ok(())
}

fn produce(turn: &Turn, shape: &Shape, time: Duration) -> Result<Cost, String> {
    let mut attempt = 1;
    loop {
        match try_produce(turn, shape, time) {
            Err(error) if attempt < ATTEMPTS => tell(&format!("once more: {error}")),
            result => return result,
        }
        attempt += 1;
    }
}

fn try_produce(turn: &Turn, shape: &Shape, time: Duration) -> Result<Cost, String> {
    let (topic, nodes) = (new_topic(), &turn.nodes);
    nodes.create_topic(&topic, shape.partitions)?;
    let leaders = nodes.leaders(&topic)?;
    let leader = |partition: i32| {
        let leader = leaders.iter().find(|(_, led)| led.contains(&partition));
        nodes.addresses[leader.map_or(&1, |(id, _)| id)]
    };
    let mut load = shape.load_by(leader, &topic).map_err(|error| error.to_string())?;
    if !turn.settings.quick {
        ballast::make_room(ROOM_GIBIBYTES);
    }
    // The first batches open files and groups.
    load.run(time / 5).map_err(|error| error.to_string())?;
    let cpu = nodes.cpu_time();
    let sent = load.run(time).map_err(|error| error.to_string())?;
    let cpu = nodes.cpu_time().saturating_sub(cpu);
    drop(load);
    nodes.delete_topic(&topic)?;
    Ok(Cost { bytes: sent.requests * shape.payload_bytes(), elapsed: sent.elapsed, cpu })
}

fn latency(turn: &mut Turn, rate: u32) -> Result<(), String> {
    let topic = new_topic();
    turn.nodes.create_topic(&topic, 1)?;
    let leaders = turn.nodes.leaders(&topic)?;
    let leader = leaders.iter().find(|(_, led)| !led.is_empty()).ok_or("nobody leads")?.0;
    let address = turn.nodes.addresses[leader];
    let time = turn.settings.each * LATENCY_LOADS;
    let Times { p50_ms, p99_ms, .. } = latency::times(address, &topic, rate, time);
    let name = turn.named(&format!("end to end, {rate} records of 100 B a second"));
    tell(&format!("{name}: p99 {p99_ms:.1} ms"));
    turn.add(LATENCY, &name, "p50 ms", Better::Less, p50_ms);
    turn.add(LATENCY, &name, "p99 ms", Better::Less, p99_ms);
    turn.nodes.delete_topic(&topic)
}
