//! A partition's replica on this broker: what the broker sees of it, and what keeps it going.

mod followers;
pub mod handle;
mod in_sync;
pub(crate) mod lifecycle;
pub(crate) mod lookup;
mod maintenance;
mod proposer;
mod published;
mod quota;
pub(crate) mod registry;
pub(crate) mod throttle;
mod ticket;

#[cfg(test)]
mod tests;

pub use handle::{
    Appended, Leadership, LogStartCause, LogStartMoved, LogStartObserver, Replica, ReplicaOffsets,
};
pub use lookup::{LogPlaces, LogQuestion, LookupError};
pub use published::OffsetsWatch;
pub use quota::ThrottledReplicas;
pub use ticket::AppendTicket;
