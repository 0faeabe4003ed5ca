//! Every response, head and body in one piece, laid out once.

use std::rc::Rc;

use titan_bench::payload::{Target, VARIANTS, receipt};
use titan_bench::websocket;

/// The whole response's bytes, shared by the connections that send it.
pub type Answer = Rc<[u8]>;

/// The responses by what was asked.
pub struct Answers {
    small: Vec<Answer>,
    medium: Answer,
    large: Answer,
    json: Answer,
    /// The receipt for the length posted last: a run posts one length.
    posted: Option<(usize, Answer)>,
}

impl Answers {
    /// Lays out the fixed answers.
    pub fn lay_out() -> Self {
        Self {
            small: (0..VARIANTS).map(|variant| ok(&Target::Small.answer(variant))).collect(),
            medium: ok(&Target::Body30k.answer(0)),
            large: ok(&Target::Body1m.answer(0)),
            json: ok_as("application/json", &Target::Json.answer(0)),
            posted: None,
        }
    }

    /// The response to a GET of `path`, if there is such a resource.
    pub fn get(&self, path: &[u8]) -> Option<Answer> {
        match path {
            b"/30k" => Some(Rc::clone(&self.medium)),
            b"/1m" => Some(Rc::clone(&self.large)),
            b"/json" => Some(Rc::clone(&self.json)),
            _ => {
                let variant = std::str::from_utf8(path.strip_prefix(b"/small/")?).ok()?;
                self.small.get(variant.parse::<usize>().ok()?).map(Rc::clone)
            }
        }
    }

    /// The receipt for a body of `size` bytes that was found to be right.
    pub fn receipt(&mut self, size: usize) -> Answer {
        match &self.posted {
            Some((length, answer)) if *length == size => Rc::clone(answer),
            _ => {
                let answer = ok(&receipt(size));
                self.posted = Some((size, Rc::clone(&answer)));
                answer
            }
        }
    }
}

/// The response behind which the connection is a tunnel.
pub fn switching() -> Answer {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        websocket::ACCEPT
    )
    .into_bytes()
    .into()
}

/// The response to what this origin does not serve; the connection closes after it.
pub fn refusal(status: &str) -> Answer {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .into_bytes()
        .into()
}

/// The date stands still: the responses are the same bytes in every run.
fn ok(body: &[u8]) -> Answer {
    ok_as("application/octet-stream", body)
}

fn ok_as(media_type: &str, body: &[u8]) -> Answer {
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nServer: origin\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\
         Content-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(body);
    answer.into()
}
