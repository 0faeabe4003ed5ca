//! Clients that ask to switch to another protocol: what they request, what the upstream is asked, and the response
//! when it agrees (RFC 9110 section 7.8, RFC 8441).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use titan_config::Token;
use titan_http::{
    BadField, BodyLength, FieldName, Fields, Method, RequestHead, ResponseHead, Status, Version,
};

/// A client's wish to go on in another protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upgrade {
    protocol: Box<[u8]>,
    form: Form,
}

/// How the client asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// With `Upgrade`, in HTTP/1.1.
    Field,
    /// As an extended CONNECT. HTTP/2 has no use for the key with which a WebSocket server shows that it is
    /// one, and so the gateway makes it up.
    Connect { key: [u8; 16] },
}

/// How many tunnels of a gateway are open.
#[derive(Default)]
pub(crate) struct Tunnels(AtomicU32);

/// A place among them; left when dropped.
pub(crate) struct TunnelPermit(Arc<Tunnels>);

/// What makes of a key the proof that it was understood (RFC 6455 section 1.3).
const PROOF: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const KEY: &[u8] = b"Sec-WebSocket-Key";
const ACCEPT: &[u8] = b"Sec-WebSocket-Accept";
const VERSION: &[u8] = b"Sec-WebSocket-Version";

impl Upgrade {
    /// The protocol that an HTTP/1.1 request asks for, if any. Of several protocols, the one it likes best.
    pub(crate) fn of_request(request: &RequestHead, length: BodyLength) -> Option<Upgrade> {
        let fields = &request.fields;
        let is_asked = request.version == Version::Http11
            && request.method == Method::GET
            && length.is_empty()
            && fields.members(FieldName::Connection).any(is_upgrade);
        let protocol = fields.members(FieldName::Upgrade).next().filter(|_| is_asked)?;
        Some(Upgrade { protocol: protocol.into(), form: Form::Field })
    }

    /// What an extended CONNECT asks for, whose head becomes that of the GET that it would be in HTTP/1.1.
    pub(crate) fn of_connect(protocol: &[u8], request: &mut RequestHead, random: u128) -> Upgrade {
        request.method = Method::GET;
        Upgrade { protocol: protocol.into(), form: Form::Connect { key: random.to_be_bytes() } }
    }

    /// Whether it is one of those that a route allows.
    pub(crate) fn is_among(&self, allowed: &[Token]) -> bool {
        allowed.iter().any(|token| token.as_str().as_bytes().eq_ignore_ascii_case(&self.protocol))
    }

    /// Whether the client has asked in a way that cannot be ignored: a CONNECT has no other meaning.
    pub(crate) fn is_binding(&self) -> bool {
        matches!(self.form, Form::Connect { .. })
    }

    /// Writes the wish into a request for HTTP/1.1.
    pub(crate) fn ask(&self, fields: &mut Fields) -> Result<(), BadField> {
        fields.set(FieldName::Upgrade, &self.protocol)?;
        if let Form::Connect { key } = self.form
            && self.is_websocket()
        {
            fields.set_named(KEY, STANDARD.encode(key).as_bytes())?;
            fields.remove_named(VERSION);
            fields.append_named(VERSION, b"13")?;
        }
        Ok(())
    }

    /// Whether a response with 101 accepts this protocol, and no other.
    pub(crate) fn is_granted_by(&self, head: &ResponseHead) -> bool {
        let mut protocols = head.fields.members(FieldName::Upgrade);
        let is_meant = protocols.next().is_some_and(|it| it.eq_ignore_ascii_case(&self.protocol))
            && protocols.next().is_none();
        let is_proven = match self.form {
            Form::Connect { key } if self.is_websocket() => {
                head.fields.named(ACCEPT).eq([proof(&key).as_bytes()])
            }
            Form::Connect { .. } | Form::Field => true,
        };
        is_meant && is_proven
    }

    /// Turns the upstream's consent, whose hop-by-hop fields are removed, into what the client gets.
    pub(crate) fn grant(&self, head: &mut ResponseHead) -> Result<(), BadField> {
        match self.form {
            Form::Field => head.fields.set(FieldName::Upgrade, &self.protocol),
            Form::Connect { .. } => {
                head.status = Status::OK;
                head.fields.remove_named(ACCEPT);
                Ok(())
            }
        }
    }

    /// Whether it is for a WebSocket: browsers open those for pages of any origin.
    pub(crate) fn is_websocket(&self) -> bool {
        self.protocol.eq_ignore_ascii_case(b"websocket")
    }
}

impl Tunnels {
    /// A place for one more, where there are fewer than `most`.
    pub(crate) fn enter(self: &Arc<Self>, most: u32) -> Option<TunnelPermit> {
        let more = |open| (open < most).then_some(open + 1);
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        entered.is_ok().then(|| TunnelPermit(Arc::clone(self)))
    }
}

impl Drop for TunnelPermit {
    fn drop(&mut self) {
        let TunnelPermit(tunnels) = self;
        tunnels.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn is_upgrade(option: &[u8]) -> bool {
    option.eq_ignore_ascii_case(b"upgrade")
}

fn proof(key: &[u8; 16]) -> String {
    let text = [STANDARD.encode(key).as_bytes(), PROOF].concat();
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &[(&str, &str)]) -> RequestHead {
        let mut head = RequestHead::default();
        for (name, value) in fields {
            head.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        head
    }

    fn options(fields: &[(&str, &str)]) -> Option<Upgrade> {
        Upgrade::of_request(&request(fields), BodyLength::None)
    }

    #[test]
    fn connection_must_name_upgrade() {
        let asked = options(&[("Connection", "keep-alive, Upgrade"), ("Upgrade", "WebSocket, x")]);
        assert!(asked.is_some_and(|upgrade| upgrade.is_websocket() && !upgrade.is_binding()));
        assert_eq!(options(&[("Upgrade", "websocket")]), None);
        assert_eq!(options(&[("Connection", "upgrade")]), None);
    }

    #[test]
    fn only_a_get_of_http_1_1_without_a_body_can_ask() {
        let asking = [("Connection", "upgrade"), ("Upgrade", "websocket")];
        assert_eq!(Upgrade::of_request(&request(&asking), BodyLength::Known(1)), None);
        for (method, version) in [(Method::POST, Version::Http11), (Method::GET, Version::Http10)] {
            let head = RequestHead { method, version, ..request(&asking) };
            assert_eq!(Upgrade::of_request(&head, BodyLength::None), None);
        }
    }

    #[test]
    fn the_proof_is_that_of_the_specification() {
        // RFC 6455 section 1.3.
        assert_eq!(proof(b"the sample nonce"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn a_consent_has_to_be_to_what_was_asked() {
        let mut head = RequestHead::default();
        let key = u128::from_be_bytes(*b"the sample nonce");
        let upgrade = Upgrade::of_connect(b"websocket", &mut head, key);
        let granted = |fields: &[(&str, &str)]| {
            let response =
                ResponseHead { fields: request(fields).fields, ..ResponseHead::default() };
            upgrade.is_granted_by(&response)
        };
        let proof = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(granted(&[("Upgrade", "WebSocket"), proof]));
        assert!(!granted(&[("Upgrade", "websocket"), ("sec-websocket-accept", "x")]));
        assert!(!granted(&[("Upgrade", "websocket")]));
        assert!(!granted(&[("Upgrade", "other"), proof]));
        assert!(!granted(&[("Upgrade", "websocket, other"), proof]));
        assert!(!granted(&[proof]));
    }

    #[test]
    fn a_place_is_free_again_when_it_is_left() {
        let tunnels = Arc::<Tunnels>::default();
        let place = tunnels.enter(1);
        assert!(place.is_some() && tunnels.enter(1).is_none());
        assert!(tunnels.enter(2).is_some(), "under another limit there is one more");
        drop(place);
        assert!(tunnels.enter(1).is_some());
    }
}
