//! Integration tests: the real binary, spoken to through its socket. One binary, so that it is
//! linked once.
//!
//! `BROKER=kafka` runs them against Apache Kafka: what both must do is tested, and known to be
//! right. What only Highwater promises is skipped then.

#![allow(clippy::disallowed_methods, reason = "tests wait for real time")]

mod api_versions;
mod cluster;
mod cluster_changes;
mod cluster_forming;
mod cluster_losses;
mod cluster_security;
mod configs;
mod consumer_client;
mod coordinators;
mod delete_records;
mod disk_full;
mod fetch;
mod fetch_sessions;
mod group_client;
mod groups;
mod groups_consumer;
mod groups_offsets;
mod groups_survive;
mod harness;
mod hostile;
mod idempotence;
mod kafka_answers;
mod lag;
mod lag_truth;
mod list_offsets;
mod listeners;
mod metadata;
mod pipelining;
mod power_loss;
mod process;
mod produce;
mod racks;
mod rewind;
mod topics;
