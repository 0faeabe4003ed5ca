//! A gateway at an address: whom to trust there, and the token that the calls carry.

use super::timed::Timed;
use crate::cli::AddressOption;
use crate::failure::Failure;
use crate::regular_file;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Error, InvalidMessage, RootCertStore,
    StreamOwned,
};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::Url;
use zeroize::Zeroizing;

/// The address of an admin interface.
pub(super) struct Address {
    url: Url,
    /// Nothing where it is `http`.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    token: Option<Zeroizing<String>>,
}

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// Bytes of a file with authorities.
const MAX_AUTHORITIES: usize = 4 << 20;
/// Bytes of a token.
const MAX_TOKEN: usize = 4 << 10;

impl Address {
    /// The one that the command line names, if it does.
    pub(super) fn of(option: &AddressOption) -> Result<Option<Address>, Failure> {
        let AddressOption { url, token_file, ca } = option;
        let Some(url) = url else { return Ok(None) };
        let token = token_file.as_deref().map(read_token).transpose()?;
        if token.is_some() && !url.is_https && !is_loopback(&url.host) {
            return Err(needs_tls(url, &""));
        }
        let tls = match url.is_https {
            true => Some((Arc::new(trusting(ca.as_deref())?), server_name(url)?)),
            false => None,
        };
        Ok(Some(Address { url: url.clone(), tls, token }))
    }

    /// As the command line has it.
    pub(super) fn text(&self) -> &str {
        &self.url.text
    }

    /// What `Host` says.
    pub(super) fn authority(&self) -> &str {
        &self.url.authority
    }

    /// The field with the token, where there is one.
    pub(super) fn authorization(&self) -> Zeroizing<String> {
        let field = |token: &Zeroizing<String>| format!("Authorization: Bearer {}\r\n", **token);
        Zeroizing::new(self.token.as_ref().map_or_else(String::new, field))
    }

    /// A connection for a call that may take so long.
    pub(super) fn connect(&self, within: Duration) -> Result<Box<dyn Stream>, Failure> {
        self.connect_for(within, Timed::new)
    }

    /// A connection for a response without an end, of which something comes at least that often.
    pub(super) fn connect_endless(&self, within: Duration) -> Result<Box<dyn Stream>, Failure> {
        self.connect_for(within, |socket, _| Timed::endless(socket, within))
    }

    fn connect_for(
        &self,
        within: Duration,
        timed: impl Fn(TcpStream, Duration) -> Timed<TcpStream>,
    ) -> Result<Box<dyn Stream>, Failure> {
        let deadline = Instant::now() + within;
        let unreachable = |error: &dyn fmt::Display| {
            Failure::Runtime(format!("no gateway can be reached: {}: {error}", self.url.text))
        };
        let found = resolve(&self.url).map_err(|error| unreachable(&error))?;
        self.check(&found)?;
        let socket = connect_to(&found, deadline).map_err(|error| unreachable(&error))?;
        let socket = timed(socket, deadline.saturating_duration_since(Instant::now()));
        let Some((config, name)) = &self.tls else { return Ok(Box::new(socket)) };
        let session = ClientConnection::new(Arc::clone(config), name.clone());
        let session = session.map_err(|error| unreachable(&error))?;
        Ok(Box::new(StreamOwned::new(session, socket)))
    }

    /// Whether calls may go there. `localhost` is another host where only a name server knows it, and that can say anything.
    fn check(&self, found: &[SocketAddr]) -> Result<(), Failure> {
        let elsewhere = found.iter().find(|address| !address.ip().is_loopback());
        match elsewhere {
            Some(address) if self.token.is_some() && self.tls.is_none() => {
                Err(needs_tls(&self.url, &format_args!("; the host is {}", address.ip())))
            }
            _ => Ok(()),
        }
    }
}

fn needs_tls(url: &Url, why: &dyn fmt::Display) -> Failure {
    let text = &url.text;
    Failure::BadInput(format!(
        "{text}: a token needs `https`: without TLS anyone on the network path could read it{why}"
    ))
}

/// What can be done about TLS that fails like that: a line of its own, or nothing.
pub(super) fn remedy(error: &io::Error) -> &'static str {
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "\nhelp: name a file with the authority that has issued its certificate: `--ca FILE`"
        }
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "\nhelp: it does not speak TLS: use http:// in place of https://"
        }
        _ => "",
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the token.
        f.debug_struct("Address").field("url", &self.url.text).finish_non_exhaustive()
    }
}

/// A connection, with or without TLS.
pub(super) trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

#[expect(clippy::disallowed_methods, reason = "this thread has nothing else to do than wait")]
fn resolve(url: &Url) -> io::Result<Vec<SocketAddr>> {
    Ok((url.host.as_str(), url.port).to_socket_addrs()?.collect())
}

/// A connection to the first of them that takes one. All of them together have until the deadline.
fn connect_to(found: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("the host name has no address");
    for address in found {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(address, left.min(CONNECT)) {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn server_name(url: &Url) -> Result<ServerName<'static>, Failure> {
    ServerName::try_from(url.host.clone()).map_err(|_| {
        Failure::BadInput(format!("{}: no certificate can be for that host", url.text))
    })
}

/// The token in a file, which may also be a pipe. It is one line.
fn read_token(file: &Path) -> Result<Zeroizing<String>, Failure> {
    let bad = |why: &dyn fmt::Display| {
        Failure::BadInput(format!("cannot use the token in {}: {why}", file.display()))
    };
    let opened = File::open(file).map_err(|error| bad(&error))?;
    let bytes = regular_file::read_to_bound(opened, MAX_TOKEN).map_err(|error| bad(&error))?;
    let bytes = Zeroizing::new(bytes);
    let token = bytes.trim_ascii();
    if token.is_empty() || !token.iter().all(u8::is_ascii_graphic) {
        return Err(bad(&"it is empty, or has characters that no token has"));
    }
    Ok(Zeroizing::new(token.iter().map(|byte| char::from(*byte)).collect()))
}

/// How TLS is spoken, with authorities of one's own or those of the system.
fn trusting(ca: Option<&Path>) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    let (name, found) = match ca {
        Some(file) => (file.display().to_string(), read_authorities(file)?),
        None => ("the system".to_owned(), rustls_native_certs::load_native_certs().certs),
    };
    if roots.add_parsable_certificates(found).0 == 0 {
        return Err(Failure::BadInput(format!("{name} has no certificate of an authority")));
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for both versions");
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn read_authorities(file: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let bad = |why: &dyn fmt::Display| {
        Failure::BadInput(format!("cannot read {}: {why}", file.display()))
    };
    let bytes = regular_file::read(file, MAX_AUTHORITIES).map_err(|error| bad(&error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    found.map_err(|error| bad(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn of(url: &str, token_file: Option<&Path>) -> Result<Address, String> {
        let option = AddressOption {
            url: Some(Url::parse(url).unwrap()),
            token_file: token_file.map(Path::to_owned),
            ca: None,
        };
        Address::of(&option).map(Option::unwrap).map_err(|failure| failure.text(false))
    }

    fn file(name: &str, text: &str) -> PathBuf {
        let name = format!("titan-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn a_token_goes_nowhere_without_tls() {
        let token = file("token-for-tls", "secret\n");
        let error = of("http://192.0.2.1:8484", Some(&token)).unwrap_err();
        assert!(error.contains("a token needs `https`"), "{error}");
        for url in ["http://127.0.0.1:8484", "http://[::1]:8484", "http://localhost:8484"] {
            let address = of(url, Some(&token)).unwrap();
            assert_eq!(*address.authorization(), "Authorization: Bearer secret\r\n");
            assert!(!format!("{address:?}").contains("secret"));
        }
        assert_eq!(*of("http://192.0.2.1:8484", None).unwrap().authorization(), "");
        std::fs::remove_file(token).unwrap();
    }

    #[test]
    fn a_token_goes_only_where_the_host_name_leads_back_here() {
        let token = file("token-for-localhost", "secret\n");
        let [here, there] =
            ["127.0.0.1:8484", "192.0.2.1:8484"].map(|it| it.parse::<SocketAddr>().unwrap());
        let address = of("http://localhost:8484", Some(&token)).unwrap();
        address.check(&[here]).unwrap();
        let error = address.check(&[here, there]).unwrap_err().text(false);
        assert!(error.contains("a token needs `https`"), "{error}");
        assert!(error.contains("the host is 192.0.2.1"), "{error}");
        of("http://localhost:8484", None).unwrap().check(&[there]).unwrap();
        std::fs::remove_file(token).unwrap();
    }

    #[test]
    fn connecting_ends_with_the_time_of_the_call() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = [listener.local_addr().unwrap()];
        let error = connect_to(&found, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        connect_to(&found, Instant::now() + CONNECT).unwrap();
    }

    #[test]
    fn a_token_is_one_line_of_characters() {
        for text in ["", "\n", "two words", "a\r\nX-Other: b"] {
            let token = file("bad-token", text);
            let error = of("http://127.0.0.1:1", Some(&token)).unwrap_err();
            assert!(error.contains("it is empty, or has characters that no token has"), "{error}");
            std::fs::remove_file(token).unwrap();
        }
    }
}
