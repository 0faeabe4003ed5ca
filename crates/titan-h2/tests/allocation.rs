//! Once the buffers have grown, an exchange costs no allocation, on either side.

#![expect(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use allocation_counter::measure;
use titan_h2::{Connection, Destination, Event, Limits};
use titan_http::{Fields, Method, RequestHead, ResponseHead, Status};

/// Both ends of a connection, and what a gateway keeps beside it.
struct Pair {
    client: Connection,
    server: Connection,
    request: RequestHead,
    response: ResponseHead,
    trailers: Fields,
    taken: (RequestHead, ResponseHead, Fields),
    /// How many exchanges were complete.
    count: usize,
}

const BODY: &[u8] = &[7; 20_000];

impl Pair {
    fn new() -> Pair {
        let mut request = RequestHead { method: Method::POST, ..RequestHead::default() };
        request.set_path(b"/a/b").unwrap();
        request.fields.append_named(b"X-Request-Id", b"0123456789abcdef").unwrap();
        request.fields.append_named(b"Accept", b"*/*").unwrap();
        let mut response = ResponseHead::with_status(Status::OK);
        response.fields.append_named(b"Server", b"x").unwrap();
        let mut trailers = Fields::default();
        trailers.append_named(b"x-sum", b"7").unwrap();
        Pair {
            client: Connection::client(Limits::default()),
            server: Connection::server(Limits::default()),
            request,
            response,
            trailers,
            taken: Default::default(),
            count: 0,
        }
    }

    /// One exchange with bodies and trailers both ways.
    fn run(&mut self) {
        let to = Destination { authority: b"a.example", is_https: true, protocol: None };
        let stream = self.client.send_request(&self.request, to, None, false).unwrap();
        assert_eq!(self.client.send_data(stream, BODY, false), BODY.len());
        self.client.send_trailers(stream, &self.trailers);
        let before = self.count;
        while self.count == before {
            self.serve();
            self.listen();
        }
    }

    fn serve(&mut self) {
        let mut at = 0;
        loop {
            let (consumed, event) = self.server.read(&self.client.output()[at..]).unwrap();
            at += consumed;
            match event {
                Some(Event::Request { .. }) => {
                    self.server.take_request(&mut self.taken.0);
                }
                Some(Event::Data { stream, data, .. }) => self.server.release(stream, data.len()),
                Some(Event::Trailers { stream }) => {
                    self.server.take_trailers(&mut self.taken.2);
                    self.server.send_response(stream, &self.response, Some(20_000), false);
                    assert_eq!(self.server.send_data(stream, BODY, false), BODY.len());
                    self.server.send_trailers(stream, &self.trailers);
                }
                None if consumed == 0 => break,
                _ => {}
            }
        }
        self.client.written(at);
    }

    fn listen(&mut self) {
        let mut at = 0;
        loop {
            let (consumed, event) = self.client.read(&self.server.output()[at..]).unwrap();
            at += consumed;
            match event {
                Some(Event::Response { .. }) => self.client.take_response(&mut self.taken.1),
                Some(Event::Data { stream, data, .. }) => self.client.release(stream, data.len()),
                Some(Event::Trailers { .. }) => {
                    self.client.take_trailers(&mut self.taken.2);
                    self.count += 1;
                }
                None if consumed == 0 => break,
                _ => {}
            }
        }
        self.server.written(at);
    }
}

#[test]
fn an_exchange_allocates_nothing() {
    let mut pair = Pair::new();
    (0..100).for_each(|_| pair.run());
    let allocations = measure(|| (0..1000).for_each(|_| pair.run()));
    assert_eq!((allocations.count_total, pair.count), (0, 1100));
}
