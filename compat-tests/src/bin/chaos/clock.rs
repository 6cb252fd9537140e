//! The clock of one broker: libfaketime, where it is installed, shows it another time than the
//! others have. Timers are left alone, as they are when a real clock is set.

use std::fs;
use std::path::{Path, PathBuf};

use crate::schedule::Dice;

/// Where Debian has it.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
/// How far it jumps, at most.
const JUMP_SECONDS: u64 = 7_200;

/// The clock of one broker.
#[derive(Debug)]
pub struct Clock {
    broker: i32,
    file: PathBuf,
}

impl Clock {
    /// A clock that goes right, as long as nothing is done to it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn new(broker: i32, dir: &Path) -> Result<Clock, String> {
        if !Path::new(LIBRARY).exists() {
            return Err("libfaketime is not installed".to_owned());
        }
        let clock = Clock { broker, file: dir.join("clock") };
        clock.reset()?;
        Ok(clock)
    }

    /// Whose clock it is.
    pub fn broker(&self) -> i32 {
        self.broker
    }

    /// What makes the broker look at it.
    pub fn environment(&self) -> Vec<(String, String)> {
        let file = self.file.display().to_string();
        [
            ("LD_PRELOAD", LIBRARY),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_CACHE_DURATION", "1"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec()
    }

    /// Jumps, forward or back.
    pub fn jump(&self, dice: &mut Dice) -> Result<(), String> {
        let seconds = 1 + dice.below(JUMP_SECONDS);
        let sign = if dice.below(2) == 0 { '+' } else { '-' };
        self.show(&format!("{sign}{seconds}"))
    }

    /// Jumps back to the right time.
    pub fn reset(&self) -> Result<(), String> {
        self.show("+0")
    }

    fn show(&self, offset: &str) -> Result<(), String> {
        fs::write(&self.file, offset).map_err(|error| format!("{}: {error}", self.file.display()))
    }
}
