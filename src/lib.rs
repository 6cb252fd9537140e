//! The broker: sockets, dispatch, one handler per API, configuration, metrics.
//!
//! A request, in file order: `net/listener`, `net/connection`, `dispatch`, the handler of its API,
//! and from there the `cluster` crate. What this crate does not know: openraft, RocksDB, where a
//! record lies on disk.

pub mod broker;
pub mod cli;
pub mod clock;
pub mod config;
pub mod context;
pub mod coordinator;
pub mod dispatch;
pub mod docgen;
pub mod error_map;
pub mod fetch;
pub mod handlers;
pub mod http;
pub mod ids;
pub mod iso8601;
pub mod lag;
pub mod limits;
pub mod net;
pub mod panics;
pub mod peer_security;
pub mod peers;
pub mod readiness;
pub mod rewind;
pub mod surroundings;
pub mod tasks;
pub mod telemetry;
