//! A record in the combined log format, which the log tools of web servers read.

use super::{Memory, text};
use crate::record::{Event, Facts, Recorded, Text};
use titan_http::{Status, Version};

/// Appends it: client, two fields that are never known, time, request, status, bytes of the response, referer, user agent.
pub(super) fn write(memory: &mut Memory, record: &Recorded<'_>, out: &mut Vec<u8>) {
    let Facts { client, started, status, response_bytes, .. } = record.facts;
    match client {
        Some(client) => text::address(client, out),
        None => out.push(b'-'),
    }
    out.extend_from_slice(b" - - [");
    memory.stamps.common(started, out);
    out.extend_from_slice(b"] \"");
    match record.has_head() {
        true => request(memory, record, out),
        false => out.push(b'-'),
    }
    out.extend_from_slice(b"\" ");
    match record.facts.event {
        Event::Connection => out.push(b'-'),
        // As nginx has it for a client that left before it had a response.
        _ => text::number(status.map_or(499, Status::code).into(), out),
    }
    out.push(b' ');
    text::number(response_bytes, out);
    out.extend_from_slice(b" \"");
    text::escaped(record.referer(), out);
    out.extend_from_slice(b"\" \"");
    text::escaped(record.user_agent(), out);
    out.push(b'"');
}

/// What was requested, as in the first line of a request.
fn request(memory: &mut Memory, record: &Recorded<'_>, out: &mut Vec<u8>) {
    text::escaped(record.text(Text::Method), out);
    out.push(b' ');
    text::escaped(record.path(), out);
    memory.scratch.clear();
    if record.write_query(&mut memory.secrets, &mut memory.scratch) {
        out.push(b'?');
        if !memory.scratch.is_empty() {
            text::escaped(&memory.scratch, out);
        }
    }
    out.extend_from_slice(b" HTTP/");
    // Tools look for two numbers.
    let version = match record.facts.version {
        Version::Http2 => "2.0",
        version => version.as_str(),
    };
    out.extend_from_slice(version.as_bytes());
}
