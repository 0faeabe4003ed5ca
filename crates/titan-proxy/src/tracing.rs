//! Traces: which a request belongs to, whether it is traced, and what upstreams are told.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use titan_config::{Cap, Config, Percent, Propagation, Route, TraceParents};
use titan_http::{BadField, FieldName, Fields};
use titan_io::io::Io;
use titan_io::registry::Registry;
use titan_observe::trace::{RemoteParent, Sampling, TraceContext, remove_b3};

/// How requests are traced.
pub(crate) struct Tracing {
    share: Percent,
    /// By the index of the route, in place of that.
    of_routes: Vec<Option<Percent>>,
    rate: Option<TraceRate>,
    parent: TraceParents,
    reads_b3: bool,
    reads_b3_multi: bool,
}

/// How many traces begin in a second, over all workers.
struct TraceRate {
    most: u64,
    taken: Arc<Taken>,
}

/// The traces of a second.
struct Taken {
    began: Instant,
    /// The second, and below it how many there are.
    count: AtomicU64,
}

/// What makes it the same count for every configuration.
#[derive(PartialEq, Eq, Hash)]
struct TakenKey;

/// Bits of the number of traces in a second; a rate has 20.
const COUNT_BITS: u32 = 24;

impl Tracing {
    /// What a configuration says; `None` where nothing is traced.
    pub(crate) fn of(config: &Config, registry: &Registry) -> Option<Tracing> {
        let titan_config::Tracing {
            collector: _,
            share,
            rate,
            parent,
            always: _,
            propagation,
            location: _,
        } = config.tracing.as_ref()?;
        let rate = match rate {
            Cap::Unlimited => None,
            Cap::AtMost(most) => Some(TraceRate {
                most: most.get().into(),
                taken: registry.shared(TakenKey, Taken::default),
            }),
        };
        let of_route = |route: &Route| route.trace_share;
        Some(Tracing {
            share: *share,
            of_routes: config.routes.iter().map(of_route).collect(),
            rate,
            parent: *parent,
            reads_b3: propagation.contains(&Propagation::B3),
            reads_b3_multi: propagation.contains(&Propagation::B3Multi),
        })
    }

    /// The trace of a request: that of its client, as far as it is gone on with, or a new one.
    pub(crate) fn begin(&self, fields: &Fields, is_trusted: bool, io: &Io) -> TraceContext {
        let span = io.random().max(1);
        let is_believed = match self.parent {
            TraceParents::Always => true,
            TraceParents::Trusted => is_trusted,
            TraceParents::Never => false,
        };
        let parent = if is_believed { self.parent_in(fields) } else { None };
        match parent {
            Some(ControlFlow::Continue(RemoteParent { trace_id, span: parent, sampling })) => {
                TraceContext { trace_id, parent, span, sampling }
            }
            other => {
                let sampling = match other {
                    Some(ControlFlow::Break(sampling)) => sampling,
                    _ => Sampling::Undecided,
                };
                TraceContext { trace_id: io.random_id().max(1), parent: 0, span, sampling }
            }
        }
    }

    fn parent_in(&self, fields: &Fields) -> Option<ControlFlow<Sampling, RemoteParent>> {
        let w3c = RemoteParent::of_w3c(fields).map(ControlFlow::Continue);
        let b3 = || if self.reads_b3 { RemoteParent::of_b3(fields) } else { None };
        let multi = || if self.reads_b3_multi { RemoteParent::of_b3_multi(fields) } else { None };
        w3c.or_else(b3).or_else(multi)
    }

    /// Decides whether a request is traced that such a route has taken, or none, unless that is decided.
    pub(crate) fn decide(&self, trace: &mut TraceContext, route: Option<usize>, io: &Io) {
        if trace.sampling != Sampling::Undecided {
            return;
        }
        let share = route.and_then(|route| self.of_routes[route]).unwrap_or(self.share);
        let is_drawn = share.takes(io.random());
        trace.sampling = (is_drawn && self.rate.as_ref().is_none_or(TraceRate::take)).into();
    }

    /// Tells the next endpoint of the span of the attempt to send the request to it.
    pub(crate) fn write(
        &self,
        trace: &TraceContext,
        span: u64,
        fields: &mut Fields,
    ) -> Result<(), BadField> {
        // What vendors have added belongs to the trace of the `traceparent` beside it.
        if RemoteParent::of_w3c(fields).is_none_or(|parent| parent.trace_id != trace.trace_id) {
            fields.remove(FieldName::Tracestate);
        }
        // Nor is a service to go on with a trace that was not gone on with here.
        if trace.parent == 0 {
            remove_b3(fields);
        }
        trace.write_w3c(span, fields)?;
        if self.reads_b3 {
            trace.write_b3(span, fields)?;
        }
        if self.reads_b3_multi {
            trace.write_b3_multi(span, fields)?;
        }
        Ok(())
    }
}

impl TraceRate {
    /// Takes one of the traces of this second, if there are any left.
    fn take(&self) -> bool {
        let Taken { began, count } = &*self.taken;
        let now = began.elapsed().as_secs();
        let next = |taken| one_more(taken, now, self.most);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// The count with one more in that second; none if there are as many as may be. A thread that has read the clock a moment before
/// another, and counts after it, counts in the second of that one.
fn one_more(taken: u64, now: u64, most: u64) -> Option<u64> {
    let second = now.max(taken >> COUNT_BITS) << COUNT_BITS;
    let so_far = taken.saturating_sub(second);
    (so_far < most).then_some(second + so_far + 1)
}

impl Default for Taken {
    fn default() -> Taken {
        Taken { began: Instant::now(), count: AtomicU64::new(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_behind_begins_no_second_anew() {
        let second = |second: u64| second << COUNT_BITS;
        let two = one_more(one_more(0, 7, 2).unwrap(), 7, 2).unwrap();
        assert_eq!(two, second(7) + 2);
        assert_eq!(one_more(two, 7, 2), None);
        assert_eq!(one_more(two, 6, 2), None, "it has read its clock a moment ago");
        assert_eq!(one_more(two, 6, 3), Some(second(7) + 3));
        assert_eq!(one_more(two, 8, 2), Some(second(8) + 1));
    }
}
