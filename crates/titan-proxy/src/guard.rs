//! Which fields of requests are accepted.
//!
//! Some fields are trusted because of who writes them: the gateway, or a trusted proxy in front. By others, routes,
//! policies and the gateway itself decide. Upstreams that cannot tell `X_Role` from `X-Role` would mistake an
//! unchecked field for one of these, so the guard removes a look-alike, no matter who sends it:
//!
//! | who may write it | its own name | a look-alike | in trailers |
//! |---|---|---|---|
//! | only the gateway, or no peer at all ([`Writers::Gateway`]) | removed | removed | removed |
//! | trusted proxies ([`Writers::Proxies`]) | removed from anyone else | removed | removed |
//! | anyone, but something is decided by it ([`Writers::Judged`]) | kept | removed | removed |
//! | anyone, but the gateway knows it ([`Writers::Known`]) | kept | removed | `may_be_trailer` decides |
//!
//! Fields with any other name are not touched. This happens once for each request, before anything else uses it.

use std::collections::BTreeMap;
use titan_config::{Action, Config, FieldNames, HeaderName, Route, TrustedField};
use titan_http::{
    Field, FieldName, FieldSet, Fields, fold_byte, fold_name, is_alike, is_plain_name, starts_alike,
};
use titan_io::error::Kind;

/// The names of fields that have a meaning here.
#[derive(Debug)]
pub(crate) struct Guard {
    /// By the length of names, as far as lengths count.
    lengths: [NamesOfLength; LENGTHS],
    /// What begins so.
    starts: Vec<(&'static [u8], Writers)>,
    /// Whether all names must be plain.
    is_strict: bool,
    /// The well-known names that are not simply kept when spelled as usual.
    asserted: FieldSet,
    /// Whether copies are made of requests, so that one may come back.
    marks_copies: bool,
}

/// Who may write a field; stricter ones come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Writers {
    Known,
    Judged,
    Proxies,
    Gateway,
}

/// The names of one length.
#[derive(Debug, Default)]
struct NamesOfLength {
    /// A bit for each byte that one of them begins with: of those that come, hardly any goes on from here.
    first: u32,
    names: Vec<Guarded>,
}

/// A name and its look-alikes.
#[derive(Debug)]
struct Guarded {
    /// How it may be spelled, but for case.
    spellings: Vec<Box<[u8]>>,
    writers: Writers,
}

/// What a name is recognized as.
struct Recognized {
    writers: Writers,
    /// Whether it is spelled so.
    is_exact: bool,
}

/// Names of this length or longer are in one place.
const LENGTHS: usize = 40;

/// The fields that carry the client's certificate. They are trusted from no peer, not even from trusted proxies: one
/// that does not know these fields passes on what its client has sent.
pub(crate) const CLIENT_CERT: &str = "Client-Cert";
pub(crate) const CLIENT_CERT_CHAIN: &str = "Client-Cert-Chain";

/// A field that has no meaning: servers of CGI make `HTTP_PROXY` of it, by which programs choose the proxy that their own
/// requests go through (httpoxy, CVE-2016-5385).
const PROXY: &str = "Proxy";

/// By which upstreams can tell that a request is a copy. Clients could keep a request from having its effect with it.
pub(crate) const MIRRORED: &str = "X-Mirrored";

impl Guard {
    /// The names of a configuration, and those that the gateway knows anyway.
    pub(crate) fn new(config: &Config) -> Guard {
        let mut names = NameGroups::default();
        let known = FieldName::ALL.iter().map(|name| name.as_str());
        known.for_each(|name| names.add(name, Writers::Known));
        let judged = config.request_fields();
        judged.into_iter().for_each(|name| names.add(name.as_str(), Writers::Judged));
        // A proxy that writes one of the two passes on what its client has sent in the other.
        let (of_x_forwarded, of_forwarded) = match config.forwarding.trusted_field {
            TrustedField::XForwardedFor => (Writers::Proxies, Writers::Gateway),
            TrustedField::Forwarded => (Writers::Gateway, Writers::Proxies),
        };
        let of_real_ip =
            if config.forwarding.x_real_ip { Writers::Gateway } else { of_x_forwarded };
        names.add("X-Real-IP", of_real_ip);
        names.add(FieldName::Forwarded.as_str(), of_forwarded);
        let id = config.forwarding.request_id.as_ref().map(HeaderName::as_str);
        id.into_iter().for_each(|name| names.add(name, Writers::Proxies));
        let told = config.identity_fields();
        told.for_each(|name| names.add(name.as_str(), Writers::Gateway));
        let mirrors = |route: &Route| matches!(&route.action, Action::Proxy(proxy) if !proxy.mirrors.is_empty());
        let marks_copies = config.routes.iter().any(mirrors);
        if marks_copies {
            names.add(MIRRORED, Writers::Gateway);
        }
        let never_passed = [CLIENT_CERT, CLIENT_CERT_CHAIN, PROXY];
        never_passed.iter().for_each(|name| names.add(name, Writers::Gateway));
        let is_strict = config.limits.field_names == FieldNames::Strict;
        let guard = names.guard(
            is_strict,
            vec![
                (b"x-forwarded-", of_x_forwarded),
                (b"sec-websocket-", Writers::Known),
                (b"if-", Writers::Known),
            ],
        );
        Guard { marks_copies, ..guard }
    }

    /// Whether a request says of itself that it is a copy.
    pub(crate) fn is_marked(&self, fields: &Fields) -> bool {
        self.marks_copies && fields.named(MIRRORED.as_bytes()).next().is_some()
    }

    /// The first name that is not accepted at all.
    pub(crate) fn refused_name<'f>(&self, fields: &'f Fields) -> Option<&'f [u8]> {
        let mut names = fields.iter().filter(|_| self.is_strict).map(|field| field.name);
        names.find(|name| !is_plain_name(name))
    }

    /// Removes from the head of a request what its sender may not write, and look-alikes of what it may.
    pub(crate) fn strip_head(&self, is_trusted: bool, fields: &mut Fields) {
        fields.retain(|field| self.stays(field, is_trusted));
    }

    /// What [`Guard::strip_head`] removes, and why, in words. Values may be secrets.
    pub(crate) fn explain(&self, is_trusted: bool, fields: &Fields) -> Vec<String> {
        let goes = fields.iter().filter(|field| !self.stays(*field, is_trusted));
        let explained = goes.map(|field| {
            let name = String::from_utf8_lossy(field.name);
            match self.find(field.name) {
                Some(Recognized { is_exact: false, .. }) => {
                    format!("{name}: upstreams may read it as {}", fold_name(&name))
                }
                Some(Recognized { writers: Writers::Proxies, .. }) => {
                    format!("{name}: only trusted proxies may send it")
                }
                _ if name.eq_ignore_ascii_case(PROXY) => {
                    format!("{name}: upstreams may use it as the proxy for their own requests")
                }
                _ => format!("{name}: only the gateway may set it"),
            }
        });
        explained.collect()
    }

    fn stays(&self, field: Field<'_>, is_trusted: bool) -> bool {
        if field.id != FieldName::Other && !self.asserted.has(field.id) {
            return true;
        }
        self.find(field.name).is_none_or(|taken| match taken.writers {
            Writers::Gateway => false,
            Writers::Proxies => is_trusted && taken.is_exact,
            Writers::Judged | Writers::Known => taken.is_exact,
        })
    }

    /// Refuses the trailers of a request, or removes those that an upstream might believe as it believes fields of the head.
    ///
    /// Those of a trusted proxy too: it has put its own claims into the head, and passes on in trailers
    /// what its client has sent.
    pub(crate) fn admit_trailers(&self, trailers: &mut Fields) -> Result<(), Kind> {
        let stays = |field: Field<'_>| {
            let taken = self.find(field.name);
            taken.is_none_or(|taken| taken.writers == Writers::Known && taken.is_exact)
        };
        if trailers.is_empty() {
            return Ok(());
        }
        if self.refused_name(trailers).is_some() {
            return Err(Kind::FieldName);
        }
        trailers.retain(|field| field.id != FieldName::Via && stays(field));
        Ok(())
    }

    /// What upstreams may take a field of that name for.
    #[inline]
    fn find(&self, name: &[u8]) -> Option<Recognized> {
        let length = &self.lengths[name.len().min(LENGTHS - 1)];
        let first = name.first().map_or(0, |byte| bit(*byte));
        if length.first & first == 0 { None } else { self.find_among(length, name) }
    }

    fn find_among(&self, length: &NamesOfLength, name: &[u8]) -> Option<Recognized> {
        let known = length.names.iter().find(|it| is_alike(&it.spellings[0], name));
        if let Some(Guarded { spellings, writers }) = known {
            let is_exact = spellings.iter().any(|it| it.eq_ignore_ascii_case(name));
            return Some(Recognized { writers: *writers, is_exact });
        }
        let (_, writers) = self.starts.iter().find(|(start, _)| starts_alike(name, start))?;
        Some(Recognized { writers: *writers, is_exact: is_plain_name(name) })
    }
}

/// Which bit stands for a first byte: 26 letters, and the rest.
fn bit(byte: u8) -> u32 {
    match fold_byte(byte) {
        letter @ b'a'..=b'z' => 2 << (letter - b'a'),
        _ => 1,
    }
}

/// Names, grouped by how they look to servers that distinguish few bytes.
#[derive(Default)]
struct NameGroups(BTreeMap<String, Guarded>);

impl NameGroups {
    /// The strictest rule of those that are alike applies to all of them.
    fn add(&mut self, name: &str, writers: Writers) {
        let new = || Guarded { spellings: Vec::new(), writers };
        let guarded = self.0.entry(fold_name(name)).or_insert_with(new);
        guarded.writers = guarded.writers.max(writers);
        guarded.spellings.push(name.as_bytes().into());
    }

    fn guard(self, is_strict: bool, starts: Vec<(&'static [u8], Writers)>) -> Guard {
        let mut lengths = [(); LENGTHS].map(|()| NamesOfLength::default());
        for (start, _) in &starts {
            let at_least = lengths.iter_mut().skip(start.len().min(LENGTHS - 1));
            at_least.for_each(|length| length.first |= bit(start[0]));
        }
        for (name, mut guarded) in self.0 {
            let begun = starts.iter().filter(|(start, _)| name.as_bytes().starts_with(start));
            let begun = begun.map(|(_, writers)| *writers);
            guarded.writers = begun.fold(guarded.writers, Writers::max);
            let length = &mut lengths[name.len().min(LENGTHS - 1)];
            length.first |= bit(name.as_bytes()[0]);
            length.names.push(guarded);
        }
        let (asserted, marks_copies) = Default::default();
        let mut guard = Guard { lengths, starts, is_strict, asserted, marks_copies };
        let is_asserted = |name: &&FieldName| {
            let taken = guard.find(name.as_str().as_bytes());
            taken.is_some_and(|it| it.writers >= Writers::Proxies || !it.is_exact)
        };
        let asserted: Vec<_> =
            FieldName::ALL.iter().copied().filter(|it| is_asserted(&it)).collect();
        guard.asserted = FieldSet::of(&asserted);
        guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file that names a field in each way there is.
    const CONFIG: &str = "
listeners: [':0']
apply: [users, keys, change, limit]
routes:
  - prefix: /
    headers: { X-Version: '2' }
    upstream: u
    timeouts: { deadline_header: X-Time-Left }
    retries: { idempotency_key: X-Once }
  - { path: /says, respond: { template: '{header:X-Said}' } }
policies:
  users:
    jwt:
      providers: { algorithms: HS256, keys: { secret_file: k } }
      headers: { X-Role: sub }
  keys:
    authorise:
      api_keys: { header: X-Key, identity_header: X-Key-Name, keys: { a: HASH } }
      rules:
        - request.headers['x-rule'] == '1' || 'x-ruled' in request.headers
        - has(request.headers.x_ruling)
      forward_auth: { upstream: u, request_headers: X-Sent, upstream_headers: X-Taken }
  change:
    transform:
      request:
        headers:
          remove: X-Removed
          rename: { X_Old: X-New }
          set: { X-Set: '{header:X-Read}' }
          append: { X-Appended: '1' }
  limit: { rate_limit: { rates: 1/s, key: { header: X-Counted } } }
upstreams:
  u: { endpoints: ['127.0.0.1:1'], balance: { consistent_hash: { header: X-Hashed } } }
";

    fn guard() -> Guard {
        let text = CONFIG.replace("HASH", &"0f".repeat(32));
        let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
        Guard::new(&config)
    }

    fn fields(names: &[&str]) -> Fields {
        let mut fields = Fields::default();
        names.iter().for_each(|name| fields.append_named(name.as_bytes(), b"1").unwrap());
        fields
    }

    /// The names that are left of these in a head.
    fn in_head(is_trusted: bool, names: &[&str]) -> Vec<String> {
        let mut head = fields(names);
        guard().strip_head(is_trusted, &mut head);
        head.iter().map(|field| String::from_utf8(field.name.to_vec()).unwrap()).collect()
    }

    /// The names that are left of these in trailers.
    fn in_trailers(names: &[&str]) -> Vec<String> {
        let mut trailers = fields(names);
        assert_eq!(guard().admit_trailers(&mut trailers), Ok(()));
        trailers.iter().map(|field| String::from_utf8(field.name.to_vec()).unwrap()).collect()
    }

    /// Names with other bytes between their words.
    fn look_alikes(name: &str) -> Vec<String> {
        let other = |byte: &str| name.replace(['-', '_'], byte).to_ascii_lowercase();
        let all = ["-", "_", ".", "~", "!", "|"].map(other);
        all.into_iter().filter(|it| !it.eq_ignore_ascii_case(name)).collect()
    }

    const OWN: [&str; 7] = [
        "X-Role",
        "X-Key-Name",
        "X-Taken",
        "Client-Cert",
        "Client-Cert-Chain",
        "Forwarded",
        "Proxy",
    ];
    const CLAIMS: [&str; 5] =
        ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Real-IP", "X-Request-Id"];
    const JUDGED: [&str; 17] = [
        "X-Version",
        "X-Time-Left",
        "X-Once",
        "X-Said",
        "X-Key",
        "X-Rule",
        "X-Ruled",
        "X_Ruling",
        "X-Sent",
        "X-Removed",
        "X_Old",
        "X-New",
        "X-Set",
        "X-Read",
        "X-Appended",
        "X-Counted",
        "X-Hashed",
    ];
    const KNOWN: [&str; 6] = [
        "Content-Length",
        "Transfer-Encoding",
        "Proxy-Authorization",
        "User-Agent",
        "Sec-WebSocket-Key",
        "If-None-Match",
    ];

    #[test]
    fn no_peer_writes_the_fields_of_the_gateway() {
        for is_trusted in [false, true] {
            assert!(in_head(is_trusted, &OWN).is_empty());
        }
        assert!(in_trailers(&OWN).is_empty());
    }

    #[test]
    fn a_policy_of_a_source_that_no_route_meets_takes_no_field_from_clients() {
        let with = |apply: &str, is_delivered: bool| {
            let text = format!(
                "listeners: [':0']\nroutes: [{{ prefix: /, respond: 204{apply} }}]\npolicies: {{ p: {{ jwt: {{ headers: {{ X-Role: sub }}, \
                 providers: {{ algorithms: HS256, keys: {{ secret_file: k }} }} }} }} }}"
            );
            let config = Config::parse("test", &text);
            let mut config = config.unwrap_or_else(|report| panic!("{report}"));
            config.policies[0].is_delivered = is_delivered;
            let mut head = fields(&["X-Role"]);
            Guard::new(&config).strip_head(false, &mut head);
            head.iter().count()
        };
        assert_eq!((with("", true), with(", apply: p", true), with("", false)), (1, 0, 0));
    }

    #[test]
    fn trusted_proxies_alone_write_claims() {
        assert!(in_head(false, &CLAIMS).is_empty());
        assert_eq!(in_head(true, &CLAIMS), CLAIMS);
        assert!(in_trailers(&CLAIMS).is_empty());
    }

    #[test]
    fn any_client_writes_the_fields_that_decide() {
        for is_trusted in [false, true] {
            assert_eq!(in_head(is_trusted, &JUDGED), JUDGED);
            assert_eq!(in_head(is_trusted, &KNOWN), KNOWN);
        }
        assert!(in_trailers(&JUDGED).is_empty());
    }

    #[test]
    fn look_alikes_are_accepted_from_no_peer() {
        for name in [OWN.as_slice(), &CLAIMS, &JUDGED, &KNOWN].concat() {
            for other in look_alikes(name) {
                assert!(in_head(false, &[&other]).is_empty(), "{other}");
                assert!(in_head(true, &[&other]).is_empty(), "{other}");
                assert!(in_trailers(&[&other]).is_empty(), "{other}");
            }
        }
    }

    #[test]
    fn other_names_are_not_touched() {
        let names =
            ["Host", "Accept", "X_Other", "x.roles", "X-Rol", "Xx-Role", "X-Forwarded", "_"];
        assert_eq!(in_head(false, &names), names);
        let long = "x".repeat(100);
        let names = ["Server-Timing", "Grpc-Status", "X_Sum", &long];
        assert_eq!(in_trailers(&names), names);
    }

    proptest! {
        #[test]
        fn a_name_is_accepted_as_the_naive_twin_says(name in near_names(), is_trusted in any::<bool>()) {
            let all = [OWN.as_slice(), &CLAIMS, &JUDGED, &KNOWN].concat();
            let folded = fold_name(&name);
            let alike: Vec<_> = all.iter().filter(|it| fold_name(it) == folded).collect();
            let begins = |starts: &[&str]| starts.iter().any(|it| folded.starts_with(it));
            let is = |names: &[&str]| alike.iter().any(|it| names.contains(it));
            let is_claim = is(&CLAIMS) || begins(&["x-forwarded-"]);
            let means_something = is_claim || !alike.is_empty() || begins(&["sec-websocket-", "if-"]);
            let is_exact = match alike.is_empty() {
                true => is_plain_name(name.as_bytes()),
                false => alike.iter().any(|it| it.eq_ignore_ascii_case(&name)),
            };
            let may_write = !is(&OWN) && (is_trusted || !is_claim);
            let stays = !means_something || is_exact && may_write;
            prop_assert_eq!(!in_head(is_trusted, &[&name]).is_empty(), stays);
        }
    }

    fn near_names() -> impl Strategy<Value = String> {
        let all = [OWN.as_slice(), &CLAIMS, &JUDGED, &KNOWN].concat();
        (proptest::sample::select(all), 0..20_usize, "[A-Za-z0-9_.~|-]").prop_map(
            |(name, place, other)| {
                let mut name = name.to_owned();
                let place = place % name.len();
                name.replace_range(place..=place, &other);
                name
            },
        )
    }
}
