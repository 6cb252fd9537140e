//! What a run is told.

use std::path::PathBuf;
use std::time::Duration;

/// Shown for `--help`, and for what is not understood.
pub const USAGE: &str = "\
chaos [--minutes N] [--seed N] [--only TEXT] [--no-namespaces] [--dir DIR] [--override key=value]

  --minutes N         how long faults come (30)
  --seed N            replays a schedule; without it the seed is drawn, and printed
  --only TEXT         only the faults whose name contains the text
  --no-namespaces     on loopback, without root: no faults of the network
  --dir DIR           keeps data and logs there; without it they are kept after an anomaly only
  --override KEY=V    further configuration of the brokers
HIGHWATER_BIN names another broker than the one beside this program.";

/// What a run is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How long faults come.
    pub time: Duration,
    /// The schedule.
    pub seed: u64,
    /// Part of a fault's name.
    pub only: String,
    /// Whether there is a network of our own.
    pub namespaces: bool,
    /// Where everything is written to.
    pub dir: Option<PathBuf>,
    /// Further configuration.
    pub overrides: Vec<(String, String)>,
}

impl Settings {
    /// From the arguments.
    ///
    /// # Errors
    /// What is not understood.
    pub fn parse(arguments: impl Iterator<Item = String>, seed: u64) -> Result<Settings, String> {
        let mut settings = Settings {
            time: Duration::from_secs(30 * 60),
            seed,
            only: String::new(),
            namespaces: true,
            dir: None,
            overrides: Vec::new(),
        };
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "--minutes" => {
                    let minutes = value()?.parse::<f64>().ok().filter(|m| (0.0..1e5).contains(m));
                    let minutes = minutes.ok_or("--minutes needs a number")?;
                    settings.time = Duration::from_secs_f64(minutes * 60.0);
                }
                "--seed" => {
                    settings.seed = value()?.parse().map_err(|_| "--seed needs a number")?;
                }
                "--only" => settings.only = value()?,
                "--no-namespaces" => settings.namespaces = false,
                "--dir" => settings.dir = Some(value()?.into()),
                "--override" => {
                    let line = value()?;
                    let (key, value) = line.split_once('=').ok_or("--override needs key=value")?;
                    settings.overrides.push((key.to_owned(), value.to_owned()));
                }
                _ => return Err(format!("unknown argument {argument}\n{USAGE}")),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Settings, String> {
        Settings::parse(line.split_whitespace().map(str::to_owned), 5)
    }

    #[test]
    fn arguments_are_understood() {
        let settings = parse("--minutes 0.5 --no-namespaces --only kill --override a=b=c").unwrap();
        assert_eq!((settings.time, settings.seed), (Duration::from_secs(30), 5));
        assert!(!settings.namespaces);
        assert_eq!(settings.only, "kill");
        assert_eq!(settings.overrides, [("a".to_owned(), "b=c".to_owned())]);
        assert_eq!(parse("--seed 7").unwrap().seed, 7);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for line in ["--minutes", "--minutes x", "--minutes -1", "--seed x", "--else"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
