//! Events as lines: for people, for the journal, for programs.

use super::event::{Event, Field};
use super::text::Text;
use std::fmt::Write;
use std::time::SystemTime;
use time::OffsetDateTime;
use titan_config::{EventFormat, LogLevel};

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) format: EventFormat,
    /// Whether the journal reads them, which notes the time itself and takes the level from a prefix (sd-daemon(3)).
    pub(super) for_journal: bool,
}

impl Form {
    /// The line for an event, with its end.
    pub(super) fn line(self, event: &Event) -> String {
        let mut line = String::new();
        if self.for_journal {
            line.push_str(prefix(event.level));
        }
        match self.format {
            EventFormat::Text => self.write_text(event, &mut line),
            EventFormat::Json => write_json(event, &mut line),
        }
        line.push('\n');
        line
    }

    fn write_text(self, event: &Event, line: &mut String) {
        let Event { time, level, area, message, fields, count, .. } = event;
        if !self.for_journal {
            write_time(*time, line);
            line.push(' ');
        }
        put(line, format_args!("{level} {area}"));
        for (field, value) in fields {
            put(line, format_args!(" {}=", field.as_str()));
            write_value(value, line);
        }
        if *count > 1 {
            put(line, format_args!(" count={count}"));
        }
        put(line, format_args!(" {message}"));
    }
}

/// What the journal takes for the level.
fn prefix(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "<3>",
        LogLevel::Warn => "<4>",
        LogLevel::Info => "<6>",
        LogLevel::Debug => "<7>",
    }
}

/// A moment as RFC 3339 has it, in UTC and with milliseconds.
fn write_time(time: SystemTime, line: &mut String) {
    let time = OffsetDateTime::from(time);
    let (year, month, day) = time.to_calendar_date();
    let (hour, minute, second, milli) = time.to_hms_milli();
    put(
        line,
        format_args!(
            "{year:04}-{:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z",
            u8::from(month)
        ),
    );
}

/// A value that ends where it seems to: in quotes, unless it is one word.
fn write_value(value: &Text, line: &mut String) {
    let value = value.as_str();
    let is_plain = |c: char| c.is_alphanumeric() || "-._:/@[]%+,~".contains(c);
    match !value.is_empty() && value.chars().all(is_plain) {
        true => line.push_str(value),
        false => write_quoted(value, line),
    }
}

/// A JSON string.
fn write_quoted(value: &str, line: &mut String) {
    line.push_str(&serde_json::Value::from(value).to_string());
}

/// An object. The names of its members stay as they are: programs read them.
fn write_json(event: &Event, line: &mut String) {
    let Event { time, level, area, kind, message, fields, count, subject: _, repeat: _ } = event;
    line.push_str(r#"{"time":""#);
    write_time(*time, line);
    put(line, format_args!(r#"","level":"{level}","area":"{area}","event":"{kind}","message":"#));
    write_quoted(message.as_str(), line);
    for (field, value) in fields {
        put(line, format_args!(r#","{}":"#, Field::as_str(*field)));
        write_quoted(value.as_str(), line);
    }
    if *count > 1 {
        put(line, format_args!(r#","count":{count}"#));
    }
    line.push('}');
}

fn put(line: &mut String, text: std::fmt::Arguments<'_>) {
    line.write_fmt(text).expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};
    use titan_config::LogArea;

    fn event() -> Event {
        let what = "is ejected for 30s: \"5\" in a row\nfailed";
        Event::new((LogArea::Health, LogLevel::Warn), "ejected", what)
            .with(Field::Upstream, "api")
            .with(Field::Endpoint, "10.0.0.1:80")
            .at(UNIX_EPOCH + Duration::from_millis(1_795_796_400_123))
    }

    fn line(format: EventFormat, for_journal: bool, event: &Event) -> String {
        Form { format, for_journal }.line(event)
    }

    #[test]
    fn people_get_a_line() {
        assert_eq!(
            line(EventFormat::Text, false, &event()),
            "2026-11-27T16:20:00.123Z warn health upstream=api endpoint=10.0.0.1:80 \
             is ejected for 30s: \"5\" in a row\u{fffd}failed\n"
        );
        let repeated = event().times(3);
        assert!(line(EventFormat::Text, false, &repeated).contains(" count=3 is ejected"));
    }

    #[test]
    fn the_journal_gets_the_level_and_no_time() {
        let line = line(EventFormat::Text, true, &event());
        assert!(line.starts_with("<4>warn health upstream=api "), "{line}");
    }

    #[test]
    fn programs_get_an_object() {
        let line = line(EventFormat::Json, false, &event().times(3));
        assert_eq!(
            line,
            "{\"time\":\"2026-11-27T16:20:00.123Z\",\"level\":\"warn\",\"area\":\"health\",\"event\":\"ejected\",\
             \"message\":\"is ejected for 30s: \\\"5\\\" in a row\u{fffd}failed\",\"upstream\":\"api\",\
             \"endpoint\":\"10.0.0.1:80\",\"count\":3}\n"
        );
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok());
    }

    #[test]
    fn a_value_cannot_seem_to_be_another_field() {
        let area = (LogArea::Admin, LogLevel::Info);
        let event = Event::new(area, "call", "GET /").with(Field::Caller, "a code=b\" c");
        let line = line(EventFormat::Text, true, &event);
        assert_eq!(line, "<6>info admin caller=\"a code=b\\\" c\" GET /\n");
    }
}
