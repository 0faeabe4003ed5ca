//! Responses of the gateway's own: redirects, responses from the configuration, problems.

use super::Exchange;
use crate::error_pages::{PROBLEM, prefers};
use crate::forwarding::KnownClient;
use crate::grpc::{self, Dialect};
use crate::problem;
use crate::route::Match;
use crate::snapshot::Snapshot;
use crate::template;
use crate::template::Parts;
use std::future::poll_fn;
use std::num::NonZeroU16;
use std::task::Poll;
use titan_config::{ErrorPage, Redirect, Respond};
use titan_http::BodyLength;
use titan_http::{BadField, FieldName, Method, ResponseHead, Status};
use titan_io::body::{BodySource, Text};
use titan_io::body::{Content, RequestBody, ResponseSink};
use titan_io::error::{Error, Kind};
use titan_io::relay::{Pump, StallLimits, Stop};
use titan_io::transform::{Transformed, Transforms};
use titan_policies::compress::{Compressor, Encoding};
use titan_policies::transform::{Body, RequestParts};

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    pub(super) async fn redirect_to_https(&mut self, port: NonZeroU16) -> Result<(), Error> {
        let text = &mut *self.text;
        template::write_https(self.request, port, text).map_err(Kind::from)?;
        let mut head = ResponseHead::with_status(Status::PERMANENT_REDIRECT);
        head.fields.append(FieldName::Location, text).map_err(|_| Kind::BadRewrite)?;
        self.send(head, &[]).await
    }

    pub(super) async fn redirect(
        &mut self,
        redirect: &Redirect,
        found: &Match,
    ) -> Result<(), Error> {
        let Redirect { to, status } = redirect;
        let text = &mut *self.text;
        template::write_location(to, &Parts::of(self.request, found), text).map_err(Kind::from)?;
        let mut head = ResponseHead::with_status(*status);
        head.fields.append(FieldName::Location, text).map_err(|_| Kind::BadRewrite)?;
        self.send(head, &[]).await
    }

    pub(super) async fn respond(
        &mut self,
        respond: &Respond,
        template: Option<&Body>,
        found: &Match,
    ) -> Result<(), Error> {
        let Respond { status, body, template: _, content_type, headers } = respond;
        let mut head = ResponseHead::with_status(*status);
        let mut fields = Ok(());
        if let Some(media_type) = content_type {
            fields = head.fields.append(FieldName::ContentType, media_type.as_str().as_bytes());
        }
        for (name, value) in headers {
            let value = value.as_str().as_bytes();
            fields = fields.and(head.fields.append_named(name.as_str().as_bytes(), value));
        }
        fields.map_err(|_| Kind::Internal)?;
        let Some(template) = template else { return self.send(head, body.as_bytes()).await };
        let (forwarding, origin) = (&self.snapshot.forwarding, self.origin);
        let seen = RequestParts {
            client: &KnownClient { forwarding, origin },
            found,
            claims: self.record.policies.findings.shared_claims(),
        };
        let made = template.make(self.request, &seen)?;
        self.send(head, &made).await
    }

    /// Sends a response of the gateway's own.
    pub(super) async fn send(&mut self, head: ResponseHead, text: &[u8]) -> Result<(), Error> {
        let content = content_of(self.request.method, head.status, text);
        let text = if content.length == BodyLength::None { &[] } else { text };
        self.send_content(head, content, text).await
    }

    /// The same where it is said how long the body is, and what is declared.
    pub(super) async fn send_content(
        &mut self,
        head: ResponseHead,
        content: Content,
        text: &[u8],
    ) -> Result<(), Error> {
        let encoding = self.begin(head, content)?;
        self.send_source(&mut Text::new(text), encoding).await
    }

    /// Starts a response of the gateway's own. Where there is an encoder, the body has to go through it.
    pub(super) fn begin(
        &mut self,
        mut head: ResponseHead,
        mut content: Content,
    ) -> Result<Option<Encoding>, Error> {
        self.snapshot
            .forwarding
            .set_response_fields(self.origin, &self.request.fields, &mut head)
            .map_err(|_| Kind::Internal)?;
        if self.record.route.is_none() {
            self.snapshot.chains.note_unrouted(&self.request.fields, &mut self.record.policies);
        }
        let upgrade = self.upgrade.as_ref();
        let (snapshot, worker) = (self.snapshot, self.worker);
        let encoding =
            self.record.apply_to_response(snapshot, upgrade, &mut head, &mut content, worker)?;
        self.worker.date(&mut head.fields).map_err(|_| Kind::Internal)?;
        if self.body.is_abandoned() {
            self.sink.close_after();
        }
        self.record.status = Some(head.status);
        self.record.tell_response(&head.fields);
        self.sink.start(&head, content);
        Ok(encoding)
    }

    pub(super) async fn send_source(
        &mut self,
        source: &mut impl BodySource,
        encoding: Option<Encoding>,
    ) -> Result<(), Error> {
        let truncation = self.record.policies.truncation();
        let is_noted = self.record.bodies().is_some();
        if encoding.is_none() && truncation.is_none() && !is_noted {
            return self.send_body(source).await;
        }
        let mut transforms = Transforms::default();
        self.record.note_response(&mut transforms);
        if let Some(encoding) = encoding {
            transforms.push(Compressor::new(encoding, self.worker.policies.encoders()));
        }
        if let Some(truncation) = truncation {
            transforms.push(truncation);
        }
        let source: &mut dyn BodySource = source;
        self.send_body(&mut Transformed::new(source, transforms)).await
    }

    async fn send_body(&mut self, source: &mut impl BodySource) -> Result<(), Error> {
        let timeout = self.snapshot.timeouts.write;
        let sink_rate = self.snapshot.response_rate();
        let limits = StallLimits { source: timeout, sink: timeout, source_rate: 0, sink_rate };
        self.send_through(Pump::new(limits), source).await
    }

    /// Sends all of a source of the gateway's own.
    pub(super) async fn send_through(
        &mut self,
        mut pump: Pump,
        source: &mut impl BodySource,
    ) -> Result<(), Error> {
        poll_fn(|cx| {
            let moved = pump.poll(cx, self.timer.clock(), source, self.sink);
            self.timer.wake_at(cx, pump.deadline());
            // A stream that is lost is not written to, and so shows nothing else.
            match moved.is_pending() && self.body.poll_lost(cx).is_ready() {
                true => Poll::Ready(Err(Kind::ClientGone.into())),
                false => moved.map_err(Stop::of_response),
            }
        })
        .await
    }

    pub(super) async fn send_problem(&mut self, error: Error) -> Result<(), Error> {
        if error.ends_the_connection() {
            self.sink.close_after();
        }
        if let Some(dialect) = self.record.dialect {
            return self.send_status(error, dialect).await;
        }
        let upgrade = self.upgrade.as_ref();
        let status = self.record.status_for(self.snapshot, upgrade, error.status());
        let snapshot: &'x Snapshot = self.snapshot;
        let page = snapshot.error_pages.find(self.record.route, status);
        if let Some(page) = page
            && prefers(&self.request.fields, page.content_type.as_str())
        {
            return self.send_page(error, page).await;
        }
        let mut text = std::mem::take(self.text);
        text.clear();
        let id = self.snapshot.forwarding.request_id(&self.request.fields);
        problem::write(&mut text, error, status, id, &self.record.policies.findings);
        let head = self.error_head(error).and_then(|mut head| {
            let described = head.fields.append(FieldName::ContentType, problem::CONTENT_TYPE);
            let described =
                described.and_then(|()| page.map_or(Ok(()), |_| vary_by_accept(&mut head)));
            described.map(|()| head).map_err(|_| Kind::Internal.into())
        });
        let sent = match head {
            Ok(head) => self.send(head, &text).await,
            Err(error) => Err(error),
        };
        *self.text = text;
        sent
    }

    /// Sends a page in place of a problem document.
    async fn send_page(&mut self, error: Error, page: &ErrorPage) -> Result<(), Error> {
        let mut head = self.error_head(error)?;
        let media_type = page.content_type.as_str().as_bytes();
        let described = head.fields.append(FieldName::ContentType, media_type);
        let described = described.and_then(|()| vary_by_accept(&mut head));
        let code = error.kind.code().as_bytes();
        let described = described.and_then(|()| head.fields.append_named(PROBLEM, code));
        // A document has it inside.
        let forwarding = &self.snapshot.forwarding;
        let described =
            described.and_then(|()| forwarding.pass_id(&self.request.fields, &mut head.fields));
        described.map_err(|_| Kind::Internal)?;
        self.send(head, page.body.as_bytes()).await
    }

    /// The head of a response that tells of a failure, but for what its content is.
    pub(super) fn error_head(&mut self, error: Error) -> Result<ResponseHead, Error> {
        let mut head = ResponseHead::with_status(error.status());
        let mut fields = Ok(());
        if let Some(allow) = self.record.allow.take() {
            fields = head.fields.append(FieldName::Allow, allow.to_string().as_bytes());
        }
        if let Some(length) = self.record.length.take() {
            let range = format!("bytes */{length}");
            fields = fields.and(head.fields.append(FieldName::ContentRange, range.as_bytes()));
        }
        if let Some(wait) = self.record.retry_after.take() {
            // Rounded up, and at least the shortest time that the field can tell.
            let seconds = wait.as_millis().div_ceil(1000).max(1).to_string();
            fields = fields.and(head.fields.append(FieldName::RetryAfter, seconds.as_bytes()));
        }
        fields.map(|()| head).map_err(|_| Kind::Internal.into())
    }

    /// Sends a gRPC status: the response is only a head, which serves as its trailers.
    async fn send_status(&mut self, error: Error, dialect: Dialect) -> Result<(), Error> {
        let id = self.snapshot.forwarding.request_id(&self.request.fields);
        let detail = self.record.policies.findings.detail.as_deref();
        let head = grpc::failure(error, detail, dialect, id).map_err(|_| Kind::Internal)?;
        self.send(head, &[]).await
    }
}

/// Tells caches that other clients get another response.
fn vary_by_accept(head: &mut ResponseHead) -> Result<(), BadField> {
    head.fields.append(FieldName::Vary, b"Accept")
}

/// The framing of a response with `text` to a request with that method.
fn content_of(method: Method, status: Status, text: &[u8]) -> Content {
    let length = text.len() as u64;
    let has_body = !matches!(status, Status::NO_CONTENT | Status::NOT_MODIFIED);
    match has_body && method != Method::HEAD {
        true => Content { length: BodyLength::Known(length), declared: None },
        false => Content { length: BodyLength::None, declared: has_body.then_some(length) },
    }
}
