//! Whether two responses are equal, and what is shown of their differences. Pure; no I/O.
//!
//! What a response says may be secret. Of values that the configuration does not have shown only the type and the length are, of
//! those whose name tells that they are secret too, and of lists and objects always.

use super::{
    CallStatus, Captured, CapturedBody, CapturedHead, MOST_PLACES, NotCompared, shortened,
};
use crate::json::{self, Document, Kind, Step, Value};
use std::borrow::Cow;
use std::collections::BTreeSet;
use titan_config::{ByteSize, Comparison, HeaderName, MemberPattern};
use titan_observe::secret::is_secret;
use titan_policies::compress::{ContentCoding, decode_whole};

/// What comes of comparing two responses.
pub(super) enum Verdict {
    Equal,
    Different(Differences),
    NotCompared(NotCompared),
}

/// Where two responses differ.
#[derive(Default)]
pub(super) struct Differences {
    /// By part, in the order of [`Place::PARTS`].
    pub(super) parts: [bool; Place::PARTS.len()],
    /// Where, each once, with items of lists as one.
    pub(super) places: Vec<(&'static str, String)>,
    /// The first of them.
    pub(super) shown: Vec<ResponseDifference>,
    /// In how many places.
    pub(super) count: usize,
}

/// A place at which two responses differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseDifference {
    /// Which part of the response: `status`, `header` or `body`.
    pub part: &'static str,
    /// The name of the header, `grpc-status` for that of a gRPC call, or a JSON pointer into the body; nothing for the status of HTTP and
    /// for the body as a whole.
    pub place: String,
    /// What the upstream of the request has there, if anything.
    pub original: Option<ShownValue>,
    /// What the mirror has there, if anything.
    pub mirror: Option<ShownValue>,
}

/// What is shown of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownValue {
    /// Its type, as JSON has them; headers are strings.
    pub kind: &'static str,
    /// How many bytes it has in the response.
    pub bytes: usize,
    /// Its beginning, as it stands in the response, unless it is not to be seen.
    pub value: Option<String>,
}

/// A part of a response.
pub(super) enum Place {
    Status,
    Header,
    Body,
}

impl Place {
    /// What the parts are called.
    pub(super) const PARTS: [&'static str; 3] = ["status", "header", "body"];
}

/// What the status of a gRPC call is called.
const GRPC_STATUS: &str = "grpc-status";
/// How many differences of two responses are shown.
const MOST_DIFFERENCES: usize = 10;
/// Bytes that are shown of a value.
const MOST_OF_VALUE: usize = 100;
/// Bytes that are shown of a place.
const MOST_OF_PLACE: usize = 200;

/// Headers that lead somewhere, or say who somebody is, in values of their own.
const NEVER_SHOWN: [&str; 6] = [
    "authentication-info",
    "link",
    "location",
    "proxy-authenticate",
    "refresh",
    "www-authenticate",
];

/// Compares the response to a request with that to its copy. Where the status differs nothing else is looked at: what follows
/// from that is not news.
pub(super) fn compare(config: &Comparison, responses: &[Captured; 2]) -> Verdict {
    let mut differences = Differences::default();
    let heads = responses.each_ref().map(|response| &response.head);
    differences.compare_status(heads);
    let mut uncompared = None;
    if differences.count == 0 {
        differences.compare_headers(config, heads);
        uncompared = differences.compare_bodies(config, responses).err();
    }
    match uncompared {
        _ if differences.count > 0 => Verdict::Different(differences),
        Some(reason) => Verdict::NotCompared(reason),
        None => Verdict::Equal,
    }
}

impl Differences {
    fn compare_status(&mut self, heads: [&CapturedHead; 2]) {
        let codes = heads.map(|head| head.status.code().to_string());
        if codes[0] != codes[1] {
            let shown = |code: &String| Some(ShownValue::of("number", code.as_bytes(), true));
            self.add((Place::Status, ""), "", || codes.each_ref().map(shown));
            return;
        }
        let calls = heads.map(|head| head.call);
        if calls[0] != calls[1] {
            let shown = |call: CallStatus| {
                let CallStatus::Known(Some(number)) = call else { return None };
                Some(ShownValue::of("number", number.to_string().as_bytes(), true))
            };
            self.add((Place::Status, GRPC_STATUS), GRPC_STATUS, || calls.map(shown));
        }
    }

    fn compare_headers(&mut self, config: &Comparison, heads: [&CapturedHead; 2]) {
        for (index, name) in config.headers.iter().enumerate() {
            let values = heads.map(|head| head.headers[index].as_deref());
            if values[0] != values[1] {
                let is_shown = is_shown(name);
                let shown = |value: &[u8]| ShownValue::of("string", value, is_shown);
                let name = name.as_str();
                self.add((Place::Header, name), name, || values.map(|it| it.map(shown)));
            }
        }
    }

    fn compare_bodies(
        &mut self,
        config: &Comparison,
        responses: &[Captured; 2],
    ) -> Result<(), NotCompared> {
        let bodies = match responses.each_ref().map(|response| &response.body) {
            [CapturedBody::Off, _] | [_, CapturedBody::Off] => return Ok(()),
            [CapturedBody::Missing(reason), _] | [_, CapturedBody::Missing(reason)] => {
                return Err(*reason);
            }
            [CapturedBody::Whole(one), CapturedBody::Whole(other)] => [one.bytes(), other.bytes()],
        };
        let [one, other] = responses.each_ref().map(|response| &response.head);
        if bodies[0] == bodies[1] && one.coding == other.coding {
            return Ok(());
        }
        let most = config.body.map_or(0, ByteSize::as_usize);
        let bodies = [one.decode(bodies[0], most)?, other.decode(bodies[1], most)?];
        if bodies[0] == bodies[1] {
            return Ok(());
        }
        if !(one.is_json && other.is_json) {
            return Err(NotCompared::NotJson);
        }
        let documents = [Document::read(&bodies[0])?, Document::read(&bodies[1])?];
        self.compare_documents(config, &documents);
        Ok(())
    }

    fn compare_documents(&mut self, config: &Comparison, documents: &[Document<'_>; 2]) {
        let mut known = BTreeSet::new();
        json::compare(documents.each_ref(), &config.ignore, &mut |difference| {
            let json::Difference { place, values } = difference;
            let pattern = (known.len() < MOST_PLACES).then(|| pointer(place, true));
            let pattern = pattern.filter(|pattern| known.insert(pattern.clone()));
            self.note(Place::Body, pattern, || {
                let is_shown = is_member_shown(&config.show, place);
                let shown = |value: Value<'_>| ShownValue::of_json(value, is_shown);
                (pointer(place, false), values.map(|value| value.map(shown)))
            });
        });
    }

    /// Adds a difference, with what is shown of it.
    fn add(
        &mut self,
        (part, pattern): (Place, &str),
        place: &str,
        values: impl FnOnce() -> [Option<ShownValue>; 2],
    ) {
        self.note(part, Some(pattern.to_owned()), || (place.to_owned(), values()));
    }

    /// The same; `pattern` unless that is known already.
    fn note(
        &mut self,
        part: Place,
        pattern: Option<String>,
        shown: impl FnOnce() -> (String, [Option<ShownValue>; 2]),
    ) {
        let index = part as usize;
        self.parts[index] = true;
        self.count += 1;
        self.places.extend(pattern.map(|pattern| (Place::PARTS[index], pattern)));
        if self.shown.len() < MOST_DIFFERENCES {
            let (place, [original, mirror]) = shown();
            let part = Place::PARTS[index];
            self.shown.push(ResponseDifference { part, place, original, mirror });
        }
    }
}

impl CapturedHead {
    /// The content of a body with that head, of that many bytes at most.
    fn decode<'b>(&self, body: &'b [u8], most: usize) -> Result<Cow<'b, [u8]>, NotCompared> {
        match self.coding {
            ContentCoding::Identity => Ok(Cow::Borrowed(body)),
            ContentCoding::Known(coding) => Ok(Cow::Owned(decode_whole(coding, body, most)?)),
            ContentCoding::Other => Err(NotCompared::Encoded),
        }
    }
}

impl ShownValue {
    fn of(kind: &'static str, value: &[u8], is_shown: bool) -> ShownValue {
        let text = is_shown.then(|| shortened(value, MOST_OF_VALUE));
        ShownValue { kind, bytes: value.len(), value: text }
    }

    /// Lists and objects are never shown: something in them may be secret.
    fn of_json(value: Value<'_>, is_shown: bool) -> ShownValue {
        let is_plain = !matches!(value.kind, Kind::List | Kind::Object);
        ShownValue::of(value.kind.name(), value.text.as_bytes(), is_shown && is_plain)
    }
}

/// Whether differences show the values of that header.
fn is_shown(name: &HeaderName) -> bool {
    let name = name.as_str().to_ascii_lowercase();
    !is_secret(&name) && !NEVER_SHOWN.contains(&name.as_str())
}

/// Whether differences show the values of that member.
fn is_member_shown(show: &[MemberPattern], place: &[Step<'_>]) -> bool {
    let is_hidden = |step: &Step<'_>| match step {
        Step::Member(name) => is_secret(name),
        Step::Item(_) => false,
    };
    show.iter().any(|pattern| json::is_within(pattern, place)) && !place.iter().any(is_hidden)
}

/// The beginning of a place as a JSON pointer (RFC 6901), with `*` for items of lists if they are meant as one.
fn pointer(place: &[Step<'_>], are_items_one: bool) -> String {
    let mut pointer = String::new();
    for step in place {
        pointer.push('/');
        match step {
            Step::Item(_) if are_items_one => pointer.push('*'),
            Step::Item(index) => pointer.push_str(&index.to_string()),
            Step::Member(name) => name.chars().take(MOST_OF_PLACE).for_each(|char| match char {
                '~' => pointer.push_str("~0"),
                '/' => pointer.push_str("~1"),
                char => pointer.push(char),
            }),
        }
        if pointer.len() > MOST_OF_PLACE {
            break;
        }
    }
    shortened(pointer.as_bytes(), MOST_OF_PLACE)
}
