//! Requests to the members of an etcd cluster, one of them at a time.

use super::api::{AuthenticateRequest, AuthenticateResponse, Fault};
use crate::delivery::MAX_TEXTS;
use crate::message::shown;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{Resolver, Secret};
use titan_http::{BadField, Method, RequestHead};
use titan_upstream::client::{Answer, MOST_BODY, Question, Reuse};
use titan_upstream::members::Upstream;
use titan_upstream::server::Server;
use tokio::time::timeout;

/// The members of a cluster, and as whom they are asked.
pub(crate) struct Cluster {
    server: Server,
    user: Option<(String, Secret)>,
    /// How long a request may take.
    timeout: Duration,
    /// What shows who asks; asked for when it is first needed, and again when it has expired.
    token: Option<String>,
}

/// Bytes of a response: all documents that there may be in Base64, with their keys.
const MAX_RESPONSE: usize = MAX_TEXTS / 3 * 4 + (32 << 20);
/// Bytes of a token.
const MAX_TOKEN: usize = 8 << 10;
const USER_AGENT: &str = concat!("titan/", env!("CARGO_PKG_VERSION"));

/// Why a request has failed.
enum Refusal {
    /// The token is not valid any more.
    Token(String),
    /// For any other reason.
    Other(String),
}

impl Cluster {
    /// The cluster whose members are the endpoints of that upstream.
    pub(crate) fn new(
        upstream: Arc<Upstream>,
        resolver: Resolver,
        user: Option<(String, Secret)>,
        timeout: Duration,
    ) -> Cluster {
        Cluster { server: Server::new(upstream, resolver), user, timeout, token: None }
    }

    /// A number that differs from time to time.
    pub(crate) fn random(&self) -> u64 {
        self.server.random()
    }

    /// How long a request may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How many members there are to ask.
    pub(crate) fn members(&self) -> usize {
        self.server.addresses()
    }

    /// What messages call the member that is asked.
    pub(crate) fn member(&self) -> String {
        self.server.address().map_or_else(|| "etcd".to_owned(), String::from)
    }

    /// Asks the next member from now on.
    pub(crate) fn take_next(&mut self) {
        self.server.take_next();
    }

    /// What it responds to a request.
    pub(crate) async fn call<T: DeserializeOwned>(
        &mut self,
        path: &str,
        request: &impl Serialize,
    ) -> Result<T, String> {
        let body = serde_json::to_vec(request).map_err(|error| error.to_string())?;
        self.log_in().await?;
        let refusal = match self.ask(path, &body, MAX_RESPONSE).await {
            Err(Refusal::Token(why)) => why,
            other => return other.map_err(Refusal::into_text),
        };
        if self.user.is_none() {
            return Err(refusal);
        }
        // It has expired, or the member was started anew.
        self.token = None;
        self.log_in().await?;
        self.ask(path, &body, MAX_RESPONSE).await.map_err(Refusal::into_text)
    }

    /// Shows `take` what it responds to a request, as it comes, until that breaks off or the response ends. Nothing bounds the time but the
    /// caller.
    pub(crate) async fn listen(
        &self,
        path: &str,
        request: &impl Serialize,
        take: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), String> {
        let body = serde_json::to_vec(request).map_err(|error| error.to_string())?;
        let question = self.question(path, &body, MOST_BODY)?;
        let answer = self.server.listen(&question, self.timeout, take).await?;
        match answer.head.status.code() {
            200 => Ok(()),
            _ => Err(refusal(&answer).into_text()),
        }
    }

    /// Has a token where a user is set.
    async fn log_in(&mut self) -> Result<(), String> {
        let Some((name, password)) = &self.user else { return Ok(()) };
        if self.token.is_some() {
            return Ok(());
        }
        let password = std::str::from_utf8(password.bytes()).unwrap_or_default();
        let body = serde_json::to_vec(&AuthenticateRequest { name, password });
        let body = body.map_err(|error| error.to_string())?;
        let response = self.ask("/v3/auth/authenticate", &body, MAX_TOKEN).await;
        let response: AuthenticateResponse = response
            .map_err(|refusal| format!("the user {name} cannot log in: {}", refusal.into_text()))?;
        self.token = Some(response.token);
        Ok(())
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &[u8],
        most: usize,
    ) -> Result<T, Refusal> {
        let time = self.timeout;
        let question = self.question(path, body, most).map_err(Refusal::Other)?;
        let asked = timeout(time, self.server.ask(&question, (Reuse::Kept, time))).await;
        let asked = asked.unwrap_or_else(|_| Err(format!("no response within {time:?}")));
        let answer = asked.map_err(Refusal::Other)?;
        if answer.head.status.code() != 200 {
            return Err(refusal(&answer));
        }
        if !answer.is_whole {
            return Err(Refusal::Other(format!("its response is larger than {most} bytes")));
        }
        serde_json::from_slice(&answer.body).map_err(|error| {
            Refusal::Other(format!(
                "its response is not that of etcd: {}",
                shown(&error.to_string())
            ))
        })
    }

    fn question<'q>(
        &self,
        path: &str,
        body: &'q [u8],
        most: usize,
    ) -> Result<Question<'q>, String> {
        let head = self.head(path).map_err(|_| "its request cannot be written")?;
        Ok(Question { head, host: b"", body, most })
    }

    fn head(&self, path: &str) -> Result<RequestHead, BadField> {
        let mut head = RequestHead { method: Method::POST, ..RequestHead::default() };
        head.set_path(path.as_bytes())?;
        head.fields.append_named(b"user-agent", USER_AGENT.as_bytes())?;
        head.fields.append_named(b"content-type", b"application/json")?;
        if let Some(token) = &self.token {
            head.fields.append_named(b"authorization", token.as_bytes())?;
        }
        Ok(head)
    }
}

impl Refusal {
    fn into_text(self) -> String {
        let (Refusal::Token(why) | Refusal::Other(why)) = self;
        why
    }
}

/// What a response with another status than 200 says.
fn refusal(answer: &Answer) -> Refusal {
    let status = answer.head.status;
    let fault: Fault = serde_json::from_slice(&answer.body).unwrap_or_default();
    let text = fault.text();
    let why = match text.as_str() {
        "" => format!("it responds with {} {}", status.code(), status.reason()),
        text => format!("it responds with {}: {text}", status.code()),
    };
    let is_about_token = ["invalid auth token", "revision of auth store is old"];
    match status.code() == 401 || is_about_token.iter().any(|it| text.contains(it)) {
        true => Refusal::Token(why),
        false => Refusal::Other(why),
    }
}
