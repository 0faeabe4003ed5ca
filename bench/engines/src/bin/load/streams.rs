//! HTTP/2: a few connections, on each of which many requests are under way at once.
//!
//! The h2 crate speaks the protocol: an implementation that is none of those measured is the better judge of
//! them.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{RecvStream, client};
use http::{HeaderMap, Response, Version};
use titan_bench::payload::Target;
use titan_bench::report::{Job, Report};
use titan_bench::tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::fault::Fault;
use crate::places::{self, Client, Load};

/// Runs a job with that many streams on each connection.
pub fn run(job: &Job, streams: usize) -> io::Result<Report> {
    places::run(job, async |load| {
        // All are open before the first request, so that none is alone with the proxy.
        let mut senders = Vec::new();
        for _ in 0..load.job.connections {
            match connect(&load.job).await {
                Ok(sender) => senders.push(sender),
                Err(fault) => load.tally.borrow_mut().fault(&fault),
            }
        }
        places::measure(load, &senders, streams).await
    })
}

impl Client for SendRequest<Bytes> {
    async fn exchange(&mut self, load: &Load, variant: usize) -> Result<(), Fault> {
        poll_fn(|context| self.poll_ready(context)).await.map_err(Fault::Stream)?;
        let (request, body) = (load.requests[variant].clone(), &load.bodies[variant]);
        let (answer, mut stream) =
            self.send_request(request, body.is_empty()).map_err(Fault::Stream)?;
        if !body.is_empty() {
            stream.send_data(body.clone(), true).map_err(Fault::Stream)?;
        }
        let answer = answer.await.map_err(Fault::Stream)?;
        let expected = &load.answers[variant];
        let call = load.job.target == Target::Call;
        check_head(&answer, (!call).then_some(expected.len()))?;
        let mut body = answer.into_body();
        check_body(&mut body, expected).await?;
        let trailers = body.trailers().await.map_err(Fault::Stream)?;
        check_trailers(trailers.as_ref(), call)
    }

    fn survives(&self, fault: &Fault) -> bool {
        !matches!(fault, Fault::Stream(_))
    }
}

/// Opens a connection and lets it be driven beside the requests.
async fn connect(job: &Job) -> Result<SendRequest<Bytes>, Fault> {
    let socket = TcpStream::connect(job.to).await.map_err(Fault::Connect)?;
    socket.set_nodelay(true).map_err(Fault::Connect)?;
    let Some(tls) = &job.tls else { return shake_hands(socket).await };
    let config = tls::client(&tls.certificate, tls::HTTP2, tls.resume).map_err(Fault::Connect)?;
    let connected = TlsConnector::from(Arc::clone(&config)).connect(tls::name(), socket).await;
    let stream = connected.map_err(|error| Fault::Tls(error.to_string()))?;
    if stream.get_ref().1.alpn_protocol() != Some(tls::HTTP2) {
        return Err(Fault::Tls("the proxy does not choose HTTP/2".to_owned()));
    }
    shake_hands(stream).await
}

async fn shake_hands<T>(io: T) -> Result<SendRequest<Bytes>, Fault>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (sender, connection) = client::Builder::new().handshake(io).await.map_err(Fault::Stream)?;
    // When it fails, so do its streams, and they report it.
    tokio::task::spawn_local(async { drop(connection.await) });
    Ok(sender)
}

/// A response to a GET announces its length, one to a call what it is.
fn check_head(answer: &Response<RecvStream>, length: Option<usize>) -> Result<(), Fault> {
    places::check_status(answer, Version::HTTP_2)?;
    if let Some(expected) = length {
        return places::check_length(answer, expected);
    }
    match answer.headers().get("content-type") {
        Some(value) if value == "application/grpc" => Ok(()),
        other => Err(Fault::BadHead(format!("content-type {other:?}"))),
    }
}

async fn check_body(body: &mut RecvStream, expected: &[u8]) -> Result<(), Fault> {
    let mut done = 0;
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(Fault::Stream)?;
        body.flow_control().release_capacity(piece.len()).map_err(Fault::Stream)?;
        done = places::check_piece(expected, done, &piece)?;
    }
    places::check_end(expected, done)
}

/// A call ends with its status; nothing else has trailers.
fn check_trailers(trailers: Option<&HeaderMap>, call: bool) -> Result<(), Fault> {
    let status = trailers.and_then(|fields| fields.get("grpc-status"));
    let right = match (call, trailers) {
        (true, Some(_)) => status.is_some_and(|status| status == "0"),
        (false, None) => true,
        _ => false,
    };
    if right { Ok(()) } else { Err(Fault::Trailers(format!("{trailers:?}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trailers(value: &'static str) -> HeaderMap {
        [(http::HeaderName::from_static("grpc-status"), http::HeaderValue::from_static(value))]
            .into_iter()
            .collect()
    }

    #[test]
    fn a_call_needs_its_status_and_a_get_none() {
        assert!(check_trailers(Some(&trailers("0")), true).is_ok());
        assert!(check_trailers(None, false).is_ok());
        assert!(check_trailers(Some(&trailers("14")), true).is_err());
        assert!(check_trailers(None, true).is_err());
        assert!(check_trailers(Some(&trailers("0")), false).is_err());
    }
}
