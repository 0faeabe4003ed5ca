//! The routes of a configuration in the order in which they are tried: what `titan check --list-routes` prints.

use crate::gateway::Config;
use crate::host::HostPattern;
use crate::location::Location;
use crate::path::{PathEnd, PathPattern};
use crate::route::{Action, Route};
use crate::share::Share;
use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::fmt;

/// A route under one of its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRoute {
    /// Its name.
    pub name: String,
    /// Where the file says so.
    pub location: Location,
    /// The host; `None` for any.
    pub host: Option<String>,
    /// The path or the prefix, as in the file.
    pub path: ListedPath,
    /// The methods; none for any.
    pub methods: Vec<String>,
    /// How many conditions on header fields, the query and the client's certificate there are.
    pub conditions: usize,
    /// The policies that its requests meet, by name.
    pub policies: Vec<String>,
    /// The key that says what responds: `upstream`, `redirect`, `respond` or `files`.
    pub action: &'static str,
    /// The upstream or upstreams with their weights, the status, or the directory.
    pub target: String,
}

/// The paths of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListedPath {
    /// As under `path`.
    Path(String),
    /// As under `prefix`.
    Prefix(String),
}

/// The routes as a table.
pub struct RouteTable(Vec<ListedRoute>);

impl Config {
    /// Its routes in the order in which they are tried, each once for every host that it names.
    pub fn routes_in_order(&self) -> Vec<ListedRoute> {
        let mut all: Vec<_> = self.routes.iter().flat_map(under_hosts).collect();
        // Different exact hosts never compete: those of one host stand together.
        let mut seen = HashMap::new();
        for (host, _) in &all {
            let next = seen.len();
            seen.entry(*host).or_insert(next);
        }
        all.sort_by(|(one_host, one), (other_host, other)| {
            by_host(*one_host, *other_host)
                .then(seen[one_host].cmp(&seen[other_host]))
                .then_with(|| one.path.search_order().cmp(other.path.search_order()))
                .then(rank(one).cmp(&rank(other)))
        });
        all.into_iter().map(|(host, route)| self.listed(host, route)).collect()
    }

    /// The same as text.
    pub fn route_table(&self) -> RouteTable {
        RouteTable(self.routes_in_order())
    }

    fn listed(&self, host: Option<&HostPattern>, route: &Route) -> ListedRoute {
        let (action, target) = self.action(&route.action);
        ListedRoute {
            name: route.name.to_string(),
            location: route.location,
            host: host.map(ToString::to_string),
            path: listed_path(&route.path),
            methods: route.methods.iter().map(ToString::to_string).collect(),
            conditions: conditions(route),
            policies: self.policies_of(&route.policies).map(|it| it.name.to_string()).collect(),
            action,
            target,
        }
    }

    /// The key that says what responds, and what that is.
    pub(crate) fn action(&self, action: &Action) -> (&'static str, String) {
        match action {
            Action::Redirect(redirect) => ("redirect", redirect.status.to_string()),
            Action::Respond(respond) => ("respond", respond.status.to_string()),
            Action::Files(files) => ("files", files.root.display().to_string()),
            Action::Proxy(proxy) => ("upstream", self.shares(&proxy.shares)),
        }
    }

    fn shares(&self, shares: &[Share]) -> String {
        let name = |share: &Share| self.upstream(share.upstream).name.to_string();
        match shares {
            [share] => name(share),
            shares => {
                let weighted =
                    shares.iter().map(|share| format!("{} {}", share.weight, name(share)));
                weighted.collect::<Vec<_>>().join(" : ")
            }
        }
    }
}

/// How many conditions a route has beside host, path and methods.
pub(crate) fn conditions(route: &Route) -> usize {
    // The first condition on a certificate is that there is one.
    let certificate = route.certificate.len();
    let certificate = certificate.saturating_sub(1).max(certificate.min(1));
    let listeners = usize::from(!route.listeners.is_all());
    route.headers.len() + route.query.len() + certificate + listeners
}

fn under_hosts(route: &Route) -> Vec<(Option<&HostPattern>, &Route)> {
    match route.hosts.as_slice() {
        [] => vec![(None, route)],
        hosts => hosts.iter().map(|host| (Some(host), route)).collect(),
    }
}

pub(crate) fn by_host(one: Option<&HostPattern>, other: Option<&HostPattern>) -> Ordering {
    match (one, other) {
        (Some(one), Some(other)) => one.precedence(other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// What decides between routes of one host and path; the least comes first.
pub(crate) fn rank(route: &Route) -> (Reverse<i32>, Reverse<usize>, bool) {
    let conditions = route.headers.len() + route.query.len() + route.certificate.len();
    (Reverse(route.priority), Reverse(conditions), route.methods.is_empty())
}

fn listed_path(pattern: &PathPattern) -> ListedPath {
    if pattern.end != PathEnd::Prefix {
        return ListedPath::Path(pattern.to_string());
    }
    let prefix = PathPattern { end: PathEnd::Exact, ..pattern.clone() }.to_string();
    ListedPath::Prefix(if prefix.is_empty() { "/".to_owned() } else { prefix })
}

impl fmt::Display for RouteTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const TITLES: [&str; 7] =
            ["ROUTE", "HOST", "PATH", "METHODS", "CONDITIONS", "POLICIES", "ACTION"];
        let rows: Vec<[String; 7]> =
            [TITLES.map(str::to_owned)].into_iter().chain(self.0.iter().map(row)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<_> = (0..TITLES.len()).map(|column| width(column).unwrap_or(0)).collect();
        for row in &rows {
            let padded = row.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}"));
            writeln!(f, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

fn row(route: &ListedRoute) -> [String; 7] {
    let list = |all: &[String], none: &str| match all {
        [] => none.to_owned(),
        all => all.join(","),
    };
    let path = match &route.path {
        ListedPath::Path(path) => path.clone(),
        ListedPath::Prefix(prefix) => format!("{}/…", prefix.trim_end_matches('/')),
    };
    [
        route.name.clone(),
        route.host.clone().unwrap_or_else(|| "any".to_owned()),
        path,
        list(&route.methods, "any"),
        route.conditions.to_string(),
        list(&route.policies, "-"),
        format!("{} {}", route.action, route.target),
    ]
}
