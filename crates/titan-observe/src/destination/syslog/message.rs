//! Messages of syslog (RFC 5424).

use super::super::lines::Lines;
use std::fmt::Write;
use time::OffsetDateTime;
use titan_config::Facility;

/// What all messages say alike.
#[derive(Debug)]
pub(super) struct Header {
    /// The priority and the version: `<134>1`.
    priority: String,
    /// From the name of the host to the structured data: `host titan 4711 access -`.
    source: String,
}

/// How the end of a message is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Each is a datagram, of at most [`MOST_DATAGRAM`] bytes.
    Datagram,
    /// Its length comes first (RFC 6587 section 3.4.1).
    Counted,
}

/// Bytes of a datagram. What does not fit is cut off: servers take no more, and RFC 5426 asks for no more than 2,048.
const MOST_DATAGRAM: usize = 8 << 10;
/// Bytes of the name of the host (RFC 5424 section 6).
const MOST_HOST: usize = 255;
/// The severity of all messages: informational.
const INFO: u8 = 6;

impl Header {
    pub(super) fn new(facility: Facility, tag: &str) -> Header {
        let name = rustix::system::uname();
        let name = name.nodename().to_string_lossy();
        Header::of(facility, tag, &name, std::process::id())
    }

    pub(super) fn of(facility: Facility, tag: &str, host: &str, process: u32) -> Header {
        let host: String = host.chars().filter(char::is_ascii_graphic).take(MOST_HOST).collect();
        let host = if host.is_empty() { "-" } else { &host };
        Header {
            priority: format!("<{}>1", u16::from(facility.code()) * 8 + u16::from(INFO)),
            source: format!("{host} {tag} {process} access -"),
        }
    }

    /// Replaces `messages` by those of the lines, which have no line feeds.
    pub(super) fn messages(&self, lines: &Lines, framing: Framing, messages: &mut Lines) {
        let Lines { text, ends } = messages;
        text.clear();
        ends.clear();
        let mut head = String::new();
        for (index, (_, began)) in lines.ends.iter().enumerate() {
            let line = lines.bytes(index..index + 1);
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            head.clear();
            self.write_head(*began, &mut head);
            let line = match framing {
                Framing::Datagram => cut(line, MOST_DATAGRAM.saturating_sub(head.len())),
                Framing::Counted => {
                    let length = head.len() + line.len();
                    text.extend_from_slice(format!("{length} ").as_bytes());
                    line
                }
            };
            text.extend_from_slice(head.as_bytes());
            text.extend_from_slice(line);
            ends.push((text.len(), *began));
        }
    }

    /// Everything before the line.
    fn write_head(&self, began: u64, to: &mut String) {
        let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(began) * 1000);
        let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let Header { priority, source } = self;
        let (date, time) = ((at.year(), u8::from(at.month()), at.day()), at.time());
        let _ = write!(
            to,
            "{priority} {:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z {source} ",
            date.0,
            date.1,
            date.2,
            time.hour(),
            time.minute(),
            time.second(),
            time.microsecond()
        );
    }
}

/// The beginning of a text, at most that long, that ends with a whole character.
fn cut(text: &[u8], most: usize) -> &[u8] {
    if text.len() <= most {
        return text;
    }
    let continues = |at: &usize| text[*at] & 0b1100_0000 == 0b1000_0000;
    // A character has at most four bytes; what has more that continue is no UTF-8.
    let end = (most.saturating_sub(3)..=most).rev().find(|at| !continues(at)).unwrap_or(most);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: u64 = 1_795_796_100_012_345;

    fn messages(texts: &[&str], framing: Framing) -> Vec<String> {
        let header = Header::of(Facility::LOCAL0, "titan", "host.example", 4711);
        let mut lines = Lines::of(texts);
        lines.ends.iter_mut().for_each(|(_, began)| *began = BEGAN);
        let mut messages = Lines::default();
        header.messages(&lines, framing, &mut messages);
        let bytes = (0..messages.len()).map(|index| messages.bytes(index..index + 1));
        bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_message_has_its_header_and_no_line_feed() {
        let head = "<134>1 2026-11-27T16:15:00.012345Z host.example titan 4711 access - ";
        let expected = [format!("{head}GET /"), format!("{head}é")];
        assert_eq!(messages(&["GET /", "é"], Framing::Datagram), expected);
        let expected =
            [format!("{} {head}GET /", head.len() + 5), format!("{} {head}é", head.len() + 2)];
        assert_eq!(messages(&["GET /", "é"], Framing::Counted), expected);
    }

    #[test]
    fn a_host_without_a_usable_name_has_none() {
        let source = |host: &str| Header::of(Facility::USER, "t", host, 1).source;
        assert_eq!(source("ü \n"), "- t 1 access -");
        assert_eq!(source("a b"), "ab t 1 access -");
        assert_eq!(source(&"a".repeat(300)).len(), 255 + " t 1 access -".len());
    }

    #[test]
    fn a_datagram_is_cut_between_two_characters() {
        for shift in 0..4 {
            let text = "x".repeat(shift) + &"🦀".repeat(4 << 10);
            let [message] = &messages(&[&text], Framing::Datagram)[..] else { panic!() };
            assert!((MOST_DATAGRAM - 3..=MOST_DATAGRAM).contains(&message.len()));
            let [message] = &messages(&[&text], Framing::Counted)[..] else { panic!() };
            assert!(message.ends_with(&text));
        }
        assert_eq!(cut(&[0x80; 9], 5), [0x80; 5]);
        assert_eq!(cut("aé".as_bytes(), 2), b"a");
        assert_eq!(cut(b"ab", 2), b"ab");
    }
}
