//! What has to be true of a request or a response for it to be changed.

use super::Seen;
use crate::authorise::{Asked, View};
use titan_config::{Rule, RulePart};
use titan_http::{RequestHead, Status};

/// An expression that decides whether anything is changed. One that cannot be evaluated is not met.
pub(super) struct Condition(Rule);

/// What the condition of a response looks at of its request.
pub(super) struct RequestFacts(View);

impl Condition {
    pub(super) fn new(rule: &Rule) -> Condition {
        Condition(rule.clone())
    }

    /// Whether a request is to be changed.
    pub(super) fn holds(&self, request: &RequestHead, seen: &Seen<'_>) -> bool {
        let view = View::of(&self.0, request, asked(request, seen));
        view.is_ok_and(|view| view.meets(&self.0) == Ok(true))
    }

    /// What its response needs of a request that goes on.
    pub(super) fn keep(&self, request: &RequestHead, seen: &Seen<'_>) -> Option<Box<RequestFacts>> {
        let view = View::of(&self.0, request, asked(request, seen)).ok()?;
        Some(Box::new(RequestFacts(view)))
    }

    /// Whether a response with that status is to be changed. Without what was kept of its request, nothing is known of that.
    pub(super) fn holds_for(&self, kept: Option<&RequestFacts>, status: Status) -> bool {
        let unknown = View::default();
        let view = kept.map_or(&unknown, |RequestFacts(view)| view);
        view.meets_with_status(&self.0, status.code()) == Ok(true)
    }

    /// What becomes of a request, in words.
    pub(super) fn explain(&self, request: &RequestHead, seen: &Seen<'_>) -> String {
        let text = self.0.text();
        match self.holds(request, seen) {
            true => format!("changes the request: it meets {text}"),
            false => format!("leaves the request as it is: it does not meet {text}"),
        }
    }

    /// What becomes of its response, in words.
    pub(super) fn explain_response(&self, request: &RequestHead, seen: &Seen<'_>) -> String {
        let text = self.0.text();
        if self.0.reads(RulePart::Response) {
            return format!("changes the response if it meets {text}");
        }
        match self.holds(request, seen) {
            true => format!("changes the response: the request meets {text}"),
            false => format!("leaves the response as it is: the request does not meet {text}"),
        }
    }
}

fn asked<'s>(request: &RequestHead, seen: &Seen<'s>) -> Asked<'s> {
    let identity = seen.client.identity();
    let client = seen.client.address(&request.fields);
    Asked { claims: seen.claims, identity, client }
}
