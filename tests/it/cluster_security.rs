//! Brokers that encrypt what they say to each other, show each other certificates, and share a
//! secret: they form a cluster as others do, and let nobody else in.

use std::fs;
use std::path::Path;

use compat_tests::BrokerOptions;
use compat_tests::broker::is_kafka;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::cluster::{PARTITIONS, Trio, eventually};

/// An authority, and the stores of brokers that trust it and nobody else.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of brokers");
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// A broker that speaks TLS to the others, with stores and secret in a directory.
    fn protect(&self, options: BrokerOptions, dir: &Path, id: i32, secret: &str) -> BrokerOptions {
        let path = |name: &str| dir.join(format!("{name}-{id}"));
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        let store = certificate.pem() + &key.serialize_pem();
        for (name, text) in [("store", &*store), ("trusted", &self.0.pem()), ("secret", secret)] {
            fs::write(path(name), text).expect("it can be written");
        }
        let value = |name: &str| path(name).display().to_string();
        options
            .with("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL")
            .with("ssl.keystore.type", "PEM")
            .with("ssl.keystore.location", &value("store"))
            .with("ssl.truststore.type", "PEM")
            .with("listener.name.controller.ssl.truststore.location", &value("trusted"))
            .with("listener.name.controller.ssl.client.auth", "required")
            .with("highwater.cluster.secret.file", &value("secret"))
    }
}

/// A broker that has not joined and never will; killed when dropped.
struct Outsider {
    process: std::process::Child,
    log: std::path::PathBuf,
}

impl Outsider {
    fn start(options: &BrokerOptions) -> Outsider {
        let process = options.command().expect("a command").spawn().expect("it starts");
        Outsider { process, log: options.data_dir().with_file_name("broker.log") }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[test]
fn brokers_with_certificates_and_a_secret_form_a_cluster_and_refuse_who_has_another() {
    if is_kafka() {
        return;
    }
    let authority = Authority::new();
    let (mut trio, options) = Trio::prepare();
    let dir = trio.dir().to_owned();
    let options = (1..).zip(options);
    let options = options.map(|(id, options)| authority.protect(options, &dir, id, "tide\n"));
    trio.start_again(options.collect());
    trio.create_topic();
    for partition in 0..PARTITIONS {
        assert_eq!(trio.append(partition, "encrypted"), 0);
        assert_eq!(trio.values_of(partition), ["encrypted"]);
    }
    trio.see_all_in_sync();
    let killed = trio.brokers.remove(&1).expect("there").kill();
    assert_eq!(trio.append(0, "without the first"), 1);
    trio.start_again(vec![killed]);
    trio.see_all_in_sync();

    let fourth = authority.protect(trio.fourth(), &dir, 4, "ebb");
    let outsider = Outsider::start(&fourth);
    let sentence = "broker 4 has another highwater.cluster.secret than broker 1";
    for log in [&|| outsider.log(), &|| trio.brokers[&1].log()] as [&dyn Fn() -> String; 2] {
        eventually("refusal that is logged", || log().contains(sentence).then_some(()));
    }
    assert_eq!(trio.append(1, "undisturbed"), 1);
    drop(outsider);

    let fourth = authority.protect(trio.fourth(), &dir, 4, "tide");
    // The log is the outsider's, continued.
    trio.start_again(vec![fourth.allow_error(sentence)]);
    assert_eq!(trio.values_of(0), ["encrypted", "without the first"]);
}

#[test]
fn a_store_that_cannot_be_used_stops_the_start_with_a_sentence() {
    if is_kafka() {
        return;
    }
    let authority = Authority::new();
    let (trio, options) = Trio::prepare();
    let protected = authority.protect(options[0].clone(), trio.dir(), 1, "tide");
    for (key, value, sentence) in [
        ("ssl.keystore.type", "JKS", "ssl.keystore.type=JKS: allowed is PEM"),
        ("ssl.keystore.location", "/no/such.pem", "ssl.keystore.location=/no/such.pem: it cannot"),
    ] {
        let mut outsider = Outsider::start(&protected.clone().with(key, value));
        let status = outsider.process.wait().expect("it ends by itself");
        let log = outsider.log();
        assert!(!status.success() && log.contains(sentence), "{log}");
        assert!(!log.contains("panicked") && !log.contains("tide"), "{log}");
    }
}
