//! The differential test: Highwater and Apache Kafka get the same requests, every served API in
//! every version that both serve, good and bad, and their answers are compared field by field.
//!
//! `--only TEXT` runs the cases whose `Api/name` contains the text, `--list` names all of them,
//! `--verbose` shows the answers of each. `HIGHWATER_BIN` names another binary. Exits with 1 when
//! there is a difference that is not known, or a known one that has vanished.

#![allow(clippy::disallowed_methods, reason = "a test waits for real time")]

mod case;
mod cases;
mod compare;
mod exchange;
mod known;
mod records;
mod report;
mod rules;
mod run;
mod setup;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use parking_lot::Mutex;

use crate::report::Report;
use crate::run::Comparison;

/// What was asked for.
#[derive(Debug, Default)]
struct Settings {
    only: String,
    list: bool,
    verbose: bool,
}

impl Settings {
    fn parse() -> Result<Settings, String> {
        let mut settings = Settings::default();
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--only" => settings.only = arguments.next().ok_or("--only needs a text")?,
                "--list" => settings.list = true,
                "--verbose" => settings.verbose = true,
                _ => return Err(format!("unknown argument {argument}")),
            }
        }
        Ok(settings)
    }
}

fn main() -> ExitCode {
    match differ() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the brokers answer alike.
fn differ() -> Result<bool, String> {
    let settings = Settings::parse()?;
    let mut cases = cases::all();
    cases.retain(|case| run::title(case).contains(&settings.only));
    if settings.list {
        cases.iter().for_each(|case| println!("{}", run::title(case)));
        return Ok(true);
    }
    let binary = binary()?;
    if std::process::Command::new("java").arg("-version").output().is_err() {
        return Err("there is no java, which Apache Kafka needs".to_owned());
    }
    let started = Instant::now();
    let (mut ours, mut kafka) = setup::start(&binary).map_err(|error| error.to_string())?;
    eprintln!("both brokers listen after {:.1} s", started.elapsed().as_secs_f64());
    let planned = run::plan(&cases, &ours, &kafka);
    ours.fill(&planned).map_err(|error| format!("Highwater: {error}"))?;
    kafka.fill(&planned).map_err(|error| format!("Apache Kafka: {error}"))?;
    eprintln!("both are filled after {:.1} s", started.elapsed().as_secs_f64());
    let verbose = settings.verbose;
    let report = Mutex::new(Report::new(settings.only.is_empty(), verbose));
    Comparison { ours: &ours, kafka: &kafka, report: &report, verbose }.run_all(&planned)?;
    let mut report = report.into_inner();
    report.apis_without_a_case(&ours.versions, &cases);
    let alike = report.print();
    eprintln!("{:.1} s in all", started.elapsed().as_secs_f64());
    Ok(alike)
}

/// `highwater` beside this program.
fn binary() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("HIGHWATER_BIN") {
        return Ok(path.into());
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let binary = this.with_file_name("highwater");
    if binary.exists() {
        Ok(binary)
    } else {
        Err(format!("{} is not there: build it first", binary.display()))
    }
}
