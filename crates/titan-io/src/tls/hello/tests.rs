//! ClientHellos of many kinds, and what rustls makes of them.

use super::*;
use proptest::prelude::*;
use rustls::server::Acceptor;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::sync::Arc;

/// What a client sends first that asks for `name`.
fn hello(name: &'static str) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::try_from(name).unwrap();
    let mut bytes = Vec::new();
    ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut bytes).unwrap();
    bytes
}

/// What is read of that when it comes as a whole.
fn read(bytes: &[u8]) -> Option<Result<Option<String>, BadHello>> {
    let read = HelloReader::default().read(bytes)?;
    Some(read.map(|hello| hello.server_name))
}

fn asks_for(name: &str) -> Option<Result<Option<String>, BadHello>> {
    Some(Ok(Some(name.to_owned())))
}

/// Bytes behind their length, which takes so many.
fn counted(width: usize, bytes: &[u8]) -> Vec<u8> {
    [&bytes.len().to_be_bytes()[size_of::<usize>() - width..], bytes].concat()
}

/// Names of servers, each with its type.
fn names(names: &[(u8, &[u8])]) -> Vec<u8> {
    let each = names.iter().map(|(kind, name)| [&[*kind][..], &counted(2, name)].concat());
    counted(2, &each.collect::<Vec<_>>().concat())
}

/// A ClientHello of so old a version, with these extensions; `None` for no block of them.
fn message(minor: u8, extensions: Option<&[(u16, Vec<u8>)]>) -> Vec<u8> {
    let extension =
        |(kind, body): &(u16, Vec<u8>)| [&kind.to_be_bytes()[..], &counted(2, body)].concat();
    let extensions = extensions.map(|all| {
        let all = all.iter().map(extension).collect::<Vec<_>>().concat();
        counted(2, &all)
    });
    let session = counted(1, &[7; 32]);
    let suites = counted(2, &[0, 4, 0, 5, 0, 0xff]);
    let body =
        [&[3, minor][..], &[9; 32], &session, &suites, &[1, 0], &extensions.unwrap_or_default()];
    [&[1][..], &counted(3, &body.concat())].concat()
}

/// The same in records with so many bytes each.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |piece| [&[22, 3, 0][..], &counted(2, piece)].concat();
    message.chunks(size).flat_map(record).collect()
}

#[test]
fn a_hello_is_read_whatever_pieces_it_comes_in() {
    let hello = hello("DB.example.com");
    for size in [1, 7, hello.len()] {
        let mut reader = HelloReader::default();
        for end in (size..hello.len()).step_by(size) {
            assert_eq!(reader.read(&hello[..end]), None, "{end}");
        }
        let read = reader.read(&hello).unwrap().unwrap();
        assert_eq!(read.server_name.as_deref(), Some("db.example.com"), "{size}");
    }
}

#[test]
fn one_that_asks_for_an_address_asks_for_no_name() {
    assert_eq!(read(&hello("127.0.0.1")), Some(Ok(None)));
    let by_mistake = message(1, Some(&[(0, names(&[(0, b"192.0.2.1")]))]));
    assert_eq!(read(&records(&by_mistake, 4_096)), Some(Ok(None)));
}

#[test]
fn one_in_several_records_is_read() {
    let hello = hello("a.example");
    for size in [1, 9, 16_384] {
        assert_eq!(read(&records(&hello[5..], size)), asks_for("a.example"), "{size}");
    }
}

/// Nothing of these can be agreed on with rustls.
#[test]
fn old_clients_are_read() {
    for minor in 0..=3 {
        let by_name = message(minor, Some(&[(0, names(&[(0, b"Old.Example.")]))]));
        assert_eq!(read(&records(&by_name, 4_096)), asks_for("old.example"), "{minor}");
        for nameless in [message(minor, None), message(minor, Some(&[]))] {
            assert_eq!(read(&records(&nameless, 4_096)), Some(Ok(None)), "{minor}");
        }
    }
}

#[test]
fn what_follows_is_not_looked_at() {
    let more = [&hello("a.example")[..], b"\0early"].concat();
    assert_eq!(read(&more), asks_for("a.example"));
}

#[test]
fn a_name_is_read_once() {
    let name = |name: &[u8]| (0, names(&[(0, name)]));
    let others = [(0xfe00, vec![0; 300]), name(b"a.example"), (16, vec![])];
    assert_eq!(read(&records(&message(3, Some(&others)), 4_096)), asks_for("a.example"));
    // Of a type that nobody knows: it may be that long, or longer.
    let unknown = (0, names(&[(0, b"a.example"), (7, b"b.example")]));
    assert_eq!(read(&records(&message(3, Some(&[unknown])), 4_096)), asks_for("a.example"));
    for (extensions, expected) in [
        (vec![name(b"a.example"), name(b"b.example")], BadHello::Name),
        (vec![(0, names(&[(7, b"x")])), name(b"b.example")], BadHello::Name),
        (vec![(0, names(&[(0, b"a.example"), (0, b"b.example")]))], BadHello::Name),
        (vec![name(b"a b")], BadHello::Name),
        (vec![name(b"\xff\xfe")], BadHello::Name),
        (vec![name(&[b'a'; 256])], BadHello::Name),
        (vec![name(b"")], BadHello::Malformed),
        (vec![(0, names(&[]))], BadHello::Malformed),
        (vec![(0, vec![])], BadHello::Malformed),
        (vec![(0, [names(&[(0, b"a.example")]), vec![0]].concat())], BadHello::Malformed),
        (vec![(0, vec![0, 4, 0, 0, 9, b'a'])], BadHello::Malformed),
    ] {
        let whole = records(&message(3, Some(&extensions)), 4_096);
        assert_eq!(read(&whole), Some(Err(expected)), "{extensions:?}");
    }
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    // Of the message, the id of the session, the ciphers, the compression, the extensions, and of one of them.
    let whole = message(3, Some(&[(5, vec![1])]));
    assert_eq!(read(&records(&whole, 4_096)), Some(Ok(None)));
    for place in [3, 38, 72, 79, 82, 86] {
        for change in [1, u8::MAX] {
            let mut other = whole.clone();
            other[place] = other[place].wrapping_add(change);
            let refused = read(&records(&[&other[..], &[0; 300]].concat(), 4_096));
            assert_eq!(refused, Some(Err(BadHello::Malformed)), "{place} {change}");
        }
    }
}

#[test]
fn what_is_none_or_does_not_end_is_refused() {
    for (bytes, expected) in [
        (&[22, 3, 1, 0, 4, 2, 0, 0, 0][..], BadHello::OtherMessage),
        (b"\x16GET / HTTP/1.1\r\n\r\n", BadHello::NoHandshake),
        (&[22, 3, 1, 0, 0], BadHello::NoHandshake),
        (&[22, 3, 1, 64, 1], BadHello::NoHandshake),
        (&[22, 3, 1, 0, 1, 1, 21], BadHello::NoHandshake),
        (&[22, 3, 1, 0, 4, 1, 0, 64, 1], BadHello::TooLong),
    ] {
        assert_eq!(read(bytes), Some(Err(expected)), "{bytes:?}");
    }
    // In records of one byte a hello that is not too long comes to more than that.
    let endless = records(&message(3, Some(&[(0xfe00, vec![0; 5_000])])), 1);
    let mut reader = HelloReader::default();
    assert_eq!(reader.read(&endless[..MAX_HELLO - 1]), None);
    assert_eq!(reader.read(&endless[..MAX_HELLO]), Some(Err(BadHello::TooLong)));
}

/// What rustls reads of that; `None` where it refuses it, or waits for more.
fn accepted(mut bytes: &[u8]) -> Option<Option<String>> {
    let mut acceptor = Acceptor::default();
    while !bytes.is_empty() {
        acceptor.read_tls(&mut bytes).ok()?;
        if let Some(accepted) = acceptor.accept().ok()? {
            return Some(accepted.client_hello().server_name().map(folded));
        }
    }
    None
}

/// A list of extensions as a client may have it, most of them with the signature algorithms without which rustls refuses it.
fn extensions() -> impl Strategy<Value = Vec<(u16, Vec<u8>)>> {
    let host = prop_oneof![
        "[a-zA-Z0-9_.-]{1,12}",
        Just("a.example".to_owned()),
        Just("A.Example.".to_owned()),
        Just("192.0.2.1".to_owned()),
    ];
    let name = (prop_oneof![9 => Just(0_u8), 1 => any::<u8>()], host);
    let list = prop::collection::vec(name, 0..3).prop_map(|all| {
        let all: Vec<_> = all.iter().map(|(kind, name)| (*kind, name.as_bytes())).collect();
        (0, names(&all))
    });
    let one = prop_oneof![
        4 => list,
        8 => Just((13, vec![0, 2, 4, 3])),
        1 => (0xfe00_u16.., prop::collection::vec(any::<u8>(), 0..20)),
    ];
    prop::collection::vec(one, 0..4)
}

/// A hello, and what has become of it on its way.
fn sent() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..2);
    (prop::option::weighted(0.9, extensions()), 0..5_u8, 1..400_usize, changes).prop_map(
        |(extensions, minor, size, changes)| {
            let mut bytes = records(&message(minor, extensions.as_deref()), size);
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes
        },
    )
}

proptest! {
    /// What rustls accepts is read, and says the same.
    #[test]
    fn no_other_name_is_read_than_by_rustls(bytes in sent()) {
        if let Some(name) = accepted(&bytes) {
            prop_assert_eq!(read(&bytes), Some(Ok(name)));
        }
    }

    #[test]
    fn pieces_make_no_difference(bytes in sent(), size in 1..50_usize) {
        let mut reader = HelloReader::default();
        let mut pieces = (size..bytes.len()).step_by(size).chain([bytes.len()]);
        let read = pieces.find_map(|end| reader.read(&bytes[..end]));
        prop_assert_eq!(read, HelloReader::default().read(&bytes));
    }
}
