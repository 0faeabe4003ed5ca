//! The HTTP/3 load against a server of the same crates, without a proxy between them.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use h3::server::RequestResolver;
use http::Response;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming, ServerConfig};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use titan_bench::payload::{Target, VARIANTS};
use titan_bench::report::{Job, Manner, Report, Stop, Tls};
use titan_bench::{quic, tls};

#[test]
fn gets_have_no_errors() {
    let server = Server::start("gets", Behaviour::Right);
    for (target, bytes) in [(Target::Small, 128), (Target::Body1m, 1024 * 1024)] {
        let report = server.under_load(target, Manner::Streams(10), Stop::Requests(50));
        assert_eq!((report.requests, report.first_error), (50, None), "{target:?}");
        assert_eq!((report.body_bytes, report.full_handshakes), (50 * bytes, 2), "{target:?}");
    }
}

#[test]
fn each_request_has_a_connection_where_it_should() {
    let server = Server::start("fresh", Behaviour::Right);
    let report = server.under_load(Target::Small, Manner::Fresh, Stop::Requests(50));
    assert_eq!((report.requests, report.first_error), (50, None));
    assert!(report.full_handshakes >= 50, "{}", report.full_handshakes);
}

#[test]
fn silent_connections_are_asked_twice() {
    let server = Server::start("idle", Behaviour::Right);
    let report = server.under_load(Target::Small, Manner::Idle, Stop::Seconds(0.1));
    // 64 come first; they and the two of the job have one request before the silence, and one behind it.
    assert_eq!((report.requests, report.first_error), (2 * (64 + 2), None));
    assert_eq!(report.full_handshakes, 64 + 2);
}

#[test]
fn wrong_responses_are_errors() {
    for (name, behaviour, error) in [
        ("status", Behaviour::Status, "status \"HTTP/3.0 404 Not Found\""),
        ("length", Behaviour::Length, "announces Some(127) bytes where 128 are right"),
        ("byte", Behaviour::LastByte, "wrong body bytes after 0"),
        ("variant", Behaviour::OtherVariant, "wrong body bytes after 0"),
        ("cut", Behaviour::Cut, "wrong body bytes after 127"),
    ] {
        let server = Server::start(name, behaviour);
        let report = server.under_load(Target::Small, Manner::Streams(1), Stop::Requests(50));
        assert_eq!((report.requests, report.first_error.as_deref()), (0, Some(error)), "{name}");
    }
}

#[test]
fn a_server_without_http3_is_an_error() {
    let server = Server::offering("alpn", Behaviour::Right, b"other");
    let report = server.under_load(Target::Small, Manner::Streams(1), Stop::Requests(50));
    assert_eq!((report.requests, report.errors), (0, 2), "{report:?}");
}

#[test]
fn the_driver_sees_whether_a_proxy_is_there() {
    let server = Server::start("there", Behaviour::Right);
    assert!(quic::answers(server.address, &server.certificate).expect("it shakes hands"));
    let other = Server::start("other", Behaviour::Right);
    quic::answers(server.address, &other.certificate).expect_err("its certificate is another one");
}

/// How responses are.
#[derive(Clone, Copy)]
enum Behaviour {
    Right,
    Status,
    Length,
    LastByte,
    OtherVariant,
    Cut,
}

/// It lives as long as the test's process.
struct Server {
    address: SocketAddr,
    certificate: PathBuf,
}

impl Server {
    fn start(name: &str, behaviour: Behaviour) -> Self {
        Self::offering(name, behaviour, quic::HTTP3)
    }

    fn offering(name: &str, behaviour: Behaviour, protocol: &[u8]) -> Self {
        let certificate = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("http3-{name}.crt"));
        let config = config(&certificate, protocol);
        let (told, address) = std::sync::mpsc::sync_channel(1);
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("there is memory for it").block_on(async {
                let endpoint = Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into());
                let endpoint = endpoint.expect("a port is free");
                let address = endpoint.local_addr().expect("it is bound");
                told.send(address).expect("the test waits for it");
                while let Some(incoming) = endpoint.accept().await {
                    tokio::spawn(serve(incoming, behaviour));
                }
            });
        });
        Self { address: address.recv().expect("it starts"), certificate }
    }

    fn under_load(&self, target: Target, manner: Manner, stop: Stop) -> Report {
        let job = Job {
            to: self.address,
            target,
            connections: 2,
            manner,
            fields: None,
            coding: None,
            tls: Some(Tls { certificate: self.certificate.clone(), resume: false }),
            http3: true,
            warm_up: 0.0,
            stop,
            watch: Vec::new(),
        };
        let output = Command::new(env!("CARGO_BIN_EXE_load"))
            .arg(serde_json::to_string(&job).expect("a job is JSON"))
            .output()
            .expect("it is built for this test");
        let errors = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
    }
}

/// A server with a certificate of its own, written there.
fn config(certificate: &Path, protocol: &[u8]) -> ServerConfig {
    let made = rcgen::generate_simple_self_signed([tls::NAME.to_owned()]).expect("it is a name");
    let (certificate_pem, key_pem) = (made.cert.pem(), made.signing_key.serialize_pem());
    fs::write(certificate, &certificate_pem).expect("the folder is cargo's for tests");
    let chain = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).expect("it is one");
    let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).expect("it is one");
    let builder =
        rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("it is there");
    let config = builder.with_no_client_auth().with_single_cert(vec![chain], key);
    let mut config = config.expect("the two belong together");
    config.alpn_protocols = vec![protocol.to_vec()];
    let config = QuicServerConfig::try_from(config).expect("it has TLS 1.3");
    ServerConfig::with_crypto(Arc::new(config))
}

/// A client that goes away, or wants another certificate, is no failure.
async fn serve(incoming: Incoming, behaviour: Behaviour) -> io::Result<()> {
    let connection = h3_quinn::Connection::new(incoming.await?);
    let opened = h3::server::builder().build(connection).await;
    let mut connection: h3::server::Connection<_, Bytes> = opened.map_err(io::Error::other)?;
    while let Some(request) = connection.accept().await.map_err(io::Error::other)? {
        tokio::spawn(answer(request, behaviour));
    }
    Ok(())
}

async fn answer(
    request: RequestResolver<h3_quinn::Connection, Bytes>,
    behaviour: Behaviour,
) -> io::Result<()> {
    let (request, mut stream) = request.resolve_request().await.map_err(io::Error::other)?;
    let path = request.uri().path();
    let mut body = match path.strip_prefix("/small/") {
        Some(variant) => small(variant.parse().expect("it is a number"), behaviour),
        None => Target::Body1m.answer(0),
    };
    let mut length = body.len();
    match behaviour {
        Behaviour::Length => length -= 1,
        Behaviour::LastByte => body[length - 1] ^= 1,
        Behaviour::Cut => body.truncate(length - 1),
        Behaviour::Right | Behaviour::Status | Behaviour::OtherVariant => {}
    }
    let status = if matches!(behaviour, Behaviour::Status) { 404 } else { 200 };
    let head = Response::builder().status(status).header("content-length", length).body(());
    stream.send_response(head.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
    stream.send_data(body.into()).await.map_err(io::Error::other)?;
    stream.finish().await.map_err(io::Error::other)
}

fn small(variant: usize, behaviour: Behaviour) -> Vec<u8> {
    let other = usize::from(matches!(behaviour, Behaviour::OtherVariant));
    Target::Small.answer((variant + other) % VARIANTS)
}
