//! The sockets: listening, reading requests, writing replies in order, and the bounds of all that.
//! Nothing here knows what a request means.

pub mod budget;
pub mod connection;
pub mod frame_reader;
pub mod listener;
pub mod reply_writer;
mod system;
#[cfg(test)]
mod tests;
