//! What policies need of one another.

use super::{Credential, Policies, Policy, PolicyId, PolicyKind};
use crate::diagnostic::Diagnostic;
use crate::location::Span;
use crate::read::Reading;
use crate::readers::Named;
use crate::token::Name;
use std::collections::BTreeSet;

type Declared = [Named<Name, Option<Policy>>];

/// Checks that a route whose authorisation uses tokens verifies them.
pub(crate) fn check_tokens(place: Span, in_force: &Policies, all: &Declared, to: &mut Reading<'_>) {
    let Some(authorise) = in_force.authorise.map(|id| &all[id.index()]) else { return };
    let Named { key, key_span, value: Some(Policy::Authorise(policy)) } = authorise else { return };
    if policy.needs_token() && in_force.jwt.is_none() {
        let message =
            format!("the authorisation policy `{key}` needs tokens, but no policy checks them");
        let error = Diagnostic::error(place, message).label("no `jwt` policy applies here");
        let error = error.also(*key_span, "it checks claims of tokens");
        to.add(error.help("apply one to this route, or remove the authorisation with `without`"));
    }
}

/// Whether a route that lets requests without a token pass does not refuse all of them for what tokens have to grant.
pub(crate) fn check_optional_tokens(
    place: Span,
    in_force: &Policies,
    all: &Declared,
    to: &mut Reading<'_>,
) {
    let declared = |id: PolicyId| &all[id.index()];
    let (Some(jwt), Some(authorise)) =
        (in_force.jwt.map(declared), in_force.authorise.map(declared))
    else {
        return;
    };
    let (Some(Policy::Jwt(tokens)), Some(Policy::Authorise(asks))) = (&jwt.value, &authorise.value)
    else {
        return;
    };
    if tokens.required && asks.is_choice(Credential::Token) {
        let message = "a request without a token is refused before the alternatives are checked";
        let error = Diagnostic::error(place, message).label("`any_of` has no effect here");
        let error = error.also(jwt.key_span, "it requires a token");
        let error = error.also(authorise.key_span, "it accepts something else instead of a token");
        to.add(error.help("set `required: false` in the `jwt` policy"));
    }
    if !tokens.required && asks.refuses_without_token() {
        let error =
            Diagnostic::error(place, "this policy needs a token, but the token is optional");
        let error = error.label("no request without a token would pass");
        let error = error.also(jwt.key_span, "it has `required: false`");
        let error = error.also(authorise.key_span, "it checks what tokens grant");
        to.add(error.help(
            "apply a `jwt` policy that requires tokens, or test claims in `rules` with `has`",
        ));
    }
    if !tokens.required
        && let Some(rule) = asks.rule_that_only_denies()
    {
        let message = "requests without a token pass rules that refuse some tokens";
        let warning = Diagnostic::warning(place, message);
        let warning = warning.label(format!("`{}` is true without a token", rule.text()));
        let warning = warning.also(jwt.key_span, "it has `required: false`");
        let warning = warning.also(authorise.key_span, "it refuses by claims only");
        to.add(warning.help(
            "to refuse them, add the rule `size(claims) > 0`; to allow them, begin this rule \
                with `size(claims) == 0 ||`",
        ));
    }
}

/// Whether a route that asks for a token and for something else of the client's leaves a place for each: a request with
/// two of `Authorization` shows neither.
pub(crate) fn check_credentials(
    place: Span,
    in_force: &Policies,
    all: &Declared,
    to: &mut Reading<'_>,
) {
    let declared = |id: PolicyId| &all[id.index()];
    let (Some(jwt), Some(authorise)) =
        (in_force.jwt.map(declared), in_force.authorise.map(declared))
    else {
        return;
    };
    let (Some(Policy::Jwt(tokens)), Some(Policy::Authorise(asks))) = (&jwt.value, &authorise.value)
    else {
        return;
    };
    if let Some(what) = asks.required_in_authorization().filter(|_| tokens.takes_authorization()) {
        let message = format!("no request could send both a token and {what}");
        let error = Diagnostic::error(place, message);
        let error = error.label("both use `Authorization` here");
        let error = error.also(jwt.key_span, "it requires a token");
        let error = error.also(authorise.key_span, format!("it requires {what}"));
        let help = match tokens.forward {
            true => "remove one of the two with `without`; `forward` sends the token there",
            false => "remove one of the two with `without`, or read tokens from a `cookie`",
        };
        to.add(error.help(help));
    }
}

/// Checks that some listener requests the client certificates that a route checks.
pub(crate) fn check_certificates(
    place: Span,
    in_force: &Policies,
    all: &Declared,
    to: &mut Reading<'_>,
) {
    let Some(authorise) = in_force.authorise.map(|id| &all[id.index()]) else { return };
    let Named { key, key_span, value: Some(Policy::Authorise(policy)) } = authorise else { return };
    if policy.needs_certificate() {
        let error = Diagnostic::error(place, "no listener requests client certificates");
        let error = error.label(format!("the authorisation policy `{key}` checks them"));
        let error = error.also(*key_span, "it is declared here");
        to.add(error.help("set `tls: { client_certificates: { ca: ... } }` on a listener"));
    }
}

/// Whether the fields that keys come in are left to clients: what they send in those that tell upstreams of them is
/// removed before any policy looks. Policies that a source has delivered and that no route meets do nothing.
pub(crate) fn check_key_fields(
    all: &Declared,
    in_force: &[Option<Policies>],
    to: &mut Reading<'_>,
) {
    let met = in_force.iter().flatten();
    let met = met.flat_map(|it| PolicyKind::ALL.iter().filter_map(|kind| it.of(*kind)));
    let met: BTreeSet<usize> = met.map(PolicyId::index).collect();
    let sources = to.sources();
    let counts = |(place, named): &(usize, &Named<Name, Option<Policy>>)| {
        met.contains(place) || !sources.with(named.key_span).is_delivered()
    };
    let met: Vec<_> = all.iter().enumerate().filter(counts).map(|(_, named)| named).collect();
    for Named { key_span, value, .. } in &met {
        let Some(Policy::Authorise(it)) = value else { continue };
        let Some(keys) = &it.api_keys else { continue };
        let tells = |policy: &Policy| {
            let told = policy.identity_fields();
            told.iter().any(|it| it.is_alike(&keys.header))
        };
        let teller = met.iter().find(|it| it.value.as_ref().is_some_and(tells));
        if let Some(teller) = teller {
            let message = format!("no API key could arrive in `{}`", keys.header.as_str());
            let error = Diagnostic::error(*key_span, message);
            let error = error.label("the gateway removes this header from clients' requests");
            let label = "this policy uses the header to identify clients to upstreams";
            to.add(error.also(teller.key_span, label).help("use another header for one of them"));
        }
    }
}
