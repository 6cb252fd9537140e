//! Connections over real sockets, with a handler that echoes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use storage::log_store::RecordSlice;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::budget::InFlightBudget;
use super::connection::{CloseReason, ConnectionLimits, Handled, Peer, RequestHandler};
use super::frame_reader::Frame;
use super::listener::{Acceptor, BoundListener, ConnectionQuota};

/// Answers with the request, by what its first byte says.
struct Echo {
    /// What held replies wait for.
    release: Arc<Semaphore>,
    /// Answered after the request's own bytes.
    file: Option<(Arc<std::fs::File>, usize)>,
}

const NOW: u8 = b'n';
const HELD: u8 = b'h';
const SILENT: u8 = b's';
const CLOSE: u8 = b'c';
const FILE: u8 = b'f';

fn framed(body: &[u8]) -> Bytes {
    let length = u32::try_from(body.len()).unwrap_or_default().to_be_bytes();
    Bytes::from([&length[..], body].concat())
}

impl RequestHandler for Echo {
    async fn handle(&self, _peer: &Peer, frame: Frame) -> Handled {
        let Frame { bytes, reservation } = frame;
        let reply = vec![RecordSlice::Memory(framed(&bytes))];
        match bytes.first() {
            Some(&HELD) => {
                let release = Arc::clone(&self.release);
                Handled::Later(Box::pin(async move {
                    if let Ok(permit) = release.acquire().await {
                        permit.forget();
                    }
                    drop((bytes, reservation));
                    Ok(reply)
                }))
            }
            Some(&SILENT) => Handled::Later(Box::pin(std::future::ready(Ok(Vec::new())))),
            Some(&CLOSE) => Handled::Close(CloseReason::Request("asked to".to_owned())),
            Some(&FILE) => {
                let (file, length) = self.file.clone().expect("the test gave a file");
                let prefix = u32::try_from(length).unwrap_or_default().to_be_bytes();
                Handled::Ready(vec![
                    RecordSlice::Memory(Bytes::copy_from_slice(&prefix)),
                    RecordSlice::File { file, position: 0, length },
                ])
            }
            _ => Handled::Ready(reply),
        }
    }
}

struct Server {
    acceptor: Acceptor<Echo>,
    address: SocketAddr,
}

struct Options {
    max_request_bytes: usize,
    budget_bytes: usize,
    max_idle: Duration,
    max_connections: usize,
    max_per_ip: usize,
    file: Option<(Arc<std::fs::File>, usize)>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_request_bytes: 100 << 20,
            budget_bytes: 64 << 20,
            max_idle: Duration::from_secs(600),
            max_connections: usize::MAX,
            max_per_ip: usize::MAX,
            file: None,
        }
    }
}

fn serve(options: Options) -> Server {
    let release = Arc::new(Semaphore::new(0));
    let acceptor = Acceptor {
        handler: Arc::new(Echo { release, file: options.file }),
        limits: ConnectionLimits {
            max_request_bytes: options.max_request_bytes,
            max_idle: options.max_idle,
            budget: InFlightBudget::new(options.budget_bytes),
        },
        quota: ConnectionQuota::new(options.max_connections, options.max_per_ip),
        connections: TaskTracker::new(),
        shutdown: CancellationToken::new(),
        abort: CancellationToken::new(),
    };
    let bound = BoundListener::bind("TEST", "127.0.0.1", 0).expect("a free port");
    acceptor.start(std::slice::from_ref(&bound)).expect("listens");
    Server { acceptor, address: bound.address() }
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connects")
    }

    fn release(&self, replies: usize) {
        self.acceptor.handler.release.add_permits(replies);
    }

    fn in_flight_bytes(&self) -> i64 {
        self.acceptor.limits.budget.in_flight_bytes()
    }

    /// Polls until so many bytes are in flight.
    async fn wait_for_in_flight(&self, bytes: i64) {
        while self.in_flight_bytes() != bytes {
            tokio::task::yield_now().await;
        }
    }
}

async fn send(stream: &mut TcpStream, body: &[u8]) {
    stream.write_all(&framed(body)).await.expect("sends");
}

async fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let length = stream.read_u32().await.expect("a reply") as usize;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("the whole reply");
    body
}

/// Whether the broker has closed the connection: its end, or a reset where bytes were unread.
async fn is_closed(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1]).await, Ok(0) | Err(_))
}

#[tokio::test]
async fn replies_leave_in_the_order_of_the_requests() {
    let server = serve(Options::default());
    let mut client = server.connect().await;
    send(&mut client, b"h1").await;
    send(&mut client, b"n2").await;
    send(&mut client, b"s-").await;
    send(&mut client, b"h3").await;
    send(&mut client, b"n4").await;
    server.release(2);
    for expected in [b"h1", b"n2", b"h3", b"n4"] {
        assert_eq!(receive(&mut client).await, expected);
    }
}

#[tokio::test]
async fn requests_are_read_while_earlier_ones_wait() {
    let server = serve(Options::default());
    let mut client = server.connect().await;
    for _ in 0..5 {
        send(&mut client, b"h234567890").await;
    }
    server.wait_for_in_flight(50).await;
    server.release(5);
    for _ in 0..5 {
        receive(&mut client).await;
    }
    assert_eq!(server.in_flight_bytes(), 0);
}

#[tokio::test]
async fn requests_survive_any_cut_of_the_stream() {
    let server = serve(Options::default());
    let mut client = server.connect().await;
    client.set_nodelay(true).expect("nodelay");
    let bodies: Vec<Vec<u8>> = (1..40usize).map(|length| vec![b'n'; length * length]).collect();
    let stream: Vec<u8> = bodies.iter().flat_map(|body| framed(body).to_vec()).collect();
    for (piece, step) in stream.chunks(7).zip((1..3).cycle()) {
        client.write_all(piece).await.expect("sends");
        if step == 1 {
            tokio::task::yield_now().await;
        }
    }
    for body in &bodies {
        assert_eq!(&receive(&mut client).await, body);
    }
}

#[tokio::test]
async fn a_request_is_one_buffer_of_its_own_size() {
    let server = serve(Options::default());
    let mut client = server.connect().await;
    // Far more than one read takes, and small ones right behind it.
    let large = vec![b'n'; 5 << 20];
    let (mut reading, mut writing) = client.split();
    let write = async {
        for body in [&large[..], b"n1", b"n2"] {
            writing.write_all(&framed(body)).await.expect("sends");
        }
    };
    let read = async {
        for expected in [&large[..], b"n1", b"n2"] {
            let length = reading.read_u32().await.expect("a reply") as usize;
            let mut body = vec![0; length];
            reading.read_exact(&mut body).await.expect("the whole reply");
            assert!(body == expected);
        }
    };
    tokio::join!(write, read);
}

#[tokio::test]
async fn an_announced_length_followed_by_silence_holds_nothing() {
    let server = serve(Options::default());
    let before = resident_kib();
    let mut silent = Vec::new();
    for _ in 0..50 {
        let mut client = server.connect().await;
        client.write_all(&(100u32 << 20).to_be_bytes()).await.expect("sends");
        client.write_all(b"n and then nothing").await.expect("sends");
        silent.push(client);
    }
    server.wait_for_in_flight(50 * 18).await;
    let grown_kib = resident_kib().saturating_sub(before);
    assert!(grown_kib < 20 << 10, "5 GB were announced and {grown_kib} KiB committed");
    let mut other = server.connect().await;
    send(&mut other, b"n").await;
    assert_eq!(receive(&mut other).await, b"n");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}

#[tokio::test]
async fn lengths_out_of_bounds_close_the_connection_and_no_other() {
    let server = serve(Options { max_request_bytes: 1000, ..Options::default() });
    let mut bystander = server.connect().await;
    for length in [-1i32, i32::MIN, i32::MAX, 1001] {
        let mut client = server.connect().await;
        client.write_all(&length.to_be_bytes()).await.expect("sends");
        assert!(is_closed(&mut client).await, "length {length}");
    }
    send(&mut bystander, b"n").await;
    assert_eq!(receive(&mut bystander).await, b"n");
}

#[tokio::test]
async fn at_the_budget_sockets_are_not_read_until_a_request_is_answered() {
    let server = serve(Options { budget_bytes: 1000, ..Options::default() });
    let mut first = server.connect().await;
    send(&mut first, &[HELD; 1000]).await;
    server.wait_for_in_flight(1000).await;
    let mut second = server.connect().await;
    send(&mut second, &[NOW; 10]).await;
    let unread = tokio::time::timeout(Duration::from_millis(100), second.readable()).await;
    assert!(unread.is_err(), "nothing was read, so nothing was answered");
    server.release(1);
    assert_eq!(receive(&mut second).await, [NOW; 10]);
    assert_eq!(receive(&mut first).await, [HELD; 1000]);
}

#[tokio::test]
async fn a_request_larger_than_the_budget_passes_alone() {
    let server = serve(Options { budget_bytes: 1000, ..Options::default() });
    let client = server.connect().await;
    let (mut reading, mut writing) = client.into_split();
    let body = vec![NOW; 5 << 20];
    let request = framed(&body);
    let sending = tokio::spawn(async move {
        writing.write_all(&request).await.expect("sends");
        writing
    });
    assert_eq!(reading.read_u32().await.expect("a reply") as usize, body.len());
    let mut reply = vec![0; body.len()];
    reading.read_exact(&mut reply).await.expect("the whole reply");
    assert!(reply == body);
    sending.await.expect("sent");
    server.wait_for_in_flight(0).await;
}

#[tokio::test]
async fn half_read_requests_that_spend_the_budget_together_still_become_whole() {
    let server = serve(Options { budget_bytes: 1000, ..Options::default() });
    let mut clients = Vec::new();
    for _ in 0..10 {
        let mut client = server.connect().await;
        client.write_all(&framed(&[NOW; 4000])[..204]).await.expect("sends");
        clients.push(client);
    }
    // Five of them spend it; what the others sent lies in their sockets.
    while server.in_flight_bytes() < 1000 {
        tokio::task::yield_now().await;
    }
    for mut client in clients {
        client.write_all(&[NOW; 3800]).await.expect("sends");
        tokio::spawn(async move {
            assert_eq!(receive(&mut client).await, [NOW; 4000]);
        })
        .await
        .expect("answered");
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_also_within_a_request() {
    let server = serve(Options { max_idle: Duration::from_millis(80), ..Options::default() });
    let mut silent = server.connect().await;
    let mut half = server.connect().await;
    half.write_all(&framed(b"n and more")[..7]).await.expect("sends");
    assert!(is_closed(&mut silent).await);
    assert!(is_closed(&mut half).await);
}

#[tokio::test]
async fn a_connection_that_waits_for_its_reply_is_not_idle() {
    let server = serve(Options { max_idle: Duration::from_millis(40), ..Options::default() });
    let mut client = server.connect().await;
    send(&mut client, b"h").await;
    let closed = tokio::time::timeout(Duration::from_millis(200), client.readable()).await;
    assert!(closed.is_err());
    server.release(1);
    assert_eq!(receive(&mut client).await, b"h");
}

#[tokio::test]
async fn replies_to_earlier_requests_leave_before_the_connection_is_closed() {
    let server = serve(Options::default());
    let mut client = server.connect().await;
    send(&mut client, b"n1").await;
    send(&mut client, b"c").await;
    assert_eq!(receive(&mut client).await, b"n1");
    assert!(is_closed(&mut client).await);
}

#[tokio::test]
async fn connections_beyond_the_limit_of_an_address_are_closed_at_once() {
    let server = serve(Options { max_per_ip: 2, ..Options::default() });
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    for client in [&mut first, &mut second] {
        send(client, b"n").await;
        receive(client).await;
    }
    let mut third = server.connect().await;
    assert!(is_closed(&mut third).await);
    drop(first);
    // The place is free once the broker has noticed.
    loop {
        let mut again = server.connect().await;
        let sent = again.write_all(&framed(b"n")).await.is_ok();
        if sent && again.read_u32().await.is_ok() {
            break;
        }
    }
}

#[tokio::test]
async fn at_max_connections_new_ones_wait_for_a_place() {
    let server = serve(Options { max_connections: 1, ..Options::default() });
    let mut first = server.connect().await;
    send(&mut first, b"n").await;
    receive(&mut first).await;
    let mut second = server.connect().await;
    send(&mut second, b"n").await;
    let waiting = tokio::time::timeout(Duration::from_millis(80), second.readable()).await;
    assert!(waiting.is_err());
    drop(first);
    assert_eq!(receive(&mut second).await, b"n");
}

#[tokio::test]
async fn file_ranges_are_sent_whole_behind_what_is_in_memory() {
    let mut contents = Vec::new();
    for word in 0..(2u32 << 20) {
        contents.extend(word.to_be_bytes());
    }
    let mut file = tempfile::tempfile().expect("a file");
    std::io::Write::write_all(&mut file, &contents).expect("writes");
    let file = Some((Arc::new(file), contents.len()));
    let server = serve(Options { file, ..Options::default() });
    let mut client = server.connect().await;
    for _ in 0..2 {
        send(&mut client, b"f").await;
        send(&mut client, b"n").await;
    }
    for _ in 0..2 {
        assert!(receive(&mut client).await == contents);
        assert_eq!(receive(&mut client).await, b"n");
    }
}

#[tokio::test]
async fn a_file_that_ends_early_closes_the_connection() {
    let file = Arc::new(tempfile::tempfile().expect("a file"));
    let server = serve(Options { file: Some((file, 10)), ..Options::default() });
    let mut client = server.connect().await;
    send(&mut client, b"f").await;
    assert_eq!(client.read_u32().await.expect("a length"), 10);
    assert!(is_closed(&mut client).await);
}

#[tokio::test]
async fn on_shutdown_requests_in_flight_are_answered_and_no_more_are_read() {
    let server = serve(Options::default());
    let mut client = server.connect().await;
    send(&mut client, b"h").await;
    server.wait_for_in_flight(1).await;
    server.acceptor.shutdown.cancel();
    server.acceptor.connections.close();
    server.release(1);
    assert_eq!(receive(&mut client).await, b"h");
    assert!(is_closed(&mut client).await);
    server.acceptor.connections.wait().await;
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn an_empty_host_takes_ipv4_and_ipv6_on_one_port() {
    let bound = BoundListener::bind("TEST", "", 0).expect("a free port");
    let server = serve(Options::default());
    server.acceptor.start(std::slice::from_ref(&bound)).expect("listens");
    let port = bound.address().port();
    assert_ne!(port, 0);
    for host in ["127.0.0.1", "::1"] {
        let Ok(mut client) = TcpStream::connect((host, port)).await else {
            assert!(!bound.address().is_ipv6(), "{host} is refused");
            continue;
        };
        send(&mut client, b"n").await;
        assert_eq!(receive(&mut client).await, b"n");
    }
}

#[test]
fn a_port_in_use_is_refused_with_a_sentence() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("its address").port();
    let refused = BoundListener::bind("EXTERNAL", "127.0.0.1", port).expect_err("in use");
    assert!(refused.contains("EXTERNAL") && refused.contains(&port.to_string()), "{refused}");
}
