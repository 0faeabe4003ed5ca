//! Client certificates: which are accepted, what routes and upstreams learn of them, and what a change on disk does.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use titan_proxy::{Files, LoadError};
use titan_testkit::h2::Client;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{
    Authority, Certificate, Gateway, Owner, Peer, Response, authority, certificate, start_with,
    waits_until,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const SITE: &str = "certificates: [{ cert: a.pem, key: a.key }]";
const REQUIRED: &str = "client_certificates: { ca: ca.pem }";
const OPTIONAL: &str = "client_certificates: { ca: ca.pem, mode: optional }";
const WITH_LIST: &str = "client_certificates: { ca: ca.pem, crl: crl.pem }";
const RESPONDS: &str = "routes: [{ prefix: /, respond: 204 }]";

/// A site with an authority for its clients.
struct Site {
    own: Certificate,
    authority: Authority,
}

impl Site {
    fn new() -> Site {
        Site { own: certificate(&["a.example"]), authority: authority("clients") }
    }

    /// The files of the site, where the authority has revoked those certificates.
    fn files(&self, revoked: &[&Certificate]) -> Files {
        let mut files = Certificate::files(&[("a", &self.own)]);
        files.insert("ca.pem".into(), self.authority.cert.clone().into_bytes());
        files.insert("crl.pem".into(), self.authority.revokes(revoked).into_bytes());
        files
    }

    fn starts(&self, clients: &str, more: &str) -> Gateway {
        let started = self.tries_to_start(clients, more, &self.files(&[]));
        started.unwrap_or_else(|error| panic!("{error}"))
    }

    fn tries_to_start(
        &self,
        clients: &str,
        more: &str,
        files: &Files,
    ) -> Result<Gateway, LoadError> {
        let listener = format!("{{ address: '127.0.0.1:0', tls: {{ {SITE}, {clients} }} }}");
        start_with(&format!("listeners: [{listener}]\n{more}"), &[], files)
    }

    fn client(&self, own: Option<&Certificate>, version: &str) -> Arc<rustls::ClientConfig> {
        Arc::new(self.own.trusted_by(own, version))
    }

    /// A client that the gateway has to take.
    #[track_caller]
    fn connects(&self, gateway: &Gateway, own: Option<&Certificate>) -> Peer {
        connects(gateway, &self.client(own, "1.3"))
    }

    #[track_caller]
    fn get(&self, gateway: &Gateway, own: Option<&Certificate>) -> Response {
        self.connects(gateway, own).sends(GET).response()
    }

    #[track_caller]
    fn refusal(&self, gateway: &Gateway, own: Option<&Certificate>) -> String {
        refusal(gateway, &self.client(own, "1.3"))
    }
}

#[track_caller]
fn connects(gateway: &Gateway, client: &Arc<rustls::ClientConfig>) -> Peer {
    Peer::connects(gateway.address()).secures(Certificate::client_with(client, "a.example"))
}

/// The alert that such a client gets. In TLS 1.3 it comes when the handshake is over for the client.
#[track_caller]
fn refusal(gateway: &Gateway, client: &Arc<rustls::ClientConfig>) -> String {
    let session = Certificate::client_with(client, "a.example");
    match Peer::connects(gateway.address()).tries_to_secure(session) {
        Ok(mut peer) => peer.alert(),
        Err(error) => error.to_string(),
    }
}

fn refused(gateway: &Gateway) -> (u64, u64) {
    let metrics = gateway.metrics();
    let failed = metrics.sum(|cells| cells.handshakes_failed.get());
    (metrics.sum(|cells| cells.certificates_refused.get()), failed)
}

// field: tls.client_certificates, client_certificates.ca
#[test]
fn a_client_without_a_required_certificate_gets_an_alert() {
    let site = Site::new();
    let gateway = site.starts(REQUIRED, RESPONDS);
    let stranger = authority("strangers").signs(Owner::default());
    let late = site.authority.signs(Owner { until: 2001, ..Owner::default() });
    let server = site.authority.signs(Owner { is_server: true, ..Owner::default() });
    let good = site.authority.signs(Owner::default());
    for version in ["1.2", "1.3"] {
        for (own, alert) in [
            (None, "CertificateRequired"),
            (Some(&stranger), "UnknownCA"),
            (Some(&late), "CertificateExpired"),
            (Some(&server), "UnsupportedCertificate"),
        ] {
            let says = refusal(&gateway, &site.client(own, version));
            assert!(says.contains(alert), "{version}: {says}, not {alert}");
        }
        let client = site.client(Some(&good), version);
        connects(&gateway, &client).sends(GET).response().has_status(204);
    }
    assert_eq!(refused(&gateway), (8, 8));
}

// field: client_certificates.mode
#[test]
fn a_client_without_an_optional_certificate_is_served() {
    let site = Site::new();
    let routes = "routes: [{ respond: 200 }, { client_certificate: present, respond: 201 }, \
                  { client_certificate: absent, path: /, respond: 202 }]";
    let gateway = site.starts(OPTIONAL, routes);
    site.get(&gateway, None).has_status(202);
    site.get(&gateway, Some(&site.authority.signs(Owner::default()))).has_status(201);
    // A client with an invalid certificate is refused all the same.
    let stranger = authority("strangers").signs(Owner::default());
    assert!(site.refusal(&gateway, Some(&stranger)).contains("UnknownCA"));
}

/// The same saying that it is of a version that rustls does not read.
fn of_version_1(mut own: Certificate) -> Certificate {
    let mut lines = own.cert.lines();
    let (first, last) = (lines.next(), lines.next_back());
    let mut der = STANDARD.decode(lines.collect::<String>()).expect("it was made here");
    // `[0] { INTEGER 2 }` is version 3.
    let version = [0xa0, 3, 2, 1, 2];
    let at = der.windows(5).position(|bytes| bytes == version).expect("it was made here");
    der[at + 4] = 0;
    own.cert =
        [first.unwrap_or_default(), &STANDARD.encode(der), last.unwrap_or_default(), ""].join("\n");
    own
}

// field: client_certificates.mode
#[test]
fn a_client_with_an_invalid_certificate_may_be_as_one_without() {
    let site = Site::new();
    let routes = "routes: [{ respond: 200 }, { client_certificate: present, respond: 201 }, \
                  { client_certificate: absent, path: /, respond: 202 }]";
    let gateway = site.starts(&OPTIONAL.replace("optional", "ignore_invalid"), routes);
    let stranger = authority("strangers").signs(Owner::default());
    let late = site.authority.signs(Owner { until: 2001, ..Owner::default() });
    let good = site.authority.signs(Owner::default());
    let old = of_version_1(site.authority.signs(Owner::default()));
    for version in ["1.2", "1.3"] {
        let absent = [None, Some(&stranger), Some(&late), Some(&old)].map(|own| (own, 202));
        for (own, status) in absent.into_iter().chain([(Some(&good), 201)]) {
            let client = site.client(own, version);
            // The second time the session is resumed.
            for _ in 0..2 {
                connects(&gateway, &client).sends(GET).response().has_status(status);
            }
        }
    }
    assert_eq!(refused(&gateway), (0, 0));
}

#[test]
fn why_a_certificate_was_refused_is_reported_once() {
    let site = Site::new();
    let gateway = site.starts(REQUIRED, RESPONDS);
    site.refusal(&gateway, None);
    let stranger = authority("strangers").signs(Owner::default());
    site.refusal(&gateway, Some(&stranger));
    let mut told = Vec::new();
    waits_until("both refusals to be told", || {
        told.extend(gateway.refused_handshakes());
        told.len() == 2
    });
    let told: Vec<_> = told.iter().map(|it| (it.code, it.what.as_str(), it.count)).collect();
    let stranger =
        "a client's certificate is not accepted: invalid peer certificate: UnknownIssuer";
    let none = "handshakes fail: the client has presented no certificate";
    assert_eq!(told, [("no-certificate", none, 1), ("certificate", stranger, 1)]);
    assert_eq!(gateway.refused_handshakes(), []);
}

// field: route.client_certificate, certificate_condition.subject, certificate_condition.dns
// field: certificate_condition.uri, certificate_condition.email, certificate_condition.ip
// field: certificate_condition.fingerprint
#[test]
fn a_route_looks_at_the_certificate() {
    let site = Site::new();
    let owner = Owner {
        subject: &["C=DE", "O=Example, Inc.", "CN=billing"],
        names: &[
            "dns:Billing.Example",
            "dns:second.example",
            "uri:spiffe://example/billing",
            "email:ops@example",
            "ip:192.0.2.7",
            "ip:2001:db8::1",
        ],
        ..Owner::default()
    };
    let known = site.authority.signs(owner);
    let other = site.authority.signs(Owner::default());
    let digits: Vec<String> = sha256_of(&known);
    let conditions = [
        r"{ subject: 'CN=billing,O=Example\, Inc.,C=DE' }".to_owned(),
        "{ subject: { regex: '^CN=bill' } }".to_owned(),
        "{ dns: BILLING.example }".to_owned(),
        "{ dns: second.example, uri: { prefix: 'spiffe://example/' } }".to_owned(),
        "{ uri: spiffe://example/billing }".to_owned(),
        "{ email: ops@example }".to_owned(),
        "{ ip: 192.0.2.7 }".to_owned(),
        "{ ip: '2001:DB8:0::1' }".to_owned(),
        format!("{{ fingerprint: {} }}", digits.concat()),
        format!("{{ fingerprint: '{}' }}", digits.join(":").to_uppercase()),
    ];
    for condition in conditions {
        let routes = format!(
            "routes: [{{ client_certificate: {condition}, respond: 200 }}, {{ respond: 403 }}]"
        );
        let gateway = site.starts(OPTIONAL, &routes);
        for (own, status) in [(Some(&known), 200), (Some(&other), 403), (None, 403)] {
            assert_eq!(site.get(&gateway, own).status, status, "{condition}");
        }
    }
    // The one that asks for more comes first, and all that it asks for must hold.
    let routes = "routes: [{ client_certificate: present, respond: 201 }, \
                  { client_certificate: { subject: CN=client }, respond: 202 }, \
                  { client_certificate: { email: ops@example, ip: 192.0.2.8 }, respond: 203 }]";
    let gateway = site.starts(REQUIRED, routes);
    site.get(&gateway, Some(&known)).has_status(201);
    site.get(&gateway, Some(&other)).has_status(202);
}

// field: authorise.client_certificate
#[test]
fn an_authorisation_looks_at_the_certificate() {
    let site = Site::new();
    let certificates = "[{ dns: billing.example }, { subject: CN=ops, email: ops@example }]";
    let rest = format!(
        "policies: {{ p: {{ authorise: {{ client_certificate: {certificates} }} }}, \
         q: {{ authorise: {{ client_certificate: present }} }}, \
         r: {{ authorise: {{ rules: \"'billing.example' in certificate.dns\" }} }} }}\napply: [p]\n\
         routes: [{{ prefix: /, respond: 204 }}, {{ path: /any, respond: 204, apply: [q] }}, \
         {{ path: /rule, respond: 204, apply: [r] }}]"
    );
    let gateway = site.starts(OPTIONAL, &rest);
    let signs = |owner: Owner<'_>| site.authority.signs(owner);
    let billing =
        signs(Owner { names: &["dns:other.example", "dns:billing.example"], ..Owner::default() });
    let ops =
        signs(Owner { subject: &["CN=ops"], names: &["email:ops@example"], ..Owner::default() });
    let half = signs(Owner { subject: &["CN=ops"], ..Owner::default() });
    for (own, may) in
        [(Some(&billing), true), (Some(&ops), true), (Some(&half), false), (None, false)]
    {
        let response = site.get(&gateway, own);
        match may {
            true => assert_eq!(response.status, 204),
            false => drop(response.has_problem(403, "certificate-refused")),
        }
        let status = if own.is_some() { 204 } else { 403 };
        let any = "GET /any HTTP/1.1\r\nHost: a\r\n\r\n";
        site.connects(&gateway, own).sends(any).response().has_status(status);
        let is_billing = own.is_some_and(|own| std::ptr::eq(own, &billing));
        let rule = "GET /rule HTTP/1.1\r\nHost: a\r\n\r\n";
        let status = if is_billing { 204 } else { 403 };
        site.connects(&gateway, own).sends(rule).response().has_status(status);
    }
}

/// The SHA-256 of a certificate, as openssl says it.
fn sha256_of(certificate: &Certificate) -> Vec<String> {
    use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256 as SUITE;
    let digest =
        SUITE.tls13().expect("it is one of 1.3").common.hash_provider.hash(certificate.der());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the upstream of a gateway gets in a field when a client with `own` sends these lines.
fn told(
    site: &Site,
    forwarding: &str,
    own: Option<&Certificate>,
    lines: &str,
    field: &str,
) -> Vec<String> {
    let upstream = upstream::replies(ok(""));
    let listener = format!("{{ address: '127.0.0.1:0', tls: {{ {SITE}, {OPTIONAL} }} }}");
    let text = format!("listeners: [{listener}]\nforwarding: {{ {forwarding} }}");
    let gateway = start_with(&text, &[&upstream], &site.files(&[]));
    let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
    let mut client = site.connects(&gateway, own);
    client.sends(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).response().has_status(200);
    let request = upstream.request();
    let lines = request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(field));
    lines.map(|(_, value)| value.clone()).collect()
}

/// A certificate as a field carries it, from the lines of its PEM form.
fn item(pem: &str) -> String {
    let lines = pem.lines().filter(|line| !line.starts_with('-'));
    format!(":{}:", lines.collect::<String>())
}

// field: forwarding.client_cert
#[test]
fn an_upstream_gets_the_certificate() {
    let site = Site::new();
    let between = site.authority.authority("between");
    let own = between.signs(Owner::default());
    let leaf = own.cert.split_once("-----END CERTIFICATE-----\n");
    let (leaf, _) = leaf.expect("it is PEM");
    let told = |forwarding, own, field| told(&site, forwarding, own, "", field);
    assert_eq!(told("client_cert: leaf", Some(&own), "Client-Cert"), [item(leaf)]);
    assert!(told("client_cert: leaf", Some(&own), "Client-Cert-Chain").is_empty());
    assert_eq!(told("client_cert: chain", Some(&own), "Client-Cert"), [item(leaf)]);
    assert_eq!(told("client_cert: chain", Some(&own), "Client-Cert-Chain"), [item(&between.cert)]);
    assert!(told("via: off", Some(&own), "Client-Cert").is_empty());
    assert!(told("client_cert: chain", None, "Client-Cert").is_empty());
    let direct = site.authority.signs(Owner::default());
    assert!(told("client_cert: chain", Some(&direct), "Client-Cert-Chain").is_empty());
}

#[test]
fn certificate_fields_of_peers_reach_no_upstream() {
    let site = Site::new();
    let own = site.authority.signs(Owner::default());
    for (field, line) in [
        ("Client-Cert", "client-cert: :Zm9v:\r\n"),
        ("Client-Cert-Chain", "Client-Cert-Chain: :Zm9v:\r\n"),
        ("Client_Cert", "Client_Cert: :Zm9v:\r\n"),
        ("client-cert_chain", "Client-Cert_Chain: :Zm9v:\r\n"),
    ] {
        // A proxy that is trusted may not know these fields, and pass on what its client has sent.
        for forwarding in ["via: off", "trusted_proxies: [127.0.0.1]", "client_cert: leaf"] {
            let got = told(&site, forwarding, None, line, field);
            assert!(got.is_empty(), "{forwarding}: {field}: {got:?}");
        }
    }
    let got =
        told(&site, "client_cert: leaf", Some(&own), "Client-Cert: :Zm9v:\r\n", "Client-Cert");
    assert_eq!(got, [item(&own.cert)]);
    let lines = "Client-Certificate: a\r\n";
    assert_eq!(told(&site, "client_cert: leaf", None, lines, "Client-Certificate"), ["a"]);
}

// field: client_certificates.crl
#[test]
fn a_certificate_that_was_revoked_is_refused() {
    let site = Site::new();
    let (good, bad) =
        (site.authority.signs(Owner::default()), site.authority.signs(Owner::default()));
    let starts = |clients: &str, files: &Files| {
        site.tries_to_start(clients, RESPONDS, files).unwrap_or_else(|error| panic!("{error}"))
    };
    let gateway = starts(WITH_LIST, &site.files(&[&bad]));
    site.get(&gateway, Some(&good)).has_status(204);
    assert!(site.refusal(&gateway, Some(&bad)).contains("CertificateRevoked"));
    // Without a list that covers it, its status is unknown, and what is unknown is refused.
    let between = site.authority.authority("between");
    let below = between.signs(Owner::default());
    assert!(site.refusal(&gateway, Some(&below)).contains("UnknownCA"));
    let both = "client_certificates: { ca: ca.pem, crl: [crl.pem, between.pem] }";
    let mut files = site.files(&[]);
    files.insert("between.pem".into(), between.revokes(&[]).into_bytes());
    site.get(&starts(both, &files), Some(&below)).has_status(204);
    files.insert("between.pem".into(), between.revokes(&[&below]).into_bytes());
    assert!(site.refusal(&starts(both, &files), Some(&below)).contains("CertificateRevoked"));
    // An expired list does not say which certificates were revoked since.
    files.insert("crl.pem".into(), site.authority.revokes_until(&[], 2002).into_bytes());
    let says = site.refusal(&starts(WITH_LIST, &files), Some(&good));
    assert!(says.contains("alert"), "{says}");
}

#[test]
fn tickets_stay_good_where_nothing_changes() {
    for version in ["1.2", "1.3"] {
        let site = Site::new();
        let (good, bad) =
            (site.authority.signs(Owner::default()), site.authority.signs(Owner::default()));
        let files = site.files(&[]);
        let gateway = site.tries_to_start(WITH_LIST, RESPONDS, &files);
        let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
        let [good, bad] = [&good, &bad].map(|own| site.client(Some(own), version));
        let resumes = |client: &Arc<rustls::ClientConfig>| {
            let mut client = connects(&gateway, client);
            client.sends(GET).response().has_status(204);
            client.has_resumed()
        };
        for client in [&good, &bad] {
            assert_eq!([resumes(client), resumes(client)], [false, true], "{version}");
        }
        // What is the same as before keeps tickets good.
        gateway.rereads(&files).expect("they can be used");
        assert!(resumes(&good), "{version}");
    }
}

#[test]
fn a_revoked_certificate_ends_tickets_and_connections() {
    for version in ["1.2", "1.3"] {
        let site = Site::new();
        let own = [site.authority.signs(Owner::default()), site.authority.signs(Owner::default())];
        let gateway = site.starts(WITH_LIST, RESPONDS);
        let [good, bad] = [&own[0], &own[1]].map(|own| site.client(Some(own), version));
        let mut open = [&good, &bad].map(|client| connects(&gateway, client));
        for client in &mut open {
            client.sends(GET).response().has_status(204);
        }
        gateway.rereads(&site.files(&[&own[1]])).expect("they can be used");
        // With the ticket that it has got before.
        assert!(refusal(&gateway, &bad).contains("CertificateRevoked"), "{version}");
        let [kept, cut] = &mut open;
        kept.sends(GET).response().has_status(204);
        cut.sends(GET).response().has_problem(403, "client-certificate");
        cut.expects_close();
        kept.sends(GET).response().has_status(204);
        connects(&gateway, &good).sends(GET).response().has_status(204);
    }
}

#[test]
fn another_authority_ends_tickets_and_connections() {
    let site = Site::new();
    let own = site.authority.signs(Owner::default());
    let gateway = site.starts(OPTIONAL, RESPONDS);
    let client = site.client(Some(&own), "1.3");
    let mut open = connects(&gateway, &client);
    let mut nameless = site.connects(&gateway, None);
    for client in [&mut open, &mut nameless] {
        client.sends(GET).response().has_status(204);
    }
    let successor = Site { own: certificate(&["a.example"]), authority: authority("successor") };
    let mut files = successor.files(&[]);
    files.insert("a.pem".into(), site.own.cert.clone().into_bytes());
    files.insert("a.key".into(), site.own.key.clone().into_bytes());
    gateway.rereads(&files).expect("they can be used");
    assert!(refusal(&gateway, &client).contains("UnknownCA"));
    open.sends(GET).response().has_problem(403, "client-certificate");
    nameless.sends(GET).response().has_status(204);
    site.get(&gateway, Some(&successor.authority.signs(Owner::default()))).has_status(204);
}

#[test]
fn a_ticket_of_one_listener_is_none_of_another() {
    let site = Site::new();
    let text = format!(
        "listeners:\n\
         - {{ name: open, address: '127.0.0.1:0', tls: {{ {SITE} }} }}\n\
         - {{ name: asks, address: '127.0.0.1:0', tls: {{ {SITE}, {OPTIONAL} }} }}\n\
         - {{ name: strict, address: '127.0.0.1:0', tls: {{ {SITE}, {REQUIRED} }} }}\n{RESPONDS}"
    );
    let gateway =
        start_with(&text, &[], &site.files(&[])).unwrap_or_else(|error| panic!("{error}"));
    for version in ["1.2", "1.3"] {
        for from in ["open", "asks"] {
            let client = site.client(None, version);
            let session = || Certificate::client_with(&client, "a.example");
            for _ in 0..2 {
                let mut peer = Peer::connects(gateway.address_of(from)).secures(session());
                peer.sends(GET).response().has_status(204);
            }
            let tried = Peer::connects(gateway.address_of("strict")).tries_to_secure(session());
            let says = tried.map_or_else(|error| error.to_string(), |mut peer| peer.alert());
            assert!(says.contains("alert"), "{version} from {from}: {says}");
        }
    }
}

#[test]
fn a_certificate_is_one_of_several_ways_in() {
    // `printf %s one | sha256sum`
    const KEY: &str = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    let site = Site::new();
    let signs = |subject: &[&str]| site.authority.signs(Owner { subject, ..Owner::default() });
    let (batch, other) = (signs(&["CN=batch"]), signs(&["CN=other"]));
    for ways in ["client_certificate, api_keys", "api_keys, client_certificate"] {
        let gateway = site.starts(
            OPTIONAL,
            &format!(
                "apply: [p]\npolicies: {{ p: {{ authorise: {{ any_of: [{ways}], \
                 client_certificate: {{ subject: CN=batch }}, api_keys: {{ keys: {{ shop: {KEY} }} }} }} }} }}\n{RESPONDS}"
            ),
        );
        for (own, key, may) in [
            (Some(&batch), "", true),
            (Some(&batch), "two", true),
            (Some(&batch), "one", true),
            (Some(&other), "one", true),
            (None, "one", true),
            (Some(&other), "", false),
            (Some(&other), "two", false),
            (None, "", false),
        ] {
            let key = if key.is_empty() { String::new() } else { format!("X-API-Key: {key}\r\n") };
            let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{key}\r\n");
            let response = site.connects(&gateway, own).sends(request).response();
            match may {
                true => drop(response.has_status(204)),
                false => {
                    assert_eq!(response.all("www-authenticate"), ["ApiKey realm=\"p\""]);
                    response.has_problem(401, "credential");
                }
            }
        }
    }
}

#[test]
fn a_resumed_session_is_that_of_the_same_client() {
    let site = Site::new();
    let own = site.authority.signs(Owner { subject: &["CN=known"], ..Owner::default() });
    let routes =
        "routes: [{ client_certificate: { subject: CN=known }, respond: 200 }, { respond: 403 }]";
    let gateway = site.starts(OPTIONAL, routes);
    for version in ["1.2", "1.3"] {
        let client = site.client(Some(&own), version);
        for is_resumed in [false, true] {
            let mut peer = connects(&gateway, &client);
            peer.sends(GET).response().has_status(200);
            assert_eq!(peer.has_resumed(), is_resumed, "{version}");
        }
    }
}

#[test]
fn a_ticket_outlives_no_certificate() {
    let site = Site::new();
    let gateway = site.starts(REQUIRED, RESPONDS);
    // Long enough for the first handshake, however slow the machine is.
    let own = site.authority.signs(Owner { seconds: Some(6), ..Owner::default() });
    let client = site.client(Some(&own), "1.2");
    let session = || Certificate::client_with(&client, "a.example");
    let mut peer = connects(&gateway, &client);
    peer.sends(GET).response().has_status(204);
    waits_until("the certificate to expire", || {
        let Ok(mut peer) = Peer::connects(gateway.address()).tries_to_secure(session()) else {
            return true;
        };
        assert!(peer.has_resumed(), "the ticket is good for longer");
        peer.offers(GET).is_cut_short()
    });
}

#[test]
fn files_that_cannot_be_used_keep_the_gateway_from_starting() {
    let site = Site::new();
    let says = |file: &str, bytes: &str| {
        let mut files = site.files(&[]);
        files.insert(file.into(), bytes.as_bytes().to_vec());
        let started = site.tries_to_start(WITH_LIST, RESPONDS, &files);
        started.map(drop).expect_err("it does not start").to_string()
    };
    let wanted = "ca.pem cannot be used: it contains no certificate in PEM format";
    assert_eq!(says("ca.pem", "nothing"), wanted);
    let wanted = "crl.pem cannot be used: it contains no certificate revocation list in PEM format";
    assert_eq!(says("crl.pem", &site.authority.cert), wanted);
    let broken = "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n";
    assert!(
        says("crl.pem", broken).starts_with(
            "crl.pem cannot be used: it contains a revocation list that cannot be read"
        )
    );
}

#[test]
fn each_request_of_http2_is_judged_too() {
    let site = Site::new();
    let (good, bad) =
        (site.authority.signs(Owner::default()), site.authority.signs(Owner::default()));
    let routes = "routes: [{ client_certificate: present, respond: 204 }]";
    let gateway = site.starts(WITH_LIST, routes);
    let [mut kept, mut cut] = [&good, &bad].map(|own| {
        let mut client = site.own.trusted_by(Some(own), "1.3");
        client.alpn_protocols = vec![b"h2".to_vec()];
        Client::begins(connects(&gateway, &Arc::new(client)), &[])
    });
    for client in [&mut kept, &mut cut] {
        client.get("/").has_status(204);
    }
    gateway.rereads(&site.files(&[&bad])).expect("they can be used");
    kept.get("/").has_status(204);
    for _ in 0..2 {
        cut.get("/").has_problem(403, "client-certificate");
    }
}
