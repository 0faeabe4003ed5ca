//! What gets another name, another address, or other requests.

use crate::{assert_weaker, weaker};

#[test]
fn a_listener_with_another_name_or_address_is_compared_with_what_it_was() {
    let listeners = |of: &str| format!("listeners: [{of}]");
    let tls = |of: &str| format!("tls: {{ certificates: {{ cert: a, key: b }}{of} }}");
    let (plain, strict) = (tls(""), tls(", min_version: \"1.3\""));
    let asks = tls(", client_certificates: { ca: c }");
    let at = |name: &str, port: &str, more: &str| {
        format!("{{ {name}address: \":{port}\"{}{more} }}", if more.is_empty() { "" } else { ", " })
    };
    let (a, b) = ("name: a, ", "name: b, ");
    assert_weaker([
        (
            listeners(&at(a, "443", &asks)),
            listeners(&at(b, "443", &plain)),
            "b: tls.client_certificates: - { ca: c }",
        ),
        (
            listeners(&at(a, "443", &plain)),
            listeners(&at(b, "443", "")),
            "b: tls: { certificates: [{ cert: a, key: b }] } -> off",
        ),
        (
            listeners(&at("", "443", &strict)),
            listeners(&at(b, "443", &plain)),
            "b: tls.min_version: 1.3 -> 1.2",
        ),
        (
            listeners(&at("", "18443", &strict)),
            listeners(&at("", "18444", &plain)),
            ":18444: tls.min_version: 1.3 -> 1.2",
        ),
        // Two change places and lose something: each is the one that it is most like.
        (
            listeners(&format!("{}, {}", at(a, "1", &strict), at("", "2", "protocols: h1"))),
            listeners(&format!("{}, {}", at("", "3", "protocols: h1"), at(b, "4", &plain))),
            "b: tls.min_version: 1.3 -> 1.2",
        ),
        // Each of the two before is stricter than the third in something.
        (
            listeners(&format!("{}, {{ address: \"127.0.0.1:80\" }}", at("", "443", &plain))),
            listeners(&format!(
                "{}, {{ address: \"127.0.0.1:80\" }}, {}",
                at("", "443", &plain),
                at("", "81", "")
            )),
            ":81: new, and weaker than all before",
        ),
    ]);
    let redirect = at("", "80", "redirect_to_https: true");
    let both = listeners(&format!("{}, {redirect}", at(a, "443", &plain)));
    assert_eq!(weaker(&listeners(&at(a, "443", &plain)), &both), Vec::<String>::new());
}

#[test]
fn more_clients_that_reach_the_gateway_are_weaker() {
    let at = |address: &str| format!("listeners: [\"{address}\"]");
    let named = |address: &str| format!("listeners: [{{ name: a, address: \"{address}\" }}]");
    let admin = |admin: &str| format!("admin: {admin}");
    let exposed = "address: \"127.0.0.1:80\" -> \":80\"";
    assert_weaker([
        (named("127.0.0.1:80"), named(":80"), exposed),
        (at("127.0.0.1:80"), at(":80"), exposed),
        (at("unix:/run/a"), at(":80"), "address: \"unix:/run/a\" -> \":80\""),
        (
            at("127.0.0.1:80"),
            "listeners: [\"127.0.0.1:80\", { address: \"127.0.0.1:81\", proxy_protocol: { from: 0.0.0.0/0 } }]"
                .to_owned(),
            "127.0.0.1:81: new, and weaker than all before, even `127.0.0.1:80`: proxy_protocol: + ",
        ),
        (admin("off"), admin("\":8484\""), "admin: off -> "),
        (admin("off"), admin(&format!("{{ tokens: {{ a: {} }} }}", "0".repeat(64))), "admin: off -> "),
        (admin("\"127.0.0.1:8484\""), admin("\":8484\""), "admin.address: "),
    ]);
    assert_eq!(weaker(&admin("off"), &admin("{}")), Vec::<String>::new());
    assert_eq!(weaker(&admin("\":8484\""), &admin("off")), Vec::<String>::new());
}

#[test]
fn a_way_to_an_upstream_that_is_guarded_less_is_weaker() {
    let to = |upstream: &str| {
        format!(
            "upstreams: {{ u: {{ endpoints: a:1, tls: on }}, w: {{ endpoints: a:1, tls: on }}, p: a:2, \
             v: {{ endpoints: a:3, tls: {{ verify: false }} }} }}\n\
             routes: [{{ name: r, upstream: {upstream} }}]"
        )
    };
    assert_weaker([
        (to("u"), to("p"), "r: `p` gets requests in place of `u`: tls: {} -> off"),
        (to("u"), to("v"), "r: `v` gets requests in place of `u`: tls.verify: true -> false"),
        (to("u"), to("{ u: 1, p: 99 }"), "r: `p` gets requests in place of `u`: tls: {} -> off"),
        (to("{ u: 99, p: 1 }"), to("{ u: 1, p: 99 }"), "r: `p` gets requests in place of `u`"),
        (
            to("{ u: 2, p: 1 }"),
            to("{ u: 2, p: 1, w: 1, v: 4 }"),
            "r: `v` gets requests in place of `u`",
        ),
        (
            "upstreams: { u: { endpoints: a:1, tls: on } }\nroutes: [{ name: r, upstream: u }]"
                .to_owned(),
            "upstreams: { v: a:1 }\nroutes: [{ name: q, upstream: v }]".to_owned(),
            "q: `v` gets requests in place of `u`: tls: {} -> off",
        ),
    ]);
    for (old, new) in [
        ("u", "w"),
        ("p", "u"),
        ("{ u: 1, p: 1 }", "{ u: 2, p: 2 }"),
        ("{ u: 1, p: 3 }", "{ u: 1, p: 2 }"),
    ] {
        assert_eq!(weaker(&to(old), &to(new)), Vec::<String>::new(), "{old} {new}");
    }
}

#[test]
fn a_route_with_another_name_is_compared_with_what_it_was() {
    let route = |name: &str, of: &str| format!("routes: [{{ name: {name}, {of} }}]");
    let files = |name: &str, of: &str| route(name, &format!("files: {{ root: /srv/www{of} }}"));
    assert_weaker([
        (files("a", ""), files("b", ", dotfiles: true"), "b: files.dotfiles: false -> true"),
        (files("a", ""), files("a", ", dotfiles: true"), "a: files.dotfiles: false -> true"),
        (files("a", ""), route("b", "files: /srv"), "b: files.root: /srv/www -> /srv"),
        (
            route("a", "upstream: a"),
            files("b", ""),
            "b: an upstream responded before, and files are served now",
        ),
        (
            files("a", ""),
            route("b", "upstream: a"),
            "b: files were served before, and an upstream responds now",
        ),
    ]);
}
