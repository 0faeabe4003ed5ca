//! Copies of a request for the mirrors of its route.
//!
//! The body is copied as the upstream takes it. With its last byte the copy goes to a task of its own, which shares nothing with the
//! exchange: that task may wait, fail or be dropped without anybody noticing.

use super::attempt::SendOptions;
use super::capture::{AwaitedResponse, Capture, await_both};
use super::hold::Inner;
use super::retry::TriedUpstream;
use super::subrequest::OwnRequest;
use super::{Exchange, Record};
use crate::comparison::ComparedRequest;
use crate::copied::CopiedBody;
use crate::grpc::Dialect;
use crate::guard::MIRRORED;
use crate::mirror::{Mirror, NotCopied, RunningCopy};
use crate::origin::Origin;
use crate::route::Match;
use crate::snapshot::{Action, Proxy, Snapshot};
use crate::worker::Worker;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use titan_config::Retries;
use titan_http::{BodyLength, FieldName, Fields, RequestHead, ResponseHead};
use titan_io::body::{BodySink, BodySource, ClientState, Content, RequestBody, ResponseSink};
use titan_io::clock::{CoarseInstant, Timer};
use titan_io::error::{Error, Kind};
use titan_io::stream::{FilePart, ReadHalf};

/// A copy of a request, as far as it has been made.
pub(super) struct Copy {
    worker: Rc<Worker>,
    snapshot: Arc<Snapshot>,
    origin: Origin,
    route: usize,
    /// The place of its mirror among those of the route.
    mirror: usize,
    /// When the memory for its body is needed more elsewhere.
    until: CoarseInstant,
    /// The head as the upstream gets it.
    request: RequestHead,
    /// Whether there is a body, even an empty one.
    has_body: bool,
    body: CopiedBody,
    dialect: Option<Dialect>,
    /// How long the request may take, if that is limited.
    deadline: Option<Duration>,
    /// Where its response comes from, if that is compared with the response to the copy.
    original: Option<AwaitedResponse>,
}

/// What an exchange does for a mirror: all that a request has to carry with it, in one box.
#[derive(Default)]
pub(super) struct Mirroring {
    /// Keeps the response of the upstream, where it is compared with another one.
    pub(super) capture: Option<Capture>,
    /// The copies of a request without a body, until an endpoint gets that.
    unsent: Vec<Copy>,
}

/// A body that is copied while it is taken.
struct CopiedSource<'t, B: RequestBody + ?Sized> {
    source: &'t mut B,
    /// Those that are neither sent nor given up.
    copies: Vec<Copy>,
    timer: Timer,
}

/// The response to a copy, which nobody gets.
#[derive(Default)]
struct Unread {
    is_started: bool,
    taken: u64,
}

/// What is taken of a response so that its connection can be used again. A larger one costs a connection, and an endless one
/// not all the time that a copy has.
const MOST_TAKEN: u64 = 4 << 20;

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// Makes of the request what the upstream at that place gets, and of that the copies that the route has made.
    pub(super) fn begin_forwarding<'r>(
        &mut self,
        proxy: &'r Proxy,
        found: &'r Match,
        index: usize,
    ) -> Result<(TriedUpstream<'r>, Vec<Copy>), Error> {
        // Chosen by what the client requested, before that is rewritten for the upstream.
        let attempts = self.attempts(index);
        self.prepare(proxy, found)?;
        Ok((TriedUpstream { proxy, found, index, attempts }, self.begin_copies(proxy)))
    }

    /// Begins the copies of the request that the route has made of it. Those of one without a body wait until an endpoint gets it.
    fn begin_copies(&mut self, proxy: &Proxy) -> Vec<Copy> {
        let mut copies = Vec::new();
        for (at, mirror) in proxy.mirrors.iter().enumerate() {
            if !mirror.config.share.takes(self.worker.io.random()) {
                continue;
            }
            match self.copy(mirror, at) {
                Ok(copy) => copies.push(self.capture_for(copy, mirror)),
                Err(reason) => mirror.cells(self.worker.index()).count_dropped(reason),
            }
        }
        if self.length.is_empty() && !copies.is_empty() {
            self.record.mirroring.get_or_insert_default().unsent = std::mem::take(&mut copies);
        }
        copies
    }

    fn copy(&self, mirror: &Mirror, at: usize) -> Result<Copy, NotCopied> {
        if self.upgrade.is_some() {
            return Err(NotCopied::Tunnel);
        }
        if self.record.is_marked {
            return Err(NotCopied::Copy);
        }
        let length = match self.length {
            BodyLength::Known(length) => Some(length),
            BodyLength::None | BodyLength::Unknown => None,
        };
        if self.worker.sheds() {
            return Err(NotCopied::Pressure);
        }
        let mut request = self.request.clone();
        let body = mirror.body(length, request.fields.capacity())?;
        request.fields.remove(FieldName::Expect);
        let marked = request.fields.set_named(MIRRORED.as_bytes(), b"true");
        marked.map_err(|_| NotCopied::NoMemory)?;
        Ok(Copy {
            worker: Rc::clone(self.worker),
            snapshot: Arc::clone(self.snapshot),
            origin: self.origin.clone(),
            route: self.record.route.ok_or(NotCopied::Tunnel)?,
            mirror: at,
            until: self.worker.io.clock.deadline(mirror.config.timeout),
            request,
            has_body: self.length != BodyLength::None,
            body,
            dialect: self.record.dialect,
            deadline: self.record.deadline,
            original: None,
        })
    }

    /// Has the response kept for whoever sends the copy, if the two are compared.
    fn capture_for(&mut self, copy: Copy, mirror: &Mirror) -> Copy {
        let (capture, original) = Capture::of(mirror).unzip();
        if capture.is_some() {
            self.record.mirroring.get_or_insert_default().capture = capture;
        }
        Copy { original, ..copy }
    }

    /// Sends the request as without the copies, which get the body too.
    pub(super) async fn try_upstreams_and_copy(
        &mut self,
        copies: Vec<Copy>,
        tried: &mut TriedUpstream<'_>,
    ) -> Result<(), Error> {
        let (source, timer) = (&mut *self.body, self.worker.io.clock.timer());
        let mut body = CopiedSource { source, copies, timer };
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
        inner.exchange.try_upstreams(tried).await
    }
}

impl Copy {
    /// Has it sent, if one more may run.
    fn send(mut self) {
        let snapshot = Arc::clone(&self.snapshot);
        let Some((_, mirror)) = mirrored(&snapshot, self.route, self.mirror) else { return };
        if let Err(excess) = self.body.reserve(titan_config::Mirror::AROUND_COPY.as_usize()) {
            return self.give_up(excess.into());
        }
        let Some(running) = mirror.try_run() else { return self.give_up(NotCopied::TooMany) };
        mirror.cells(self.worker.index()).sent.add(1);
        drop(tokio::task::spawn_local(self.run(running)));
    }

    async fn run(mut self, running: RunningCopy) {
        let snapshot = Arc::clone(&self.snapshot);
        let Some((proxy, mirror)) = mirrored(&snapshot, self.route, self.mirror) else { return };
        let worker = Rc::clone(&self.worker);
        let deadline = worker.io.clock.deadline(mirror.config.timeout);
        let (capture, copied) = Capture::of(mirror).unzip();
        let result = self.exchange(proxy, mirror, capture).await;
        mirror.cells(worker.index()).failed.add(u64::from(result.is_err()));
        let Copy { request, original, body, .. } = self;
        // The memory of one that runs no longer is free.
        drop(body);
        if let (Some((comparer, _)), Some(original), Some(copied)) =
            (mirror.comparer(), original, copied)
        {
            match await_both(original, copied, &worker.io.clock.timer(), deadline).await {
                Ok(both) => comparer.compare(ComparedRequest::of(&request), both),
                Err(reason) => comparer.note_not_compared(reason),
            }
        }
        drop(running);
    }

    /// Sends it and reads the response.
    async fn exchange(
        &mut self,
        proxy: &Proxy,
        mirror: &Mirror,
        capture: Option<Capture>,
    ) -> Result<(), Error> {
        let Copy { worker, snapshot, origin, route, request, has_body, body, .. } = self;
        let length = BodyLength::Known(body.bytes().len() as u64);
        let own = OwnRequest {
            worker,
            snapshot,
            origin,
            request,
            text: &mut Vec::new(),
            body: body.bytes(),
            length: if *has_body { length } else { BodyLength::None },
            upstream: mirror.config.upstream.index(),
            how: SendOptions {
                retries: &Retries::plain(0).within(mirror.config.timeout),
                grpc_web: false,
                ..(&*proxy.config).into()
            },
            timeout: mirror.config.timeout,
            record: Record {
                route: Some(*route),
                is_subrequest: true,
                is_copy: true,
                dialect: self.dialect,
                deadline: self.deadline,
                mirroring: capture
                    .map(|it| Box::new(Mirroring { capture: Some(it), unsent: Vec::new() })),
                ..Record::default()
            },
        };
        let mut response = Unread::default();
        let result = own.send(&mut response).await;
        if response.is_cut() { Ok(()) } else { result }
    }

    /// Counts it as one that was not made.
    fn give_up(self, reason: NotCopied) {
        if let Some((_, mirror)) = mirrored(&self.snapshot, self.route, self.mirror) {
            mirror.cells(self.worker.index()).count_dropped(reason);
        }
    }
}

impl Mirroring {
    /// Has the copies sent: an endpoint gets the request.
    pub(super) fn send_copies(&mut self) {
        self.unsent.drain(..).for_each(Copy::send);
    }
}

impl Drop for Mirroring {
    fn drop(&mut self) {
        self.unsent.drain(..).for_each(|copy| copy.give_up(NotCopied::NotSent));
    }
}

/// The route at that place, and the mirror at that place of it.
fn mirrored(snapshot: &Snapshot, route: usize, mirror: usize) -> Option<(&Proxy, &Mirror)> {
    match &snapshot.actions[route] {
        Action::Proxy(proxy) => Some((proxy, proxy.mirrors.get(mirror)?)),
        Action::Redirect(_) | Action::Respond(..) | Action::Files(_) => None,
    }
}

impl<B: RequestBody + ?Sized> CopiedSource<'_, B> {
    /// Copies what is about to be consumed.
    fn copy(&mut self, count: usize) {
        let data = &self.source.data()[..count];
        let append = |copy: &mut Copy| copy.body.append(data).err();
        let mut at = 0;
        while let Some(copy) = self.copies.get_mut(at) {
            match append(copy) {
                Some(excess) => self.copies.swap_remove(at).give_up(excess.into()),
                None => at += 1,
            }
        }
    }

    /// Gives those up whose client takes too long.
    fn watch(&mut self, cx: &Context<'_>) {
        while let Some((at, copy)) = self.copies.iter().enumerate().min_by_key(|(_, it)| it.until) {
            if self.timer.poll(cx, copy.until).is_pending() {
                return;
            }
            self.copies.swap_remove(at).give_up(NotCopied::BodyIncomplete);
        }
    }

    fn send_if_done(&mut self) {
        if self.source.is_done() {
            self.copies.drain(..).for_each(Copy::send);
        }
    }
}

impl<B: RequestBody + ?Sized> Drop for CopiedSource<'_, B> {
    fn drop(&mut self) {
        self.copies.drain(..).for_each(|copy| copy.give_up(NotCopied::BodyIncomplete));
    }
}

impl<B: RequestBody + ?Sized> BodySource for CopiedSource<'_, B> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        let polled = self.source.poll_data(cx);
        match polled.is_ready() {
            true => self.send_if_done(),
            false => self.watch(cx),
        }
        polled
    }

    fn data(&self) -> &[u8] {
        self.source.data()
    }

    fn consume(&mut self, count: usize) {
        self.copy(count);
        self.source.consume(count);
        self.send_if_done();
    }

    fn set_ahead(&mut self, is_ahead: bool) {
        self.source.set_ahead(is_ahead);
    }

    fn is_done(&self) -> bool {
        self.source.is_done()
    }

    fn is_last(&self) -> bool {
        self.source.is_last()
    }

    fn trailers(&self) -> &Fields {
        self.source.trailers()
    }

    fn open_tunnel(&mut self) {
        self.source.open_tunnel();
    }

    fn arrived(&self, taken: u64) -> u64 {
        self.source.arrived(taken)
    }

    /// What goes from socket to socket cannot be copied.
    fn socket(&self) -> Option<(&ReadHalf<'_>, u64)> {
        if self.copies.is_empty() { self.source.socket() } else { None }
    }

    fn file(&self) -> Option<FilePart<'_>> {
        if self.copies.is_empty() { self.source.file() } else { None }
    }

    fn skip(&mut self, count: usize) -> Result<(), Error> {
        self.source.skip(count)
    }
}

impl<B: RequestBody + ?Sized> RequestBody for CopiedSource<'_, B> {
    fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        self.source.poll_ahead(cx, wanted)
    }

    fn ahead(&self) -> usize {
        self.source.ahead()
    }

    fn rest(&self) -> Option<usize> {
        self.source.rest()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientState> {
        self.watch(cx);
        self.source.poll_gone(cx)
    }

    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.watch(cx);
        self.source.poll_lost(cx)
    }

    fn is_broken(&self) -> bool {
        self.source.is_broken()
    }

    fn is_abandoned(&self) -> bool {
        self.source.is_abandoned()
    }

    fn set_limit(&mut self, bytes: u64) -> Result<(), Error> {
        self.source.set_limit(bytes)
    }

    fn received(&self) -> u64 {
        self.source.received()
    }

    fn is_repeatable(&self) -> bool {
        self.source.is_repeatable()
    }

    fn rewind(&mut self) -> bool {
        let rewound = self.source.rewind();
        if rewound {
            self.copies.iter_mut().for_each(|copy| copy.body.restart());
        }
        rewound
    }

    fn settle(&mut self) {
        self.source.settle();
    }
}

impl Unread {
    /// Whether its end was not waited for.
    fn is_cut(&self) -> bool {
        self.taken > MOST_TAKEN
    }
}

impl BodySink for Unread {
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        data: &[u8],
        _: bool,
    ) -> Poll<Result<usize, Error>> {
        self.taken += data.len() as u64;
        // As if a client had left: that says nothing about the endpoint.
        Poll::Ready(if self.is_cut() { Err(Kind::ClientGone.into()) } else { Ok(data.len()) })
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_end(&mut self, _: &mut Context<'_>, _: &Fields) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn written(&self) -> u64 {
        self.taken
    }

    fn insist(&mut self) {}
}

impl ResponseSink for Unread {
    fn interim(&mut self, _: &ResponseHead) {}

    fn start(&mut self, _: &ResponseHead, _: Content) {
        self.is_started = true;
    }

    fn start_tunnel(&mut self, _: &ResponseHead) {
        // A copy never asks for one.
        self.is_started = true;
    }

    fn is_started(&self) -> bool {
        self.is_started
    }

    fn close_after(&mut self) {}

    fn sent(&self) -> u64 {
        0
    }
}
