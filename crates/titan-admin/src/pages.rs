//! The responses of the admin interface, by path.

use crate::exposition;
use crate::http::{Request, Response};
use crate::reloads::Reloads;
use crate::revocations::{self, RevocationStore};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;
use titan_config::ListenAddress;
use titan_http::{FieldName, Method, Status};
use titan_proxy::{Gateway, Metrics};

/// Everything that the pages tell of.
pub(crate) struct Pages {
    metrics: Arc<Metrics>,
    status: titan_proxy::Status,
    reloads: Arc<Reloads>,
    store: Option<Arc<RevocationStore>>,
    /// Whether only this machine can reach the interface.
    is_local: bool,
    started: SystemTime,
}

const TEXT: &str = "text/plain; charset=utf-8";

const INDEX: &str = "\
Titan admin interface

/healthz           200 while the process runs
/readyz            200 while connections are accepted, 503 while draining or before token keys are fetched
/metrics           counters and histograms, Prometheus text format
/jwt/revocations   revoked tokens: GET, POST, DELETE with the id
";

const PROBES: &str = "\
Titan

/healthz   200 while the process runs
/readyz    200 while connections are accepted, 503 while draining or before token keys are fetched
/metrics   counters and histograms, Prometheus text format
";

impl Pages {
    /// The pages of a gateway that has just started.
    pub(crate) fn new(
        gateway: &Gateway,
        reloads: &Arc<Reloads>,
        store: Option<Arc<RevocationStore>>,
    ) -> Pages {
        let (metrics, status) = (gateway.metrics(), gateway.status());
        let (reloads, started) = (Arc::clone(reloads), SystemTime::now());
        Pages { metrics, status, reloads, store, is_local: false, started }
    }

    /// The same at that address.
    pub(crate) fn at(self, address: &ListenAddress) -> Pages {
        let is_local =
            matches!(address, ListenAddress::Tcp(it) if it.ip().to_canonical().is_loopback());
        Pages { is_local, ..self }
    }

    /// Responds to a request.
    pub(crate) fn respond(&self, request: &Request) -> Response {
        if let Some(rest) = below(request.head.path(), revocations::PATH) {
            // A page may have its own name lead to this address, and reads then what it likes: it says no `Origin`.
            if self.is_local && !request.head.authority().is_none_or(is_this_machine) {
                let detail = "use `localhost` or an IP address as the host: the admin interface accepts no other names";
                return Response::problem(Status::FORBIDDEN, detail);
            }
            return revocations::respond(self.store.as_deref(), request, rest);
        }
        self.respond_with_page(request, INDEX)
    }

    /// Responds to a request at the address of the probes, where there is nothing but pages.
    pub(crate) fn respond_to_probe(&self, request: &Request) -> Response {
        self.respond_with_page(request, PROBES)
    }

    fn respond_with_page(&self, request: &Request, index: &'static str) -> Response {
        let page: fn(&Pages) -> Response = match request.head.path() {
            b"/" => return self.read(request, |_| Response::new(Status::OK, TEXT, index)),
            b"/healthz" => |_| Response::new(Status::OK, TEXT, "ok\n"),
            b"/readyz" => Pages::readiness,
            b"/metrics" => Pages::metrics,
            _ => {
                return Response::problem(
                    Status::NOT_FOUND,
                    "there is no such page; / lists the pages",
                );
            }
        };
        self.read(request, page)
    }

    /// A page, which can be read and nothing else.
    fn read(&self, request: &Request, page: impl Fn(&Pages) -> Response) -> Response {
        match request.head.method {
            Method::GET | Method::HEAD => page(self),
            _ => {
                let detail = "this page allows only GET and HEAD";
                let refusal = Response::problem(Status::METHOD_NOT_ALLOWED, detail);
                refusal.with(FieldName::Allow, "GET, HEAD")
            }
        }
    }

    fn readiness(&self) -> Response {
        match self.status.is_ready() {
            true => Response::new(Status::OK, TEXT, "ready\n"),
            false if self.status.lacks_keys() => {
                let text = "token keys have not been fetched yet\n";
                Response::new(Status::SERVICE_UNAVAILABLE, TEXT, text)
            }
            false => Response::new(Status::SERVICE_UNAVAILABLE, TEXT, "draining\n"),
        }
    }

    fn metrics(&self) -> Response {
        let revoked = self.store.as_ref().map(|store| store.count(revocations::now()));
        let text = exposition::write(
            (&self.metrics, &self.status),
            &self.reloads.attempts(),
            revoked,
            self.started,
        );
        Response::new(Status::OK, exposition::MEDIA_TYPE, text)
    }
}

/// What of a path is below another one, or nothing for that one itself.
fn below<'p>(path: &'p [u8], above: &[u8]) -> Option<&'p [u8]> {
    path.strip_prefix(above).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Whether it names this machine or an address, and so was not looked up.
fn is_this_machine(authority: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(authority) else { return false };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let port = text.rsplit_once(':').filter(|(_, port)| is_port(port));
    let host = port.map_or(text, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    bare.unwrap_or(host).parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Peer;
    use titan_config::Config;
    use titan_http::RequestHead;
    use titan_proxy::Files;

    const PEER: Peer = Peer::Process { uid: 0, pid: None };

    fn gateway() -> Gateway {
        let text =
            "{ listeners: [127.0.0.1:0], workers: 1, admin: off, routes: [{ respond: 200 }] }";
        Gateway::start(&Config::parse("test", text).unwrap(), &Files::default(), None).unwrap()
    }

    fn pages(gateway: &Gateway, store: Option<&Arc<RevocationStore>>) -> Pages {
        Pages::new(gateway, &Arc::new(Reloads::new([0; 32])), store.cloned())
    }

    fn ask(pages: &Pages, method: Method, path: &str) -> (u16, String) {
        let mut head = RequestHead { method, ..RequestHead::default() };
        head.set_path(path.as_bytes()).unwrap();
        let Response { head, body } =
            pages.respond(&Request { head, body: Vec::new(), peer: PEER });
        (head.status.code(), String::from_utf8(body).unwrap())
    }

    #[test]
    fn ready_until_it_drains_and_alive_beyond() {
        let gateway = gateway();
        let pages = pages(&gateway, None);
        assert_eq!(ask(&pages, Method::GET, "/readyz"), (200, "ready\n".to_owned()));
        gateway.drain();
        assert_eq!(ask(&pages, Method::GET, "/readyz"), (503, "draining\n".to_owned()));
        assert_eq!(ask(&pages, Method::GET, "/healthz"), (200, "ok\n".to_owned()));
    }

    #[test]
    fn pages_can_be_read_and_nothing_else() {
        let gateway = gateway();
        let pages = pages(&gateway, None);
        for path in ["/", "/healthz", "/readyz", "/metrics"] {
            assert_eq!(ask(&pages, Method::GET, path).0, 200, "{path}");
            assert_eq!(ask(&pages, Method::HEAD, path).0, 200, "{path}");
            assert_eq!(ask(&pages, Method::POST, path).0, 405, "{path}");
        }
        assert_eq!(ask(&pages, Method::GET, "/metrics/").0, 404);
        assert_eq!(ask(&pages, Method::POST, "/nothing").0, 404);
    }

    #[test]
    fn a_name_that_leads_here_opens_nothing_that_is_for_this_machine() {
        let place = revocations::tests::Place::new();
        let store = Arc::new(place.opens().unwrap());
        let gateway = gateway();
        let status = |address: &str, host: Option<&str>, path: &str| {
            let pages = pages(&gateway, Some(&store));
            let pages = pages.at(&ListenAddress::Tcp(address.parse().unwrap()));
            let mut head = RequestHead { method: Method::GET, ..RequestHead::default() };
            head.set_path(path.as_bytes()).unwrap();
            if let Some(host) = host {
                head.fields.append(FieldName::Host, host.as_bytes()).unwrap();
            }
            pages.respond(&Request { head, body: Vec::new(), peer: PEER }).head.status.code()
        };
        let list = "/jwt/revocations";
        for local in ["127.0.0.1:8484", "[::1]:8484"] {
            for host in
                ["localhost", "LocalHost:8484", "127.0.0.1:8484", "192.0.2.1", "[::1]:9", "[::1]"]
            {
                assert_eq!(status(local, Some(host), list), 200, "{host}");
            }
            assert_eq!(status(local, None, list), 200);
            for host in [
                "evil.example:8484",
                "evil.example",
                "localhost.evil.example",
                "127.0.0.1.evil.example:80",
            ] {
                assert_eq!(status(local, Some(host), list), 403, "{host}");
                assert_eq!(status(local, Some(host), "/jwt/revocations/1"), 403, "{host}");
                assert_eq!(status(local, Some(host), "/healthz"), 200, "{host}");
            }
        }
        assert_eq!(status("192.0.2.1:8484", Some("admin.example"), list), 200);
    }

    #[test]
    fn probes_can_do_nothing_but_read() {
        let place = revocations::tests::Place::new();
        let store = Arc::new(place.opens().unwrap());
        let gateway = gateway();
        let pages = pages(&gateway, Some(&store));
        let status = |method, path: &str| {
            let mut head = RequestHead { method, ..RequestHead::default() };
            head.set_path(path.as_bytes()).unwrap();
            pages
                .respond_to_probe(&Request { head, body: Vec::new(), peer: PEER })
                .head
                .status
                .code()
        };
        for path in ["/", "/healthz", "/readyz", "/metrics"] {
            assert_eq!(status(Method::GET, path), 200, "{path}");
            assert_eq!(status(Method::POST, path), 405, "{path}");
        }
        for path in ["/jwt/revocations", "/jwt/revocations/1"] {
            for method in [Method::GET, Method::POST, Method::DELETE] {
                assert_eq!(status(method, path), 404, "{path}");
            }
        }
        assert!(!PROBES.contains("revocations"));
    }

    #[test]
    fn the_index_lists_every_page() {
        let place = revocations::tests::Place::new();
        let store = Arc::new(place.opens().unwrap());
        for line in INDEX.lines().filter(|line| line.starts_with('/')) {
            let gateway = gateway();
            let pages = pages(&gateway, Some(&store));
            let path = line.split(' ').next().unwrap();
            assert_eq!(ask(&pages, Method::GET, path).0, 200, "{path}");
        }
    }
}
