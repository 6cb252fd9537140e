//! The highwater binary: arguments, configuration, signals, exit codes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use highwater::config::BrokerConfig;
use highwater::{broker, cli::lag, cli::rewind, docgen, limits, panics, surroundings, telemetry};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Memory that is free goes back to the system within a second, by a thread of the allocator that
/// sleeps while there is none. Two arenas, because a buffer often dies on another thread than it
/// was made on, and every arena keeps free memory of its own.
#[allow(non_upper_case_globals)]
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static malloc_conf: &[u8] =
    b"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0,narenas:2\0";

/// The configuration cannot be used, as opposed to the broker failing (1).
const EXIT_CONFIG: u8 = 2;

/// A Kafka-wire-compatible broker.
#[derive(Parser)]
#[command(name = "highwater")]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    sources: ConfigSources,
}

#[derive(Subcommand)]
enum Command {
    /// Run the broker; also what happens without a command.
    Serve(ConfigSources),
    Lag(lag::LagArguments),
    Rewind(rewind::RewindArguments),
    /// Print the version.
    Version,
    /// Print the configuration that a broker would run with.
    Config(ConfigSources),
}

#[derive(Args, Clone)]
struct ConfigSources {
    /// A file in the format of Kafka's server.properties.
    #[arg(long)]
    config: Option<PathBuf>,
    /// A key and its value; stronger than the file and the environment.
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command {
        None => with_config(&arguments.sources, serve),
        Some(Command::Serve(sources)) => with_config(&sources, serve),
        Some(Command::Config(sources)) => with_config(&sources, |config, _| {
            print!("{}", docgen::effective_config(&config));
            ExitCode::SUCCESS
        }),
        Some(Command::Lag(arguments)) => lag::run(&arguments),
        Some(Command::Rewind(arguments)) => rewind::run(&arguments),
        Some(Command::Version) => {
            println!("highwater {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
    }
}

fn with_config(
    sources: &ConfigSources,
    run: impl FnOnce(BrokerConfig, Vec<String>) -> ExitCode,
) -> ExitCode {
    let environment: Vec<_> = std::env::vars().collect();
    match BrokerConfig::load(sources.config.as_deref(), &environment, &sources.overrides) {
        Ok((config, unknown_keys)) => run(config, unknown_keys),
        Err(message) => {
            eprintln!("highwater: {message}");
            ExitCode::from(EXIT_CONFIG)
        }
    }
}

fn serve(config: BrokerConfig, unknown_keys: Vec<String>) -> ExitCode {
    telemetry::install_logs(telemetry::log_format(&config));
    panics::install_hook();
    surroundings::warn(&config, &unknown_keys);
    surroundings::raise_open_file_limit();
    let served = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))
        .and_then(|runtime| {
            let served = runtime.block_on(broker::run_until_signal(config));
            // A thread that asks for the address of a broker that is gone may wait for an answer
            // much longer than anybody waits for this process to end.
            runtime.shutdown_timeout(limits::SHUTDOWN_THREADS);
            served
        });
    let Err(message) = served else { return ExitCode::SUCCESS };
    tracing::error!("{message}");
    eprintln!("highwater: {message}");
    ExitCode::FAILURE
}
