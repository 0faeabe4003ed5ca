//! A document that is fetched over HTTP again and again.
//!
//! ```text
//! GET, as it was known -> 304: nothing new
//!                      -> 200 -> signature fetched and verified, where there is a key -> delivered
//!                      -> same server, another path: again, a few times
//! ```

use crate::delivery::{BadDelivery, Delivery, Document, is_name};
use crate::outlet::{Outlet, Verdict};
use crate::pace::Pace;
use crate::signature::{self, MAX_SIGNATURE};
use std::sync::Arc;
use std::time::Duration;
use titan_config::{HttpSource, Resolver, Url};
use titan_http::{BadField, RequestHead, Status};
use titan_io::tls::sha256;
use titan_upstream::client::{Answer, Question, Reuse};
use titan_upstream::members::Upstream;
use titan_upstream::server::Server;
use tokio::time::{sleep, timeout};

/// More redirects than this are not followed.
const MAX_REDIRECTS: usize = 3;
/// Bytes of an entity tag that is sent back.
const MAX_VALIDATOR: usize = 1 << 10;
const USER_AGENT: &str = concat!("titan/", env!("CARGO_PKG_VERSION"));

/// A document, and what is known of it.
pub(crate) struct Http {
    config: HttpSource,
    server: Server,
    pace: Pace,
    validators: Validators,
    /// The revision that was delivered last, and when it was signed.
    offered: (String, Option<u64>),
    /// When the document was signed that is in force.
    in_force: Option<u64>,
}

/// What tells a server which state of a document is known (RFC 9110 section 8.8).
#[derive(Default)]
struct Validators {
    tag: Option<Vec<u8>>,
    modified: Option<Vec<u8>>,
}

/// Why a look has failed.
#[derive(Debug)]
struct Missed {
    why: String,
    /// When the server wants to be asked again.
    retry_after: Option<Duration>,
}

impl Http {
    /// `in_force` is when the document was signed that is in force already.
    pub(crate) fn new(
        config: HttpSource,
        upstream: Arc<Upstream>,
        resolver: Resolver,
        in_force: Option<u64>,
    ) -> Http {
        let (server, pace) = (Server::new(upstream, resolver), Pace::new(config.interval));
        let (validators, offered) = Default::default();
        Http { config, server, pace, validators, offered, in_force }
    }

    /// Looks at the document until nobody takes it any more.
    pub(crate) async fn run(mut self, mut outlet: Outlet) {
        loop {
            let pause = tokio::select! {
                pause = self.look(&outlet) => pause,
                () = outlet.closed() => return,
            };
            let next = sleep(pause);
            tokio::pin!(next);
            loop {
                tokio::select! {
                    () = &mut next => break,
                    verdict = outlet.verdicts() => match verdict {
                        Some(verdict) => self.note(&verdict),
                        None => return,
                    },
                }
            }
        }
    }

    /// Looks at the document once; how long to wait for the next look.
    async fn look(&mut self, outlet: &Outlet) -> Duration {
        let time = self.config.timeout;
        let looked = timeout(time, self.fetch()).await;
        match looked.unwrap_or_else(|_| Err(Missed::of(format!("no response within {time:?}")))) {
            Ok(fetched) => {
                outlet.succeeded();
                fetched.into_iter().for_each(|delivery| outlet.deliver(delivery));
                self.pace.succeeded(self.server.random())
            }
            Err(Missed { why, retry_after }) => {
                self.server.take_next();
                outlet.failed(format!("{}: {why}", shown(&self.config.url)));
                self.pace.failed(retry_after, self.server.random())
            }
        }
    }

    /// The document, if it is not the one that is known.
    async fn fetch(&mut self) -> Result<Option<Delivery>, Missed> {
        let HttpSource { url, public_key, max_size, .. } = &self.config;
        let most = usize::try_from(max_size.bytes()).unwrap_or(usize::MAX);
        let answer = self.get(&url.target, &self.validators, most).await?;
        if answer.head.status == Status::NOT_MODIFIED {
            return Ok(None);
        }
        let (validators, document) = (Validators::of(&answer), whole(answer, most)?);
        let signed_at = match public_key {
            None => None,
            Some(key) => {
                let beside = beside(&url.target);
                let answer = self.get(&beside, &Validators::default(), MAX_SIGNATURE).await;
                let answer = answer.map_err(|missed| missed.about("its signature"))?;
                let signature =
                    whole(answer, MAX_SIGNATURE).map_err(|missed| missed.about("its signature"))?;
                Some(signature::verify(key, &document, &signature).map_err(Missed::of)?)
            }
        };
        if let Some(why) = self.downgrade(signed_at) {
            return Err(Missed::of(why));
        }
        let revision = validators.revision(&document);
        let text = String::from_utf8(document).map_err(|_| Missed::of("it is not UTF-8"))?;
        let name = name_of(&url.target);
        let delivery = Delivery::new(revision.clone(), vec![Document { name, text }])?;
        (self.validators, self.offered) = (validators, (revision, signed_at));
        Ok(Some(delivery.signed_at(signed_at)))
    }

    /// Why a document that was signed then cannot take the place of the one in force.
    fn downgrade(&self, signed_at: Option<u64>) -> Option<String> {
        let (then, before) = signed_at.zip(self.in_force)?;
        (then < before).then(|| {
            format!(
                "it was signed {} s before the document in force: sign it anew to go back to it",
                before - then
            )
        })
    }

    /// Notes what became of what was delivered.
    fn note(&mut self, verdict: &Verdict) {
        let (revision, signed_at) = &self.offered;
        if verdict.in_force && verdict.refused.is_empty() && verdict.revision == *revision {
            self.in_force = *signed_at;
        }
    }

    /// The response for what the server has there, through redirects on the same server: 200, or 304 for what is known.
    async fn get(&self, target: &str, known: &Validators, most: usize) -> Result<Answer, Missed> {
        let HttpSource { url, timeout, .. } = &self.config;
        let mut target = target.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let no_request = |_| Missed::of("its request cannot be written");
            let head = self.head(&target, known).map_err(no_request)?;
            let host = url.authority.as_bytes();
            let question = Question { head, host, body: &[], most };
            let answer = self.server.ask(&question, (Reuse::Never, *timeout)).await;
            let answer = answer.map_err(Missed::of)?;
            match answer.head.status.code() {
                200 => return Ok(answer),
                304 if !known.is_none() => return Ok(answer),
                301 | 302 | 303 | 307 | 308 => target = redirected(url, &answer)?,
                _ => return Err(Missed::refused(&answer)),
            }
        }
        Err(Missed::of(format!("more than {MAX_REDIRECTS} redirects")))
    }

    fn head(&self, target: &str, known: &Validators) -> Result<RequestHead, BadField> {
        let mut head = RequestHead::default();
        let (path, query) = split(target);
        head.set_path(path.as_bytes())?;
        head.set_query(query.map(str::as_bytes))?;
        head.fields.append_named(b"user-agent", USER_AGENT.as_bytes())?;
        head.fields.append_named(b"accept-encoding", b"identity")?;
        if let Some(tag) = &known.tag {
            head.fields.append_named(b"if-none-match", tag)?;
        } else if let Some(modified) = &known.modified {
            head.fields.append_named(b"if-modified-since", modified)?;
        }
        for (name, value) in &self.config.headers {
            head.fields.append_named(name.as_str().as_bytes(), value.as_str().as_bytes())?;
        }
        Ok(head)
    }
}

impl Validators {
    fn of(answer: &Answer) -> Validators {
        let field = |name: &'static [u8]| {
            let value = answer.head.fields.named(name).next()?;
            (value.len() <= MAX_VALIDATOR).then(|| value.to_owned())
        };
        Validators { tag: field(b"etag"), modified: field(b"last-modified") }
    }

    fn is_none(&self) -> bool {
        self.tag.is_none() && self.modified.is_none()
    }

    /// What people call this state of the document: its entity tag, or the beginning of its SHA-256.
    fn revision(&self, document: &[u8]) -> String {
        let tag = self.tag.as_ref().and_then(|tag| std::str::from_utf8(tag).ok());
        let is_plain =
            |tag: &&str| tag.len() <= 128 && tag.bytes().all(|it| (b' '..=b'~').contains(&it));
        match tag.filter(is_plain) {
            Some(tag) => tag.trim_start_matches("W/").trim_matches('"').to_owned(),
            None => {
                let digest = sha256(document);
                digest[..8]
                    .iter()
                    .fold("sha256:".to_owned(), |all, byte| format!("{all}{byte:02x}"))
            }
        }
    }
}

impl Missed {
    fn of(why: impl Into<String>) -> Missed {
        Missed { why: why.into(), retry_after: None }
    }

    /// That the server has responded with something else. What it says besides is not repeated: it may be anything.
    fn refused(answer: &Answer) -> Missed {
        let status = answer.head.status;
        let why = format!("the server responds with {} {}", status.code(), status.reason());
        Missed { why, retry_after: answer.retry_after() }
    }

    fn about(self, what: &str) -> Missed {
        Missed { why: format!("{what}: {}", self.why), ..self }
    }
}

impl From<BadDelivery> for Missed {
    fn from(bad: BadDelivery) -> Missed {
        Missed::of(bad.to_string())
    }
}

/// The body of a response, where that is all of it and as it is.
fn whole(answer: Answer, most: usize) -> Result<Vec<u8>, Missed> {
    let mut codings = answer.head.fields.named(b"content-encoding");
    if codings.any(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        return Err(Missed::of("it is compressed, though that was not asked for"));
    }
    match answer.is_whole {
        true => Ok(answer.body),
        false => Err(Missed::of(format!("it is larger than {most} bytes"))),
    }
}

/// Where a redirect leads, which is on the same server.
fn redirected(url: &Url, answer: &Answer) -> Result<String, Missed> {
    let location = answer.head.fields.named(b"location").next().unwrap_or_default();
    let location = std::str::from_utf8(location).unwrap_or_default();
    if location.starts_with('/') && !location.starts_with("//") {
        return Ok(location.to_owned());
    }
    let is_same = |other: &Url| {
        (other.is_https, other.port) == (url.is_https, url.port)
            && other.host.eq_ignore_ascii_case(&url.host)
    };
    match Url::parse(location).ok().filter(is_same) {
        Some(other) => Ok(other.target),
        None => Err(Missed::of(
            "it redirects to another server, which is not followed: set `url` to where the document is",
        )),
    }
}

/// A URL as messages show it: its query may have a key in it.
fn shown(url: &Url) -> String {
    let scheme = if url.is_https { "https" } else { "http" };
    format!("{scheme}://{}{}", url.authority, split(&url.target).0)
}

/// The path of a target, and its query.
fn split(target: &str) -> (&str, Option<&str>) {
    target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)))
}

/// Where the signature of a document is.
fn beside(target: &str) -> String {
    match split(target) {
        (path, None) => format!("{path}.minisig"),
        (path, Some(query)) => format!("{path}.minisig?{query}"),
    }
}

/// What a document is called: as the last part of its path.
fn name_of(target: &str) -> String {
    let last = split(target).0.rsplit('/').next().unwrap_or_default();
    let name = if is_name(last) { last } else { "document" };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(fields: &[(&str, &str)]) -> Answer {
        let mut answer = Answer::default();
        answer.is_whole = true;
        for (name, value) in fields {
            answer.head.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        answer
    }

    #[test]
    fn redirects_stay_on_the_server() {
        let url = Url::parse("https://config.example/shop.yaml").unwrap();
        for (location, target) in [
            ("/v2/shop.yaml", Some("/v2/shop.yaml")),
            ("https://CONFIG.example/x?y", Some("/x?y")),
            ("https://config.example:443/x", Some("/x")),
            ("http://config.example/x", None),
            ("https://config.example:444/x", None),
            ("https://config.example.evil/x", None),
            ("//evil/x", None),
            ("x", None),
            ("", None),
        ] {
            let followed = redirected(&url, &answer(&[("location", location)])).ok();
            assert_eq!(followed.as_deref(), target, "{location}");
        }
    }

    #[test]
    fn a_document_is_called_as_its_path_ends() {
        assert_eq!(name_of("/a/shop.yaml?v=1"), "shop.yaml");
        assert_eq!(name_of("/a/"), "document");
        assert_eq!(name_of("/a/%20"), "document");
        assert_eq!(beside("/a?b"), "/a.minisig?b");
    }

    #[test]
    fn a_key_in_a_query_is_not_shown() {
        let url = Url::parse("https://config.example/shop.yaml?key=4711").unwrap();
        assert_eq!(shown(&url), "https://config.example/shop.yaml");
    }

    #[test]
    fn a_revision_is_the_tag_of_the_server_or_a_digest() {
        let revision = |fields: &[(&str, &str)]| Validators::of(&answer(fields)).revision(b"a");
        assert_eq!(revision(&[("etag", "W/\"4711\"")]), "4711");
        assert_eq!(revision(&[]), "sha256:ca978112ca1bbdca");
        assert_eq!(revision(&[("etag", &"x".repeat(200))]), "sha256:ca978112ca1bbdca");
    }

    #[test]
    fn what_is_not_whole_or_not_plain_is_refused() {
        assert!(whole(answer(&[]), 1).is_ok());
        assert!(whole(answer(&[("content-encoding", "gzip")]), 1).is_err());
        assert!(whole(Answer::default(), 1).is_err());
    }
}
