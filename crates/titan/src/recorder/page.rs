//! An exchange as text for a terminal. What is from the network is shown, and nothing of it is obeyed.

use super::line;
use crate::top::plain;
use serde_json::Value;
use time::OffsetDateTime;

/// A recorded exchange, as the admin interface shows it.
pub(crate) struct Exchange<'e>(pub(crate) &'e Value);

impl Exchange<'_> {
    /// The most important of it in one line.
    pub(crate) fn line(&self) -> String {
        let mut parts = vec![
            self.text("time"),
            self.status(),
            self.text("method"),
            self.url(),
            self.duration("duration_ms"),
        ];
        for name in ["event", "route", "endpoint", "error", "caused_by", "refused_by"] {
            let value = self.text(name);
            if value != "-" && value != "request" {
                parts.push(format!("{name}={value}"));
            }
        }
        if self.0["attempts"].as_u64() > Some(1) {
            parts.push(format!("attempts={}", self.0["attempts"]));
        }
        parts.push(format!("id={}", self.text("request_id")));
        parts.join(" ")
    }

    /// A text of it; `-` where there is none.
    fn text(&self, name: &str) -> String {
        self.0[name].as_str().map_or_else(|| "-".to_owned(), plain)
    }

    fn status(&self) -> String {
        self.0["status"].as_u64().map_or_else(|| "---".to_owned(), |status| status.to_string())
    }

    fn duration(&self, name: &str) -> String {
        self.0[name].as_f64().map_or_else(|| "-".to_owned(), |millis| format!("{millis:.1} ms"))
    }

    /// What was requested, if its head could be read, or that nothing was.
    fn request(&self) -> String {
        let is_connection = self.0["event"] == "connection";
        match self.0["method"].is_string() {
            true => format!("{} {}://{}", self.text("method"), self.text("scheme"), self.url()),
            false if is_connection => format!("a connection of {}", self.text("protocol")),
            false => "no request head".to_owned(),
        }
    }

    fn url(&self) -> String {
        let query =
            self.0["query"].as_str().map_or_else(String::new, |it| format!("?{}", plain(it)));
        let host = self.0["host"].as_str().map_or_else(String::new, plain);
        format!("{host}{}{query}", self.text("path"))
    }
}

/// Everything that is known of an exchange.
pub(crate) fn page(exchange: &Exchange<'_>) -> String {
    let mut text = String::new();
    let add = &mut text;
    line(add, format_args!("{}", exchange.request()));
    let over = match exchange.text("tls_version").as_str() {
        "-" => exchange.text("protocol"),
        tls => format!("{} over {tls}", exchange.text("protocol")),
    };
    line(
        add,
        format_args!(
            "  {over} from {} at listener {}",
            exchange.text("client"),
            exchange.text("listener")
        ),
    );
    line(
        add,
        format_args!(
            "  began {}, took {}",
            exchange.text("time"),
            exchange.duration("duration_ms")
        ),
    );
    line(add, format_args!("  id {}", exchange.text("request_id")));
    if exchange.0["trace_id"].is_string() {
        line(add, format_args!("  trace {}", exchange.text("trace_id")));
    }
    decisions(exchange, add);
    phases(exchange, add);
    for title in ["request", "response"] {
        pairs(exchange, title, &format!("{title}_head"), add);
        cut(&exchange.0[format!("{title}_cut")], add);
        body(exchange, &format!("{title} body"), &format!("{title}_body"), add);
    }
    pairs(exchange, "claims", "claims", add);
    text
}

fn decisions(exchange: &Exchange<'_>, text: &mut String) {
    line(text, format_args!("\nwhat happened"));
    for decision in exchange.0["decisions"].as_array().into_iter().flatten() {
        let at = decision["at_ms"].as_f64().map_or_else(String::new, |at| format!("{at:.3} ms"));
        let what = decision["text"].as_str().map_or_else(|| "-".to_owned(), plain);
        line(text, format_args!("  {at:>13}  {what}"));
    }
}

fn phases(exchange: &Exchange<'_>, text: &mut String) {
    let all = [
        ("head_ms", "until the head of the request was complete"),
        ("policies_ms", "policies"),
        ("queue_ms", "waiting for a turn"),
        ("connect_ms", "connecting to the endpoint"),
        ("tls_ms", "TLS with the endpoint"),
        ("upstream_head_ms", "until the head of its response"),
        ("duration_ms", "in all"),
    ];
    line(text, format_args!("\nhow long it took"));
    for (name, what) in all {
        if let Some(millis) = exchange.0[name].as_f64() {
            line(text, format_args!("  {:>13}  {what}", format!("{millis:.3} ms")));
        }
    }
    let bytes = |name: &str| exchange.0[name].as_u64().unwrap_or(0);
    let (sent, got) = (bytes("request_bytes"), bytes("response_bytes"));
    line(text, format_args!("\n{sent} bytes from the client, {got} bytes to it"));
}

fn pairs(exchange: &Exchange<'_>, title: &str, name: &str, text: &mut String) {
    let all = exchange.0[name].as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        return;
    }
    line(text, format_args!("\n{title}"));
    for pair in all {
        let [name, value] =
            [0, 1].map(|place| pair[place].as_str().map_or_else(String::new, plain));
        line(text, format_args!("  {name}: {value}"));
    }
}

/// What is not there of a head that was too long to be kept.
fn cut(cut: &Value, text: &mut String) {
    let count = |name: &str| cut[name].as_u64().unwrap_or(0);
    for (count, what) in [(count("missing"), "not kept"), (count("shortened"), "cut off")] {
        match count {
            0 => {}
            1 => line(text, format_args!("  ... 1 field is {what}")),
            _ => line(text, format_args!("  ... {count} fields are {what}")),
        }
    }
}

/// The beginning of a body, if it is kept.
fn body(exchange: &Exchange<'_>, title: &str, name: &str, text: &mut String) {
    let body = &exchange.0[name];
    let (Some(whole), Some(kept)) = (body["bytes"].as_u64(), body["kept"].as_u64()) else { return };
    let extent = match kept < whole {
        true => format!("the first {kept} of {whole} bytes"),
        false => format!("{whole} bytes"),
    };
    let form = if body["encoding"] == "base64" { ", in base64" } else { "" };
    line(text, format_args!("\n{title}, {extent}{form}"));
    for shown in body["content"].as_str().unwrap_or_default().lines() {
        let columns: Vec<_> = shown.split('\t').map(plain).collect();
        line(text, format_args!("{}", format!("  {}", columns.join("    ")).trim_end()));
    }
}

/// A time in seconds since 1970 as the clock shows it, in UTC.
pub(super) fn clock_time(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a time of a clock")]
    let time = OffsetDateTime::from_unix_timestamp(seconds as i64);
    time.map_or_else(
        |_| "-".to_owned(),
        |time| {
            let (hour, minute, second) = time.to_hms();
            format!("{} {hour:02}:{minute:02}:{second:02} UTC", time.date())
        },
    )
}
