//! InitProducerId, and Produce with producer ids, epochs and sequences.

use compat_tests::batches::{at, builder, of_producer, patched, sealed};
use compat_tests::requests::fetch;
use kafka_protocol::messages::{ApiKey, InitProducerIdRequest, ProduceRequest, ProducerId};
use kafka_protocol::protocol::StrBytes;
use protocol::types;

use super::produce::own;
use crate::case::{Case, Memory};

fn init(producer_id: i64, producer_epoch: i16) -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(producer_id))
        .with_producer_epoch(producer_epoch)
}

fn init_transactional(id: &'static str) -> InitProducerIdRequest {
    init(-1, -1).with_transactional_id(Some(StrBytes::from_static_str(id).into()))
}

fn producer_ids() -> Vec<Case> {
    use ApiKey::InitProducerId as Api;
    vec![
        Case::new(Api, "a new id").ask(|_| init(-1, -1)).settles(),
        Case::new(Api, "with an id and an epoch").versions(3..=5).ask(|_| init(7, 3)).settles(),
        Case::new(Api, "with an id and no epoch").versions(3..=5).ask(|_| init(7, -1)),
        Case::new(Api, "with an epoch and no id").versions(3..=5).ask(|_| init(-1, 3)),
        Case::new(Api, "with a negative id").versions(3..=5).ask(|_| init(-7, 3)).settles(),
        Case::new(Api, "without a timeout")
            .ask(|_| init(-1, -1).with_transaction_timeout_ms(0))
            .settles(),
        Case::new(Api, "an empty transactional id").ask(|_| init_transactional("")),
        Case::new(Api, "a transactional id with a negative timeout")
            .ask(|_| init_transactional("t").with_transaction_timeout_ms(-1))
            .settles(),
        Case::new(Api, "a transactional id with a timeout of zero")
            .ask(|_| init_transactional("t").with_transaction_timeout_ms(0))
            .settles(),
        Case::new(Api, "a transactional id with a timeout too long")
            .ask(|_| init_transactional("t").with_transaction_timeout_ms(900_001))
            .settles(),
        Case::new(Api, "a transactional id with an id and no epoch")
            .versions(3..=5)
            .ask(|_| init_transactional("t").with_producer_id(ProducerId(7))),
    ]
}

/// What a step sends: producer epoch, sequence, number of records.
type Send = (i16, i32, usize);

fn send(memory: &Memory, (epoch, sequence, count): Send) -> ProduceRequest {
    let values = vec!["v"; count];
    own(memory, of_producer(memory.number("id"), epoch, sequence, &values))
}

/// An idempotent producer that sends these in turn; then its log is shown.
fn sequence(name: &str, sends: &'static [Send]) -> Case {
    let mut case = Case::new(ApiKey::Produce, name)
        .topic("own", 1)
        .step("init", |_| init(-1, -1))
        .settles()
        .learn::<InitProducerIdRequest>(|answer, memory| memory.keep("id", answer.producer_id.0));
    for (number, one) in sends.iter().enumerate() {
        let (epoch, sequence, count) = *one;
        let name = format!("{number}: epoch {epoch}, sequence {sequence}, {count} records");
        case = case.step(&name, move |m| send(m, *one));
    }
    case.step("fetch", |m| fetch(&m.own("own"), 0, 0)).in_version(12)
}

fn sequences() -> Vec<Case> {
    vec![
        sequence("in order", &[(0, 0, 1), (0, 1, 2), (0, 3, 1)]),
        sequence("a duplicate", &[(0, 0, 1), (0, 1, 1), (0, 1, 1), (0, 0, 1)]),
        sequence("a duplicate of another length", &[(0, 0, 2), (0, 0, 1)]),
        sequence("a duplicate among two", &[(0, 0, 2), (0, 1, 1)]),
        sequence(
            "a duplicate older than five",
            &[
                (0, 0, 1),
                (0, 1, 1),
                (0, 2, 1),
                (0, 3, 1),
                (0, 4, 1),
                (0, 5, 1),
                (0, 1, 1),
                (0, 0, 1),
            ],
        ),
        sequence("a gap", &[(0, 0, 1), (0, 2, 1), (0, 1, 1)]),
        sequence("a first sequence that is not zero", &[(0, 5, 1), (0, 6, 1)]),
        sequence("a new epoch", &[(0, 0, 1), (1, 0, 1), (1, 1, 1)]),
        sequence("a new epoch that does not start at zero", &[(0, 0, 1), (1, 1, 1), (1, 0, 1)]),
        sequence("an old epoch", &[(1, 0, 1), (0, 0, 1), (0, 1, 1), (1, 1, 1)]),
        sequence("a first epoch that is not zero", &[(7, 0, 1), (7, 1, 1)]),
        sequence("the last sequence wraps", &[(0, i32::MAX, 1), (0, 0, 1), (0, 1, 1)]),
        sequence("a batch across the wrap", &[(0, i32::MAX - 1, 4), (0, 2, 1), (0, 3, 1)]),
        sequence("a negative sequence", &[(0, -1, 1)]),
        sequence("a very negative sequence", &[(0, -2, 1)]),
        sequence("a negative epoch", &[(-1, 0, 1)]),
        sequence("the largest epoch", &[(i16::MAX, 0, 1), (i16::MAX, 1, 1)]),
    ]
}

fn oddities() -> Vec<Case> {
    use ApiKey::Produce as Api;
    let odd = |name: &str, epoch: i16, sequence: i32, id: i64| {
        Case::new(Api, name)
            .topic("own", 1)
            .step("produce", move |m| own(m, of_producer(id, epoch, sequence, &["a"])))
            .step("fetch", |m| fetch(&m.own("own"), 0, 0))
            .in_version(12)
    };
    let marked = |attributes: &'static [u8]| {
        move |_: &Memory| patched(&of_producer(4_000, 0, 0, &["a"]), at::ATTRIBUTES, attributes)
    };
    let transactional = marked(&[0, 0x10]);
    let control = marked(&[0, 0x20]);
    vec![
        odd("an id that nobody gave", 0, 0, 123_456),
        odd("a negative id with a sequence", 0, 0, -2),
        odd("no id but a sequence", -1, 5, -1),
        odd("no id but an epoch", 5, -1, -1),
        Case::new(Api, "two batches of one producer").topic("own", 1).ask(|m| {
            let first = of_producer(5_000, 0, 0, &["a"]);
            own(m, [first, of_producer(5_000, 0, 1, &["b"])].concat().into())
        }),
        Case::new(Api, "a transactional batch without a transactional id")
            .topic("own", 1)
            .ask(move |m| own(m, transactional(m))),
        Case::new(Api, "a transactional batch outside of a transaction").topic("own", 1).ask(
            move |m| {
                let records = marked(&[0, 0x10])(m);
                own(m, records).with_transactional_id(Some(StrBytes::from_static_str("t").into()))
            },
        ),
        Case::new(Api, "a control batch of a producer")
            .topic("own", 1)
            .ask(move |m| own(m, control(m))),
        Case::new(Api, "a producer's batch that overflows its sequence").topic("own", 1).ask(|m| {
            let producer = builder(&["a", "b"]).producer(
                types::ProducerId(6_000),
                types::ProducerEpoch(0),
                i32::MAX,
            );
            own(m, sealed(producer))
        }),
    ]
}

pub fn cases() -> Vec<Case> {
    let mut cases = producer_ids();
    cases.extend(sequences());
    cases.extend(oddities());
    cases
}
