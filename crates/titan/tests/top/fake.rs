//! What says of itself that it is a gateway, and may say anything.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A Unix socket that responds to `/metrics` and `/upstreams`.
pub(super) struct Fake {
    pub(super) socket: PathBuf,
}

impl Fake {
    /// Responds to `/metrics` with one sample after another, and with the last one from then on. What begins with `HTTP/` is
    /// a whole response.
    pub(super) fn serves(name: &str, samples: Vec<String>, listing: &str) -> Fake {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("titan-fake-{name}-{}-{number}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        let listing = listing.to_owned();
        std::thread::spawn(move || {
            let mut asked = 0;
            for stream in listener.incoming().map_while(Result::ok) {
                respond(stream, |target| match target {
                    "/metrics" => {
                        let sample = &samples[asked.min(samples.len() - 1)];
                        asked += 1;
                        sample
                    }
                    _ => &listing,
                });
            }
        });
        Fake { socket }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

fn respond<'b>(mut stream: UnixStream, mut body: impl FnMut(&str) -> &'b str) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap() == 0 {
            return;
        }
        request.extend(byte);
    }
    let head = String::from_utf8(request).unwrap();
    let body = body(head.split(' ').nth(1).unwrap());
    let length = body.len();
    if body.starts_with("HTTP/") {
        return stream.write_all(body.as_bytes()).unwrap();
    }
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
}
