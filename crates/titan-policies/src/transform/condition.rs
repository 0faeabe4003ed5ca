//! The condition under which a request or a response is changed.

use super::Seen;
use crate::authorise::{Asked, Unmet, View};
use crate::findings::TokenClaims;
use std::net::IpAddr;
use std::rc::Rc;
use titan_config::{Rule, RulePart};
use titan_http::{BadField, FieldName, RequestHead, Status};
use titan_io::tls::Identity;

/// An expression that decides whether anything is changed.
pub(super) struct Condition(Rule);

/// What the condition of a response still needs of its request.
pub(super) enum Kept {
    /// Nothing: it does not look at the response, and is decided.
    Decided(bool),
    /// What it looks at.
    Open(Box<RequestFacts>),
}

/// What a condition looks at of a request, as it came: evaluated, a head takes many times its bytes, and a response may be
/// long in coming.
pub(super) struct RequestFacts {
    /// As much of the head as it looks at.
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
    pub(super) fn holds(&self, request: &RequestHead, seen: &Seen<'_>) -> Result<bool, Unmet> {
        match View::of(&self.0, request, asked(request, seen))?.meets(&self.0) {
            Err(unmet) if unmet.is_absence() => Ok(false),
            met => met,
        }
    }

    /// What its response needs of a request that goes on.
    pub(super) fn keep(&self, request: &RequestHead, seen: &Seen<'_>) -> Result<Kept, BadField> {
        if !self.0.reads(RulePart::Response) {
            return Ok(Kept::Decided(self.holds(request, seen) == Ok(true)));
        }
        Ok(Kept::Open(Box::new(RequestFacts {
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
    pub(super) fn holds_for(&self, kept: Option<&Kept>, status: Status) -> bool {
        let view = match kept {
            Some(Kept::Decided(holds)) => return *holds,
            Some(Kept::Open(facts)) => facts.view(&self.0),
            None => View::default(),
        };
        view.with_status(status.code()).meets(&self.0) == Ok(true)
    }

    /// What becomes of a request, in words.
    pub(super) fn explain(&self, request: &RequestHead, seen: &Seen<'_>) -> String {
        let text = self.0.text();
        match self.holds(request, seen) {
            Ok(true) => format!("changes the request: it meets {text}"),
            Ok(false) => format!("leaves the request as it is: it does not meet {text}"),
            Err(unmet) => format!("refuses the request: {text} cannot be evaluated{unmet}"),
        }
    }

    /// What becomes of its response, in words.
    pub(super) fn explain_response(&self, request: &RequestHead, seen: &Seen<'_>) -> String {
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
    /// What the rule looks at; nothing where that is more than it may be.
    fn view(&self, rule: &Rule) -> View {
        let RequestFacts { request, claims, identity, client } = self;
        let (claims, identity) = (claims.as_deref(), identity.as_deref());
        View::of(rule, request, Asked { claims, identity, client: *client }).unwrap_or_default()
    }
}

/// As much of a head as the rule looks at.
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

fn asked<'s>(request: &RequestHead, seen: &Seen<'s>) -> Asked<'s> {
    let identity = seen.client.identity().map(Rc::as_ref);
    let client = seen.client.address(&request.fields);
    Asked { claims: seen.claims.map(Rc::as_ref), identity, client }
}
