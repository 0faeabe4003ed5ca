//! Documents against what `serde_json` makes of them, and a comparison of its values.

use super::*;
use proptest::prelude::*;
use serde_json::{Map, Number, Value as Model};

/// The differences as JSON pointers, each with what both documents have there.
fn differences(one: &str, other: &str, ignore: &[MemberPattern]) -> Vec<String> {
    let read = |text: &'static str| Document::read(text.as_bytes()).unwrap();
    let [one, other] = [one, other].map(|text| read(String::leak(text.to_owned())));
    let mut found = Vec::new();
    compare([&one, &other], ignore, &mut |Difference { place, values }| {
        let [one, other] = values.map(|value| value.map_or("-", |value| value.text));
        found.push(format!("{}: {one} {other}", pointer(place)));
    });
    found
}

fn pointer(place: &[Step<'_>]) -> String {
    let step = |step: &Step<'_>| match step {
        Step::Member(name) => format!("/{name}"),
        Step::Item(index) => format!("/{index}"),
    };
    place.iter().map(step).collect()
}

/// The patterns that a configuration has made of these texts.
fn patterns(texts: &[&str]) -> Vec<MemberPattern> {
    let list = texts.join(", ");
    let text = format!(
        "listeners: [':80']\nupstreams: {{ a: a:1, b: b:1 }}\n\
         routes: [{{ upstream: a, mirror: {{ upstream: b, compare: {{ ignore: [{list}] }} }} }}]"
    );
    let config = titan_config::Config::parse("test", &text).unwrap();
    let titan_config::Action::Proxy(proxy) = &config.routes[0].action else { unreachable!() };
    proxy.mirrors[0].compare.as_ref().unwrap().ignore.clone()
}

#[test]
fn members_differ_by_place_and_value() {
    for (one, other, wanted) in [
        (r#"{"a":1,"b":[1,2]}"#, r#" { "b" : [ 1 , 2 ] , "a" : 1 } "#, &[] as &[&str]),
        (r#"{"a":1}"#, r#"{"a":2}"#, &["/a: 1 2"]),
        (r#"{"a":1}"#, r#"{"b":1}"#, &["/a: 1 -", "/b: - 1"]),
        (r#"{"a":1}"#, r#"{"a":"1"}"#, &[r#"/a: 1 "1""#]),
        (r#"{"a":null}"#, "{}", &["/a: null -"]),
        ("[1,2,3]", "[1,3]", &["/1: 2 3", "/2: 3 -"]),
        ("[]", "{}", &[": [] {}"]),
        ("true", "false", &[": true false"]),
        (r#"["\u00e9\n"]"#, "[\"é\\n\"]", &[]),
        (r#"{"\u0061":1}"#, r#"{"a":1}"#, &[]),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#, &[]),
        (r#"[["x"],{"y":[{"z":0}]}]"#, r#"[["x"],{"y":[{"z":{}}]}]"#, &["/1/y/0/z: 0 {}"]),
    ] {
        assert_eq!(differences(one, other, &[]), wanted, "{one} {other}");
    }
}

#[test]
fn numbers_are_compared_by_value() {
    let same =
        ["1", "1.0", "1e0", "10e-1", "0.1E+1", "1.00000000000000000000000000", "100e-2", "0.001e3"];
    for (one, other) in same.iter().flat_map(|one| same.iter().map(move |other| (one, other))) {
        assert!(is_same_number(one, other), "{one} {other}");
    }
    for (one, other) in [("0", "-0.0e5"), ("0.00", "0e-9"), ("-12e2", "-1200"), ("1e-3", "0.001")] {
        assert!(is_same_number(one, other), "{one} {other}");
    }
    for (one, other) in [
        ("1", "-1"),
        ("1", "10"),
        ("1", "0"),
        ("1.5", "15"),
        ("12", "21"),
        ("9007199254740993", "9007199254740992"),
        ("0.1", "0.10000000000000001"),
        ("1e999999999999", "1e999999999998"),
        ("1e400", "1e401"),
    ] {
        assert!(!is_same_number(one, other), "{one} {other}");
    }
}

#[test]
fn members_are_ignored_by_their_place() {
    let one = r#"{"meta":{"time":1,"id":1},"items":[{"id":1,"v":1},{"id":2,"v":2}],"a/b":1}"#;
    let other = r#"{"meta":{"time":2,"id":2},"items":[{"id":3,"v":1},{"id":4,"v":0}],"a/b":2}"#;
    for (ignore, wanted) in [
        (
            &["/meta/time", "/items/*/id"] as &[&str],
            &["/a/b: 1 2", "/items/1/v: 2 0", "/meta/id: 1 2"] as &[&str],
        ),
        (&["/meta", "/items", "/a~1b"], &[]),
        (&["/*"], &[]),
        (&["/*/*", "/a/b"], &["/a/b: 1 2"]),
        (&["/items/1", "/items/0/id", "/meta/*", "/a~1b"], &[]),
        (
            &["/meta/time/x"],
            &[
                "/a/b: 1 2",
                "/items/0/id: 1 3",
                "/items/1/id: 2 4",
                "/items/1/v: 2 0",
                "/meta/id: 1 2",
                "/meta/time: 1 2",
            ],
        ),
    ] {
        assert_eq!(differences(one, other, &patterns(ignore)), wanted, "{ignore:?}");
    }
    assert_eq!(differences("[1]", "{}", &patterns(&["/0"])), [": [1] {}"]);
}

#[test]
fn what_is_no_document_is_not_compared() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Document::read(deep(MAX_DEPTH).as_bytes()).is_ok());
    let too_deep = deep(MAX_DEPTH + 1);
    assert_eq!(Document::read(too_deep.as_bytes()).err(), Some(Unreadable::TooDeep));
    for text in [
        "",
        " ",
        "[",
        "]",
        "[1,]",
        "{,}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        "{1:2}",
        "01",
        "1.",
        ".5",
        "1e",
        "+1",
        "-",
        "nul",
        "truefalse",
        "1 2",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\n\"",
        "\u{feff}1",
        "NaN",
    ] {
        assert_eq!(Document::read(text.as_bytes()).err(), Some(Unreadable::Malformed), "{text}");
    }
    assert_eq!(Document::read(b"\"\xff\"").err(), Some(Unreadable::Malformed));
}

/// Values whose numbers are exact, however they are compared.
fn model() -> impl Strategy<Value = Model> {
    let leaf = prop_oneof![
        Just(Model::Null),
        any::<bool>().prop_map(Model::Bool),
        (-40_i64..40).prop_map(|number| Model::Number(Number::from(number))),
        (-40_i32..40).prop_map(|number| Number::from_f64(f64::from(number) / 4.0).unwrap().into()),
        "[a-c\"\\\\é\n]{0,3}".prop_map(Model::String),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Model::Array),
            prop::collection::vec(("[a-d]{0,2}", inner), 0..5)
                .prop_map(|members| Model::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// The same document, written in another way.
fn rewritten(value: &Model, out: &mut String) {
    let text = |text: &str, out: &mut String| {
        out.push('"');
        text.encode_utf16().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        out.push('"');
    };
    match value {
        Model::Number(number) => {
            out.push_str(&format!("{:.0}e-2", number.as_f64().unwrap() * 100.0));
        }
        Model::String(string) => text(string, out),
        Model::Array(items) => {
            out.push_str("[ ");
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { " ,\n" });
                rewritten(item, out);
            }
            out.push_str("\t]");
        }
        Model::Object(members) => {
            out.push('{');
            for (index, (name, member)) in members.iter().rev().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                text(name, out);
                out.push(':');
                rewritten(member, out);
            }
            out.push('}');
        }
        Model::Null | Model::Bool(_) => out.push_str(&value.to_string()),
    }
}

/// The places at which values differ, in order.
fn model_differences(one: &Model, other: &Model, place: &str, found: &mut Vec<String>) {
    match (one, other) {
        (Model::Object(ours), Model::Object(theirs)) => {
            let others = theirs.keys().filter(|name| !ours.contains_key(*name));
            for name in ours.keys().chain(others) {
                let place = format!("{place}/{name}");
                match (ours.get(name), theirs.get(name)) {
                    (Some(one), Some(other)) => model_differences(one, other, &place, found),
                    _ => found.push(place),
                }
            }
        }
        (Model::Array(ours), Model::Array(theirs)) => {
            for index in 0..ours.len().max(theirs.len()) {
                let place = format!("{place}/{index}");
                match (ours.get(index), theirs.get(index)) {
                    (Some(one), Some(other)) => model_differences(one, other, &place, found),
                    _ => found.push(place),
                }
            }
        }
        (Model::Number(one), Model::Number(other)) if one.as_f64() == other.as_f64() => {}
        _ if one == other => {}
        _ => found.push(place.to_owned()),
    }
}

proptest! {
    #[test]
    fn a_document_equals_itself_however_it_is_written(value in model()) {
        let mut other = String::new();
        rewritten(&value, &mut other);
        prop_assert_eq!(differences(&value.to_string(), &other, &[]), Vec::<String>::new());
    }

    #[test]
    fn differences_are_those_of_the_model(one in model(), other in model()) {
        let mut wanted = Vec::new();
        model_differences(&one, &other, "", &mut wanted);
        let found = differences(&one.to_string(), &other.to_string(), &[]);
        let places: Vec<_> = found.iter().map(|it| it.split_once(": ").unwrap().0.to_owned()).collect();
        prop_assert_eq!(places, wanted);
    }

    #[test]
    fn a_text_is_a_document_if_it_is_one_for_others(
        text in prop_oneof!["[\\[\\]{}\",:0-9.eE+\\-\\\\ua-d \n]{0,12}", "[\\[\\]{}\",:01 ]{0,9}"]
    ) {
        let wanted = serde_json::from_str::<Model>(&text);
        // Others have no room for every number.
        prop_assume!(!wanted.as_ref().is_err_and(|it| it.to_string().contains("out of range")));
        prop_assert_eq!(Document::read(text.as_bytes()).is_ok(), wanted.is_ok());
    }
}
