//! Goal: no record byte is copied in user space between socket and store. Method: a copy needs
//! memory to go to, so the broker's large allocations are counted while megabytes pass through it.
//! What is produced may allocate itself once (the buffer that the socket is read into), what is
//! consumed nothing, from memory and from the journal's files alike.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use compat_tests::batches::batch;
use compat_tests::client::Connection;
use highwater::broker::Broker;
use highwater::config::BrokerConfig;
use tokio::runtime::Runtime;

const BATCH_BYTES: usize = 256 << 10;
/// Smaller allocations are messages, queues, maps, index rows.
const LARGE_BYTES: usize = BATCH_BYTES / 2;
const BATCHES: usize = 40;

static LARGE_ALLOCATED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The client's allocations are not the broker's.
    static IS_CLIENT: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

fn count(bytes: usize) {
    // A thread that is ending has no locals any more, and is not the client.
    if bytes >= LARGE_BYTES && !IS_CLIENT.try_with(Cell::get).unwrap_or(false) {
        LARGE_ALLOCATED.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocated_by_broker(work: impl FnOnce()) -> usize {
    let before = LARGE_ALLOCATED.load(Ordering::SeqCst);
    work();
    LARGE_ALLOCATED.load(Ordering::SeqCst) - before
}

fn start(runtime: &Runtime, directory: &std::path::Path) -> Broker {
    let overrides = [
        "listeners=PLAINTEXT://127.0.0.1:0".to_owned(),
        "highwater.http.listener=".to_owned(),
        "highwater.durability=os".to_owned(),
        format!("log.dirs={}", directory.display()),
    ];
    let (config, _) = BrokerConfig::load(None, &[], &overrides).expect("a configuration");
    runtime.block_on(Broker::start(config)).expect("starts")
}

fn connect(broker: &Broker) -> Connection {
    Connection::open(broker.addresses()[0].1).expect("connects")
}

fn consume_all(broker: &Broker) -> usize {
    let mut connection = connect(broker);
    let mut offset = 0;
    let mut bytes = 0;
    while offset < BATCHES as i64 {
        let records = connection.fetch("t", 0, offset).records.expect("records");
        assert!(!records.is_empty());
        bytes += records.len();
        // One record a batch.
        offset += (records.len() / BATCH_BYTES) as i64;
    }
    bytes
}

#[test]
fn no_record_byte_is_copied_between_socket_and_store() {
    IS_CLIENT.set(true);
    let runtime = Runtime::new().expect("threads");
    let directory = tempfile::tempdir().expect("a directory");
    let broker = start(&runtime, directory.path());
    let mut connection = connect(&broker);
    connection.create_topic("t", 1);
    let batch = batch(&["x".repeat(BATCH_BYTES)]);
    let total = BATCHES * batch.len();
    // The first append wakes the partition, which has tables of its own to make.
    connection.append("t", 0, batch.clone());

    let allocated = allocated_by_broker(|| {
        for _ in 1..BATCHES {
            connection.append("t", 0, batch.clone());
        }
    });
    // Once for the bytes themselves, and a little for queues and tables that grow.
    assert!(allocated < total + total / 10, "{allocated} bytes allocated to produce {total}");
    let allocated = allocated_by_broker(|| assert_eq!(consume_all(&broker), total));
    assert!(allocated < total / 10, "{allocated} bytes allocated to consume {total} from memory");

    runtime.block_on(broker.shutdown()).expect("shuts down");
    let broker = start(&runtime, directory.path());
    connect(&broker).describe_topic("t");
    let allocated = allocated_by_broker(|| assert_eq!(consume_all(&broker), total));
    assert!(allocated < total / 10, "{allocated} bytes allocated to consume {total} from files");
    runtime.block_on(broker.shutdown()).expect("shuts down");
}
