//! The beginning of a request body, before an endpoint is chosen.

use super::Exchange;
use std::future::poll_fn;
use titan_config::Proxy;
use titan_http::BodyLength;
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::error::{Error, Kind};
use titan_io::relay::Stop;

impl<B: RequestBody + ?Sized, A: ResponseSink + ?Sized> Exchange<'_, B, A> {
    /// Waits for the beginning of the request body, all of a small one: a client that sends it slowly is to keep
    /// nothing of an endpoint meanwhile.
    pub(super) async fn await_body(&mut self, proxy: &Proxy) -> Result<(), Error> {
        let Some(most) = self.snapshot.limits.request_buffer else { return Ok(()) };
        let wanted = match self.sent_as {
            // Whether the client is to send its body at all is for the endpoint to say (RFC 9110 section 10.1.1): a
            // gateway has to ask it, and may say 100 by itself only before one of HTTP/1.0.
            _ if self.expects_continue || self.upgrade.is_some() => return Ok(()),
            BodyLength::None | BodyLength::Known(0) => return Ok(()),
            BodyLength::Known(length) => usize::try_from(length.min(most.bytes())),
            // Its client may send none of it before it has the head of the response.
            BodyLength::Unknown => return Ok(()),
        };
        let wanted = wanted.map_err(|_| Kind::Internal)?;
        let mut pump = self.upload_pump(&proxy.timeouts);
        poll_fn(|cx| {
            let ahead = pump.poll_ahead(cx, self.timer.clock(), self.body, wanted);
            self.timer.wake_at(cx, pump.deadline());
            ahead.map_err(Stop::of_request)
        })
        .await
    }
}
