//! The gateway without a configuration file: a built-in configuration, and an upstream that echoes requests.

use crate::failure::Failure;
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use titan_admin::http::{Bounds, Request, Response, Server, Socket};
use titan_config::{Config, ListenAddress};
use titan_http::{FieldName, Fields, Status};

/// The built-in configuration; its `{demo}` is the address of the demo upstream.
const CONFIG: &str = "\
listeners:
  - 127.0.0.1:8080

routes:
  - name: everything
    upstream: demo

upstreams:
  demo: { endpoints: {demo}, max_connections: 1024 }

admin: 127.0.0.1:8484
";

/// As many connections as the gateway opens to an endpoint, kept a little longer than it keeps them.
const BOUNDS: Bounds = Bounds {
    connections: 1024,
    share: 1024,
    idle: Duration::from_secs(60),
    requests: u32::MAX,
    life: Duration::from_secs(24 * 3600),
    bodies: 1024 * Request::MAX_BODY,
};

/// The demo upstream, with the configuration that leads to it.
pub(crate) struct Demo {
    /// The checked configuration.
    pub(crate) config: Config,
    /// The same as text.
    pub(crate) text: String,
    /// The upstream.
    pub(crate) upstream: Server,
}

impl Demo {
    /// Starts the upstream on a free port of the loopback interface.
    pub(crate) fn start() -> Result<Demo, Failure> {
        let free = ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        let failed = |error| {
            let (address, file) = (free.to_string(), String::new());
            Failure::Bind { address, what: " for the demo", file, error }
        };
        let socket = Socket::bind(&free).map_err(failed)?;
        let text = text_for(socket.address());
        let upstream = Server::start("demo", socket, BOUNDS, echo)?;
        Ok(Demo { config: parse(&text), text, upstream })
    }
}

/// What to know about [`config_for_reading`].
pub(crate) const FOR_READING: &str = "The built-in configuration. Its upstream takes a free port \
    at the start; port 1 stands for it here.\n\n";

/// The configuration where nothing is started.
pub(crate) fn config_for_reading() -> Config {
    parse(&text_for(&ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 1)))))
}

fn text_for(demo: &ListenAddress) -> String {
    CONFIG.replace("{demo}", &demo.to_string())
}

fn parse(text: &str) -> Config {
    Config::parse("built-in", text).expect("the built-in configuration is valid: a test checks it")
}

/// Responses with the request as JSON.
fn echo(request: &Request) -> Response {
    let Request { head, body, peer: _ } = request;
    // The gateway is the only client: what it says of its own client is true.
    let client = head.fields.get(FieldName::XForwardedFor).map_or(Value::Null, json_text);
    let document = object(
        "",
        [
            ("method", Value::from(head.method.as_str()).to_string()),
            ("path", json_text(head.path()).to_string()),
            ("query", head.query().map_or(Value::Null, json_text).to_string()),
            ("headers", headers(&head.fields)),
            ("body", json_text(body).to_string()),
            ("client", client.to_string()),
        ],
    );
    Response::new(Status::OK, "application/json", document + "\n")
}

/// Every field once; several lines of one name are joined as RFC 9110 section 5.3 has it.
fn headers(fields: &Fields) -> String {
    let mut joined: Vec<(&[u8], Vec<u8>)> = Vec::new();
    for field in fields.iter() {
        match joined.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(field.name)) {
            Some((_, values)) => {
                values.extend_from_slice(b", ");
                values.extend_from_slice(field.value);
            }
            None => joined.push((field.name, field.value.to_vec())),
        }
    }
    let names: Vec<_> = joined.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
    let values = joined.iter().map(|(_, value)| json_text(value).to_string());
    object("  ", names.iter().map(AsRef::as_ref).zip(values))
}

/// An object with a line for each member, in that order.
fn object<'a>(indent: &str, members: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let line = |(key, value): (&str, String)| format!("\n{indent}  {}: {value}", Value::from(key));
    let lines: Vec<_> = members.into_iter().map(line).collect();
    format!("{{{}\n{indent}}}", lines.join(","))
}

fn json_text(bytes: &[u8]) -> Value {
    Value::from(String::from_utf8_lossy(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use titan_proxy::{Files, Gateway};

    #[test]
    fn the_built_in_configuration_is_clean() {
        let config = config_for_reading();
        assert!(config.warnings.is_empty(), "{}", config.warnings);
        assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:8080");
        assert_eq!(config.admin.unwrap().address.to_string(), "127.0.0.1:8484");
        let most = config.upstreams[0].max_connections.at_most().unwrap();
        assert_eq!(BOUNDS.connections, most.get());
        assert!(BOUNDS.idle > config.upstreams[0].idle_timeout);
    }

    #[test]
    fn a_proxied_request_is_echoed() {
        let Demo { config: _, text, upstream: _upstream } = Demo::start().unwrap();
        let config = parse(&text.replace("127.0.0.1:8080", "127.0.0.1:0"));
        let gateway = Gateway::start(&config, &Files::default(), None).unwrap();
        let address = gateway.listeners()[0].socket_address.unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .write_all(
                b"PUT /a%20b?c=%22 HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nx-one: \"2\"\r\n\
                  X-Request-Id: mine\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhi\n\"\xff",
            )
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let value: Value = serde_json::from_str(body).unwrap();
        assert_eq!(value["method"], "PUT");
        assert_eq!(value["path"], "/a%20b");
        assert_eq!(value["query"], "c=%22");
        assert_eq!(value["headers"]["Host"], "h");
        assert_eq!(value["headers"]["X-One"], "1, \"2\"");
        assert_eq!(value["headers"]["X-Forwarded-Proto"], "http");
        assert_eq!(value["body"], "hi\n\"\u{fffd}");
        assert_eq!(value["client"], "127.0.0.1");
    }

    #[test]
    fn members_stand_in_order_one_to_a_line() {
        let text =
            object("", [("b", "1".to_owned()), ("a", object("  ", [("c", "2".to_owned())]))]);
        assert_eq!(text, "{\n  \"b\": 1,\n  \"a\": {\n    \"c\": 2\n  }\n}");
    }
}
