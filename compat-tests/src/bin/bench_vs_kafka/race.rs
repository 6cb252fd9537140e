//! One broker's turn: started on an empty directory, warmed up, measured at everything, stopped.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use compat_tests::{Broker, BrokerOptions};
use tempfile::TempDir;

use crate::plan::{self, Plan};
use crate::results::{Better, Key, Results};
use crate::tools::Tools;
use crate::{Settings, consume, footprint, latency, load};

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Ours.
    Highwater,
    /// The other one.
    Kafka,
}

/// When a produce with acks=all is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once the operating system has it.
    Os,
    /// Once the disk has it.
    Fsync,
}

/// The flags of Kafka's own start script.
const KAFKA_OPTIONS: &str = concat!(
    "-Xms1g -server -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 ",
    "-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true",
);
/// Kafka's own heap.
const KAFKA_HEAP: &str = "1g";
/// How long the load lasts that lets Kafka compile what it uses most, and fills the caches of both.
const WARM_UP: Duration = Duration::from_secs(3);

/// A broker in its turn.
pub struct Turn<'a> {
    pub settings: &'a Settings,
    pub who: Who,
    pub broker: &'a Broker,
    /// Where it keeps its data.
    pub dir: &'a Path,
    pub results: &'a mut Results,
}

impl Turn<'_> {
    /// Keeps a value.
    pub fn add(&mut self, group: &str, name: &str, metric: &str, better: Better, value: f64) {
        self.results.add(self.who, Key::new(group, name, metric, better), value);
    }
}

/// Everything that one broker is measured at, once.
pub fn turn(
    settings: &Settings,
    tools: &Tools,
    who: Who,
    durability: Durability,
    results: &mut Results,
) -> Result<(), String> {
    let plan = plan::of(settings, durability);
    if plan.is_empty() {
        return Ok(());
    }
    let dir = TempDir::new().map_err(|error| error.to_string())?;
    let options = options(settings, who, durability, dir.path());
    let started = Instant::now();
    let broker = Broker::try_start(options).map_err(|error| error.to_string())?;
    let (binary, data) = (dir.path().to_owned(), broker.options().data_dir());
    let mut turn = Turn { settings, who, broker: &broker, dir: &data, results };
    footprint::start_up(&mut turn, started, durability);
    measure(&mut turn, tools, &plan, durability)?;
    footprint::after_load(&mut turn, durability);
    drop(broker);
    std::fs::remove_dir_all(binary).map_err(|error| error.to_string())?;
    // What one has left to write shall not slow the other.
    // SAFETY: sync(2) takes nothing and returns nothing.
    unsafe { libc::sync() };
    Ok(())
}

fn options(settings: &Settings, who: Who, durability: Durability, dir: &Path) -> BrokerOptions {
    let options = BrokerOptions::new(&settings.binary, dir).kafka(who == Who::Kafka);
    configured(options, who, durability)
}

/// What a broker is given in every race.
pub fn configured(options: BrokerOptions, who: Who, durability: Durability) -> BrokerOptions {
    let options = options.with("log.segment.delete.delay.ms", "1000");
    match (who, durability) {
        (Who::Highwater, Durability::Os) => options.with("highwater.durability", "os"),
        (Who::Highwater, Durability::Fsync) => options.with("highwater.durability", "fsync"),
        (Who::Kafka, Durability::Os) => options,
        (Who::Kafka, Durability::Fsync) => options.with("log.flush.interval.messages", "1"),
    }
    .with_environment("KAFKA_HEAP", KAFKA_HEAP)
    .with_environment("KAFKA_OPTIONS", KAFKA_OPTIONS)
}

fn measure(
    turn: &mut Turn,
    tools: &Tools,
    plan: &Plan,
    durability: Durability,
) -> Result<(), String> {
    if !plan.loads.is_empty() {
        load::warm_up(turn.broker, if turn.settings.quick { WARM_UP / 10 } else { WARM_UP });
    }
    for (name, shape) in &plan.loads {
        let produced = load::produce(turn.broker, shape, turn.settings.each);
        turn.add("produce", name, "MB/s", Better::More, produced.megabytes_per_second());
        turn.add("produce", name, "CPU-s/GB", Better::Less, produced.cpu_seconds_per_gigabyte());
    }
    tools.produce(turn, &plan.librdkafka)?;
    tools.producer_perf_test(turn, &plan.perf_test)?;
    if let Some(name) = &plan.consume {
        consume::measure(turn, tools, name)?;
    }
    for rate in &plan.latency_rates {
        latency::measure(turn, *rate, durability);
    }
    Ok(())
}

/// Runs a command and returns what it printed.
pub fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?} failed: {text}{error}"))
}
