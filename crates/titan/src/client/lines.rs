//! A response of lines that has no end of its own.

use super::{MAX_BODY, Reply, receive, receive_body, receive_head, remedy};
use crate::failure::Failure;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;

/// Bytes of a line: an exchange with both of its heads.
const MAX_LINE: usize = 4 << 20;

/// Sends a request and has each line of the response taken, until it ends or its taker has enough.
pub(super) fn read_lines(
    mut stream: impl Read + Write,
    request: &[u8],
    place: &dyn Display,
    mut take: impl FnMut(&str) -> Result<ControlFlow<()>, Failure>,
) -> Result<(), Failure> {
    let broken = |error: io::Error| {
        let help = remedy(&error);
        Failure::Runtime(format!("the connection to the gateway at {place} is lost: {error}{help}"))
    };
    let (status, length, mut received) = receive_head(&mut stream, request).map_err(broken)?;
    if status != 200 {
        let length = length.unwrap_or(0).min(MAX_BODY);
        let body = receive_body(&mut stream, received, length).map_err(broken)?;
        return Err(Reply { status, body }.failure());
    }
    loop {
        while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
            let rest = received.split_off(end + 1);
            let line = std::mem::replace(&mut received, rest);
            if take(String::from_utf8_lossy(&line[..end]).as_ref())?.is_break() {
                return Ok(());
            }
        }
        if received.len() > MAX_LINE {
            return Err(broken(io::Error::other("a line of its response is too long")));
        }
        if receive(&mut stream, &mut received).map_err(broken)? == 0 {
            return Ok(());
        }
    }
}
