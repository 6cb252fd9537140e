//! Tests of the group coordinator's machine: scripts of what Kafka would answer, the records'
//! bytes, and members that misbehave at random.

mod consumer_script;
mod harness;
mod limits;
mod print;
mod records;
mod script;
mod simulation;
