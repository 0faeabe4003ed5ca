//! Responses to requests, compared with those to their copies.
//!
//! An exchange captures what is compared of a response while it passes (`exchange::capture`). Once both are there, a thread of the
//! process compares them, one pair after the other: what that costs is not taken from requests. Its queue is bounded; a pair for
//! which there is no room is counted and dropped.

mod verdict;

use crate::copied::{CopiedBody, CopyMemory, Excess};
use crate::grpc::{self, Dialect};
use crate::json::Unreadable;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::SystemTime;
use titan_config::{ByteSize, Comparison, HeaderName, MemberPattern};
use titan_http::{BodyLength, FieldName, Fields, RequestHead, ResponseHead, Status};
use titan_io::registry::Registry;
use titan_policies::compress::{ContentCoding, NotDecoded};
use verdict::{Differences, Place, Verdict};
pub use verdict::{ResponseDifference, ShownValue};

/// Compares the responses of a mirror.
pub(crate) struct Comparer {
    config: Comparison,
    counts: Arc<Counts>,
    shown: Arc<Shown>,
    thread: Arc<ComparingThread>,
}

/// What is compared of a response.
pub(crate) struct Captured {
    pub(crate) head: CapturedHead,
    body: CapturedBody,
    /// The memory of the head where it is not that of the body.
    _memory: Option<CopiedBody>,
}

/// What is compared of the head of a response.
pub(crate) struct CapturedHead {
    status: Status,
    call: CallStatus,
    /// The values of the headers that are compared, in their order.
    headers: Vec<Option<Vec<u8>>>,
    is_json: bool,
    coding: ContentCoding,
}

/// What a response says of the gRPC call that it is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallStatus {
    /// It is to none.
    NoCall,
    /// Its trailers will say.
    Awaited,
    /// The call's own status, if there is one that can be read.
    Known(Option<u8>),
}

/// What there is of a body that is compared.
pub(crate) enum CapturedBody {
    /// It is not compared.
    Off,
    Whole(CopiedBody),
    Missing(NotCompared),
}

/// Which request two responses are to.
pub(crate) struct ComparedRequest {
    method: String,
    path: String,
    id: Option<String>,
}

/// Why two responses are not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotCompared {
    /// No upstream has responded to the request, or its response is not complete.
    NoResponse,
    /// The copy has no complete response.
    CopyFailed,
    /// The response to the request was not complete in the time that the copy has.
    TooLate,
    /// A body is larger than those that are compared.
    BodyTooLarge,
    /// There is no memory for a body.
    NoMemory,
    /// A body that differs cannot be decoded.
    Encoded,
    /// A body that differs is not JSON.
    NotJson,
    /// The values of a body lie too deep in each other.
    TooDeep,
    /// Too many responses wait to be compared.
    Busy,
}

/// What comparing the responses of a mirror has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparisonStatus {
    /// Pairs of responses that were equal.
    pub equal: u64,
    /// Pairs that were not.
    pub different: u64,
    /// How many of those differed in which part.
    pub differing: Vec<(&'static str, u64)>,
    /// Pairs that were not compared, by reason.
    pub not_compared: Vec<(&'static str, u64)>,
    /// The parts and places at which responses have differed, and how many did. Items of lists have one place together.
    pub places: Vec<(&'static str, String, u64)>,
    /// The newest pairs that differed, the oldest of them first.
    pub samples: Vec<Arc<Sample>>,
}

/// Two responses that differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When they were compared.
    pub at: SystemTime,
    /// The method of the request.
    pub method: String,
    /// Its path, as the upstream gets it; never its query.
    pub path: String,
    /// Its id, by which logs know it.
    pub request_id: Option<String>,
    /// Where they differ.
    pub differences: Vec<ResponseDifference>,
    /// In how many other places they differ as well.
    pub more: usize,
}

/// What has come of all pairs. Any thread counts.
#[derive(Default)]
struct Counts {
    equal: AtomicU64,
    different: AtomicU64,
    differing: [AtomicU64; Place::PARTS.len()],
    not_compared: [AtomicU64; NotCompared::ALL.len()],
}

/// What makes counts those of the same mirror.
#[derive(PartialEq, Eq, Hash)]
struct CountsKey {
    route: String,
    upstream: String,
}

/// What has differed. Only the thread that compares and the admin interface lock it.
#[derive(Default)]
struct Shown(Mutex<Differing>);

#[derive(Default)]
struct Differing {
    samples: VecDeque<Arc<Sample>>,
    places: BTreeMap<(&'static str, String), u64>,
}

/// What makes differences those of the same mirror, shown under the same rules.
#[derive(PartialEq, Eq, Hash)]
struct ShownKey {
    route: String,
    upstream: String,
    show: Vec<MemberPattern>,
    headers: Vec<String>,
}

/// The thread that compares; it ends when no mirror can reach it any more.
struct ComparingThread(SyncSender<Pair>);

#[derive(PartialEq, Eq, Hash)]
struct ThreadKey;

/// Two responses that wait to be compared.
struct Pair {
    comparer: Arc<Comparer>,
    request: ComparedRequest,
    responses: [Captured; 2],
}

/// How many pairs may wait.
const MOST_WAITING: usize = 256;
/// How many places are known by name.
const MOST_PLACES: usize = 100;
/// Bytes that are shown of a path or an id.
const MOST_SHOWN: usize = 200;

impl Comparer {
    /// That of the mirror of that route to that upstream.
    pub(crate) fn of(
        registry: &Registry,
        config: &Comparison,
        route: &str,
        upstream: &str,
    ) -> Arc<Comparer> {
        let (route, upstream) = (route.to_owned(), upstream.to_owned());
        let shown = ShownKey {
            route: route.clone(),
            upstream: upstream.clone(),
            show: config.show.clone(),
            headers: config.headers.iter().map(|name| name.as_str().to_owned()).collect(),
        };
        Arc::new(Comparer {
            config: config.clone(),
            counts: registry.shared(CountsKey { route, upstream }, Counts::default),
            shown: registry.shared(shown, Shown::default),
            thread: registry.shared(ThreadKey, ComparingThread::start),
        })
    }

    /// What is compared of a response whose head has come, if there is memory for that; its body is to be added.
    pub(crate) fn capture(
        &self,
        response: &ResponseHead,
        length: BodyLength,
        memory: &CopyMemory,
    ) -> Result<Captured, NotCompared> {
        let head = CapturedHead::of(response, &self.config.headers);
        let most = self.config.body.map_or(0, ByteSize::as_usize);
        let memory = memory.body(most, head.size())?;
        let (body, memory) = match (self.config.body, length) {
            (None, _) => (CapturedBody::Off, Some(memory)),
            (Some(most), BodyLength::Known(length)) if length > most.bytes() => {
                (CapturedBody::Missing(NotCompared::BodyTooLarge), Some(memory))
            }
            (Some(_), _) => (CapturedBody::Whole(memory), None),
        };
        Ok(Captured { head, body, _memory: memory })
    }

    /// Has the thread compare two responses.
    pub(crate) fn compare(self: &Arc<Self>, request: ComparedRequest, responses: [Captured; 2]) {
        let pair = Pair { comparer: Arc::clone(self), request, responses };
        if self.thread.0.try_send(pair).is_err() {
            self.note_not_compared(NotCompared::Busy);
        }
    }

    pub(crate) fn note_not_compared(&self, reason: NotCompared) {
        self.counts.not_compared[reason as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn status(&self) -> ComparisonStatus {
        let count = |count: &AtomicU64| count.load(Ordering::Acquire);
        let Counts { equal, different, differing, not_compared } = &*self.counts;
        let not_compared = NotCompared::ALL.iter().zip(not_compared);
        let Differing { samples, places } = &*self.shown.lock();
        ComparisonStatus {
            equal: count(equal),
            different: count(different),
            differing: Place::PARTS.into_iter().zip(differing.iter().map(count)).collect(),
            not_compared: not_compared.map(|(why, it)| (why.name(), count(it))).collect(),
            places: places.iter().map(|((part, at), it)| (*part, at.clone(), *it)).collect(),
            samples: samples.iter().cloned().collect(),
        }
    }

    /// Compares a pair and notes what has come of it.
    fn judge(&self, request: ComparedRequest, responses: &[Captured; 2]) {
        match verdict::compare(&self.config, responses) {
            Verdict::Equal => drop(self.counts.equal.fetch_add(1, Ordering::Relaxed)),
            Verdict::NotCompared(reason) => self.note_not_compared(reason),
            Verdict::Different(differences) => self.note_different(request, differences),
        }
    }

    fn note_different(&self, request: ComparedRequest, differences: Differences) {
        let Differences { parts, places, shown, count } = differences;
        for (part, is_different) in self.counts.differing.iter().zip(parts) {
            part.fetch_add(u64::from(is_different), Ordering::Relaxed);
        }
        let ComparedRequest { method, path, id } = request;
        let more = count - shown.len();
        let at = SystemTime::now();
        let sample = Sample { at, method, path, request_id: id, differences: shown, more };
        self.shown.lock().add(sample, places, self.config.samples as usize);
        // Last: whoever sees that one differs finds the sample.
        self.counts.different.fetch_add(1, Ordering::Release);
    }
}

impl Differing {
    /// Adds a sample and what it differs in; so many samples stay.
    fn add(&mut self, sample: Sample, places: Vec<(&'static str, String)>, most: usize) {
        for place in places {
            let is_known = self.places.len() < MOST_PLACES || self.places.contains_key(&place);
            let known = if is_known { Some(self.places.entry(place).or_default()) } else { None };
            known.into_iter().for_each(|count| *count += 1);
        }
        self.samples.push_back(Arc::new(sample));
        let left = self.samples.len().saturating_sub(most);
        self.samples.drain(..left);
    }
}

impl Shown {
    fn lock(&self) -> MutexGuard<'_, Differing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ComparingThread {
    /// Where there can be no such thread, nothing is compared.
    fn start() -> ComparingThread {
        let (queue, pairs) = sync_channel(MOST_WAITING);
        let run = move || serve(&pairs);
        drop(thread::Builder::new().name("compare".to_owned()).spawn(run));
        ComparingThread(queue)
    }
}

fn serve(pairs: &Receiver<Pair>) {
    for Pair { comparer, request, responses } in pairs {
        comparer.judge(request, &responses);
    }
}

impl CapturedHead {
    fn of(response: &ResponseHead, names: &[HeaderName]) -> CapturedHead {
        let fields = &response.fields;
        let lines = |name: &HeaderName| {
            let lines: Vec<_> = fields.named(name.as_str().as_bytes()).collect();
            (!lines.is_empty()).then(|| lines.join(&b", "[..]))
        };
        CapturedHead {
            status: response.status,
            call: CallStatus::of(fields),
            headers: names.iter().map(lines).collect(),
            is_json: fields.get(FieldName::ContentType).is_some_and(is_json),
            coding: ContentCoding::of(fields),
        }
    }

    /// The memory that it takes.
    fn size(&self) -> usize {
        let lines = self.headers.iter().flatten().map(Vec::len).sum::<usize>();
        size_of::<Pair>() + self.headers.len() * size_of::<Option<Vec<u8>>>() + lines
    }
}

/// Whether that is the media type of a JSON document (RFC 6839 section 3.1).
fn is_json(content_type: &[u8]) -> bool {
    let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
    let media_type = content_type[..end].trim_ascii().to_ascii_lowercase();
    media_type == b"application/json" || media_type.ends_with(b"+json")
}

impl CallStatus {
    /// What the head of a response says.
    fn of(fields: &Fields) -> CallStatus {
        match grpc::status(fields) {
            // Over gRPC-Web it is in the body.
            _ if Dialect::of(fields) != Some(Dialect::Native) => CallStatus::NoCall,
            None => CallStatus::Awaited,
            status => CallStatus::Known(status),
        }
    }
}

impl Captured {
    /// Whether more of the response is wanted.
    pub(crate) fn wants_more(&self) -> bool {
        matches!(self.body, CapturedBody::Whole(_)) || self.head.call == CallStatus::Awaited
    }

    /// Notes what the end of the response says.
    pub(crate) fn note_trailers(&mut self, trailers: &Fields) {
        if self.head.call == CallStatus::Awaited {
            self.head.call = CallStatus::Known(grpc::status(trailers));
        }
    }

    /// Adds what has come of the body.
    pub(crate) fn append(&mut self, data: &[u8]) {
        if let CapturedBody::Whole(body) = &mut self.body
            && let Err(excess) = body.append(data)
        {
            self.body = CapturedBody::Missing(excess.into());
        }
    }
}

impl ComparedRequest {
    pub(crate) fn of(request: &RequestHead) -> ComparedRequest {
        let id = request.fields.get(FieldName::XRequestId);
        ComparedRequest {
            method: request.method.as_str().to_owned(),
            path: shortened(request.path(), MOST_SHOWN),
            id: id.map(|id| shortened(id, MOST_SHOWN)),
        }
    }
}

/// The beginning of a text, of that many bytes at most and perhaps a mark that there is more.
fn shortened(text: &[u8], most: usize) -> String {
    let end = text.len().min(most);
    let mut shown = String::from_utf8_lossy(&text[..end]).into_owned();
    if end < text.len() {
        // What was cut in two is no character.
        while shown.ends_with('\u{fffd}') {
            shown.pop();
        }
        shown.push('…');
    }
    shown
}

impl NotCompared {
    const ALL: [NotCompared; 9] = [
        NotCompared::NoResponse,
        NotCompared::CopyFailed,
        NotCompared::TooLate,
        NotCompared::BodyTooLarge,
        NotCompared::NoMemory,
        NotCompared::Encoded,
        NotCompared::NotJson,
        NotCompared::TooDeep,
        NotCompared::Busy,
    ];

    fn name(self) -> &'static str {
        match self {
            NotCompared::NoResponse => "no-response",
            NotCompared::CopyFailed => "copy-failed",
            NotCompared::TooLate => "too-late",
            NotCompared::BodyTooLarge => "body-too-large",
            NotCompared::NoMemory => "no-memory",
            NotCompared::Encoded => "encoded",
            NotCompared::NotJson => "not-json",
            NotCompared::TooDeep => "too-deep",
            NotCompared::Busy => "busy",
        }
    }
}

impl From<Excess> for NotCompared {
    fn from(excess: Excess) -> NotCompared {
        match excess {
            Excess::TooLarge => NotCompared::BodyTooLarge,
            Excess::NoMemory => NotCompared::NoMemory,
        }
    }
}

impl From<NotDecoded> for NotCompared {
    fn from(why: NotDecoded) -> NotCompared {
        match why {
            NotDecoded::Malformed => NotCompared::Encoded,
            NotDecoded::TooLarge => NotCompared::BodyTooLarge,
        }
    }
}

impl From<Unreadable> for NotCompared {
    fn from(unreadable: Unreadable) -> NotCompared {
        match unreadable {
            Unreadable::Malformed => NotCompared::NotJson,
            Unreadable::TooDeep => NotCompared::TooDeep,
        }
    }
}

#[cfg(test)]
mod tests;
