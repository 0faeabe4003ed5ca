//! What guards the requests of a route, before and after: the policies in force, limits, what is refused outright, and the
//! way to what responds.

use super::compare::weaker_between;
use super::marks::{Mark, mark};
use super::requests::Moved;
use super::{Difference, Part, Weaker};
use crate::clash::implies;
use crate::gateway::Config;
use crate::policy::{Policies, PolicyKind};
use crate::resolved::{Resolved, Section, Value};
use crate::route::{Action, Proxy, Route};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// What guards requests in two configurations.
pub(super) struct Guards<'r> {
    old: Side<'r>,
    new: Side<'r>,
    /// What is weaker in a policy, or an upstream, that is in the place of another: most routes share them.
    replaced: HashMap<Replaced<'r>, Rc<[Difference]>>,
}

/// The key of the file, and the name of what was there and of what is.
type Replaced<'r> = (&'static str, Option<&'r str>, Option<&'r str>);

/// One of the two.
struct Side<'r> {
    config: &'r Config,
    routes: &'r [Value],
    named: HashMap<(&'static str, &'r str), &'r Section>,
}

impl<'r> Side<'r> {
    fn new(of: &'r Resolved) -> Side<'r> {
        let named = ["policies", "upstreams"]
            .into_iter()
            .flat_map(|key| of.file.named(key).map(move |(name, section)| ((key, name), section)));
        Side { config: &of.config, routes: of.file.list("routes"), named: named.collect() }
    }

    fn policy(&self, policies: &Policies, kind: PolicyKind) -> Option<&'r str> {
        let id = policies.of(kind)?;
        Some(self.config.policies[id.index()].name.as_str())
    }

    /// What a policy does, without its type, or what an upstream is.
    fn section(&self, key: &'static str, name: &'r str) -> Option<&'r Section> {
        let section = *self.named.get(&(key, name))?;
        match key {
            "policies" => section.fields.first()?.value.as_section(),
            _ => Some(section),
        }
    }

    fn route(&self, index: usize) -> Option<&'r Section> {
        self.routes.get(index)?.as_section()
    }

    /// The names of upstreams with their weights, and the sum of these.
    fn shares(&self, proxy: &Proxy) -> (HashMap<&'r str, u64>, u64) {
        let name = |it| self.config.upstream(it).name.as_str();
        let mut shares = HashMap::new();
        for share in &proxy.shares {
            *shares.entry(name(share.upstream)).or_default() += u64::from(share.weight.get());
        }
        let sum = shares.values().sum();
        (shares, sum)
    }
}

impl<'r> Guards<'r> {
    pub(super) fn new(old: &'r Resolved, new: &'r Resolved) -> Guards<'r> {
        Guards { old: Side::new(old), new: Side::new(new), replaced: HashMap::new() }
    }

    /// In what the requests are guarded less than before.
    pub(super) fn less(&mut self, moved: &Moved) -> Vec<Weaker> {
        let (from, to) = match (moved.from, moved.to) {
            (Some(from), Some(to)) => (from, to),
            (None, Some(to)) => return self.left_out(moved, to),
            _ => return Vec::new(),
        };
        let (before, after) = (&self.old.config.routes[from], &self.new.config.routes[to]);
        let mut what = self.policies(&before.policies, &after.policies);
        what.extend(self.action(before, after));
        if before.name != after.name {
            what.extend(settings((before, self.old.route(from)), (after, self.new.route(to))));
            what.extend(certificate(before, after));
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

    /// What the file applied to all routes, and a route for requests that none took before leaves out.
    fn left_out(&mut self, moved: &Moved, to: usize) -> Vec<Weaker> {
        let after = &self.new.config.routes[to];
        let what = self.policies(&self.old.config.everywhere, &after.policies).into_iter();
        let weaker = what.map(|what| Weaker {
            part: Part { key: "routes", name: Some(after.name.to_string()) },
            what,
            requests: Some(format!("{}, which no route took", moved.requests)),
        });
        weaker.collect()
    }

    fn policies(&mut self, before: &Policies, after: &Policies) -> Vec<String> {
        let mut what = Vec::new();
        for kind in PolicyKind::ALL {
            let names = (self.old.policy(before, *kind), self.new.policy(after, *kind));
            let kind = kind.as_str();
            match (names, mark("policy", kind)) {
                ((Some(was), None), Mark::Need) if self.is_in_force(was) => {
                    what.push(format!("no `{kind}` applies any more; it was `{was}`"));
                }
                ((Some(was), None), _) if kind == "cors" && self.guards_websockets(was) => {
                    what.push(format!(
                        "pages of any origin can open WebSockets; `{was}` refused them"
                    ));
                }
                ((None, Some(is)), Mark::Grant) => {
                    what.push(format!("the `{kind}` policy `{is}` applies, and none did before"));
                }
                ((Some(was), None), Mark::Inside) => {
                    let differences = self.replaced("policies", Some(was), None);
                    // Without compression there is nothing left that responses could reveal.
                    let matters = |it: &&Difference| kind != "compress" || it.field == "requests";
                    let differences = differences.iter().filter(matters);
                    what.extend(differences.map(|it| format!("`{was}` applies no more: {it}")));
                }
                ((None, Some(is)), Mark::Inside) => {
                    let differences = self.replaced("policies", None, Some(is));
                    what.extend(differences.iter().map(|it| format!("`{is}` applies: {it}")));
                }
                ((Some(was), Some(is)), _) if was != is => {
                    let differences = self.replaced("policies", Some(was), Some(is));
                    what.extend(differences.iter().map(|difference| {
                        format!("`{is}` applies in place of `{was}`: {difference}")
                    }));
                }
                _ => {}
            }
        }
        what
    }

    /// Whether a policy did something.
    fn is_in_force(&self, policy: &'r str) -> bool {
        let section = self.old.section("policies", policy);
        section.and_then(|policy| policy.value("enabled")) != Some(&Value::Boolean(false))
    }

    fn guards_websockets(&self, cors: &'r str) -> bool {
        let section = self.old.section("policies", cors);
        section.and_then(|cors| cors.value("websockets")) == Some(&Value::Boolean(true))
    }

    /// What is weaker in what is now in the place of something else, or of nothing, or nothing in its place.
    fn replaced(
        &mut self,
        key: &'static str,
        was: Option<&'r str>,
        is: Option<&'r str>,
    ) -> Rc<[Difference]> {
        let before = was.and_then(|name| self.old.section(key, name));
        let after = is.and_then(|name| self.new.section(key, name));
        let found = self.replaced.entry((key, was, is)).or_insert_with(|| {
            let other = before.or(after).and_then(|section| Section::of_defaults(section.name));
            match (before.or(other.as_ref()), after.or(other.as_ref())) {
                (Some(before), Some(after)) => weaker_between("", before, after).into(),
                _ => Rc::new([]),
            }
        });
        Rc::clone(found)
    }

    /// Whether requests get further than before, or on a way that is guarded less.
    fn action(&mut self, before: &Route, after: &Route) -> Vec<String> {
        let what = match (&before.action, &after.action) {
            (Action::Proxy(before), Action::Proxy(after)) => return self.upstreams(before, after),
            (Action::Proxy(_), Action::Files(_)) => {
                "an upstream responded before, and files are served now"
            }
            (Action::Files(_), Action::Proxy(_)) => {
                "files were served before, and an upstream responds now"
            }
            (was, is) if reach(is) <= reach(was) => return Vec::new(),
            (Action::Redirect(_), _) => "requests were redirected before",
            (was, _) if reach(was) == Reach::Refused => "requests were refused before",
            _ => "the gateway itself responded before",
        };
        vec![what.to_owned()]
    }

    /// Of the upstreams with a larger share than before each has requests of all that have a smaller one.
    fn upstreams(&mut self, before: &Proxy, after: &Proxy) -> Vec<String> {
        let ((were, sum_before), (are, sum_after)) =
            (self.old.shares(before), self.new.shares(after));
        let share = |shares: &HashMap<&str, u64>, name| shares.get(name).copied().unwrap_or(0);
        let growth = |name| (share(&were, name) * sum_after).cmp(&(share(&are, name) * sum_before));
        let mut losing: Vec<_> =
            were.keys().filter(|name| growth(*name).is_gt()).copied().collect();
        let mut gaining: Vec<_> =
            are.keys().filter(|name| growth(*name).is_lt()).copied().collect();
        losing.sort_unstable();
        gaining.sort_unstable();
        let mut what = Vec::new();
        for is in gaining {
            for was in &losing {
                let differences = self.replaced("upstreams", Some(was), Some(is));
                what.extend(differences.iter().map(|difference| {
                    format!("`{is}` gets requests in place of `{was}`: {difference}")
                }));
            }
        }
        what
    }
}

/// How far requests get.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// They all fail.
    Refused,
    /// To a response that the configuration has.
    Configured,
    /// To something that the gateway is in front of.
    Served,
}

fn reach(action: &Action) -> Reach {
    match action {
        Action::Respond(respond) if respond.status.code() >= 400 => Reach::Refused,
        Action::Respond(_) | Action::Redirect(_) => Reach::Configured,
        Action::Proxy(_) | Action::Files(_) => Reach::Served,
    }
}

/// What is weaker in the settings of a route that has another name. Of one that keeps its name the sections are compared.
fn settings(
    (before, old): (&Route, Option<&Section>),
    (after, new): (&Route, Option<&Section>),
) -> Vec<String> {
    let (Some(old), Some(new)) = (old, new) else { return Vec::new() };
    let mut keys = vec![
        "limits",
        "timeouts",
        "paths",
        "files",
        "respond",
        "upgrades",
        "grpc_web",
        "record_bodies",
    ];
    // Between routes for other paths these say nothing of how the requests of both get on.
    if before.path == after.path {
        keys.extend(["rewrite", "send_host"]);
    }
    let only = |section: &Section| Section {
        name: section.name,
        fields: section.fields.iter().filter(|it| keys.contains(&it.key)).cloned().collect(),
    };
    weaker_between("", &only(old), &only(new)).iter().map(ToString::to_string).collect()
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

/// Fields that only the gateway could write before, on all routes, and that clients can write themselves now.
pub(super) fn opened_fields(old: &Config, new: &Config) -> Vec<Weaker> {
    let fields = |config: &'_ Config| -> BTreeMap<String, String> {
        let names = config.identity_fields();
        names.map(|name| (name.as_str().to_ascii_lowercase(), name.as_str().to_owned())).collect()
    };
    let now = fields(new);
    let opened = fields(old).into_iter().filter(|(folded, _)| !now.contains_key(folded));
    let weaker = opened.map(|(_, name)| Weaker {
        part: Part { key: "policies", name: None },
        what: format!("clients can send {name} themselves: only the gateway could before"),
        requests: None,
    });
    weaker.collect()
}
