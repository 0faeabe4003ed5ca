//! `/recorder` and `/tap`: the last exchanges, and exchanges as they end.

use crate::calls::last_segment;
use crate::http::{NotSent, PieceSender, Request, Response, pieces};
use crate::orders::{Explained, Orders, Question};
use crate::reloads::Reloads;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};
use titan_http::{FieldName, RequestHead, Status, query};
use titan_observe::format::FullFormatter;
use titan_observe::record::{Recorded, Replayed};
use titan_observe::recorder::{Coverage, Filter, Found, Recorder, Tap};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Looks for exchanges, one search at a time: each reads all of the memory.
pub(crate) struct Searches(Semaphore);

/// What is asked for.
#[derive(Debug, PartialEq)]
struct Wanted {
    filter: Filter,
    /// How many exchanges; of a tap in each second.
    most: usize,
}

/// How a tap is written.
#[derive(Clone, Copy)]
enum Form {
    /// An object on a line of its own.
    Lines,
    /// Server-sent events.
    Events,
}

const JSON: &str = "application/json";
/// How many exchanges are shown at once, unless the query says otherwise.
const SHOWN: usize = 50;
const MOST_SHOWN: usize = 1_000;
/// How many are written before others have their turn.
const AT_ONCE: usize = 64;
/// How many exchanges a tap tells in a second.
const RATE: usize = 100;
/// Each is written on the one thread of the interface, for as many taps as there may be.
const MOST_RATE: usize = 1_000;
/// The most bytes of exchanges in a response; the rest is left out.
const MOST_BYTES: usize = 16 << 20;
/// Why there is nothing to explain of a request whose head could not be read.
const NO_HEAD: &str = "its head could not be read, so it is not known what it asked for";
/// Workers hand on what has happened at least that often.
const HANDED_ON: Duration = Duration::from_millis(100);
/// How long an exchange is waited for that has only just happened.
const LOOKS: usize = 4;
/// A line that says nothing keeps a stream from looking dead.
const BEAT: Duration = Duration::from_secs(10);

impl Default for Searches {
    fn default() -> Searches {
        Searches(Semaphore::new(1))
    }
}

impl Searches {
    /// The exchanges that a query asks for, the latest first.
    pub(crate) async fn list(&self, recorder: &Recorder, request: &Request) -> Response {
        let wanted = match wanted(&request.head, ("limit", SHOWN, MOST_SHOWN)) {
            Ok(wanted) => wanted,
            Err(fault) => return Response::problem(Status::BAD_REQUEST, &fault),
        };
        let covers = recorder.coverage();
        let found = self.find(recorder, wanted).await;
        Response::new(Status::OK, JSON, listing(&found, covers).await)
    }

    /// The exchange with the id that the path ends with, and why it came to that where the query asks.
    pub(crate) async fn read(
        &self,
        recorder: &Recorder,
        request: &Request,
        (orders, reloads): (&Orders, &Reloads),
    ) -> Response {
        let is_explained = match explains(&request.head) {
            Ok(is_explained) => is_explained,
            Err(fault) => return Response::problem(Status::BAD_REQUEST, fault),
        };
        let id = query::decode(last_segment(request.head.path()));
        let id = String::from_utf8_lossy(&id).into_owned();
        let filter = Filter { id: Some(id), ..Filter::default() };
        for look in 0..LOOKS {
            if look > 0 {
                sleep(HANDED_ON).await;
            }
            let wanted = Wanted { filter: filter.clone(), most: 1 };
            let found = self.find(recorder, wanted).await;
            if let Some((record, _)) = found.records.first().and_then(|it| Recorded::first_of(it)) {
                let mut text = Vec::new();
                FullFormatter::default().object_with_bodies(&record, &mut text);
                if is_explained {
                    text.pop();
                    let explanation = explanation(&record, orders, reloads).await;
                    text.extend_from_slice(format!(",\"explanation\":{explanation}}}").as_bytes());
                }
                text.push(b'\n');
                return Response::new(Status::OK, JSON, text);
            }
        }
        Response::problem(Status::NOT_FOUND, &not_there(recorder.coverage()))
    }

    /// Reads all of the memory, and lets others have their turn after each piece of it.
    async fn find(&self, recorder: &Recorder, wanted: Wanted) -> Found {
        let _turn = self.0.acquire().await;
        let mut search = recorder.search(wanted.filter, wanted.most);
        while search.step() {
            yield_now().await;
        }
        search.found()
    }
}

/// Whether a query asks for an explanation.
fn explains(head: &RequestHead) -> Result<bool, &'static str> {
    let pairs: Vec<_> = query::pairs(head.query()).collect();
    match pairs.iter().map(|(name, value)| (&**name, &**value)).collect::<Vec<_>>()[..] {
        [] | [(b"explain", b"false")] => Ok(false),
        [(b"explain", b"true")] => Ok(true),
        _ => Err("expected no parameter, or `explain=true`"),
    }
}

/// What the configuration in force makes of a request that was recorded, and why. Its body and the
/// certificate of its client are not known.
async fn explanation(record: &Recorded<'_>, orders: &Orders, reloads: &Reloads) -> Value {
    let since = reloads.attempts().in_force_since.duration_since(UNIX_EPOCH).unwrap_or_default();
    let is_same = u128::from(record.facts.started) >= since.as_micros();
    if !record.has_head() {
        return json!({
            "same_configuration": is_same,
            "replaced": [],
            "text": NO_HEAD,
            "outcome": null,
        });
    }
    let replayed = record.replayed();
    let question = Question {
        method: replayed.method.clone(),
        url: replayed.url.clone(),
        fields: replayed.fields.clone(),
        client: replayed.peer,
    };
    match orders.explain(question).await {
        Ok(Explained { text, json }) => json!({
            "same_configuration": is_same,
            "replaced": replayed.replaced,
            "text": replayed.mask(&text),
            "outcome": masked(&replayed, json),
        }),
        Err(why) => json!({
            "same_configuration": is_same,
            "replaced": replayed.replaced,
            "text": replayed.mask(&why.to_string()),
            "outcome": null,
        }),
    }
}

/// A document with stars in place of secrets in its texts.
fn masked(replayed: &Replayed, document: Value) -> Value {
    match document {
        Value::String(text) => Value::String(replayed.mask(&text)),
        Value::Array(items) => items.into_iter().map(|item| masked(replayed, item)).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            Value::Object(members.map(|(key, value)| (key, masked(replayed, value))).collect())
        }
        other => other,
    }
}

/// Exchanges as they end, until the reader goes.
pub(crate) fn tap(recorder: &Recorder, request: &Request) -> Response {
    let Wanted { filter, most } = match wanted(&request.head, ("rate", RATE, MOST_RATE)) {
        Ok(wanted) => wanted,
        Err(fault) => return Response::problem(Status::BAD_REQUEST, &fault),
    };
    if recorder.coverage().bytes_at_most == 0 {
        let detail = "the recorder is off: no exchange is told of; remove `recorder: off` from the configuration";
        return Response::problem(Status::CONFLICT, detail);
    }
    let rate = u32::try_from(most).unwrap_or(u32::MAX);
    let Ok(tap) = recorder.tap(filter, rate) else {
        let refusal =
            Response::problem(Status::SERVICE_UNAVAILABLE, "too many taps are open: close some");
        return refusal.with(FieldName::RetryAfter, "10");
    };
    let form = Form::of(&request.head);
    let (reader, rest) = pieces();
    tokio::spawn(tell(tap, reader, form));
    Response::new(Status::OK, form.media_type(), form.beat()).followed_by(rest)
}

async fn tell(mut tap: Tap, reader: PieceSender, form: Form) {
    let (mut formatter, mut beats) = (FullFormatter::default(), interval(BEAT));
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let (piece, told) = tokio::select! {
            record = tap.next() => match record {
                Some(record) => (form.exchange(&record, &mut formatter), 1),
                None => break,
            },
            () = reader.gone() => return,
            _ = beats.tick() => match tap.take_skipped() {
                0 => (form.beat(), 0),
                skipped => (form.skipped(skipped), skipped),
            },
        };
        // What a slow reader does not take is left out, and counted.
        match reader.send(piece) {
            Ok(()) => {}
            Err(NotSent::Full) => tap.skip(told),
            Err(NotSent::Gone) => return,
        }
        // There may be a record at each turn, and others have theirs in between.
        yield_now().await;
    }
    let skipped = tap.take_skipped();
    if skipped > 0 {
        // Nothing follows that could tell of a reader that takes no more.
        let _ = reader.send(form.skipped(skipped));
    }
}

impl Form {
    fn of(head: &RequestHead) -> Form {
        let accepts = head.fields.named(b"accept").any(|value| {
            let mut parts = value.split(|byte| b",;".contains(byte));
            parts.any(|part| part.trim_ascii().eq_ignore_ascii_case(b"text/event-stream"))
        });
        if accepts { Form::Events } else { Form::Lines }
    }

    fn media_type(self) -> &'static str {
        match self {
            Form::Lines => "application/x-ndjson",
            Form::Events => "text/event-stream",
        }
    }

    fn exchange(self, record: &[u8], formatter: &mut FullFormatter) -> Vec<u8> {
        let Some((record, _)) = Recorded::first_of(record) else { return Vec::new() };
        let mut piece = match self {
            Form::Lines => Vec::new(),
            Form::Events => b"event: exchange\ndata: ".to_vec(),
        };
        formatter.object(&record, &mut piece);
        piece.extend_from_slice(self.end());
        piece
    }

    fn skipped(self, count: usize) -> Vec<u8> {
        let object = format!("{{\"skipped\":{count}}}");
        match self {
            Form::Lines => format!("{object}\n"),
            Form::Events => format!("event: skipped\ndata: {object}\n\n"),
        }
        .into_bytes()
    }

    fn beat(self) -> Vec<u8> {
        match self {
            Form::Lines => b"\n".to_vec(),
            Form::Events => b":\n\n".to_vec(),
        }
    }

    fn end(self) -> &'static [u8] {
        match self {
            Form::Lines => b"\n",
            Form::Events => b"\n\n",
        }
    }
}

async fn listing(found: &Found, covers: Coverage) -> Vec<u8> {
    let (mut text, mut formatter) = (b"{\"exchanges\":[".to_vec(), FullFormatter::default());
    let mut has_more = found.has_more;
    for (place, record) in found.records.iter().enumerate() {
        if place % AT_ONCE == AT_ONCE - 1 {
            yield_now().await;
        }
        let Some((record, _)) = Recorded::first_of(record) else { continue };
        if text.len() > MOST_BYTES {
            has_more = true;
            break;
        }
        if place > 0 {
            text.push(b',');
        }
        formatter.object(&record, &mut text);
    }
    let Coverage { since, bytes, bytes_at_most } = covers;
    let since = since.map_or("null".to_owned(), |since| {
        format!("{}.{:06}", since / 1_000_000, since % 1_000_000)
    });
    let rest = format!(
        "],\"has_more\":{has_more},\"covers\":{{\"since\":{since},\"bytes\":{bytes},\"bytes_at_most\":{bytes_at_most}}}}}\n"
    );
    text.extend_from_slice(rest.as_bytes());
    text
}

fn not_there(covers: Coverage) -> String {
    match covers {
        Coverage { bytes_at_most: 0, .. } => {
            "the recorder is off; remove `recorder: off` from the configuration to have the next exchanges kept".to_owned()
        }
        Coverage { bytes_at_most, .. } => format!(
            "no such exchange is recorded: it is not over yet, was never here, or has given way to later ones; the last {} MiB of \
             records are kept (`recorder.memory`)",
            bytes_at_most >> 20
        ),
    }
}

/// Reads a query; what is wrong with it otherwise.
fn wanted(
    head: &RequestHead,
    (count, usual, most): (&str, usize, usize),
) -> Result<Wanted, String> {
    let mut wanted = Wanted { filter: Filter::default(), most: usual };
    for (name, value) in query::pairs(head.query()) {
        let [name, value] = [name, value].map(text);
        let (name, value) = (name?, value?);
        if name == count {
            let number: Option<usize> = value.parse().ok();
            let number = number.filter(|number| (1..=most).contains(number));
            wanted.most =
                number.ok_or_else(|| format!("`{count}`: write a number from 1 to {most}"))?;
        } else if !wanted.filter.set(&name, &value).map_err(|bad| bad.to_string())? {
            let names = Filter::NAMES.map(|name| format!("`{name}`")).join(", ");
            return Err(format!(
                "there is no condition of that name; there are {names} and `{count}`"
            ));
        }
    }
    Ok(wanted)
}

fn text(bytes: Cow<'_, [u8]>) -> Result<String, String> {
    String::from_utf8(bytes.into_owned()).map_err(|_| "the query is not UTF-8".to_owned())
}
