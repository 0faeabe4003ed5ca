//! The h2 crate as the client.

use super::script::{Ends, Exchange, Line, Message, Outcome, known};
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderName, HeaderValue, Request};

/// Bytes of a piece of a body.
const PIECE: usize = 1000;

/// Sends a request, and takes the response to it.
pub(super) async fn ask(sender: SendRequest<Bytes>, exchange: &Exchange, place: usize) -> Outcome {
    let mut sender = sender.ready().await.expect("the connection goes on");
    let Message { fields, body, trailers } = &exchange.request;
    let request = Request::builder()
        .method(exchange.method.clone())
        .uri(format!("https://a.example/{place}"));
    let mut request = request.body(()).expect("it is valid");
    *request.headers_mut() = map_of(fields);
    let is_all = body.is_empty() && trailers.is_empty() && exchange.ends != Ends::GivenUp;
    let (response, mut stream) = sender.send_request(request, is_all).expect("it was ready");
    if !is_all && send(&mut stream, exchange).is_err() {
        // The server has reset the stream; the response says so.
        assert!(matches!(exchange.ends, Ends::Reset(_)));
    }
    if exchange.ends == Ends::GivenUp {
        stream.send_reset(Reason::CANCEL);
        return Outcome::GaveUp;
    }
    let received = async {
        let response = response.await?;
        let (head, body) = response.into_parts();
        Ok::<_, h2::Error>(Outcome::Response(head.status.as_u16(), take(head.headers, body).await?))
    };
    received.await.unwrap_or_else(|error| {
        let reason = error.reason().unwrap_or_else(|| panic!("the connection failed: {error}"));
        Outcome::Reset(reason.into())
    })
}

fn send(stream: &mut SendStream<Bytes>, exchange: &Exchange) -> Result<(), h2::Error> {
    let Message { fields: _, body, trailers } = &exchange.request;
    let is_open = exchange.ends == Ends::GivenUp;
    let mut pieces = body.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none() && trailers.is_empty() && !is_open;
        stream.send_data(Bytes::copy_from_slice(piece), is_last)?;
    }
    match trailers.is_empty() || is_open {
        true => Ok(()),
        false => stream.send_trailers(map_of(trailers)),
    }
}

async fn take(fields: HeaderMap, mut body: RecvStream) -> Result<Message, h2::Error> {
    let mut message = Message { fields: lines_of(&fields), ..Message::default() };
    while let Some(piece) = body.data().await {
        let piece = piece?;
        message.body.extend_from_slice(&piece);
        body.flow_control().release_capacity(piece.len())?;
    }
    message.trailers = body.trailers().await?.as_ref().map(lines_of).unwrap_or_default();
    Ok(message)
}

fn map_of(lines: &[Line]) -> HeaderMap {
    let line = |(name, value): &Line| {
        let value = HeaderValue::from_bytes(value).expect("it is valid");
        (HeaderName::from_static(name), value)
    };
    let mut map = HeaderMap::new();
    for (name, value) in lines.iter().map(line) {
        map.append(name, value);
    }
    map
}

fn lines_of(map: &HeaderMap) -> Vec<Line> {
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        let name = known(name.as_str()).unwrap_or_else(|| panic!("nobody has sent {name}"));
        (name, value.as_bytes().to_vec())
    };
    let mut lines: Vec<Line> = map.iter().map(line).collect();
    lines.sort_by_key(|(name, _)| *name);
    lines
}
