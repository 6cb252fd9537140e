//! The commands that ask a running broker something.

use std::io::Write;
use std::process::ExitCode;

mod client;
mod duration;
pub mod lag;
pub mod rewind;
mod table;

/// Says why the command has failed.
fn fail(sentence: &str) -> ExitCode {
    eprintln!("highwater: {sentence}");
    ExitCode::FAILURE
}

/// A reader that has gone (`| head`) ends the command in silence.
fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
