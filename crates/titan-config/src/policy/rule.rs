//! Rules: CEL expressions that requests must meet.

mod check;

use crate::bounds::{MAX_REGEXES, MAX_RULE};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::problem::Problem;
use crate::read::{Read, Reading};
use crate::readers::text;
use crate::shape::{Shape, TextShape};
use crate::token::{HeaderName, Pattern};
use cel::common::ast::SourceInfo;
use cel::{Context, Env, ParseError, ParseErrors, Program, Value};
use check::Check;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// An expression that a request has to meet. It is bounded: neither nested deeply nor with loops in loops, and calls nothing
/// that takes more than linear time.
#[derive(Clone)]
pub struct Rule {
    text: String,
    program: Arc<Program>,
    patterns: Arc<[(String, Pattern)]>,
    reads: Vec<RulePart>,
    headers: Vec<HeaderName>,
    loops: bool,
    without_token: WithoutToken,
}

/// What a rule makes of a request without a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutToken {
    /// It does not look at claims.
    Same,
    /// It handles such requests explicitly: it uses `size(claims)`.
    Stated,
    /// It is met, whatever else the request is: it uses claims only to refuse.
    Met,
    /// It is not met, or that depends on the rest of the request.
    Other,
}

/// What a rule may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulePart {
    /// `request.method`
    Method,
    /// `request.host`
    Host,
    /// `request.path`
    Path,
    /// `request.query`
    Query,
    /// `request.headers`
    Headers,
    /// `claims`
    Claims,
    /// `client`
    Client,
    /// `certificate`
    Certificate,
    /// `response`
    Response,
}

impl Rule {
    /// The expression as the file has it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The expression as it is evaluated.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The regular expressions in it by how they are written: the only ones that `matches` takes.
    pub fn patterns(&self) -> &Arc<[(String, Pattern)]> {
        &self.patterns
    }

    /// Whether it uses that.
    pub fn reads(&self, part: RulePart) -> bool {
        self.reads.contains(&part)
    }

    /// The header fields that it names.
    pub fn headers(&self) -> &[HeaderName] {
        &self.headers
    }

    /// What it makes of a request without a token.
    pub(super) fn without_token(&self) -> WithoutToken {
        self.without_token
    }

    /// Whether it goes through lists or mappings.
    pub fn loops(&self) -> bool {
        self.loops
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({:?})", self.text)
    }
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.text == other.text
    }
}

impl Eq for Rule {}

/// A rule over a request.
pub(super) fn rule() -> impl Read<Value = Rule> {
    RuleReader { has_response: false }
}

/// A rule over a request and its response.
pub(super) fn response_rule() -> impl Read<Value = Rule> {
    RuleReader { has_response: true }
}

struct RuleReader {
    has_response: bool,
}

impl Read for RuleReader {
    type Value = Rule;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Rule> {
        let rule = text(RULE, |text| parse_rule(text, self.has_response)).read(node, to)?;
        if rule.patterns.iter().all(|_| to.take_regex()) {
            return Some(rule);
        }
        let message = format!("the file has more than {MAX_REGEXES} regular expressions");
        to.fail(Diagnostic::error(node.span, message).label("these are too many"))
    }

    fn shape(&self) -> Shape {
        Shape::Text(RULE)
    }
}

const RULE: TextShape = TextShape {
    what: "a rule",
    examples: "`request.method == 'GET' || 'admin' in claims.groups`",
    pattern: None,
    max: MAX_RULE,
};

/// Bytes of stack that the parser of the longest rule needs at most, with room to spare: it recurses, with large
/// frames, before it counts how deep it is.
const STACK: usize = 64 << 20;

/// Parses a rule where there is room for it.
fn parse_rule(text: &str, has_response: bool) -> Result<Rule, Problem> {
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(STACK);
        let parser = parser.spawn_scoped(scope, || compile(text, has_response));
        let parser = parser
            .map_err(|error| Problem::new(format!("out of resources while parsing it: {error}")))?;
        parser.join().unwrap_or_else(|_| Err(Problem::new("the parser failed on it")))
    })
}

fn compile(text: &str, has_response: bool) -> Result<Rule, Problem> {
    let env = Env::stdlib().with_optional_support(false);
    let program = env.compile(text).map_err(|errors| fault(text, &errors))?;
    let mut check = Check::new(text, program.source_info(), has_response);
    check.whole(program.expression())?;
    let Check { patterns, reads, headers, loops, counts_claims, .. } = check;
    let without_token = match counts_claims {
        _ if !reads.contains(&RulePart::Claims) => WithoutToken::Same,
        true => WithoutToken::Stated,
        false if is_met_without_claims(&program, env) => WithoutToken::Met,
        false => WithoutToken::Other,
    };
    Ok(Rule {
        text: text.to_owned(),
        program: Arc::new(program),
        patterns: patterns.into(),
        reads,
        headers,
        loops,
        without_token,
    })
}

/// Whether it is true of a request of which nothing is known but that its token says nothing. What it would have to know
/// of the request is missing, and an error.
fn is_met_without_claims(program: &Program, env: Env) -> bool {
    let mut context = Context::with_env(Arc::new(env));
    context.add_variable_from_value("claims", HashMap::<String, Value>::new());
    matches!(program.execute(&context), Ok(Value::Bool(true)))
}

/// The first fault that the parser has found. It lists all that could stand there instead, which does not help.
fn fault(text: &str, errors: &ParseErrors) -> Problem {
    let Some(ParseError { pos, msg, .. }) = errors.errors.first() else {
        return Problem::new("it is not an expression");
    };
    if msg.contains("ecursion") {
        return Problem::new("it is nested too deeply").help("split it into several rules");
    }
    let reason = msg.strip_prefix("Syntax error: ").unwrap_or(msg);
    let reason = reason.split(" expecting ").next().unwrap_or(reason);
    let reason = reason.replace("mismatched input '<EOF>'", "something is missing");
    let problem = match reason.strip_prefix("token recognition error at: '") {
        Some(rest) => {
            let sign = rest.chars().next().unwrap_or('\'');
            let unknown = Problem::new(format!("`{sign}` means nothing here"));
            match sign {
                '\'' | '"' => Problem::new("this string is not closed"),
                '=' | '&' | '|' => unknown.help("operators are `==`, `&&` and `||`"),
                _ => unknown.help("the language is CEL (cel.dev)"),
            }
        }
        None => Problem::new(reason).help("the language is CEL (cel.dev)"),
    };
    match place(text, *pos) {
        Some(part) => problem.part(part),
        None => problem,
    }
}

/// The character at a line and a column, both counted from one; what ends the text where there is none.
fn place(text: &str, (line, column): (isize, isize)) -> Option<Range<usize>> {
    let line = usize::try_from(line).ok()?.checked_sub(1)?;
    let column = usize::try_from(column).ok()?.checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let mut characters = text.get(start..)?.char_indices();
    match characters.nth(column) {
        Some((at, character)) => Some(start + at..start + at + character.len_utf8()),
        None => text.char_indices().last().map(|(at, _)| at..text.len()),
    }
}

/// The bytes that a node of an expression was made of.
fn bytes(info: &SourceInfo, id: u64) -> Option<Range<usize>> {
    let (first, last) = info.offset_for(id)?;
    Some(usize::try_from(first).ok()?..usize::try_from(last).ok()? + 1)
}
