//! Hostile and broken clients: each gets Kafka's answer or a closed connection, the broker's
//! memory stays bounded, and other connections do not notice.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use compat_tests::batches::{at, batch, patched};
use compat_tests::broker::is_kafka;
use compat_tests::{Broker, Connection};
use kafka_protocol::messages::{ApiKey, RequestHeader};
use kafka_protocol::protocol::Encodable;
use protocol::ErrorCode;

use crate::harness::{Scene, error};

/// What the broker may have grown to, whatever it was sent.
const RSS_LIMIT_BYTES: u64 = 200 << 20;
/// How long a connection that must be closed may stay open.
const CLOSED_WITHIN: Duration = Duration::from_secs(20);

/// A broker, and a well-behaved client that works between the attacks.
struct Siege {
    scene: Scene,
    bystander: Connection,
    appended: i64,
}

impl Siege {
    fn begin() -> Siege {
        let scene = Scene::start();
        let mut bystander = scene.broker.connect();
        bystander.create_topic("bystander", 1);
        Siege { scene, bystander, appended: 0 }
    }

    fn broker(&self) -> &Broker {
        &self.scene.broker
    }

    /// The well-behaved client's connection still works, and nothing of it is lost.
    fn check(&mut self) {
        let offset = self.bystander.append("bystander", 0, batch(&["x"]));
        assert_eq!(offset, self.appended);
        self.appended += 1;
    }

    fn end(mut self) {
        self.check();
        let all = self.bystander.read_all("bystander", 0, 0).expect("read");
        assert_eq!(all.len() as i64, self.appended);
        if !is_kafka() {
            let peak = self.broker().peak_rss_bytes();
            assert!(peak < RSS_LIMIT_BYTES, "the broker grew to {} MiB", peak >> 20);
        }
    }
}

/// A request of `key` and `version` with this body.
fn frame(key: i16, version: i16, body: &[u8]) -> BytesMut {
    let mut frame = BytesMut::new();
    let header_version = match ApiKey::try_from(key) {
        Ok(known) => known.request_header_version(version),
        Err(()) => 1,
    };
    RequestHeader::default()
        .with_request_api_key(key)
        .with_request_api_version(version)
        .with_correlation_id(1)
        .encode(&mut frame, header_version)
        .expect("a header is encoded");
    frame.put_slice(body);
    frame
}

/// The bodies that make a decoder allocate before it looks: arrays and strings of two billion.
fn hostile_bodies() -> Vec<Vec<u8>> {
    let huge_array = i32::MAX.to_be_bytes();
    let huge_compact = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let mut bodies = vec![
        Vec::new(),
        huge_array.to_vec(),
        huge_compact.to_vec(),
        [&[0xff, 0xff][..], &huge_array].concat(),
        [&[0][..], &huge_compact].concat(),
        vec![0xff; 10],
        vec![0x7f; 10],
        vec![0x80; 10],
        vec![0; 10],
    ];
    // Behind fields of one to sixteen bytes that pass for something.
    for length in 1..=16 {
        bodies.push([&vec![0; length][..], &huge_array].concat());
        bodies.push([&vec![0; length][..], &huge_compact].concat());
    }
    bodies
}

#[test]
fn a_short_body_with_a_huge_count_harms_nobody_for_any_api_and_version() {
    if is_kafka() {
        return;
    }
    let mut siege = Siege::begin();
    let bodies = hostile_bodies();
    let mut connections = 0;
    for key in ApiKey::iter() {
        let versions = key.valid_versions();
        for version in versions.min..=versions.max {
            for body in &bodies {
                // Whatever the answer is, the next one gets a connection of its own.
                let mut connection = siege.broker().connect();
                connection.send_frame(&frame(key as i16, version, body)).expect("sent");
                connections += 1;
            }
        }
        siege.check();
    }
    assert!(connections > 2_000, "{connections}");
    siege.end();
}

#[test]
fn the_ten_byte_metadata_body_closes_its_connection_alone() {
    let mut siege = Siege::begin();
    for version in 0..=12 {
        let mut body = BytesMut::new();
        if version >= 9 {
            body.put_slice(&[0xff, 0xff, 0xff, 0xff, 0x07]);
        } else {
            body.put_i32(i32::MAX);
        }
        body.put_slice(&[0; 5]);
        let mut connection = siege.broker().connect();
        connection.send_frame(&frame(ApiKey::Metadata as i16, version, &body)).expect("sent");
        assert!(connection.is_closed_by_peer(), "v{version}");
        siege.check();
    }
    siege.end();
}

#[test]
fn impossible_lengths_close_the_connection() {
    let mut siege = Siege::begin();
    for length in [i32::MAX, 1 << 30, 200 << 20, -1, -1_000, i32::MIN] {
        let mut connection = siege.broker().connect();
        connection.set_read_timeout(CLOSED_WITHIN).expect("set");
        connection.send_raw(&length.to_be_bytes()).expect("sent");
        let _ = connection.send_raw(&[0; 64]);
        assert!(connection.is_closed_by_peer(), "length {length}");
        siege.check();
    }
    siege.end();
}

#[test]
fn frames_shorter_than_a_header_close_the_connection() {
    let siege = Siege::begin();
    for length in 0..8 {
        let mut connection = siege.broker().connect();
        connection.send_frame(&vec![0; length]).expect("sent");
        assert!(connection.is_closed_by_peer(), "{length} bytes");
    }
    siege.end();
}

#[test]
fn an_unknown_key_closes_the_connection() {
    let siege = Siege::begin();
    for key in [4, 7, 93, 1_000, -1, i16::MIN, i16::MAX] {
        let mut connection = siege.broker().connect();
        connection.send_frame(&frame(key, 0, &[0; 8])).expect("sent");
        assert!(connection.is_closed_by_peer(), "key {key}");
    }
    siege.end();
}

#[test]
fn half_a_frame_and_silence_holds_nothing_up_and_little_memory() {
    if is_kafka() {
        // It takes the memory as soon as the length has come.
        return;
    }
    let mut siege = Siege::begin();
    // Each says that 100 MiB follow, sends 1 KiB of them and no more.
    let silent: Vec<_> = (0..200)
        .map(|_| {
            let mut connection = siege.broker().connect();
            connection.send_raw(&(100_i32 << 20).to_be_bytes()).expect("sent");
            connection.send_raw(&[0; 1024]).expect("sent");
            connection
        })
        .collect();
    siege.check();
    drop(silent);
    siege.end();
}

#[test]
fn damaged_batches_are_refused_and_their_connection_stays() {
    let mut siege = Siege::begin();
    let mut connection = siege.broker().connect();
    connection.create_topic("damaged", 1);
    let good = batch(&["one", "two"]);
    let control = patched(&good, at::ATTRIBUTES, &[0, 0x20]);
    let mut bad = vec![
        (patched(&good, at::CRC, &[0; 4]), Some(ErrorCode::CorruptMessage)),
        (patched(&good, at::RECORD_COUNT, &[0, 0, 0, 9]), Some(ErrorCode::InvalidRecord)),
        (patched(&good, at::RECORD_COUNT, &i32::MAX.to_be_bytes()), None),
        (patched(&good, at::BATCH_LENGTH, &i32::MAX.to_be_bytes()), None),
        (patched(&good, at::BATCH_LENGTH, &(-1_i32).to_be_bytes()), None),
        (control, Some(ErrorCode::InvalidRecord)),
    ];
    // Cut off anywhere, and every codec's bits on a body that is not compressed.
    bad.extend((1..good.len()).map(|length| (good.slice(..length), None)));
    for codec in 1..=7 {
        bad.push((patched(&good, at::ATTRIBUTES, &[0, codec]), None));
    }
    for (records, expected) in bad {
        match connection.try_call(9, &compat_tests::requests::produce("damaged", 0, records, -1)) {
            Ok(response) => {
                let code = error(response.responses[0].partition_responses[0].error_code);
                if let Some(expected) = expected {
                    assert_eq!(code, expected);
                }
                assert!(code != ErrorCode::None, "refused");
            }
            // Kafka hangs up on records it cannot even walk through.
            Err(_) if expected.is_none() => connection = siege.broker().connect(),
            Err(broken) => panic!("{expected:?}: {broken}"),
        }
        siege.check();
    }
    siege.end();
}

#[test]
fn random_bytes_harm_nobody() {
    if is_kafka() {
        return;
    }
    let mut siege = Siege::begin();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        // xorshift: the same bytes in every run.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..2_000 {
        let length = (next() % 200) as usize;
        let mut body: Vec<u8> = (0..length).map(|_| next() as u8).collect();
        if body.len() >= 4 {
            // A real key and version in front: most get as far as the decoder.
            body[..4].copy_from_slice(&[0, (next() % 76) as u8, 0, (next() % 14) as u8]);
        }
        let mut connection = siege.broker().connect();
        connection.send_frame(&body).expect("sent");
    }
    siege.check();
    siege.end();
}
