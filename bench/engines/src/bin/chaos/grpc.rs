//! A client that makes unary gRPC calls over HTTP/2 in clear text.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request, Response};
use tokio::net::TcpStream;
use tokio::task::spawn_local;

use crate::sample::{Connection, Failure, Kind, sender};

/// A gateway, and the connections to it that are kept.
pub struct Client {
    to: SocketAddr,
    kept: RefCell<[Option<SendRequest<Bytes>>; KEPT]>,
    turn: Cell<usize>,
}

/// Over how many connections the calls go that do not get one of their own.
const KEPT: usize = 4;
/// A message without compression: this flag, the length, the bytes.
const PREFIX: usize = 5;

impl Client {
    pub fn new(to: SocketAddr) -> Self {
        Self { to, kept: RefCell::default(), turn: Cell::default() }
    }

    /// Makes a call; the name of the endpoint that has answered.
    pub async fn ask(&self, kind: Kind) -> Result<u8, Failure> {
        match kind.connection {
            Connection::New => call(open(self.to).await?, kind).await,
            Connection::Kept => {
                let turn = self.turn.get();
                self.turn.set((turn + 1) % KEPT);
                let outcome = call(self.kept(turn).await?, kind).await;
                if matches!(outcome, Err(Failure::Closed)) {
                    self.kept.borrow_mut()[turn] = None;
                }
                outcome
            }
        }
    }

    /// The connection of that number, a new one where the gateway takes no more requests on the last.
    async fn kept(&self, turn: usize) -> Result<SendRequest<Bytes>, Failure> {
        let last = self.kept.borrow()[turn].clone();
        if let Some(last) = last
            && let Ok(ready) = last.ready().await
        {
            return Ok(ready);
        }
        let next = open(self.to).await?;
        self.kept.borrow_mut()[turn] = Some(next.clone());
        Ok(next)
    }
}

async fn open(to: SocketAddr) -> Result<SendRequest<Bytes>, Failure> {
    let stream = TcpStream::connect(to).await.map_err(|_| Failure::Unreachable)?;
    let (client, connection) = h2::client::handshake(stream).await.map_err(|_| Failure::Closed)?;
    // It ends with its last stream, or with an error that the streams get too.
    spawn_local(async move { drop(connection.await) });
    client.ready().await.map_err(|_| Failure::Closed)
}

async fn call(mut client: SendRequest<Bytes>, kind: Kind) -> Result<u8, Failure> {
    const EMPTY_MESSAGE: &[u8] = &[0; PREFIX];
    let request = Request::post(format!("http://chaos.test{}", kind.method.path()))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a literal path and literal fields are valid");
    let (response, mut body) = client.send_request(request, false).map_err(|_| Failure::Closed)?;
    body.send_data(Bytes::from_static(EMPTY_MESSAGE), true).map_err(|_| Failure::Closed)?;
    let response = response.await.map_err(|_| Failure::Closed)?;
    if response.status() != 200 {
        return Err(Failure::Status(response.status().as_u16()));
    }
    // A call that fails at once has its status in the only head.
    judge(response.headers(), Ok(()))?;
    let (message, trailers) = read(response).await.ok_or(Failure::Cut)?;
    judge(&trailers, Err(Failure::Cut))?;
    sender(message.get(PREFIX..).unwrap_or_default())
}

/// Body and trailers; none where they do not come to their end.
async fn read(response: Response<h2::RecvStream>) -> Option<(Vec<u8>, HeaderMap)> {
    let mut body = response.into_body();
    let mut message = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.ok()?;
        body.flow_control().release_capacity(data.len()).ok()?;
        message.extend_from_slice(&data);
    }
    Some((message, body.trailers().await.ok()?.unwrap_or_default()))
}

/// What the status says that is among these fields, or `otherwise`.
fn judge(fields: &HeaderMap, otherwise: Result<(), Failure>) -> Result<(), Failure> {
    let status = fields.get("grpc-status").and_then(|value| value.to_str().ok()?.parse().ok());
    match status {
        None => otherwise,
        Some(0) => Ok(()),
        Some(status) => Err(Failure::Call(status)),
    }
}
