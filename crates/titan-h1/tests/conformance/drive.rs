//! A connection's worth of driving: feeds bytes to the readers as a socket would, and says what came
//! of the first message.

use std::ops::Range;
use titan_h1::{BodyReader, Error, Framing, Limits, RequestReader, ResponseReader};
use titan_http::{Fields, Method, RequestHead, ResponseHead, Version};

/// Names and values.
pub(crate) type Lines = Vec<(Vec<u8>, Vec<u8>)>;

/// What came of the bytes that a peer sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The first message is complete.
    Accept(Box<Message>),
    /// It is refused.
    Reject(Error),
    /// It needs more bytes.
    Incomplete,
}

/// A complete message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    /// The three parts of the start line: of a request the target as received, of a response the
    /// status as digits.
    pub(crate) start_line: [Vec<u8>; 3],
    pub(crate) fields: Lines,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Lines,
    /// The 1xx responses before it: status, reason and fields.
    pub(crate) interim: Vec<([Vec<u8>; 3], Lines)>,
    pub(crate) persist: bool,
    pub(crate) expect_continue: bool,
    /// What the peer sent behind it.
    pub(crate) rest: Vec<u8>,
}

/// Which side of the connection reads, and what it knows beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// `None` reads a request, otherwise the response to a request with that method.
    pub(crate) response_to: Option<Method>,
    pub(crate) limits: Limits,
}

/// What comes of `input` when it arrives in the pieces that `ends` delimits, and then perhaps the end.
pub(crate) fn verdict(setting: Setting, input: &[u8], ends: &[usize], close: bool) -> Verdict {
    let mut reading = Reading::new(setting);
    let mut start = 0;
    for &end in ends.iter().chain([&input.len()]) {
        reading.receive(&input[start..end]);
        start = end;
    }
    reading.end(close)
}

struct Reading {
    head: HeadReader,
    body: BodyReader,
    stage: Stage,
    message: Message,
    received: Vec<u8>,
    /// Bytes of `received` that are done with.
    done: usize,
}

enum Stage {
    Head,
    Body,
    Complete,
    Refused(Error),
}

enum HeadReader {
    Request(RequestReader, RequestHead),
    Response(ResponseReader, ResponseHead, Method),
}

impl Reading {
    fn new(setting: Setting) -> Reading {
        let limits = setting.limits;
        let head = match setting.response_to {
            None => HeadReader::Request(RequestReader::new(limits), RequestHead::default()),
            Some(method) => {
                HeadReader::Response(ResponseReader::new(limits), ResponseHead::default(), method)
            }
        };
        Reading {
            head,
            body: BodyReader::new(Framing::None, &limits),
            stage: Stage::Head,
            message: Message::default(),
            received: Vec::new(),
            done: 0,
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        loop {
            let progress = match self.stage {
                Stage::Head => self.read_head(),
                Stage::Body => self.read_body(),
                Stage::Complete | Stage::Refused(_) => return,
            };
            match progress {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => self.stage = Stage::Refused(error),
            }
        }
    }

    fn end(mut self, close: bool) -> Verdict {
        if close && matches!(self.stage, Stage::Body) && self.body.end_of_input().is_ok() {
            self.stage = Stage::Complete;
        }
        match self.stage {
            Stage::Head | Stage::Body => Verdict::Incomplete,
            Stage::Refused(error) => Verdict::Reject(error),
            Stage::Complete => {
                self.message.trailers = lines(self.body.trailers());
                self.message.rest = self.received.split_off(self.done);
                Verdict::Accept(Box::new(self.message))
            }
        }
    }

    fn read_head(&mut self) -> Result<bool, Error> {
        let buf = &self.received[self.done..];
        match &mut self.head {
            HeadReader::Request(reader, head) => {
                let Some(start) = reader.read(buf, head)? else { return Ok(false) };
                self.done += start.consumed;
                self.message.start_line = request_line(head);
                self.message.fields = lines(&head.fields);
                self.message.persist = start.keep_alive;
                self.message.expect_continue = start.expect_continue;
                self.body.reset(start.framing);
            }
            HeadReader::Response(reader, head, method) => {
                let Some(start) = reader.read(buf, *method, head)? else { return Ok(false) };
                self.done += start.consumed;
                if start.interim {
                    self.message.interim.push((status_line(head), lines(&head.fields)));
                    return Ok(true);
                }
                self.message.start_line = status_line(head);
                self.message.fields = lines(&head.fields);
                self.message.persist = start.keep_alive;
                self.body.reset(start.framing);
            }
        }
        self.stage = Stage::Body;
        Ok(true)
    }

    fn read_body(&mut self) -> Result<bool, Error> {
        let input = &self.received[self.done..];
        let piece = self.body.read(input)?;
        let Range { start, end } = piece.data;
        assert!(start <= end && end <= piece.consumed && piece.consumed <= input.len());
        self.message.body.extend_from_slice(&input[start..end]);
        self.done += piece.consumed;
        if piece.done {
            self.stage = Stage::Complete;
        }
        Ok(piece.consumed > 0)
    }
}

fn request_line(head: &RequestHead) -> [Vec<u8>; 3] {
    let text = head.fields.text().trim_ascii_start();
    let target = text.split(|&byte| byte == b' ').nth(1).expect("a request line has a target");
    let mut parts = head.target.authority.of(head.fields.text()).to_vec();
    parts.extend_from_slice(head.target.path.of(head.fields.text()));
    if let Some(query) = head.query() {
        parts.push(b'?');
        parts.extend_from_slice(query);
    }
    assert!(target == b"*" || target.ends_with(&parts), "the target's parts are its own bytes");
    [head.method.as_str().as_bytes().to_vec(), target.to_vec(), version(head.version)]
}

fn status_line(head: &ResponseHead) -> [Vec<u8>; 3] {
    let reason = head.reason.of(head.fields.text()).to_vec();
    [version(head.version), head.status.digits().to_vec(), reason]
}

fn version(version: Version) -> Vec<u8> {
    format!("HTTP/{}", version.as_str()).into_bytes()
}

fn lines(fields: &Fields) -> Lines {
    fields.iter().map(|field| (field.name.to_vec(), field.value.to_vec())).collect()
}
