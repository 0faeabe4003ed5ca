//! Floods of HTTP/2 frames against a running gateway (RFC 9113 section 10.5): each is cut off after a thousand
//! frames at the latest, and costs neither memory nor the upstream or other clients anything worth mentioning.
//!
//! A program of its own, one attack after the other: what is measured is the memory of the process.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use titan_testkit::h2::{Client, Frame, Head, block, code, reply, setting};
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::{Gateway, Listening, gateway, waits_until};

/// Frames after which a flood must be over.
const FRAMES: usize = 1_000;
/// What the process may grow by where no more is configured.
const MEMORY: u64 = 16 << 20;
/// What the other client asks for gets a response of the gateway itself.
const ROUTES: &str = "routes: [{ path: /other, respond: 200 }, { prefix: /, upstream: u }]";
const QUIET: &str = "forwarding: { x_forwarded: false, request_id: off, via: off }";

/// A gateway under attack, and what it is measured by.
struct Scene {
    attacker: Client,
    /// Another client, which must notice nothing.
    other: Client,
    before: u64,
    // Behind the clients: it drains as soon as they have gone.
    gateway: Gateway,
    upstream: Option<Upstream>,
    /// What the process may grow by meanwhile.
    memory: u64,
    _turn: std::sync::MutexGuard<'static, ()>,
}

impl Scene {
    fn new(settings: &[(u16, u32)]) -> Scene {
        Scene::with(settings, upstream::replies(ok("x")), "")
    }

    fn with(settings: &[(u16, u32)], upstream: Upstream, text: &str) -> Scene {
        let gateway = gateway(&format!("{QUIET}\n{ROUTES}\n{text}"), &[&upstream]);
        Scene { upstream: Some(upstream), ..Scene::before(gateway, settings) }
    }

    fn before(gateway: Gateway, settings: &[(u16, u32)]) -> Scene {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut other = gateway.connects_h2();
        other.get("/other").has_status(200);
        let mut attacker = gateway.connects_h2_with(settings);
        attacker.pings();
        let before = begin_to_measure();
        Scene { attacker, other, before, gateway, upstream: None, memory: MEMORY, _turn: turn }
    }

    /// Sends frames, which a flood makes of a number that counts up, in groups of that many, to the limit.
    fn floods(&mut self, group: usize, frames: impl Fn(u32) -> Vec<Frame>) -> &mut Scene {
        let mut all = (0..).flat_map(&frames);
        for _ in 0..FRAMES / group {
            self.attacker.offers(&all.by_ref().take(group).collect::<Vec<_>>());
            if group > 1 {
                self.other.get("/other").has_status(200);
            }
        }
        self
    }

    /// The attacker is told to go, and nothing worth mentioning has happened beside. It may miss the code where
    /// it goes on for so long that the connection is reset.
    #[track_caller]
    fn is_cut_off(&mut self) -> Option<u32> {
        let told = self.attacker.looks_for(|talk| talk.has_gone_away());
        self.attacker.ends();
        self.has_cost_little();
        let code = told.map(|(_, code)| code);
        assert_ne!(code, Some(code::NO_ERROR));
        code
    }

    #[track_caller]
    fn has_cost_little(&mut self) {
        let grown = peak().saturating_sub(self.before);
        assert!(grown < self.memory, "grown by {grown} bytes");
        self.other.get("/other").has_status(200);
        self.gateway.connects_h2().get("/other").has_status(200);
    }

    /// How many requests of the attacker have reached the upstream.
    fn asked(&self) -> usize {
        self.upstream.as_ref().map_or(0, |upstream| upstream.requests().len())
    }
}

/// Memory of this process in use now; from here on its peak is measured anew.
fn begin_to_measure() -> u64 {
    fs::write("/proc/self/clear_refs", "5").expect("Linux lets a process do that to itself");
    figure("VmRSS:")
}

/// The most memory in use since then.
fn peak() -> u64 {
    figure("VmHWM:")
}

fn figure(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
    line.trim_end_matches("kB").trim().parse::<u64>().expect("it is a number") * 1024
}

/// The `number`th stream of a client.
fn stream(number: u32) -> u32 {
    2 * number + 1
}

/// A whole request on the `number`th stream.
fn request(number: u32) -> Frame {
    Frame::headers(stream(number), block(&Head::get("/")), true)
}

/// A request whose body is to follow.
fn upload(number: u32) -> Frame {
    Frame::headers(stream(number), block(&Head::post("/")), false)
}

/// CVE-2023-44487.
#[test]
fn rapid_reset() {
    for group in [100, 2] {
        let mut scene = Scene::new(&[]);
        let pair = |number| vec![request(number), Frame::reset(stream(number), code::CANCEL)];
        scene.floods(group, pair);
        assert_eq!(scene.is_cut_off(), Some(code::ENHANCE_YOUR_CALM));
        // It was cut off after some two hundred resets: one for a hundred is two.
        assert!(scene.asked() <= 2, "{} requests, in groups of {group}", scene.asked());
    }
}

#[test]
fn rapid_reset_frame_by_frame() {
    let mut scene = Scene::new(&[]);
    let pair = |number| vec![request(number), Frame::reset(stream(number), code::CANCEL)];
    scene.floods(1, pair);
    scene.is_cut_off();
}

/// The same where everything that reaches the upstream stays there.
#[test]
fn rapid_reset_before_a_slow_upstream() {
    for text in ["", "upstreams: { u: { endpoints: $0, protocol: h2 } }"] {
        let upstream = match text.is_empty() {
            true => upstream::stalls(),
            false => upstream::replies_h2(""),
        };
        let mut scene = Scene::with(&[], upstream, text);
        let pair = |number| vec![request(number), Frame::reset(stream(number), code::CANCEL)];
        scene.floods(100, pair);
        scene.is_cut_off();
        assert!(scene.asked() <= 2, "{} requests", scene.asked());
    }
}

/// CVE-2025-8671: the gateway is made to reset them.
#[test]
fn made_you_reset() {
    type Provocation = fn(u32) -> Vec<Frame>;
    let provocations: [(&str, Provocation); 9] = [
        ("window update of 0", |n| vec![request(n), Frame::window_update(stream(n), 0)]),
        ("window too large", |n| vec![request(n), Frame::window_update(stream(n), (1 << 31) - 1)]),
        ("data behind the end", |n| vec![request(n), Frame::data(stream(n), "x", false)]),
        ("a head behind the end", |n| vec![request(n), request(n)]),
        ("depends on itself", |n| vec![request(n), Frame::priority(stream(n), stream(n))]),
        ("a priority that is too short", |n| {
            vec![request(n), Frame::new(Frame::PRIORITY, 0, stream(n), [0; 4])]
        }),
        ("more than declared", |n| {
            let head = Head::post("/").with("content-length", "1");
            vec![Frame::headers(stream(n), block(&head), false), Frame::data(stream(n), "xy", true)]
        }),
        ("trailers that do not end", |n| {
            vec![
                upload(n),
                Frame::headers(stream(n), block(&Head::default().with("x", "1")), false),
            ]
        }),
        ("a malformed head", |n| {
            vec![Frame::headers(stream(n), block(&Head::get("/").with("X", "1")), true)]
        }),
    ];
    for (what, provocation) in provocations {
        let mut scene = Scene::new(&[]);
        scene.floods(100, provocation);
        let code = scene.is_cut_off();
        assert_eq!(code, Some(code::ENHANCE_YOUR_CALM), "{what}");
        assert!(scene.asked() <= 2, "{what}: {} requests", scene.asked());
    }
}

#[test]
fn more_streams_than_allowed() {
    let mut scene = Scene::with(&[], upstream::stalls(), "");
    scene.floods(100, |number| vec![request(number)]);
    scene.is_cut_off();
    assert!(scene.asked() <= 128, "{} requests", scene.asked());
}

#[test]
fn continuation() {
    for (first, length) in [(0, 0), (0, 1), (10, 16_384), (16_384, 1)] {
        let mut scene = Scene::new(&[]);
        let part = move |number| match number {
            0 => vec![Frame::new(Frame::HEADERS, 0, 1, vec![0x82; first])],
            _ => vec![Frame::continuation(1, vec![0x82; length], false)],
        };
        scene.floods(100, part);
        assert_ne!(scene.is_cut_off(), Some(code::PROTOCOL_ERROR), "{first} {length}");
        assert_eq!(scene.asked(), 0);
    }
}

/// A line that is kept in the table, and is then meant again by each byte.
#[test]
fn hpack_bomb() {
    let mut bomb = block(&Head::get("/"));
    bomb.push(0x40);
    bomb.extend(block(&Head::default().with("x", "y".repeat(3_900))).split_off(1));
    bomb.extend(vec![0xbe; 12_000]);
    let mut scene = Scene::new(&[]);
    let bombs = move |number| vec![Frame::headers(stream(number), &*bomb, true)];
    scene.floods(50, bombs);
    scene.is_cut_off();
    assert_eq!(scene.asked(), 0);
}

/// Heads beyond the limit, each of which is refused with 431.
#[test]
fn heads_that_are_too_large() {
    let head = block(&Head::get("/").with("x", "y".repeat(16_384 - 30)));
    let mut scene = Scene::new(&[]);
    scene.floods(50, move |number| vec![Frame::headers(stream(number), &*head, true)]);
    scene.is_cut_off();
    assert_eq!(scene.asked(), 0);
}

#[test]
fn frames_that_lead_to_nothing() {
    type Flood = fn(u32) -> Vec<Frame>;
    let many: Vec<(u16, u32)> = (0..100).map(|_| (setting::MAX_FRAME_SIZE, 16_384)).collect();
    let floods: [(&str, Flood); 12] = [
        ("settings", |_| vec![Frame::settings(&[])]),
        ("windows of all streams", |n| {
            vec![Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, n % 2)])]
        }),
        ("acknowledgements", |_| vec![Frame::new(Frame::SETTINGS, Frame::ACK, 0, [])]),
        ("pings", |_| vec![Frame::ping([7; 8])]),
        ("pongs", |_| vec![Frame::new(Frame::PING, Frame::ACK, 0, [7; 8])]),
        ("priorities", |n| vec![Frame::priority(stream(n), 0)]),
        ("windows of the connection", |_| vec![Frame::window_update(0, 1)]),
        ("windows of a stream", |n| match n {
            0 => vec![upload(0)],
            _ => vec![Frame::window_update(1, 1)],
        }),
        ("extensions", |_| vec![Frame::new(0xbb, 0, 0, [0; 4])]),
        ("empty data", |n| match n {
            0 => vec![upload(0)],
            _ => vec![Frame::data(1, "", false)],
        }),
        ("data that is padding", |n| match n {
            0 => vec![upload(0)],
            _ => vec![Frame::new(Frame::DATA, Frame::PADDED, 1, [3, 0, 0, 0])],
        }),
        ("resets of nothing", |n| match n {
            0 => vec![request(0), Frame::reset(1, code::CANCEL)],
            _ => vec![Frame::reset(1, code::CANCEL)],
        }),
    ];
    for (what, flood) in floods {
        let mut scene = Scene::new(&[]);
        scene.floods(100, flood);
        assert!(scene.is_cut_off().is_some(), "{what}");
        assert!(scene.asked() <= 2, "{what}");
    }
    let mut scene = Scene::new(&[]);
    scene.floods(50, move |_| vec![Frame::settings(&many)]);
    scene.is_cut_off();
}

/// Pings whose responses are not read.
#[test]
fn pings_in_one_piece() {
    let mut scene = Scene::new(&[]);
    scene.attacker.peer().takes_little(1);
    scene.attacker.offers(&vec![Frame::ping([7; 8]); FRAMES]);
    scene.is_cut_off();
}

/// Requests whose responses are not read. What is read ahead of the client has its bound, and no window grows with it.
#[test]
fn windows_that_stay_shut() {
    const AHEAD: u64 = 16 << 20;
    for protocol in ["h1", "h2"] {
        let listening = upstream::listens();
        let text = format!(
            "{QUIET}\n{ROUTES}\ntimeouts: {{ write: 500ms }}\nlimits: {{ response_memory: {AHEAD}B, stream_window: 1MiB }}\n\
             upstreams: {{ u: {{ endpoints: $0, protocol: {protocol} }} }}"
        );
        let gateway = gateway(&text, &[&listening]);
        let mut scene = Scene::before(gateway, &[(setting::INITIAL_WINDOW_SIZE, 0)]);
        scene.memory += AHEAD;
        scene.attacker.offers(&(0..HOARDED).map(request).collect::<Vec<_>>());
        let serving = thread::spawn(move || match protocol {
            "h1" => serve_much(&listening),
            _ => serve_much_h2(&listening),
        });
        assert_eq!(scene.is_cut_off(), Some(code::ENHANCE_YOUR_CALM), "{protocol}");
        drop(scene);
        serving.join().expect("the upstream has met nothing strange");
    }
}

/// Compressed bodies that never end, each with a window that fills: what decodes them at once is bounded, and is
/// free again when they are given up.
#[test]
fn bodies_that_are_never_decoded_to_their_end() {
    const STREAMS: u32 = 128;
    const BUDGET: u64 = 32 << 20;
    let (address, running) = takes_everything();
    let running = || running.load(Ordering::Relaxed);
    let text = format!(
        "{QUIET}\n{ROUTES}\nlimits: {{ decoding_memory: 32MiB }}\n\
         upstreams: {{ u: {{ endpoints: \"{address}\" }} }}\napply: [p]\n\
         policies: {{ p: {{ compress: {{ requests: {{}} }} }} }}"
    );
    let mut scene = Scene::before(gateway(&text, &[]), &[]);
    let metrics = scene.gateway.metrics();
    let refused = || {
        let of_code = metrics.failures_by_code().find(|it| it.0 == "decoding-memory");
        of_code.map_or(0, |(_, count)| count)
    };
    let body = unending();
    let begin = |attacker: &mut Client| {
        let stream = attacker.starts(&Head::post("/").with("content-encoding", "br"));
        attacker.sends_data(stream, &body, false);
        stream
    };
    let streams: Vec<_> = (0..STREAMS).map(|_| begin(&mut scene.attacker)).collect();
    waits_until("each runs or is refused", || running() + refused() == u64::from(STREAMS));
    assert!((1..=8).contains(&running()), "{} run", running());
    let grown = peak().saturating_sub(scene.before);
    assert!(grown < BUDGET + MEMORY, "grown by {grown} bytes");
    for stream in streams {
        scene.attacker.resets(stream, code::CANCEL);
    }
    let before = running();
    waits_until("there is room again", || {
        let decided = running() + refused();
        begin(&mut scene.attacker);
        waits_until("it runs or is refused", || running() + refused() > decided);
        running() > before
    });
}

/// Requests whose queries are many times as large once they are evaluated, and whose responses do not come.
#[test]
fn queries_that_a_condition_of_the_response_looks_at() {
    const STREAMS: u32 = 400;
    // Each has some 5 KiB of it.
    let query: String = (0..1_300).map(|number| format!("{number:x}&")).collect();
    for when in ["response.status == 404 && !has(request.query.z)", "!has(request.query.z)"] {
        let upstream = upstream::replies_h2("");
        let text = format!(
            "{QUIET}\n{ROUTES}\nlimits: {{ streams: 500 }}\napply: [p]\nupstreams: {{ u: {{ endpoints: $0, protocol: h2 }} }}\n\
             policies: {{ p: {{ transform: {{ response: {{ when: \"{when}\", status: {{ 404: 410 }} }} }} }} }}"
        );
        let mut scene = Scene::before(gateway(&text, &[&upstream]), &[]);
        // A request takes its head, and as much again of it may be kept for the response.
        scene.memory += u64::from(STREAMS) * (32 << 10);
        let target = format!("/?{query}");
        let head = block(&Head::get(&target));
        let metrics = scene.gateway.metrics();
        for number in 0..STREAMS {
            scene.attacker.offers(&[Frame::headers(stream(number), &*head, true)]);
        }
        let begun = || metrics.sum(|cells| cells.begun.get());
        waits_until("each waits for its response", || begun() > u64::from(STREAMS));
        scene.has_cost_little();
    }
}

/// A body of brotli without its last byte that becomes a hundred times as large.
fn unending() -> Vec<u8> {
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, 22);
    let mut number = 1_u32;
    let mut noise = std::iter::repeat_with(|| {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (number >> 24) as u8
    });
    let noise: Vec<u8> = noise.by_ref().take(MUCH / 50).collect();
    for _ in 0..80 {
        encoder.write_all(&noise).expect("memory takes it");
    }
    encoder.flush().expect("memory takes it");
    encoder.get_ref().clone()
}

/// An upstream that reads everything and never responds; counts the requests of which most has come.
fn takes_everything() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let address = listener.local_addr().expect("it is bound");
    let taken = Arc::<AtomicU64>::default();
    let count = Arc::clone(&taken);
    // Ends with the process.
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let (mut piece, mut left) = (vec![0; 64 << 10], MUCH);
                while let Ok(length @ 1..) = connection.read(&mut piece) {
                    if left > 0 && left <= length {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    left = left.saturating_sub(length);
                }
            });
        }
    });
    (address, taken)
}

const HOARDED: u32 = 100;
const MUCH: usize = 1 << 20;
/// What the kernel keeps of a connection that is not read.
const KEPT: usize = 64 << 10;

/// Responses with as much as is taken, on a connection for each request.
fn serve_much(listening: &Listening) {
    let connections: Vec<_> = (0..HOARDED).map(|_| listening.accepts()).collect();
    for mut connection in connections {
        if connection.next_request().is_some() {
            connection.offers(format!("HTTP/1.1 200 OK\r\nContent-Length: {MUCH}\r\n\r\n"));
            connection.offers([b'x'; KEPT]);
        }
    }
}

fn serve_much_h2(listening: &Listening) {
    let mut connection = listening.accepts_h2();
    let requests = (0..HOARDED).map_while(|_| connection.next_request());
    let streams: Vec<u32> = requests.map(|(stream, _)| stream).collect();
    for &stream in &streams {
        connection.sends_head(stream, &reply(200), false);
    }
    connection.sends_until_reset(&streams);
}
