//! The newtypes that cross function boundaries: never a bare integer where a mix-up is possible.
//!
//! Pure: no I/O, no clock, no randomness.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[derive(Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

newtype!(
    /// A record's position in its partition, counted from 0.
    Offset(i64)
);
newtype!(
    /// The term of the partition's leader that appended a batch; -1 where unknown.
    LeaderEpoch(i32)
);
newtype!(
    /// A partition's number within its topic, counted from 0.
    PartitionId(i32)
);
newtype!(
    /// A producer's identity as handed out by InitProducerId; -1 for none.
    ProducerId(i64)
);
newtype!(
    /// The incarnation of a producer id; -1 for none.
    ProducerEpoch(i16)
);
newtype!(
    /// Milliseconds since the Unix epoch; -1 where unknown.
    Timestamp(i64)
);
newtype!(
    /// A broker's `node.id`.
    BrokerId(i32)
);
newtype!(
    /// A topic's identity, which a topic of the same name made later does not share.
    TopicId(uuid::Uuid)
);

impl Offset {
    /// The first offset of every partition.
    pub const ZERO: Offset = Offset(0);

    /// The offset `count` records further on.
    #[must_use]
    pub fn plus(self, count: i64) -> Offset {
        Offset(self.0 + count)
    }
}

impl LeaderEpoch {
    /// "Not known", as the wire says it.
    pub const UNKNOWN: LeaderEpoch = LeaderEpoch(-1);
}

impl ProducerId {
    /// "No producer id", as a batch of a non-idempotent producer says it.
    pub const NONE: ProducerId = ProducerId(-1);

    /// Whether the batch comes from an idempotent or transactional producer.
    #[must_use]
    pub fn is_some(self) -> bool {
        self.0 >= 0
    }
}

impl ProducerEpoch {
    /// "No producer epoch".
    pub const NONE: ProducerEpoch = ProducerEpoch(-1);
}

impl Timestamp {
    /// "Not known", as the wire says it.
    pub const UNKNOWN: Timestamp = Timestamp(-1);
}
