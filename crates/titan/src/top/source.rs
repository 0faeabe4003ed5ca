//! Reading a gateway, again and again.

use super::reading::{Counts, Reading, Upstream, upstreams};
use super::text::shown;
use crate::client::{Client, Reply};
use crate::failure::Failure;
use std::time::{Duration, Instant, SystemTime};

/// Where readings come from.
pub(super) struct Source {
    client: Client,
    /// Why the gateway does not tell how its upstreams are doing, and when it is asked for that again.
    refused: Option<(String, Instant)>,
}

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// When a call that was refused is made again: a wrong token costs the gateway a second, and tokens change with a reload.
const AGAIN: Duration = Duration::from_secs(30);

impl Source {
    pub(super) fn new(client: Client) -> Source {
        Source { client: client.within(DEADLINE), refused: None }
    }

    /// Where the gateway is.
    pub(super) fn place(&self) -> String {
        self.client.place()
    }

    /// Why the last reading has no upstreams.
    pub(super) fn refused(&self) -> Option<String> {
        self.refused.as_ref().map(|(why, _)| why.clone())
    }

    /// Asks the gateway how it is doing.
    pub(super) fn read(&mut self) -> Result<Reading, Failure> {
        let metrics = self.client.call("GET", "/metrics", None)?;
        let (at, time) = (Instant::now(), SystemTime::now());
        let counts = counts(metrics)?;
        Ok(Reading { at, time, counts, upstreams: self.upstreams(at)? })
    }

    fn upstreams(&mut self, now: Instant) -> Result<Option<Vec<Upstream>>, Failure> {
        if self.refused.as_ref().is_some_and(|(_, again)| now < *again) {
            return Ok(None);
        }
        let reply = self.client.call("GET", "/upstreams", None)?;
        self.refused = None;
        match reply.status {
            200 => upstreams(&reply.body).map(Some).ok_or_else(|| {
                Failure::Runtime("what it says of its upstreams is not known here".to_owned())
            }),
            401 | 403 | 404 => {
                self.refused = Some((reply.problem(), now + AGAIN));
                Ok(None)
            }
            _ => Err(failure(&reply)),
        }
    }
}

/// What went wrong, as the gateway says it.
fn failure(reply: &Reply) -> Failure {
    Failure::Runtime(shown(&reply.problem()))
}

fn counts(reply: Reply) -> Result<Counts, Failure> {
    if reply.status != 200 {
        return Err(failure(&reply));
    }
    let text = String::from_utf8(reply.body);
    let text = text.map_err(|_| Failure::Runtime("its metrics are not UTF-8".to_owned()))?;
    Counts::parse(&text).map_err(|bad| Failure::Runtime(bad.to_string()))
}
