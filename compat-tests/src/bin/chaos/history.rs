//! Pure: what the clients did and saw, as the checker gets it. Times are milliseconds since the
//! run began.

use std::collections::BTreeMap;
use std::fmt;

pub use compat_tests::pauses::Ms;

/// A partition, counted over all topics.
pub type Partition = u16;

/// What a record says: who sent it, where to, and as which of its records there. No two records
/// that are sent are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value {
    /// A producer id, in the order in which the run was given them.
    pub producer: u16,
    /// Where it was sent.
    pub partition: Partition,
    /// Its sequence number: what the partition holds of a producer counts up.
    pub sequence: u32,
}

impl Value {
    /// As it stands in a record, with some bytes behind it so that sizes differ.
    pub fn encode(self) -> Vec<u8> {
        let filler = (self.sequence as usize).wrapping_mul(7919) % 200;
        format!("{self}|{}", "x".repeat(filler)).into_bytes()
    }

    /// Back from a record; `None` for what no producer of ours has sent.
    pub fn decode(bytes: &[u8]) -> Option<Value> {
        let text = std::str::from_utf8(bytes).ok()?.split('|').next()?;
        let mut fields = text.strip_prefix('p')?.split(':');
        let producer = fields.next()?.parse().ok()?;
        let partition = fields.next()?.parse().ok()?;
        let sequence = fields.next()?.parse().ok()?;
        Some(Value { producer, partition, sequence })
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}:{}:{}", self.producer, self.partition, self.sequence)
    }
}

/// What a producer knows of a record that it has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is there, at this offset where the broker has said it.
    Acknowledged(Option<i64>),
    /// It may be there, or may come to be.
    Unknown,
}

/// One record that was sent, retries included.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// The record.
    pub value: Value,
    /// When it was first sent.
    pub invoked: Ms,
    /// When its outcome was known.
    pub completed: Ms,
    /// What came of it.
    pub outcome: Outcome,
}

/// What one fetch brought.
#[derive(Debug, Clone)]
pub struct Poll {
    /// When the answer came.
    pub at: Ms,
    /// Offsets and values.
    pub records: Vec<(i64, Value)>,
}

/// A stretch of reading one partition without a seek.
#[derive(Debug, Clone)]
pub struct Session {
    /// Who reads: a consumer on its own, or a group, whose members are one reader.
    pub reader: u16,
    /// What it reads.
    pub partition: Partition,
    /// Where it began.
    pub start: i64,
    /// What it saw.
    pub polls: Vec<Poll>,
}

/// An offset that a group has committed, or was told that it had.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// The group.
    pub group: u16,
    /// The partition.
    pub partition: Partition,
    /// The offset; 0 where nothing was committed.
    pub offset: i64,
    /// When it was asked for.
    pub invoked: Ms,
    /// When the answer came.
    pub completed: Ms,
    /// Committed and acknowledged, or fetched.
    pub kind: MarkKind,
}

/// What a [`Mark`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// A commit that was acknowledged.
    Committed,
    /// The answer to an OffsetFetch.
    Fetched,
}

/// An idempotent producer that was told that its sequence does not fit, or that it is unknown.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The record it was sending.
    pub value: Value,
    /// When.
    pub at: Ms,
    /// What it was told.
    pub error: String,
}

/// Everything that one client did, or all of them.
#[derive(Debug, Default)]
pub struct History {
    /// Records that were sent.
    pub sent: Vec<Sent>,
    /// What was read.
    pub sessions: Vec<Session>,
    /// Offsets of groups.
    pub marks: Vec<Mark>,
    /// Sequences that were refused.
    pub refusals: Vec<Refusal>,
    /// Values in a log that nobody can have sent.
    pub foreign: Vec<(Partition, i64)>,
    /// How often each error was answered.
    pub errors: BTreeMap<String, u64>,
}

impl History {
    /// Takes in what another client did.
    pub fn merge(&mut self, other: History) {
        self.sent.extend(other.sent);
        self.sessions.extend(other.sessions);
        self.marks.extend(other.marks);
        self.refusals.extend(other.refusals);
        self.foreign.extend(other.foreign);
        for (error, count) in other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }

    /// Counts an error.
    pub fn error(&mut self, error: impl Into<String>) {
        *self.errors.entry(error.into()).or_default() += 1;
    }
}

/// What a replica holds when all is healed: partition by partition, all offsets and values.
pub type Log = Vec<Vec<(i64, Value)>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_from_its_record() {
        for sequence in [0, 1, 77, u32::MAX] {
            let value = Value { producer: 3, partition: 7, sequence };
            assert_eq!(Value::decode(&value.encode()), Some(value));
        }
        for foreign in [&b""[..], b"p1:2", b"1:2:3|", b"p1:2:x|", b"\xff"] {
            assert_eq!(Value::decode(foreign), None);
        }
    }
}
