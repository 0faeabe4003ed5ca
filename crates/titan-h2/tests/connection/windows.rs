//! What may be sent, when, and whose turn it is.

use crate::peer::*;
use titan_h2::{Limits, StreamId};
use titan_http::Status;

/// A server with that many streams whose heads were sent, and a client that has such an initial window.
fn sending(streams: u32, window: u32) -> (Tested, Vec<StreamId>) {
    let mut tested = Tested::server(Limits::default());
    tested.receives(&settings(&[(4, window)])).unwrap();
    let ids = (0..streams).map(|index| tested.opens(&get(2 * index + 1))).collect::<Vec<_>>();
    for &id in &ids {
        tested.responds(id, Status::OK, false);
    }
    tested.sent();
    (tested, ids)
}

fn data_lengths(tested: &mut Tested) -> Vec<usize> {
    let sent = tested.sent();
    sent.iter().filter(|sent| sent.kind == DATA).map(|sent| sent.payload.len()).collect()
}

#[test]
fn a_stream_waits_for_its_own_window() {
    let (mut tested, ids) = sending(1, 1);
    assert_eq!(tested.connection.send_data(ids[0], b"abc", true), 1);
    assert_eq!(tested.connection.next_unblocked(), None);
    tested.receives(&window_update(1, 1)).unwrap();
    assert_eq!(tested.connection.next_unblocked(), Some(ids[0]));
    assert_eq!(tested.connection.next_unblocked(), None);
    assert_eq!(tested.connection.send_data(ids[0], b"bc", true), 1);
    // Another initial window counts for open streams too.
    tested.receives(&settings(&[(4, 2)])).unwrap();
    assert_eq!(tested.connection.next_unblocked(), Some(ids[0]));
    assert_eq!(tested.connection.send_data(ids[0], b"c", true), 1);
    assert_eq!(data_lengths(&mut tested), [1, 1, 1]);
    assert!(!tested.connection.is_open(ids[0]));
}

#[test]
fn a_window_may_fall_below_zero() {
    let (mut tested, ids) = sending(1, 10);
    assert_eq!(tested.connection.send_data(ids[0], &[0; 10], false), 10);
    tested.receives(&settings(&[(4, 4)])).unwrap();
    assert_eq!(tested.connection.send_data(ids[0], &[0; 10], false), 0);
    tested.receives(&window_update(1, 6)).unwrap();
    assert_eq!(tested.connection.next_unblocked(), None);
    tested.receives(&window_update(1, 1)).unwrap();
    assert_eq!(tested.connection.next_unblocked(), Some(ids[0]));
    assert_eq!(tested.connection.send_data(ids[0], &[0; 10], false), 1);
}

#[test]
fn streams_share_the_connection_in_turn() {
    let (mut tested, ids) = sending(3, 1 << 20);
    // The window of the connection is 65,535, and the output holds 64 KiB.
    assert_eq!(tested.connection.send_data(ids[0], &[0; 100_000], true), 65_535);
    for id in &ids[1..] {
        assert_eq!(tested.connection.send_data(*id, b"abc", true), 0);
    }
    tested.sent();
    assert_eq!(tested.connection.next_unblocked(), None);
    tested.receives(&window_update(0, 20_000)).unwrap();
    // Later ones wait behind those that wait already.
    let later = tested.opens(&get(7));
    tested.responds(later, Status::OK, false);
    assert_eq!(tested.connection.send_data(later, b"abc", true), 0);
    tested.sent();
    assert_eq!(tested.connection.next_unblocked(), Some(ids[0]));
    assert_eq!(tested.connection.next_unblocked(), Some(ids[1]));
    assert_eq!(tested.connection.next_unblocked(), None, "no room for a third frame");
    assert_eq!(tested.connection.send_data(ids[0], &[0; 34_465], true), 20_000);
    assert_eq!(tested.connection.send_data(ids[1], b"abc", true), 0);
    tested.receives(&window_update(0, 4)).unwrap();
    assert_eq!(tested.connection.next_unblocked(), Some(ids[1]), "it keeps its turn");
    assert_eq!(tested.connection.send_data(ids[1], b"abc", true), 3);
    assert_eq!(tested.connection.next_unblocked(), Some(ids[2]));
    assert_eq!(tested.connection.send_data(ids[2], b"abc", true), 1);
}

#[test]
fn the_output_is_bounded() {
    let (mut tested, ids) = sending(2, 1 << 20);
    tested.receives(&window_update(0, 1 << 30)).unwrap();
    tested.sent();
    let taken = tested.connection.send_data(ids[0], &[0; 1 << 20], true);
    assert!((64 << 10..(64 << 10) + 16_384).contains(&taken));
    assert_eq!(tested.connection.send_data(ids[1], b"abc", true), 0);
    assert_eq!(tested.connection.next_unblocked(), None);
    tested.connection.written(20_000);
    assert_eq!(tested.connection.next_unblocked(), Some(ids[0]));
    let written = tested.connection.output().len();
    tested.connection.written(written);
    assert_eq!(tested.connection.next_unblocked(), Some(ids[1]));
    assert_eq!(tested.connection.send_data(ids[1], b"abc", true), 3);
}

#[test]
fn a_stream_that_is_over_leaves_its_turn() {
    let (mut tested, ids) = sending(3, 1 << 20);
    assert_eq!(tested.connection.send_data(ids[0], &[0; 65_535], false), 65_535);
    for id in &ids {
        assert_eq!(tested.connection.send_data(*id, b"abc", true), 0);
    }
    tested.sent();
    tested.receives(&window_update(0, 100)).unwrap();
    assert_eq!(tested.connection.next_unblocked(), Some(ids[0]));
    tested.receives(&reset(1, 8)).unwrap();
    tested.receives(&reset(3, 8)).unwrap();
    assert_eq!(tested.connection.next_unblocked(), Some(ids[2]));
    assert_eq!(tested.connection.send_data(ids[2], b"abc", true), 3);
}

#[test]
fn a_queue_of_streams_that_are_over_is_empty() {
    let (mut tested, ids) = sending(3, 1 << 20);
    assert_eq!(tested.connection.send_data(ids[0], &[0; 65_536], false), 65_535);
    assert_eq!(tested.connection.send_data(ids[1], b"abc", true), 0);
    for id in &ids[..2] {
        tested.connection.reset(*id, titan_h2::Code::Cancel);
    }
    tested.sent();
    tested.receives(&window_update(0, 100)).unwrap();
    assert_eq!(tested.connection.send_data(ids[2], b"abc", true), 3);
}

#[test]
fn a_window_may_shrink_while_a_stream_is_queued() {
    let (mut tested, ids) = sending(1, 1 << 20);
    assert_eq!(tested.connection.send_data(ids[0], &[0; 70_000], true), 65_535);
    tested.sent();
    tested.receives(&settings(&[(4, 65_535)])).unwrap();
    tested.receives(&window_update(0, 100)).unwrap();
    assert_eq!(tested.connection.next_unblocked(), None);
    tested.receives(&window_update(1, 1)).unwrap();
    assert_eq!(tested.connection.next_unblocked(), Some(ids[0]));
    assert_eq!(tested.connection.send_data(ids[0], &[0; 4465], true), 1);
}

#[test]
fn a_stream_is_queued_once() {
    let (mut tested, ids) = sending(2, 1 << 20);
    assert_eq!(tested.connection.send_data(ids[0], &[0; 70_000], true), 65_535);
    for _ in 0..3 {
        assert_eq!(tested.connection.send_data(ids[0], &[0; 4465], true), 0);
    }
    tested.sent();
    tested.receives(&window_update(0, 1000)).unwrap();
    assert_eq!(tested.connection.next_unblocked(), Some(ids[0]));
    assert_eq!(tested.connection.next_unblocked(), None);
}

#[test]
fn the_window_of_a_connection_is_never_smaller_than_the_first() {
    let limits = Limits { connection_window: 10, ..Limits::default() };
    let mut tested = Tested::server(limits);
    tested.opens(&post(1));
    for _ in 0..20 {
        tested.receives(&data(1, 0, &[0; 16_000])).unwrap();
    }
}

#[test]
fn credit_of_bodies_that_are_refused_is_not_lost() {
    let limits = Limits { connection_window: 65_535, ..Limits::default() };
    let mut tested = Tested::server(limits);
    for number in 0..20 {
        let id = 2 * number + 1;
        tested.opens(&headers(id, 0, &and(POST, ("content-length", "5"))));
        tested.receives(&data(id, 0, &[0; 16_000])).unwrap();
    }
}

#[test]
fn an_empty_end_needs_no_window() {
    let (mut tested, ids) = sending(1, 0);
    assert_eq!(tested.connection.send_data(ids[0], b"a", false), 0);
    assert_eq!(tested.connection.send_data(ids[0], b"", true), 0);
    assert!(!tested.connection.is_open(ids[0]));
}

#[test]
fn credit_is_given_back_by_half_windows() {
    let limits = Limits { stream_window: 1000, connection_window: 65_535, ..Limits::default() };
    let mut tested = Tested::server(limits);
    tested.releases = false;
    let stream = tested.opens(&post(1));
    tested.receives(&data(1, 0, &[0; 1000])).unwrap();
    tested.connection.release(stream, 499);
    assert!(tested.sent().is_empty());
    tested.connection.release(stream, 1);
    let sent = tested.sent();
    assert_eq!((sent.len(), sent[0].stream, sent[0].number(0)), (1, 1, 500));
    // Nothing for a stream that gets no more.
    tested.receives(&data(1, END_STREAM, &[0; 500])).unwrap();
    tested.connection.release(stream, 1000);
    assert!(tested.sent().is_empty());
}

#[test]
fn credit_of_streams_that_are_over_is_not_lost() {
    let limits = Limits { connection_window: 65_535, ..Limits::default() };
    let mut tested = Tested::server(limits);
    tested.releases = false;
    for number in 0..20 {
        let id = 2 * number + 1;
        let stream = tested.opens(&post(id));
        tested.receives(&data(id, 0, &[0; 16_000])).unwrap();
        tested.connection.reset(stream, titan_h2::Code::Cancel);
        // What was told of is the driver's to give back, what comes late is not.
        tested.connection.release(stream, 16_000);
        tested.receives(&data(id, 0, &[0; 16_000])).unwrap();
    }
}

#[test]
fn the_first_window_holds_until_settings_are_acknowledged() {
    let limits = Limits { stream_window: 10, ..Limits::default() };
    let mut tested = Tested::of(titan_h2::Connection::server(limits));
    tested.releases = false;
    tested.receives(&[PREFACE, &settings(&[]), &post(1)].concat()).unwrap();
    tested.receives(&data(1, 0, &[0; 16_000])).unwrap();
    tested.receives(&settings_ack()).unwrap();
    let fatal = tested.receives(&data(1, 0, &[0; 1])).unwrap_err();
    assert_eq!(fatal.violation, titan_h2::Violation::WindowExceeded);
}

#[test]
fn a_stream_that_ends_while_it_waits_leaves_its_turn() {
    let mut tested = Tested::server(Limits::default());
    tested.receives(&settings(&[(4, 1 << 20)])).unwrap();
    let ids: Vec<_> = (0..6).map(|nth| tested.opens(&post(2 * nth + 1))).collect();
    for id in &ids {
        tested.responds(*id, Status::OK, false);
    }
    assert_eq!(tested.connection.send_data(ids[0], &[0; 65_536], false), 65_535);
    for id in &ids[1..] {
        assert_eq!(tested.connection.send_data(*id, b"abc", true), 0);
        assert_eq!(tested.connection.send_data(*id, b"", true), 0);
    }
    tested.sent();
    tested.receives(&window_update(0, 1 << 20)).unwrap();
    assert_eq!(tested.connection.next_unblocked(), Some(ids[0]));
    assert_eq!(tested.connection.next_unblocked(), None);
}

#[test]
fn a_stream_with_an_unread_response_holds_up_no_other() {
    let limits = Limits { connection_window: 65_535, ..Limits::default() };
    let mut tested = Tested::client(limits);
    tested.releases = false;
    for _ in 0..100 {
        let id = on_wire(tested.asks(titan_http::Method::GET, true).unwrap());
        tested.receives(&headers(id, 0, &[(":status", "200")])).unwrap();
        // Nothing of it is ever released.
        for _ in 0..4 {
            tested.receives(&data(id, 0, &[0; 16_383])).unwrap();
        }
    }
    let given = tested.sent().iter().filter(|sent| sent.kind == WINDOW_UPDATE).count();
    assert!(given > 100, "{given}");
}

#[test]
fn what_was_given_back_when_it_came_is_not_given_back_again() {
    let mut tested = Tested::client(Limits { connection_window: 65_535, ..Limits::default() });
    let stream = tested.asks(titan_http::Method::GET, true).unwrap();
    tested.receives(&headers(1, 0, &[(":status", "200")])).unwrap();
    let mut given = 0;
    for _ in 0..64 {
        tested.receives(&data(1, PADDED, &[[1].as_slice(), &[0; 1023]].concat())).unwrap();
        let updates = tested.sent().into_iter().filter(|sent| sent.kind == WINDOW_UPDATE);
        given += updates.filter(|sent| sent.stream == 0).map(|sent| sent.number(0)).sum::<u32>();
    }
    tested.connection.reset(stream, titan_h2::Code::Cancel);
    assert_eq!(given, 64 << 10);
}

#[test]
fn a_window_that_is_used_before_settings_are_acknowledged_is_counted_right() {
    for (begins, grows) in [(256 << 10, 256 << 10), (64 << 10, 256 << 10), (100, 200)] {
        let limits = Limits { stream_window: begins, grown_window: grows, ..Limits::default() };
        let mut tested = Tested::of(titan_h2::Connection::server(limits));
        tested.receives(&[PREFACE, &settings(&[]), &post(1)].concat()).unwrap();
        let given = |tested: &mut Tested| {
            let updates = tested.sent().into_iter().filter(|it| it.kind == WINDOW_UPDATE);
            let updates = updates.filter(|it| it.stream == 1);
            updates.map(|it| i64::from(it.number(0))).sum::<i64>()
        };
        let written = tested.connection.output().len();
        tested.connection.written(written);
        // What the client may send, as it sees it.
        let mut window = 65_535;
        for _ in 0..3 {
            tested.receives(&data(1, 0, &[0; 16_000])).unwrap();
            window += given(&mut tested) - 16_000;
        }
        tested.receives(&settings_ack()).unwrap();
        window += i64::from(begins) - 65_535;
        tested.releases = false;
        while window > 0 {
            let length = window.min(16_000);
            tested.receives(&data(1, 0, &vec![0; length as usize])).unwrap();
            window += given(&mut tested) - length;
        }
        let fatal = tested.receives(&data(1, 0, &[0; 1])).unwrap_err();
        assert_eq!(fatal.violation, titan_h2::Violation::WindowExceeded);
    }
}
