//! The origin for proxies that speak HTTP/2 upstream: cleartext, by prior knowledge, on the h2 crate.
//!
//! It answers the small GETs as the other origin does, and gRPC calls with the message they carry. One thread,
//! answers laid out before the first connection; every call is checked byte for byte by being echoed.
//!
//! Usage: origin-h2 LISTEN-ADDRESS; prints the address that it listens at.

use std::io;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use h2::server::{self, SendResponse};
use h2::{Reason, RecvStream};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use titan_bench::payload::{CALL_PATH, Target, VARIANTS};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

/// A proxy may put all streams of a run on one connection.
const STREAMS: u32 = 1024;
/// A longer message is no call of this benchmark.
const LONGEST: usize = 1024;

/// The responses by what was asked.
struct Answers {
    small: Vec<(Response<()>, Bytes)>,
    call: Response<()>,
    trailers: HeaderMap,
    not_found: Response<()>,
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen] = arguments.as_slice() else {
        return Err(io::Error::other("usage: origin-h2 LISTEN-ADDRESS"));
    };
    let answers = Rc::new(Answers::lay_out().map_err(io::Error::other)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(listen).await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            tokio::task::spawn_local(serve(socket, Rc::clone(&answers)));
        }
    })
}

/// One connection. What fails on it shows at the load generator.
async fn serve(socket: TcpStream, answers: Rc<Answers>) {
    let shaken = server::Builder::new().max_concurrent_streams(STREAMS).handshake(socket).await;
    let Ok(mut connection) = shaken else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        // accept() writes what is there before it looks for the next request. A task for each response lets it
        // find all requests first, and write all responses at once.
        let answers = Rc::clone(&answers);
        if request.method() == Method::POST && request.uri().path() == CALL_PATH {
            tokio::task::spawn_local(answer_call(request, respond, answers));
        } else {
            tokio::task::spawn_local(async move { answers.answer_get(&request, respond) });
        }
    }
}

impl Answers {
    /// The date stands still: the responses are the same bytes in every run.
    fn lay_out() -> http::Result<Self> {
        let head = |content_type| {
            Response::builder()
                .header("server", "origin")
                .header("date", "Thu, 01 Jan 2026 00:00:00 GMT")
                .header("content-type", content_type)
        };
        let small = (0..VARIANTS).map(|variant| {
            let body = Target::Small.answer(variant);
            let head = head("application/octet-stream").header("content-length", body.len());
            Ok((head.body(())?, body.into()))
        });
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        Ok(Self {
            small: small.collect::<http::Result<_>>()?,
            call: head("application/grpc").body(())?,
            trailers,
            not_found: Response::builder().status(404).body(())?,
        })
    }

    fn answer_get(&self, request: &Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let variant = request.uri().path().strip_prefix("/small/");
        let variant = variant.and_then(|variant| variant.parse::<usize>().ok());
        let known = variant.and_then(|variant| self.small.get(variant));
        let Some((head, body)) = known.filter(|_| request.method() == Method::GET) else {
            let _ = respond.send_response(self.not_found.clone(), true);
            return;
        };
        if let Ok(mut stream) = respond.send_response(head.clone(), false) {
            let _ = stream.send_data(body.clone(), true);
        }
    }
}

async fn answer_call(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    answers: Rc<Answers>,
) {
    let Some(message) = read_call(request.into_body()).await else {
        respond.send_reset(Reason::PROTOCOL_ERROR);
        return;
    };
    let Ok(mut stream) = respond.send_response(answers.call.clone(), false) else { return };
    if stream.send_data(message, false).is_ok() {
        let _ = stream.send_trailers(answers.trailers.clone());
    }
}

/// The one message of a call, as it came; none when it is not exactly that.
async fn read_call(mut body: RecvStream) -> Option<Bytes> {
    let mut message = BytesMut::new();
    while let Some(piece) = body.data().await {
        let piece = piece.ok()?;
        body.flow_control().release_capacity(piece.len()).ok()?;
        message.extend_from_slice(&piece);
        if message.len() > LONGEST {
            return None;
        }
    }
    let (prefix, text) = message.split_first_chunk::<5>()?;
    let [0, length @ ..] = *prefix else { return None };
    (u32::from_be_bytes(length) as usize == text.len()).then(|| message.freeze())
}
