//! `titan test`: runs the cases of test files by the code that serves, and says what is not as expected. And the case that
//! `titan explain --as-test` writes.

use crate::cli::TestOptions;
use crate::config_file;
use crate::documents::Disk;
use crate::failure::Failure;
use crate::terminal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use titan_config::{Case, Cases, Config, Expectation, TestRequest, Verdict};
use titan_proxy::{Asking, Files, Forwarded, Outcome};

/// The exit code where something is not as expected.
const FAILED: u8 = 1;

/// Runs the cases of all files. Sends, binds and resolves nothing.
pub(crate) fn test(options: &TestOptions) -> Result<ExitCode, Failure> {
    let mut configs = BTreeMap::new();
    let (mut passed, mut failed) = (0, 0);
    for file in &options.files {
        let Cases { config, cases } = read(file)?;
        let config = config_of(options.config.as_deref(), config, file)?;
        let read = match configs.remove(&config) {
            Some(read) => read,
            None => {
                let read = config_file::read(&config)?;
                let files = config_file::read_named(&read, &config);
                (read, files)
            }
        };
        let mut out = String::new();
        for case in &cases {
            let mismatches = run(case, &read, file)?;
            match mismatches.is_empty() {
                true => passed += 1,
                false => failed += 1,
            }
            show(&mut out, case, &mismatches, file);
        }
        terminal::print(&read.0.mask(out))?;
        configs.insert(config, read);
    }
    let count = passed + failed;
    let cases = if count == 1 { "case" } else { "cases" };
    terminal::print(&format!("{count} {cases}: {passed} passed, {failed} failed\n"))?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn read(file: &Path) -> Result<Cases, Failure> {
    let mut disk = Disk::around(config_file::folder_of(file));
    let main = disk.main(file).map_err(|error| config_file::cannot_read(file, &error))?;
    Ok(Cases::parse(main, &mut disk)?)
}

/// The configuration of the command line, or else that of the test file.
fn config_of(
    given: Option<&Path>,
    named: Option<PathBuf>,
    file: &Path,
) -> Result<PathBuf, Failure> {
    let named = named.map(|named| config_file::folder_of(file).join(named));
    given.map(Path::to_owned).or(named).ok_or_else(|| {
        let name = file.display();
        let text = format!("{name} names no configuration: give it `config`, or use `-c FILE`");
        Failure::BadInput(text)
    })
}

/// Something that is not as expected.
#[derive(Debug, PartialEq, Eq)]
struct Mismatch {
    key: String,
    expected: String,
    got: String,
}

fn run(
    case: &Case,
    (config, files): &(Config, Files),
    file: &Path,
) -> Result<Vec<Mismatch>, Failure> {
    let Case { name: _, request, expect, location } = case;
    let TestRequest { method, url, headers, from, client_cert } = request;
    let fields = headers
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |value| format!("{name}: {value}")));
    let fields: Vec<String> = fields.collect();
    let certificate = client_cert.as_ref().map(|it| config_file::folder_of(file).join(it));
    let certificate = certificate.as_deref().map(config_file::read_certificate).transpose()?;
    let asking =
        Asking { method, url, fields: &fields, certificate: certificate.as_deref(), from: *from };
    let explained = titan_proxy::explain(config, files, &asking);
    let explained = explained
        .map_err(|bad| Failure::BadInput(format!("{}:{location}: {bad}", file.display())))?;
    Ok(compare(expect, &explained.outcome))
}

fn show(out: &mut String, case: &Case, mismatches: &[Mismatch], file: &Path) {
    let Case { name, location, .. } = case;
    let text = match mismatches.is_empty() {
        true => format!("ok      {name}\n"),
        false => format!("FAILED  {name} ({}:{location})\n", file.display()),
    };
    out.push_str(&text);
    for Mismatch { key, expected, got } in mismatches {
        writeln!(out, "        {key}: expected {expected}, got {got}")
            .expect("a String takes everything");
    }
}

/// What stands for no route, and for what is not there.
const NONE: &str = "none";

fn compare(expect: &Expectation, outcome: &Outcome) -> Vec<Mismatch> {
    let Expectation {
        route,
        action,
        upstream,
        path,
        query,
        host,
        headers_set,
        headers_added,
        headers_removed,
        status,
        code,
        location,
        policies,
    } = expect;
    let mut found = Vec::new();
    let mut check = |key: String, expected: Option<String>, got: Option<String>| {
        let Some(expected) = expected else { return };
        let got = got.unwrap_or_else(|| NONE.to_owned());
        if expected != got {
            let shown = |text: String| if text.is_empty() { "\"\"".to_owned() } else { text };
            found.push(Mismatch { key, expected: shown(expected), got: shown(got) });
        }
    };
    let forwarded = outcome.forwarded.as_ref();
    let sent = |part: fn(&Forwarded) -> &String| {
        Some(
            forwarded
                .map_or_else(|| "nothing: it is not sent on".to_owned(), |it| part(it).clone()),
        )
    };
    let text = |number: u16| number.to_string();
    check("route".to_owned(), route.clone(), outcome.route.clone());
    check("action".to_owned(), action.map(str::to_owned), outcome.action.map(str::to_owned));
    check("upstream".to_owned(), upstream.as_deref().map(sorted), Some(sorted(&outcome.upstreams)));
    check("path".to_owned(), path.clone(), sent(|it| &it.path));
    check("query".to_owned(), query.clone(), sent(|it| &it.query));
    check("host".to_owned(), host.clone(), sent(|it| &it.host));
    check("status".to_owned(), status.map(text), outcome.status.map(|it| text(it.code())));
    check("code".to_owned(), code.clone(), outcome.code.map(str::to_owned));
    check("location".to_owned(), location.clone(), outcome.location.clone());
    for (kind, verdict) in policies {
        let got = outcome.policies.iter().find(|(met, _)| met == kind);
        let got = got.map_or(Verdict::None, |(_, verdict)| *verdict);
        let words = [*verdict, got].map(|it| Some(it.as_str().to_owned()));
        let [expected, got] = words;
        check(format!("policies.{}", kind.as_str()), expected, got);
    }
    let received = |name: &str| value_of(&outcome.received, name);
    let sent = |name: &str| forwarded.and_then(|it| value_of(&it.fields, name));
    for (name, value) in headers_set {
        check(format!("headers_set.{name}"), Some(value.clone()), sent(name));
    }
    for name in headers_added {
        let got = match (received(name), sent(name)) {
            (None, Some(_)) => "added",
            (Some(_), _) => "sent by the client",
            (None, None) => "not there",
        };
        check(format!("headers_added.{name}"), Some("added".to_owned()), Some(got.to_owned()));
    }
    for name in headers_removed {
        let got = match (received(name), sent(name)) {
            (Some(_), None) => "removed",
            (Some(_), Some(_)) => "there",
            (None, _) => "not sent by the client",
        };
        check(format!("headers_removed.{name}"), Some("removed".to_owned()), Some(got.to_owned()));
    }
    found
}

fn sorted(names: &[String]) -> String {
    let mut names = names.to_vec();
    names.sort();
    match names.is_empty() {
        true => NONE.to_owned(),
        false => names.join(", "),
    }
}

/// All values of the name, in whatever case.
fn value_of(fields: &[(String, String)], name: &str) -> Option<String> {
    let values = fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let values: Vec<&str> = values.map(|(_, value)| value.as_str()).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// A test file with the request as its only case, which passes as long as the same comes of it.
pub(crate) fn as_test(
    asking: &Asking<'_>,
    certificate: Option<&Path>,
    config: Option<&Path>,
    outcome: &Outcome,
) -> String {
    let Asking { method, url, fields, certificate: _, from } = *asking;
    let mut lines = Vec::new();
    lines.extend(config.map(|file| format!("config: {}", quoted(&file.display().to_string()))));
    lines.push("cases:".to_owned());
    lines.push(format!("  - name: {}", quoted(&format!("{method} {url}"))));
    lines.push("    request:".to_owned());
    lines.push(format!("      method: {}", quoted(method)));
    lines.push(format!("      url: {}", quoted(url)));
    let headers = by_name(fields);
    lines.extend((!headers.is_empty()).then(|| "      headers:".to_owned()));
    for (name, values) in headers {
        let values: Vec<_> = values.into_iter().map(quoted).collect();
        lines.push(format!("        {}: [{}]", Value::from(name), values.join(", ")));
    }
    lines.extend(from.map(|address| format!("      from: {}", quoted(&address.to_string()))));
    let certificate = certificate.map(|file| file.display().to_string());
    lines.extend(certificate.map(|file| format!("      client_cert: {}", quoted(&file))));
    lines.push("    expect:".to_owned());
    lines.extend(expectations(outcome).into_iter().map(|line| format!("      {line}")));
    lines.join("\n") + "\n"
}

fn expectations(outcome: &Outcome) -> Vec<String> {
    let Outcome { route, action, upstreams, received, forwarded, status, code, location, policies } =
        outcome;
    let mut lines = vec![format!("route: {}", quoted(route.as_deref().unwrap_or(NONE)))];
    lines.extend(action.map(|action| format!("action: {action}")));
    if !upstreams.is_empty() {
        let names: Vec<_> = upstreams.iter().map(|it| quoted(it)).collect();
        lines.push(format!("upstream: [{}]", names.join(", ")));
    }
    if let Some(Forwarded { path, query, host, fields }) = forwarded {
        lines.push(format!("path: {}", quoted(path)));
        lines.push(format!("query: {}", quoted(query)));
        lines.push(format!("host: {}", quoted(host)));
        let lacks = |all: &[(String, String)], name: &str| value_of(all, name).is_none();
        for (key, from, others) in
            [("headers_added", fields, received), ("headers_removed", received, fields)]
        {
            let mut names: Vec<_> = from.iter().map(|(name, _)| name.as_str()).collect();
            names.retain(|name| lacks(others, name));
            names.dedup_by(|one, other| one.eq_ignore_ascii_case(other));
            let names: Vec<_> = names.into_iter().map(quoted).collect();
            lines.extend((!names.is_empty()).then(|| format!("{key}: [{}]", names.join(", "))));
        }
    }
    lines.extend(status.map(|status| format!("status: {}", status.code())));
    lines.extend(code.map(|code| format!("code: {code}")));
    lines.extend(location.as_deref().map(|location| format!("location: {}", quoted(location))));
    if !policies.is_empty() {
        let verdicts =
            policies.iter().map(|(kind, it)| format!("{}: {}", kind.as_str(), it.as_str()));
        lines.push(format!("policies: {{ {} }}", verdicts.collect::<Vec<_>>().join(", ")));
    }
    lines
}

/// The values of each field, under the name as it was given first.
fn by_name(fields: &[String]) -> Vec<(&str, Vec<&str>)> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for field in fields {
        let (name, value) = field.split_once(':').unwrap_or((field, ""));
        let (name, value) = (name.trim(), value.trim());
        match all.iter_mut().find(|(other, _)| other.eq_ignore_ascii_case(name)) {
            Some((_, values)) => values.push(value),
            None => all.push((name, vec![value])),
        }
    }
    all
}

/// A text in quotes as a test file has it: `${` stands for itself.
fn quoted(text: &str) -> String {
    let mut escaped = String::new();
    let mut dollars = 0;
    for c in text.chars() {
        if c == '{' {
            escaped.extend(std::iter::repeat_n('$', dollars));
        }
        dollars = if c == '$' { dollars + 1 } else { 0 };
        escaped.push(c);
    }
    Value::from(escaped).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_in_texts_stand_for_themselves() {
        for (text, written) in [
            ("a", "\"a\""),
            ("a\"\n", r#""a\"\n""#),
            ("${A} $ {}", "\"$${A} $ {}\""),
            ("$${A}", "\"$$$${A}\""),
        ] {
            assert_eq!(quoted(text), written);
        }
    }
}
