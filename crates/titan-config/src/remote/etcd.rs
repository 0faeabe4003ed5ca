//! Documents in etcd: where its members are, whom the gateway logs in as, and which keys are documents.

use crate::bounds::{MAX_SECRET, MAX_SERVERS, MAX_VALUE};
use crate::diagnostic::Diagnostic;
use crate::location::Location;
use crate::node::Node;
use crate::policy::{Url, parse_url};
use crate::problem::Problem;
use crate::read::{At, Read, Reading, at, default, optional, required};
use crate::readers::{duration, one_or_list, secret, short_for, text};
use crate::secret::{Secret, parse_secret};
use crate::section::{section, section_of};
use crate::servers::Server;
use crate::shape::TextShape;
use crate::timeouts::{DAY, timeout};
use crate::tls::{UpstreamTls, tls_settings};
use crate::token::Name;
use crate::upstream::{Protocol, Upstream, UpstreamFields};
use std::time::Duration;

/// Keys of etcd below a prefix, a document each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdSource {
    /// Where connections to its members lead: an endpoint for each.
    pub upstream: Upstream,
    /// What the keys of documents begin with; it ends with `/`.
    pub prefix: String,
    /// Whom the gateway logs in as, with the password; `None` for nobody.
    pub user: Option<(String, Secret)>,
    /// How long nothing may be heard before the watch is looked after, and the longest pause after failures.
    pub interval: Duration,
    /// How long a request may take.
    pub timeout: Duration,
}

section! {
    "etcd_source", "a source in etcd", Any;
    /// Documents in etcd, 3.4 or later, over its JSON gateway. Each key that begins with `prefix` is a document; what follows the prefix
    /// is its name. All are read at one revision and watched from there on, so that a change is in force within moments. A
    /// member that does not respond makes room for the next one, after a second and then longer and longer pauses, up to
    /// `interval`; what is in force stays so.
    pub(crate) struct EtcdSourceFields {
        /// Where clients reach the members of the cluster: `[https://etcd-1.example.com:2379, https://etcd-2.example.com:2379]`.
        pub(crate) endpoints: Vec<At<Url>> =
            required(one_or_list(at(text(ENDPOINT, parse_member)), 1..=MAX_SERVERS)),
        /// What the keys of documents begin with. It ends with `/`.
        pub(crate) prefix: String = default("/titan/", text(PREFIX, parse_prefix)),
        /// Whom the gateway logs in as. The user needs to read the keys that begin with `prefix`, and nothing else.
        pub(crate) username: Option<String> = optional("nobody", text(USERNAME, parse_username)),
        /// The password of that user: `${file:etcd.password}`.
        pub(crate) password: Option<Secret> = optional("none", secret(PASSWORD, parse_secret)),
        /// How TLS is spoken with the members; their addresses begin with `https`.
        pub(crate) tls: Option<UpstreamTls> =
            optional("all defaults where the addresses begin with `https`", tls_settings()),
        /// How long the watch may be silent before the gateway asks whether it has missed something, and opens another one: a
        /// member that has lost the others, or a connection that has died without a word, is noticed within this time and
        /// `timeout`. A tenth of it is left to chance.
        pub(crate) interval: Duration = default("30s", duration(Duration::from_secs(1)..=DAY)),
        /// How long a request may take, from connecting to the last byte; of a watch until the member has confirmed it.
        pub(crate) timeout: Duration = default("10s", timeout()),
    }
}

/// A source in etcd that has no name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdSourceDraft {
    fields: EtcdSourceFields,
    upstream: UpstreamFields,
}

const ENDPOINT: TextShape = TextShape {
    what: "the URL of a member of etcd",
    examples: "`https://etcd-1.example.com:2379`",
    pattern: Some("^https?://.+"),
    max: MAX_VALUE,
};

const PREFIX: TextShape = TextShape {
    what: "the beginning of keys",
    examples: "`/titan/`",
    pattern: Some("^[!-~]+/$|^/$"),
    max: 512,
};

const USERNAME: TextShape = TextShape {
    what: "a user of etcd",
    examples: "`titan`",
    pattern: Some("^[!-~]{1,255}$"),
    max: 255,
};

const PASSWORD: TextShape = TextShape {
    what: "the password of a user of etcd",
    examples: "`${file:etcd.password}`",
    pattern: None,
    max: MAX_SECRET,
};

impl EtcdSourceDraft {
    /// The source of that name.
    pub(super) fn finish(self, name: Name, location: Location) -> EtcdSource {
        let EtcdSourceFields {
            endpoints: _,
            prefix,
            username,
            password,
            tls: _,
            interval,
            timeout,
        } = self.fields;
        let upstream = self.upstream.finish(name, location, None);
        EtcdSource { upstream, prefix, user: username.zip(password), interval, timeout }
    }
}

pub(super) fn etcd_source() -> impl Read<Value = EtcdSourceDraft> {
    short_for("endpoints", section_of::<EtcdSourceFields>()).then(check)
}

fn check(fields: EtcdSourceFields, node: &Node, to: &mut Reading<'_>) -> Option<EtcdSourceDraft> {
    let EtcdSourceFields { endpoints: urls, tls, username, password, .. } = &fields;
    let server = Server { what: "member", key: "endpoints", urls, tls: tls.as_ref() };
    let is_fine = server.check_tls(node, to) & check_user(&fields, node, to);
    if let Some(url) = server.exposed() {
        let warning = Diagnostic::warning(url.span, "a configuration is fetched without TLS");
        let warning = warning.label("anyone on the network path can change it");
        to.add(warning.help("use `https`"));
    }
    if username.is_some() && password.is_some() {
        server.check_exposed("password", "the password is sent without TLS", node, to);
    }
    let upstream = server.upstream(Protocol::H1, to)?;
    is_fine.then_some(EtcdSourceDraft { fields, upstream })
}

/// Whether there is a password where there is a user, and the other way round.
fn check_user(fields: &EtcdSourceFields, node: &Node, to: &mut Reading<'_>) -> bool {
    let (given, missing) = match (&fields.username, &fields.password) {
        (Some(_), None) => ("username", "password"),
        (None, Some(_)) => ("password", "username"),
        _ => return true,
    };
    let error = Diagnostic::error(node.key_span(given), format!("`{missing}` is missing"));
    let error = error.label(format!("`{given}` alone does not log in"));
    to.add(error.help(format!("set `{missing}` too, or remove `{given}`")));
    false
}

fn parse_member(text: &str) -> Result<Url, Problem> {
    let url = parse_url(text)?;
    match url.target.as_str() {
        "/" => Ok(url),
        _ => Err(Problem::new("it has a path").help("what keys begin with goes into `prefix`")),
    }
}

fn parse_prefix(text: &str) -> Result<String, Problem> {
    if !text.ends_with('/') {
        let problem = Problem::new("it does not end with `/`");
        return Err(problem.help(format!("did you mean `{text}/`?")));
    }
    match text.bytes().all(|it| it.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err(Problem::new("it has spaces or characters that are not ASCII")),
    }
}

fn parse_username(text: &str) -> Result<String, Problem> {
    match !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err(Problem::new("it is empty, or has spaces or characters that are not ASCII")),
    }
}
