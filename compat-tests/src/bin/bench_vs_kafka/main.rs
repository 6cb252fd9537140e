//! A race between Highwater and Apache Kafka: same machine, same client, in turn, several rounds.
//!
//! Each round starts one broker after the other (who is first alternates), never both at once, and
//! measures both at everything; what is told are medians over the rounds, their spread, and the
//! ratios within a round.
//!
//! `--three` races three brokers against three (3 rounds, 2 seconds of each load);
//! `--without-kafka` measures ours alone there.
//!
//! `--rounds N` (5), `--seconds S` of each load (0.8), `--quick` (one round, short loads),
//! `--only TEXT` what has the text in its name, `--without-tools` no JVM clients and no librdkafka,
//! `--results DIR` where results.json, table.md and the pictures go, `--render DIR` makes table and
//! pictures of results that are there, `--document FILE` puts the table between its marks.

#![allow(clippy::disallowed_methods, reason = "a bench measures time")]

mod ballast;
mod consume;
mod footprint;
mod latency;
mod limit;
mod load;
mod picture;
mod plan;
mod race;
mod render;
mod results;
mod three;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::race::{Durability, Who};
use crate::results::Results;

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Highwater's binary.
    pub binary: PathBuf,
    /// How often each broker has its turn.
    pub rounds: usize,
    /// How long each load runs.
    pub each: Duration,
    /// Only what has this in its name.
    pub only: String,
    /// JVM clients and librdkafka too.
    pub with_tools: bool,
    /// Apache Kafka too, in the race of three brokers.
    pub with_kafka: bool,
    /// Three brokers each.
    pub three: bool,
    /// One round, to see that everything runs.
    pub quick: bool,
    /// Where results are written to.
    pub results: PathBuf,
    render: bool,
    document: Option<PathBuf>,
}

impl Settings {
    fn parse() -> Result<Settings, String> {
        let three = std::env::args().any(|argument| argument == "--three");
        let (rounds, milliseconds, results) = match three {
            true => (3, 2_000, "target/bench-cluster-vs-kafka"),
            false => (5, 800, "target/bench-vs-kafka"),
        };
        let mut settings = Settings {
            binary: binary(),
            rounds,
            each: Duration::from_millis(milliseconds),
            only: String::new(),
            with_tools: true,
            with_kafka: true,
            three,
            quick: false,
            results: results.into(),
            render: false,
            document: None,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--rounds" => settings.rounds = number(&value()?)?,
                "--seconds" => settings.each = Duration::from_secs_f64(number(&value()?)?),
                "--only" => settings.only = value()?,
                "--without-tools" => settings.with_tools = false,
                "--results" => settings.results = value()?.into(),
                "--document" => settings.document = Some(value()?.into()),
                "--render" => (settings.results, settings.render) = (value()?.into(), true),
                "--three" => {}
                "--without-kafka" => settings.with_kafka = false,
                "--quick" => {
                    settings.quick = true;
                    settings.rounds = 1;
                    settings.each = Duration::from_millis(300);
                }
                _ => return Err(format!("unknown argument {argument}")),
            }
        }
        Ok(settings)
    }

    /// Whether a measurement of this name is asked for.
    pub fn wants(&self, name: &str) -> bool {
        name.contains(&self.only)
    }
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{value} is not a number"))
}

/// `highwater` beside this program, or another.
fn binary() -> PathBuf {
    let beside = || std::env::current_exe().unwrap_or_default().with_file_name("highwater");
    std::env::var_os("HIGHWATER_BIN").map_or_else(beside, PathBuf::from)
}

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-vs-kafka: {error}");
            ExitCode::FAILURE
        }
    }
}

fn bench() -> Result<(), String> {
    let settings = Settings::parse()?;
    let results = if settings.render {
        Results::read(&settings.results)?
    } else {
        let results = race(&settings)?;
        results.write(&settings.results)?;
        results
    };
    render::write(&results, &settings.results)?;
    if let Some(document) = &settings.document {
        render::put_into(&results, document, settings.three)?;
    }
    print!("{}", render::markdown(&results));
    Ok(())
}

fn race(settings: &Settings) -> Result<Results, String> {
    if !settings.binary.exists() {
        return Err(format!("{} is not there: build it first", settings.binary.display()));
    }
    if std::process::Command::new("java").arg("-version").output().is_err() {
        return Err("there is no java, which Apache Kafka needs".to_owned());
    }
    let mut results = Results::new(settings.rounds, settings.each.as_secs_f64());
    if settings.three {
        three::race(settings, &mut results)?;
        return Ok(results);
    }
    let tools = tools::Tools::prepare(settings)?;
    let started = Instant::now();
    for round in 0..settings.rounds {
        limit::measure(settings, &mut results)?;
        for durability in [Durability::Os, Durability::Fsync] {
            let mut order = [Who::Highwater, Who::Kafka];
            order.rotate_left(round % 2);
            for who in order {
                let text = format!("round {} of {}, {who:?}", round + 1, settings.rounds);
                eprintln!("{:4.0} s  {text}, {durability:?}", started.elapsed().as_secs_f64());
                race::turn(settings, &tools, who, durability, &mut results)?;
            }
        }
        // A run that is stopped has its rounds.
        results.write(&settings.results)?;
    }
    eprintln!("{:.0} s in all", started.elapsed().as_secs_f64());
    Ok(results)
}
