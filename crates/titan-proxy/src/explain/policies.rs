//! What the policies that a request meets make of it.

use super::{Stop, Tale};
use crate::forwarding::KnownClient;
use crate::route::Match;
use crate::upgrade::Upgrade;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::rc::Rc;
use titan_http::{Fields, RequestHead, Scheme, Status};
use titan_io::clock::Clock;
use titan_io::error::{Error, Kind};
use titan_io::tls::Identity;
use titan_policies::context::{
    Answered, Client, PolicyContext, Step, Subrequest, Subrequests, Write,
};
use titan_policies::story::Story;

impl Tale<'_> {
    /// The policies that the request meets, in order, and what they make of it. Breaks with a response.
    pub(super) fn policies(
        &mut self,
        found: &Match,
        head: &mut RequestHead,
        upgrade: Option<&Upgrade>,
    ) -> Result<ControlFlow<Status>, Stop> {
        let Tale { snapshot, unread, identity, origin, is_anybody, dialect, state, page, .. } =
            self;
        let known = KnownClient { forwarding: &snapshot.forwarding, origin };
        let clock = Clock::new();
        let mut context = PolicyContext {
            request: head,
            findings: &mut state.findings,
            client: &Asking { known, identity: identity.as_ref() },
            found,
            is_websocket: upgrade.is_some_and(Upgrade::is_websocket),
            is_grpc: dialect.is_some(),
            worker: 0,
            clock: &clock,
            subrequests: &Nobody,
            failures: None,
        };
        let mut story = Story::new(*is_anybody, unread);
        let chain = snapshot.chains.of(Some(found.route));
        let met = chain.explain(&mut context, &mut state.states, &mut story);
        story.lines.into_iter().for_each(|line| page.tell("policy", line));
        Ok(match met? {
            Step::Go => ControlFlow::Continue(()),
            Step::Respond(response) => ControlFlow::Break(response.head.status),
        })
    }
}

/// The client that would ask, with the certificate that it would present.
struct Asking<'a> {
    known: KnownClient<'a>,
    identity: Option<&'a Rc<Identity>>,
}

impl Client for Asking<'_> {
    fn address(&self, fields: &Fields) -> Option<IpAddr> {
        self.known.address(fields)
    }

    fn scheme(&self) -> Scheme {
        self.known.scheme()
    }

    fn identity(&self) -> Option<&Rc<Identity>> {
        self.identity
    }

    fn request_id<'f>(&self, fields: &'f Fields) -> Option<&'f [u8]> {
        self.known.request_id(fields)
    }

    fn is_same_origin(&self, page: &[u8], request: &RequestHead) -> bool {
        self.known.is_same_origin(page, request)
    }
}

/// Nobody is asked about a request that nobody has made.
struct Nobody;

impl Subrequests for Nobody {
    fn describe(&self, _question: &mut RequestHead, _text: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn ask<'a>(&'a self, _: Subrequest<'a>, _: Write<'_>) -> Result<Answered<'a>, Error> {
        Err(Kind::NoEndpoint.into())
    }
}
