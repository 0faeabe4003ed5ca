//! A server that the gateway itself asks something: its addresses, one after the other, and the connections to them.

use crate::client::{Answer, Client, Question, Reuse};
use crate::endpoint::Endpoint;
use crate::members::Upstream;
use crate::resolve::{NameResolver, has_names};
use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::Resolver;
use titan_io::error::Error;

/// The way of one thread to a server. Its connections are those of a `LocalSet`.
pub struct Server {
    upstream: Arc<Upstream>,
    resolver: Resolver,
    client: Client,
    /// `None` where there are no names; made when it is first needed.
    names: RefCell<Option<Arc<NameResolver>>>,
    /// When they are to be resolved again.
    again: Cell<Option<Instant>>,
    /// Which of its addresses is next, if there are several.
    next: Cell<usize>,
}

impl Server {
    /// The way to the endpoint of that upstream.
    pub fn new(upstream: Arc<Upstream>, resolver: Resolver) -> Server {
        let (names, again, next) = Default::default();
        Server { upstream, resolver, client: Client::default(), names, again, next }
    }

    /// A number that differs from time to time.
    pub fn random(&self) -> u64 {
        self.client.random()
    }

    /// Asks another one of its addresses from now on.
    pub fn take_next(&self) {
        self.next.set(self.next.get().wrapping_add(1));
    }

    /// Sends a request, and waits for the response, or for the reason why none comes. The caller bounds the time.
    pub async fn ask(
        &self,
        question: &Question<'_>,
        (reuse, connect): (Reuse, Duration),
    ) -> Result<Answer, String> {
        self.client.sweep();
        let endpoint = self.endpoint().await?;
        let answer = self.client.ask(&endpoint, question, (reuse, connect)).await;
        answer.map_err(|error| reason(&endpoint, error))
    }

    /// Sends a request over a connection of its own, and shows `take` the body of a successful response as it comes, until that
    /// breaks off or the body ends ([`Client::listen`]). The caller bounds the time.
    pub async fn listen(
        &self,
        question: &Question<'_>,
        connect: Duration,
        take: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<Answer, String> {
        self.client.sweep();
        let endpoint = self.endpoint().await?;
        let answer = self.client.listen(&endpoint, question, (Reuse::Never, connect), take).await;
        answer.map_err(|error| reason(&endpoint, error))
    }

    /// How many addresses it has at the moment.
    pub fn addresses(&self) -> usize {
        self.upstream.members().endpoints.len()
    }

    /// The address that is asked next, as far as it is known.
    pub fn address(&self) -> Option<Box<str>> {
        let members = self.upstream.members();
        let index = self.next.get() % members.endpoints.len().max(1);
        members.endpoints.get(index).map(|endpoint| endpoint.host.clone())
    }

    /// The address that is next.
    async fn endpoint(&self) -> Result<Arc<Endpoint>, String> {
        let upstream = &self.upstream;
        if has_names(upstream) && self.again.get().is_none_or(|at| at <= Instant::now()) {
            let names = self.names()?;
            self.again.set(Some(names.refresh(upstream).await));
        }
        let members = upstream.members();
        let count = members.endpoints.len().max(1);
        let endpoint = members.endpoints.get(self.next.get() % count).cloned();
        endpoint.ok_or_else(|| {
            let addresses = upstream.config().endpoints.iter().map(|it| it.address.to_string());
            format!("the name of {} does not resolve", addresses.collect::<Vec<_>>().join(", "))
        })
    }

    fn names(&self) -> Result<Arc<NameResolver>, String> {
        let mut names = self.names.borrow_mut();
        if let Some(names) = &*names {
            return Ok(Arc::clone(names));
        }
        let made = NameResolver::new(&self.resolver).map_err(|error| error.to_string())?;
        Ok(Arc::clone(names.insert(Arc::new(made))))
    }
}

/// Why it could not be asked.
fn reason(endpoint: &Endpoint, error: Error) -> String {
    endpoint.take_reason(error.kind).unwrap_or_else(|| error.to_string())
}
