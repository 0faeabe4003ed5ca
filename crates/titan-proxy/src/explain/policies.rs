//! What the policies that a request meets make of it.

use super::Explainer;
use crate::forwarding::KnownClient;
use crate::route::Match;
use crate::upgrade::Upgrade;
use std::ops::ControlFlow;
use titan_http::{RequestHead, Status};
use titan_io::clock::Clock;
use titan_io::error::{Error, Kind};
use titan_policies::context::{
    PolicyContext, Step, Subrequest, SubrequestOutcome, Subrequests, Write,
};
use titan_policies::story::Story;

impl Explainer<'_> {
    /// The policies that the request meets, in order, and what they make of it. Breaks with a response.
    pub(super) fn policies(
        &mut self,
        found: &Match,
        head: &mut RequestHead,
        upgrade: Option<&Upgrade>,
    ) -> Result<ControlFlow<Status>, Error> {
        let Explainer { snapshot, unread, origin, is_anybody, dialect, state, page, .. } = self;
        let client = KnownClient { forwarding: &snapshot.forwarding, origin };
        let clock = Clock::new();
        let mut context = PolicyContext {
            request: head,
            findings: &mut state.findings,
            client: &client,
            found,
            is_websocket: upgrade.is_some_and(Upgrade::is_websocket),
            is_grpc: dialect.is_some(),
            worker: 0,
            clock: &clock,
            subrequests: &NoSubrequests,
            failures: None,
        };
        let mut story = Story::new(*is_anybody, unread);
        let chain = snapshot.chains.of(Some(found.route));
        let met = chain.explain(&mut context, &mut state.states, &mut story);
        page.outcome.meets(&story.met, !matches!(met, Ok(Step::Go)));
        story.lines.into_iter().for_each(|line| page.tell("policy", line));
        Ok(match met? {
            Step::Go => ControlFlow::Continue(()),
            Step::Respond(response) => ControlFlow::Break(response.head.status),
        })
    }
}

/// Explanations send no subrequests.
struct NoSubrequests;

impl Subrequests for NoSubrequests {
    fn describe(&self, _question: &mut RequestHead, _text: &mut Vec<u8>) -> Result<(), Error> {
        Ok(())
    }

    fn ask<'a>(&'a self, _: Subrequest<'a>, _: Write<'_>) -> Result<SubrequestOutcome<'a>, Error> {
        Err(Kind::NoEndpoint.into())
    }
}
