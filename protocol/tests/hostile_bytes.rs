//! Bodies of any bytes, and such as announce arrays far larger than themselves, for every API and
//! version, decoded in a process with the broker's allocator: none may abort it or cost memory.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use proptest::prelude::*;
use protocol::request::{RequestError, decode_body};

/// The broker's allocator: it reserves what it is asked for without touching it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The largest resident size that the decodes may leave behind.
const MAX_RESIDENT_KIB: u64 = 256 * 1024;

fn hostile_bodies() -> Vec<Vec<u8>> {
    vec![
        vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0],
        vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0, 0],
        vec![0, 0, 0x7f, 0xff, 0xff, 0xff, 1, 1],
        vec![0, 1, b'x', 0x7f, 0xff, 0xff, 0xff],
        vec![2, b'x', 0xff, 0xff, 0xff, 0xff, 0x0f, 1],
        [0x7f, 0xff, 0xff, 0xff].repeat(6),
        [0xff, 0xff, 0xff, 0xff, 0x0f].repeat(6),
        [0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff].repeat(4),
        [2, 2, 0xff, 0xff, 0xff, 0xff, 0x0f].repeat(4),
    ]
}

fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn announced_arrays_cost_nothing() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut decoded = 0;
    for (api_key, api_version) in every_version() {
        for body in hostile_bodies() {
            for filler in 0..6 {
                let mut body = body.clone();
                // Fields in front of the array, so that its length is met in other places too.
                body.splice(0..0, std::iter::repeat_n(0, filler));
                match decode_body(api_key, api_version, Bytes::from(body)) {
                    Ok(_) | Err(RequestError::Malformed { .. }) => decoded += 1,
                    Err(other) => panic!("{api_key:?} v{api_version}: {other}"),
                }
            }
        }
    }
    let _ = std::panic::take_hook();
    assert!(decoded > 10_000, "only {decoded} bodies were tried");
    if let Some(kib) = resident_kib() {
        assert!(kib < MAX_RESIDENT_KIB, "{kib} KiB resident after {decoded} bodies");
    }
}

/// Every version that the library names, and one on either side.
fn every_version() -> impl Iterator<Item = (ApiKey, i16)> {
    (0..200).filter_map(|code| ApiKey::try_from(code).ok()).flat_map(|api_key| {
        let versions = api_key.valid_versions();
        (versions.min - 1..=versions.max + 1).map(move |api_version| (api_key, api_version))
    })
}

/// Bytes among which small numbers are frequent, so that decoding gets beyond the first length.
fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![6 => 0..3u8, 2 => 3..20u8, 1 => any::<u8>()];
    proptest::collection::vec(byte, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_decodes_is_encoded_to_the_same_again(body in any_body()) {
        for (api_key, api_version) in every_version() {
            let body = Bytes::from(body.clone());
            let Ok(first) = decode_body(api_key, api_version, body) else { continue };
            let mut again = BytesMut::new();
            if first.encode(&mut again, api_version).is_err() {
                continue;
            }
            let second = decode_body(api_key, api_version, again.freeze());
            prop_assert_eq!(second.as_ref(), Ok(&first), "{:?} {}", api_key, api_version);
        }
    }
}
