//! Scripts: what the store does as one step, and what it replies.

use aws_lc_rs::digest;
use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value, cmd, pipe};
use std::fmt::Write;

/// A script in Lua. It gets keys and arguments, and returns whole numbers.
pub struct Script {
    text: String,
    /// The name by which the store knows it once it has seen it.
    digest: String,
}

/// A call of a script with one key.
pub struct Call<'c> {
    /// The script.
    pub script: &'c Script,
    /// The only key that it touches.
    pub key: &'c [u8],
    /// What else it gets.
    pub arguments: &'c [&'c [u8]],
}

/// What a script has returned.
pub type Numbers = Vec<i64>;

/// Why there is no reply of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// There is no connection, and none is waited for.
    Down,
    /// It has not responded in time.
    Timeout,
    /// As many calls wait for it as may.
    Busy,
    /// It has refused the call.
    Refused,
    /// What it has said is no reply to what it was asked, or the connection has failed.
    Failed,
}

/// The most numbers that a script returns.
const MAX_NUMBERS: usize = 32;

impl Script {
    /// A script with that text.
    pub fn new(text: impl Into<String>) -> Script {
        let text = text.into();
        // The store's own choice; a collision would be one of our own scripts.
        let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        let digest = hash.as_ref().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        Script { text, digest }
    }
}

impl Call<'_> {
    /// Makes the call; the caller bounds the time. The second value is why there is none, for operators.
    pub(crate) async fn make(
        &self,
        connection: &mut MultiplexedConnection,
        is_asking: bool,
    ) -> Result<Numbers, (Unavailable, Option<RedisError>)> {
        match self.reply(connection, is_asking).await {
            Ok(value) => numbers(value).ok_or((Unavailable::Failed, None)),
            Err(error) => Err((kind_of(&error), Some(error))),
        }
    }

    /// The same for a script that returns more than numbers. `is_asking` where the key is on its way to that node of a cluster.
    pub(crate) async fn reply(
        &self,
        connection: &mut MultiplexedConnection,
        is_asking: bool,
    ) -> Result<Value, RedisError> {
        let asked = self.written("EVALSHA", &self.script.digest);
        match ask_as(connection, &asked, is_asking).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                ask_as(connection, &self.written("EVAL", &self.script.text), is_asking).await
            }
            reply => reply,
        }
    }

    fn written(&self, command: &str, script: &str) -> Cmd {
        let mut call = cmd(command);
        call.arg(script).arg(1).arg(self.key);
        self.arguments.iter().for_each(|argument| {
            call.arg(*argument);
        });
        call
    }
}

impl Unavailable {
    /// Every reason, by the name that metrics have for it.
    pub const ALL: [(&'static str, Unavailable); 5] = [
        ("down", Unavailable::Down),
        ("timeout", Unavailable::Timeout),
        ("busy", Unavailable::Busy),
        ("refused", Unavailable::Refused),
        ("failed", Unavailable::Failed),
    ];
}

/// Sends a command. What the server says is wrong with it is an error.
pub(crate) async fn ask(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
) -> Result<Value, RedisError> {
    connection.send_packed_command(command).await?.extract_error()
}

/// The same where ASKING goes before it, which holds for the next command alone: no other one may come in between.
pub(crate) async fn ask_as(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
    is_asking: bool,
) -> Result<Value, RedisError> {
    if !is_asking {
        return ask(connection, command).await;
    }
    let mut both = pipe();
    both.cmd("ASKING").add_command(command.clone());
    let mut replies = connection.send_packed_commands(&both, 1, 1).await?;
    replies.pop().unwrap_or(Value::Nil).extract_error()
}

/// What an error is. A primary that has become a replica will refuse all that follows.
pub(crate) fn kind_of(error: &RedisError) -> Unavailable {
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => {
            Unavailable::Failed
        }
        // A primary that has lost its replicas may be none any more, and one of a cluster that is down has no say.
        ErrorKind::Server(ServerErrorKind::ClusterDown) => Unavailable::Failed,
        ErrorKind::Extension if error.code() == Some("NOREPLICAS") => Unavailable::Failed,
        ErrorKind::Server(_) | ErrorKind::Extension => Unavailable::Refused,
        _ => Unavailable::Failed,
    }
}

/// What a script has returned that returns numbers only.
pub(crate) fn numbers(reply: Value) -> Option<Numbers> {
    let Value::Array(parts) = reply else { return None };
    let number = |part: Value| match part {
        Value::Int(number) => Some(number),
        _ => None,
    };
    if parts.len() > MAX_NUMBERS {
        return None;
    }
    parts.into_iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_called_by_its_digest() {
        // `printf 'return {1}' | sha1sum`
        let script = Script::new("return {1}");
        assert_eq!(script.digest, "9c8545b8579e405965831fc6d1e3d0b3ac248d51");
        let call = Call { script: &script, key: b"k", arguments: &[b"7"] };
        let written = call.written("EVALSHA", &script.digest).get_packed_command();
        let text = String::from_utf8(written).unwrap();
        assert_eq!(
            text,
            format!(
                "*5\r\n$7\r\nEVALSHA\r\n$40\r\n{}\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\n7\r\n",
                script.digest
            )
        );
    }

    /// What the server says that speaks there for something that is none any more ends the connection.
    #[test]
    fn a_server_that_may_be_no_primary_any_more_has_failed() {
        let kind = |line: &str| {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
            kind_of(&value.extract_error().unwrap_err())
        };
        for line in ["NOREPLICAS few", "READONLY no", "MASTERDOWN no", "CLUSTERDOWN no"] {
            assert_eq!(kind(line), Unavailable::Failed, "{line}");
        }
        for line in ["OOM no", "NOPERM no", "ERR no", "LOADING wait", "BUSY wait"] {
            assert_eq!(kind(line), Unavailable::Refused, "{line}");
        }
    }

    #[test]
    fn only_a_list_of_numbers_is_a_reply() {
        let int = Value::Int;
        assert_eq!(numbers(Value::Array(vec![int(1), int(-2)])), Some(vec![1, -2]));
        assert_eq!(numbers(Value::Array(vec![int(1), Value::Nil])), None);
        assert_eq!(numbers(Value::Array(vec![Value::Nil; MAX_NUMBERS + 1])), None);
        assert_eq!(numbers(Value::Array(vec![int(1); MAX_NUMBERS + 1])), None);
        assert_eq!(numbers(int(1)), None);
        assert_eq!(numbers(Value::BulkString(b"1".to_vec())), None);
    }
}
