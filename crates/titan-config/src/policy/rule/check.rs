//! What a rule may consist of: known names, bounded depth, no loops in loops.

use super::{RulePart, bytes};
use crate::problem::Problem;
use crate::suggest;
use crate::token::{HeaderName, Pattern, parse_header_name, parse_pattern};
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, SourceInfo,
};
use std::ops::Range;

/// A look at an expression, and what it has found so far.
pub(super) struct Check<'t> {
    text: &'t str,
    info: &'t SourceInfo,
    /// Whether there is a response to look at.
    has_response: bool,
    pub(super) patterns: Vec<(String, Pattern)>,
    pub(super) reads: Vec<RulePart>,
    pub(super) headers: Vec<HeaderName>,
    pub(super) loops: bool,
    /// Whether it asks how many claims there are: without a token there are none.
    pub(super) counts_claims: bool,
    /// The variables of the loop that surrounds what is looked at.
    variables: Vec<String>,
    depth: usize,
}

/// How deep an expression may be nested, so that no worker runs out of stack. Chains of `&&` and `||` are hardly deep.
const MAX_DEPTH: usize = 16;

const REQUEST: &[(&str, RulePart)] = &[
    ("method", RulePart::Method),
    ("host", RulePart::Host),
    ("path", RulePart::Path),
    ("query", RulePart::Query),
    ("headers", RulePart::Headers),
];
const CLIENT: &[(&str, RulePart)] = &[("address", RulePart::Client)];
const CERTIFICATE: &[(&str, RulePart)] = &[
    ("subject", RulePart::Certificate),
    ("dns", RulePart::Certificate),
    ("uri", RulePart::Certificate),
    ("email", RulePart::Certificate),
    ("ip", RulePart::Certificate),
    ("fingerprint", RulePart::Certificate),
];
const RESPONSE: &[(&str, RulePart)] = &[("status", RulePart::Response)];
/// The functions that people write as such, and those that operators and loops become.
const FUNCTIONS: &[&str] =
    &["size", "contains", "startsWith", "endsWith", "matches", "int", "double", "string"];
const OPERATORS: &[&str] = &[
    "_?_:_",
    "_&&_",
    "_||_",
    "!_",
    "_-_",
    "_+_",
    "_*_",
    "_/_",
    "_%_",
    "_==_",
    "_!=_",
    "_>=_",
    "_<=_",
    "_>_",
    "_<_",
    "-_",
    "_[_]",
    "@not_strictly_false",
    "@in",
];

impl<'t> Check<'t> {
    pub(super) fn new(text: &'t str, info: &'t SourceInfo, has_response: bool) -> Check<'t> {
        let (patterns, reads, headers, variables) = Default::default();
        let (loops, counts_claims) = (false, false);
        Check {
            text,
            info,
            has_response,
            patterns,
            reads,
            headers,
            loops,
            counts_claims,
            variables,
            depth: 0,
        }
    }

    /// Looks at a whole expression. One of another type than a truth would refuse every request.
    pub(super) fn whole(&mut self, expression: &IdedExpr) -> Result<(), Problem> {
        let is_truth = match &expression.expr {
            Expr::List(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Ident(_) => false,
            Expr::Literal(literal) => matches!(literal, LiteralValue::Boolean(_)),
            // What is known by name is all texts, lists and mappings; a claim can be a truth.
            Expr::Select(SelectExpr { operand, test, .. }) => {
                *test || !matches!(&operand.expr, Expr::Ident(name) if self.known(name).is_some())
            }
            _ => true,
        };
        if !is_truth {
            let problem = Problem::new("its result is neither true nor false");
            return Err(problem.help("write a comparison: `request.method == 'GET'`"));
        }
        self.part(expression)
    }

    fn part(&mut self, expression: &IdedExpr) -> Result<(), Problem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let problem = self.at(expression.id, "it is nested too deeply");
            return Err(problem.help("split it into several rules; all must be true"));
        }
        let checked = match &expression.expr {
            Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.name(expression.id, name),
            Expr::Select(select) => self.select(expression.id, select),
            Expr::Call(call) => self.call(expression.id, call),
            Expr::List(list) => list.elements.iter().try_for_each(|it| self.part(it)),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
                EntryExpr::MapEntry(it) => self.part(&it.key).and_then(|()| self.part(&it.value)),
                EntryExpr::StructField(_) => Err(self.at(expression.id, "types are not supported")),
            }),
            Expr::Comprehension(comprehension) => self.comprehension(expression.id, comprehension),
            Expr::Struct(_) => Err(self.at(expression.id, "types are not supported")),
            Expr::Unspecified => Err(self.at(expression.id, "something is missing")),
        };
        self.depth -= 1;
        checked
    }

    fn name(&mut self, id: u64, name: &str) -> Result<(), Problem> {
        let is_own = self.variables.iter().any(|it| it == name);
        match (is_own, name, self.known(name)) {
            (true, ..) => Ok(()),
            (false, "claims", _) => {
                self.reads.push(RulePart::Claims);
                Ok(())
            }
            (false, _, Some(fields)) => {
                let problem = self.at(id, format!("name a field of `{name}`"));
                Err(problem.help(format!("such as `{name}.{}`", fields[0].0)))
            }
            (false, _, None) => {
                let problem = self.at(id, format!("there is no variable `{name}`"));
                let names = ["request", "claims", "client", "certificate", "response"];
                let names = if self.has_response { &names[..] } else { &names[..4] };
                Err(near(problem, name, names))
            }
        }
    }

    fn select(&mut self, id: u64, select: &SelectExpr) -> Result<(), Problem> {
        let SelectExpr { operand, field, test: _ } = select;
        if is_headers(operand) {
            self.field(id, field)?;
        }
        let Expr::Ident(name) = &operand.expr else { return self.part(operand) };
        let is_own = self.variables.iter().any(|it| it == name);
        let Some(fields) = self.known(name).filter(|_| !is_own) else { return self.part(operand) };
        match fields.iter().find(|(known, _)| known == field) {
            Some((_, part)) => {
                self.reads.push(*part);
                Ok(())
            }
            None => {
                let message = format!("`{name}` has no `{field}`");
                let names: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
                Err(near(self.at(id, message), field, &names))
            }
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Result<(), Problem> {
        let CallExpr { func_name: name, target, args } = call;
        match (name.as_str(), args.as_slice()) {
            ("_[_]", [map, field]) | ("@in", [field, map]) if is_headers(map) => {
                if let Expr::Literal(LiteralValue::String(written)) = &field.expr {
                    self.field(field.id, written.inner())?;
                }
            }
            ("@in", [what, text]) if is_text(text) => {
                let problem = self.at(id, "the right side of `in` must be a list, not a string");
                return Err(problem.help(match is_address(what) {
                    true => "for client networks, use `allow` and `deny` of the policy: `deny: [10.0.0.0/8]`",
                    false => "to search a string, write `request.path.contains('x')`",
                }));
            }
            _ => {}
        }
        if !OPERATORS.contains(&name.as_str()) && !FUNCTIONS.contains(&name.as_str()) {
            let message = match name.as_str() {
                "has" | "all" | "exists" | "exists_one" => {
                    format!("`{name}` cannot be used like this")
                }
                _ => format!("there is no function `{name}`"),
            };
            return Err(near(self.at_name(id, name, message), name, FUNCTIONS));
        }
        self.values(id, call)?;
        if name == "matches" {
            self.pattern(id, args.last())?;
        }
        let mut parts = target.iter().map(|it| &**it).chain(args);
        let is_claims = |it: &IdedExpr| matches!(&it.expr, Expr::Ident(name) if name == "claims");
        self.counts_claims |= name == "size" && parts.clone().any(is_claims);
        parts.try_for_each(|it| self.part(it))
    }

    /// Each request would find that there is no function of such values, and the rule would be met by none that needs it.
    fn values(&self, id: u64, call: &CallExpr) -> Result<(), Problem> {
        let name = call.func_name.as_str();
        let given = (call.target.is_some(), call.args.len());
        let (takes, example) = match name {
            // It is a function of two values, too.
            "matches" if given == (false, 2) => return Ok(()),
            "contains" | "startsWith" | "endsWith" | "matches" if given != (true, 1) => (
                "a value in front of it and one in parentheses",
                format!("request.path.{name}('/a')"),
            ),
            "int" | "double" | "string" if given != (false, 1) => {
                ("one value in parentheses", format!("{name}(claims.level)"))
            }
            "size" if given != (false, 1) && given != (true, 0) => {
                ("one value", "size(claims.groups)".to_owned())
            }
            _ => return Ok(()),
        };
        let problem = self.at_name(id, name, format!("`{name}` takes {takes}"));
        Err(problem.help(format!("such as `{example}`")))
    }

    /// A field with another name is never there, so that the rule would refuse every request or none.
    fn field(&mut self, id: u64, name: &str) -> Result<(), Problem> {
        let lower = name.to_ascii_lowercase();
        if lower == name {
            self.headers.extend(parse_header_name(name).ok());
            return Ok(());
        }
        let problem = self.at(id, "header names are in lower case here");
        Err(problem.help(format!("write `{lower}`")))
    }

    /// Regular expressions are compiled with the file, and so have to be in it.
    fn pattern(&mut self, id: u64, written: Option<&IdedExpr>) -> Result<(), Problem> {
        let Some(Expr::Literal(LiteralValue::String(written))) = written.map(|it| &it.expr) else {
            return Err(self.at_name(id, "matches", "it takes only a quoted string"));
        };
        let written = written.inner();
        let pattern = parse_pattern(written).map_err(|problem| {
            let message = format!("its regular expression is not valid: {}", problem.reason);
            Problem { help: problem.help, ..self.at_name(id, "matches", message) }
        })?;
        self.patterns.push((written.to_owned(), pattern));
        Ok(())
    }

    fn comprehension(&mut self, id: u64, it: &ComprehensionExpr) -> Result<(), Problem> {
        let ComprehensionExpr { iter_range, iter_var, iter_var2, accu_var, accu_init, .. } = it;
        if matches!(accu_init.expr, Expr::List(_) | Expr::Map(_)) {
            let problem = self.at(id, "`map` and `filter` are not supported");
            return Err(problem.help("use `all`, `exists` or `exists_one`"));
        }
        if !self.variables.is_empty() {
            let problem = self.at(id, "a loop inside a loop could take too long");
            return Err(problem.help("split it into several rules; all must be true"));
        }
        if self.known(iter_var).is_some() || iter_var == "claims" {
            return Err(self.at(id, format!("the name `{iter_var}` is already in use")));
        }
        self.part(iter_range)?;
        self.loops = true;
        self.variables = [iter_var, accu_var].into_iter().chain(iter_var2).cloned().collect();
        let parts = [accu_init, &it.loop_cond, &it.loop_step, &it.result];
        let checked = parts.into_iter().try_for_each(|part| self.part(part));
        self.variables.clear();
        checked
    }

    fn known(&self, name: &str) -> Option<&'static [(&'static str, RulePart)]> {
        known(name, self.has_response)
    }

    fn at(&self, id: u64, reason: impl Into<String>) -> Problem {
        let problem = Problem::new(reason);
        match bytes(self.info, id) {
            Some(part) => problem.part(part),
            None => problem,
        }
    }

    /// At the name before the parenthesis that a call is known by.
    fn at_name(&self, id: u64, name: &str, reason: impl Into<String>) -> Problem {
        let before = bytes(self.info, id).and_then(|part| {
            let start = part.start.checked_sub(name.len())?;
            let before: Range<usize> = start..part.start;
            (self.text.get(before.clone())? == name).then_some(before)
        });
        match before {
            Some(before) => Problem::new(reason).part(before),
            None => self.at(id, reason),
        }
    }
}

fn is_text(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Literal(LiteralValue::String(_)))
}

/// Whether it is `client.address`.
fn is_address(expression: &IdedExpr) -> bool {
    let Expr::Select(SelectExpr { operand, field, .. }) = &expression.expr else { return false };
    field == "address" && matches!(&operand.expr, Expr::Ident(name) if name == "client")
}

/// Whether it is `request.headers`. No variable of a loop is called `request`.
fn is_headers(expression: &IdedExpr) -> bool {
    let Expr::Select(SelectExpr { operand, field, .. }) = &expression.expr else { return false };
    field == "headers" && matches!(&operand.expr, Expr::Ident(name) if name == "request")
}

/// The parts of a variable that has nothing else.
fn known(name: &str, has_response: bool) -> Option<&'static [(&'static str, RulePart)]> {
    match name {
        "request" => Some(REQUEST),
        "client" => Some(CLIENT),
        "certificate" => Some(CERTIFICATE),
        "response" if has_response => Some(RESPONSE),
        _ => None,
    }
}

fn near(problem: Problem, written: &str, names: &[&str]) -> Problem {
    match suggest::nearest(written, names.iter().copied()) {
        Some(near) => problem.help(format!("did you mean `{near}`?")),
        None => problem.help(format!("the choices are `{}`", names.join("`, `"))),
    }
}
