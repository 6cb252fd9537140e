//! Pure: the shape of a coordinator: a machine fed by a log, which decides what to append and what
//! to answer, and whose lasting state is what replaying the log yields.

use std::hash::Hash;

use bytes::Bytes;
use protocol::types::Timestamp;

/// The moment of a decision, told by whoever runs the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the Unix epoch: what records carry. May jump.
    pub wall: Timestamp,
    /// For deadlines; never goes back.
    pub steady: Steady,
}

/// Milliseconds on a clock that never jumps; its zero means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Steady(pub i64);

impl Steady {
    /// That much later.
    #[must_use]
    pub fn after_ms(self, ms: i64) -> Steady {
        Steady(self.0.saturating_add(ms))
    }
}

/// Whom to answer; unique within a runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub u64);

/// When an answer goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// Once everything that the shard has appended so far, this decision's records included, is
    /// committed. Where that fails, the runtime answers in the shard's stead.
    Durable,
}

/// What a decision asks for, carried out in the order given.
#[derive(Debug, PartialEq, Eq)]
pub enum Effect<S: Shard> {
    /// These records, as one batch: all of them or none. The runtime replays them at once.
    Append(Vec<S::Record>),
    /// An answer. A token is answered once; a later answer to the same token is ignored.
    Reply {
        /// To whom.
        token: RequestToken,
        /// The answer.
        reply: S::Reply,
        /// When it goes out.
        when: When,
    },
    /// The timer fires at that moment as an event, instead of whenever it was set for before.
    SetTimer(S::Timer, Steady),
    /// The timer does not fire.
    CancelTimer(S::Timer),
}

/// What a machine is told.
#[derive(Debug)]
pub enum Event<S: Shard> {
    /// The log has been replayed: sessions of what it holds begin now. The first event.
    Loaded,
    /// A request, to be answered by its token now or after a later event.
    Request(RequestToken, S::Request),
    /// A timer that was set, and neither set anew nor cancelled since.
    Timer(S::Timer),
}

/// A record in the key and value bytes of the log; no value is a tombstone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// Never empty.
    pub key: Bytes,
    /// `None` deletes what the key stands for.
    pub value: Option<Bytes>,
}

/// A coordinator's machine. `decide` reads the durable state and only `replay` writes it, so what
/// is decided is what a successor, who has nothing but the log, would have decided.
pub trait Shard: Sized + 'static {
    /// What the log says.
    type Hard: Default + Send;
    /// Sessions, parked requests, deadlines: lost when the leader changes, by design.
    type Soft: Default + Send;
    /// What clients ask.
    type Request: Send;
    /// What they are answered.
    type Reply: Send;
    /// One entry of the log.
    type Record: Send;
    /// What a deadline is for.
    type Timer: Clone + Eq + Hash + Send;

    /// Decides on an event.
    fn decide(
        hard: &Self::Hard,
        soft: &mut Self::Soft,
        now: Now,
        event: Event<Self>,
        effects: &mut Vec<Effect<Self>>,
    );

    /// Takes a record into the durable state. Replaying the records that `snapshot` yields into an
    /// empty state gives an equal state.
    fn replay(hard: &mut Self::Hard, record: &Self::Record);

    /// The fewest records that say all of the durable state: what remains of the log once it is
    /// compacted.
    fn snapshot(hard: &Self::Hard) -> Vec<Self::Record>;

    /// A record in Kafka's own format.
    fn encode(record: &Self::Record) -> KeyValue;

    /// A record from Kafka's own format; `Ok(None)` for a kind that this machine does not know (of
    /// a later version) and steps over.
    ///
    /// # Errors
    /// A sentence for the log: what does not decode.
    fn decode(record: &KeyValue) -> Result<Option<Self::Record>, String>;
}
