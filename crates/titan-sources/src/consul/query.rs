//! Blocking queries: an agent responds once something has changed after the index that is known, or when it has waited long enough.

use crate::delivery::MAX_TEXTS;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{ConsulSource, Resolver, Secret};
use titan_http::{BadField, RequestHead};
use titan_upstream::client::{Answer, Question, Reuse};
use titan_upstream::members::Upstream;
use titan_upstream::server::Server;
use tokio::time::timeout;

/// A query that is made again and again.
pub(crate) struct Query {
    server: Server,
    path: String,
    /// What it asks for besides.
    options: String,
    token: Option<Secret>,
    /// How long an agent may wait.
    wait: Duration,
    /// How long it may take beyond that.
    timeout: Duration,
    /// What is known: the first response says it; 0 before that.
    index: Index,
}

/// The state of something in Consul.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Index(u64);

/// Bytes of a response: all documents that there may be in Base64, with their keys.
const MAX_RESPONSE: usize = MAX_TEXTS / 3 * 4 + (32 << 20);
/// Consul waits longer by up to this part of the time, so that not all clients come back at once.
const CHANCE: u32 = 16;
const USER_AGENT: &str = concat!("titan/", env!("CARGO_PKG_VERSION"));

impl Query {
    pub(crate) fn new(
        config: &ConsulSource,
        (upstream, resolver): (Arc<Upstream>, Resolver),
        path: String,
        options: String,
    ) -> Query {
        Query {
            server: Server::new(upstream, resolver),
            path,
            options,
            token: config.token.clone(),
            wait: config.interval,
            timeout: config.timeout,
            index: Index::default(),
        }
    }

    /// A number that differs from time to time.
    pub(crate) fn random(&self) -> u64 {
        self.server.random()
    }

    /// What messages call the agent that is asked.
    pub(crate) fn agent(&self) -> String {
        self.server.address().map_or_else(|| "consul".to_owned(), String::from)
    }

    /// Asks the next agent from now on, and at once: another one may be at another index.
    pub(crate) fn take_next(&mut self) {
        self.server.take_next();
        self.index = Index::default();
    }

    /// What there is, with its index; nothing where it is as it was.
    pub(crate) async fn next(&mut self) -> Result<Option<(Vec<u8>, u64)>, String> {
        let time = self.wait + self.wait / CHANCE + self.timeout;
        let head = self.head().map_err(|_| "its request cannot be written")?;
        let question = Question { head, host: b"", body: &[], most: MAX_RESPONSE };
        let asked = timeout(time, self.server.ask(&question, (Reuse::Kept, self.timeout))).await;
        let answer = asked.unwrap_or_else(|_| Err(format!("no response within {time:?}")))?;
        let body = body_of(&answer)?.to_vec();
        let told = index_of(&answer)?;
        let is_known = self.index == told;
        self.index = self.index.after(told);
        Ok((!is_known).then_some((body, told.0)))
    }

    fn head(&self) -> Result<RequestHead, BadField> {
        let Query { options, wait, index: Index(index), .. } = self;
        let mut head = RequestHead::default();
        head.set_path(self.path.as_bytes())?;
        let query = format!("{options}&index={index}&wait={}ms", wait.as_millis());
        head.set_query(Some(query.as_bytes()))?;
        head.fields.append_named(b"user-agent", USER_AGENT.as_bytes())?;
        if let Some(token) = &self.token {
            head.fields.append_named(b"x-consul-token", token.bytes())?;
        }
        Ok(head)
    }
}

impl Index {
    /// What is known after a response with that one. One that has gone back, as after Consul was restored, says that nothing is
    /// known: the next query does not wait.
    fn after(self, told: Index) -> Index {
        if told.0 < self.0 { Index::default() } else { told }
    }
}

/// The body of a response that says what there is; nothing for what is not there.
fn body_of(answer: &Answer) -> Result<&[u8], String> {
    let status = answer.head.status;
    let is_filtered = |value: &[u8]| value.eq_ignore_ascii_case(b"true");
    if answer.head.fields.named(b"x-consul-results-filtered-by-acls").any(is_filtered) {
        return Err(
            "its token may not read all of this: see `token` in the configuration reference"
                .to_owned(),
        );
    }
    match status.code() {
        200 if answer.is_whole => Ok(&answer.body),
        200 => Err(format!("its response is larger than {MAX_RESPONSE} bytes")),
        404 => Ok(&[]),
        code => Err(format!("it responds with {code} {}", status.reason())),
    }
}

/// The index of a response, which is never 0: such a query would not wait.
fn index_of(answer: &Answer) -> Result<Index, String> {
    let text = answer.head.fields.named(b"x-consul-index").next().unwrap_or_default();
    let index = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
    index
        .map(|index| Index(index.max(1)))
        .ok_or_else(|| "its response has no `X-Consul-Index`: is this Consul?".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_http::Status;

    fn answer(code: u16, fields: &[(&str, &str)]) -> Answer {
        let mut answer = Answer::default();
        (answer.is_whole, answer.body) = (true, b"[]".to_vec());
        answer.head.status = Status::from_code(code).unwrap();
        for (name, value) in fields {
            answer.head.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        answer
    }

    #[test]
    fn an_index_that_goes_back_is_forgotten() {
        assert_eq!(Index(0).after(Index(5)), Index(5));
        assert_eq!(Index(5).after(Index(5)), Index(5));
        assert_eq!(Index(5).after(Index(4)), Index(0));
    }

    #[test]
    fn an_index_is_never_nothing() {
        let index = |text: &str| index_of(&answer(200, &[("x-consul-index", text)]));
        assert_eq!(index("7"), Ok(Index(7)));
        assert_eq!(index("0"), Ok(Index(1)));
        assert!(index("-1").is_err() && index("x").is_err());
        assert!(index_of(&answer(200, &[])).is_err());
    }

    #[test]
    fn what_is_missing_for_lack_of_rights_is_not_gone() {
        assert_eq!(body_of(&answer(200, &[])), Ok(&b"[]"[..]));
        assert_eq!(body_of(&answer(404, &[])), Ok(&b""[..]));
        let filtered = ("x-consul-results-filtered-by-acls", "true");
        assert!(body_of(&answer(404, &[filtered])).unwrap_err().contains("may not read"));
        assert!(body_of(&answer(403, &[])).unwrap_err().contains("403"));
        assert!(body_of(&answer(500, &[])).is_err());
        let mut partial = answer(200, &[]);
        partial.is_whole = false;
        assert!(body_of(&partial).is_err());
    }
}
