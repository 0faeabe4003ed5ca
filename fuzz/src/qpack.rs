//! QPACK: an encoder that says anything in between sections of any bytes, and what this side writes.

use crate::choices::CHOICES;
use titan_h3::qpack::{CAPACITY, Corrupt, Decoded, Decoder, Qpack, read_feedback, write_prefix};
use titan_http::section::{
    CONNECTION_FIELDS, Destination, Excess, Extent, Fault, Key, Line, RequestFacts, RequestSection,
    ResponseFacts, ResponseSection, SectionLimits, Size, TooMuch, TrailerSection, write_fields,
    write_request, write_response,
};
use titan_http::{Field, FieldName, Fields, Method, RequestHead, ResponseHead, Status, Version};

/// What happens to a decoder. The data is a sequence of these, each with a byte that says which, and one with the length of what
/// belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The peer's encoder says something.
    Instructions,
    /// A section comes whole: of a request, a response or trailers, one after another.
    Section,
    /// The stream of a section is given up.
    Cancel,
    /// What waits for the peer's encoder is written.
    Output,
    /// The peer's decoder says something.
    Feedback,
    /// This side writes a head or trailers: two bytes choose of what kind, and lines of `name:value` are the fields.
    Write,
}

impl Step {
    /// All of them; the byte that says which one is its place here, or that and a multiple of how many there are.
    pub const ALL: [Step; 6] = [
        Step::Instructions,
        Step::Section,
        Step::Cancel,
        Step::Output,
        Step::Feedback,
        Step::Write,
    ];

    /// The step as it stands in the data, cut off where it is too long.
    pub fn with(self, bytes: &[u8]) -> Vec<u8> {
        let bytes = &bytes[..bytes.len().min(u8::MAX.into())];
        let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        [&[self as u8, length], bytes].concat()
    }

    /// The first step of the data.
    fn split(data: &mut &[u8]) -> Option<(Step, Vec<u8>)> {
        let (&[step, length], rest) = data.split_first_chunk()?;
        let (bytes, rest) = rest.split_at(rest.len().min(length.into()));
        *data = rest;
        Some((Step::ALL[usize::from(step) % Step::ALL.len()], bytes.to_vec()))
    }
}

/// Sections that may wait for what they refer to.
const MOST_BLOCKED: usize = 16;
/// What an encoder may leave unread: an instruction with two strings, and their lengths.
const MOST_UNREAD: usize = 2 * 4 * CAPACITY + 32;
/// Bytes of an integer.
const INTEGER: usize = 10;

/// A decoder tells the same, responds the same and ends with the same fault however the instructions are cut, keeps little, and what
/// is accepted reads back as it was after being written anew.
pub fn qpack(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let limits = limits(choices[0]);
    let whole = hear(input, usize::MAX, &limits);
    assert_eq!(whole, hear(input, usize::from(choices[1]) % 23 + 1, &limits));
    assert_eq!(whole, hear(input, 1, &limits));
    for Section { lines, kind } in &whole.sections {
        match kind {
            Kind::Request => rewrite_request(lines, &limits),
            Kind::Response => rewrite_response(lines, &limits, choices[2].is_multiple_of(2)),
            Kind::Trailers => rewrite_trailers(lines, &limits),
        }
    }
}

/// The usual ones, or such that small inputs meet them.
fn limits(choice: u8) -> SectionLimits {
    match choice % 2 {
        0 => SectionLimits { head: 64 << 10, trailers: 8 << 10, fields: 100, target: 8 << 10 },
        _ => SectionLimits { head: 300, trailers: 200, fields: 3, target: 8 },
    }
}

/// What a decoder made of its input.
#[derive(Debug, Default, PartialEq, Eq)]
struct Heard {
    sections: Vec<Section>,
    output: Vec<u8>,
    /// What each decoder of the peer has said that could be used.
    feedback: Vec<Result<usize, Corrupt>>,
    fatal: Option<Corrupt>,
}

#[derive(Debug, PartialEq, Eq)]
struct Section {
    kind: Kind,
    lines: Lines,
}

/// What a section belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Response,
    Trailers,
}

/// The lines of a section.
#[derive(Debug, Default, PartialEq, Eq)]
struct Lines(Vec<Owned>);

/// A line that can be kept.
#[derive(Debug, PartialEq, Eq)]
struct Owned {
    key: Key,
    fault: Option<Fault>,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Lines {
    fn add(&mut self, line: &Line<'_>) {
        let Line { key, name, value, fault } = *line;
        self.0.push(Owned { key, fault, name: name.to_vec(), value: value.to_vec() });
    }

    fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        let lines = self.0.iter();
        lines.map(|Owned { key, fault, name, value }| Line {
            key: *key,
            name,
            value,
            fault: *fault,
        })
    }
}

fn hear(input: &[u8], step: usize, limits: &SectionLimits) -> Heard {
    let mut driver = Driver {
        decoder: Decoder::default(),
        unread: Vec::new(),
        blocked: Vec::new(),
        streams: 0,
        step,
        limits,
    };
    let (mut rest, mut heard) = (input, Heard::default());
    while heard.fatal.is_none()
        && let Some((step, bytes)) = Step::split(&mut rest)
    {
        heard.fatal = driver.go(step, &bytes, &mut heard).err();
    }
    heard
}

/// The driver of a decoder, as a connection is.
struct Driver<'a> {
    decoder: Decoder,
    /// The beginning of an instruction.
    unread: Vec<u8>,
    blocked: Vec<(u64, Vec<u8>)>,
    /// How many there have been.
    streams: u64,
    /// In how many bytes at a time instructions come.
    step: usize,
    limits: &'a SectionLimits,
}

impl Driver<'_> {
    fn go(&mut self, step: Step, bytes: &[u8], heard: &mut Heard) -> Result<(), Corrupt> {
        match step {
            Step::Instructions => {
                bytes.chunks(self.step).try_for_each(|piece| self.instruct(piece))?;
                // Not before: an encoder that evicts what it has just referred to would be told of it, or not.
                self.unblock(heard)
            }
            Step::Section => {
                self.streams += 1;
                self.section(self.streams * 4, bytes.to_vec(), heard)
            }
            Step::Cancel => {
                if let Some((stream, _)) = self.blocked.pop() {
                    self.decoder.cancel(stream);
                }
                Ok(())
            }
            Step::Output => {
                self.decoder.take_output(&mut heard.output);
                assert_eq!(self.decoder.waiting(), 0);
                Ok(())
            }
            Step::Feedback => {
                heard.feedback.push(feedback(bytes, self.step));
                Ok(())
            }
            Step::Write => {
                write(bytes);
                Ok(())
            }
        }
    }

    fn instruct(&mut self, piece: &[u8]) -> Result<(), Corrupt> {
        self.unread.extend_from_slice(piece);
        let count = self.decoder.read_instructions(&self.unread)?;
        self.unread.drain(..count);
        assert!(self.unread.len() <= MOST_UNREAD);
        Ok(())
    }

    fn unblock(&mut self, heard: &mut Heard) -> Result<(), Corrupt> {
        let blocked = std::mem::take(&mut self.blocked);
        blocked.into_iter().try_for_each(|(stream, section)| self.section(stream, section, heard))
    }

    fn section(&mut self, stream: u64, section: Vec<u8>, heard: &mut Heard) -> Result<(), Corrupt> {
        let outcome = decode(&mut self.decoder, stream, &section, self.limits)?;
        // Each of them is acknowledged or cancelled once, before entries are told to have come.
        let most = usize::try_from(self.streams).unwrap_or(usize::MAX).saturating_mul(INTEGER);
        assert!(self.decoder.waiting() <= most);
        match outcome {
            Some(lines) => {
                let kind = [Kind::Request, Kind::Response, Kind::Trailers];
                let kind = kind[usize::try_from(stream / 4 % 3).unwrap_or_default()];
                heard.sections.push(Section { kind, lines });
            }
            None if self.blocked.len() < MOST_BLOCKED => self.blocked.push((stream, section)),
            None => self.decoder.cancel(stream),
        }
        Ok(())
    }
}

/// The lines of a section, as far as a message may have as many; nothing where it has to wait.
fn decode(
    decoder: &mut Decoder,
    stream: u64,
    section: &[u8],
    limits: &SectionLimits,
) -> Result<Option<Lines>, Corrupt> {
    let mut lines = Lines::default();
    let mut size = Size::new(limits.head, limits);
    let outcome = decoder.decode(stream, section, |line| {
        size.add(&line)?;
        lines.add(&line);
        Ok(())
    })?;
    assert!(outcome == Decoded::Whole || lines.0.is_empty());
    Ok((outcome == Decoded::Whole).then_some(lines))
}

/// What a decoder of the peer says, which comes in steps: how much of it is used.
fn feedback(bytes: &[u8], step: usize) -> Result<usize, Corrupt> {
    let (mut unread, mut used) = (Vec::new(), 0);
    for piece in bytes.chunks(step) {
        unread.extend_from_slice(piece);
        let count = read_feedback(&unread)?;
        unread.drain(..count);
        assert!(unread.len() <= INTEGER);
        used += count;
    }
    Ok(used)
}

/// Room for whatever was accepted, and what is added to it.
const WIDE: SectionLimits =
    SectionLimits { head: 1 << 20, trailers: 1 << 20, fields: 10_000, target: 1 << 20 };

/// What is written says what it is to say, and nothing of it is wrong.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> Lines {
    let mut section = Vec::new();
    write_prefix(&mut section);
    write(&mut section);
    let mut decoder = Decoder::default();
    let lines = decode(&mut decoder, 0, &section, &WIDE).expect("what is written can be decoded");
    let lines = lines.expect("it refers to nothing that could come");
    assert_eq!(decoder.waiting(), 0);
    lines
}

fn read_request(
    lines: &Lines,
    limits: &SectionLimits,
    head: &mut RequestHead,
) -> Result<Result<RequestFacts, Fault>, TooMuch> {
    let mut crumbs = Vec::new();
    let mut section = RequestSection::new(Version::Http3, limits, &mut crumbs, head);
    lines.iter().try_for_each(|line| section.take(line))?;
    Ok(section.finish())
}

fn rewrite_request(lines: &Lines, limits: &SectionLimits) {
    let mut head = RequestHead::default();
    let Ok(Ok(facts)) = read_request(lines, limits, &mut head) else { return };
    let protocol = facts.protocol.map(|span| span.of(head.fields.text()));
    let authority = head.authority().expect("no request is accepted without one");
    let to = Destination { authority, is_https: facts.is_https, protocol };
    let lines = written(|out| write_request::<Qpack>(out, &head, &to, facts.length));
    let mut again = RequestHead::default();
    let read = read_request(&lines, &WIDE, &mut again);
    let refacts = read.expect("it is short").expect("what is written is valid");
    assert_eq!(again.authority(), Some(authority));
    assert_eq!(
        (again.method, again.path(), again.query()),
        (head.method, head.path(), head.query())
    );
    assert_eq!(refacts.protocol.map(|span| span.of(again.fields.text())), protocol);
    assert_eq!(RequestFacts { protocol: facts.protocol, ..refacts }, facts);
    assert_eq!(end_to_end(&again.fields), end_to_end(&head.fields));
}

fn read_response(
    lines: &Lines,
    limits: &SectionLimits,
    is_to_head: bool,
    head: &mut ResponseHead,
) -> Result<Result<ResponseFacts, Fault>, TooMuch> {
    let mut section = ResponseSection::new(Version::Http3, limits, Extent::Beginning, head);
    lines.iter().try_for_each(|line| section.take(line))?;
    Ok(section.finish(is_to_head))
}

fn rewrite_response(lines: &Lines, limits: &SectionLimits, is_to_head: bool) {
    let mut head = ResponseHead::default();
    let Ok(Ok(facts)) = read_response(lines, limits, is_to_head, &mut head) else { return };
    let lines = written(|out| write_response::<Qpack>(out, &head, facts.length));
    let mut again = ResponseHead::default();
    let read = read_response(&lines, &WIDE, is_to_head, &mut again);
    assert_eq!(read.expect("it is short"), Ok(facts));
    assert_eq!(again.status, head.status);
    assert_eq!(end_to_end(&again.fields), end_to_end(&head.fields));
}

fn read_trailers(
    lines: &Lines,
    limits: &SectionLimits,
    fields: &mut Fields,
) -> Result<Result<(), Fault>, TooMuch> {
    let mut section = TrailerSection::new(limits, Excess::Refused, fields);
    lines.iter().try_for_each(|line| section.take(line))?;
    Ok(section.finish())
}

fn rewrite_trailers(lines: &Lines, limits: &SectionLimits) {
    let mut fields = Fields::default();
    let Ok(Ok(())) = read_trailers(lines, limits, &mut fields) else { return };
    let lines = written(|out| write_fields::<Qpack>(out, &fields));
    let mut again = Fields::default();
    let read = read_trailers(&lines, &WIDE, &mut again);
    assert_eq!(read.expect("they are short"), Ok(()));
    assert_eq!(end_to_end(&again), end_to_end(&fields));
}

/// The lines that are not the encoder's own.
fn end_to_end(fields: &Fields) -> Vec<(&[u8], &[u8])> {
    let is_own = |id| matches!(id, FieldName::Host | FieldName::ContentLength);
    let others = fields.iter().filter(|field| !is_own(field.id));
    others.map(|field| (field.name, field.value)).collect()
}

/// Whatever fields a head or trailers have, each line that is not left out is written as it stands, in lower case and without white
/// space around it.
fn write(bytes: &[u8]) {
    let Some((&[kind, choice], lines)) = bytes.split_first_chunk() else { return };
    let mut fields = Fields::default();
    for line in lines.split(|byte| *byte == b'\n') {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        // What can be no field is none of these.
        let _ = fields.append_named(&line[..colon], line.get(colon + 1..).unwrap_or_default());
    }
    match kind % 3 {
        0 => write_a_request(choice, fields),
        1 => write_a_response(choice, fields),
        _ => says(&written(|out| write_fields::<Qpack>(out, &fields)), &[], &fields, None),
    }
}

fn write_a_request(choice: u8, fields: Fields) {
    let method = [Method::GET, Method::POST, Method::CONNECT, Method::PATCH];
    let method = method[usize::from(choice) % 4];
    let head = RequestHead { method, fields, ..RequestHead::default() };
    let is_https = choice >= 128;
    let to = Destination { authority: b"a:1", is_https, protocol: None };
    let length = length(choice);
    let scheme = if is_https { "https" } else { "http" };
    let pseudo = [(":method", method.as_str()), (":scheme", scheme), (":path", "/")];
    let pseudo = if method == Method::CONNECT { &pseudo[..1] } else { &pseudo };
    let pseudo = [pseudo, &[(":authority", "a:1")]].concat();
    let lines = written(|out| write_request::<Qpack>(out, &head, &to, length));
    says(&lines, &pseudo, &head.fields, length);
}

fn write_a_response(choice: u8, fields: Fields) {
    let status = Status::from_code(100 + u16::from(choice)).expect("it has three digits");
    let head = ResponseHead { status, fields, ..ResponseHead::default() };
    let lines = written(|out| write_response::<Qpack>(out, &head, length(choice)));
    // Where there is none (RFC 9110 section 8.6).
    let length = length(choice).filter(|_| !matches!(status.code(), 100..200 | 204));
    says(&lines, &[(":status", &status.code().to_string())], &head.fields, length);
}

fn length(choice: u8) -> Option<u64> {
    choice.is_multiple_of(3).then_some(u64::from(choice) << (choice % 50))
}

/// Checks that these lines, none of which has a fault, are those, then the fields that are sent, and then the length.
fn says(lines: &Lines, pseudo: &[(&str, &str)], fields: &Fields, length: Option<u64>) {
    let owned =
        |name: &[u8], value: &[u8]| (name.to_ascii_lowercase(), value.trim_ascii().to_vec());
    let pseudo = pseudo.iter().map(|(name, value)| owned(name.as_bytes(), value.as_bytes()));
    let fields = fields.iter().filter(is_sent).map(|field| owned(field.name, field.value));
    let length = length.map(|length| owned(b"content-length", length.to_string().as_bytes()));
    let wanted: Vec<_> = pseudo.chain(fields).chain(length).collect();
    let came = lines.iter().map(|line| {
        assert_eq!((line.key, line.fault), (Key::of(line.name), None));
        (line.name.to_vec(), line.value.to_vec())
    });
    assert_eq!(came.collect::<Vec<_>>(), wanted);
}

fn is_sent(field: &Field<'_>) -> bool {
    match field.id {
        FieldName::Host | FieldName::ContentLength => false,
        FieldName::Te => field.value.eq_ignore_ascii_case(b"trailers"),
        id => !CONNECTION_FIELDS.has(id),
    }
}
