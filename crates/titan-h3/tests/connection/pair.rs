//! A client and a server that talk to each other, with messages, pieces and windows of any kind.

use crate::peer::{Sent, id};
use proptest::prelude::*;
use std::collections::BTreeMap;
use titan_h3::{Connection, Destination, Event, Limits, StreamId};
use titan_http::{Fields, Method, RequestHead, ResponseHead, Status};

/// What one request and its response look like.
#[derive(Clone, Debug)]
struct Plan {
    request: usize,
    response: usize,
    trailers: bool,
    interim: bool,
    declares: bool,
}

/// A message that is being sent, and what has come of the other one.
#[derive(Debug, Default)]
struct Side {
    left: Vec<u8>,
    trailers: bool,
    has_ended: bool,
    received: Vec<u8>,
    received_trailers: Option<String>,
    is_whole: bool,
    finals: usize,
    interims: usize,
}

/// One end of the connection, and how much of what it has sent the other one was given.
struct End {
    connection: Connection,
    sent: Sent,
    given: BTreeMap<StreamId, usize>,
    kept: BTreeMap<StreamId, Vec<u8>>,
    ended: Vec<StreamId>,
    sides: BTreeMap<StreamId, Side>,
}

fn body(length: usize, seed: u64) -> Vec<u8> {
    (0..length).map(|at| (at as u64 * 31 + seed * 7) as u8).collect()
}

fn trailers() -> Fields {
    let mut fields = Fields::default();
    fields.append_named(b"checksum", b"abc").unwrap();
    fields
}

impl End {
    fn new(connection: Connection, first: u64) -> End {
        End {
            connection,
            sent: Sent::with_room(0, first),
            given: BTreeMap::new(),
            kept: BTreeMap::new(),
            ended: Vec::new(),
            sides: BTreeMap::new(),
        }
    }

    fn send_on(&mut self, stream: StreamId) {
        let Some(side) = self.sides.get_mut(&stream).filter(|side| !side.has_ended) else { return };
        let end = !side.trailers;
        let count = self.connection.send_data(stream, &side.left, end);
        side.left.drain(..count);
        if side.left.is_empty() {
            if side.trailers {
                self.connection.send_trailers(stream, &trailers());
            }
            side.has_ended = true;
        }
    }

    /// Hands over what the other end has written, in pieces.
    fn hear(&mut self, other: &End, piece: usize, plans: &[Plan]) {
        for (&stream, written) in &other.sent.written {
            let given = self.given.entry(stream).or_default();
            let fresh = &written[*given..(*given + piece).min(written.len())];
            *given += fresh.len();
            let is_last = *given == written.len() && other.sent.finished.contains(&stream);
            if fresh.is_empty() && (!is_last || self.ended.contains(&stream)) {
                continue;
            }
            if is_last {
                self.ended.push(stream);
            }
            let mut input = self.kept.remove(&stream).unwrap_or_default();
            input.extend_from_slice(fresh);
            let mut at = 0;
            loop {
                let rest = &input[at..];
                let (count, event) = match stream.number() % 4 {
                    0 => self.connection.read(stream, rest, is_last).unwrap(),
                    _ => self.connection.read_uni(stream, rest, is_last).unwrap(),
                };
                let data = match &event {
                    Some(Event::Data { data, .. }) => rest[data.clone()].to_vec(),
                    _ => Vec::new(),
                };
                at += count;
                let is_done = count == 0 && event.is_none();
                if let Some(event) = event {
                    self.on_event(event, &data, plans);
                }
                if is_done || is_last && at == input.len() {
                    break;
                }
            }
            self.kept.insert(stream, input.split_off(at));
        }
    }

    fn on_event(&mut self, event: Event, data: &[u8], plans: &[Plan]) {
        match event {
            Event::Request { stream, start } => {
                let plan = &plans[(stream.number() / 4) as usize];
                assert_eq!(start.length, plan.declares.then_some(plan.request as u64));
                let side = self.sides.entry(stream).or_default();
                side.is_whole |= start.end;
                side.left = body(plan.response, stream.number() + 1);
                side.trailers = plan.trailers;
                let mut head = ResponseHead { status: Status::EARLY_HINTS, ..Default::default() };
                if plan.interim {
                    self.connection.send_response(stream, &head, None, false);
                }
                head.status = Status::OK;
                let length = plan.declares.then_some(plan.response as u64);
                self.connection.send_response(stream, &head, length, false);
                self.send_on(stream);
            }
            Event::Response { stream, start } => {
                let side = self.sides.get_mut(&stream).unwrap();
                side.interims += usize::from(start.interim);
                side.finals += usize::from(!start.interim);
                side.is_whole |= start.end;
            }
            Event::Data { stream, end, .. } => {
                let side = self.sides.get_mut(&stream).unwrap();
                side.received.extend_from_slice(data);
                side.is_whole |= end;
                self.connection.release(stream, data.len());
            }
            Event::Trailers { stream } => {
                let mut fields = Fields::default();
                self.connection.take_trailers(&mut fields);
                let side = self.sides.get_mut(&stream).unwrap();
                let value = fields.named(b"checksum").next().unwrap().to_vec();
                side.received_trailers = String::from_utf8(value).ok();
                side.is_whole = true;
            }
            Event::Settings => {}
            other => panic!("{other:?}"),
        }
    }

    fn flush(&mut self, window: usize) {
        self.sent.room += window;
        let streams: Vec<_> = self.sides.keys().copied().collect();
        streams.into_iter().for_each(|stream| self.connection.writable(stream));
        self.connection.flush(&mut self.sent);
        while let Some(stream) = self.connection.next_unblocked() {
            self.send_on(stream);
        }
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    let length = || prop_oneof![Just(0_usize), 1..100_usize, 1000..9000_usize];
    (length(), length(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(request, response, trailers, interim, declares)| Plan {
            request,
            response,
            trailers,
            interim,
            declares,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_arrive_whole(
        plans in prop::collection::vec(plan(), 1..6),
        piece in 1..700_usize,
        window in 1..700_usize,
        output in 200..5000_usize,
    ) {
        let limits = Limits { output, flood_budget: 1 << 30, ..Limits::default() };
        let mut client = End::new(Connection::client(limits), 2);
        let mut server = End::new(Connection::server(limits), 3);
        let mut head = RequestHead { method: Method::POST, ..RequestHead::default() };
        head.set_path(b"/p").unwrap();
        let to = Destination { authority: b"a.test", is_https: true, protocol: None };
        for (at, plan) in plans.iter().enumerate() {
            let stream = id(at as u64 * 4);
            let length = plan.declares.then_some(plan.request as u64);
            client.connection.send_request(stream, &head, to, length, false);
            let left = body(plan.request, stream.number());
            let side = Side { left, trailers: plan.trailers, ..Side::default() };
            client.sides.insert(stream, side);
            client.send_on(stream);
        }
        for _ in 0..100_000 {
            client.flush(window);
            server.hear(&client, piece, &plans);
            server.flush(window);
            client.hear(&server, piece, &plans);
            let is_whole = |end: &End| {
                let sides = &end.sides;
                sides.len() == plans.len() && sides.values().all(|side| side.is_whole)
            };
            let open = client.connection.open_streams() + server.connection.open_streams();
            if is_whole(&client) && is_whole(&server) && open == 0 {
                break;
            }
        }
        for (at, plan) in plans.iter().enumerate() {
            let stream = id(at as u64 * 4);
            let (asked, responded) = (&server.sides[&stream], &client.sides[&stream]);
            prop_assert_eq!(&asked.received, &body(plan.request, stream.number()));
            prop_assert_eq!(&responded.received, &body(plan.response, stream.number() + 1));
            let checksum = plan.trailers.then(|| "abc".to_owned());
            prop_assert_eq!(&asked.received_trailers, &checksum);
            prop_assert_eq!(&responded.received_trailers, &checksum);
            prop_assert_eq!((responded.finals, responded.interims), (1, usize::from(plan.interim)));
            prop_assert!(asked.is_whole && responded.is_whole);
        }
        prop_assert_eq!((client.connection.open_streams(), server.connection.open_streams()), (0, 0));
    }
}
