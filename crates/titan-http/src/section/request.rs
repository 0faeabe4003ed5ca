//! The head of a request (RFC 9113 section 8.3.1, RFC 8441).

use super::facts::Facts;
use super::fault::Fault;
use super::line::{Key, Line};
use super::size::{SectionLimits, Size, TooMuch};
use crate::authority::Authority;
use crate::field_name::FieldName;
use crate::fields::Fields;
use crate::head::{RequestHead, TargetForm};
use crate::method::Method;
use crate::text::{Span, is_token};
use crate::version::Version;

/// A request, apart from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// What `content-length` declares.
    pub length: Option<u64>,
    /// Whether the client waits for 100 (Continue).
    pub expect_continue: bool,
    /// `:protocol` of an extended CONNECT, in the text of the head.
    pub protocol: Option<Span>,
    /// Whether `:scheme` is `https`.
    pub is_https: bool,
}

/// The head of a request, on the way from its field section.
pub struct RequestSection<'a> {
    limits: &'a SectionLimits,
    size: Size,
    facts: Facts,
    crumbs: Crumbs<'a>,
    protocol: Option<Span>,
    is_https: bool,
    expectation: Expectation,
    head: &'a mut RequestHead,
}

/// What the client expects of the server. Judged at the end of the head: what is malformed comes
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expectation {
    None,
    /// 100-continue.
    Continue,
    /// Anything else.
    Unknown,
}

/// The `cookie` lines of a request, which become one (RFC 9113 section 8.2.3).
struct Crumbs<'a> {
    /// Which line of the fields the first one is.
    place: Option<usize>,
    /// All of them, once there is a second one.
    joined: &'a mut Vec<u8>,
}

impl<'a> RequestSection<'a> {
    /// One of a message of that version. `crumbs` is memory for cookies that come in several lines.
    pub fn new(
        version: Version,
        limits: &'a SectionLimits,
        crumbs: &'a mut Vec<u8>,
        head: &'a mut RequestHead,
    ) -> RequestSection<'a> {
        head.clear();
        head.version = version;
        crumbs.clear();
        RequestSection {
            limits,
            size: Size::new(limits.head, limits),
            facts: Facts::default(),
            crumbs: Crumbs { place: None, joined: crumbs },
            protocol: None,
            is_https: false,
            expectation: Expectation::None,
            head,
        }
    }

    /// Takes the next line.
    ///
    /// # Errors
    ///
    /// When there is so much that nothing more should be decoded.
    #[inline]
    pub fn take(&mut self, line: Line<'_>) -> Result<(), TooMuch> {
        let fits = self.size.add(&line)?;
        if !fits {
            self.facts.note(Fault::HeadTooLarge);
        }
        if let Some(fault) = line.fault {
            self.facts.note(fault);
            return Ok(());
        }
        let outcome = match line.key {
            Key::Field(id) => self.take_field(id, &line, fits),
            key => self.take_pseudo(key, line.value, fits),
        };
        self.facts.note_outcome(outcome);
        Ok(())
    }

    #[inline]
    fn take_field(&mut self, id: FieldName, line: &Line<'_>, fits: bool) -> Result<(), Fault> {
        self.facts.read_field(id, line.value);
        match id {
            FieldName::Expect => self.expectation = self.expectation.then(line.value),
            FieldName::Host => self.read_host(line.value)?,
            FieldName::Cookie if fits && self.crumbs.place.is_some() => {
                self.crumbs.add(line.value, &self.head.fields);
                return Ok(());
            }
            _ => {}
        }
        let fields = &mut self.head.fields;
        match fits {
            false => return Ok(()),
            true if fields.len() >= self.limits.fields => return Err(Fault::TooManyFields),
            true => {}
        }
        if id == FieldName::Cookie {
            self.crumbs.place = Some(fields.len());
        }
        fields.push_checked(id, line.name, line.value).map_err(|_| Fault::HeadTooLarge)
    }

    fn read_host(&mut self, value: &[u8]) -> Result<(), Fault> {
        if self.head.fields.names().has(FieldName::Host) {
            return Err(Fault::SecondHost);
        }
        Authority::parse(value).map(drop).map_err(|_| Fault::HostMalformed)
    }

    #[inline]
    fn take_pseudo(&mut self, key: Key, value: &[u8], fits: bool) -> Result<(), Fault> {
        self.facts.read_pseudo(key)?;
        match key {
            Key::Method => self.head.method = Method::parse(value).ok_or(Fault::Method)?,
            Key::Scheme => self.is_https = is_https(value)?,
            Key::Path if value.len() > self.limits.target => return Err(Fault::TargetTooLong),
            Key::Path if fits => self.take_path(value)?,
            Key::Authority if Authority::parse(value).is_err() => return Err(Fault::Authority),
            Key::Authority if fits => self.head.target.authority = self.keep(value)?,
            Key::Protocol if !is_token(value) => return Err(Fault::Protocol),
            Key::Protocol if fits => self.protocol = Some(self.keep(value)?),
            Key::Authority | Key::Path | Key::Protocol => {}
            Key::Status | Key::UnknownPseudo | Key::Field(_) => return Err(Fault::PseudoUnknown),
        }
        Ok(())
    }

    fn take_path(&mut self, value: &[u8]) -> Result<(), Fault> {
        if value == b"*" {
            self.head.target.form = TargetForm::Asterisk;
            return Ok(());
        }
        if value.first() != Some(&b'/') {
            return Err(Fault::Path);
        }
        // Without a branch for each byte: the compiler makes vectors of it.
        let is_wrong = |byte: u8| (byte <= b' ') | (byte >= 0x7f) | (byte == b'#');
        if value.iter().fold(false, |any, &byte| any | is_wrong(byte)) {
            return Err(Fault::PathByte);
        }
        let path_len = value.iter().position(|&byte| byte == b'?').unwrap_or(value.len());
        let start = self.head.fields.text().len();
        self.keep(value)?;
        let target = &mut self.head.target;
        target.path = Span::new(start, start + path_len);
        target.query =
            (path_len < value.len()).then(|| Span::new(start + path_len + 1, start + value.len()));
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<Span, Fault> {
        self.head.fields.push_text(bytes).map_err(|_| Fault::HeadTooLarge)
    }

    /// The section is complete: what its lines say together. What could be kept of one that is refused is in the head too.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn finish(mut self) -> Result<RequestFacts, Fault> {
        self.crumbs.finish(&mut self.head.fields)?;
        self.facts.check()?;
        match self.head.method == Method::CONNECT && self.protocol.is_none() {
            true => self.finish_connect()?,
            false => self.finish_target()?,
        }
        self.agree_on_host()?;
        if self.head.method == Method::CONNECT {
            self.drop_length()?;
        }
        if self.expectation == Expectation::Unknown {
            return Err(Fault::Expectation);
        }
        Ok(RequestFacts {
            length: self.facts.length,
            expect_continue: self.expectation == Expectation::Continue,
            protocol: self.protocol,
            is_https: self.is_https,
        })
    }

    /// Section 8.5: an authority with a port, and nothing else.
    fn finish_connect(&mut self) -> Result<(), Fault> {
        if self.facts.has(Key::Scheme) || self.facts.has(Key::Path) {
            return Err(Fault::ConnectTarget);
        }
        let authority = self.head.target.authority.of(self.head.fields.text());
        if authority.is_empty() {
            return Err(Fault::NoAuthority);
        }
        if !Authority::parse(authority).is_ok_and(|authority| authority.port.is_some()) {
            return Err(Fault::Authority);
        }
        self.head.target.form = TargetForm::Authority;
        Ok(())
    }

    fn finish_target(&mut self) -> Result<(), Fault> {
        let needed = [
            (Key::Method, Fault::NoMethod),
            (Key::Scheme, Fault::NoScheme),
            (Key::Path, Fault::NoPath),
        ];
        if let Some((_, fault)) = needed.into_iter().find(|&(key, _)| !self.facts.has(key)) {
            return Err(fault);
        }
        if self.protocol.is_some() && self.head.method != Method::CONNECT {
            return Err(Fault::ProtocolWithoutConnect);
        }
        if self.head.target.form == TargetForm::Asterisk && self.head.method != Method::OPTIONS {
            return Err(Fault::Path);
        }
        Ok(())
    }

    /// `host` says what `:authority` says, and then nothing more; or it stands in for it.
    fn agree_on_host(&mut self) -> Result<(), Fault> {
        let text = self.head.fields.text();
        let authority = self.head.target.authority.of(text);
        let host = self.head.fields.get(FieldName::Host);
        match host {
            None if authority.is_empty() => Err(Fault::NoAuthority),
            Some(host) if !authority.is_empty() => {
                if !same(host, authority) {
                    return Err(Fault::HostDiffers);
                }
                self.head.fields.remove(FieldName::Host);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// What follows CONNECT is the tunnel's, however long.
    fn drop_length(&mut self) -> Result<(), Fault> {
        if self.facts.length.take().is_some_and(|length| length > 0) {
            return Err(Fault::ConnectLength);
        }
        self.head.fields.remove(FieldName::ContentLength);
        Ok(())
    }
}

impl Expectation {
    fn then(self, value: &[u8]) -> Expectation {
        let is_known = value.eq_ignore_ascii_case(b"100-continue");
        match self {
            Expectation::None | Expectation::Continue if is_known => Expectation::Continue,
            _ => Expectation::Unknown,
        }
    }
}

impl Crumbs<'_> {
    /// Another line, behind the first one and those that are joined already.
    fn add(&mut self, value: &[u8], fields: &Fields) {
        if self.joined.is_empty() {
            let first = fields.get(FieldName::Cookie);
            self.joined.extend_from_slice(first.unwrap_or_default());
        }
        self.joined.extend_from_slice(b"; ");
        self.joined.extend_from_slice(value);
    }

    fn finish(&self, fields: &mut Fields) -> Result<(), Fault> {
        if let Some(place) = self.place
            && !self.joined.is_empty()
        {
            let value = fields.push_text(self.joined).map_err(|_| Fault::HeadTooLarge)?;
            fields.replace_value(place, value);
        }
        Ok(())
    }
}

fn is_https(scheme: &[u8]) -> Result<bool, Fault> {
    match scheme {
        b"https" => Ok(true),
        b"http" => Ok(false),
        _ => Err(Fault::Scheme),
    }
}

fn same(host: &[u8], authority: &[u8]) -> bool {
    let parsed = (Authority::parse(host), Authority::parse(authority));
    let (Ok(host), Ok(authority)) = parsed else { return false };
    host.host.eq_ignore_ascii_case(authority.host) && host.port == authority.port
}
