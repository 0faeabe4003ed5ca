//! Files of test cases: requests, and what a configuration is expected to make of each.

use crate::bounds::{MAX_HEADERS, MAX_TEST_CASES, MAX_TOKEN, MAX_VALUE};
use crate::declared::Declared;
use crate::diagnostic::Diagnostic;
use crate::location::{FileId, Location, Span};
use crate::node::Node;
use crate::policy::PolicyKind;
use crate::problem::Problem;
use crate::read::{At, Read, Reading, at, default, optional, required};
use crate::readers::{Named, message_mapping, one_or_list, text, whole, words};
use crate::report::{Findings, Report};
use crate::section::{Section, section, section_of};
use crate::shape::{SectionInfo, TextShape};
use crate::shown;
use crate::source::{Source, Sources};
use crate::surroundings::{Document, Surroundings};
use crate::tls::file;
use crate::token::{HEADER_NAME, HEADER_VALUE};
use crate::variables::Variables;
use crate::yaml::{self, Used};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

section! {
    "tests", "a test file", Any;
    /// Requests, and what a configuration is expected to make of each.
    pub(crate) struct TestFields {
        /// The configuration; a relative path starts at the directory of this file.
        pub(crate) config: Option<PathBuf> = optional("the one of `-c`", file()),
        /// The cases.
        pub(crate) cases: Vec<Case> = required(one_or_list(case(), 1..=MAX_TEST_CASES)),
    }
}

section! {
    "case", "a test case", Any;
    /// A request, and what is expected of it.
    pub(crate) struct CaseFields {
        /// What it is about.
        pub(crate) name: String = required(text(TITLE, not_empty)),
        /// The request.
        pub(crate) request: TestRequest = required(section_of::<TestRequest>()),
        /// What is expected: everything that is given must hold.
        pub(crate) expect: At<Expectation> = required(at(section_of::<Expectation>())),
    }
}

section! {
    "request", "a request", Any;
    /// A request as a client would send it.
    pub struct TestRequest {
        /// Its method.
        pub method: String = default("GET", text(METHOD, not_empty)),
        /// An absolute URL, or a path with `Host` among the headers.
        pub url: String = required(text(URL, not_empty)),
        /// Its header fields; a list for several of one name.
        pub headers: Vec<(String, Vec<String>)> =
            default("{}", pairs(HEADER_NAME, any_text, one_or_list(text(HEADER_VALUE, any_text), 0..=MAX_HEADERS))),
        /// The address that the client connects from.
        pub from: Option<IpAddr> = optional("nothing is decided by address", text(ADDRESS, parse_address)),
        /// The certificate that the client presents, a PEM file; a relative path starts at the directory of this file.
        pub client_cert: Option<PathBuf> = optional("none", file()),
    }
}

section! {
    "expectation", "an expectation", Any;
    /// What is expected of a request.
    pub struct Expectation {
        /// The name of the route that takes it; `none` if none does.
        pub route: Option<String> = optional("any", text(TITLE, not_empty)),
        /// What the route does.
        pub action: Option<&'static str> = optional("any", words(&[
            ("upstream", "upstream"),
            ("redirect", "redirect"),
            ("respond", "respond"),
            ("files", "files"),
        ])),
        /// The upstreams that it may go to.
        pub upstream: Option<Vec<String>> =
            optional("any", one_or_list(text(TITLE, not_empty), 1..=MAX_HEADERS)),
        /// The path that the upstream gets, without the query.
        pub path: Option<String> = optional("any", text(URL, not_empty)),
        /// The query that the upstream gets, without the `?`; `""` for none.
        pub query: Option<String> = optional("any", text(URL, any_text)),
        /// The Host that the upstream gets.
        pub host: Option<String> = optional("any", text(URL, not_empty)),
        /// Header fields that the upstream gets, with their values.
        pub headers_set: Vec<(String, String)> =
            default("{}", pairs(HEADER_NAME, any_text, text(HEADER_VALUE, any_text))),
        /// Header fields that the upstream gets although the client did not send them.
        pub headers_added: Vec<String> = default("[]", one_or_list(text(HEADER_NAME, not_empty), 0..=MAX_HEADERS)),
        /// Header fields that the client sent and the upstream does not get.
        pub headers_removed: Vec<String> = default("[]", one_or_list(text(HEADER_NAME, not_empty), 0..=MAX_HEADERS)),
        /// The status of the gateway's own response.
        pub status: Option<u16> = optional("any", whole(100..=599)),
        /// The code of the problem that the gateway responds with.
        pub code: Option<String> = optional("any", text(TITLE, not_empty)),
        /// Where a redirect leads.
        pub location: Option<String> = optional("any", text(URL, not_empty)),
        /// What policies make of the request, by type.
        pub policies: Vec<(PolicyKind, Verdict)> =
            default("{}", pairs(KIND, parse_kind, words(Verdict::ALL))),
    }
}

/// What a policy makes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It lets the request pass.
    Passes,
    /// It refuses the request, or responds itself.
    Refuses,
    /// It applies, but an earlier one has refused the request.
    NotReached,
    /// No policy of the type applies.
    None,
}

impl Verdict {
    const ALL: &[(&'static str, Verdict)] = &[
        ("passes", Verdict::Passes),
        ("refuses", Verdict::Refuses),
        ("not_reached", Verdict::NotReached),
        ("none", Verdict::None),
    ];

    /// What a test file calls it.
    pub fn as_str(self) -> &'static str {
        let found = Verdict::ALL.iter().find(|(_, verdict)| *verdict == self);
        found.map_or("", |(word, _)| word)
    }
}

/// A file of test cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cases {
    /// The configuration, if the file names one.
    pub config: Option<PathBuf>,
    /// At least one.
    pub cases: Vec<Case>,
}

/// A request, and what is expected of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What it is about.
    pub name: String,
    /// The request.
    pub request: TestRequest,
    /// What is expected of it; at least one thing.
    pub expect: Expectation,
    /// Where it starts.
    pub location: Location,
}

impl Cases {
    /// Reads a file of test cases, with variables of its surroundings. All that is wrong is in the report.
    pub fn parse(main: Document, surroundings: &mut dyn Surroundings) -> Result<Cases, Report> {
        let Document { name, directory, identity: _, text } = main;
        let sources = Sources::of(Source::new(FileId::MAIN, &name, directory, &text));
        let mut findings = Findings::default();
        let mut variables = Variables::new(surroundings);
        let root = yaml::read(sources.main(), &mut variables, &mut Used::default(), &mut findings);
        let visible = match &root {
            Some(Some(root)) => shown::visible(root, &findings.again, &sections()[0]),
            Some(None) | None => shown::visible_keys(sections()),
        };
        findings.visible.insert(FileId::MAIN, visible);
        if let Some(None) = root {
            let error = Diagnostic::error(Span::START, "the file is empty");
            findings.add(error.label("expected `cases`"));
        }
        let read = root.flatten().and_then(|root| {
            let declared = Declared::in_file(&root);
            let mut to = Reading::new(&sources, &mut findings, declared, sections);
            section_of::<TestFields>().read(&root, &mut to)
        });
        match read {
            Some(TestFields { config, cases }) if !findings.has_errors() => {
                Ok(Cases { config, cases })
            }
            _ => Err(Report::new(&sources, findings)),
        }
    }
}

/// The sections of a test file.
fn sections() -> &'static [SectionInfo] {
    static SECTIONS: LazyLock<Vec<SectionInfo>> = LazyLock::new(|| {
        vec![TestFields::info(), CaseFields::info(), TestRequest::info(), Expectation::info()]
    });
    &SECTIONS
}

/// A mapping without the places of its keys.
fn pairs<K, V: Read>(
    key: TextShape,
    parse: impl Fn(&str) -> Result<K, Problem>,
    value: V,
) -> impl Read<Value = Vec<(K, V::Value)>> {
    let entries = message_mapping(key, parse, value, 0..=MAX_HEADERS);
    entries.map(|named| named.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
}

fn case() -> impl Read<Value = Case> {
    section_of::<CaseFields>().then(|fields, node: &Node, to| {
        let CaseFields { name, request, expect: At { value: expect, span } } = fields;
        if expect != NOTHING {
            return Some(Case { name, request, expect, location: node.span.start });
        }
        let error = Diagnostic::error(span, "this expects nothing");
        to.fail(
            error.help(
                "such as `route: api` or `status: 401`; `titan explain --as-test` writes a case",
            ),
        )
    })
}

const NOTHING: Expectation = Expectation {
    route: None,
    action: None,
    upstream: None,
    path: None,
    query: None,
    host: None,
    headers_set: Vec::new(),
    headers_added: Vec::new(),
    headers_removed: Vec::new(),
    status: None,
    code: None,
    location: None,
    policies: Vec::new(),
};

const TITLE: TextShape = TextShape { what: "a name", examples: "", pattern: None, max: MAX_VALUE };
const METHOD: TextShape =
    TextShape { what: "a method", examples: "`GET`", pattern: None, max: MAX_TOKEN };
const URL: TextShape = TextShape {
    what: "a URL or a part of one",
    examples: "`https://api.example/users/7`",
    pattern: None,
    max: MAX_VALUE,
};
const ADDRESS: TextShape =
    TextShape { what: "an IP address", examples: "`192.0.2.1`", pattern: None, max: MAX_TOKEN };
const KIND: TextShape =
    TextShape { what: "a type of policies", examples: "`jwt`", pattern: None, max: MAX_TOKEN };

fn any_text(text: &str) -> Result<String, Problem> {
    Ok(text.to_owned())
}

fn not_empty(text: &str) -> Result<String, Problem> {
    match text {
        "" => Err(Problem::new("it is empty")),
        text => Ok(text.to_owned()),
    }
}

fn parse_address(text: &str) -> Result<IpAddr, Problem> {
    text.parse().map_err(|_| Problem::new("this is not an IP address"))
}

fn parse_kind(text: &str) -> Result<PolicyKind, Problem> {
    let kind = PolicyKind::ALL.iter().find(|kind| kind.as_str() == text);
    kind.copied().ok_or_else(|| {
        let known: Vec<_> =
            PolicyKind::ALL.iter().map(|kind| format!("`{}`", kind.as_str())).collect();
        Problem::new("no policy has this type")
            .help(format!("expected one of {}", known.join(", ")))
    })
}
