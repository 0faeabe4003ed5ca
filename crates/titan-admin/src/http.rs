//! A small HTTP/1.1 server: one thread, whole messages, everything bounded.
//!
//! It serves rare requests with immediate responses; traffic goes through `titan-proxy`.

mod connection;
mod slots;
mod socket;
#[cfg(test)]
mod tests;

pub use socket::Socket;

use connection::Connection;
use serde_json::json;
use slots::ConnectionSlots;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use titan_http::{FieldName, RequestHead, ResponseHead, Status};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// A server that runs; dropping it ends it, and cuts off what it was doing.
pub struct Server {
    stop: oneshot::Sender<Infallible>,
    thread: JoinHandle<()>,
}

/// How much a server holds at most.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at the same moment. For one more the one that has been idle for longest is closed;
    /// where none is idle it waits.
    pub connections: usize,
    /// How long a connection without a request is kept.
    pub idle: Duration,
    /// How many requests a connection may bring.
    pub requests: u32,
    /// How long a connection may last, except for the request that it serves then.
    pub life: Duration,
}

/// A complete request.
#[derive(Debug)]
pub struct Request {
    /// Method, target and fields.
    pub head: RequestHead,
    /// At most [`Request::MAX_BODY`] bytes.
    pub body: Vec<u8>,
}

/// A complete response. The server adds the date and what frames the message.
#[derive(Debug)]
pub struct Response {
    /// Status and fields.
    pub head: ResponseHead,
    /// Not sent in response to HEAD.
    pub body: Vec<u8>,
}

/// How long accepting rests when the process has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

impl Server {
    /// Starts a thread of that name in which `handler` responds. All requests wait for each
    /// response: it must not block.
    pub fn start(
        name: &str,
        socket: Socket,
        bounds: Bounds,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Server> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listening = {
            let _context = runtime.enter();
            socket.enter()?
        };
        let (stop, stopped) = oneshot::channel();
        let accepting = accept(listening, bounds, Arc::new(handler));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.spawn(accepting);
            // Nothing is ever sent: this is the end of the sender.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Server { stop, thread })
    }

    /// Ends it, and waits until others can have its address: no longer than the response takes that is being made.
    pub fn end(self) {
        let Server { stop, thread } = self;
        drop(stop);
        let _ = thread.join();
    }
}

async fn accept(
    listening: socket::Listening,
    bounds: Bounds,
    handler: Arc<impl Fn(&Request) -> Response + Send + Sync + 'static>,
) {
    let slots = Arc::new(ConnectionSlots::new(bounds.connections));
    loop {
        match listening.accept().await {
            Ok(stream) => {
                let slot = slots.take().await;
                let (slots, handler) = (Arc::clone(&slots), Arc::clone(&handler));
                tokio::spawn(async move {
                    let connection = Connection::new(stream, bounds, &slots);
                    // An error means that the client has gone, and no response can reach it.
                    let _ = connection.serve(&*handler).await;
                    drop(slot);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Request {
    /// The largest body that is read; a larger one gets 413.
    pub const MAX_BODY: usize = 64 << 10;
}

impl Response {
    /// A response with a body of that media type.
    pub fn new(status: Status, media_type: &'static str, body: impl Into<Vec<u8>>) -> Response {
        let response = Response { head: ResponseHead::with_status(status), body: body.into() };
        response.with(FieldName::ContentType, media_type)
    }

    /// A problem document (RFC 9457) of no further type than its status.
    pub fn problem(status: Status, detail: &str) -> Response {
        let document = json!({
            "type": "about:blank",
            "title": status.reason(),
            "status": status.code(),
            "detail": detail,
        });
        Response::new(status, "application/problem+json", format!("{document}\n"))
    }

    /// The same with one more field.
    #[must_use]
    pub fn with(mut self, name: FieldName, value: &'static str) -> Response {
        let added = self.head.fields.append(name, value.as_bytes());
        added.expect("what this program writes into a field is a text without control bytes");
        self
    }
}
