//! What both ends of an HTTP/2 connection do: send frames, and sort what arrives by stream.

use super::frame::{Frame, setting};
use super::{Head, hpack};
use crate::message::{Message, Request, Response, shown};
use crate::peer::{End, Peer};
use std::collections::{BTreeMap, VecDeque};

/// One end of a connection. What the protocol asks for by itself happens while it waits for something:
/// settings and pings are acknowledged, and data is given back as window, unless a test says otherwise.
#[derive(Debug)]
pub struct Connection {
    peer: Peer,
    streams: BTreeMap<u32, StreamEvents>,
    /// Streams that the other side has opened and no test has taken yet.
    opened: VecDeque<u32>,
    settings: BTreeMap<u16, u32>,
    /// What may still be sent on the connection, and on streams where that is not what they begin with.
    window: i64,
    windows: BTreeMap<u32, i64>,
    gives_windows: bool,
    acknowledges: bool,
    /// Responses that were held back.
    owed: Vec<Frame>,
    go_away: Option<(u32, u32)>,
    pongs: u64,
    pings: u64,
    /// A block that is not complete yet, and whether the stream ends with it.
    block: Option<(u32, Vec<u8>, bool)>,
    /// Bytes of data that came, on all streams.
    data: usize,
    /// Bytes of blocks that came, on all streams.
    blocks: usize,
}

/// What has come on a stream and was not taken yet.
#[derive(Clone, Debug, Default)]
struct StreamEvents {
    heads: VecDeque<Vec<(String, String)>>,
    body: Vec<u8>,
    trailers: Vec<(String, String)>,
    has_final: bool,
    ended: bool,
    reset: Option<u32>,
}

const FIRST_WINDOW: u32 = 65_535;
const MOST: usize = 16_384;

impl Connection {
    pub(super) fn new(peer: Peer) -> Connection {
        Connection {
            peer,
            streams: BTreeMap::new(),
            opened: VecDeque::new(),
            settings: BTreeMap::new(),
            window: FIRST_WINDOW.into(),
            windows: BTreeMap::new(),
            gives_windows: true,
            acknowledges: true,
            owed: Vec::new(),
            go_away: None,
            pongs: 0,
            pings: 0,
            block: None,
            data: 0,
            blocks: 0,
        }
    }

    /// The connection below.
    pub fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }

    /// The connection below, and nothing else of it.
    pub fn into_peer(self) -> Peer {
        self.peer
    }

    /// Gives no window back for what comes from now on.
    pub fn holds_windows(&mut self) -> &mut Connection {
        self.gives_windows = false;
        self
    }

    /// Answers neither settings nor pings from now on.
    pub fn acknowledges_nothing(&mut self) -> &mut Connection {
        self.acknowledges = false;
        self
    }

    /// Answers them again, those that have come first.
    pub fn acknowledges(&mut self) -> &mut Connection {
        self.acknowledges = true;
        let owed = std::mem::take(&mut self.owed);
        self.offers(&owed)
    }

    /// Sends a frame of any kind.
    #[track_caller]
    pub fn sends(&mut self, frame: &Frame) -> &mut Connection {
        self.peer.sends(frame.bytes());
        self
    }

    /// Sends these frames in one go, as far as the other side takes them.
    pub fn offers(&mut self, frames: &[Frame]) -> &mut Connection {
        self.peer.offers(frames.iter().flat_map(Frame::bytes).collect::<Vec<u8>>());
        self
    }

    /// Sends HEADERS: a head or trailers.
    #[track_caller]
    pub fn sends_head(&mut self, stream: u32, head: &Head, end: bool) -> &mut Connection {
        self.sends_block(stream, &hpack::block(head), end)
    }

    /// Sends a block in HEADERS, and in CONTINUATION where it is long.
    #[track_caller]
    pub fn sends_block(&mut self, stream: u32, block: &[u8], end: bool) -> &mut Connection {
        let mut parts = block.chunks(MOST);
        let mut frames = vec![Frame::headers(stream, parts.next().unwrap_or_default(), end)];
        frames.extend(parts.map(|part| Frame::continuation(stream, part, true)));
        let last = frames.len() - 1;
        frames[..last].iter_mut().for_each(|frame| frame.flags &= !Frame::END_HEADERS);
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        self.peer.offers(bytes);
        self
    }

    /// Sends data as the windows allow, and waits for them where they do not.
    #[track_caller]
    pub fn sends_data(
        &mut self,
        stream: u32,
        data: impl AsRef<[u8]>,
        end: bool,
    ) -> &mut Connection {
        let mut data = data.as_ref();
        loop {
            let sent = self.tries_to_send(stream, data, end);
            data = &data[sent..];
            if data.is_empty() {
                return self;
            }
            self.waits("room in the windows", |talk| talk.room(stream));
        }
    }

    /// Sends one frame of data, as long as the windows allow; returns how much that is of it.
    pub(super) fn tries_to_send(&mut self, stream: u32, data: &[u8], end: bool) -> usize {
        let length = self.room(stream).unwrap_or(0).min(data.len());
        if length > 0 || data.is_empty() {
            let is_last = end && length == data.len();
            self.offers(&[Frame::data(stream, &data[..length], is_last)]);
            self.count(stream, length);
        }
        length
    }

    /// Sends as much of `most` bytes as the windows allow, until they have not grown while a ping went to
    /// and fro; tells how many that were.
    #[track_caller]
    pub fn sends_until_blocked(&mut self, stream: u32, most: usize) -> usize {
        let mut sent = 0;
        while sent < most {
            let room = self.room(stream).or_else(|| {
                self.pings();
                self.room(stream)
            });
            let Some(room) = room else { break };
            let length = room.min(most - sent);
            self.sends(&Frame::data(stream, vec![b'x'; length], false));
            self.count(stream, length);
            sent += length;
        }
        sent
    }

    /// Sends on all these streams whatever the windows allow, until the other side has reset each of them.
    #[track_caller]
    pub fn sends_until_reset(&mut self, streams: &[u32]) {
        let mut left = streams.to_vec();
        let mut with_room = |talk: &mut Connection| {
            left.retain(|stream| talk.has_reset(*stream).is_none());
            let found = left.iter().find_map(|&stream| Some((stream, talk.room(stream)?)));
            (found.is_some() || left.is_empty()).then_some(found)
        };
        while let Some((stream, room)) = self.looks_for(&mut with_room).flatten() {
            self.offers(&[Frame::data(stream, vec![b'x'; room], false)]).looks();
            self.count(stream, room);
        }
    }

    /// Sends trailers, which end a message.
    #[track_caller]
    pub fn sends_trailers(&mut self, stream: u32, trailers: &Head) -> &mut Connection {
        self.sends_head(stream, trailers, true)
    }

    /// Gives a stream up.
    #[track_caller]
    pub fn resets(&mut self, stream: u32, code: u32) -> &mut Connection {
        self.sends(&Frame::reset(stream, code))
    }

    /// Sends a ping and waits for its response: then the other side has read everything before it.
    #[track_caller]
    pub fn pings(&mut self) -> &mut Connection {
        self.pings += 1;
        let number = self.pings;
        self.sends(&Frame::ping(number.to_be_bytes()));
        self.waits("the response to a ping", |talk| (talk.pongs >= number).then_some(()));
        self
    }

    /// Waits until that many bytes of a body have come, and takes them.
    #[track_caller]
    pub fn takes_data(&mut self, stream: u32, count: usize) -> Vec<u8> {
        self.waits(&format!("{count} bytes on stream {stream}"), |talk| {
            let heard = talk.streams.get_mut(&stream)?;
            (heard.body.len() >= count).then(|| heard.body.drain(..count).collect())
        })
    }

    /// Waits for the end of the message on a stream: what of its body is left, and its trailers.
    #[track_caller]
    pub fn takes_rest(&mut self, stream: u32) -> (Vec<u8>, Vec<(String, String)>) {
        self.waits(&format!("the end of stream {stream}"), |talk| {
            let heard = talk.streams.get_mut(&stream).filter(|heard| heard.ended)?;
            Some((std::mem::take(&mut heard.body), std::mem::take(&mut heard.trailers)))
        })
    }

    /// Waits until the other side resets a stream; returns the code.
    #[track_caller]
    pub fn reset_of(&mut self, stream: u32) -> u32 {
        self.waits(&format!("a reset of stream {stream}"), |talk| talk.has_reset(stream))
    }

    /// The code with which the other side has reset a stream, as far as that has come.
    pub fn has_reset(&self, stream: u32) -> Option<u32> {
        self.streams.get(&stream)?.reset
    }

    /// The status of a response whose head was not taken, as far as that has come.
    pub fn has_responded(&self, stream: u32) -> Option<u16> {
        let head = self.streams.get(&stream)?.heads.front()?;
        value(head, ":status").parse().ok()
    }

    /// Waits for GOAWAY; returns the last stream, and the code.
    #[track_caller]
    pub fn go_away(&mut self) -> (u32, u32) {
        self.waits("GOAWAY", |talk| talk.go_away.take())
    }

    /// GOAWAY, as far as it has come.
    pub fn has_gone_away(&self) -> Option<(u32, u32)> {
        self.go_away
    }

    /// Waits for the end of the connection, whatever comes before.
    #[track_caller]
    pub fn ends(&mut self) -> End {
        while self.step() {}
        self.peer.ended().expect("it has ended")
    }

    /// Waits for the settings of the other side, and acknowledges one of them.
    #[track_caller]
    pub fn setting(&mut self, id: u16) -> Option<u32> {
        self.waits("settings", |talk| (!talk.settings.is_empty()).then_some(()));
        self.settings.get(&id).copied()
    }

    /// How many bytes of data have come, on all streams.
    pub fn data_so_far(&self) -> usize {
        self.data
    }

    /// How many bytes of blocks have come, on all streams.
    pub fn blocks_so_far(&self) -> usize {
        self.blocks
    }

    /// What of a body has come and was not taken.
    pub fn body_so_far(&self, stream: u32) -> usize {
        self.streams.get(&stream).map_or(0, |heard| heard.body.len())
    }

    /// Whether anything at all has come on a stream.
    pub fn has_heard(&self, stream: u32) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Gives a window more.
    #[track_caller]
    pub fn gives(&mut self, stream: u32, bytes: u32) -> &mut Connection {
        self.sends(&Frame::window_update(stream, bytes))
    }

    /// Reads until `look` finds something; the connection may not end before that.
    #[track_caller]
    pub fn waits<R>(&mut self, wanted: &str, look: impl FnMut(&mut Connection) -> Option<R>) -> R {
        match self.looks_for(look) {
            Some(found) => found,
            None => panic!(
                "waited for {wanted} in vain: the connection has ended ({:?}, GOAWAY {:?}); {:?}",
                self.peer.ended(),
                self.go_away,
                self.streams
            ),
        }
    }

    /// Reads until `look` finds something, or the connection ends.
    #[track_caller]
    pub fn looks_for<R>(
        &mut self,
        mut look: impl FnMut(&mut Connection) -> Option<R>,
    ) -> Option<R> {
        loop {
            if let Some(found) = look(self) {
                return Some(found);
            }
            if !self.step() {
                return None;
            }
        }
    }

    /// Reads what has come already. Does not wait.
    #[track_caller]
    pub fn looks(&mut self) -> &mut Connection {
        while self.peer.has_news() && self.step() {}
        self
    }

    /// Reads one frame; false at the end of the connection.
    #[track_caller]
    fn step(&mut self) -> bool {
        let Some(frame) = self.peer.next(b"a frame", Frame::parse) else { return false };
        self.hears(frame);
        true
    }

    #[track_caller]
    fn hears(&mut self, frame: Frame) {
        let stream = frame.stream;
        match frame.kind {
            Frame::HEADERS | Frame::CONTINUATION => self.hears_block(frame),
            Frame::DATA => self.hears_data(&frame),
            Frame::RST_STREAM => {
                self.streams.entry(stream).or_default().reset = Some(frame.number(0));
            }
            Frame::SETTINGS if !frame.has(Frame::ACK) => self.hears_settings(&frame),
            Frame::PING if frame.has(Frame::ACK) => {
                let number = frame.payload.first_chunk().map_or(0, |it| u64::from_be_bytes(*it));
                self.pongs = self.pongs.max(number);
            }
            Frame::PING => self.owes(Frame { flags: Frame::ACK, ..frame }),
            Frame::GOAWAY => self.go_away = Some((frame.number(0), frame.number(4))),
            Frame::WINDOW_UPDATE if stream == 0 => self.window += i64::from(frame.number(0)),
            Frame::WINDOW_UPDATE => *self.window_of(stream) += i64::from(frame.number(0)),
            _ => {}
        }
    }

    #[track_caller]
    fn hears_block(&mut self, frame: Frame) {
        let Frame { stream, flags, payload, .. } = frame;
        let begun = self.block.take();
        let (_, mut block, end) =
            begun.unwrap_or((stream, Vec::new(), flags & Frame::END_STREAM != 0));
        block.extend(payload);
        if flags & Frame::END_HEADERS == 0 {
            self.block = Some((stream, block, end));
            return;
        }
        self.blocks += block.len();
        let lines = match hpack::read(&block) {
            Ok(lines) => lines,
            Err(why) => panic!("a block with {why}: {}", shown(&block)),
        };
        if !self.streams.contains_key(&stream) && lines.iter().any(|(name, _)| name == ":method") {
            self.opened.push_back(stream);
        }
        let heard = self.streams.entry(stream).or_default();
        heard.ended |= end;
        match heard.has_final {
            true => heard.trailers = lines,
            false => {
                heard.has_final = !value(&lines, ":status").starts_with('1');
                heard.heads.push_back(lines);
            }
        }
    }

    fn hears_data(&mut self, frame: &Frame) {
        let heard = self.streams.entry(frame.stream).or_default();
        let ended = frame.has(Frame::END_STREAM);
        heard.ended |= ended;
        heard.body.extend_from_slice(&frame.payload);
        self.data += frame.payload.len();
        let length = u32::try_from(frame.payload.len()).expect("frames are short");
        if self.gives_windows && length > 0 {
            let mut frames = vec![Frame::window_update(0, length)];
            if !ended {
                frames.push(Frame::window_update(frame.stream, length));
            }
            self.offers(&frames);
        }
    }

    fn hears_settings(&mut self, frame: &Frame) {
        let before = i64::from(self.first_window());
        for setting in frame.payload.chunks_exact(6) {
            let id = u16::from_be_bytes([setting[0], setting[1]]);
            let value = u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]);
            self.settings.insert(id, value);
        }
        let by = i64::from(self.first_window()) - before;
        self.windows.values_mut().for_each(|window| *window += by);
        self.owes(Frame::new(Frame::SETTINGS, Frame::ACK, 0, []));
    }

    fn owes(&mut self, frame: Frame) {
        self.owed.push(frame);
        if self.acknowledges {
            self.acknowledges();
        }
    }

    fn first_window(&self) -> u32 {
        self.settings.get(&setting::INITIAL_WINDOW_SIZE).copied().unwrap_or(FIRST_WINDOW)
    }

    fn window_of(&mut self, stream: u32) -> &mut i64 {
        let first = self.first_window().into();
        self.windows.entry(stream).or_insert(first)
    }

    /// How long a frame may be now, where one may.
    fn room(&mut self, stream: u32) -> Option<usize> {
        let window = self.window.min(*self.window_of(stream));
        usize::try_from(window).ok().filter(|&room| room > 0).map(|room| room.min(MOST))
    }

    fn count(&mut self, stream: u32, length: usize) {
        let length = i64::try_from(length).expect("frames are short");
        self.window -= length;
        *self.window_of(stream) -= length;
    }

    pub(super) fn take_response(&mut self, stream: u32) -> Option<Response> {
        let heard = self.streams.get_mut(&stream)?;
        let is_interim = !heard.has_final || heard.heads.len() > 1;
        if is_interim {
            return heard.heads.pop_front().map(response);
        }
        if !heard.ended {
            return None;
        }
        let mut response = response(heard.heads.pop_front()?);
        response.message.body = std::mem::take(&mut heard.body);
        response.message.trailers = std::mem::take(&mut heard.trailers);
        Some(response)
    }

    pub(super) fn take_response_head(&mut self, stream: u32) -> Option<Response> {
        self.streams.get_mut(&stream)?.heads.pop_front().map(response)
    }

    pub(super) fn take_request(&mut self, connection: usize) -> Option<(u32, Request)> {
        let is_whole = |stream: &&u32| self.streams.get(stream).is_some_and(|heard| heard.ended);
        let stream = *self.opened.iter().find(is_whole)?;
        self.opened.retain(|&opened| opened != stream);
        let heard = self.streams.get_mut(&stream)?;
        let mut request = request(heard.heads.pop_front()?, connection);
        request.message.body = std::mem::take(&mut heard.body);
        request.message.trailers = std::mem::take(&mut heard.trailers);
        Some((stream, request))
    }

    pub(super) fn take_request_head(&mut self, connection: usize) -> Option<(u32, Request)> {
        let stream = self.opened.pop_front()?;
        let head = self.streams.get_mut(&stream)?.heads.pop_front()?;
        Some((stream, request(head, connection)))
    }
}

fn message(first_line: String, fields: Vec<(String, String)>) -> Message {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    Message { first_line, fields, bytes: lines.into_bytes(), ..Message::default() }
}

fn response(fields: Vec<(String, String)>) -> Response {
    let status = value(&fields, ":status");
    let code = status.parse().unwrap_or(0);
    Response { status: code, message: message(format!("HTTP/2 {status}"), fields) }
}

fn request(fields: Vec<(String, String)>, connection: usize) -> Request {
    let (method, target) = (value(&fields, ":method"), value(&fields, ":path"));
    let message = message(format!("{method} {target} HTTP/2"), fields);
    Request { method, target, connection, message }
}

fn value(fields: &[(String, String)], name: &str) -> String {
    let found = fields.iter().find(|(known, _)| known == name);
    found.map_or(String::new(), |(_, value)| value.clone())
}
