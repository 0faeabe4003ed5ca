//! A client and a server against each other: whatever they do, bodies arrive whole and windows hold.

use crate::peer::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use titan_h2::{Code, Connection, Event, Limits, StreamId};
use titan_http::{Fields, Method, Status};

/// One exchange: how long its bodies are, and how they end.
#[derive(Clone, Debug)]
struct Plan {
    request: usize,
    response: usize,
    /// Both messages end with trailers.
    trailers: bool,
    /// After how many steps the client gives up, if it does.
    reset: Option<usize>,
}

/// One side of a stream.
#[derive(Debug, Default)]
struct Side {
    to_send: usize,
    sent: usize,
    is_sent: bool,
    received: usize,
    is_received: bool,
    trailers: bool,
    is_reset: bool,
}

/// One end of the connection, with its streams.
struct End {
    tested: Tested,
    sides: BTreeMap<StreamId, Side>,
}

const LIMITS: Limits = Limits {
    streams: 5,
    head: 16 << 10,
    fields: 100,
    target: 8 << 10,
    trailers: 4 << 10,
    stream_window: 900,
    grown_window: 2_000,
    connection_window: 65_535,
    output: 2000,
    flood_budget: 1000,
};

/// The byte at an offset of any body: so that what is lost or repeated is seen.
fn byte(stream: StreamId, at: usize) -> u8 {
    (at.wrapping_mul(31) ^ at >> 8 ^ stream.number() as usize) as u8
}

impl End {
    fn of(connection: Connection) -> End {
        End { tested: Tested::of(connection), sides: BTreeMap::new() }
    }

    /// Sends as much as goes of what the streams have, then what they are called upon to send.
    fn send(&mut self) {
        let waiting: Vec<_> = self.sides.keys().copied().collect();
        for stream in waiting {
            self.send_on(stream);
        }
        self.go_on();
    }

    fn go_on(&mut self) {
        while let Some(stream) = self.tested.connection.next_unblocked() {
            self.send_on(stream);
        }
    }

    fn send_on(&mut self, stream: StreamId) {
        let side = self.sides.get_mut(&stream).unwrap();
        if side.is_sent || side.is_reset {
            return;
        }
        let data: Vec<_> = (side.sent..side.to_send).map(|at| byte(stream, at)).collect();
        let end = !side.trailers;
        let taken = self.tested.connection.send_data(stream, &data, end);
        side.sent += taken;
        if taken < data.len() {
            return;
        }
        if side.trailers {
            let fields = one_field(b"etag", b"\"1\"");
            self.tested.connection.send_trailers(stream, &fields);
        }
        side.is_sent = true;
    }

    /// Reads bytes; responds as planned to the requests among them.
    fn receive(&mut self, bytes: &[u8], plans: &[Plan]) {
        let before = self.tested.told.len();
        self.tested.receives(bytes).unwrap();
        for told in self.tested.told.split_off(before) {
            self.note(&told, plans);
        }
        let bound = LIMITS.output + 16_384 + 9 + 4096;
        assert!(self.tested.connection.output().len() <= bound);
    }

    fn note(&mut self, told: &Told, plans: &[Plan]) {
        match told.event {
            Event::Request { stream, start } => self.respond(stream, start.end, plans),
            Event::Response { stream, start } => {
                self.sides.get_mut(&stream).unwrap().is_received |= start.end;
            }
            Event::Data { stream, end, .. } => {
                let side = self.sides.get_mut(&stream).unwrap();
                for (at, &found) in told.data.iter().enumerate() {
                    assert_eq!(found, byte(stream, side.received + at));
                }
                side.received += told.data.len();
                side.is_received |= end;
            }
            Event::Trailers { stream } => {
                let mut fields = Fields::default();
                self.tested.connection.take_trailers(&mut fields);
                self.sides.get_mut(&stream).unwrap().is_received = true;
            }
            Event::Reset { stream, fault, .. } => {
                assert_eq!(fault, None);
                self.sides.entry(stream).or_default().is_reset = true;
            }
            Event::Settings | Event::GoAway { .. } => {}
            ref other => panic!("{other:?}"),
        }
    }

    fn respond(&mut self, stream: StreamId, end: bool, plans: &[Plan]) {
        let plan = &plans[(stream.number() / 2) as usize];
        let side = Side {
            to_send: plan.response,
            trailers: plan.trailers,
            is_received: end,
            ..Side::default()
        };
        self.sides.insert(stream, side);
        self.tested.responds(stream, Status::OK, false);
    }
}

/// What waits at `from` goes to `to`, in parts of that many bytes.
fn carry(from: &mut End, to: &mut End, part: usize, plans: &[Plan]) -> bool {
    let count = from.tested.connection.output().len().min(part);
    let bytes = from.tested.connection.output()[..count].to_vec();
    from.tested.connection.written(count);
    to.receive(&bytes, plans);
    from.go_on();
    count > 0
}

/// The client opens what it may of the plans, and gives up what is due.
fn ask(client: &mut End, plans: &[Plan], step: usize) {
    while let Some(plan) = plans.get(client.sides.len()) {
        let Some(stream) = client.tested.asks(Method::POST, false) else { break };
        let side = Side { to_send: plan.request, trailers: plan.trailers, ..Side::default() };
        client.sides.insert(stream, side);
    }
    for (index, (stream, side)) in client.sides.iter_mut().enumerate() {
        let is_over = side.is_sent && side.is_received;
        if plans[index].reset.is_some_and(|at| at <= step) && !side.is_reset && !is_over {
            side.is_reset = true;
            client.tested.connection.reset(*stream, Code::Cancel);
        }
    }
}

fn run(plans: &[Plan], parts: (usize, usize)) {
    let mut client = End::of(Connection::client(LIMITS));
    let mut server = End::of(Connection::server(LIMITS));
    // So that the client knows from the beginning how many streams it may open.
    carry(&mut server, &mut client, usize::MAX, plans);
    let mut idle = 0;
    for step in 0.. {
        ask(&mut client, plans, step);
        client.send();
        server.send();
        let mut has_moved = carry(&mut client, &mut server, parts.0, plans);
        has_moved |= carry(&mut server, &mut client, parts.1, plans);
        idle = if has_moved { 0 } else { idle + 1 };
        if idle > 2 {
            break;
        }
    }
    check(&client, &server, plans);
    client.tested.connection.drain();
    server.tested.connection.drain();
    for _ in 0..3 {
        carry(&mut client, &mut server, usize::MAX, plans);
        server.tested.told.clear();
    }
    assert!(client.tested.connection.is_over() && server.tested.connection.is_over());
}

fn check(client: &End, server: &End, plans: &[Plan]) {
    assert_eq!(client.sides.len(), plans.len());
    assert_eq!(client.tested.connection.open_streams(), 0);
    assert_eq!(server.tested.connection.open_streams(), 0);
    for (stream, side) in client.sides.iter().filter(|(_, side)| !side.is_reset) {
        let plan = &plans[(stream.number() / 2) as usize];
        assert!(side.is_sent && side.is_received);
        assert_eq!((side.received, server.sides[stream].received), (plan.response, plan.request));
    }
}

fn plan() -> impl Strategy<Value = Plan> {
    let length = || prop_oneof![Just(0), 1_usize..50, 0_usize..5000];
    let reset = proptest::option::weighted(0.2, 0_usize..30);
    (length(), length(), any::<bool>(), reset).prop_map(|(request, response, trailers, reset)| {
        Plan { request, response, trailers, reset }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bodies_arrive_whole(
        plans in proptest::collection::vec(plan(), 1..20),
        parts in (50_usize..3000, 50_usize..3000),
    ) {
        run(&plans, parts);
    }
}

#[test]
fn byte_by_byte() {
    let plan = Plan { request: 100, response: 1000, trailers: true, reset: None };
    run(&vec![plan; 7], (1, 1));
}

#[test]
fn a_large_body_each_way() {
    let plan = Plan { request: 50_000, response: 50_000, trailers: true, reset: None };
    run(&[plan.clone(), plan], (1 << 16, 1 << 16));
}
