//! Connections of the admin interface, over pipes. What serves them is compiled in here: the crate that it is part of would bring
//! the whole gateway.

#[path = "../../crates/titan-admin/src/http/connection/mod.rs"]
mod connection;
#[expect(dead_code, reason = "no listener is here")]
#[path = "../../crates/titan-admin/src/http/message.rs"]
mod message;
#[path = "../../crates/titan-io/src/network.rs"]
mod network;
#[expect(dead_code, reason = "the source here is never too slow")]
#[path = "../../crates/titan-admin/src/http/pieces.rs"]
mod pieces;
#[expect(dead_code, reason = "no server is here that closes")]
#[path = "../../crates/titan-admin/src/http/slots.rs"]
mod slots;
#[path = "../../crates/titan-admin/src/http/stream.rs"]
mod stream;

use crate::CHOICES;
use connection::Connection;
use message::{Bounds, Handler, Peer, Request, Response};
use network::ClientNetwork;
use pieces::{Pieces, pieces};
use slots::ConnectionSlots;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stream::Stream;
use titan_http::{Method, RequestHead, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::Semaphore;

const BOUNDS: Bounds = Bounds {
    connections: 2,
    share: 2,
    idle: Duration::from_secs(15),
    requests: 5,
    life: Duration::from_secs(40),
    bodies: Request::MAX_BODY,
};
/// A connection with all of its requests and responses is over by then; nobody waits longer than that.
const MOST: Duration = Duration::from_secs(120);
/// Bytes of a body that a PUT may have.
const SMALL: usize = 20;

/// A connection serves the same requests and gets the same responses however its bytes are split, no more and none larger than its
/// bounds say, and ends.
pub fn admin(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let whole = serve(input, input.len().max(1), choices[0]);
    assert!(whole.requests.len() <= BOUNDS.requests as usize);
    assert_eq!(whole, serve(input, usize::from(choices[1]) % 23 + 1, choices[0]));
    assert_eq!(whole, serve(input, 1, choices[0]));
}

/// The method, path and body of a request.
type Seen = (Method, Vec<u8>, Vec<u8>);

/// What came of a connection.
#[derive(Debug, PartialEq, Eq)]
struct Served {
    requests: Vec<Seen>,
    /// Without their dates.
    responses: Vec<u8>,
}

/// Responds as the target says: whole, piece by piece, or for the last time.
#[derive(Default)]
struct Site {
    seen: Mutex<Vec<Seen>>,
    refuses: bool,
}

impl Handler for Site {
    async fn admit(&self, head: &RequestHead, _: &Peer) -> Result<usize, Response> {
        match head.method {
            Method::DELETE if self.refuses => Err(Response::problem(Status::FORBIDDEN, "not here")),
            Method::PUT => Ok(SMALL),
            _ => Ok(Request::MAX_BODY),
        }
    }

    async fn respond(&self, request: Request) -> Response {
        let Request { head, body, .. } = request;
        let most = if head.method == Method::PUT { SMALL } else { Request::MAX_BODY };
        assert!(body.len() <= most);
        let response = Response::new(Status::OK, "text/plain", body.clone());
        let path = head.path().to_vec();
        let is_last = path == b"/last";
        let streams = path == b"/stream";
        self.seen.lock().expect("nobody panics with it").push((head.method, path, body));
        if !streams {
            return Response { is_last, ..response };
        }
        let (source, rest) = pieces();
        for piece in [&b"one"[..], b"", b"two"] {
            source.send(piece).expect("there is room");
        }
        response.followed_by(rest)
    }
}

fn serve(input: &[u8], step: usize, choice: u8) -> Served {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("it needs no resources");
    let site = Arc::new(Site { refuses: choice % 2 == 1, ..Site::default() });
    let served = runtime.block_on(async {
        let talked = tokio::time::timeout(MOST, talk(input, step, Arc::clone(&site))).await;
        talked.expect("a connection does not end")
    });
    let responses = without_dates(&served);
    let requests = std::mem::take(&mut *site.seen.lock().expect("nobody panics with it"));
    Served { requests, responses }
}

async fn talk(input: &[u8], step: usize, site: Arc<Site>) -> Vec<u8> {
    let (near, far) = duplex(1 << 20);
    let serving = tokio::spawn(async move {
        let peer = Peer::Process { uid: 0, pid: None };
        let slots = Arc::new(ConnectionSlots::new(BOUNDS.connections, BOUNDS.share));
        let (slot, room) =
            (slots.enter(&peer).expect("it is the first"), Semaphore::new(BOUNDS.bodies));
        let far = (Box::new(far) as Box<dyn Stream>, peer);
        // Who has gone needs no response.
        let _ = Connection::new(far, BOUNDS, &slot, &room).serve(&*site).await;
    });
    let (mut reader, mut writer) = tokio::io::split(near);
    let mut received = Vec::new();
    let sending = async {
        for piece in input.chunks(step) {
            if writer.write_all(piece).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        // An end would be one in the middle of a request: the client only stops.
    };
    let (_, read) = tokio::join!(sending, reader.read_to_end(&mut received));
    read.expect("pipes do not fail");
    serving.await.expect("it does not panic");
    received
}

/// The clock of these is that of the machine.
fn without_dates(responses: &[u8]) -> Vec<u8> {
    let lines = responses.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !line.starts_with(b"Date: ")).flatten().copied().collect()
}
