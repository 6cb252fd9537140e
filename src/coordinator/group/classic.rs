//! The classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (Kafka: `ClassicGroup` and
//! the classic half of `GroupMetadataManager`).
//!
//! Pure: no I/O, no clock, no randomness.

mod describe;
mod join;
mod member;
mod rebalance;
mod state;
mod sync;

pub(super) use self::describe::describe;
pub(super) use self::join::on_join;
pub(super) use self::member::{on_heartbeat, on_leave, on_session_expired, schedule_session};
pub(super) use self::rebalance::{join_error, on_join_timer, prepare_rebalance};
pub(super) use self::state::{CONSUMER_PROTOCOL_TYPE, ClassicGroup, Member};
pub(super) use self::sync::{on_sync, on_sync_timer, sync_error};
