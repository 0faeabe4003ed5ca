//! What is printed at the start: where to connect, and without a configuration file what to try.

use std::fmt::Write;
use titan_config::{Config, ListenAddress, Listener, LogArea, LogLevel, TlsMode};
use titan_observe::events::{Event, Log};
use titan_proxy::Bound;

/// What a started gateway says of itself.
pub(crate) struct Greeting<'g> {
    pub(crate) config: &'g Config,
    /// In the order of the configuration.
    pub(crate) listeners: &'g [Bound],
    pub(crate) admin: &'g AdminAddresses,
    pub(crate) workers: usize,
    /// The text of the built-in configuration, where that is used.
    pub(crate) demo: Option<&'g str>,
}

/// Where the admin interface can be reached.
pub(crate) struct AdminAddresses {
    pub(crate) address: Option<ListenAddress>,
    /// For commands on this machine, beside the address.
    pub(crate) commands: CommandSocket,
    pub(crate) probes: Option<ListenAddress>,
}

/// Where commands such as `titan reload` reach a gateway.
pub(crate) enum CommandSocket {
    /// A Unix socket.
    At(ListenAddress),
    /// Nowhere: it could be at the usual place, but there is no directory for that.
    NoDirectory,
    /// None is wanted beside the address, or the one at the usual place is another process's.
    Without,
}

/// What is said where there is no directory for the socket.
const NO_DIRECTORY: &str = "no Unix socket for commands: neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR \
    names a directory; set `admin.socket`";

impl Greeting<'_> {
    /// The lines.
    pub(crate) fn text(&self) -> String {
        let workers = if self.workers == 1 { "worker" } else { "workers" };
        let version = env!("CARGO_PKG_VERSION");
        let mut lines = vec![format!("titan {version}, {} {workers}", self.workers)];
        let listeners = self.listeners.iter().zip(&self.config.listeners);
        lines.extend(listeners.map(|(bound, listener)| listening(bound, listener)));
        let AdminAddresses { address, commands, probes } = self.admin;
        let has_tls = self.config.admin.as_ref().is_some_and(|admin| admin.tls.is_some());
        let scheme = if has_tls { "https" } else { "http" };
        lines.push(match address {
            Some(address) => format!("admin on {}", url(scheme, &address.to_string())),
            None => "admin off".to_owned(),
        });
        let probes = probes.iter().map(|it| format!("probes on {}", url("http", &it.to_string())));
        lines.extend(probes);
        match commands {
            CommandSocket::At(address) => lines.push(format!("admin on {address}")),
            CommandSocket::NoDirectory => lines.push(NO_DIRECTORY.to_owned()),
            CommandSocket::Without => {}
        }
        let mut text = lines.join("\n") + "\n";
        if let Some(demo) = self.demo {
            text.push_str(&advice(demo));
        }
        text
    }

    /// The same for the log: that the gateway serves, and where.
    pub(crate) fn tell(&self, log: &Log) {
        let workers = if self.workers == 1 { "worker" } else { "workers" };
        let version = env!("CARGO_PKG_VERSION");
        let what = format!("titan {version} serves with {} {workers}", self.workers);
        log.tell(Event::new((LogArea::Start, LogLevel::Info), "started", what));
        for (bound, listener) in self.listeners.iter().zip(&self.config.listeners) {
            let what = listening(bound, listener);
            log.tell(Event::new((LogArea::Listener, LogLevel::Info), "listening", what));
        }
        let files: Vec<_> = self.config.tls_files();
        if !files.is_empty() {
            let files: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            let what = format!("certificates and keys are in use: {}", files.join(", "));
            log.tell(Event::new((LogArea::Tls, LogLevel::Info), "files_in_use", what));
        }
    }
}

/// Where a listener is bound, in words.
pub(crate) fn listening(bound: &Bound, listener: &Listener) -> String {
    let name = match listener.name == listener.address.to_string() {
        true => String::new(),
        false => format!(" ({})", listener.name),
    };
    let over = match (listener.protocols.h3, listener.has_streams()) {
        (false, _) => "",
        (true, true) => " with HTTP/3",
        (true, false) => " for HTTP/3 alone",
    };
    format!("listening on {}{name}{over}", url(scheme(listener), &bound.address))
}

/// What a client has to speak.
fn scheme(listener: &Listener) -> &'static str {
    match (&listener.tls, listener.tls_routes.first().map(|route| route.mode)) {
        (Some(_), _) => "https",
        (None, Some(TlsMode::Tcp)) => "tcp",
        (None, Some(_)) => "tls",
        (None, None) => "http",
    }
}

fn url(scheme: &str, address: &str) -> String {
    match address.starts_with("unix:") {
        true => address.to_owned(),
        false => format!("{scheme}://{address}"),
    }
}

/// What to try next.
fn advice(demo: &str) -> String {
    let mut text = "\nThis is the built-in demo. Its upstream echoes requests:\n\n".to_owned();
    for line in demo.lines() {
        let line = format!("    {line}");
        writeln!(text, "{}", line.trim_end()).expect("a String takes everything");
    }
    text.push_str(
        "
Try:
    curl 'http://127.0.0.1:8080/hello?name=you'
    curl -d 'some text' http://127.0.0.1:8080/
    curl http://127.0.0.1:8484/metrics
    titan explain GET http://127.0.0.1:8080/hello

Put the lines above into titan.yaml, replace the upstream with your own, and continue with:
    titan check titan.yaml
    titan --config titan.yaml

docs/configuration.md describes every key, `titan --help` the rest. Press Ctrl-C to stop.
",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo;

    fn bound(address: &str) -> Bound {
        Bound { name: String::new(), address: address.to_owned(), socket_address: None }
    }

    #[test]
    fn the_demo_says_what_to_try() {
        let config = demo::config_for_reading();
        let admin = AdminAddresses {
            address: Some(config.admin.as_ref().unwrap().address.clone()),
            commands: CommandSocket::At(ListenAddress::Unix("/run/titan/admin.sock".into())),
            probes: None,
        };
        let greeting = Greeting {
            config: &config,
            listeners: &[bound("127.0.0.1:8080")],
            admin: &admin,
            workers: 2,
            demo: Some("listeners:\n  - 127.0.0.1:8080\n\nroutes: ...\n"),
        };
        insta::assert_snapshot!(greeting.text(), @r"
        titan 0.1.0, 2 workers
        listening on http://127.0.0.1:8080
        admin on http://127.0.0.1:8484
        admin on unix:/run/titan/admin.sock

        This is the built-in demo. Its upstream echoes requests:

            listeners:
              - 127.0.0.1:8080

            routes: ...

        Try:
            curl 'http://127.0.0.1:8080/hello?name=you'
            curl -d 'some text' http://127.0.0.1:8080/
            curl http://127.0.0.1:8484/metrics
            titan explain GET http://127.0.0.1:8080/hello

        Put the lines above into titan.yaml, replace the upstream with your own, and continue with:
            titan check titan.yaml
            titan --config titan.yaml

        docs/configuration.md describes every key, `titan --help` the rest. Press Ctrl-C to stop.
        ");
    }

    #[test]
    fn a_configured_gateway_says_where_it_listens() {
        let text = "{ listeners: [{ name: public, address: ':8080' }, 127.0.0.1:0, 'unix:/run/t.sock', \
                    { name: mail, address: ':25', tcp: u }, { name: pass, address: ':8443', tls_routes: \
                    [{ names: a.example, mode: passthrough, upstream: u }] }], \
                    routes: [{ respond: 200 }], upstreams: { u: 10.0.0.1:25 } }";
        let config = Config::parse("test", text).unwrap();
        let greeting = Greeting {
            config: &config,
            listeners: &[
                bound("[::]:8080"),
                bound("127.0.0.1:4711"),
                bound("unix:/run/t.sock"),
                bound("[::]:25"),
                bound("[::]:8443"),
            ],
            admin: &AdminAddresses {
                address: None,
                commands: CommandSocket::Without,
                probes: None,
            },
            workers: 1,
            demo: None,
        };
        insta::assert_snapshot!(greeting.text(), @r"
        titan 0.1.0, 1 worker
        listening on http://[::]:8080 (public)
        listening on http://127.0.0.1:4711
        listening on unix:/run/t.sock
        listening on tcp://[::]:25 (mail)
        listening on tls://[::]:8443 (pass)
        admin off
        ");
    }

    #[test]
    fn where_http_3_is_on_it_says_so() {
        let told = |protocols| {
            let text = format!(
                "{{ listeners: [{{ address: ':443', protocols: {protocols}, tls: {{ certificates: \
                 {{ cert: a, key: b }} }} }}], routes: [{{ respond: 200 }}] }}"
            );
            let config = Config::parse("test", &text).unwrap();
            listening(&bound("[::]:443"), &config.listeners[0])
        };
        let protocols = ["[h2, h1]", "[h3, h2, h1]", "h3"];
        insta::assert_snapshot!(protocols.map(told).join("\n"), @r"
        listening on https://[::]:443
        listening on https://[::]:443 with HTTP/3
        listening on https://[::]:443 for HTTP/3 alone
        ");
    }

    #[test]
    fn a_gateway_that_commands_cannot_reach_says_so() {
        let config = demo::config_for_reading();
        let address = Some(ListenAddress::Any(8484));
        let commands = CommandSocket::NoDirectory;
        let greeting = Greeting {
            config: &config,
            listeners: &[bound("127.0.0.1:8080")],
            admin: &AdminAddresses { address, commands, probes: None },
            workers: 1,
            demo: None,
        };
        insta::assert_snapshot!(greeting.text(), @r"
        titan 0.1.0, 1 worker
        listening on http://127.0.0.1:8080
        admin on http://:8484
        no Unix socket for commands: neither RUNTIME_DIRECTORY nor XDG_RUNTIME_DIR names a directory; set `admin.socket`
        ");
    }
}
