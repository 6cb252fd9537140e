//! The commands that ask a running broker something.

mod client;
mod duration;
pub mod lag;
mod table;
