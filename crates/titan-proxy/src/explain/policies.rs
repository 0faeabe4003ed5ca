//! What the policies that a request meets make of it.

use super::{Explanation, SOMEBODY, Stop, Tale, words};
use crate::forwarding::KnownClient;
use crate::route::Match;
use crate::upgrade::Upgrade;
use serde_json::{Map, Value};
use std::ops::ControlFlow;
use std::rc::Rc;
use titan_config::PolicyKind;
use titan_http::{RequestHead, Status};
use titan_io::error::Kind;
use titan_policies::authorise::Asked;
use titan_policies::explained::{Asker, Explained};
use titan_policies::transform::Seen;

impl Tale<'_> {
    /// The policies that the request meets, in order, and what they make of it. Breaks with a response.
    pub(super) fn policies(
        &mut self,
        found: &Match,
        head: &mut RequestHead,
        upgrade: Option<&Upgrade>,
    ) -> Result<ControlFlow<Status>, Stop> {
        let known_client = self.known_client(head);
        let Tale { config, snapshot, unread, identity, origin, is_anybody, note, page, .. } = self;
        let forwarding = &snapshot.forwarding;
        let client = KnownClient { forwarding, origin };
        let is_websocket = upgrade.is_some_and(Upgrade::is_websocket);
        let chain = snapshot.chains.of(Some(found.route));
        let mut claims: Option<Rc<Map<String, Value>>> = None;
        let mut api_key: Option<String> = None;
        let asked = head.path().to_vec();
        for kind in PolicyKind::ALL {
            let Some(id) = config.routes[found.route].policies.of(*kind) else { continue };
            page.tell("policy", format!("{}: {}", kind.as_str(), config.policies[id.index()].name));
            let (claims_said, key_shown) = (claims.as_deref(), api_key.as_deref());
            let asker = Asker { client: known_client, claims: claims_said, api_key: key_shown };
            let decision = chain.explain(*kind, head, &asked, found.route, asker);
            if let Some(decision) = decision {
                page.tell("policy", format!("  {decision}"));
            }
            match kind {
                PolicyKind::Cors if is_websocket && chain.refuses_handshake(head, &client) => {
                    return Err(Kind::OriginRefused.into());
                }
                PolicyKind::Cors => match chain.grants_preflight(head) {
                    Some(true) => return Ok(ControlFlow::Break(Status::NO_CONTENT)),
                    Some(false) => return Err(Kind::CorsRefused.into()),
                    None => {}
                },
                PolicyKind::Jwt => {
                    let (told, said) = chain.explain_token(head, unread[id.index()].as_deref())?;
                    tell_all(page, told)?;
                    claims = said;
                }
                PolicyKind::Authorise => {
                    let client = forwarding.client(origin, &head.fields);
                    let identity = identity.as_ref();
                    let asked = Asked { claims: claims.as_deref(), identity, client };
                    let mut told = chain.explain_authorisation(head, asked, *is_anybody)?;
                    api_key = told.api_key.take();
                    let forgets_token = told.forgets_token;
                    tell_all(page, told)?;
                    claims = claims.filter(|_| !forgets_token);
                }
                PolicyKind::EarlyLimit
                | PolicyKind::FailureLimit
                | PolicyKind::RateLimit
                | PolicyKind::Compress => {}
                PolicyKind::Transform => {
                    let before = head.clone();
                    let claims = claims.as_ref();
                    let seen = Seen { client: &client, found, claims };
                    let told = chain.explain_conditions(head, &seen);
                    told.into_iter().for_each(|it| page.tell("policy", format!("  {it}")));
                    *note = chain.transform(head, &seen)?;
                    let changes = words::changes(&before, head);
                    let stand_in = SOMEBODY.to_string();
                    let is_shown = changes.iter().any(|change| change.contains(&stand_in));
                    changes.into_iter().for_each(|it| page.tell("policy", format!("  {it}")));
                    if *is_anybody && is_shown {
                        let note = format!("  ({stand_in} stands for the client's address)");
                        page.tell("policy", note);
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Tells what a policy decides, and stops where it refuses the request.
fn tell_all(page: &mut Explanation, told: Explained) -> Result<(), Stop> {
    told.lines.into_iter().for_each(|it| page.tell("policy", format!("  {it}")));
    told.refused.map_or(Ok(()), |kind| Err(Stop::from(kind)))
}
