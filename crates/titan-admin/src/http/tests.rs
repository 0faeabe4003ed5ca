//! The server over a real socket: bytes in, bytes out.

use super::*;
use socket2::{Domain, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use titan_config::ListenAddress;
use titan_http::{RequestHead, Status};

const BOUNDS: Bounds = Bounds {
    connections: 2,
    share: 2,
    idle: Duration::from_secs(30),
    requests: 100,
    life: Duration::from_secs(60),
    bodies: 3 * Request::MAX_BODY,
};

/// A server that responds with the method, the path and the body it has received.
fn echo() -> (Server, SocketAddr) {
    serving(BOUNDS, |request: &Request| {
        let mut text = format!("{:?} ", request.head.method).into_bytes();
        text.extend_from_slice(request.head.path());
        text.push(b' ');
        text.extend_from_slice(&request.body);
        Response::new(Status::OK, "text/plain", text)
    })
}

fn serving(bounds: Bounds, handler: impl Handler) -> (Server, SocketAddr) {
    let socket = Socket::bind(&ListenAddress::Tcp((Ipv4Addr::LOCALHOST, 0).into())).unwrap();
    let ListenAddress::Tcp(address) = *socket.address() else { panic!("not TCP") };
    (Server::start("test", socket, bounds, handler).unwrap(), address)
}

fn responds_hi(_: &Request) -> Response {
    Response::new(Status::OK, "text/plain", "hi")
}

#[test]
fn a_unix_socket_is_served_too() {
    let path = std::env::temp_dir().join(format!("titan-http-{}", std::process::id()));
    let socket = Socket::bind(&ListenAddress::Unix(path.clone())).unwrap();
    let server = Server::start("unix", socket, BOUNDS, responds_hi).unwrap();
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\r\n\r\nhi"), "{text}");
    server.end();
    assert!(!path.exists(), "its file goes with it");
}

/// What comes back until the end, without the dates.
fn responses_to(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let lines = text.split_inclusive("\r\n").filter(|line| !line.starts_with("Date: "));
    lines.collect()
}

#[test]
fn requests_get_responses_in_order() {
    let (_server, address) = echo();
    let bytes = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n\
        POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n\
        HEAD /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(
        responses_to(address, bytes),
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\nGET /a \
         HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 10\r\n\r\nPOST /b hi\
         HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\
         Connection: close\r\n\r\n"
    );
}

#[test]
fn a_client_that_waits_gets_100() {
    let (_server, address) = echo();
    let head = b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(head).unwrap();
    let mut interim = [0; 25];
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"!").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.ends_with("PUT / !"), "{text}");
}

#[test]
fn what_breaks_the_rules_gets_a_response_and_the_end() {
    let (_server, address) = echo();
    let refused = |bytes: &str| responses_to(address, bytes.as_bytes())[9..12].to_owned();
    let second = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    assert_eq!(refused(&format!("GET / HTTP/1.1\r\n\r\n{second}")), "400");
    let large = Request::MAX_BODY + 1;
    assert_eq!(
        refused(&format!("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {large}\r\n\r\n")),
        "413"
    );
    let chunk = "x".repeat(large);
    let head = "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(refused(&format!("{head}{large:x}\r\n{chunk}\r\n0\r\n\r\n")), "413");
    assert_eq!(refused(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(9 << 10))), "414");
    let fields = "X: y\r\n".repeat(4 << 10);
    assert_eq!(refused(&format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}\r\n")), "431");
    let document = responses_to(address, b"GET / HTTP/1.1\r\n\r\n");
    assert!(document.contains("Content-Type: application/problem+json\r\n"), "{document}");
    assert!(document.ends_with("\"title\":\"Bad Request\",\"type\":\"about:blank\"}\n"));
}

/// Clients that have connected in this order.
fn clients(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(address).unwrap()).collect()
}

/// Clients that have all the slots that there are, and keep them: 100 (Continue) tells that their requests are being read.
fn busy_clients(address: SocketAddr, count: u32) -> Vec<TcpStream> {
    let mut clients = clients(address, count as usize);
    let head = b"PUT / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    for client in &mut clients {
        client.write_all(head).unwrap();
        assert!(gets_response(client));
    }
    clients
}

/// A client of another address.
fn other_client(address: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    socket.into()
}

fn gets_response(stream: &mut TcpStream) -> bool {
    let mut first = [0; 9];
    stream.read_exact(&mut first).is_ok() && &first == b"HTTP/1.1 "
}

#[test]
fn the_connection_that_is_idle_for_longest_gives_way() {
    let (_server, address) = echo();
    let mut clients = clients(address, BOUNDS.connections as usize);
    // The second one is idle for longer than the first.
    for client in [1, 0, 2] {
        if client == BOUNDS.connections as usize {
            clients.push(TcpStream::connect(address).unwrap());
        }
        clients[client].write_all(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(gets_response(&mut clients[client]), "{client}");
    }
    clients[1].read_to_end(&mut Vec::new()).unwrap();
    clients[0].write_all(b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    clients[0].read_to_string(&mut text).unwrap();
    assert_eq!(
        text.matches("HTTP/1.1 200 OK\r\n").count(),
        1,
        "beside the rest of the first: {text}"
    );
}

#[test]
fn a_connection_that_is_sending_its_request_does_not_give_way() {
    let (_server, address) = echo();
    let mut clients = busy_clients(address, BOUNDS.connections);
    let mut last = TcpStream::connect(address).unwrap();
    last.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    last.set_nonblocking(true).unwrap();
    assert_eq!(last.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    last.set_nonblocking(false).unwrap();
    clients[0].write_all(b"!").unwrap();
    assert!(gets_response(&mut last));
    let mut text = String::new();
    clients[0].read_to_string(&mut text).unwrap();
    assert!(text.ends_with("PUT / !"), "it is answered before it has to go: {text}");
}

/// What anybody may call that takes a body.
struct Small;

impl Handler for Small {
    async fn admit(&self, _: &RequestHead, _: &Peer) -> Result<usize, Response> {
        Ok(Request::SMALL_BODY)
    }

    async fn respond(&self, request: Request) -> Response {
        Response::new(Status::OK, "text/plain", request.body)
    }
}

#[test]
fn a_small_body_that_does_not_end_gives_way() {
    let (_server, address) = serving(BOUNDS, Small);
    let mut halves = busy_clients(address, BOUNDS.connections);
    let mut next = TcpStream::connect(address).unwrap();
    next.write_all(b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi").unwrap();
    assert!(gets_response(&mut next));
    let mut rest = String::new();
    halves[0].read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("HTTP/1.1 4"), "the oldest gets nothing more: {rest}");
    halves[1].write_all(b"!").unwrap();
    halves[1].shutdown(Shutdown::Write).unwrap();
    rest.clear();
    halves[1].read_to_string(&mut rest).unwrap();
    assert!(rest.contains("HTTP/1.1 200 "), "one was enough: {rest}");
}

#[test]
fn a_head_that_does_not_end_gives_way() {
    let (_server, address) = echo();
    let mut halves = clients(address, BOUNDS.connections as usize);
    for client in &mut halves {
        // The response to the first request tells that the second has begun.
        client.write_all(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT").unwrap();
        assert!(gets_response(client));
    }
    let whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut next = TcpStream::connect(address).unwrap();
    next.write_all(whole).unwrap();
    assert!(gets_response(&mut next));
    let mut text = String::new();
    halves[0].read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\r\n\r\n"), "the oldest gets nothing more, no 408 either: {text}");
    halves[1].write_all(b"TP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    text.clear();
    halves[1].read_to_string(&mut text).unwrap();
    assert!(text.ends_with("\r\n\r\nGET / "), "one was enough: {text}");
}

#[test]
fn a_client_that_takes_no_response_gives_way() {
    // More than any socket takes.
    const LARGE: usize = 64 << 20;
    let (_server, address) =
        serving(BOUNDS, |_: &Request| Response::new(Status::OK, "text/plain", vec![b'x'; LARGE]));
    let mut deaf = clients(address, BOUNDS.connections as usize);
    for client in &mut deaf {
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(gets_response(client));
    }
    let mut next = TcpStream::connect(address).unwrap();
    next.write_all(b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(gets_response(&mut next));
    deaf[1].shutdown(Shutdown::Write).unwrap();
    let mut rest = Vec::new();
    deaf[1].read_to_end(&mut rest).unwrap();
    assert!(rest.len() > LARGE, "one was enough");
}

#[test]
fn the_house_that_one_address_has_filled_is_open_to_others() {
    let share = 2;
    let (_server, address) = serving(Bounds { connections: 3, share, ..BOUNDS }, responds_hi);
    let mut busy = busy_clients(address, share);
    let mut waiting = clients(address, share as usize);
    for client in &mut waiting {
        client.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    }
    let mut one_more = TcpStream::connect(address).unwrap();
    // It may be closed already.
    let _ = one_more.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(!gets_response(&mut one_more), "no more of them may wait");
    let mut other = other_client(address);
    other.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    assert!(gets_response(&mut other));
    busy.remove(0).write_all(b"!").unwrap();
    for client in &mut waiting {
        assert!(gets_response(client));
        client.read_to_end(&mut Vec::new()).unwrap();
    }
}

#[test]
fn a_server_that_is_dropped_ends() {
    let (server, address) = echo();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    stream.read_exact(&mut [0; 9]).unwrap();
    drop(server);
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Responds to `/wait` once it may, to anything else at once. The body of `/large` may be larger, that of `/closed` is
/// not received.
struct Waiting(Semaphore);

impl Handler for Waiting {
    async fn admit(&self, head: &RequestHead, _peer: &Peer) -> Result<usize, Response> {
        match head.path() {
            b"/large" => Ok(2 * Request::MAX_BODY),
            b"/closed" => Err(Response::problem(Status::FORBIDDEN, "closed")),
            _ => Ok(Request::MAX_BODY),
        }
    }

    async fn respond(&self, request: Request) -> Response {
        if request.head.path() == b"/wait" {
            self.0.acquire().await.unwrap().forget();
        }
        Response::new(Status::OK, "text/plain", request.body.len().to_string())
    }
}

fn waiting() -> (Server, SocketAddr, Arc<Waiting>) {
    let handler = Arc::new(Waiting(Semaphore::new(0)));
    let (server, address) = serving(BOUNDS, Arc::clone(&handler));
    (server, address, handler)
}

#[test]
fn a_response_that_takes_long_holds_up_nobody_else() {
    let (_server, address, handler) = waiting();
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(
        b"PUT /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\n!",
    )
    .unwrap();
    assert!(responses_to(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").ends_with("\r\n\r\n0"));
    handler.0.add_permits(1);
    let mut text = String::new();
    slow.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("\r\n\r\n1"), "{text}");
}

#[test]
fn a_server_that_has_left_is_finished_after_its_last_response() {
    let (mut server, address, handler) = waiting();
    let mut idle = TcpStream::connect(address).unwrap();
    let mut slow = TcpStream::connect(address).unwrap();
    // 100 (Continue) tells that the request is being read.
    let head =
        b"PUT /wait HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    slow.write_all(head).unwrap();
    slow.read_exact(&mut [0; 25]).unwrap();
    slow.write_all(b"!").unwrap();
    server.leave();
    idle.read_to_end(&mut Vec::new()).unwrap();
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let finished = server.finished();
        tokio::pin!(finished);
        tokio::select! {
            biased;
            () = &mut finished => panic!("a response is being made"),
            () = async {} => {}
        }
        handler.0.add_permits(1);
        let client = thread::spawn(move || {
            let mut text = String::new();
            slow.read_to_string(&mut text).unwrap();
            text
        });
        finished.await;
        assert!(client.join().unwrap().ends_with("\r\n\r\n1"));
    });
}

#[test]
fn a_handler_says_how_large_a_body_may_be_before_it_is_sent() {
    let (_server, address, _) = waiting();
    let status = |path: &str, length: usize| {
        let body = "x".repeat(length);
        let head = format!("PUT {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        responses_to(address, (head + &body).as_bytes())[9..12].to_owned()
    };
    assert_eq!(status("/large", 2 * Request::MAX_BODY), "200");
    assert_eq!(status("/large", 2 * Request::MAX_BODY + 1), "413");
    assert_eq!(status("/", Request::MAX_BODY + 1), "413");
    let head =
        "PUT /closed HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    let refused = responses_to(address, head.as_bytes());
    assert!(refused.starts_with("HTTP/1.1 403 "), "the body is not asked for: {refused}");
    assert!(refused.contains("Connection: close\r\n"), "{refused}");
    let twice = "GET /closed HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2);
    let both = responses_to(address, twice.as_bytes());
    assert_eq!(both.matches("HTTP/1.1 403 ").count(), 2, "there is no body to skip: {both}");
}

/// Tells what it is told of requests whose bodies do not come.
struct Telling(std_mpsc::SyncSender<(String, u16)>);

impl Handler for Telling {
    async fn respond(&self, _: Request) -> Response {
        Response::new(Status::OK, "text/plain", "")
    }

    fn give_up(&self, head: &RequestHead, _: &Peer, status: Status, _: &str) {
        let path = String::from_utf8_lossy(head.path()).into_owned();
        self.0.send((path, status.code())).unwrap();
    }
}

#[test]
fn a_handler_is_told_of_bodies_that_do_not_come() {
    let (telling, told) = std_mpsc::sync_channel(1);
    let (_server, address) = serving(Bounds { bodies: 1, ..BOUNDS }, Telling(telling));
    let large = Request::MAX_BODY + 1;
    const PATIENCE: Duration = Duration::from_secs(60);
    for (path, framing, status) in [
        ("/large", format!("Content-Length: {large}\r\n\r\n"), 413),
        ("/no-room", "Content-Length: 2\r\n\r\nab".to_owned(), 503),
        ("/half", "Content-Length: 1\r\n\r\n".to_owned(), 400),
    ] {
        responses_to(address, format!("PUT {path} HTTP/1.1\r\nHost: x\r\n{framing}").as_bytes());
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), (path.to_owned(), status));
    }
    let whole = b"PUT /whole HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na";
    assert!(responses_to(address, whole).starts_with("HTTP/1.1 200 "));
    assert!(told.try_recv().is_err());
}

#[test]
fn the_bodies_of_all_requests_together_are_bounded() {
    let (_server, address, _) = waiting();
    let mut first = TcpStream::connect(address).unwrap();
    let length = 2 * Request::MAX_BODY;
    let head = format!(
        "PUT /large HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {length}\r\n\r\n"
    );
    first.write_all(head.as_bytes()).unwrap();
    let mut interim = [0; 25];
    first.read_exact(&mut interim).unwrap();
    assert!(interim.starts_with(b"HTTP/1.1 100 "), "it has room for its body");
    let refused = responses_to(address, head.as_bytes());
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    // A chunked body needs room for as much as it may have.
    let chunked = b"PUT /large HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert!(responses_to(address, chunked).starts_with("HTTP/1.1 503 "));
    let small = b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n!";
    assert!(responses_to(address, small).starts_with("HTTP/1.1 200 "));
    first.write_all(&vec![b'x'; length]).unwrap();
    assert!(gets_response(&mut first));
}

/// Responds with a stream whose source it hands to the test.
struct Streams(std_mpsc::SyncSender<PieceSender>);

impl Handler for Streams {
    async fn respond(&self, _: Request) -> Response {
        let (source, pieces) = pieces();
        self.0.send(source).unwrap();
        Response::new(Status::OK, "text/plain", "").followed_by(pieces)
    }
}

#[test]
fn streams_end_when_the_server_leaves_and_are_no_reason_to_refuse_calls() {
    let (sending, sources) = std_mpsc::sync_channel(3);
    let bounds = Bounds { connections: 4, share: 4, ..BOUNDS };
    let (mut server, address) = serving(bounds, Streams(sending));
    let get = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut streams = clients(address, 2);
    let mut held = Vec::new();
    for stream in &mut streams {
        stream.write_all(get).unwrap();
        assert!(gets_response(stream));
        held.push(sources.recv().unwrap());
    }
    assert!(responses_to(address, get).starts_with("HTTP/1.1 503 "), "a third");
    assert!(sources.recv().unwrap().is_gone());
    server.leave();
    for stream in &mut streams {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("\r\n\r\n0\r\n\r\n"), "{text}");
    }
    Builder::new_current_thread().build().unwrap().block_on(server.finished());
    assert!(held.iter().all(PieceSender::is_gone));
}
