//! Documents of sources: what they may say, and how they are joined to the files.

mod around;

use around::Around;
use titan_config::{Composed, Report};

const MAIN: &str = "sources: { shop: { http: 'https://config.example/shop' }, ours: { http: 'https://config.example/ours', \
    local_files: true } }\nlisteners: ':80'\n";

/// What `main` comes to with these documents: that of a source, the name and the text.
fn read(main: &str, documents: &[(&str, &str, &str)]) -> Result<Composed, Report> {
    let owned = |(from, name, text): &(&str, &str, &str)| {
        ((*from).to_owned(), (*name).to_owned(), (*text).to_owned())
    };
    let variables = vec![("HOME".to_owned(), "/root".to_owned())];
    let around = Around::files(&[
        ("secret", "4711"),
        ("more.yaml", "routes: { path: /more, respond: 204 }"),
    ]);
    Around { variables, delivered: documents.iter().map(owned).collect(), ..around }.read(main)
}

fn refused(source: &str, text: &str) -> String {
    let report = read(MAIN, &[(source, "bad.yaml", text)]).err().expect("it must be refused");
    for diagnostic in report.diagnostics() {
        assert_eq!(report.file(diagnostic.at.span.start), "bad.yaml", "{report}");
    }
    report.to_string()
}

#[test]
fn documents_are_joined_in_their_order_behind_the_files() {
    let main = format!("{MAIN}routes: {{ path: /, respond: 200 }}");
    let routes = |path: &str| format!("routes: {{ path: {path}, respond: 200 }}");
    let (a, b, c) = (routes("/a"), routes("/b"), routes("/c"));
    let documents =
        [("ours", "c", c.as_str()), ("shop", "a", a.as_str()), ("shop", "b", b.as_str())];
    let config = read(&main, &documents).unwrap().config;
    let paths: Vec<_> = config.routes.iter().map(|it| it.name.to_string()).collect();
    assert_eq!(paths.len(), 4, "{paths:?}");
    let places = config.routes.iter().map(|it| config.file_names.of(it.location));
    assert_eq!(places.collect::<Vec<_>>(), ["titan.yaml", "a", "b", "c"]);
}

#[test]
fn the_file_needs_nothing_to_serve_of_its_own() {
    let config = read("sources: { shop: { http: 'https://a/b' } }", &[]).unwrap().config;
    assert!(config.listeners.is_empty() && config.routes.is_empty() && config.warnings.is_empty());
    let missing = read("sources: {}", &[]).err().unwrap().to_string();
    assert!(missing.contains("`listeners` is missing"), "{missing}");
}

#[test]
fn what_is_used_by_nothing_yet_may_be_by_what_comes() {
    let main =
        format!("{MAIN}upstreams: {{ u: u:1 }}\npolicies: {{ p: {{ cors: {{ origins: '*' }} }} }}");
    let warnings = read(&main, &[]).unwrap().config.warnings;
    assert!(warnings.is_empty(), "{warnings}");
}

#[test]
fn documents_set_nothing_of_the_gateway() {
    for (key, text) in [
        ("admin", "admin: off"),
        ("workers", "workers: 1"),
        ("state", "state: /tmp"),
        ("log", "log: {}"),
        ("sources", "sources: { more: { http: 'https://evil/more' } }"),
        ("include", "include: more.yaml"),
        ("access_log", "access_log: { file: /etc/passwd }"),
        ("resolver", "resolver: {}"),
    ] {
        for source in ["shop", "ours"] {
            let report = refused(source, text);
            let wanted = format!("a document of a source cannot set `{key}`");
            assert!(report.contains(&wanted), "{report}");
            assert!(report.contains("a document can set `listeners`, `routes`"), "{report}");
        }
    }
    assert!(refused("shop", "rutes: []").contains("did you mean `routes`?"));
}

#[test]
fn documents_name_nothing_of_this_machine() {
    let file = "a file of this machine";
    for (what, text) in [
        ("a variable of this machine", "routes: { path: /, respond: { body: '${HOME}' } }"),
        ("a variable of this machine", "routes: { path: /, respond: { body: '${NOT_SET:-x}' } }"),
        (file, "routes: { path: /, respond: { body: '${file:secret}' } }"),
        (file, "routes: { path: /, files: /etc }"),
        (file, "routes: { path: /, files: { root: /etc } }"),
        (
            file,
            "listeners: { address: ':81', tls: { certificates: { cert: /a.pem, key: /a.key } } }",
        ),
        (file, "upstreams: { u: { endpoints: 'u:1', tls: { ca: /a.pem } } }"),
        (file, "policies: { p: { authorise: { basic: { file: /etc/shadow } } } }"),
        ("a Unix socket of this machine", "upstreams: { u: 'unix:/run/docker.sock' }"),
        (
            "a Unix socket of this machine",
            "upstreams: { u: { endpoints: [{ address: unix:/a }] } }",
        ),
        ("a Unix socket of this machine", "listeners: unix:/run/titan/admin.sock"),
    ] {
        let report = refused("shop", text);
        let wanted = format!("a document of a source cannot use {what}");
        assert!(report.contains(&wanted), "{text}: {report}");
        assert!(!report.contains("4711"), "{report}");
        assert!(report.contains("set `local_files: true` for its source"), "{report}");
    }
}

#[test]
fn a_source_may_be_trusted_with_local_files() {
    let text = "routes: { path: /, respond: { body: '${HOME} ${file:secret}' } }\nupstreams: { u: 'unix:/run/a.sock' }";
    let config = read(MAIN, &[("ours", "a", text)]).unwrap().config;
    assert!(format!("{config:?}").contains("/root ***"), "{config:?}");
}

#[test]
fn sources_are_declared_where_the_gateway_starts() {
    let more = Around::files(&[("more.yaml", "sources: { a: { http: 'https://a/b' } }")]);
    let report =
        more.read("include: more.yaml\nlisteners: ':80'\nroutes: { path: /, respond: 200 }");
    let report = report.err().unwrap().to_string();
    assert!(report.contains("an included file cannot set `sources`"), "{report}");
}

#[test]
fn a_document_that_is_no_yaml_is_told_with_its_name() {
    let report = refused("shop", "routes: [");
    assert!(report.contains("bad.yaml:2:1"), "{report}");
}

#[test]
fn a_source_is_described() {
    let text = |source: &str| {
        format!("listeners: ':80'\nroutes: {{ path: /, respond: 200 }}\nsources: {{ s: {source} }}")
    };
    let parse = |source: &str| titan_config::Config::parse("titan.yaml", &text(source));
    let report = |source: &str| parse(source).expect_err(source).to_string();
    assert!(
        report("{}")
            .contains("expected one of `http`, `kubernetes`, `etcd`, `consul` and `docker`")
    );
    let two = report("{ http: 'https://a/b', etcd: 'https://a' }");
    assert!(two.contains("a source is of one kind"), "{two}");
    assert!(report("{ http: 'ftp://a/b' }").contains("scheme"));
    let key = report("{ http: { url: 'https://a/b', public_key: RWQ } }");
    assert!(key.contains("this is no public key of minisign"), "{key}");
    assert!(report("{ http: { url: 'https://a/b', interval: 10ms } }").contains("interval"));
    assert!(report("{ http: { url: 'https://a/b', max_size: 33MiB } }").contains("max_size"));
    assert!(
        report("{ http: { url: 'https://a/b', headers: { If-None-Match: x } } }")
            .contains("itself")
    );
    assert!(report("{ http: { url: 'http://a/b', tls: {} } }").contains("`tls` has no effect"));
    let warned = |source: &str| parse(source).unwrap().warnings.to_string();
    assert!(warned("{ http: 'http://a/b' }").contains("fetched without TLS"));
    let signed = "{ http: { url: 'http://a/b', public_key: RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3 } }";
    assert_eq!(warned(signed), "");
    let sent = warned("{ http: { url: 'http://a/b', headers: { authorization: x } } }");
    assert!(sent.contains("a key is sent without TLS"), "{sent}");
}

#[test]
fn a_source_in_etcd_is_described() {
    let text = |source: &str| {
        format!(
            "listeners: ':80'\nroutes: {{ path: /, respond: 200 }}\nsources: {{ s: {{ etcd: {source} }} }}"
        )
    };
    let parse = |source: &str| titan_config::Config::parse("titan.yaml", &text(source));
    let report = |source: &str| parse(source).expect_err(source).to_string();
    for (source, wanted) in [
        ("{ prefix: /a/ }", "endpoints"),
        ("'https://a/titan/'", "what keys begin with goes into `prefix`"),
        ("['https://a', 'http://b']", "some addresses are with TLS and some without"),
        ("{ endpoints: 'http://127.0.0.1', tls: { ca: /ca.pem } }", "`tls` has no effect"),
        ("{ endpoints: 'https://a', prefix: /titan }", "did you mean `/titan/`?"),
        ("{ endpoints: 'https://a', username: titan }", "`password` is missing"),
        ("{ endpoints: 'https://a', password: secret-4711 }", "`username` is missing"),
    ] {
        let report = report(source);
        assert!(report.contains(wanted), "{source}: {report}");
        assert!(!report.contains("secret-4711"), "{report}");
    }
    let warnings = |source: &str| parse(source).unwrap().warnings.to_string();
    assert_eq!(warnings("'http://127.0.0.1:2379'"), "");
    let exposed =
        warnings("{ endpoints: 'http://10.0.0.1:2379', username: titan, password: secret-4711 }");
    assert!(exposed.contains("a configuration is fetched without TLS"), "{exposed}");
    assert!(exposed.contains("the password is sent without TLS"), "{exposed}");
    assert!(!exposed.contains("secret-4711"), "{exposed}");
}

#[test]
fn a_source_in_consul_is_described() {
    let text = |source: &str| {
        format!(
            "listeners: ':80'\nroutes: {{ path: /, respond: 200 }}\nsources: {{ s: {{ consul: {source} }} }}"
        )
    };
    let parse = |source: &str| titan_config::Config::parse("titan.yaml", &text(source));
    let report = |source: &str| parse(source).expect_err(source).to_string();
    for (source, wanted) in [
        ("{ endpoints: 'https://a' }", "this source brings nothing"),
        ("{ endpoints: 'https://a/v1', prefix: titan/ }", "it has a path"),
        ("{ endpoints: 'https://a', prefix: /titan/ }", "keys of Consul do not begin with `/`"),
        ("{ endpoints: 'https://a', prefix: titan }", "did you mean `titan/`?"),
        ("{ endpoints: 'https://a', services: 'a/b' }", "is not the name of a service"),
        (
            "{ endpoints: 'https://a', services: [a, { name: b, feed: a }] }",
            "two services have the feed `a`",
        ),
        ("{ endpoints: 'https://a', services: { name: a, tags: 'x\"' } }", "is not a tag"),
        (
            "{ endpoints: 'https://a', services: { name: a, datacenter: 'b&c' } }",
            "the name of a datacenter",
        ),
        (
            "{ endpoints: 'https://a', prefix: titan/, token: \"a\\nb\" }",
            "is not a token of Consul",
        ),
    ] {
        let report = report(source);
        assert!(report.contains(wanted), "{source}: {report}");
    }
    let exposed = parse("{ endpoints: 'http://10.0.0.1', prefix: titan/, token: secret-4711 }");
    let exposed = exposed.unwrap().warnings.to_string();
    assert!(exposed.contains("a configuration is fetched without TLS"), "{exposed}");
    assert!(exposed.contains("the token is sent without TLS"), "{exposed}");
    assert!(!exposed.contains("secret-4711"), "{exposed}");
}

#[test]
fn a_source_in_docker_is_described() {
    let text = |source: &str| {
        format!(
            "listeners: ':80'\nroutes: {{ path: /, respond: 200 }}\nsources: {{ s: {{ docker: {source} }} }}"
        )
    };
    let parse = |source: &str| titan_config::Config::parse("titan.yaml", &text(source));
    let report = |source: &str| parse(source).expect_err(source).to_string();
    for (source, wanted) in [
        ("docker.sock", "scheme"),
        ("'unix:docker.sock'", "must start with `/`"),
        ("'tcp://10.0.0.1:2375'", "write `http://10.0.0.1:2375`, or `https://10.0.0.1:2375`"),
        ("'http://a:2375/v1.41'", "it has a path"),
        ("{ tls: { ca: /ca.pem } }", "there is no TLS on a Unix socket"),
        ("{ endpoint: 'http://a', tls: { ca: /ca.pem } }", "`tls` has no effect"),
        ("{ network: 'a b' }", "is not the name of a network"),
    ] {
        let report = report(source);
        assert!(report.contains(wanted), "{source}: {report}");
    }
    let warnings = |source: &str| parse(source).unwrap().warnings.to_string();
    assert_eq!(warnings("{}"), "");
    assert_eq!(warnings("'unix:///run/user/1000/docker.sock'"), "");
    assert!(warnings("'http://socket-proxy:2375'").contains("an engine is asked without TLS"));
}

#[test]
fn clusters_that_cannot_be_served() {
    for (sources, why) in [
        ("{ a: { kubernetes: {} }, b: { kubernetes: {} } }", "a second cluster"),
        ("{ a: { kubernetes: {}, http: 'https://a/b' } }", "a source is of one kind"),
        ("{ a: { kubernetes: { network: 10.0.0.0/8 } } }", "expected IPv4, from `/16` to `/31`"),
        ("{ a: { kubernetes: { network: 'fd00::/64' } } }", "expected IPv4, from `/16` to `/31`"),
        (
            "{ a: { kubernetes: { network: 127.64.0.0/16, addresses: a } } }",
            "addresses, and a network",
        ),
        ("{ a: { kubernetes: { namespaces: Shop } } }", "no namespace has such a name"),
        ("{ a: { kubernetes: { controller_name: titan } } }", "it is no domain with a path"),
        ("{ a: { kubernetes: { addresses: 'a b' } } }", "neither an address nor a host name"),
    ] {
        let report = read(&format!("sources: {sources}"), &[]).err().unwrap().to_string();
        assert!(report.contains(why), "{sources}: {report}");
    }
}

#[test]
fn documents_of_a_cluster_name_files_whatever_it_says() {
    let text =
        "listeners: { address: ':443', tls: { certificates: { cert: /a.crt, key: /a.key } } }";
    let main = "sources: { c: { kubernetes: {}, local_files: false } }";
    assert_eq!(read(main, &[("c", "a", text)]).unwrap().config.listeners.len(), 1);
}

#[test]
fn a_policy_says_whether_a_source_has_delivered_it() {
    let policy = |name: &str| format!("policies: {{ {name}: {{ cors: {{ origins: '*' }} }} }}");
    let main = format!("{MAIN}{}", policy("own"));
    let documents = [("ours", "a", policy("trusted")), ("shop", "b", policy("other"))];
    let documents = documents.each_ref().map(|(from, name, text)| (*from, *name, text.as_str()));
    let config = read(&main, &documents).unwrap().config;
    let are_delivered = config.policies.iter().map(|it| (it.name.as_str(), it.is_delivered));
    let expected = [("own", false), ("other", true), ("trusted", true)];
    assert_eq!(are_delivered.collect::<Vec<_>>(), expected, "as documents are joined");
}
