//! Any facts, and how an exchange notes them.

use super::super::*;
use crate::trace::{Sampling, TraceContext};
use proptest::prelude::*;
use titan_http::{Scheme, Status, Version};

/// A time as a record has it.
pub(super) fn duration() -> impl Strategy<Value = Option<Duration>> {
    prop::option::of((0..u32::MAX - 1).prop_map(|micros| Duration::from_micros(micros.into())))
}

/// Any facts.
pub(super) fn facts() -> impl Strategy<Value = Facts> {
    let status = || (0u16..700).prop_map(Status::from_code);
    let address = || prop::option::of(any::<IpAddr>());
    let caches = || prop::option::of(any::<bool>().prop_map(CacheUse::from));
    let words = (
        0usize..4,
        0usize..4,
        0usize..3,
        any::<bool>(),
        0usize..4,
        any::<bool>(),
        caches(),
        caches(),
    );
    let cut = |(missing, shortened)| HeadCut { missing, shortened };
    let cuts = [any::<(u16, u16)>().prop_map(cut), any::<(u16, u16)>().prop_map(cut)];
    let numbers = (any::<u64>(), 0..u64::MAX, any::<u64>(), any::<u64>(), any::<u16>());
    let phases = [duration(), duration(), duration()];
    let trace = (any::<u128>(), any::<u64>(), any::<u64>(), 0usize..3);
    let trace = trace.prop_map(|(trace_id, parent, span, sampling)| {
        let sampling = [Sampling::Undecided, Sampling::Dropped, Sampling::Sampled][sampling];
        TraceContext { trace_id, parent, span, sampling }
    });
    let trace = prop::option::of(trace);
    (words, numbers, (phases, cuts), status(), address(), address(), trace).prop_map(
        |(words, numbers, (phases, [request_cut, response_cut]), status, client, peer, trace)| {
            let (event, version, tls, is_https, side, is_complete, token_cache, auth_cache) = words;
            let (started, took, request_bytes, response_bytes, attempts) = numbers;
            let [head, policies, queue] = phases;
            Facts {
                event: [
                    Event::Request,
                    Event::TunnelOpened,
                    Event::TunnelClosed,
                    Event::Connection,
                ][event],
                started,
                took: Duration::from_micros(took),
                phases: Phases { head, policies, queue },
                request_bytes,
                response_bytes,
                status,
                attempts,
                caused_by: [
                    None,
                    Some(Side::Downstream),
                    Some(Side::Upstream),
                    Some(Side::Gateway),
                ][side],
                token_cache,
                auth_cache,
                request_cut,
                response_cut,
                is_complete,
                version: [Version::Http10, Version::Http11, Version::Http2, Version::Http3]
                    [version],
                tls: [None, Some(TlsVersion::Tls12), Some(TlsVersion::Tls13)][tls],
                scheme: if is_https { Scheme::Https } else { Scheme::Http },
                client,
                peer,
                trace,
            }
        },
    )
}

/// The same as they are noted.
pub(super) fn noted(facts: &Facts) -> NotedFacts {
    let mut noted = NotedFacts::default();
    noted.set_event(facts.event);
    noted.set_started(facts.started);
    noted.set_took(facts.took);
    noted.set_head(facts.phases.head);
    noted.set_policies(facts.phases.policies);
    noted.set_queue(facts.phases.queue);
    noted.set_request_bytes(facts.request_bytes);
    noted.set_response_bytes(facts.response_bytes);
    noted.set_status(facts.status);
    noted.set_attempts(facts.attempts);
    noted.set_caused_by(facts.caused_by);
    noted.set_token_cache(facts.token_cache);
    noted.set_auth_cache(facts.auth_cache);
    noted.set_request_cut(facts.request_cut);
    noted.set_response_cut(facts.response_cut);
    noted.set_complete(facts.is_complete);
    noted.set_version(facts.version);
    noted.set_tls(facts.tls);
    noted.set_scheme(facts.scheme);
    noted.set_client(facts.client);
    noted.set_peer(facts.peer);
    noted
}
