//! TLS, SASL, tokens and access control.
//!
//! Pure: a table.

use super::reasons::{
    ACCESS_CONTROL, JVM, PEM_ONLY, READ_AT_START, SECURITY, TLS_VERSIONS, TOKENS,
};
use super::{Definition, boolean, class, double, int, list, long, password, short, string};

const PRINCIPAL_BUILDER: &str =
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder";
const JWT_RETRIEVER: &str = "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever";
const JWT_VALIDATOR: &str = "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator";

/// The rows, by name.
pub(super) const ROWS: &[Definition] = &[
    boolean("allow.everyone.if.no.acl.found", Some("false"))
        .no_effect(ACCESS_CONTROL)
        .doc("Whether a resource without any ACL is open to everybody."),
    string("authorizer.class.name", Some(""))
        .one_of(&[""])
        .doc("Class that decides who may do what; must be empty until access control is built."),
    long("delegation.token.expiry.check.interval.ms", Some("3600000"))
        .at_least(1)
        .no_effect(TOKENS)
        .doc("How often expired delegation tokens are removed."),
    long("delegation.token.expiry.time.ms", Some("86400000"))
        .at_least(1)
        .no_effect(TOKENS)
        .doc("How long a delegation token lives before it must be renewed."),
    long("delegation.token.max.lifetime.ms", Some("604800000"))
        .at_least(1)
        .no_effect(TOKENS)
        .doc("How long a delegation token lives at most."),
    password("delegation.token.secret.key", None)
        .no_effect(TOKENS)
        .doc("Secret that delegation tokens are signed with."),
    class("principal.builder.class", Some(PRINCIPAL_BUILDER))
        .per_broker()
        .no_effect(JVM)
        .doc("Class that makes a principal out of a connection's credentials."),
    class("sasl.client.callback.handler.class", None)
        .no_effect(JVM)
        .doc("Class that answers the callbacks of SASL clients."),
    list("sasl.enabled.mechanisms", Some("GSSAPI"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("SASL mechanisms that clients may use."),
    password("sasl.jaas.config", None)
        .per_broker()
        .no_effect(SECURITY)
        .doc("Login of a SASL mechanism, in the format of JAAS."),
    string("sasl.kerberos.kinit.cmd", Some("/usr/bin/kinit"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("Path of kinit."),
    long("sasl.kerberos.min.time.before.relogin", Some("60000"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("Shortest time between two Kerberos logins."),
    list("sasl.kerberos.principal.to.local.rules", Some("DEFAULT"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("Rules by which Kerberos names become short names."),
    string("sasl.kerberos.service.name", None)
        .per_broker()
        .no_effect(SECURITY)
        .doc("Kerberos name that the broker runs as."),
    double("sasl.kerberos.ticket.renew.jitter", Some("0.05"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("Random part of the time to the next renewal of a ticket."),
    double("sasl.kerberos.ticket.renew.window.factor", Some("0.8"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("Share of a ticket's life after which it is renewed."),
    class("sasl.login.callback.handler.class", None)
        .no_effect(JVM)
        .doc("Class that answers the callbacks of SASL logins."),
    class("sasl.login.class", None).no_effect(JVM).doc("Class that carries out SASL logins."),
    int("sasl.login.connect.timeout.ms", None)
        .no_effect(SECURITY)
        .doc("How long a connection to the identity provider may take."),
    int("sasl.login.read.timeout.ms", None)
        .no_effect(SECURITY)
        .doc("How long an answer of the identity provider may take."),
    short("sasl.login.refresh.buffer.seconds", Some("300"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("Time before a credential's end in which it is not refreshed."),
    short("sasl.login.refresh.min.period.seconds", Some("60"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("Shortest time between two refreshes of a credential."),
    double("sasl.login.refresh.window.factor", Some("0.8"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("Share of a credential's life after which it is refreshed."),
    double("sasl.login.refresh.window.jitter", Some("0.05"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("Random part of the time to the next refresh."),
    long("sasl.login.retry.backoff.max.ms", Some("10000"))
        .no_effect(SECURITY)
        .doc("Longest pause between two tries to log in."),
    long("sasl.login.retry.backoff.ms", Some("100"))
        .no_effect(SECURITY)
        .doc("First pause between two tries to log in."),
    string("sasl.mechanism.controller.protocol", Some("GSSAPI"))
        .no_effect(SECURITY)
        .doc("SASL mechanism towards controllers."),
    string("sasl.mechanism.inter.broker.protocol", Some("GSSAPI"))
        .per_broker()
        .no_effect(SECURITY)
        .doc("SASL mechanism among brokers."),
    boolean("sasl.oauthbearer.allow.unverified.audience", Some("false"))
        .no_effect(SECURITY)
        .doc("Whether a token is accepted whose audience is not checked."),
    boolean("sasl.oauthbearer.allow.unverified.issuer", Some("false"))
        .no_effect(SECURITY)
        .doc("Whether a token is accepted whose issuer is not checked."),
    string("sasl.oauthbearer.assertion.algorithm", Some("RS256"))
        .one_of_any_case(&["ES256", "RS256"])
        .no_effect(SECURITY)
        .doc("Algorithm that assertions are signed with."),
    string("sasl.oauthbearer.assertion.claim.aud", None)
        .no_effect(SECURITY)
        .doc("Audience claim of an assertion."),
    int("sasl.oauthbearer.assertion.claim.exp.seconds", Some("300"))
        .between(0, 86400)
        .no_effect(SECURITY)
        .doc("How long an assertion is valid."),
    string("sasl.oauthbearer.assertion.claim.iss", None)
        .no_effect(SECURITY)
        .doc("Issuer claim of an assertion."),
    boolean("sasl.oauthbearer.assertion.claim.jti.include", Some("false"))
        .no_effect(SECURITY)
        .doc("Whether an assertion has an id of its own."),
    int("sasl.oauthbearer.assertion.claim.nbf.seconds", Some("60"))
        .between(0, 3600)
        .no_effect(SECURITY)
        .doc("How far back an assertion's validity begins."),
    string("sasl.oauthbearer.assertion.claim.sub", None)
        .no_effect(SECURITY)
        .doc("Subject claim of an assertion."),
    string("sasl.oauthbearer.assertion.file", None)
        .no_effect(SECURITY)
        .doc("File with a ready assertion."),
    string("sasl.oauthbearer.assertion.private.key.file", None)
        .no_effect(SECURITY)
        .doc("File with the key that assertions are signed with."),
    password("sasl.oauthbearer.assertion.private.key.passphrase", None)
        .no_effect(SECURITY)
        .doc("Passphrase of the key that assertions are signed with."),
    string("sasl.oauthbearer.assertion.template.file", None)
        .no_effect(SECURITY)
        .doc("File with header and claims of an assertion."),
    string("sasl.oauthbearer.client.credentials.client.id", None)
        .no_effect(SECURITY)
        .doc("Client id at the identity provider."),
    password("sasl.oauthbearer.client.credentials.client.secret", None)
        .no_effect(SECURITY)
        .doc("Client secret at the identity provider."),
    int("sasl.oauthbearer.clock.skew.seconds", Some("30"))
        .no_effect(SECURITY)
        .doc("By how much clocks may differ when a token is checked."),
    list("sasl.oauthbearer.expected.audience", Some(""))
        .no_effect(SECURITY)
        .doc("Audiences of which a token must name one."),
    string("sasl.oauthbearer.expected.issuer", None)
        .no_effect(SECURITY)
        .doc("Issuer that a token must name."),
    long("sasl.oauthbearer.jwks.endpoint.refresh.ms", Some("3600000"))
        .no_effect(SECURITY)
        .doc("How often the issuer's keys are fetched again."),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Some("10000"))
        .no_effect(SECURITY)
        .doc("Longest pause between two tries to fetch the issuer's keys."),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Some("100"))
        .no_effect(SECURITY)
        .doc("First pause between two tries to fetch the issuer's keys."),
    string("sasl.oauthbearer.jwks.endpoint.url", None)
        .no_effect(SECURITY)
        .doc("Where the issuer's keys are found."),
    class("sasl.oauthbearer.jwt.retriever.class", Some(JWT_RETRIEVER))
        .no_effect(JVM)
        .doc("Class that fetches tokens."),
    class("sasl.oauthbearer.jwt.validator.class", Some(JWT_VALIDATOR))
        .no_effect(JVM)
        .doc("Class that checks tokens."),
    string("sasl.oauthbearer.scope", None)
        .no_effect(SECURITY)
        .doc("Scope that is asked for at the identity provider."),
    string("sasl.oauthbearer.scope.claim.name", Some("scope"))
        .no_effect(SECURITY)
        .doc("Claim of a token that has its scope."),
    string("sasl.oauthbearer.sub.claim.name", Some("sub"))
        .no_effect(SECURITY)
        .doc("Claim of a token that has its subject."),
    string("sasl.oauthbearer.token.endpoint.url", None)
        .no_effect(SECURITY)
        .doc("Where tokens are fetched."),
    class("sasl.server.callback.handler.class", None)
        .no_effect(JVM)
        .doc("Class that answers the callbacks of SASL servers."),
    int("sasl.server.max.receive.size", Some("524288"))
        .no_effect(SECURITY)
        .doc("Largest SASL message before authentication."),
    string("security.providers", None)
        .no_effect(JVM)
        .doc("Classes that bring security algorithms to the JVM."),
    boolean("ssl.allow.dn.changes", Some("false"))
        .no_effect(READ_AT_START)
        .doc("Whether a reloaded certificate may have another distinguished name."),
    boolean("ssl.allow.san.changes", Some("false"))
        .no_effect(READ_AT_START)
        .doc("Whether a reloaded certificate may have other alternative names."),
    list("ssl.cipher.suites", Some("")).doc(
        "Cipher suites, of the safe ones, that brokers use among themselves; empty: all of these.",
    ),
    string("ssl.client.auth", Some("none"))
        .one_of(&["required", "requested", "none"])
        .doc("Whether a broker that calls another must, may or need not show a certificate."),
    list("ssl.enabled.protocols", Some("TLSv1.2,TLSv1.3"))
        .doc("TLS versions that brokers may use among themselves: TLSv1.2 and TLSv1.3."),
    string("ssl.endpoint.identification.algorithm", Some("https"))
        .doc("https: a broker's certificate must have the name that it is called by; empty: any."),
    class("ssl.engine.factory.class", None)
        .per_broker()
        .no_effect(JVM)
        .doc("Class that makes the JVM's TLS engines."),
    password("ssl.key.password", None)
        .per_broker()
        .no_effect(PEM_ONLY)
        .doc("Password of the private key."),
    string("ssl.keymanager.algorithm", Some("SunX509"))
        .per_broker()
        .no_effect(JVM)
        .doc("Key manager of the JVM."),
    password("ssl.keystore.certificate.chain", None)
        .doc("This broker's certificate chain in PEM, with ssl.keystore.key."),
    password("ssl.keystore.key", None).doc("This broker's private key in PEM, unencrypted."),
    string("ssl.keystore.location", None)
        .doc("File with this broker's private key and certificate chain, in PEM."),
    password("ssl.keystore.password", None)
        .per_broker()
        .no_effect(PEM_ONLY)
        .doc("Password of the key store."),
    string("ssl.keystore.type", Some("JKS"))
        .doc("Format of the key store: PEM must be said, for it is the only one that is read."),
    string("ssl.principal.mapping.rules", Some("DEFAULT"))
        .no_effect(SECURITY)
        .doc("Rules by which a certificate's name becomes a principal."),
    string("ssl.protocol", Some("TLSv1.3"))
        .per_broker()
        .no_effect(TLS_VERSIONS)
        .doc("TLS version that is tried first."),
    string("ssl.provider", None).per_broker().no_effect(JVM).doc("Security provider of the JVM."),
    string("ssl.secure.random.implementation", None)
        .per_broker()
        .no_effect(JVM)
        .doc("Random generator of the JVM."),
    string("ssl.trustmanager.algorithm", Some("PKIX"))
        .per_broker()
        .no_effect(JVM)
        .doc("Trust manager of the JVM."),
    password("ssl.truststore.certificates", None)
        .doc("Certificates in PEM of authorities that other brokers are trusted by."),
    string("ssl.truststore.location", None)
        .doc("File with certificates of authorities that other brokers are trusted by, in PEM."),
    password("ssl.truststore.password", None)
        .per_broker()
        .no_effect(PEM_ONLY)
        .doc("Password of the trust store."),
    string("ssl.truststore.type", Some("JKS"))
        .doc("Format of the trust store: PEM must be said, for it is the only one that is read."),
    string("super.users", Some(""))
        .no_effect(ACCESS_CONTROL)
        .doc("Principals that may do everything."),
];
