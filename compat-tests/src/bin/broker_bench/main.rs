//! What the whole broker costs: throughput, processor time, bytes written, memory, start-up.
//! Through the socket, with a client that encodes each request once; prints Markdown tables.
//!
//! `--smoke` runs each measurement for a moment, `--only TEXT` those whose name contains the text,
//! `--seconds N` sets the time of each. `BROKER=kafka` measures Apache Kafka the same way, and
//! `HIGHWATER_BIN` names another binary.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

mod consume;
mod footprint;
mod latency;
mod load;
mod partitions;
mod table;
mod throughput;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use compat_tests::broker::is_kafka;
use compat_tests::{Broker, BrokerOptions};
use tempfile::TempDir;

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Settings {
    binary: PathBuf,
    /// How long each load runs.
    each: Duration,
    /// How long an idle broker is watched.
    idle: Duration,
    /// Partition counts of the measurements over many.
    partition_counts: Vec<i32>,
    only: String,
}

impl Settings {
    fn parse() -> Result<Settings, String> {
        let mut settings = Settings {
            binary: default_binary()?,
            each: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            partition_counts: vec![12, 100, 1_000, 4_000],
            only: String::new(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--smoke" => {
                    settings.each = Duration::from_millis(200);
                    settings.idle = Duration::from_millis(200);
                    settings.partition_counts = vec![12, 100];
                }
                "--only" => settings.only = value()?,
                "--seconds" => {
                    let seconds = value()?.parse().map_err(|_| "--seconds takes a number")?;
                    settings.each = Duration::from_secs(seconds);
                }
                _ => return Err(format!("unknown argument {argument}")),
            }
        }
        Ok(settings)
    }

    /// A broker on an empty directory. `synced`: acks=all waits for the disk. One that does not
    /// start ends the bench.
    fn start(&self, synced: bool) -> Subject {
        let dir = TempDir::new().expect("a temporary directory can be made");
        let options = BrokerOptions::new(&self.binary, dir.path());
        let options = match (is_kafka(), synced) {
            (false, true) => options.with("highwater.durability", "fsync"),
            (false, false) => options.with("highwater.durability", "os"),
            (true, true) => options.with("log.flush.interval.messages", "1"),
            (true, false) => options,
        };
        match Broker::try_start(options) {
            Ok(broker) => Subject { broker, _dir: dir },
            Err(error) => {
                drop(dir);
                eprintln!("broker-bench: {error}");
                std::process::exit(1);
            }
        }
    }

    fn wants(&self, name: &str) -> bool {
        name.contains(&self.only)
    }
}

/// A broker and its directory.
pub struct Subject {
    // Dropped before the directory.
    broker: Broker,
    _dir: TempDir,
}

/// `highwater` beside this program.
fn default_binary() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("HIGHWATER_BIN") {
        return Ok(path.into());
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = this.with_file_name("highwater");
    if binary.exists() || is_kafka() {
        Ok(binary)
    } else {
        Err(format!("{} is not there: build it first", binary.display()))
    }
}

fn main() -> ExitCode {
    let settings = match Settings::parse() {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("broker-bench: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!("Broker: {}\n", if is_kafka() { "Apache Kafka" } else { "Highwater" });
    type Measurement = fn(&Settings);
    let measurements: [(&str, Measurement); 5] = [
        ("throughput", throughput::run),
        ("partitions", partitions::run),
        ("latency", latency::run),
        ("startup", footprint::run_startup),
        ("memory", footprint::run_memory),
    ];
    for (name, measure) in measurements {
        if settings.wants(name) {
            measure(&settings);
        }
    }
    ExitCode::SUCCESS
}
