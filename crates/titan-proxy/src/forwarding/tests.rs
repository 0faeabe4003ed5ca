//! Tests of which claims are trusted, and what upstreams are told.

use super::*;
use crate::guard::Guard;
use proptest::prelude::*;
use titan_config::Config;
use titan_http::{Method, Status, Version};

/// The rules and the guard with these fields, beside proxies in 10.0.0.0/8 and fd00::/8 that are trusted.
fn rules(fields: &str) -> Rules {
    let text = format!(
        "listeners: [':0']\nroutes: [{{respond: 204}}]\n\
         forwarding: {{trusted_proxies: [10.0.0.0/8, 'fd00::/8'], {fields}}}"
    );
    let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
    Rules { forwarding: Forwarding::new(&config), guard: Guard::new(&config) }
}

/// What judges and what is written.
struct Rules {
    forwarding: Forwarding,
    guard: Guard,
}

impl std::ops::Deref for Rules {
    type Target = Forwarding;

    fn deref(&self) -> &Forwarding {
        &self.forwarding
    }
}

const TRUSTED: &str = "10.0.0.1";
const STRANGER: &str = "192.0.2.7";

fn head(lines: &[(&str, &str)]) -> RequestHead {
    let mut head = RequestHead::default();
    for (name, value) in lines {
        head.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
    }
    head
}

fn client(rules: &Rules, peer: &str, lines: &[(&str, &str)]) -> String {
    let origin = rules.origin(peer.parse().ok(), Scheme::Http, &Arc::default());
    let client = rules.client(&origin, &head(lines).fields);
    client.map_or_else(|| "unknown".to_owned(), |client| client.to_string())
}

/// The lines of a request after it was told where it comes from.
fn told(rules: &Rules, peer: &str, lines: &[(&str, &str)]) -> Vec<String> {
    let mut head = head(lines);
    let origin = rules.origin(peer.parse().ok(), Scheme::Https, &Arc::default());
    rules.guard.strip_head(origin.is_trusted(), &mut head.fields);
    rules.add_upstream_fields(&origin, &mut head, &mut b"stale".to_vec()).unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    head.fields.iter().map(|line| format!("{}: {}", text(line.name), text(line.value))).collect()
}

#[test]
fn a_stranger_is_the_client_whatever_it_says() {
    let rules = rules("trusted_field: forwarded");
    let lies = [("X-Forwarded-For", "1.2.3.4"), ("Forwarded", "for=1.2.3.4")];
    assert_eq!(client(&rules, STRANGER, &lies), STRANGER);
    assert_eq!(client(&rules, "::ffff:192.0.2.7", &lies), STRANGER);
}

#[test]
fn the_client_is_the_last_address_that_is_not_trusted() {
    let rules = rules("");
    let behind = |lines: &[&str]| {
        let lines: Vec<_> = lines.iter().map(|line| ("X-Forwarded-For", *line)).collect();
        client(&rules, TRUSTED, &lines)
    };
    assert_eq!(behind(&[]), TRUSTED);
    assert_eq!(behind(&["192.0.2.7"]), "192.0.2.7");
    assert_eq!(behind(&["1.1.1.1, 192.0.2.7, 10.0.0.2"]), "192.0.2.7");
    assert_eq!(behind(&["1.1.1.1", "192.0.2.7", "10.0.0.2 ,10.0.0.3"]), "192.0.2.7");
    assert_eq!(behind(&["10.0.0.3, 10.0.0.2"]), "10.0.0.3");
    assert_eq!(behind(&["2001:db8::1, fd00::2"]), "2001:db8::1");
    assert_eq!(behind(&["[2001:db8::1]:443"]), "2001:db8::1");
    assert_eq!(behind(&["[2001:db8::1]"]), "2001:db8::1");
    assert_eq!(behind(&["192.0.2.7:1234"]), "192.0.2.7");
    assert_eq!(behind(&["::ffff:192.0.2.7"]), "192.0.2.7");
}

#[test]
fn a_hop_without_an_address_is_no_trusted_proxy() {
    let rules = rules("");
    for list in [
        "192.0.2.7, unknown, 10.0.0.2",
        "192.0.2.7, , 10.0.0.2",
        "192.0.2.7, 1.2.3, 10.0.0.2",
        "unknown",
        "_hidden",
        "192.0.2.7, x",
        "",
    ] {
        assert_eq!(client(&rules, TRUSTED, &[("X-Forwarded-For", list)]), "unknown", "{list}");
    }
    assert_eq!(client(&rules, TRUSTED, &[("X-Forwarded-For", "unknown, 192.0.2.7")]), "192.0.2.7");
}

#[test]
fn a_client_without_an_address_is_not_passed_off_as_the_proxy() {
    let rules = |field: &str| {
        rules(&format!("via: off, forwarded: true, x_real_ip: true, trusted_field: {field}"))
    };
    let own = "for=10.0.0.1;host=\"a\";proto=https";
    let expected = [
        "Host: a",
        &format!("Forwarded: for=unknown, {own}"),
        "X-Forwarded-For: x, 10.0.0.1",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: a",
    ];
    let lines = [("Host", "a"), ("X-Forwarded-For", "x")];
    assert_eq!(told(&rules("x_forwarded_for"), TRUSTED, &lines), expected);
    let mut told = told(
        &rules("forwarded"),
        TRUSTED,
        &[("Host", "a"), ("Forwarded", "for=\"x, for=192.0.2.7")],
    );
    told.sort();
    let forwarded = format!("Forwarded: for=unknown, {own}");
    let expected = [
        &*forwarded,
        "Host: a",
        "X-Forwarded-For: unknown, 10.0.0.1",
        "X-Forwarded-Host: a",
        "X-Forwarded-Proto: https",
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_way_is_bounded() {
    let list = |element: &str, hops| format!("192.0.2.7{}", element.repeat(hops));
    let x_forwarded = rules("");
    let long = list(", 10.0.0.2", MAX_HOPS);
    assert_eq!(client(&x_forwarded, TRUSTED, &[("X-Forwarded-For", &long)]), "unknown");
    let fits = list(", 10.0.0.2", MAX_HOPS - 1);
    assert_eq!(client(&x_forwarded, TRUSTED, &[("X-Forwarded-For", &fits)]), "192.0.2.7");
    let forwarded = rules("trusted_field: forwarded");
    let long = format!("for={}", list(", for=10.0.0.2", MAX_HOPS));
    assert_eq!(client(&forwarded, TRUSTED, &[("Forwarded", &long)]), "unknown");
    let fits = format!("for={}", list(", for=10.0.0.2", MAX_HOPS - 1));
    assert_eq!(client(&forwarded, TRUSTED, &[("Forwarded", &fits)]), "192.0.2.7");
}

#[test]
fn one_field_names_the_client() {
    let rules = |field: &str| rules(&format!("trusted_field: {field}, forwarded: true"));
    let on = rules("forwarded");
    let behind = |line: &str| client(&on, TRUSTED, &[("Forwarded", line)]);
    assert_eq!(behind("for=192.0.2.7"), "192.0.2.7");
    assert_eq!(behind("for=1.1.1.1, For=192.0.2.7;proto=http , by=x; for=10.0.0.2"), "192.0.2.7");
    assert_eq!(behind("for=\"[2001:db8::1]:443\""), "2001:db8::1");
    assert_eq!(behind("for=1.1.1.1, host=\"a,b;for=2.2.2.2\\\"\";for=192.0.2.7"), "192.0.2.7");
    let both = [("Forwarded", "for=1.1.1.1"), ("X-Forwarded-For", "192.0.2.7")];
    assert_eq!(client(&on, TRUSTED, &both), "1.1.1.1");
    assert_eq!(client(&rules("x_forwarded_for"), TRUSTED, &both), "192.0.2.7");
    assert_eq!(client(&rules("x_forwarded_for"), TRUSTED, &both[..1]), TRUSTED);
    assert_eq!(client(&on, TRUSTED, &both[1..]), TRUSTED);
}

#[test]
fn a_malformed_forwarded_names_no_client() {
    let rules = rules("trusted_field: forwarded");
    for line in
        ["for=\"1.1.1.1, for=192.0.2.7", "for=1.1.1.1, proto=http", "for=1.1.1.1, for=_x", "for"]
    {
        assert_eq!(client(&rules, TRUSTED, &[("Forwarded", line)]), "unknown", "{line}");
    }
    let lines =
        [("Forwarded", "for=1.1.1.1"), ("Forwarded", "for=\"x"), ("Forwarded", "for=10.0.0.2")];
    assert_eq!(client(&rules, TRUSTED, &lines), "unknown");
}

#[test]
fn the_claims_of_a_stranger_are_replaced() {
    let lies = [
        ("Host", "a.example:8080"),
        ("X-Forwarded-For", "1.2.3.4"),
        ("x-forwarded-proto", "gopher"),
        ("X-Forwarded-Host", "evil"),
        ("X-Forwarded-User", "root"),
        ("X_Forwarded_For", "1.2.3.4"),
        ("X.Forwarded~For", "1.2.3.4"),
        ("X-Real-IP", "1.2.3.4"),
        ("Forwarded", "for=1.2.3.4"),
        ("X-Real-IPs", "kept"),
        ("X-Forwarded", "kept"),
    ];
    let expected = [
        "Host: a.example:8080",
        "X-Real-IPs: kept",
        "X-Forwarded: kept",
        "X-Forwarded-For: 192.0.2.7",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: a.example:8080",
    ];
    assert_eq!(told(&rules("via: off"), STRANGER, &lies), expected);
    assert_eq!(told(&rules("via: off, x_forwarded: false"), STRANGER, &lies), expected[..3]);
}

#[test]
fn what_a_trusted_proxy_says_is_kept_and_added_to() {
    let lines = [
        ("Host", "a"),
        ("X-Forwarded-For", "192.0.2.7"),
        ("x-forwarded-for", "10.0.0.9"),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Host", "b"),
        ("X-Forwarded-User", "u"),
    ];
    let twins = [
        ("X_Forwarded_For", "1.1.1.1"),
        ("X-Forwarded_Proto", "gopher"),
        ("x.forwarded.user", "root"),
        ("X_Real_IP", "1.1.1.1"),
        ("X_Request_Id", "a"),
    ];
    let lines = [lines.as_slice(), &twins].concat();
    let expected = [
        "Host: a",
        "X-Forwarded-Proto: http",
        "X-Forwarded-Host: b",
        "X-Forwarded-User: u",
        "X-Forwarded-For: 192.0.2.7, 10.0.0.9, 10.0.0.1",
    ];
    assert_eq!(told(&rules("via: off"), TRUSTED, &lines), expected);
    let off = told(&rules("via: off, x_forwarded: false"), TRUSTED, &lines);
    assert_eq!(off.len(), lines.len() - twins.len());
}

#[test]
fn a_trusted_proxy_that_says_nothing_is_the_client() {
    let expected =
        ["Host: a", "X-Forwarded-For: fd00::1", "X-Forwarded-Proto: https", "X-Forwarded-Host: a"];
    assert_eq!(told(&rules("via: off"), "fd00::1", &[("Host", "a")]), expected);
}

#[test]
fn forwarded_is_written_with_quotes_where_the_grammar_wants_them() {
    let rules = rules("via: off, forwarded: true, x_forwarded: false");
    let host = ("Host", "a:80");
    let one = "Forwarded: for=192.0.2.7;host=\"a:80\";proto=https";
    assert_eq!(told(&rules, STRANGER, &[host])[1], one);
    let six = "Forwarded: for=\"[2001:db8::1]\";host=\"a:80\";proto=https";
    assert_eq!(told(&rules, "2001:db8::1", &[host])[1], six);
    assert_eq!(told(&rules, STRANGER, &[]), ["Forwarded: for=192.0.2.7;proto=https"]);
}

#[test]
fn what_is_trusted_is_passed_on_in_both_fields() {
    let host = ("Host", "a:80");
    let rules = |field: &str| rules(&format!("via: off, forwarded: true, trusted_field: {field}"));
    let lines = [
        host,
        ("X-Forwarded-For", "1.1.1.1, 2001:db8::1, 10.0.0.2"),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Host", "b"),
    ];
    let own = "for=10.0.0.1;host=\"a:80\";proto=https";
    let expected = [
        "Host: a:80",
        "X-Forwarded-Proto: http",
        "X-Forwarded-Host: b",
        &format!("Forwarded: for=\"[2001:db8::1]\";host=\"b\";proto=http, {own}"),
        "X-Forwarded-For: 1.1.1.1, 2001:db8::1, 10.0.0.2, 10.0.0.1",
    ];
    assert_eq!(told(&rules("x_forwarded_for"), TRUSTED, &lines), expected);
    let odd = [
        host,
        ("X-Forwarded-For", "1.1.1.1"),
        ("X-Forwarded-Proto", "x"),
        ("X-Forwarded-Host", "a b"),
    ];
    assert_eq!(
        told(&rules("x_forwarded_for"), TRUSTED, &odd)[3],
        format!("Forwarded: for=1.1.1.1, {own}")
    );
    let chain =
        "for=9.9.9.9;host=x, for=1.1.1.1;host=\"b:1\";proto=HTTP, for=10.0.0.2;host=c;proto=https";
    let expected = [
        "Host: a:80",
        "X-Forwarded-For: 1.1.1.1, 10.0.0.1",
        "X-Forwarded-Proto: http",
        "X-Forwarded-Host: b:1",
        &format!("Forwarded: {chain}, {own}"),
    ];
    assert_eq!(told(&rules("forwarded"), TRUSTED, &[host, ("Forwarded", chain)]), expected);
    let silent = [
        "Host: a:80",
        "X-Forwarded-For: 10.0.0.1",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: a:80",
        &format!("Forwarded: {own}"),
    ];
    assert_eq!(told(&rules("forwarded"), TRUSTED, &[host]), silent);
}

#[test]
fn a_unix_socket_has_no_address_and_no_trust() {
    let rules = rules("via: off, forwarded: true");
    let expected = [
        "Host: a",
        "Forwarded: for=unknown;host=\"a\";proto=https",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: a",
    ];
    assert_eq!(
        told(&rules, "no address", &[("Host", "a"), ("X-Forwarded-For", "1.1.1.1")]),
        expected
    );
    let origin = rules.origin(None, Scheme::Http, &Arc::default());
    assert_eq!(rules.client(&origin, &Fields::default()), None);
}

#[test]
fn via_names_the_version_received_and_the_pseudonym() {
    let lines = [("Via", "1.0 first, 2 second (a, b)")];
    let via = |rules: &Rules| told(rules, STRANGER, &lines);
    let all = via(&rules("x_forwarded: false"));
    assert_eq!(all, ["Via: 1.0 first, 2 second (a, b)", "Via: 1.1 titan"]);
    assert_eq!(via(&rules("x_forwarded: false, via: edge"))[1], "Via: 1.1 edge");
    assert_eq!(via(&rules("x_forwarded: false, via: off")).len(), 1);
    let mut head = head(&[]);
    head.version = Version::Http10;
    let rules = rules("x_forwarded: false");
    let origin = rules.origin(None, Scheme::Http, &Arc::default());
    rules.add_upstream_fields(&origin, &mut head, &mut Vec::new()).unwrap();
    assert_eq!(head.fields.get(FieldName::Via), Some(b"1.0 titan".as_slice()));
}

#[test]
fn a_request_that_goes_in_circles_is_refused() {
    let rules = rules("");
    let origin = rules.origin(None, Scheme::Http, &Arc::default());
    let pass = |entries: usize, name: &str| {
        let list = vec![format!("1.1 {name} (comment)"); entries].join(", ");
        let mut head = head(&[("Via", "1.1 titan-2"), ("Via", &list)]);
        rules.add_upstream_fields(&origin, &mut head, &mut Vec::new())
    };
    assert_eq!(pass(MAX_PASSES, "titan"), Ok(()));
    assert_eq!(pass(MAX_PASSES + 1, "TITAN"), Err(Refused::Loop));
    assert_eq!(pass(100, "other"), Ok(()));
}

/// The trailers that are left of these.
fn passed(rules: &Rules, lines: &[(&str, &str)]) -> Vec<String> {
    let mut trailers = head(lines).fields;
    rules.guard.admit_trailers(&mut trailers).unwrap();
    trailers.iter().map(|line| String::from_utf8(line.name.to_vec()).unwrap()).collect()
}

#[test]
fn no_claim_passes_in_a_trailer() {
    let lines = [
        ("X-Checksum", "1"),
        ("x-forwarded-for", "1.2.3.4"),
        ("X_Forwarded_For", "1.2.3.4"),
        ("X.Forwarded.For", "1.2.3.4"),
        ("X-Forwarded-User", "root"),
        ("X-Real-IP", "1.2.3.4"),
        ("Forwarded", "for=1.2.3.4"),
        ("Via", "1.1 other"),
        ("X_Request_Id", "a"),
        ("Content_Length", "7"),
        ("Transfer.Encoding", "chunked"),
        ("If_Match", "*"),
        ("X-Request-Id", "a"),
        ("X-Trace", "a"),
    ];
    assert_eq!(passed(&rules(""), &lines), ["X-Checksum", "X-Trace"]);
    assert_eq!(passed(&rules("request_id: X-Trace"), &lines), ["X-Checksum", "X-Request-Id"]);
    let off = "x_forwarded: false, via: off, request_id: off";
    assert_eq!(passed(&rules(off), &lines), ["X-Checksum", "X-Request-Id", "X-Trace"]);
    assert!(passed(&rules(""), &[]).is_empty());
}

/// How far a request with these values of Max-Forwards goes, and what the upstream gets.
fn hopped(method: Method, values: &[&str]) -> (Reach, Vec<String>) {
    let lines: Vec<_> = values.iter().map(|value| ("Max-Forwards", *value)).collect();
    let mut head = RequestHead { method, ..head(&lines) };
    let reach = count_hop(&mut head).unwrap();
    let left = head.fields.all(FieldName::MaxForwards);
    (reach, left.map(|value| String::from_utf8(value.to_vec()).unwrap()).collect())
}

#[test]
fn hops_are_counted_down_and_the_last_one_responds() {
    let passes = |method, value: &str, left: &str| {
        assert_eq!(hopped(method, &[value]), (Reach::Upstream, vec![left.to_owned()]), "{value}");
    };
    passes(Method::OPTIONS, "10", "9");
    passes(Method::TRACE, "1", "0");
    passes(Method::TRACE, "007", "6");
    passes(Method::OPTIONS, "99999999999999999999999", "18446744073709551614");
    assert_eq!(hopped(Method::OPTIONS, &["0"]).0, Reach::Here(Status::OK));
    assert_eq!(hopped(Method::TRACE, &["00"]).0, Reach::Here(Status::NOT_IMPLEMENTED));
    assert_eq!(hopped(Method::OPTIONS, &[]), (Reach::Upstream, Vec::new()));
}

#[test]
fn what_limits_no_hops_stays_as_it_is() {
    let stays = |method, values: &[&str]| {
        let same = values.iter().map(|value| (*value).to_owned()).collect();
        assert_eq!(hopped(method, values), (Reach::Upstream, same), "{values:?}");
    };
    stays(Method::GET, &["0"]);
    for bad in ["", "-1", "+1", "1, 0", "x"] {
        stays(Method::OPTIONS, &[bad]);
    }
    stays(Method::TRACE, &["0", "1"]);
}

#[test]
fn a_request_id_of_a_trusted_proxy_is_kept() {
    let rules = rules("");
    let identify = |peer: &str, lines: &[(&str, &str)]| {
        let mut head = head(lines);
        let origin = rules.origin(peer.parse().ok(), Scheme::Http, &Arc::default());
        rules.identify(&origin, &mut head.fields, 0xab).unwrap();
        let sent: Vec<_> = head.fields.named(b"x-request-id").collect();
        assert_eq!(sent, [rules.request_id(&head.fields).unwrap()]);
        String::from_utf8(sent[0].to_vec()).unwrap()
    };
    let fresh = format!("{:032x}", 0xab);
    let longest = "a".repeat(128);
    assert_eq!(identify(TRUSTED, &[("x-request-id", "Ab-1_2.3:/=+@~")]), "Ab-1_2.3:/=+@~");
    assert_eq!(identify(TRUSTED, &[("X-Request-Id", &longest)]), longest);
    assert_eq!(identify(STRANGER, &[("X-Request-Id", "a")]), fresh);
    assert_eq!(identify(TRUSTED, &[]), fresh);
    for bad in ["", "a b", "a\"", "a,b", "<a>", "\u{e9}", &"a".repeat(129)] {
        assert_eq!(identify(TRUSTED, &[("X-Request-Id", bad)]), fresh, "{bad}");
    }
    assert_eq!(identify(TRUSTED, &[("X-Request-Id", "a"), ("X-Request-Id", "b")]), fresh);
}

#[test]
fn the_request_id_travels_under_the_configured_name_or_not_at_all() {
    let named = rules("request_id: X-Trace");
    let mut fields = Fields::default();
    let origin = named.origin(None, Scheme::Http, &Arc::default());
    named.identify(&origin, &mut fields, 1).unwrap();
    assert!(fields.named(b"x-trace").count() == 1 && fields.len() == 1);
    let off = rules("request_id: off");
    let mut fields = Fields::default();
    off.identify(&origin, &mut fields, 1).unwrap();
    assert!(fields.is_empty() && off.request_id(&fields).is_none());
}

#[test]
fn the_server_field_is_what_the_configuration_says() {
    let server = |field: &str| {
        let mut head = ResponseHead::with_status(Status::OK);
        head.fields.append(FieldName::Server, b"backend").unwrap();
        rules(field).name_server(&mut head).unwrap();
        let values: Vec<Vec<u8>> = head.fields.all(FieldName::Server).map(<[u8]>::to_vec).collect();
        values
    };
    assert_eq!(server("server: pass"), [b"backend"]);
    assert!(server("server: remove").is_empty());
    assert_eq!(server("server: edge/1"), [b"edge/1"]);
}

fn lie() -> impl Strategy<Value = String> {
    prop_oneof!["(for=)?(1\\.1\\.1\\.1|10\\.9\\.9\\.9)(, )?", "[0-9a-f:.,\"\\[\\]; =for]{0,30}",]
}

proptest! {
    #[test]
    fn a_client_can_only_choose_among_what_stands_before_itself(
        lies in proptest::collection::vec(lie(), 0..4),
        in_forwarded in any::<bool>(),
    ) {
        // Two trusted proxies, of which the outer one saw the client.
        let (field, name, own) = match in_forwarded {
            true => ("forwarded", "Forwarded", "for=192.0.2.7, for=10.0.0.2"),
            false => ("x_forwarded_for", "X-Forwarded-For", "192.0.2.7, 10.0.0.2"),
        };
        let mut lines: Vec<_> = lies.iter().map(|lie| (name, lie.as_str())).collect();
        lines.push((name, own));
        prop_assert_eq!(client(&rules(&format!("trusted_field: {field}")), TRUSTED, &lines), "192.0.2.7");
    }
}
