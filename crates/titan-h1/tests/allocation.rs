//! Once the buffers have grown, a request costs no allocation.

use allocation_counter::measure;
use titan_h1::{
    Body, BodyReader, Connection, Framing, Limits, RequestReader, ResponseReader, write_chunk_head,
    write_last_chunk, write_request, write_response,
};
use titan_http::{Method, RequestHead, ResponseHead};

const REQUEST: &[u8] = b"POST /a/b?c=d HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive\r\n\
    Transfer-Encoding: chunked\r\nX-Any: 1\r\n\r\n";
const BODY: &[u8] = b"5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServer: x\r\n\r\n";

/// All that a gateway does with bytes for one exchange.
struct Exchange {
    requests: RequestReader,
    request: RequestHead,
    responses: ResponseReader,
    response: ResponseHead,
    body: BodyReader,
    out: Vec<u8>,
}

impl Exchange {
    fn new() -> Exchange {
        let limits = Limits::default();
        Exchange {
            requests: RequestReader::new(limits),
            request: RequestHead::default(),
            responses: ResponseReader::new(limits),
            response: ResponseHead::default(),
            body: BodyReader::new(Framing::None, &limits),
            out: Vec::new(),
        }
    }

    fn run(&mut self) {
        self.out.clear();
        let half = REQUEST.len() / 2;
        assert_eq!(self.requests.read(&REQUEST[..half], &mut self.request), Ok(None));
        let start = self.requests.read(REQUEST, &mut self.request).expect("no fault");
        let keep_alive = Connection::KeepAlive;
        write_request(&mut self.out, &self.request, b"b", Body::Chunked, keep_alive);
        self.read_body(start.expect("complete").framing, BODY);
        write_chunk_head(&mut self.out, 5);
        write_last_chunk(&mut self.out, self.body.trailers());

        let start = self.responses.read(RESPONSE, Method::POST, &mut self.response);
        write_response(&mut self.out, &self.response, Body::Length(5), keep_alive);
        self.read_body(start.expect("no fault").expect("complete").framing, b"hello");
    }

    fn read_body(&mut self, framing: Framing, bytes: &[u8]) {
        self.body.reset(framing);
        let mut at = 0;
        while !self.body.is_done() {
            at += self.body.read(&bytes[at..]).expect("no fault").consumed;
        }
    }
}

#[test]
fn an_exchange_on_a_warm_connection_allocates_nothing() {
    let mut exchange = Exchange::new();
    exchange.run();
    let allocations = measure(|| (0..100).for_each(|_| exchange.run()));
    assert_eq!(allocations.count_total, 0);
}
