//! What a watch tells: lines to events, and these to keys.

use super::api::{Event, Fault, WatchLine, WatchResponse};
use super::keys::Keys;
use crate::delivery::{BadDelivery, MAX_DOCUMENTS, MAX_TEXTS};
use crate::lines::{Lines, TooLong};
use crate::message::shown;
use crate::outlet::Outlet;
use std::ops::ControlFlow;

/// A watch, as far as it was heard.
pub(crate) struct Watching<'k> {
    keys: &'k mut Keys,
    lines: Lines,
    /// Events of a revision of which more are to come.
    begun: Vec<Event>,
    /// Bytes of their keys and values.
    begun_size: usize,
    /// Whether the member has confirmed it.
    pub(crate) is_created: bool,
    /// Whether there is something that was not delivered.
    pub(crate) has_news: bool,
    /// How it has ended, if it has.
    pub(crate) end: Option<End>,
}

/// How a watch has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The revisions that it would begin with are gone.
    Compacted,
    /// The member is gone. What was heard before is whole.
    Lost(String),
    /// The member has ended it, or says what it should not.
    Failed(String),
}

/// Bytes of a line: the largest request that etcd may be configured to take is far below.
const MAX_LINE: usize = 2 * MAX_TEXTS;
/// Events of one revision.
const MAX_EVENTS: usize = 2 * MAX_DOCUMENTS;
/// Bytes of their keys and values.
const MAX_EVENTS_SIZE: usize = 2 * MAX_TEXTS;

impl Watching<'_> {
    /// A watch that keeps these up to date.
    pub(crate) fn new(keys: &mut Keys) -> Watching<'_> {
        Watching {
            keys,
            lines: Lines::new(MAX_LINE),
            begun: Vec::new(),
            begun_size: 0,
            is_created: false,
            has_news: false,
            end: None,
        }
    }

    /// Delivers the keys as they are now, if they are not what was delivered.
    pub(crate) fn tell(&mut self, outlet: &Outlet) -> Result<(), String> {
        if std::mem::take(&mut self.has_news) {
            let delivery = self.keys.delivery().map_err(|bad| bad.to_string())?;
            outlet.succeeded();
            outlet.deliver(delivery);
        }
        Ok(())
    }

    /// Takes a piece of the response, and breaks off where the watch has ended.
    pub(crate) fn take(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let mut lines = std::mem::replace(&mut self.lines, Lines::new(MAX_LINE));
        let taken = lines.take(piece, |line| self.take_line(line));
        self.lines = lines;
        self.end = taken.err();
        match self.end {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break(()),
        }
    }

    fn take_line(&mut self, line: &[u8]) -> Result<(), End> {
        if line.is_empty() {
            return Ok(());
        }
        let line: WatchLine = serde_json::from_slice(line).map_err(|error| {
            End::Failed(format!("its watch is not that of etcd: {}", shown(&error.to_string())))
        })?;
        match line {
            WatchLine { error: Some(fault), .. } => Err(ended(&fault)),
            WatchLine { result: Some(response), error: None } => self.take_response(response),
            WatchLine { result: None, error: None } => Ok(()),
        }
    }

    fn take_response(&mut self, response: WatchResponse) -> Result<(), End> {
        let WatchResponse { header, created, canceled, cancel_reason, compact_revision, .. } =
            response;
        if canceled {
            return Err(match compact_revision.0 {
                0 => ended(&Fault { message: cancel_reason, error: String::new() }),
                _ => End::Compacted,
            });
        }
        self.is_created |= created;
        if created {
            // Its revision is that of the member: events up to there may be on their way.
            return Ok(());
        }
        let is_news = !response.events.is_empty();
        self.hold(response.events)?;
        if response.fragment {
            return Ok(());
        }
        let events = std::mem::take(&mut self.begun);
        self.begun_size = 0;
        self.has_news |= is_news || !events.is_empty();
        Ok(self.keys.follow(events, header.revision)?)
    }

    /// Keeps events until all of their revision are there.
    fn hold(&mut self, events: Vec<Event>) -> Result<(), End> {
        let size = |event: &Event| event.kv.key.0.len() + event.kv.value.0.len();
        self.begun_size += events.iter().map(size).sum::<usize>();
        self.begun.extend(events);
        match self.begun.len() > MAX_EVENTS || self.begun_size > MAX_EVENTS_SIZE {
            true => Err(End::Failed("more has happened at once than documents may be".to_owned())),
            false => Ok(()),
        }
    }
}

impl From<TooLong> for End {
    fn from(TooLong: TooLong) -> End {
        End::Failed(format!("a line of its watch is longer than {MAX_LINE} bytes"))
    }
}

impl From<BadDelivery> for End {
    fn from(bad: BadDelivery) -> End {
        End::Failed(bad.to_string())
    }
}

fn ended(fault: &Fault) -> End {
    let text = fault.text();
    End::Failed(match text.as_str() {
        "" => "it has ended the watch".to_owned(),
        text => format!("it has ended the watch: {text}"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::api::{Bytes, Header, Number};
    use super::*;

    const CREATED: &str =
        r#"{"result":{"header":{"cluster_id":"1","revision":"99"},"created":true}}"#;

    fn keys() -> Keys {
        Keys::new(&Bytes::of("/t/"), Header { cluster_id: Number(1), revision: Number(5) })
    }

    /// A line with an event; keys are `/t/a` and `/t/b`.
    fn put(key: char, more: &str) -> String {
        let key = if key == 'a' { "L3QvYQ==" } else { "L3QvYg==" };
        format!(
            r#"{{"result":{{"header":{{"cluster_id":"1","revision":"7"}},"events":[{{"kv":{{"key":"{key}","value":"eA=="}}}}]{more}}}}}"#
        )
    }

    fn heard(lines: &[&str]) -> (Keys, bool, bool, Option<End>) {
        let mut keys = keys();
        let mut watching = Watching::new(&mut keys);
        for line in lines {
            if watching.take(format!("{line}\n").as_bytes()).is_break() {
                break;
            }
        }
        let Watching { is_created, has_news, end, .. } = watching;
        (keys, is_created, has_news, end)
    }

    #[test]
    fn events_are_followed_and_the_beginning_says_nothing() {
        let (keys, is_created, has_news, end) = heard(&[CREATED]);
        assert_eq!((is_created, has_news, end), (true, false, None));
        assert_eq!(keys.header().revision, Number(5));
        let (keys, _, has_news, end) = heard(&[CREATED, &put('a', ""), ""]);
        assert_eq!((has_news, end), (true, None));
        assert_eq!((keys.header().revision, keys.count()), (Number(7), Number(1)));
    }

    #[test]
    fn fragments_are_taken_as_one() {
        let (keys, _, has_news, _) = heard(&[CREATED, &put('a', r#","fragment":true"#)]);
        assert_eq!((keys.count(), keys.header().revision, has_news), (Number(0), Number(5), false));
        let (keys, _, has_news, _) =
            heard(&[CREATED, &put('a', r#","fragment":true"#), &put('b', "")]);
        assert_eq!((keys.count(), keys.header().revision, has_news), (Number(2), Number(7), true));
    }

    #[test]
    fn a_revision_without_events_is_progress() {
        let progress = r#"{"result":{"header":{"cluster_id":"1","revision":"8"}}}"#;
        let (keys, _, has_news, end) = heard(&[CREATED, progress]);
        assert_eq!((keys.header().revision, has_news, end), (Number(8), false, None));
    }

    #[test]
    fn an_end_says_why() {
        let compacted = r#"{"result":{"canceled":true,"compact_revision":"9"}}"#;
        assert_eq!(heard(&[CREATED, compacted]).3, Some(End::Compacted));
        let denied = r#"{"result":{"created":true,"canceled":true,"cancel_reason":"permission denied\u001b"}}"#;
        let why = "it has ended the watch: permission denied".to_owned();
        assert_eq!(heard(&[denied]).3, Some(End::Failed(why.clone())));
        let error = r#"{"error":{"grpc_code":7,"message":"permission denied"}}"#;
        assert_eq!(heard(&[error]).3, Some(End::Failed(why)));
        assert!(matches!(heard(&["<html>"]).3, Some(End::Failed(_))));
    }
}
