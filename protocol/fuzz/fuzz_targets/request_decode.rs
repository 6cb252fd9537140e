//! Any frame: decoding a request never panics or aborts, and what it yields encodes.
#![no_main]

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ApiKey;
use libfuzzer_sys::fuzz_target;
use protocol::ApiSpec;
use protocol::request::{decode_head, decode_request};

/// The broker's allocator, on which an array's announced length costs address space only.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fuzz_target!(|data: &[u8]| {
    let frame = Bytes::copy_from_slice(data);
    let Ok(head) = decode_head(&frame) else { return };
    let Ok(key) = ApiKey::try_from(head.api_key) else { return };
    let spec = ApiSpec::new(key, i16::MIN..=i16::MAX);
    // A panic of the library is caught inside; libFuzzer's hook would take it for a crash.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let decoded = decode_request(frame, &spec);
    std::panic::set_hook(hook);
    if let Ok(request) = decoded {
        let mut again = BytesMut::new();
        let _ = request.body.encode(&mut again, request.head.api_version);
    }
});
