//! Reads what protects the connections between brokers: keys, certificates and the secret, from the
//! configuration or the files that it names. They are read once, at start.

use std::path::Path;
use std::sync::Arc;

use cluster::transport::{ClusterSecret, PeerSecurity, PeerTls};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};

use crate::config::peer_security::{
    ClientAuth, Material, PeerSecurityConfig, Source, TlsConfig, TlsVersion,
};

/// Loads everything.
///
/// # Errors
/// A sentence with the key, the file, and what is wrong; no secrets.
pub fn load(config: &PeerSecurityConfig) -> Result<PeerSecurity, String> {
    let secret = config.secret.as_ref().map(secret).transpose()?;
    let tls = config.tls.as_ref().map(tls).transpose()?;
    Ok(PeerSecurity { tls, secret })
}

fn secret(material: &Material) -> Result<ClusterSecret, String> {
    let text = text(material)?;
    // An editor ends a file with a line.
    match text.trim() {
        "" => Err(format!("{}: the secret is empty", name(material))),
        secret => Ok(ClusterSecret::new(secret.as_bytes())),
    }
}

fn text(material: &Material) -> Result<String, String> {
    match &material.source {
        Source::Text(text) => Ok(text.clone()),
        Source::File(path) => read(path).map_err(|error| format!("{}: {error}", name(material))),
    }
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("it cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|_| "it is no text, so it is not PEM".to_owned())
}

/// The key, and the file where there is one: what stands in line is not shown.
fn name(material: &Material) -> String {
    match &material.source {
        Source::Text(_) => format!("{}=(hidden)", material.key),
        Source::File(path) => format!("{}={}", material.key, path.display()),
    }
}

fn tls(config: &TlsConfig) -> Result<PeerTls, String> {
    let provider = Arc::new(provider(&config.cipher_suites)?);
    let versions: Vec<&'static SupportedProtocolVersion> =
        config.versions.iter().map(|version| supported(*version)).collect();
    let chain = certificates(&config.chain)?;
    let key = private_key(&config.key)?;
    let roots = Arc::new(authorities(&config.trusted)?);
    let unfit = |error: rustls::Error| format!("TLS between brokers: {error}");
    let mismatched = |error: rustls::Error| {
        format!("{}: the key cannot be used with its certificate: {error}", name(&config.key))
    };

    let verifier: Arc<dyn ServerCertVerifier> = if config.checks_names {
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
            .build()
            .map_err(|error| format!("{}: {error}", name(&config.trusted)))?
    } else {
        let algorithms = provider.signature_verification_algorithms;
        Arc::new(AnyName { roots: Arc::clone(&roots), algorithms })
    };
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(unfit)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(chain.clone(), key.clone_key())
        .map_err(mismatched)?;

    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions)
        .map_err(unfit)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
    let verifier = match config.client_auth {
        ClientAuth::None => None,
        ClientAuth::Requested => Some(verifier.allow_unauthenticated().build()),
        ClientAuth::Required => Some(verifier.build()),
    };
    let verifier =
        verifier.transpose().map_err(|error| format!("{}: {error}", name(&config.trusted)))?;
    let server = match verifier {
        Some(verifier) => server.with_client_cert_verifier(verifier),
        None => server.with_no_client_auth(),
    };
    let server = server.with_single_cert(chain, key).map_err(mismatched)?;
    Ok(PeerTls::new(Arc::new(client), Arc::new(server)))
}

fn supported(version: TlsVersion) -> &'static SupportedProtocolVersion {
    match version {
        TlsVersion::V1_2 => &rustls::version::TLS12,
        TlsVersion::V1_3 => &rustls::version::TLS13,
    }
}

/// All cipher suites, or those of them that are asked for, by Java's names.
fn provider(suites: &[String]) -> Result<CryptoProvider, String> {
    let mut provider = ring::default_provider();
    if suites.is_empty() {
        return Ok(provider);
    }
    let java_name = |suite: &rustls::SupportedCipherSuite| {
        format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1)
    };
    let all: Vec<String> = provider.cipher_suites.iter().map(java_name).collect();
    provider.cipher_suites.retain(|suite| suites.contains(&java_name(suite)));
    if provider.cipher_suites.is_empty() {
        return Err(format!(
            "ssl.cipher.suites={}: allowed is a list with one of {}",
            suites.join(","),
            all.join(", ")
        ));
    }
    Ok(provider)
}

fn certificates(material: &Material) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = pem_in_lines(&text(material)?);
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(format!("{}: there is no certificate in it", name(material)))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(format!("{}: that is no PEM: {error}", name(material))),
    }
}

fn private_key(material: &Material) -> Result<PrivateKeyDer<'static>, String> {
    use rustls::pki_types::pem::Error;
    let text = text(material)?;
    if text.contains("BEGIN ENCRYPTED PRIVATE KEY") {
        return Err(format!(
            "{}: the private key is encrypted, and cannot be read; allowed is one without a \
             password",
            name(material)
        ));
    }
    PrivateKeyDer::from_pem_slice(pem_in_lines(&text).as_bytes()).map_err(|error| match error {
        Error::NoItemsFound => format!("{}: there is no private key in it", name(material)),
        error => format!("{}: that is no PEM: {error}", name(material)),
    })
}

fn authorities(material: &Material) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(material)? {
        roots
            .add(certificate)
            .map_err(|error| format!("{}: a certificate is of no use: {error}", name(material)))?;
    }
    Ok(roots)
}

/// PEM whose lines were joined by blanks, as it must be where a value has one line, with its lines
/// as they should be (Kafka's `PemParser` reads both).
fn pem_in_lines(text: &str) -> String {
    const DASHES: &str = "-----";
    let mut lines = String::with_capacity(text.len());
    // Between dashes stand labels and, in turn, what is between two of these.
    for (place, part) in text.split(DASHES).enumerate() {
        if place % 2 == 1 {
            lines.extend(["\n", DASHES, part.trim(), DASHES, "\n"]);
        } else {
            lines.extend(part.split_whitespace().flat_map(|word| [word, "\n"]));
        }
    }
    lines
}

/// Believes a certificate that an authority has signed, whatever its name:
/// `ssl.endpoint.identification.algorithm` is empty.
#[derive(Debug)]
struct AnyName {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let (roots, algorithms) = (&self.roots, self.algorithms.all);
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            roots,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn in_line(key: &str, text: &str) -> Material {
        Material { key: key.to_owned(), source: Source::Text(text.to_owned()) }
    }

    fn in_file(key: &str, path: PathBuf) -> Material {
        Material { key: key.to_owned(), source: Source::File(path) }
    }

    /// A certificate that is its own authority, and its key.
    fn certified() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["broker-1".to_owned()]).unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    fn config() -> TlsConfig {
        let (certificate, key) = certified();
        TlsConfig {
            key: in_line("ssl.keystore.key", &key),
            chain: in_line("ssl.keystore.certificate.chain", &certificate),
            trusted: in_line("ssl.truststore.certificates", &certificate),
            client_auth: ClientAuth::Required,
            checks_names: true,
            versions: vec![TlsVersion::V1_2, TlsVersion::V1_3],
            cipher_suites: Vec::new(),
        }
    }

    #[track_caller]
    fn refused(config: TlsConfig) -> String {
        tls(&config).map(|_| ()).expect_err("it cannot be used")
    }

    #[test]
    fn stores_are_read_from_lines_and_from_files() {
        let dir = tempfile::tempdir().unwrap();
        let all = config();
        let (key, chain) = (text(&all.key).unwrap(), text(&all.chain).unwrap());
        let store = dir.path().join("store.pem");
        std::fs::write(&store, format!("Bag Attributes: none\n{key}{chain}")).unwrap();
        let store = in_file("ssl.keystore.location", store);
        for client_auth in [ClientAuth::None, ClientAuth::Requested, ClientAuth::Required] {
            for checks_names in [true, false] {
                let chain = store.clone();
                let one = TlsConfig { key: store.clone(), chain, client_auth, ..all.clone() };
                tls(&TlsConfig { checks_names, ..one }).unwrap();
            }
        }
        // As a value of one line has it.
        let joined = |text: &str| text.replace('\n', " ");
        let (key, chain) = (joined(&key), joined(&chain));
        let (key, chain) = (in_line("k", &key), in_line("c", &chain));
        tls(&TlsConfig { key, chain: chain.clone(), trusted: chain, ..all.clone() }).unwrap();
        let cipher_suites = vec!["TLS_AES_128_GCM_SHA256".to_owned(), "OTHER".to_owned()];
        let versions = vec![TlsVersion::V1_3];
        tls(&TlsConfig { cipher_suites, versions, ..all }).unwrap();
    }

    #[test]
    fn what_cannot_be_used_is_named_and_not_shown() {
        let all = config();
        let missing = in_file("ssl.keystore.location", "/no/such/file.pem".into());
        let why = refused(TlsConfig { key: missing.clone(), chain: missing, ..all.clone() });
        assert!(why.starts_with("ssl.keystore.location=/no/such/file.pem: it cannot"), "{why}");
        let why = refused(TlsConfig { key: all.chain.clone(), ..all.clone() });
        assert!(why.ends_with("chain=(hidden): there is no private key in it"), "{why}");
        let why = refused(TlsConfig { trusted: all.key.clone(), ..all.clone() });
        assert!(why.ends_with("key=(hidden): there is no certificate in it"), "{why}");
        let why = refused(TlsConfig { key: config().key, ..all.clone() });
        assert!(why.contains("cannot be used with its certificate"), "{why}");
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let why = refused(TlsConfig { trusted: in_line("t", broken), ..all.clone() });
        assert!(why.starts_with("t=(hidden): a certificate is of no use"), "{why}");
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n";
        let why = refused(TlsConfig { key: in_line("k", encrypted), ..all.clone() });
        assert!(why.starts_with("k=(hidden): the private key is encrypted"), "{why}");
        let why = refused(TlsConfig { cipher_suites: vec!["ROT13".into()], ..all });
        assert!(why.contains("=ROT13: ") && why.contains("TLS_AES_256_GCM_SHA384"), "{why}");
    }

    #[test]
    fn a_secret_comes_from_a_file_without_its_last_line_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        let material = in_file("highwater.cluster.secret.file", path.clone());
        assert!(secret(&material).unwrap_err().contains("it cannot be read"));
        std::fs::write(&path, "\n").unwrap();
        assert!(secret(&material).unwrap_err().ends_with("the secret is empty"));
        std::fs::write(&path, "tide\n").unwrap();
        secret(&material).unwrap();
        let config = PeerSecurityConfig { tls: None, secret: Some(material) };
        assert!(!format!("{:?}", load(&config).unwrap()).contains("tide"));
    }
}
