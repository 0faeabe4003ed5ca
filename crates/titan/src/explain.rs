//! `titan explain`: what a request would get, and what became of one.

use crate::cases;
use crate::cli::{ExplainOptions, GatewayOption};
use crate::client::Client;
use crate::config_file;
use crate::demo;
use crate::explained;
use crate::failure::Failure;
use crate::recorder::{Exchange, encoded, page};
use crate::terminal;
use crate::top::plain;
use serde_json::Value;
use std::process::ExitCode;
use titan_proxy::{Asking, Files};

/// Explains a request that a client would send, or one that a gateway has served.
pub(crate) fn explain(options: &ExplainOptions) -> Result<ExitCode, Failure> {
    let ExplainOptions {
        method, target, fields, client_cert, from, as_test, json, id, config, ..
    } = options;
    if let Some(id) = id {
        return explain_recorded(id, options);
    }
    let named = config.config.as_deref();
    let (config, files) = match named {
        Some(file) => {
            let config = config_file::read(file)?;
            let files = config_file::read_named(&config, file);
            (config, files)
        }
        None => {
            if !json {
                terminal::print(demo::FOR_READING)?;
            }
            (demo::config_for_reading(), Files::default())
        }
    };
    let certificate = client_cert.as_deref().map(config_file::read_certificate).transpose()?;
    let asking = Asking {
        method: method.as_deref().unwrap_or_default(),
        url: target.as_deref().unwrap_or_default(),
        fields,
        certificate: certificate.as_deref(),
        from: *from,
    };
    let explanation = titan_proxy::explain(&config, &files, &asking)?;
    let text = match (json, as_test) {
        (true, _) => format!("{:#}\n", explained::shown(&explanation, &config).json),
        (_, true) => config.mask(cases::as_test(
            &asking,
            client_cert.as_deref(),
            named,
            &explanation.outcome,
        )),
        (false, false) => config.mask(explanation.to_string()),
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Tells what has become of a request, and what the configuration in force makes of it.
fn explain_recorded(id: &str, options: &ExplainOptions) -> Result<ExitCode, Failure> {
    let ExplainOptions { json, socket, address, config, .. } = options;
    let gateway = GatewayOption { socket: socket.clone(), config: config.config.clone() };
    let client = Client::find_at(address, &gateway)?;
    let target = format!("/recorder/{}?explain=true", encoded(id));
    let document = client.document(&target, &["request_id", "explanation"])?;
    let unjudged = unjudged(&document["explanation"]);
    terminal::print(&match (json, &unjudged) {
        (true, _) => format!("{document:#}\n"),
        (false, None) => recorded(&document),
        (false, Some(_)) => page(&Exchange(&document)),
    })?;
    unjudged.map_or(Ok(ExitCode::SUCCESS), |why| Err(Failure::Runtime(why)))
}

/// Why the configuration makes nothing of a request, if it does not.
fn unjudged(explanation: &Value) -> Option<String> {
    let why = explanation["text"].as_str().unwrap_or_default();
    let is_judged = !explanation["outcome"].is_null();
    (!is_judged).then(|| format!("this request cannot be judged: {}", plain(why.trim_end())))
}

fn recorded(document: &Value) -> String {
    let explanation = &document["explanation"];
    let since = match explanation["same_configuration"].as_bool() {
        Some(true) => "which was in force then",
        _ => "which came into force later",
    };
    let replaced = explanation["replaced"].as_array().into_iter().flatten();
    let replaced: Vec<_> = replaced.filter_map(Value::as_str).map(plain).collect();
    let but = match replaced.is_empty() {
        true => String::new(),
        false => format!(" (stars stand for secrets in {})", replaced.join(", ")),
    };
    let text = explanation["text"].as_str().unwrap_or("-\n");
    let lines: Vec<_> = text.lines().map(plain).collect();
    let page = page(&Exchange(document));
    format!("{page}\nwhat the configuration makes of it, {since}{but}\n{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_became_of_a_request_is_followed_by_why() {
        let mut document = json!({
            "time": "2026-11-27T16:20:00.1Z", "method": "GET", "scheme": "http", "host": "a", "path": "/", "status": 404,
            "decisions": [{ "what": "route", "text": "no route takes the request" }],
            "explanation": { "same_configuration": true, "text": "route  none\n\u{1b}[31m\n", "outcome": null }
        });
        let text = recorded(&document);
        assert!(text.starts_with("GET http://a/\n"), "{text}");
        let end = "\nwhat the configuration makes of it, which was in force then\nroute  none\n\\u{1b}[31m\n";
        assert!(text.ends_with(end), "{text}");
        document["explanation"]["same_configuration"] = json!(false);
        assert!(recorded(&document).contains(", which came into force later\n"));
    }

    #[test]
    fn what_cannot_be_judged_says_why() {
        let judged = json!({ "text": "route  none\n", "outcome": {} });
        assert_eq!(unjudged(&judged), None);
        let explanation = json!({ "text": "its head\u{1b}[31m\n", "outcome": null });
        let why = "this request cannot be judged: its head\\u{1b}[31m";
        assert_eq!(unjudged(&explanation).as_deref(), Some(why));
    }
}
