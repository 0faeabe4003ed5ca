//! The condition under which a request or a response is changed.

use super::RequestParts;
use crate::authorise::{RuleSubject, Unmet, View};
use crate::findings::TokenClaims;
use std::net::IpAddr;
use std::rc::Rc;
use titan_config::{Rule, RulePart};
use titan_http::{BadField, FieldName, RequestHead, Status};
use titan_io::tls::Identity;

/// An expression that decides whether a transform applies.
pub(super) struct Condition(Rule);

/// The condition of a response, as far as its request decides it.
pub(super) enum PendingCondition {
    /// Decided: it does not depend on the response.
    Decided(bool),
    /// It depends on the response too: the facts of the request that it uses.
    Open(Box<RequestFacts>),
}

/// The parts of a request that a condition uses, as received: evaluated, a head takes many times its bytes, and a
/// response may take long.
pub(super) struct RequestFacts {
    /// As much of the head as it uses.
    request: RequestHead,
    claims: Option<Rc<TokenClaims>>,
    identity: Option<Rc<Identity>>,
    client: Option<IpAddr>,
}

impl Condition {
    pub(super) fn new(rule: &Rule) -> Condition {
        Condition(rule.clone())
    }

    /// Whether a request is to be changed: not, where what is looked at is not there. Otherwise an error is one: clients
    /// can provoke some, and none may pass what a transform would have taken out.
    pub(super) fn holds(
        &self,
        request: &RequestHead,
        seen: &RequestParts<'_>,
    ) -> Result<bool, Unmet> {
        match View::of(&self.0, request, asked(request, seen))?.meets(&self.0) {
            Err(unmet) if unmet.is_absence() => Ok(false),
            met => met,
        }
    }

    /// What the response's condition needs of a request that proceeds.
    pub(super) fn keep(
        &self,
        request: &RequestHead,
        seen: &RequestParts<'_>,
    ) -> Result<PendingCondition, BadField> {
        if !self.0.reads(RulePart::Response) {
            return Ok(PendingCondition::Decided(self.holds(request, seen) == Ok(true)));
        }
        Ok(PendingCondition::Open(Box::new(RequestFacts {
            request: excerpt(&self.0, request)?,
            claims: seen.claims.filter(|_| self.0.reads(RulePart::Claims)).cloned(),
            identity: seen
                .client
                .identity()
                .filter(|_| self.0.reads(RulePart::Certificate))
                .cloned(),
            client: seen.client.address(&request.fields),
        })))
    }

    /// Whether a response with that status is to be changed. Without what was kept of its request, nothing is known of that.
    pub(super) fn holds_for(&self, kept: Option<&PendingCondition>, status: Status) -> bool {
        let view = match kept {
            Some(PendingCondition::Decided(holds)) => return *holds,
            Some(PendingCondition::Open(facts)) => facts.view(&self.0),
            None => View::default(),
        };
        view.with_status(status.code()).meets(&self.0) == Ok(true)
    }

    /// What happens to a request, in words.
    pub(super) fn explain(&self, request: &RequestHead, seen: &RequestParts<'_>) -> String {
        let text = self.0.text();
        match self.holds(request, seen) {
            Ok(true) => format!("changes the request: it meets {text}"),
            Ok(false) => format!("leaves the request as it is: it does not meet {text}"),
            Err(unmet) => format!("refuses the request: {text} cannot be evaluated{unmet}"),
        }
    }

    /// What happens to its response, in words.
    pub(super) fn explain_response(
        &self,
        request: &RequestHead,
        seen: &RequestParts<'_>,
    ) -> String {
        let text = self.0.text();
        if self.0.reads(RulePart::Response) {
            return format!("changes the response if it meets {text}");
        }
        match self.holds(request, seen) {
            Ok(true) => format!("changes the response: the request meets {text}"),
            Ok(false) | Err(_) => {
                format!("leaves the response as it is: the request does not meet {text}")
            }
        }
    }
}

impl RequestFacts {
    /// What the rule uses; nothing if that is more than it may be.
    fn view(&self, rule: &Rule) -> View {
        let RequestFacts { request, claims, identity, client } = self;
        let (claims, identity) = (claims.as_deref(), identity.as_deref());
        View::of(rule, request, RuleSubject { claims, identity, client: *client })
            .unwrap_or_default()
    }
}

/// As much of a head as the rule uses.
fn excerpt(rule: &Rule, request: &RequestHead) -> Result<RequestHead, BadField> {
    if rule.reads(RulePart::Headers) {
        return Ok(request.clone());
    }
    let mut excerpt = RequestHead { method: request.method, ..RequestHead::default() };
    if rule.reads(RulePart::Path) {
        excerpt.set_path(request.path())?;
    }
    if rule.reads(RulePart::Query) {
        excerpt.set_query(request.query())?;
    }
    if let Some(authority) = request.authority().filter(|_| rule.reads(RulePart::Host)) {
        excerpt.fields.append(FieldName::Host, authority)?;
    }
    Ok(excerpt)
}

fn asked<'s>(request: &RequestHead, seen: &RequestParts<'s>) -> RuleSubject<'s> {
    let identity = seen.client.identity().map(Rc::as_ref);
    let client = seen.client.address(&request.fields);
    RuleSubject { claims: seen.claims.map(Rc::as_ref), identity, client }
}
