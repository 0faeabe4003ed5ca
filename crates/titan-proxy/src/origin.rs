//! Where a connection comes from, and the certificate that its client has presented.

use crate::listener_policy::ListenerPolicy;
use std::cell::Cell;
use std::io::Write;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use titan_http::Scheme;
use titan_io::tls::Identity;

/// Where a connection comes from. The same for all of its requests.
#[derive(Clone)]
pub(crate) struct Origin {
    /// None for a Unix socket.
    pub(crate) address: Option<IpAddr>,
    pub(crate) scheme: Scheme,
    pub(crate) is_trusted: bool,
    /// The address as text: written once for the connection, not for each request.
    text: AddressText,
    /// What the listener asks of it.
    pub(crate) listener_policy: Arc<ListenerPolicy>,
    /// The client's certificate; `None` if it was not requested or not presented.
    pub(crate) shown: Option<Rc<PresentedCertificate>>,
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
        is_trusted: bool,
        listener_policy: &Arc<ListenerPolicy>,
    ) -> Origin {
        let (text, listener_policy) = (AddressText::new(address), Arc::clone(listener_policy));
        Origin { address, scheme, is_trusted, text, listener_policy, shown: None }
    }

    /// The address as text.
    pub(crate) fn text(&self) -> AddressText {
        self.text
    }

    /// Whether a client that was admitted may continue. One that has presented a certificate is checked again when whom
    /// to take has changed since.
    pub(crate) fn is_still_admitted(&self) -> bool {
        let (Some(shown), Some(tls)) = (&self.shown, &self.listener_policy.tls) else {
            return true;
        };
        let tls = tls.load();
        if shown.edition.get() == tls.edition() {
            return true;
        }
        let is_taken = tls.still_takes(&shown.identity);
        if is_taken {
            shown.edition.set(tls.edition());
        }
        is_taken
    }
}

impl PresentedCertificate {
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
