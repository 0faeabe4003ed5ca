//! Clients that check each response: its status, its body, and which configurations it may come from.

use super::configurations::{Configuration, Site};
use crate::client;
use crate::wait::pause;
use rustls::ClientConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use titan_testkit::h2::{Client, Head};
use titan_testkit::{Certificate, Peer, Response};

/// The ways into the gateway.
pub(super) struct Doors {
    site: Arc<Site>,
    trusted: Arc<ClientConfig>,
    trusted_h2: Arc<ClientConfig>,
}

/// How far the driver is, for those who judge responses.
#[derive(Default)]
pub(super) struct Progress {
    /// The configuration that the gateway was told of last.
    told: AtomicUsize,
    /// The one that it says is in force.
    in_force: AtomicUsize,
    is_over: AtomicBool,
    checked: AtomicUsize,
}

/// Ends it when dropped.
pub(super) struct Ending<'p>(&'p Progress);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What a client wants.
#[derive(Clone, Copy, Debug)]
enum Wish {
    /// The response that the configuration has.
    Fixed,
    /// An upstream that stays.
    Through(usize),
    /// The same with a body, which comes back.
    Mirror(usize),
    /// An upstream that each configuration has anew.
    Moves(usize),
    /// The same with a password.
    Private(usize),
    /// A route that only one configuration has.
    Only(usize),
}

/// `ann:secret`
const PASSWORD: &str = "Basic YW5uOnNlY3JldA==";
/// So many requests go over one connection of HTTP/2, which keeps what it was told of each.
const STREAMS: usize = 100;

impl Doors {
    pub(super) fn new(site: &Arc<Site>) -> Doors {
        let mut trusted_h2 = site.authority.trusted();
        trusted_h2.alpn_protocols = vec![b"h2".to_vec()];
        let trusted = Arc::new(site.authority.trusted());
        Doors { site: Arc::clone(site), trusted, trusted_h2: Arc::new(trusted_h2) }
    }

    pub(super) fn clear(&self) -> Peer {
        Peer::connects(self.site.clear)
    }

    pub(super) fn secure(&self) -> Peer {
        let session = Certificate::client_with(&self.trusted, "localhost");
        Peer::connects(self.site.secure).secures(session)
    }

    pub(super) fn clear_h2(&self) -> Client {
        Client::begins(self.clear(), &[])
    }

    pub(super) fn secure_h2(&self) -> Client {
        let session = Certificate::client_with(&self.trusted_h2, "localhost");
        Client::begins(Peer::connects(self.site.secure).secures(session), &[])
    }

    /// Whether a new session with the listener there is with a certificate for that name.
    pub(super) fn knows(&self, place: SocketAddr, name: &str) -> Option<Peer> {
        // Without a ticket of an earlier session, which would be resumed without a certificate.
        let session = Certificate::client_with(&Arc::new(self.site.authority.trusted()), name);
        Peer::connects(place).tries_to_secure(session).ok()
    }
}

impl Progress {
    pub(super) fn tell(&self, Configuration(number): Configuration) {
        self.told.store(number, Ordering::SeqCst);
    }

    pub(super) fn confirm(&self, Configuration(number): Configuration) {
        self.in_force.store(number, Ordering::SeqCst);
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    /// It is over at the latest when what this returns is dropped.
    pub(super) fn ends_with_this(&self) -> Ending<'_> {
        Ending(self)
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// How many responses were checked.
    pub(super) fn checked(&self) -> usize {
        self.checked.load(Ordering::SeqCst)
    }

    fn in_force(&self) -> usize {
        self.in_force.load(Ordering::SeqCst)
    }

    /// Those that may have been in force since the one with that number was confirmed.
    fn since(&self, number: usize) -> impl Iterator<Item = Configuration> {
        (number..=self.told.load(Ordering::SeqCst)).map(Configuration)
    }

    /// Checks a response to a request that began when the configuration of that number was in force.
    fn check(&self, wish: Wish, began: usize, response: &Response) {
        let told = self.told.load(Ordering::SeqCst);
        let number = number_of(response);
        assert!((began..=told).contains(&number), "{number} in {began} to {told}: {response:?}");
        wish.check(Configuration(number), response);
        self.checked.fetch_add(1, Ordering::Relaxed);
    }
}

/// Which configuration a response says that it comes from.
pub(super) fn number_of(response: &Response) -> usize {
    let number = response.field("x-number").and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{response:?} has no number"))
}

impl Wish {
    /// The one that has its turn.
    fn next(turn: usize, progress: &Progress) -> Wish {
        match turn % 6 {
            0 => Wish::Fixed,
            1 => Wish::Through(turn),
            2 => Wish::Mirror(turn),
            3 => Wish::Moves(turn),
            4 => Wish::Private(turn),
            _ => Wish::Only(progress.in_force()),
        }
    }

    fn target(self) -> String {
        match self {
            Wish::Fixed => "/fixed".to_owned(),
            Wish::Through(id) | Wish::Mirror(id) => format!("/through/{id}"),
            Wish::Moves(id) => format!("/moves/{id}"),
            Wish::Private(id) => format!("/private/{id}"),
            Wish::Only(number) => format!("/only/{number}"),
        }
    }

    fn body(self) -> Vec<u8> {
        match self {
            Wish::Mirror(id) => format!("{id}/").repeat(1 + id % 4000).into_bytes(),
            _ => Vec::new(),
        }
    }

    /// What it says in HTTP/1.1, with more field lines.
    fn bytes(self, more: &str) -> Vec<u8> {
        let (target, body) = (self.target(), self.body());
        let method = if body.is_empty() { "GET" } else { "POST" };
        let length = match body.len() {
            0 => String::new(),
            length => format!("Content-Length: {length}\r\n"),
        };
        let password = match self {
            Wish::Private(_) => format!("Authorization: {PASSWORD}\r\n"),
            _ => String::new(),
        };
        let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{length}{password}{more}\r\n");
        [head.into_bytes(), body].concat()
    }

    /// Says it in HTTP/2; the stream.
    fn ask(self, client: &mut Client) -> u32 {
        let (target, body) = (self.target(), self.body());
        match self {
            Wish::Mirror(_) => {
                let head = Head::post(&target).with("content-length", body.len().to_string());
                client.asks_with(&head, body)
            }
            Wish::Private(_) => client.asks(&Head::get(&target).with("authorization", PASSWORD)),
            _ => client.asks(&Head::get(&target)),
        }
    }

    /// Whether that is what it gets under that configuration.
    fn check(self, configuration: Configuration, response: &Response) {
        let Configuration(number) = configuration;
        let status = match self {
            Wish::Only(wanted) if wanted != number => 404,
            _ => 200,
        };
        assert_eq!(response.status, status, "{self:?}: {response:?}");
        let body = response.text();
        let origin = || body.split(' ').next().and_then(|index| index.parse().ok());
        let is_right = match self {
            Wish::Fixed => body == number.to_string(),
            Wish::Only(_) => true,
            Wish::Mirror(_) => response.body == self.body(),
            Wish::Moves(_) => body == format!("{} {}", configuration.moves_to(), self.target()),
            Wish::Through(_) | Wish::Private(_) => {
                body.ends_with(&format!(" {}", self.target()))
                    && origin().is_some_and(|origin| configuration.leads_to(origin))
            }
        };
        assert!(is_right, "{self:?} under {number}: {response:?}");
    }
}

/// Starts every kind of client; each goes on until the driver says that it is over.
pub(super) fn start<'s>(
    scope: &'s Scope<'s, '_>,
    doors: &'s Doors,
    progress: &'s Progress,
) -> Vec<ScopedJoinHandle<'s, ()>> {
    let clients: [fn(&Doors, &Progress); 7] = [
        |doors, progress| keep(doors.clear(), progress),
        |doors, progress| keep(doors.secure(), progress),
        |doors, progress| renew(|| doors.clear(), progress),
        |doors, progress| renew(|| doors.secure(), progress),
        |doors, progress| share(|| doors.clear_h2(), progress),
        |doors, progress| share(|| doors.secure_h2(), progress),
        |doors, progress| knock(&doors.site, progress),
    ];
    clients.map(|client| scope.spawn(move || client(doors, progress))).into()
}

/// All requests over one connection.
fn keep(mut peer: Peer, progress: &Progress) {
    for turn in 0.. {
        if progress.is_over() {
            return;
        }
        let (wish, began) = (Wish::next(turn, progress), progress.in_force());
        let response = peer.sends(wish.bytes("")).response();
        progress.check(wish, began, &response);
    }
}

/// A connection for each request.
fn renew(open: impl Fn() -> Peer, progress: &Progress) {
    for turn in 0.. {
        if progress.is_over() {
            return;
        }
        let (wish, began) = (Wish::next(turn, progress), progress.in_force());
        let mut peer = open();
        let response = peer.sends(wish.bytes("Connection: close\r\n")).response();
        progress.check(wish, began, &response);
        peer.expects_close();
        peer.closes();
    }
}

/// One request of each kind at once, over HTTP/2.
fn share(open: impl Fn() -> Client, progress: &Progress) {
    for number in 0.. {
        let mut client = open();
        for turn in (number * STREAMS..).step_by(6).take(STREAMS / 6) {
            if progress.is_over() {
                return;
            }
            let began = progress.in_force();
            let asked = [0, 1, 2, 3, 4, 5].map(|more| {
                let wish = Wish::next(turn + more, progress);
                (wish, wish.ask(&mut client))
            });
            for (wish, stream) in asked {
                progress.check(wish, began, &client.response(stream));
            }
        }
    }
}

/// Connects to a listener that comes and goes. While it is there it serves, while it is not nobody does; in between
/// either may be so.
fn knock(site: &Site, progress: &Progress) {
    const CLEAR: usize = 0;
    let address = site.passing[CLEAR];
    for turn in 0.. {
        if progress.is_over() {
            return;
        }
        let (wish, began) = (Wish::next(turn, progress), progress.in_force());
        let outcome = ask_once(address, &wish.bytes("Connection: close\r\n"));
        let has_it: Vec<_> = progress.since(began).map(|it| it.passing() == Some(CLEAR)).collect();
        match outcome {
            Ok(status) => {
                assert!(has_it.contains(&true), "{began}: nobody listens, but there is {status}");
                assert!([200, 404].contains(&status), "{wish:?} under {began}: {status}");
            }
            Err(error) => assert!(has_it.contains(&false), "{wish:?} under {began}: {error}"),
        }
        // To be refused takes no time, and would be all that happens.
        pause();
    }
}

/// The status of the response over a connection of its own, if there is one.
fn ask_once(address: SocketAddr, request: &[u8]) -> io::Result<u16> {
    let mut client = client::Client::connect(address)?;
    client.send(request)?;
    Ok(client.response()?.status)
}
