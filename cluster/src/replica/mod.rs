//! A partition's replica on this broker: what the broker sees of it, and what keeps it going.

mod followers;
pub mod handle;
mod in_sync;
pub(crate) mod lifecycle;
pub(crate) mod lookup;
mod maintenance;
mod proposer;
mod published;
pub(crate) mod registry;
mod ticket;

#[cfg(test)]
mod tests;

pub use handle::{
    Appended, Leadership, LogStartCause, LogStartMoved, LogStartObserver, Replica, ReplicaOffsets,
};
pub use lookup::{LogPlaces, LogQuestion, LookupError};
pub use published::OffsetsWatch;
pub use ticket::AppendTicket;
