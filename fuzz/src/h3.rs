//! HTTP/3: what streams consist of, of any bytes, cut anyhow.

use crate::choices::CHOICES;
use std::fmt::Debug;
use titan_h3::{
    Code, ControlStream, Ending, FrameHeader, Kind, MAX_PAYLOAD, MessageStream, Part, Peer,
    Settings, Told, varint,
};

/// Bytes that an integer, and the beginning of a frame, has at most.
const INTEGER: usize = 8;
const HEADER: usize = 2 * INTEGER;
/// What a control stream may leave unread.
const MOST_CONTROL: usize = HEADER + MAX_PAYLOAD as usize;

/// What the section of an interim response begins with here.
pub const INTERIM: u8 = b'i';
/// What the section begins with that a tunnel follows.
pub const TUNNEL: u8 = b't';

/// Integers, frames, settings, control streams and messages say the same however their bytes are cut, leave little to be kept, and
/// read back as they were after being written anew.
pub fn frames(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let peer = if choices[0].is_multiple_of(2) { Peer::Client } else { Peer::Server };
    let steps = [input.len().max(1), usize::from(choices[1]) % 23 + 1, 1];
    let most = [20, 300, 1 << 14][usize::from(choices[2]) % 3];
    integer(input);
    header(input);
    settings(input);
    drop(alike(steps.map(|step| control(input, step, peer))));
    let message = alike(steps.map(|step| message(input, step, peer, most)));
    if message.ending.is_ok() {
        rewrite(&message, peer, most, usize::from(choices[3]) + 1);
    }
}

/// Checks that all of them are the same, and returns that.
fn alike<T: Debug + PartialEq, const N: usize>(all: [T; N]) -> T {
    let mut all = all.into_iter();
    let first = all.next().expect("there is one");
    all.for_each(|other| assert_eq!(first, other));
    first
}

/// Checks that something with a length, of `most` bytes, is read if it is whole and only then.
fn read_whole<T: Debug + PartialEq>(
    input: &[u8],
    most: usize,
    read: impl Fn(&[u8]) -> Option<(T, usize)>,
) -> Option<T> {
    let whole = read(input);
    let length = whole.as_ref().map_or(usize::MAX, |(_, length)| *length);
    assert!(whole.is_none() || (1..=most.min(input.len())).contains(&length));
    assert!(whole.is_some() || input.len() < most, "it is never whole");
    for end in 0..=input.len().min(most) {
        let part = read(&input[..end]);
        assert!(if end < length { part.is_none() } else { part == whole });
    }
    whole.map(|(read, _)| read)
}

fn integer(input: &[u8]) {
    let Some(value) = read_whole(input, INTEGER, varint::read) else { return };
    let mut written = Vec::new();
    varint::write(&mut written, value);
    assert_eq!(varint::read(&written), Some((value, written.len())));
    assert!(value <= varint::MAX && varint::read(input).is_some_and(|it| written.len() <= it.1));
}

fn header(input: &[u8]) {
    let Some(header) = read_whole(input, HEADER, FrameHeader::read) else { return };
    let mut written = Vec::new();
    header.write(&mut written);
    // What means nothing has a number of its own when this side sends it.
    let kind = if header.kind == Kind::OfHttp2 { Kind::Unknown } else { header.kind };
    let wanted = FrameHeader { kind, ..header };
    assert_eq!(FrameHeader::read(&written), Some((wanted, written.len())));
}

fn settings(input: &[u8]) {
    let Ok(settings) = Settings::read(input) else { return };
    assert!(input.len() <= MAX_PAYLOAD as usize);
    let mut written = Vec::new();
    settings.write(&mut written);
    assert_eq!(Settings::read(&written), Ok(settings));
}

/// Hands over what has come, step by step, to what tells how many bytes of it are used; what that has left at the end, or why it has
/// stopped before.
fn hear(
    input: &[u8],
    step: usize,
    most: usize,
    mut read: impl FnMut(&[u8]) -> Result<usize, Code>,
) -> Result<usize, Code> {
    let (mut at, mut received) = (0, 0);
    while received < input.len() {
        received = input.len().min(received + step);
        loop {
            let available = &input[at..received];
            let count = read(available)?;
            assert!(count <= available.len());
            assert!(count > 0 || available.len() < most, "it wants more to be kept than it may");
            at += count;
            if count == 0 {
                break;
            }
        }
    }
    Ok(input.len() - at)
}

/// What a control stream says, and what is left of it.
fn control(input: &[u8], step: usize, peer: Peer) -> (Vec<Told>, Result<usize, Code>) {
    let (mut stream, mut said) = (ControlStream::new(peer), Vec::new());
    let ending = hear(input, step, MOST_CONTROL, |available| {
        let (count, told) = stream.read(available)?;
        assert!(count > 0 || told == Told::Nothing);
        said.extend(Some(told).filter(|told| !matches!(told, Told::Nothing | Told::Skipped(_))));
        Ok(count)
    });
    (said, ending)
}

/// What a message consists of, and how it ends.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    said: Vec<Said>,
    ending: Result<Ending, Code>,
}

#[derive(Debug, PartialEq, Eq)]
enum Said {
    Head(Vec<u8>),
    /// All of it between what is in front and behind.
    Data(Vec<u8>),
    Trailers(Vec<u8>),
}

fn message(input: &[u8], step: usize, peer: Peer, most: usize) -> Message {
    let (mut stream, mut said) = (MessageStream::new(peer, most), Vec::new());
    let unread = hear(input, step, HEADER + most, |available| {
        let (count, part) = stream.read(available)?;
        assert!(count > 0 || part == Part::Nothing);
        match part {
            Part::Head(range) => {
                let section = available[..count][range].to_vec();
                match section.first() {
                    Some(&INTERIM) if peer == Peer::Server => stream.note_interim(),
                    Some(&TUNNEL) => stream.note_tunnel(),
                    _ => {}
                }
                said.push(Said::Head(section));
            }
            Part::Trailers(range) => said.push(Said::Trailers(available[..count][range].to_vec())),
            Part::Data(range) => add(&mut said, &available[..count][range]),
            // Nothing behind it can be read.
            Part::TooLong(_) => return Err(Code::ExcessiveLoad),
            Part::Begun | Part::Nothing | Part::Skipped(_) => {}
        }
        Ok(count)
    });
    let ending = unread.and_then(|unread| stream.finish(unread));
    Message { said, ending }
}

fn add(said: &mut Vec<Said>, data: &[u8]) {
    match said.last_mut() {
        Some(Said::Data(before)) => before.extend_from_slice(data),
        _ if data.is_empty() => {}
        _ => said.push(Said::Data(data.to_vec())),
    }
}

/// The same message with its data in frames of so many bytes, and with nothing that is skipped.
fn rewrite(message: &Message, peer: Peer, most: usize, step: usize) {
    let mut written = Vec::new();
    let mut frame = |kind, payload: &[u8]| {
        FrameHeader { kind, length: payload.len() as u64 }.write(&mut written);
        written.extend_from_slice(payload);
    };
    for said in &message.said {
        match said {
            Said::Head(section) | Said::Trailers(section) => frame(Kind::Headers, section),
            Said::Data(data) => data.chunks(step).for_each(|data| frame(Kind::Data, data)),
        }
    }
    assert_eq!(*message, self::message(&written, written.len().max(1), peer, most));
}
