//! The stage that holds a request body back before an endpoint is chosen.

use super::{Exchange, Record};
use crate::route::Match;
use crate::snapshot::{Proxy, Snapshot};
use crate::upgrade::Upgrade;
use std::future::poll_fn;
use std::task::Poll;
use titan_config::{ByteSize, RouteTimeouts};
use titan_http::{BodyLength, FieldName, ResponseHead, Status};
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::error::{Error, Kind};
use titan_io::held_body::{BodyBuffer, HeldBody};
use titan_io::network::ClientNetwork;
use titan_io::relay::{Pump, StallLimits, Stop};

/// How much of a request body is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// None: it is forwarded as it comes.
    Nothing,
    /// That many bytes of it, where they have come in: a client that sends it slowly is to keep nothing of an endpoint
    /// meanwhile.
    Beginning(usize),
    /// All of it, in memory of its own.
    Whole(Whole),
}

/// A body that is held as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// How many bytes policies can look at, where some have to. A larger body is refused.
    needed: Option<usize>,
    /// How many bytes may be sent again. A larger body is forwarded as it comes, unless it is needed.
    repeatable: usize,
}

/// What decides about it.
struct Facts {
    /// How many bytes policies can look at.
    needed: Option<usize>,
    /// How long the body is as its client sends it: as it is declared, or as it has come.
    sent_as: BodyLength,
    /// Whether its client may wait for something before it sends it.
    may_wait: bool,
    repeatable: Option<ByteSize>,
    beginning: Option<ByteSize>,
}

impl Hold {
    fn of(facts: &Facts) -> Hold {
        let Facts { needed, sent_as, may_wait, repeatable, beginning } = *facts;
        // Clients of bodies of unknown length may send none of it before they have the head of the response.
        let declared = match sent_as {
            BodyLength::Known(length) if length > 0 && !may_wait => Some(length),
            _ => None,
        };
        let fits = |most: &ByteSize| declared.is_some_and(|length| length <= most.bytes());
        let repeatable = repeatable.filter(fits).map_or(0, ByteSize::as_usize);
        if needed.is_some() || repeatable > 0 {
            return Hold::Whole(Whole { needed, repeatable });
        }
        let beginning = declared.zip(beginning).map(|(length, most)| most.bytes().min(length));
        let beginning = beginning.and_then(|bytes| usize::try_from(bytes).ok());
        beginning.map_or(Hold::Nothing, Hold::Beginning)
    }
}

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// What is held of the body of this request.
    pub(super) fn hold(&self, proxy: &Proxy) -> Hold {
        // gRPC clients declare no length; the message of a unary call comes with its head.
        let sent_as = match (self.sent_as, self.body.rest()) {
            (BodyLength::Unknown, Some(rest)) => BodyLength::Known(rest as u64),
            (sent_as, _) => sent_as,
        };
        Hold::of(&Facts {
            needed: self.snapshot.chains.of(self.record.route).needs_body(),
            sent_as,
            // Whether the client is to send its body at all is for the endpoint to say (RFC 9110 section 10.1.1): a
            // gateway has to ask it, and may say 100 by itself only before one of HTTP/1.0, or for what it needs itself.
            may_wait: self.expects_continue || self.upgrade.is_some(),
            repeatable: proxy.config.retry_body,
            beginning: self.snapshot.limits.request_buffer,
        })
    }

    /// Waits for that much of the body, or all of a smaller one. It stays where it is.
    pub(super) async fn await_beginning(
        &mut self,
        wanted: usize,
        timeouts: &RouteTimeouts,
    ) -> Result<(), Error> {
        let mut pump = self.upload_pump(timeouts);
        poll_fn(|cx| {
            let ahead = pump.poll_ahead(cx, self.timer.clock(), self.body, wanted);
            self.timer.wake_at(cx, pump.deadline());
            ahead.map_err(Stop::of_request)
        })
        .await
    }

    /// Reads the body into memory and forwards the request with it. Like a body with transforms it has calls that are
    /// found at run time, so that the rest is compiled once for all of them.
    pub(super) async fn forward_held(
        &mut self,
        whole: Whole,
        proxy: &Proxy,
        found: &Match,
        index: usize,
    ) -> Result<(), Error> {
        let held = self.read_whole(whole, self.upload_pump(&proxy.config.timeouts)).await?;
        let mut body = HeldBody::new(&mut *self.body, held, whole.repeatable);
        let mut sink = &mut *self.sink;
        let exchange = Exchange {
            worker: self.worker,
            snapshot: self.snapshot,
            timer: self.timer,
            origin: self.origin,
            request: &mut *self.request,
            length: self.length,
            sent_as: self.sent_as,
            expects_continue: self.expects_continue,
            body: &mut body as &mut dyn RequestBody,
            sink: &mut sink as &mut dyn ResponseSink,
            text: &mut *self.text,
            upgrade: self.upgrade.take(),
            record: std::mem::take(&mut self.record),
        };
        let Exchange { record, upgrade, .. } = self;
        let mut inner = Inner { exchange, record, upgrade };
        let (mut tried, copies) = inner.exchange.begin_forwarding(proxy, found, index)?;
        match copies.is_empty() {
            true => inner.exchange.try_upstreams(&mut tried).await,
            false => inner.exchange.try_upstreams_and_copy(copies, &mut tried).await,
        }
    }

    /// Lets policies check a body that goes to no upstream.
    pub(super) async fn show_body(&mut self) -> Result<(), Error> {
        let needed = self.snapshot.chains.of(self.record.route).needs_body();
        if needed.is_none() {
            return Ok(());
        }
        let (source, source_rate) = (self.snapshot.timeouts.body, self.snapshot.body_rate());
        let limits = StallLimits { source, source_rate, ..StallLimits::UNLIMITED };
        let whole = Whole { needed, repeatable: 0 };
        Box::pin(self.read_whole(whole, Pump::new(limits))).await.map(drop)
    }

    /// Reads all of the body into memory, and lets those policies check it that must. What is only held to be sent
    /// again is read as far as there is room.
    async fn read_whole(&mut self, whole: Whole, mut pump: Pump) -> Result<BodyBuffer<'x>, Error> {
        let Whole { needed, repeatable } = whole;
        if let (Some(most), BodyLength::Known(length)) = (needed, self.length)
            && length > most as u64
        {
            // Before its client gets 100 (Continue).
            return Err(Kind::BodyTooLarge.into());
        }
        let snapshot: &'x Snapshot = self.snapshot;
        let client = snapshot.forwarding.client(self.origin, &self.request.fields);
        let memory = snapshot.request_memory.of(client.map(ClientNetwork::of));
        let mut held = BodyBuffer::new(memory, needed.unwrap_or(repeatable));
        if std::mem::take(&mut self.expects_continue) {
            self.sink.interim(&ResponseHead::with_status(Status::CONTINUE));
            self.request.fields.remove(FieldName::Expect);
        }
        let read = poll_fn(|cx| {
            let polled = pump.poll(cx, self.timer.clock(), self.body, &mut held);
            if polled.is_pending() {
                if self.body.poll_lost(cx).is_ready() {
                    return Poll::Ready(Err(Stop::Source(Kind::ClientGone.into())));
                }
                if let Poll::Ready(Err(error)) = self.sink.poll_flush(cx) {
                    return Poll::Ready(Err(Stop::Source(error)));
                }
                self.timer.wake_at(cx, pump.deadline());
            }
            polled
        })
        .await;
        match read {
            Err(Stop::Sink(_)) if needed.is_none() => return Ok(held),
            read => read.map_err(Stop::of_request)?,
        }
        if needed.is_some() {
            let chain = self.snapshot.chains.of(self.record.route);
            let states = &mut self.record.policies.states;
            chain.on_body(held.bytes(), states, self.worker.of_policies())?;
        }
        Ok(held)
    }
}

/// An exchange in place of another one, with another body. What it has noted is that one's, also where it is given up
/// because the time of its call is over.
pub(super) struct Inner<'i> {
    pub(super) exchange: Exchange<'i, dyn RequestBody + 'i, dyn ResponseSink + 'i>,
    pub(super) record: &'i mut Record,
    pub(super) upgrade: &'i mut Option<Upgrade>,
}

impl Drop for Inner<'_> {
    fn drop(&mut self) {
        *self.record = std::mem::take(&mut self.exchange.record);
        *self.upgrade = self.exchange.upgrade.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts = Facts {
        needed: None,
        sent_as: BodyLength::Known(100),
        may_wait: false,
        repeatable: None,
        beginning: None,
    };

    fn bytes(count: u64) -> Option<ByteSize> {
        Some(ByteSize::new(count))
    }

    fn whole(needed: Option<usize>, repeatable: usize) -> Hold {
        Hold::Whole(Whole { needed, repeatable })
    }

    #[test]
    fn a_body_is_held_as_far_as_required() {
        let beginning = |most, facts| Hold::of(&Facts { beginning: bytes(most), ..facts });
        assert_eq!(Hold::of(&FACTS), Hold::Nothing);
        assert_eq!(beginning(10, FACTS), Hold::Beginning(10));
        assert_eq!(beginning(1000, FACTS), Hold::Beginning(100), "all of it");
        let repeatable = |most| Facts { repeatable: bytes(most), ..FACTS };
        assert_eq!(beginning(10, repeatable(100)), whole(None, 100));
        assert_eq!(beginning(10, repeatable(99)), Hold::Beginning(10), "it does not fit");
        let needed = Facts { needed: Some(7), ..repeatable(100) };
        assert_eq!(beginning(10, needed), whole(Some(7), 100));
    }

    #[test]
    fn what_its_client_may_hold_back_is_read_only_where_it_is_needed() {
        let facts = Facts { repeatable: bytes(1000), beginning: bytes(1000), ..FACTS };
        for held_back in [
            Facts { may_wait: true, ..facts },
            Facts { sent_as: BodyLength::Unknown, ..facts },
            Facts { sent_as: BodyLength::None, ..facts },
            Facts { sent_as: BodyLength::Known(0), ..facts },
        ] {
            assert_eq!(Hold::of(&held_back), Hold::Nothing);
            let needed = Facts { needed: Some(7), ..held_back };
            assert_eq!(Hold::of(&needed), whole(Some(7), 0));
        }
    }
}
