//! The summary of a configuration in a few lines, which `titan check` prints for a valid file.

use crate::admin::{Admin, AdminSocket};
use crate::gateway::{Config, Threads};
use crate::listener::Listener;
use crate::listing::conditions;
use crate::path::PathPattern;
use crate::route::Route;
use crate::upstream::Upstream;
use std::fmt::Write;

/// Lines of a list that are shown.
const SHOWN: usize = 20;

impl Config {
    /// What it comes to: listeners, routes in order of precedence, upstreams.
    pub fn summary(&self) -> String {
        let mut out = String::new();
        let threads = match self.workers.threads {
            Threads::Auto => "one for each core".to_owned(),
            Threads::Exactly(threads) => threads.to_string(),
        };
        let pinned = if self.workers.pin { ", pinned" } else { "" };
        let admin = match &self.admin {
            None => "off".to_owned(),
            Some(Admin {
                address,
                socket,
                probes,
                tokens: _,
                tls,
                metrics_series: _,
                dashboard: _,
                trace_url: _,
                location: _,
            }) => {
                let tls = if tls.is_some() { ", TLS" } else { "" };
                let probes =
                    probes.iter().map(|it| format!(", probes on {it}")).collect::<String>();
                match socket {
                    AdminSocket::At(path) => format!("{address}{tls}, {}{probes}", path.display()),
                    AdminSocket::Auto | AdminSocket::Off => format!("{address}{tls}{probes}"),
                }
            }
        };
        let lines = [("workers", format!("{threads}{pinned}")), ("admin", admin)];
        lines.iter().for_each(|(title, text)| line(&mut out, title, text));
        list(&mut out, "listeners", self.listeners.iter().map(listener));
        let mut routes: Vec<&Route> = self.routes.iter().collect();
        routes.sort_by(|ours, theirs| ours.path.precedence(&theirs.path));
        list(&mut out, "routes", routes.into_iter().map(|route| self.route(route)));
        list(&mut out, "upstreams", self.upstreams.iter().map(upstream));
        out
    }

    fn route(&self, route: &Route) -> String {
        let Route {
            name,
            hosts,
            path,
            methods,
            head: _,
            headers: _,
            query: _,
            certificate: _,
            listeners: _,
            priority: _,
            importance: _,
            trace_share: _,
            record_bodies: _,
            policies,
            paths: _,
            action,
            error_pages: _,
            location: _,
        } = route;
        let mut text = format!("{name}: ");
        if !methods.is_empty() {
            let methods: Vec<_> = methods.iter().map(titan_http::Method::as_str).collect();
            write!(text, "{} ", methods.join("|")).expect("a String takes everything");
        }
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        text.push_str(&hosts.join("|"));
        match *path == PathPattern::EVERY {
            true => text.push_str("/…"),
            false => text.push_str(&path.to_string()),
        }
        match conditions(route) {
            0 => {}
            1 => text.push_str(" with 1 condition"),
            n => write!(text, " with {n} conditions").expect("a String takes everything"),
        }
        let in_force: Vec<_> = self.policies_of(policies).map(|it| it.name.as_str()).collect();
        if !in_force.is_empty() {
            write!(text, " under {}", in_force.join(", ")).expect("a String takes everything");
        }
        match self.action(action) {
            ("upstream", upstream) => format!("{text} -> {upstream}"),
            (key, target) => format!("{text} -> {key} {target}"),
        }
    }
}

fn listener(listener: &Listener) -> String {
    let address = listener.address.to_string();
    let tls = match (&listener.tls, listener.redirect_to_https) {
        (Some(tls), _) if tls.client_certificates.is_some() => ", TLS with client certificates",
        (Some(_), _) => ", TLS",
        (None, Some(_)) => ", redirects to HTTPS",
        (None, None) => "",
    };
    let routes = match listener.tls_routes.len() {
        0 => String::new(),
        1 if listener.tls_routes[0].is_tcp() => ", TCP".to_owned(),
        1 => ", 1 TLS route".to_owned(),
        count => format!(", {count} TLS routes"),
    };
    let over = listener.over_udp();
    match listener.name == address {
        true => format!("{address}{tls}{over}{routes}"),
        false => format!("{}: {address}{tls}{over}{routes}", listener.name),
    }
}

fn upstream(upstream: &Upstream) -> String {
    let addresses = upstream.endpoints.iter().take(3).map(|endpoint| endpoint.address.to_string());
    let addresses: Vec<_> = addresses.collect();
    let more = match upstream.endpoints.len() - addresses.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let tls = match &upstream.tls {
        None => "",
        Some(tls) if tls.verify => ", TLS",
        Some(_) => ", TLS without verification",
    };
    let protocol = upstream.protocol.in_words(upstream.tls.is_some());
    format!("{}: {}{more}{tls}{protocol}", upstream.name, addresses.join(", "))
}

fn list(out: &mut String, title: &str, lines: impl ExactSizeIterator<Item = String>) {
    let count = lines.len();
    line(out, title, &count.to_string());
    for text in lines.take(SHOWN) {
        line(out, "", &text);
    }
    if count > SHOWN {
        line(out, "", &format!("and {} more", count - SHOWN));
    }
}

fn line(out: &mut String, title: &str, text: &str) {
    writeln!(out, "{title:<10} {text}").expect("a String takes everything");
}
