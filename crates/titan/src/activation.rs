//! Sockets that the service manager has bound, and passes to the process that it starts (sd_listen_fds(3)).

use crate::failure::Failure;
use crate::upgrade::Inherited;
use listenfd::ListenFd;
use socket2::SockRef;
use std::env;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use titan_config::{Config, ListenAddress, Listener};

/// The sockets that were passed, each with its name and the address that it is bound to.
#[derive(Default)]
pub(crate) struct Activated(Vec<Passed>);

struct Passed {
    name: String,
    address: ListenAddress,
    socket: OwnedFd,
}

impl Activated {
    /// Takes them from the environment. To be called before any other thread runs.
    pub(crate) fn take() -> Result<Activated, Failure> {
        let mut sockets = ListenFd::from_env();
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':').map(str::to_owned);
        let passed = (0..sockets.len()).map(|index| {
            let name = names.next().unwrap_or_default();
            take(&mut sockets, index, &name).ok_or_else(|| {
                let number = index + 1;
                Failure::BadInput(format!(
                    "the service manager passes socket {number} (`{name}`), which is not one that streams are accepted at: \
                     use `ListenStream=`"
                ))
            })
        });
        Ok(Activated(passed.collect::<Result<_, _>>()?))
    }

    /// Gives each to what has its address in the configuration: a listener, or one of `servers`. One that nobody would accept from is an
    /// error: clients would wait in it, or be refused once it is closed.
    pub(crate) fn hand_to(
        self,
        config: &Config,
        servers: &[(&str, ListenAddress)],
        inherited: &mut Inherited,
    ) -> Result<(), Failure> {
        for Passed { name, address, socket } in self.0 {
            let mut listeners = config.listeners.iter().filter(|it| it.address == address);
            let is_known = listeners.clone().next().is_some();
            if listeners.any(Listener::has_streams) {
                inherited.add_socket(&address, socket);
            } else if let Some((role, _)) = servers.iter().find(|(_, it)| *it == address) {
                inherited.add_server(role, &address, socket);
            } else if is_known {
                return Err(Failure::BadInput(format!(
                    "the service manager passes a socket for {address} (`{name}`), but the listener at that address speaks HTTP/3 \
                     alone, over UDP: add `h2` to its `protocols`, or remove the socket from the socket unit"
                )));
            } else {
                return Err(Failure::BadInput(format!(
                    "the service manager passes a socket for {address} (`{name}`), but the configuration has nothing at that \
                     address: add it to `listeners`, or remove it from the socket unit"
                )));
            }
        }
        Ok(())
    }
}

fn take(sockets: &mut ListenFd, index: usize, name: &str) -> Option<Passed> {
    let name = name.to_owned();
    if let Ok(Some(socket)) = sockets.take_tcp_listener(index) {
        let address = address_of(&socket)?;
        return Some(Passed { name, address, socket: socket.into() });
    }
    let socket: UnixListener = sockets.take_unix_listener(index).ok()??;
    let path = socket.local_addr().ok()?.as_pathname()?.to_owned();
    Some(Passed { name, address: ListenAddress::Unix(path), socket: socket.into() })
}

/// As a configuration writes it.
fn address_of(socket: &TcpListener) -> Option<ListenAddress> {
    let address = socket.local_addr().ok()?;
    let takes_both = address.is_ipv6() && !SockRef::from(socket).only_v6().ok()?;
    Some(match takes_both && address.ip().is_unspecified() {
        true => ListenAddress::Any(address.port()),
        false => ListenAddress::Tcp(address),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_http3_alone_has_no_use_for_is_an_error() {
        let handed = |protocols: &str| {
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap();
            let text = format!(
                "listeners:\n  - address: '{address}'\n    protocols: {protocols}\n    tls: {{ certificates: {{ cert: c, key: k }} }}\n\
                 routes: [{{ respond: 204 }}]\n"
            );
            let config = Config::parse("titan.yaml", &text).unwrap();
            let (name, address) = ("web".to_owned(), ListenAddress::Tcp(address));
            let activated = Activated(vec![Passed { name, address, socket: socket.into() }]);
            let mut inherited = Inherited::default();
            let handed = activated.hand_to(&config, &[], &mut inherited);
            assert_eq!(handed.is_ok(), !inherited.take_listeners().is_empty());
            handed
        };
        assert!(handed("[h3, h2]").is_ok());
        let Err(Failure::BadInput(told)) = handed("h3") else { panic!("it is dropped") };
        assert!(
            told.contains("(`web`), but the listener at that address speaks HTTP/3 alone"),
            "{told}"
        );
    }
}
