//! Where a connection comes from, and the certificate that its client has presented.

use crate::listener_policy::ListenerPolicy;
use std::cell::Cell;
use std::io::Write;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use titan_config::ListenerSet;
use titan_http::Scheme;
use titan_io::error::Kind;
use titan_io::stream::Agreed;
use titan_io::tls::{Identity, ServerTls};

/// Where a connection comes from. The same for all of its requests.
#[derive(Clone)]
pub(crate) struct Origin {
    /// None for a Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) scheme: Scheme,
    /// What a configuration makes of the connection, and which one.
    judgement: Cell<Judgement>,
    /// The address as text: written once for the connection, not for each request.
    text: AddressText,
    /// What the listener asks of it.
    pub(crate) listener_policy: Arc<ListenerPolicy>,
    /// The edition of its rules that the connection was judged by last.
    edition: Cell<u64>,
    /// When it was accepted.
    pub(crate) accepted: Instant,
    /// What was agreed on in the TLS handshake.
    pub(crate) agreed: Option<Rc<Agreed>>,
    /// The client's certificate; `None` if it was not requested or not presented.
    pub(crate) shown: Option<Rc<PresentedCertificate>>,
}

/// What a configuration makes of a connection.
#[derive(Clone, Copy)]
pub(crate) struct Judgement {
    /// Whether the peer is a trusted proxy.
    pub(crate) is_trusted: bool,
    /// Which of its listeners the connection came in at, if it still has that one.
    pub(crate) listener: ListenerSet,
    /// The number of the configuration that says so.
    pub(crate) judge: u64,
}

/// The certificate that a client presented in the handshake.
pub(crate) struct PresentedCertificate {
    /// Exchanges may outlive the connection's use of it.
    pub(crate) identity: Rc<Identity>,
    /// The edition of the files for accepted clients that it was last checked against.
    pub(crate) edition: Cell<u64>,
}

/// An address without port, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressText {
    len: u8,
    text: [u8; AddressText::MAX_LEN],
}

impl Origin {
    /// A connection without a certificate yet.
    pub(crate) fn new(
        address: Option<IpAddr>,
        scheme: Scheme,
        judgement: Judgement,
        listener_policy: &Arc<ListenerPolicy>,
    ) -> Origin {
        let (text, edition) = (AddressText::new(address), Cell::new(listener_policy.edition()));
        let (judgement, listener_policy) = (Cell::new(judgement), Arc::clone(listener_policy));
        Origin {
            address,
            scheme,
            judgement,
            text,
            listener_policy,
            edition,
            accepted: Instant::now(),
            agreed: None,
            shown: None,
        }
    }

    /// The address as text.
    pub(crate) fn text(&self) -> AddressText {
        self.text
    }

    /// Whether the peer is a trusted proxy.
    pub(crate) fn is_trusted(&self) -> bool {
        self.judgement.get().is_trusted
    }

    /// Which listener of the configuration it came in at.
    pub(crate) fn listener(&self) -> ListenerSet {
        self.judgement.get().listener
    }

    /// Has `judge` decide about it, if the configuration of that number has not done so yet.
    pub(crate) fn judge(&self, number: u64, judge: impl FnOnce(&Origin) -> Judgement) {
        if self.judgement.get().judge != number {
            self.judgement.set(judge(self));
        }
    }

    /// Whether a client that was admitted may continue. It is checked again when the rules have changed since: with TLS or
    /// TLS routes where there were none, or with certificates that it has not presented, it would not be admitted now.
    pub(crate) fn check_admitted(&self) -> Result<(), Kind> {
        let edition = self.listener_policy.edition();
        if self.edition.get() != edition {
            self.check_again()?;
            self.edition.set(edition);
        }
        Ok(())
    }

    fn check_again(&self) -> Result<(), Kind> {
        if self.scheme == Scheme::Http {
            let is_admitted = self.listener_policy.admits_plain();
            return if is_admitted { Ok(()) } else { Err(Kind::ConnectionOutdated) };
        }
        match (self.listener_policy.tls(), &self.shown) {
            (Some(tls), None) if !tls.requires_certificates() => Ok(()),
            (Some(tls), Some(shown)) if shown.is_accepted(&tls) => Ok(()),
            (Some(_), Some(_)) => Err(Kind::ClientCertificate),
            _ => Err(Kind::ConnectionOutdated),
        }
    }
}

impl PresentedCertificate {
    /// Whether it would be accepted now.
    fn is_accepted(&self, tls: &ServerTls) -> bool {
        if self.edition.get() == tls.edition() {
            return true;
        }
        let is_accepted = tls.still_takes(&self.identity);
        if is_accepted {
            self.edition.set(tls.edition());
        }
        is_accepted
    }

    /// What was shown, and which edition of the list it was compared with.
    pub(crate) fn new((identity, edition): (Identity, u64)) -> Rc<PresentedCertificate> {
        Rc::new(PresentedCertificate { identity: Rc::new(identity), edition: Cell::new(edition) })
    }
}

impl AddressText {
    /// The longest IPv6 address that is none of IPv4 mapped into it.
    const MAX_LEN: usize = 39;

    /// The text of a canonical address; empty without one.
    pub(crate) fn new(address: Option<IpAddr>) -> AddressText {
        let mut text = [0; AddressText::MAX_LEN];
        let mut left = text.as_mut_slice();
        let written = address.map_or(Ok(()), |address| write!(left, "{address}"));
        written.expect("a canonical address fits");
        let len = AddressText::MAX_LEN - left.len();
        AddressText { len: u8::try_from(len).expect("at most 39"), text }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.text[..self.len.into()]
    }
}
