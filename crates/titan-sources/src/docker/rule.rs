//! Rules of routers, as Traefik writes them: a small part of them, which means exactly one route.

use serde_json::{Map, Value, json};

/// Which requests a router takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    hosts: Vec<String>,
    path: Option<Path>,
    methods: Vec<String>,
    header: Option<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Path {
    Exact(String),
    Prefix(String),
}

/// What messages say of rules that are none.
const POSSIBLE: &str = "a rule has Host(`a.example`, `b.example`), PathPrefix(`/x`) or Path(`/x`), Method(`GET`, `POST`) and \
    Header(`Name`, `value`), each at most once, with && between them";
/// Hosts, and methods.
const MAX_ARGUMENTS: usize = 32;
/// Bytes of a path.
const MAX_PATH: usize = 2_048;
/// Bytes of the name of a host.
const MAX_HOST: usize = 255;

impl Rule {
    /// The rule that is written so; otherwise why it is none.
    pub(crate) fn parse(text: &str) -> Result<Rule, String> {
        let (mut rule, mut rest) = (Rule::default(), text.trim());
        loop {
            let (name, arguments, behind) = matcher(rest)?;
            rule.add(name, &arguments)?;
            rest = behind.trim_start();
            if rest.is_empty() {
                return Ok(rule);
            }
            rest = rest.strip_prefix("&&").ok_or(POSSIBLE)?.trim_start();
        }
    }

    fn add(&mut self, name: &str, arguments: &[String]) -> Result<(), String> {
        let is_second = match name {
            "Host" => !self.hosts.is_empty(),
            "Path" | "PathPrefix" => self.path.is_some(),
            "Method" => !self.methods.is_empty(),
            "Header" => self.header.is_some(),
            _ => false,
        };
        if is_second {
            return Err(format!("there is a second {name}: {POSSIBLE}"));
        }
        match (name, arguments) {
            ("Host", hosts) => {
                self.hosts = hosts.iter().map(|it| host(it)).collect::<Result<_, _>>()?;
            }
            ("Path", [path]) => self.path = Some(Path::Exact(literal_path(path)?)),
            ("PathPrefix", [path]) => self.path = Some(Path::Prefix(literal_path(path)?)),
            ("Method", methods) => {
                self.methods = methods.iter().map(|it| method(it)).collect::<Result<_, _>>()?;
            }
            ("Header", [name, value]) => self.header = Some(header(name, value)?),
            ("Path" | "PathPrefix", _) => return Err(format!("{name} takes one path: {POSSIBLE}")),
            ("Header", _) => return Err(format!("Header takes a name and a value: {POSSIBLE}")),
            _ => return Err(format!("there is no {name} here: {POSSIBLE}")),
        }
        Ok(())
    }

    /// The same as fields of a route.
    pub(crate) fn written(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut set = |key: &str, value: Value| drop(fields.insert(key.to_owned(), value));
        if !self.hosts.is_empty() {
            set("host", json!(self.hosts));
        }
        match &self.path {
            Some(Path::Exact(path)) => set("path", json!(path)),
            Some(Path::Prefix(path)) => set("prefix", json!(path)),
            None => {}
        }
        if !self.methods.is_empty() {
            set("methods", json!(self.methods));
        }
        if let Some((name, value)) = &self.header {
            set("headers", json!({ name: value }));
        }
        fields
    }
}

/// The first matcher: its name, its arguments, and what stands behind it.
fn matcher(text: &str) -> Result<(&str, Vec<String>, &str), String> {
    let length = text.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (name, rest) = text.split_at(length);
    let mut rest = rest.trim_start().strip_prefix('(').filter(|_| length > 0).ok_or(POSSIBLE)?;
    let mut arguments = Vec::new();
    loop {
        let (argument, behind) = quoted(rest.trim_start())?;
        arguments.push(argument);
        if arguments.len() > MAX_ARGUMENTS {
            return Err(format!("{name} takes at most {MAX_ARGUMENTS} values"));
        }
        let behind = behind.trim_start();
        if let Some(behind) = behind.strip_prefix(')') {
            return Ok((name, arguments, behind));
        }
        rest = behind.strip_prefix(',').ok_or(POSSIBLE)?;
    }
}

/// A text in backticks or in quotes without escapes, and what stands behind it.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let quote = text.chars().next().filter(|it| matches!(it, '`' | '"' | '\''));
    let quote = quote.ok_or("its values stand in backticks, as in Host(`a.example`)")?;
    let (inside, behind) = text[1..].split_once(quote).ok_or("a quote has no end")?;
    match quote != '`' && inside.contains('\\') {
        true => Err("escapes are not understood: put the value in backticks".to_owned()),
        false => Ok((inside.to_owned(), behind)),
    }
}

fn host(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    match (1..=MAX_HOST).contains(&name.len()) && name.bytes().all(is_taken) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(format!("{text:?} is no host; write it as Host(`a.example`)")),
    }
}

/// A path that is no pattern, although paths of routes are.
fn literal_path(text: &str) -> Result<String, String> {
    let is_taken = |byte: u8| byte.is_ascii_graphic() && !br"{}*\?#%".contains(&byte);
    let is_literal = !text.contains("/:") && text.bytes().all(is_taken);
    match text.starts_with('/') && text.len() <= MAX_PATH && is_literal {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "{text:?} is no path: it begins with `/`, is taken literally, and has none of `{{`, `}}`, `*`, `\\`, `?`, `#` and `%`"
        )),
    }
}

fn method(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.bytes().all(|it| it.is_ascii_uppercase()) {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no method; write it as Method(`GET`)")),
    }
}

fn header(name: &str, value: &str) -> Result<(String, String), String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_part);
    let is_value = !value.is_empty() && value.bytes().all(|it| matches!(it, b' '..=b'~'));
    match is_name && is_value {
        true => Ok((name.to_owned(), value.to_owned())),
        false => Err(format!("{name:?} and {value:?} are no header with a value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_fields_of_a_route() {
        for (text, fields) in [
            ("Host(`a.example`)", r#"{"host":["a.example"]}"#),
            (
                "Host(`A.example`,\"*.b.example\") && PathPrefix(`/x`)",
                r#"{"host":["a.example","*.b.example"],"prefix":"/x"}"#,
            ),
            ("  Path( `/` )&&Method(`GET` , 'POST')  ", r#"{"methods":["GET","POST"],"path":"/"}"#),
            (
                "Header(`X-Team`, `a b && Host(${HOME})`) && Host(`a`)",
                r#"{"headers":{"X-Team":"a b && Host(${HOME})"},"host":["a"]}"#,
            ),
        ] {
            let rule = Rule::parse(text).unwrap();
            assert_eq!(Value::Object(rule.written()).to_string(), fields, "{text}");
        }
    }

    #[test]
    fn what_means_something_else_is_no_rule() {
        for (text, wanted) in [
            ("", "a rule has Host("),
            ("Host(`a`) || Host(`b`)", "a rule has Host("),
            ("!Host(`a`)", "a rule has Host("),
            ("(Host(`a`))", "a rule has Host("),
            ("Host(`a`) && ", "a rule has Host("),
            ("Host(`a`) Path(`/`)", "a rule has Host("),
            ("Host()", "stand in backticks"),
            ("Host(a)", "stand in backticks"),
            ("Host(`a", "a quote has no end"),
            ("Host(`a`", "a rule has Host("),
            ("HostRegexp(`.*`)", "there is no HostRegexp here: a rule has"),
            ("Host(`a`) && Host(`b`)", "there is a second Host"),
            ("Path(`/a`) && PathPrefix(`/b`)", "there is a second PathPrefix"),
            ("PathPrefix(`/a`, `/b`)", "PathPrefix takes one path"),
            ("Header(`X-A`)", "Header takes a name and a value"),
            ("Path(`/{id}`)", "is taken literally"),
            ("Path(`/:id`)", "is taken literally"),
            ("Path(`a`)", "begins with `/`"),
            ("Method(`get`)", "is no method"),
            ("Host(`a b`)", "is no host"),
            ("Host(`a:80`)", "is no host"),
            ("Header(`X A`, `b`)", "are no header"),
            ("Host(\"a\\\"b\")", "escapes"),
        ] {
            let why = Rule::parse(text).unwrap_err();
            assert!(why.contains(wanted), "{text}: {why}");
        }
        let many = ["`a`"; MAX_ARGUMENTS + 1].join(",");
        assert!(Rule::parse(&format!("Host({many})")).unwrap_err().contains("at most 32"));
    }
}
