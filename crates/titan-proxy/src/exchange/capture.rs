//! What is kept of a response so that it can be compared with that to a copy of its request, or the other way around.
//!
//! The head is noted as it comes from the endpoint, before anything changes it, and the body passes through a [`Tee`]: it goes on
//! at once, whatever becomes of what is kept.

use crate::comparison::{Captured, Comparer, NotCompared};
use crate::copied::CopyMemory;
use crate::mirror::Mirror;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use titan_http::{BodyLength, Fields, ResponseHead};
use titan_io::clock::{CoarseInstant, Timer};
use titan_io::error::Error;
use titan_io::relay::Turn;
use titan_io::transform::{BodyTransform, StepResult, Transforms};
use tokio::sync::oneshot;

/// Has the response of an exchange kept.
pub(super) struct Capture {
    comparer: Arc<Comparer>,
    memory: CopyMemory,
    tee: Tee,
}

/// A response on its way to whoever waits for it. That ends without it if it is never complete.
pub(super) struct AwaitedResponse {
    kept: Kept,
    complete: oneshot::Receiver<()>,
}

/// What there is of a response, or why it is not kept; nothing once nobody waits for it any more, however long the rest of it takes.
type Kept = Rc<RefCell<Option<Result<Captured, NotCompared>>>>;

/// Passes a body on and keeps a copy of it.
struct Tee {
    kept: Kept,
    complete: oneshot::Sender<()>,
}

/// A body whose copy is handed over at its end, or as soon as no more of it is wanted.
struct KeptBody(Option<Tee>);

impl Capture {
    /// For a response of that mirror or to its requests, if they are compared; and where it comes to.
    pub(super) fn of(mirror: &Mirror) -> Option<(Capture, AwaitedResponse)> {
        let (comparer, memory) = mirror.comparer()?;
        let (told, complete) = oneshot::channel();
        let kept = Kept::default();
        let tee = Tee { kept: Rc::clone(&kept), complete: told };
        let (comparer, memory) = (Arc::clone(comparer), memory.clone());
        Some((Capture { comparer, memory, tee }, AwaitedResponse { kept, complete }))
    }

    /// Notes the head that has come, and adds what keeps the body to what that passes through.
    pub(super) fn begin(
        self,
        response: &ResponseHead,
        length: BodyLength,
        transforms: &mut Transforms<'static>,
    ) {
        let Capture { comparer, memory, tee } = self;
        // Nobody waits for it where there is no copy after all.
        if tee.complete.is_closed() {
            return;
        }
        let captured = comparer.capture(response, length, &memory);
        let wants_more = captured.as_ref().is_ok_and(Captured::wants_more);
        tee.kept.replace(Some(captured));
        match wants_more {
            true => transforms.push(KeptBody(Some(tee))),
            false => tee.hand_over(),
        }
    }
}

impl AwaitedResponse {
    /// The response, if it is complete by now.
    fn into_complete(mut self) -> Option<Result<Captured, NotCompared>> {
        self.complete.try_recv().ok()?;
        self.kept.take()
    }

    /// The response, once it is complete; nothing if it will never be.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Captured, NotCompared>>> {
        let complete = Pin::new(&mut self.complete).poll(cx);
        complete.map(|complete| complete.ok().and_then(|()| self.kept.take()))
    }
}

impl Drop for AwaitedResponse {
    fn drop(&mut self) {
        self.kept.take();
    }
}

/// Both responses, once that to the copy has come, or failed: waits for the one to the request.
pub(super) async fn await_both(
    mut original: AwaitedResponse,
    copied: AwaitedResponse,
    timer: &Timer,
    deadline: CoarseInstant,
) -> Result<[Captured; 2], NotCompared> {
    let copied = copied.into_complete().ok_or(NotCompared::CopyFailed)??;
    let original = poll_fn(|cx| match original.poll(cx) {
        Poll::Pending => timer.poll(cx, deadline).map(|()| Err(NotCompared::TooLate)),
        Poll::Ready(captured) => Poll::Ready(captured.unwrap_or(Err(NotCompared::NoResponse))),
    });
    Ok([original.await?, copied])
}

impl Tee {
    /// Keeps that part too; false if no more is wanted.
    fn keep(&self, data: &[u8]) -> bool {
        let mut kept = self.kept.borrow_mut();
        let Some(Ok(captured)) = &mut *kept else { return false };
        captured.append(data);
        captured.wants_more()
    }

    fn hand_over(self) {
        // Whoever wanted it may have given up.
        let _ = self.complete.send(());
    }
}

impl BodyTransform for KeptBody {
    fn take(
        &mut self,
        input: &[u8],
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> Result<StepResult, Error> {
        let bytes = input.len().min(turn.left().max(1));
        out.extend_from_slice(&input[..bytes]);
        turn.spend(bytes);
        if self.0.as_ref().is_some_and(|tee| !tee.keep(&input[..bytes])) {
            self.0.take().into_iter().for_each(Tee::hand_over);
        }
        Ok(StepResult { bytes, has_more: false })
    }

    fn end(&mut self, trailers: &Fields, _: &mut Vec<u8>) -> Result<Option<Fields>, Error> {
        let kept = self.0.as_ref().map(|tee| tee.kept.borrow_mut());
        kept.into_iter().for_each(|mut kept| {
            kept.iter_mut().flatten().for_each(|captured| captured.note_trailers(trailers));
        });
        self.0.take().into_iter().for_each(Tee::hand_over);
        Ok(None)
    }
}
