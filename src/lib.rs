//! The broker: sockets, dispatch, one handler per API, configuration, metrics.
pub mod config;
pub mod context;
pub mod fetch;
pub mod handlers;
