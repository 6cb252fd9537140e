//! Pure: how brokers protect what they say to each other, from Kafka's keys of the controllers'
//! listener and the cluster's secret. What is in the files that they name is read elsewhere.

use std::path::PathBuf;

use super::value::elements;

/// How connections between brokers are protected; nothing is, by default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PeerSecurityConfig {
    /// They are encrypted.
    pub tls: Option<TlsConfig>,
    /// They are for brokers that know it.
    pub secret: Option<Material>,
}

/// Certificates and what is done with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// This broker's private key.
    pub key: Material,
    /// Its certificate, and those between it and the authority.
    pub chain: Material,
    /// The authorities that are trusted.
    pub trusted: Material,
    /// Whether a broker that calls shows a certificate.
    pub client_auth: ClientAuth,
    /// Whether a broker that is called must have a certificate of the name it is called by.
    pub checks_names: bool,
    /// `ssl.enabled.protocols`, those that there are.
    pub versions: Vec<TlsVersion>,
    /// `ssl.cipher.suites`; empty = all.
    pub cipher_suites: Vec<String>,
}

/// `ssl.client.auth`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// It is not asked for one.
    None,
    /// One that it shows must be good.
    Requested,
    /// Without one it is refused.
    Required,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLSv1.2
    V1_2,
    /// TLSv1.3
    V1_3,
}

/// Something secret, or in PEM, and the key that gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Material {
    /// The configuration key, for sentences.
    pub key: String,
    /// Where it is.
    pub source: Source,
}

/// Where something is.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// In a file.
    File(PathBuf),
    /// In the configuration itself.
    Text(String),
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::File(path) => f.debug_tuple("File").field(path).finish(),
            Source::Text(_) => f.write_str("Text(hidden)"),
        }
    }
}

/// Kafka's security protocols that brokers can speak among themselves here.
const PLAINTEXT: &str = "PLAINTEXT";
const SSL: &str = "SSL";

/// Values by key. A key of a listener, `listener.name.<listener>.<key>`, goes before the key itself
/// (Kafka: `AbstractConfig.valuesWithPrefixOverride`).
pub struct ListenerValues<'a> {
    /// The listener's name.
    pub listener: &'a str,
    /// Its security protocol.
    pub protocol: &'a str,
    /// Whether a key was given or has a default, and its value; an empty one is none.
    pub get: &'a dyn Fn(&str) -> Option<&'a str>,
}

impl<'a> ListenerValues<'a> {
    /// The name by which a key was given, and its value.
    fn find(&self, key: &str) -> (String, Option<&'a str>) {
        let own = format!("listener.name.{}.{key}", self.listener.to_lowercase());
        let (name, value) = match (self.get)(&own) {
            Some(value) => (own, Some(value)),
            None => (key.to_owned(), (self.get)(key)),
        };
        (name, value.map(str::trim).filter(|value| !value.is_empty()))
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.find(key).1
    }
}

/// What the keys say.
///
/// # Errors
/// The key, the value and what is allowed; no secrets.
pub fn resolve(values: &ListenerValues<'_>) -> Result<PeerSecurityConfig, String> {
    let tls = match values.protocol {
        PLAINTEXT => None,
        SSL => Some(tls(values)?),
        other => {
            return Err(format!(
                "listener.security.protocol.map={}:{other}: brokers do not speak that among \
                 themselves; allowed is {PLAINTEXT} or {SSL}",
                values.listener
            ));
        }
    };
    Ok(PeerSecurityConfig { tls, secret: secret(values)? })
}

fn secret(values: &ListenerValues<'_>) -> Result<Option<Material>, String> {
    const TEXT: &str = "highwater.cluster.secret";
    const FILE: &str = "highwater.cluster.secret.file";
    match ((values.get)(TEXT), (values.get)(FILE)) {
        (Some(_), Some(_)) => Err(format!("{TEXT} and {FILE} are both given: allowed is one")),
        (None, None) => Ok(None),
        (Some(""), _) | (_, Some("")) => {
            Err(format!("{TEXT} is empty: allowed is any text, or a file that {FILE} names"))
        }
        (Some(text), None) => Ok(Some(in_line(TEXT.to_owned(), text))),
        (None, Some(path)) => Ok(Some(in_file(FILE.to_owned(), path))),
    }
}

fn in_line(key: String, text: &str) -> Material {
    Material { key, source: Source::Text(text.to_owned()) }
}

fn in_file(key: String, path: &str) -> Material {
    Material { key, source: Source::File(PathBuf::from(path)) }
}

fn tls(values: &ListenerValues<'_>) -> Result<TlsConfig, String> {
    for key in ["ssl.keystore.password", "ssl.key.password", "ssl.truststore.password"] {
        if let (name, Some(_)) = values.find(key) {
            return Err(format!(
                "{name}=(hidden): PEM that is encrypted cannot be read; allowed is a private key \
                 without a password"
            ));
        }
    }
    let (key, chain) = key_store(values)?;
    let (name, algorithm) = values.find("ssl.endpoint.identification.algorithm");
    let checks_names = match algorithm {
        None => false,
        Some(algorithm) if algorithm.eq_ignore_ascii_case("https") => true,
        Some(other) => {
            return Err(format!("{name}={other}: allowed is https, or nothing for no check"));
        }
    };
    let (name, client_auth) = values.find("ssl.client.auth");
    let client_auth = match client_auth.unwrap_or("none") {
        "none" => ClientAuth::None,
        "requested" => ClientAuth::Requested,
        "required" => ClientAuth::Required,
        other => return Err(format!("{name}={other}: allowed is none, requested or required")),
    };
    Ok(TlsConfig {
        key,
        chain,
        trusted: trust_store(values)?,
        client_auth,
        checks_names,
        versions: versions(values)?,
        cipher_suites: elements(values.text("ssl.cipher.suites").unwrap_or_default())
            .map(str::to_owned)
            .collect(),
    })
}

fn check_is_pem(values: &ListenerValues<'_>, key: &str) -> Result<(), String> {
    let (name, kind) = values.find(key);
    let kind = kind.unwrap_or_default();
    if kind.eq_ignore_ascii_case("PEM") {
        return Ok(());
    }
    Err(format!("{name}={kind}: allowed is PEM; stores in JKS and PKCS12 cannot be read"))
}

/// Key and chain.
fn key_store(values: &ListenerValues<'_>) -> Result<(Material, Material), String> {
    const LOCATION: &str = "ssl.keystore.location";
    const KEY: &str = "ssl.keystore.key";
    const CHAIN: &str = "ssl.keystore.certificate.chain";
    let (location_name, location) = values.find(LOCATION);
    let (key_name, key) = values.find(KEY);
    let (chain_name, chain) = values.find(CHAIN);
    let materials = match (location, key, chain) {
        (Some(path), None, None) => {
            (in_file(location_name.clone(), path), in_file(location_name, path))
        }
        (None, Some(key), Some(chain)) => (in_line(key_name, key), in_line(chain_name, chain)),
        (Some(_), _, _) => {
            return Err(format!(
                "{location_name} is given, and {key_name} or {chain_name} too: allowed is a file \
                 with both, or both in line"
            ));
        }
        (None, _, _) => {
            return Err(format!(
                "listener {} has the security protocol {}: a private key and its certificate are \
                 needed, in a file that {LOCATION} names, or as {KEY} and {CHAIN}",
                values.listener, values.protocol
            ));
        }
    };
    check_is_pem(values, "ssl.keystore.type")?;
    Ok(materials)
}

fn trust_store(values: &ListenerValues<'_>) -> Result<Material, String> {
    const LOCATION: &str = "ssl.truststore.location";
    const CERTIFICATES: &str = "ssl.truststore.certificates";
    let (location_name, location) = values.find(LOCATION);
    let (certificates_name, certificates) = values.find(CERTIFICATES);
    let trusted = match (location, certificates) {
        (Some(path), None) => in_file(location_name, path),
        (None, Some(certificates)) => in_line(certificates_name, certificates),
        (Some(_), Some(_)) => {
            return Err(format!(
                "{location_name} and {certificates_name} are both given: allowed is one"
            ));
        }
        (None, None) => {
            return Err(format!(
                "listener {} has the security protocol {}: the certificates of authorities that \
                 other brokers are trusted by are needed, in a file that {LOCATION} names, or as \
                 {CERTIFICATES}",
                values.listener, values.protocol
            ));
        }
    };
    check_is_pem(values, "ssl.truststore.type")?;
    Ok(trusted)
}

/// What is given beyond these is older than TLS should be.
fn versions(values: &ListenerValues<'_>) -> Result<Vec<TlsVersion>, String> {
    let (name, given) = values.find("ssl.enabled.protocols");
    let given = given.unwrap_or_default();
    let has = |version: &str| elements(given).any(|element| element == version);
    let all = [("TLSv1.2", TlsVersion::V1_2), ("TLSv1.3", TlsVersion::V1_3)];
    let versions: Vec<TlsVersion> =
        all.iter().filter(|(version, _)| has(version)).map(|(_, version)| *version).collect();
    if versions.is_empty() {
        return Err(format!("{name}={given}: allowed is a list with TLSv1.2, TLSv1.3 or both"));
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const DEFAULTS: [(&str, &str); 5] = [
        ("ssl.keystore.type", "JKS"),
        ("ssl.truststore.type", "JKS"),
        ("ssl.client.auth", "none"),
        ("ssl.endpoint.identification.algorithm", "https"),
        ("ssl.enabled.protocols", "TLSv1.2,TLSv1.3"),
    ];
    const FILES: [(&str, &str); 4] = [
        ("ssl.keystore.type", "PEM"),
        ("ssl.keystore.location", "/key.pem"),
        ("ssl.truststore.type", "PEM"),
        ("ssl.truststore.location", "/ca.pem"),
    ];

    fn resolved(
        protocol: &str,
        given: &[&[(&str, &'static str)]],
    ) -> Result<PeerSecurityConfig, String> {
        let mut values: BTreeMap<String, &str> = BTreeMap::new();
        for (key, value) in DEFAULTS.iter().chain(given.iter().copied().flatten()) {
            values.insert((*key).to_owned(), value);
        }
        let get = |key: &str| values.get(key).copied();
        resolve(&ListenerValues { listener: "CONTROLLER", protocol, get: &get })
    }

    #[test]
    fn plaintext_without_a_secret_is_the_default() {
        assert_eq!(resolved("PLAINTEXT", &[&FILES]), Ok(PeerSecurityConfig::default()));
        let refused = resolved("SASL_SSL", &[]).unwrap_err();
        assert!(refused.contains("CONTROLLER:SASL_SSL") && refused.contains("PLAINTEXT or SSL"));
    }

    #[test]
    fn the_listeners_own_keys_go_first() {
        let own = [
            ("listener.name.controller.ssl.keystore.location", "/own.pem"),
            ("listener.name.controller.ssl.client.auth", "required"),
            ("listener.name.controller.ssl.endpoint.identification.algorithm", ""),
            ("listener.name.other.ssl.truststore.location", "/other.pem"),
        ];
        let tls = resolved("SSL", &[&FILES, &own]).unwrap().tls.unwrap();
        let key = "listener.name.controller.ssl.keystore.location".to_owned();
        assert_eq!(tls.key, Material { key, source: Source::File("/own.pem".into()) });
        assert_eq!(tls.chain, tls.key);
        assert_eq!(tls.trusted.source, Source::File("/ca.pem".into()));
        assert_eq!((tls.client_auth, tls.checks_names), (ClientAuth::Required, false));
        let tls = resolved("SSL", &[&FILES]).unwrap().tls.unwrap();
        assert_eq!((tls.client_auth, tls.checks_names), (ClientAuth::None, true));
        assert_eq!(tls.versions, [TlsVersion::V1_2, TlsVersion::V1_3]);
    }

    #[test]
    fn pem_may_stand_in_line_and_is_never_shown() {
        let in_line = [
            ("ssl.keystore.type", "PEM"),
            ("ssl.keystore.key", "the key"),
            ("ssl.keystore.certificate.chain", "the chain"),
            ("ssl.truststore.type", "PEM"),
            ("ssl.truststore.certificates", "the authority"),
            ("highwater.cluster.secret", "the secret"),
        ];
        let security = resolved("SSL", &[&in_line]).unwrap();
        let tls = security.tls.as_ref().unwrap();
        assert_eq!(tls.key.source, Source::Text("the key".into()));
        assert_eq!(tls.chain.source, Source::Text("the chain".into()));
        assert!(!format!("{security:?}").contains("the "), "{security:?}");
    }

    #[test]
    fn what_cannot_be_is_named() {
        let key = [("ssl.keystore.key", "k")];
        for (given, sentence) in [
            (&[("ssl.keystore.type", "JKS")][..], "ssl.keystore.type=JKS: allowed is PEM"),
            (&[("ssl.truststore.type", "PKCS12")], "ssl.truststore.type=PKCS12: allowed is PEM"),
            (&[("ssl.keystore.location", "")], "ssl.keystore.location names"),
            (&[("ssl.truststore.location", "")], "ssl.truststore.location names"),
            (&key, "ssl.keystore.location is given, and ssl.keystore.key"),
            (&[("ssl.truststore.certificates", "c")], "both given"),
            (&[("ssl.key.password", "hush")], "ssl.key.password=(hidden)"),
            (&[("ssl.client.auth", "maybe")], "ssl.client.auth=maybe: allowed is none, requested"),
            (&[("ssl.endpoint.identification.algorithm", "x")], "allowed is https, or nothing"),
            (&[("ssl.enabled.protocols", "TLSv1")], "ssl.enabled.protocols=TLSv1: allowed"),
            (
                &[("highwater.cluster.secret", "s"), ("highwater.cluster.secret.file", "/f")],
                "highwater.cluster.secret and highwater.cluster.secret.file are both given",
            ),
            (&[("highwater.cluster.secret", "")], "highwater.cluster.secret is empty"),
        ] {
            let refused = resolved("SSL", &[&FILES, given]).unwrap_err();
            assert!(refused.contains(sentence), "{refused}");
            assert!(!refused.contains("hush"), "{refused}");
        }
        let half = [("ssl.keystore.location", ""), ("ssl.keystore.key", "k")];
        let refused = resolved("SSL", &[&FILES, &half]).unwrap_err();
        assert!(refused.contains("ssl.keystore.certificate.chain"), "{refused}");
    }
}
