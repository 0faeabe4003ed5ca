//! What has gone wrong while the gateway serves, and is counted where it happens: as events.

use titan_config::{LogArea, LogLevel};
use titan_observe::events::{Event, Field, Log, Repeat};
use titan_proxy::{
    DestinationFigures, Gateway, RefusedHandshakes, Signal, SmallBuffers, UpstreamFailure,
};

/// Tells of what has gone wrong since the last call, and of what lasts.
pub(crate) fn look(gateway: &Gateway) {
    let log = gateway.log();
    gateway.upstream_failures().into_iter().for_each(|it| log.tell(of_upstream(it)));
    gateway.refused_handshakes().into_iter().for_each(|it| log.tell(of_handshakes(it)));
    gateway.small_buffers().into_iter().for_each(|it| log.tell(of_buffers(it)));
    if gateway.has_lost_logs() {
        let text = "the thread that writes access logs has panicked: they have nothing more until a restart";
        let lost = Event::new((LogArea::Log, LogLevel::Error), "access_logs_lost", text);
        log.tell(lost.once(Repeat::ByHour));
    }
    let logs = gateway.status().access_logs();
    logs.iter().for_each(|it| look_at(log, &OF_LOGS, it.name(), it));
    let exporters = gateway.status().exporters();
    let traces = exporters.iter().filter(|it| it.signal == Signal::Traces);
    traces.for_each(|it| look_at(log, &OF_TRACES, it.collector.as_str(), &it.destination));
    lasting(log, (LogArea::Tls, "certificates"), gateway.warnings());
    lasting(log, (LogArea::Policy, "token_keys"), gateway.key_failures());
}

/// Tells of conditions that last, each once an hour.
pub(crate) fn lasting(
    log: &Log,
    (area, kind): (LogArea, &'static str),
    warnings: impl IntoIterator<Item = String>,
) {
    for warning in warnings {
        log.tell(Event::new((area, LogLevel::Warn), kind, warning).once(Repeat::ByHour));
    }
}

/// The reason, and whose request was the first to meet it. The reason of one is that of all in the same minute: endpoints that fail in
/// turn have one each.
fn of_upstream(failure: UpstreamFailure) -> Event {
    let UpstreamFailure { upstream, code, what, route, request, count, at } = failure;
    let place = (LogArea::Upstream, LogLevel::Warn);
    Event::new(place, "upstream_failed", what.trim_end_matches('.'))
        .with(Field::Upstream, upstream)
        .with(Field::Code, code)
        .with_some(Field::Route, route)
        .with_some(Field::RequestId, request)
        .times(count)
        .at(at)
        .once(Repeat::ByMinute)
}

fn of_buffers(SmallBuffers { listener, what }: SmallBuffers) -> Event {
    Event::new((LogArea::Listener, LogLevel::Warn), "udp_buffer_small", what)
        .with(Field::Listener, listener)
        .once(Repeat::ByHour)
}

/// What is told of a destination.
struct Kinds {
    failed: &'static str,
    works: &'static str,
    what_works: &'static str,
}

const OF_LOGS: Kinds = Kinds {
    failed: "access_log_failed",
    works: "access_log_works",
    what_works: "lines are written again",
};

/// The same of the collector that gets spans.
const OF_TRACES: Kinds =
    Kinds { failed: "traces_failed", works: "traces_work", what_works: "spans are taken again" };

/// Tells what has gone wrong with a destination, and that it works again.
fn look_at(log: &Log, kinds: &Kinds, name: &str, destination: &DestinationFigures) {
    if let Some(what) = destination.take_trouble() {
        log.tell(of_destination(LogLevel::Warn, kinds.failed, name, &what));
    }
    if destination.take_recovery() {
        log.tell(of_destination(LogLevel::Info, kinds.works, name, kinds.what_works));
    }
}

/// A destination that fails in turn with different reasons, or comes and goes, is told of once a minute.
fn of_destination(level: LogLevel, kind: &'static str, name: &str, what: &str) -> Event {
    Event::new((LogArea::Log, level), kind, what)
        .with(Field::Destination, name)
        .once(Repeat::ByMinute)
}

/// A client that is refused may be one that should not be; others fail all day wherever the internet can connect.
fn of_handshakes(refused: RefusedHandshakes) -> Event {
    let RefusedHandshakes { listener, code, what, count, at } = refused;
    let level = match code {
        "certificate" => LogLevel::Warn,
        _ => LogLevel::Info,
    };
    Event::new((LogArea::Tls, level), "handshake_refused", what)
        .with(Field::Listener, listener)
        .with(Field::Code, code)
        .times(count)
        .at(at)
        .once(Repeat::ByMinute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn a_failure_has_its_time_and_whose_request_it_was() {
        let failure = UpstreamFailure {
            upstream: "api".to_owned(),
            code: "connect",
            what: "10.0.0.1:80: Connection refused (os error 111).".to_owned(),
            route: Some("shop".to_owned()),
            request: None,
            count: 7,
            at: UNIX_EPOCH,
        };
        let event = of_upstream(failure);
        assert_eq!(event.message(), "10.0.0.1:80: Connection refused (os error 111)");
        assert_eq!((event.time(), event.field(Field::Route)), (UNIX_EPOCH, Some("shop")));
        assert_eq!(event.field(Field::RequestId), None);
    }

    #[test]
    fn an_access_log_that_fails_again_and_again_is_told_of_by_destination_and_minute() {
        let what = "cannot write to /a.log: no storage space";
        let event = of_destination(LogLevel::Warn, OF_LOGS.failed, "file /a.log", what);
        assert_eq!(event.field(Field::Destination), Some("file /a.log"));
        assert_eq!(event.repeat(), Repeat::ByMinute);
    }

    #[test]
    fn what_anybody_causes_is_no_warning() {
        let level = |code| {
            let (listener, what, at) = ("web".to_owned(), "why".to_owned(), UNIX_EPOCH);
            let refused = RefusedHandshakes { listener, code, what, count: 1, at };
            of_handshakes(refused).place().1
        };
        assert_eq!([level("certificate"), level("gone")], [LogLevel::Warn, LogLevel::Info]);
    }
}
