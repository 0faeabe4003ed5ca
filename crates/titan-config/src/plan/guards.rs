//! What guards the requests of a route, before and after: the policies in force, limits, and what is refused outright.

use super::compare::compare_sections;
use super::marks::{Mark, mark};
use super::requests::Moved;
use super::{Difference, Part, Weaker};
use crate::clash::implies;
use crate::gateway::Config;
use crate::listener::Listener;
use crate::policy::PolicyKind;
use crate::resolved::{Resolved, Section, Value};
use crate::route::{Action, Route};
use crate::tls::CertificateMode;

/// In what the requests are guarded less than before.
pub(super) fn less_guarded(moved: &Moved, old: &Resolved, new: &Resolved) -> Vec<Weaker> {
    let (Some(from), Some(to)) = (moved.from, moved.to) else { return Vec::new() };
    let (before, after) = (&old.config.routes[from], &new.config.routes[to]);
    let mut what = policies(before, after, old, new);
    if before.name != after.name {
        what.extend(settings(section(old, from), section(new, to)));
        what.extend(certificate(before, after));
    }
    if refuses(before) && !refuses(after) {
        what.push("requests were refused before".to_owned());
    }
    let took = match before.name == after.name {
        true => String::new(),
        false => format!(", which the route `{}` took", before.name),
    };
    let name = Some(after.name.to_string());
    let weaker = what.into_iter().map(|what| Weaker {
        part: Part { key: "routes", name: name.clone() },
        what,
        requests: Some(format!("{}{took}", moved.requests)),
    });
    weaker.collect()
}

fn policies(before: &Route, after: &Route, old: &Resolved, new: &Resolved) -> Vec<String> {
    let mut what = Vec::new();
    for kind in PolicyKind::ALL {
        let name = |config: &Config, route: &Route| {
            route.policies.of(*kind).map(|id| config.policies[id.index()].name.to_string())
        };
        let names = (name(&old.config, before), name(&new.config, after));
        let kind = kind.as_str();
        match (names, mark("policy", kind)) {
            ((Some(was), None), Mark::Need) => {
                what.push(format!("no `{kind}` applies any more; it was `{was}`"));
            }
            ((Some(was), None), _) if kind == "cors" && guards_websockets(old, &was) => {
                what.push(format!("pages of any origin can open WebSockets; `{was}` refused them"));
            }
            ((None, Some(is)), Mark::Grant) => {
                what.push(format!("the `{kind}` policy `{is}` applies, and none did before"));
            }
            ((Some(was), Some(is)), _) if was != is => {
                let between = (policy(old, &was), policy(new, &is));
                let (Some(was_like), Some(is_like)) = between else { continue };
                let differences = weaker_between("", was_like, is_like);
                what.extend(
                    differences.iter().map(|difference| {
                        format!("`{is}` applies in place of `{was}`: {difference}")
                    }),
                );
            }
            _ => {}
        }
    }
    what
}

/// The limits, timeouts and settings of paths that are in force.
fn settings(before: Option<&Section>, after: Option<&Section>) -> Vec<String> {
    let (Some(before), Some(after)) = (before, after) else { return Vec::new() };
    let mut what = Vec::new();
    for key in ["limits", "timeouts", "paths"] {
        let both = (before.value(key), after.value(key));
        let (Some(Value::Section(before)), Some(Value::Section(after))) = both else { continue };
        let differences = weaker_between(key, before, after);
        what.extend(differences.iter().map(ToString::to_string));
    }
    what
}

fn weaker_between(path: &str, old: &Section, new: &Section) -> Vec<Difference> {
    let mut found = Vec::new();
    compare_sections(path, old, new, &mut found);
    found.retain(|difference| difference.is_weaker);
    found
}

/// Whether the new route asks for as much of the client's certificate.
fn certificate(before: &Route, after: &Route) -> Option<String> {
    let is_asked = after.certificate.len() >= before.certificate.len()
        && before.certificate.iter().all(|was| {
            let mut same = after.certificate.iter().filter(|is| is.part == was.part);
            same.any(|is| implies(&is.value, &was.value))
        });
    (!is_asked).then(|| "less is asked of the client's certificate".to_owned())
}

/// Whether every request gets a response that says that it is wrong.
fn refuses(route: &Route) -> bool {
    matches!(&route.action, Action::Respond(respond) if respond.status.code() / 100 == 4)
}

fn guards_websockets(of: &Resolved, name: &str) -> bool {
    policy(of, name).and_then(|cors| cors.value("websockets")) == Some(&Value::Boolean(true))
}

/// What a policy does, without its type.
fn policy<'r>(of: &'r Resolved, name: &str) -> Option<&'r Section> {
    let (_, policy) = of.file.named("policies").find(|(other, _)| *other == name)?;
    policy.fields.first()?.value.as_section()
}

fn section(of: &Resolved, route: usize) -> Option<&Section> {
    of.file.list("routes").get(route)?.as_section()
}

/// New listeners that ask less of clients than all those before.
pub(super) fn open_listeners(old: &Config, new: &Config) -> Vec<Weaker> {
    let is_new = |listener: &&Listener| {
        !old.listeners.iter().any(|it| it.name == listener.name || it.address == listener.address)
    };
    let mut weaker = Vec::new();
    for listener in new.listeners.iter().filter(is_new) {
        let part = Part { key: "listeners", name: Some(listener.name.clone()) };
        let mut lacks = |has: fn(&Listener) -> bool, what: &str| {
            if old.listeners.iter().all(has) && !has(listener) {
                let what = what.to_owned();
                weaker.push(Weaker { part: part.clone(), what, requests: None });
            }
        };
        lacks(is_encrypted, "it has no TLS, unlike all listeners before");
        lacks(identifies, "it requires no client certificates, unlike all listeners before");
    }
    weaker
}

fn is_encrypted(listener: &Listener) -> bool {
    listener.tls.is_some() || listener.redirect_to_https.is_some()
}

fn identifies(listener: &Listener) -> bool {
    let asked = listener.tls.as_ref().and_then(|tls| tls.client_certificates.as_ref());
    asked.is_some_and(|asked| asked.mode == CertificateMode::Required)
}
