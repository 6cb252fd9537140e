//! Connections that are encrypted, those that should be, and those who should not have come.

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rcgen::{CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tracing_subscriber::fmt::MakeWriter;

use super::super::frame::{self, PeerFrame};
use super::super::{ClusterSecret, PeerSecurity, PeerTls};
use super::*;

type Version = &'static SupportedProtocolVersion;
const V1_3: Version = &rustls::version::TLS13;
const VERSIONS: [Version; 2] = [V1_3, &rustls::version::TLS12];

/// Signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
struct Certified {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        Authority(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn certify(&self, name: &str) -> Certified {
        self.certify_until(name, 4096)
    }

    fn certify_until(&self, name: &str, year: i32) -> Certified {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let chain = vec![params.signed_by(&key, &self.0).unwrap().into()];
        Certified { chain, key: PrivateKeyDer::try_from(key.serialize_der()).unwrap() }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        Arc::new(roots)
    }
}

/// A broker that trusts an authority, shows a certificate if it has one, and asks callers for one.
fn tls(trusted: &Authority, own: Option<&Certified>, version: Version) -> PeerTls {
    let provider = Arc::new(ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(trusted.roots());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(trusted.roots(), provider.clone()).build();
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(verifier.unwrap());
    let (client, server) = match own {
        Some(own) => (
            client.with_client_auth_cert(own.chain.clone(), own.key.clone_key()).unwrap(),
            server.with_single_cert(own.chain.clone(), own.key.clone_key()).unwrap(),
        ),
        None => {
            let nothing = Arc::new(rustls::server::ResolvesServerCertUsingSni::new());
            (client.with_no_client_auth(), server.with_cert_resolver(nothing))
        }
    };
    PeerTls::new(Arc::new(client), Arc::new(server))
}

fn secured(tls: PeerTls, secret: Option<&str>) -> PeerSecurity {
    let secret = secret.map(|secret| ClusterSecret::new(secret.as_bytes()));
    PeerSecurity { tls: Some(tls), secret }
}

fn secure_peers(address: &str, security: PeerSecurity) -> TcpPeers {
    let addresses = BTreeMap::from([(PEER, address.to_owned())]);
    let identity = Identity::new(ME, "blue".to_owned()).with_security(security);
    TcpPeers::new(Arc::new(identity), addresses)
}

async fn refusal(peers: &TcpPeers) -> String {
    match call(peers, message(0, Vec::new())).await.unwrap_err() {
        PeerError::Unreachable(why) => why,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn brokers_that_trust_each_other_and_know_the_secret_talk() {
    let authority = Authority::new("blue");
    let (one, other) = (authority.certify("broker-1"), authority.certify("127.0.0.1"));
    for version in VERSIONS {
        for secret in [None, Some("tide")] {
            let security = secured(tls(&authority, Some(&other), version), secret);
            let server = Server::start_with("127.0.0.1:0", "blue", security).await;
            let security = secured(tls(&authority, Some(&one), version), secret);
            let peers = secure_peers(&server.address, security);
            for size in [0, 1, 5_000_000] {
                let body = vec![Bytes::from(vec![7; size]), Bytes::from_static(b"end")];
                let answer = call(&peers, message(3, body)).await.unwrap();
                assert_eq!((answer.kind, &answer.head[..]), (13, &b"head"[..]));
                let body = answer.body.concat();
                assert_eq!((body.len(), body.ends_with(b"end")), (size + 3, true));
            }
            assert!(!peers.has_ended(PEER).await);
            let waiting = peers.call(PEER, GroupId(5), message(2, Vec::new()), PATIENCE);
            let address = server.stop().await;
            assert!(waiting.await.is_err(), "its connection broke");
            assert!(peers.has_ended(PEER).await);
            let security = secured(tls(&authority, Some(&other), version), secret);
            let server = Server::start_with(&address, "blue", security).await;
            call_until_answered(&peers).await;
            server.stop().await;
        }
    }
}

#[tokio::test]
async fn whoever_is_not_trusted_is_told_why() {
    let (blue, red) = (Authority::new("blue"), Authority::new("red"));
    let own = blue.certify("broker-1");
    let good = blue.certify("127.0.0.1");
    let expired = blue.certify_until("127.0.0.1", 2020);
    let elsewhere = blue.certify("elsewhere");
    let stranger = red.certify("127.0.0.1");
    for version in VERSIONS {
        for (server, client, trusted, why) in [
            (&good, Some(&own), &red, "its certificate is refused: "),
            (&expired, Some(&own), &blue, "its certificate is refused: certificate expired"),
            (&elsewhere, Some(&own), &blue, "its certificate is refused: certificate not valid"),
            (&good, Some(&stranger), &blue, "it refuses this broker's certificate: "),
            (&good, Some(&expired), &blue, "it refuses this broker's certificate: "),
            // TLS 1.2 has no word of its own for it.
            (&good, None, &blue, if version == V1_3 { "it requires a certificate" } else { "it " }),
        ] {
            let security = secured(tls(&blue, Some(server), version), None);
            let server = Server::start_with("127.0.0.1:0", "blue", security).await;
            let peers = secure_peers(&server.address, secured(tls(trusted, client, version), None));
            let refused = refusal(&peers).await;
            assert!(refused.starts_with("broker 2 at 127.0.0.1:"), "{refused}");
            assert!(refused.contains(why), "{refused} is not: {why}");
            server.stop().await;
        }
    }
}

#[tokio::test]
async fn plaintext_and_tls_do_not_mix_and_both_say_so() {
    let authority = Authority::new("blue");
    let own = authority.certify("127.0.0.1");
    let security = || secured(tls(&authority, Some(&own), V1_3), None);
    let plain = Server::start("127.0.0.1:0", "blue").await;
    let why = refusal(&secure_peers(&plain.address, security())).await;
    assert!(why.contains("it does not speak TLS") && why.contains("PLAINTEXT"), "{why}");
    call_until_answered(&peers(&plain.address, "blue")).await;
    plain.stop().await;
    let encrypted = Server::start_with("127.0.0.1:0", "blue", security()).await;
    let why = refusal(&peers(&encrypted.address, "blue")).await;
    assert!(why.ends_with("it speaks TLS, and this broker PLAINTEXT"), "{why}");
    encrypted.stop().await;
}

#[tokio::test]
async fn another_secret_is_refused_over_tls_too() {
    let authority = Authority::new("blue");
    let own = authority.certify("127.0.0.1");
    let security = |secret| secured(tls(&authority, Some(&own), V1_3), secret);
    let server = Server::start_with("127.0.0.1:0", "blue", security(Some("tide"))).await;
    for (secret, why) in [(Some("ebb"), "broker 1 has another "), (None, "broker 1 has no ")] {
        let refused = refusal(&secure_peers(&server.address, security(secret))).await;
        assert!(refused.contains(why), "{refused}");
    }
    call_until_answered(&secure_peers(&server.address, security(Some("tide")))).await;
    server.stop().await;
}

#[tokio::test]
async fn garbage_and_silence_in_place_of_a_handshake_disturb_nobody() {
    let authority = Authority::new("blue");
    let own = authority.certify("127.0.0.1");
    let security = || secured(tls(&authority, Some(&own), V1_3), Some("tide"));
    let server = Server::start_with("127.0.0.1:0", "blue", security()).await;
    let mut silent = TcpStream::connect(&server.address).await.unwrap();
    let half = b"\x16\x03\x01\x02\x00\x01";
    let long = [0x16; 100_000];
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], half, &long, b"\x00\x00\x00\x20"] {
        let mut stream = TcpStream::connect(&server.address).await.unwrap();
        // It may be gone already when the last bytes are sent.
        stream.write_all(garbage).await.ok();
        stream.shutdown().await.ok();
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "it is closed");
    }
    call_until_answered(&secure_peers(&server.address, security())).await;
    // Who says nothing is not waited for.
    let ended = tokio::time::timeout(PATIENCE, silent.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_ok(), "it is closed");
    server.stop().await;
}

/// What is logged on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Log {
        self.clone()
    }
}

impl Log {
    fn count(&self, sentence: &str) -> usize {
        String::from_utf8_lossy(&self.0.lock()).matches(sentence).count()
    }
}

fn secret_only(secret: &str) -> PeerSecurity {
    PeerSecurity { tls: None, secret: Some(ClusterSecret::new(secret.as_bytes())) }
}

#[tokio::test]
async fn a_refusal_that_repeats_is_logged_once_on_each_side() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let server = Server::start_with("127.0.0.1:0", "blue", secret_only("tide")).await;
    // Each of them tries once.
    for _ in 0..3 {
        refusal(&secure_peers(&server.address, secret_only("ebb"))).await;
    }
    assert_eq!(log.count("a connection from 127.0.0.1 was refused: broker 1 has another"), 1);
    server.stop().await;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peers = peers(&listener.local_addr().unwrap().to_string(), "blue");
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            frame::read(&mut stream).await.unwrap();
            let refusal = PeerFrame::refusal(0, GroupId(0), "not you".to_owned());
            frame::write(&mut stream, refusal).await.unwrap();
        }
    });
    while tries.load(Ordering::Relaxed) < 4 {
        refusal(&peers).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(log.count("not you"), 1);
}
