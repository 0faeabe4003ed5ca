//! A connection to a store, from the socket to the first reply.

use crate::bounded::{Bounded, Replies};
use crate::script::ask;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, Value, cmd};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At an address, and the name that its certificate is for.
    Tcp(SocketAddr, String),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// How connections to a store begin, wherever it is.
pub(crate) struct Greeting<'s> {
    pub(crate) config: &'s titan_config::Store,
    /// What it is connected to with, where there is TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// Whether the server is one that keeps something, and not a sentinel.
    pub(crate) is_store: bool,
    /// How long its replies may be.
    pub(crate) replies: Replies,
}

/// A connection, and what moves its bytes, as long as that is polled.
pub(crate) type Opened = (MultiplexedConnection, Pin<Box<dyn Future<Output = ()> + Send>>);

/// What moves the bytes of a connection, until this is dropped. Left to itself it would go on for as long as the other side does
/// not take what was asked before.
pub(crate) struct Driver(JoinHandle<()>);

/// What bytes go over.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Calls that wait to be written.
const QUEUE: usize = 1024;

impl Driver {
    /// Polls it in a task of this runtime.
    pub(crate) fn spawn(driver: impl Future<Output = ()> + Send + 'static) -> Driver {
        Driver(tokio::spawn(driver))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Greeting<'_> {
    /// Connects, logs in, and waits for a first reply; the caller bounds the time. The reason of a failure has no secret.
    pub(crate) async fn connect(&self, place: &Place) -> Result<Opened, String> {
        let socket =
            self.open(place).await.map_err(|error| format!("{}: {error}", name_of(place)))?;
        let failed = |error: redis::RedisError| format!("{}: {}", name_of(place), told(&error));
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let info = self.info();
        let (mut connection, driver) = MultiplexedConnection::new_with_config(
            &info,
            Bounded::new(socket, self.replies),
            config,
        )
        .await
        .map_err(failed)?;
        let mut driver: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(driver);
        let greeted = self.greet(&mut connection);
        let reply = tokio::select! {
            reply = greeted => reply,
            () = &mut driver => return Err(format!("{}: it closes the connection", name_of(place))),
        };
        match self.accepts(&reply.map_err(failed)?) {
            true => Ok((connection, driver)),
            false => Err(format!("{}: it is not the primary, or no store", name_of(place))),
        }
    }

    /// Asks what it is: only a primary can count.
    async fn greet(
        &self,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, redis::RedisError> {
        ask(connection, &cmd(if self.is_store { "ROLE" } else { "PING" })).await
    }

    fn accepts(&self, reply: &Value) -> bool {
        match reply {
            Value::Array(parts) if self.is_store => {
                matches!(parts.first(), Some(Value::BulkString(role)) if role == b"master")
            }
            Value::SimpleString(reply) => !self.is_store && reply == "PONG",
            _ => false,
        }
    }

    fn info(&self) -> RedisConnectionInfo {
        let titan_config::Store { username, password, database, .. } = self.config;
        let info = RedisConnectionInfo::default().set_skip_set_lib_name();
        let info = match self.is_store {
            true => info.set_db(i64::from(*database)),
            false => info,
        };
        let info = match username {
            Some(username) => info.set_username(username),
            None => info,
        };
        match password {
            Some(password) => info.set_password(String::from_utf8_lossy(password.bytes())),
            None => info,
        }
    }

    async fn open(&self, place: &Place) -> io::Result<Box<dyn Socket>> {
        let (address, name) = match place {
            Place::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Place::Tcp(address, name) => (address, name),
        };
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let own = self.config.tls.as_ref().and_then(|tls| tls.name.as_ref());
        let name = own.map_or(name.as_str(), |own| own.as_str());
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(tls));
        Ok(Box::new(connector.connect(name, stream).await?))
    }
}

/// What messages call it.
pub(crate) fn name_of(place: &Place) -> String {
    match place {
        Place::Tcp(address, _) => address.to_string(),
        Place::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// Of an error what may be told: what the server says is a text from the network, and so cut and without control characters.
pub(crate) fn told(error: &redis::RedisError) -> String {
    const MOST: usize = 160;
    error.to_string().chars().map(|c| if c.is_control() { '?' } else { c }).take(MOST).collect()
}
