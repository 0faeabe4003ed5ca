//! What upstreams are told about the client, and which claims about the client are trusted.
//!
//! `X-Forwarded-*`, `Forwarded`, `X-Real-IP` and the request id are claims. From a trusted proxy they are kept and
//! extended; from anyone else the `guard` has removed them, whether or not this gateway writes such fields itself,
//! because an upstream would trust them.

mod element;
mod hops;
mod same_origin;

pub(crate) use hops::{Reach, count_hop};

use crate::guard::{CLIENT_CERT, CLIENT_CERT_CHAIN};
use crate::listener_id::ListenerId;
use crate::listener_policy::ListenerPolicy;
use crate::origin::{AddressText, Judgement, Origin};
use element::{LastHops, is_well_formed, value_of};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use titan_config::{Cidr, ClientCert, Config, HeaderName, ListenerSet, ServerField, TrustedField};
use titan_http::{Authority, BadField, FieldName, Fields, RequestHead, ResponseHead, Scheme};
use titan_io::tls::Identity;
use titan_policies::context::Client;

/// Behind how many trusted proxies a client's address is looked for: the client is one of as many members of the list.
const MAX_HOPS: usize = 32;

/// The longest request id that is kept, in bytes.
const MAX_REQUEST_ID: usize = 128;

/// How often a request may have passed through a gateway of this name before it goes in circles.
const MAX_PASSES: usize = 8;

/// What is passed on and what is trusted, as configured.
#[derive(Debug)]
pub(crate) struct Forwarding {
    /// Unique in the process: whom one trusts another may not.
    id: u64,
    /// Where connections come in.
    listeners: Vec<ListenerId>,
    trusted: Vec<Cidr>,
    trusted_field: TrustedField,
    x_forwarded: bool,
    x_real_ip: bool,
    forwarded: bool,
    request_id: Option<IdField>,
    responds_with_id: bool,
    /// The pseudonym.
    via: Option<Box<str>>,
    client_cert: ClientCert,
    server: ServerField,
}

/// The field of the request id.
#[derive(Debug)]
struct IdField {
    name: HeaderName,
    /// Compared instead of the name where that is a known one.
    id: FieldName,
}

/// The client of a request, as policies know it.
#[derive(Clone, Copy)]
pub(crate) struct KnownClient<'a> {
    pub(crate) forwarding: &'a Forwarding,
    pub(crate) origin: &'a Origin,
}

impl Client for KnownClient<'_> {
    fn address(&self, fields: &Fields) -> Option<IpAddr> {
        self.forwarding.client(self.origin, fields)
    }

    fn scheme(&self) -> Scheme {
        self.origin.scheme
    }

    fn identity(&self) -> Option<&Rc<Identity>> {
        self.origin.shown.as_ref().map(|shown| &shown.identity)
    }

    fn request_id<'f>(&self, fields: &'f Fields) -> Option<&'f [u8]> {
        self.forwarding.request_id(fields)
    }

    fn is_same_origin(&self, page: &[u8], request: &RequestHead) -> bool {
        self.forwarding.is_same_origin(page, self.origin, request)
    }
}

/// Why a request cannot be sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It has come through here too often already.
    Loop,
    /// A field cannot be written.
    Field(BadField),
}

impl Forwarding {
    /// The rules of a configuration.
    pub(crate) fn new(config: &Config) -> Forwarding {
        let titan_config::Forwarding {
            trusted_proxies,
            trusted_field,
            x_forwarded,
            x_real_ip,
            forwarded,
            request_id,
            respond_with_id: responds_with_id,
            via,
            client_cert,
            server,
        } = config.forwarding.clone();
        let (trusted, via) = (trusted_proxies, via.map(|via| via.as_str().into()));
        let request_id = request_id.map(IdField::new);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Forwarding {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            listeners: ListenerId::all(&config.listeners),
            trusted,
            trusted_field,
            x_forwarded,
            x_real_ip,
            forwarded,
            request_id,
            responds_with_id,
            via,
            client_cert,
            server,
        }
    }

    /// Judges a new connection that has come in at `listener_policy`. A peer without an address is never trusted.
    pub(crate) fn origin(
        &self,
        address: Option<IpAddr>,
        scheme: Scheme,
        listener_policy: &Arc<ListenerPolicy>,
    ) -> Origin {
        let address = address.map(|address| address.to_canonical());
        Origin::new(address, scheme, self.judgement(address, listener_policy), listener_policy)
    }

    /// Judges a connection that was accepted under another configuration.
    pub(crate) fn judge(&self, origin: &Origin) {
        origin.judge(self.id, |origin| self.judgement(origin.address, &origin.listener_policy));
    }

    fn judgement(&self, address: Option<IpAddr>, listener_policy: &ListenerPolicy) -> Judgement {
        let is_trusted = address.is_some_and(|address| self.trusts(address));
        let is_its = |id: &ListenerId| listener_policy.id() == Some(id);
        let listener = self.listeners.iter().position(is_its);
        let listener = listener.map_or(ListenerSet::NONE, ListenerSet::of);
        Judgement { is_trusted, listener, judge: self.id }
    }

    /// The address of the client behind all trusted proxies; the peer's where it tells nothing. None where a trusted
    /// proxy reports a client without naming an address: its own would let a client pass for it.
    ///
    /// The list is read from its end, where each trusted proxy has put its own peer, up to the first address that is
    /// not trusted. What stands before that can be forged.
    pub(crate) fn client(&self, origin: &Origin, fields: &Fields) -> Option<IpAddr> {
        let peer = origin.address?;
        if !origin.is_trusted() {
            return Some(peer);
        }
        let (client, _) = match self.trusted_field {
            TrustedField::XForwardedFor => self.behind(peer, x_forwarded_for(fields)),
            TrustedField::Forwarded => self.behind(peer, LastHops::of(fields).addresses()),
        };
        client
    }

    /// The element of `Forwarded` that names the client, if that is the trusted field.
    fn element_of_client<'f>(&self, origin: &Origin, fields: &'f Fields) -> Option<&'f [u8]> {
        let peer = origin.address.filter(|_| origin.is_trusted())?;
        let last = LastHops::of(fields);
        let (_, hops) = self.behind(peer, last.addresses());
        last.elements().nth(hops.checked_sub(1)?)
    }

    /// Gives the request its id, where requests have one: the received one from a trusted proxy, else
    /// `fresh`. It travels upstream in its field.
    pub(crate) fn identify(
        &self,
        origin: &Origin,
        fields: &mut Fields,
        fresh: u128,
    ) -> Result<(), BadField> {
        let Some(field) = &self.request_id else { return Ok(()) };
        match field.only_value(fields) {
            Some(kept) if origin.is_trusted() && is_request_id(kept) => Ok(()),
            _ => field.set(fields, &hex(fresh)),
        }
    }

    /// The id of a request that was identified; none where ids are off.
    pub(crate) fn request_id<'f>(&self, fields: &'f Fields) -> Option<&'f [u8]> {
        self.request_id.as_ref()?.only_value(fields)
    }

    /// Gives another request that is made for the same client, or its response, the id of the one that was identified.
    pub(crate) fn pass_id(&self, from: &Fields, to: &mut Fields) -> Result<(), BadField> {
        let id = self.request_id.as_ref().and_then(|id| Some((id, id.only_value(from)?)));
        id.map_or(Ok(()), |(field, value)| field.set(to, value))
    }

    /// Writes what the upstream is to know of the way here, behind what the guard has left of what others say of it.
    /// `scratch` is overwritten.
    pub(crate) fn add_upstream_fields(
        &self,
        origin: &Origin,
        head: &mut RequestHead,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        self.add_certificate(origin, head, scratch)?;
        self.add_real_ip(origin, head)?;
        // Each is made of the other before that has got more.
        match self.trusted_field {
            TrustedField::XForwardedFor => {
                self.add_forwarded(origin, head, scratch)?;
                self.add_x_forwarded(origin, head, scratch)?;
            }
            TrustedField::Forwarded => {
                drop_malformed(&mut head.fields, scratch)?;
                self.add_x_forwarded(origin, head, scratch)?;
                self.add_forwarded(origin, head, scratch)?;
            }
        }
        match &self.via {
            Some(pseudonym) => write_via(pseudonym, head, scratch),
            None => Ok(()),
        }
    }

    /// Writes the address of the client by itself.
    fn add_real_ip(&self, origin: &Origin, head: &mut RequestHead) -> Result<(), BadField> {
        let told = origin.address.filter(|_| self.x_real_ip);
        let Some(_) = told else { return Ok(()) };
        let client = self.client_behind_peer(origin, &head.fields).unwrap_or(origin.text());
        match client.as_bytes() {
            b"" => Ok(()),
            text => head.fields.append_named(b"X-Real-IP", text),
        }
    }

    /// Writes `X-Forwarded-For`, `-Proto` and `-Host` as far as no trusted proxy has.
    fn add_x_forwarded(
        &self,
        origin: &Origin,
        head: &mut RequestHead,
        scratch: &mut Vec<u8>,
    ) -> Result<(), BadField> {
        if !self.x_forwarded {
            return Ok(());
        }
        if origin.address.is_some() {
            match self.trusted_field {
                TrustedField::XForwardedFor => {
                    start_list(&head.fields, FieldName::XForwardedFor, scratch);
                }
                TrustedField::Forwarded => {
                    scratch.clear();
                    if let Some(client) = self.client_behind_peer(origin, &head.fields) {
                        scratch.extend_from_slice(match client.as_bytes() {
                            b"" => b"unknown",
                            text => text,
                        });
                        scratch.extend_from_slice(b", ");
                    }
                }
            }
            scratch.extend_from_slice(origin.text().as_bytes());
            replace(&mut head.fields, FieldName::XForwardedFor, scratch)?;
        }
        let believed = match self.trusted_field {
            TrustedField::XForwardedFor => None,
            TrustedField::Forwarded => self.element_of_client(origin, &head.fields),
        };
        let host = believed.and_then(|element| value_of(element, b"host=")).filter(is_authority);
        scratch.clear();
        scratch.extend_from_slice(host.or_else(|| head.authority()).unwrap_or_default());
        let scheme = believed.and_then(|element| value_of(element, b"proto="));
        let scheme = scheme.and_then(Scheme::parse).unwrap_or(origin.scheme);
        if head.fields.get(FieldName::XForwardedProto).is_none() {
            head.fields.append(FieldName::XForwardedProto, scheme.as_str().as_bytes())?;
        }
        if head.fields.get(FieldName::XForwardedHost).is_none() && !scratch.is_empty() {
            head.fields.append(FieldName::XForwardedHost, scratch)?;
        }
        Ok(())
    }

    /// Adds an element to `Forwarded` (RFC 7239 section 4), behind one for the client where it is `X-Forwarded-For`
    /// that says who that is (section 7.4).
    fn add_forwarded(
        &self,
        origin: &Origin,
        head: &mut RequestHead,
        scratch: &mut Vec<u8>,
    ) -> Result<(), BadField> {
        if !self.forwarded {
            return Ok(());
        }
        start_list(&head.fields, FieldName::Forwarded, scratch);
        if self.trusted_field == TrustedField::XForwardedFor
            && let Some(client) = self.client_behind_peer(origin, &head.fields)
        {
            let only = |name| {
                let mut values = head.fields.all(name);
                values.next().filter(|_| values.next().is_none())
            };
            let host = only(FieldName::XForwardedHost).filter(is_authority);
            let scheme = only(FieldName::XForwardedProto).and_then(Scheme::parse);
            write_element(client, host, scheme, scratch);
            scratch.extend_from_slice(b", ");
        }
        write_element(origin.text(), head.authority(), Some(origin.scheme), scratch);
        replace(&mut head.fields, FieldName::Forwarded, scratch)
    }

    /// The address of the client, where that is not the peer; empty where a trusted proxy does not say which it is.
    fn client_behind_peer(&self, origin: &Origin, fields: &Fields) -> Option<AddressText> {
        if !origin.is_trusted() {
            return None;
        }
        let client = self.client(origin, fields);
        (client != origin.address).then(|| AddressText::new(client))
    }

    /// Writes the certificate that the client has presented (RFC 9440).
    fn add_certificate(
        &self,
        origin: &Origin,
        head: &mut RequestHead,
        scratch: &mut Vec<u8>,
    ) -> Result<(), BadField> {
        let Some(shown) = origin.shown.as_ref().filter(|_| self.client_cert != ClientCert::Off)
        else {
            return Ok(());
        };
        shown.identity.write_leaf(scratch);
        head.fields.append_named(CLIENT_CERT.as_bytes(), scratch)?;
        shown.identity.write_rest(scratch);
        match self.client_cert == ClientCert::Chain && !scratch.is_empty() {
            true => head.fields.append_named(CLIENT_CERT_CHAIN.as_bytes(), scratch),
            false => Ok(()),
        }
    }

    /// Sets the fields of a final response that the configuration controls.
    pub(crate) fn set_response_fields(
        &self,
        origin: &Origin,
        request: &Fields,
        head: &mut ResponseHead,
    ) -> Result<(), BadField> {
        if self.responds_with_id {
            self.pass_id(request, &mut head.fields)?;
        }
        if origin.scheme == Scheme::Https
            && let Some(hsts) = &*origin.listener_policy.hsts()
        {
            head.fields.set_named(b"Strict-Transport-Security", hsts.as_bytes())?;
        }
        if origin.scheme == Scheme::Https
            && let Some(alt_svc) = &*origin.listener_policy.alt_svc()
        {
            head.fields.set_named(b"Alt-Svc", alt_svc.as_bytes())?;
        }
        self.name_server(head)
    }

    /// Sets the `Server` field of a response as configured.
    pub(crate) fn name_server(&self, head: &mut ResponseHead) -> Result<(), BadField> {
        match &self.server {
            ServerField::Pass => Ok(()),
            ServerField::Remove => {
                head.fields.remove(FieldName::Server);
                Ok(())
            }
            ServerField::Replace(text) => {
                head.fields.set(FieldName::Server, text.as_str().as_bytes())
            }
        }
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|block| block.contains(address))
    }

    /// Goes from `peer` back along `hops`, the nearest first, as long as the one that named the next is trusted;
    /// returns where it ends, and after how many. A hop that is not an address ends the list at an unknown client, as
    /// does the last of too many trusted ones: it is not the client.
    fn behind(
        &self,
        peer: IpAddr,
        hops: impl Iterator<Item = Option<IpAddr>>,
    ) -> (Option<IpAddr>, usize) {
        let (mut client, mut count) = (Some(peer), 0);
        for hop in hops.take(MAX_HOPS) {
            if !client.is_some_and(|client| self.trusts(client)) {
                break;
            }
            client = hop.map(|address| address.to_canonical());
            count += 1;
        }
        let is_end = count < MAX_HOPS || !client.is_some_and(|client| self.trusts(client));
        (client.filter(|_| is_end), count)
    }
}

/// An id made of a number.
fn hex(number: u128) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    text
}

/// Whether a received id may go into logs and responses as it is.
pub fn is_request_id(value: &[u8]) -> bool {
    let is_safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:+/=@~".contains(byte);
    (1..=MAX_REQUEST_ID).contains(&value.len()) && value.iter().all(is_safe)
}

impl IdField {
    fn new(name: HeaderName) -> IdField {
        IdField { id: FieldName::of(name.as_str().as_bytes()), name }
    }

    /// The value, where there is one line only.
    fn only_value<'a>(&self, fields: &'a Fields) -> Option<&'a [u8]> {
        match self.id {
            FieldName::Other => {
                let name = self.name.as_str().as_bytes();
                let named = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
                only(named.map(|field| field.value))
            }
            known => only(fields.all(known)),
        }
    }

    fn set(&self, fields: &mut Fields, value: &[u8]) -> Result<(), BadField> {
        match self.id {
            FieldName::Other => fields.set_named(self.name.as_str().as_bytes(), value),
            known => fields.set(known, value),
        }
    }
}

fn only<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    values.next().filter(|_| values.next().is_none())
}

/// Writes an element of `Forwarded`.
fn write_element(
    address: AddressText,
    host: Option<&[u8]>,
    scheme: Option<Scheme>,
    out: &mut Vec<u8>,
) {
    let (before, text, after): (&[u8], &[u8], &[u8]) = match address.as_bytes() {
        b"" => (b"for=", b"unknown", b""),
        text if text.contains(&b':') => (b"for=\"[", text, b"]\""),
        text => (b"for=", text, b""),
    };
    [before, text, after].iter().for_each(|it| out.extend_from_slice(it));
    if let Some(host) = host {
        // Always quoted: a colon is no byte of a token.
        out.extend_from_slice(b";host=\"");
        out.extend(host.iter().filter(|byte| !matches!(byte, b'"' | b'\\')));
        out.push(b'"');
    }
    if let Some(scheme) = scheme {
        out.extend_from_slice(b";proto=");
        out.extend_from_slice(scheme.as_str().as_bytes());
    }
}

/// Puts `for=unknown` in place of the lines of `Forwarded` that are malformed, and of those before them: with an open quote
/// they would swallow what is added, and without anything between them the others would look like neighbours.
fn drop_malformed(fields: &mut Fields, scratch: &mut Vec<u8>) -> Result<(), BadField> {
    let count = fields.all(FieldName::Forwarded).count();
    let fine = fields.all(FieldName::Forwarded).rev().take_while(|line| is_well_formed(line));
    let bad = count - fine.count();
    if bad == 0 {
        return Ok(());
    }
    scratch.clear();
    scratch.extend_from_slice(b"for=unknown");
    for line in fields.all(FieldName::Forwarded).skip(bad).filter(|line| !line.is_empty()) {
        scratch.extend_from_slice(b", ");
        scratch.extend_from_slice(line);
    }
    fields.set(FieldName::Forwarded, scratch)
}

/// Whether it is a host, perhaps with a port.
fn is_authority(text: &&[u8]) -> bool {
    Authority::parse(text).is_ok()
}

/// Makes `scratch` the received list with a comma behind it, or empty where none was received.
fn start_list(fields: &Fields, name: FieldName, scratch: &mut Vec<u8>) {
    scratch.clear();
    for line in fields.all(name).filter(|line| !line.is_empty()) {
        scratch.extend_from_slice(line);
        scratch.extend_from_slice(b", ");
    }
}

/// Makes `value` the only one; where there was none nothing is looked through for removal.
fn replace(fields: &mut Fields, name: FieldName, value: &[u8]) -> Result<(), BadField> {
    match fields.get(name) {
        Some(_) => fields.set(name, value),
        None => fields.append(name, value),
    }
}

/// Adds this gateway to `Via`, unless the list shows that the request goes in circles.
fn write_via(
    pseudonym: &str,
    head: &mut RequestHead,
    scratch: &mut Vec<u8>,
) -> Result<(), Refused> {
    let passes = head.fields.members(FieldName::Via).filter(|entry| names(entry, pseudonym));
    if passes.count() > MAX_PASSES {
        return Err(Refused::Loop);
    }
    scratch.clear();
    for part in [head.version.as_str(), " ", pseudonym] {
        scratch.extend_from_slice(part.as_bytes());
    }
    Ok(head.fields.append(FieldName::Via, scratch)?)
}

/// Whether an entry of `Via` (protocol, name, perhaps a comment) has that name.
fn names(entry: &[u8], pseudonym: &str) -> bool {
    let mut words = entry.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    words.nth(1).is_some_and(|name| name.eq_ignore_ascii_case(pseudonym.as_bytes()))
}

/// The hops that `X-Forwarded-For` names, the last one first.
fn x_forwarded_for(fields: &Fields) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = fields.all(FieldName::XForwardedFor).rev();
    lines.flat_map(|line| line.rsplit(|&byte| byte == b',')).map(node_address)
}

/// The address in a member of `X-Forwarded-For` or a node of `Forwarded`: perhaps in brackets, perhaps
/// with a port.
fn node_address(node: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(node.trim_ascii()).ok()?;
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = bracketed.unwrap_or(text).parse().ok();
    address.or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}

impl From<BadField> for Refused {
    fn from(bad: BadField) -> Refused {
        Refused::Field(bad)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Loop => f.write_str("the request has come through here too often"),
            Refused::Field(bad) => bad.fmt(f),
        }
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests;
