//! What was decided about a request, in the order in which it happened, told from its record.

use crate::record::{AttemptKind, Attempted, Event, Recorded, Text};
use std::time::Duration;
use titan_io::error::Side;

/// Something that was decided, or that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// How long after the start of the exchange; none where that is not known.
    pub at: Option<Duration>,
    /// What it is about.
    pub what: What,
    /// What it was. Names and addresses in it may be from the network.
    pub text: String,
}

/// What a decision is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Which route takes the request.
    Route,
    /// What a policy makes of it.
    Policy,
    /// How long it has waited.
    Queue,
    /// Which endpoint is asked.
    Endpoint,
    /// The connection to the endpoint.
    Connect,
    /// How an attempt has fared.
    Attempt,
    /// What the client gets.
    Response,
    /// How it has failed.
    Failure,
}

impl What {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            What::Route => "route",
            What::Policy => "policy",
            What::Queue => "queue",
            What::Endpoint => "endpoint",
            What::Connect => "connect",
            What::Attempt => "attempt",
            What::Response => "response",
            What::Failure => "failure",
        }
    }
}

/// Everything that was decided about the request of a record.
pub fn decisions(record: &Recorded<'_>) -> Vec<Decision> {
    let mut told = Vec::new();
    let mut tell = |at, what, text| told.push(Decision { at, what, text });
    tell(
        Some(Duration::ZERO),
        What::Route,
        match record.text(Text::Route) {
            route if record.facts.event == Event::Connection => {
                format!("the route {} takes the connection", quoted(route))
            }
            b"" if !record.has_head() => {
                "no route: the head of the request could not be read".to_owned()
            }
            b"" => "no route takes the request".to_owned(),
            route => format!("route {} takes the request", quoted(route)),
        },
    );
    policies(record, &mut tell);
    if let Some(queue) = record.facts.phases.queue {
        tell(None, What::Queue, format!("waited {} for its turn", shown(queue)));
    }
    let mut attempts: Vec<_> = record.attempts().collect();
    let last = attempts.last().copied();
    attempts.sort_by_key(|attempt| attempt.began);
    attempts.iter().for_each(|it| attempt(it, Some(it) == last.as_ref(), &mut tell));
    end(record, &mut tell);
    told
}

fn policies(record: &Recorded<'_>, tell: &mut impl FnMut(Option<Duration>, What, String)) {
    for name in record.passed() {
        tell(None, What::Policy, format!("policy {} lets it pass", quoted(name)));
    }
    for (text, verdict) in [(Text::RefusedBy, "refuses it"), (Text::RespondedBy, "responds to it")]
    {
        match record.text(text) {
            b"" => {}
            name => tell(None, What::Policy, format!("policy {} {verdict}", quoted(name))),
        }
    }
}

fn attempt(
    attempt: &Attempted<&[u8]>,
    is_last: bool,
    tell: &mut impl FnMut(Option<Duration>, What, String),
) {
    let Attempted { kind, is_reused, began, took, connect, tls, head, .. } = *attempt;
    let Attempted { status, caused_by, error, upstream, endpoint, balance, choices, .. } = *attempt;
    let (upstream, endpoint) = (quoted(upstream), plain(endpoint));
    let which = match kind {
        AttemptKind::First => "",
        AttemptKind::Retry => "retry: ",
        AttemptKind::Hedge => "hedge, because the one before takes long: ",
    };
    let choice = match choices {
        0 | 1 => "the only one".to_owned(),
        _ => format!("by {} of {choices}", plain(balance)),
    };
    let chosen = format!("{which}endpoint {endpoint} of upstream {upstream}, {choice}");
    tell(Some(began), What::Endpoint, chosen);
    match (connect, tls) {
        (Some(connect), None) => {
            tell(Some(began + connect), What::Connect, format!("connected in {}", shown(connect)));
        }
        (Some(connect), Some(tls)) => {
            let text = format!("connected in {}, TLS in {}", shown(connect), shown(tls));
            tell(Some(began + connect + tls), What::Connect, text);
        }
        (None, _) if is_reused && head.is_some() => {
            tell(Some(began), What::Connect, "over a connection that was open".to_owned());
        }
        (None, _) => {}
    }
    if let (Some(head), Some(status)) = (head, status) {
        let text = format!("{endpoint} responds with {} after {}", status.code(), shown(head));
        tell(Some(began + head), What::Attempt, text);
    }
    let ended = took.map(|took| began + took);
    match (error, caused_by) {
        (b"", _) if ended.is_some() && !is_last => {
            let what = match head {
                Some(_) => "another attempt follows",
                None => "not waited for any more",
            };
            tell(ended, What::Attempt, format!("{endpoint}: {what}"));
        }
        (b"", _) => {}
        (code, side) => {
            let text = format!("{endpoint} fails with {}{}", quoted(code), by(side));
            tell(ended, What::Attempt, text);
        }
    }
}

fn end(record: &Recorded<'_>, tell: &mut impl FnMut(Option<Duration>, What, String)) {
    let facts = &record.facts;
    let took = Some(facts.took);
    match record.text(Text::Error) {
        b"" => {}
        code => {
            tell(
                took,
                What::Failure,
                format!("fails with {}{}", quoted(code), by(facts.caused_by)),
            );
        }
    }
    let bytes = facts.response_bytes;
    let text = match (facts.event, facts.status) {
        (Event::TunnelOpened, _) => "a tunnel opens".to_owned(),
        (Event::TunnelClosed, _) => format!("the tunnel ends, {bytes} bytes to the client"),
        (Event::Connection, _) => format!("the connection ends, {bytes} bytes to the client"),
        (Event::Request, None) => "no response: the client has gone".to_owned(),
        (Event::Request, Some(status)) => {
            let whole = if facts.is_complete { "" } else { ", incomplete" };
            format!("the client gets {}, {bytes} bytes{whole}", status.code())
        }
    };
    tell(took, What::Response, text);
}

fn by(side: Option<Side>) -> String {
    match side {
        None => String::new(),
        Some(Side::Downstream) => ", caused by the client".to_owned(),
        Some(Side::Upstream) => ", caused by the upstream".to_owned(),
        Some(Side::Gateway) => ", caused by the gateway".to_owned(),
    }
}

fn plain(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

fn quoted(text: &[u8]) -> String {
    format!("`{}`", plain(text))
}

/// A duration as people read it: `12 us`, `3.4 ms`, `1.25 s`.
pub fn shown(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.1} ms", duration.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", duration.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Chosen, ExchangeRecord};
    use titan_http::Status;
    use titan_io::error::Kind;

    fn told(record: &ExchangeRecord) -> String {
        let mut bytes = Vec::new();
        record.write_to(&mut bytes);
        let (record, _) = Recorded::first_of(&bytes).unwrap();
        let line = |it: &Decision| {
            let at = it.at.map_or("-".to_owned(), shown);
            format!("{at} {}: {}", it.what.name(), it.text)
        };
        decisions(&record).iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_retried_request_is_told_from_its_route_to_its_response() {
        let mut record = ExchangeRecord::default();
        let micros = Duration::from_micros;
        record.set(Text::Route, b"api");
        record.add_passed("token");
        record.facts.set_queue(Some(micros(1_500)));
        record.facts.set_took(micros(25_000));
        record.facts.set_status(Some(Status::OK));
        record.facts.set_complete(true);
        record.facts.set_response_bytes(512);
        let chosen =
            |endpoint| Chosen { upstream: "pool", endpoint, balance: "round_robin", choices: 3 };
        record.begin_attempt(false, micros(2_000), chosen("10.0.0.1:80"));
        record.end_attempt("10.0.0.1:80", micros(3_000), Some(Kind::Connect.into()));
        record.begin_attempt(false, micros(4_000), chosen("10.0.0.2:80"));
        let second = record.attempt_at("10.0.0.2:80").unwrap();
        second.set_connect(Some(micros(300)));
        second.set_tls(Some(micros(1_200)));
        second.note_head(micros(13_000), Status::OK);
        assert_eq!(
            told(&record),
            "0 us route: route `api` takes the request\n\
             - policy: policy `token` lets it pass\n\
             - queue: waited 1.5 ms for its turn\n\
             2.0 ms endpoint: endpoint 10.0.0.1:80 of upstream `pool`, by round_robin of 3\n\
             3.0 ms attempt: 10.0.0.1:80 fails with `connect`, caused by the upstream\n\
             4.0 ms endpoint: retry: endpoint 10.0.0.2:80 of upstream `pool`, by round_robin of 3\n\
             5.5 ms connect: connected in 300 us, TLS in 1.2 ms\n\
             13.0 ms attempt: 10.0.0.2:80 responds with 200 after 9.0 ms\n\
             25.0 ms response: the client gets 200, 512 bytes"
        );
    }

    #[test]
    fn a_response_that_is_retried_was_waited_for() {
        let mut record = ExchangeRecord::default();
        let micros = Duration::from_micros;
        let chosen =
            |endpoint| Chosen { upstream: "pool", endpoint, balance: "random", choices: 2 };
        record.begin_attempt(false, Duration::ZERO, chosen("a:1"));
        let first = record.attempt_at("a:1").unwrap();
        first.note_head(micros(900), Status::SERVICE_UNAVAILABLE);
        record.end_attempt("a:1", micros(950), None);
        record.begin_attempt(false, micros(960), chosen("b:1"));
        let told = told(&record);
        assert!(told.contains("\n950 us attempt: a:1: another attempt follows\n"), "{told}");
        assert!(!told.contains("not waited for"), "{told}");
    }

    #[test]
    fn a_refused_request_and_one_that_no_route_takes() {
        let mut record = ExchangeRecord::default();
        record.set(Text::Route, b"api");
        record.set(Text::RefusedBy, b"limit");
        record.facts.set_status(Some(Status::TOO_MANY_REQUESTS));
        record.fail(Kind::BodyTooLarge.into());
        assert_eq!(
            told(&record),
            "0 us route: route `api` takes the request\n\
             - policy: policy `limit` refuses it\n\
             0 us failure: fails with `body-too-large`, caused by the client\n\
             0 us response: the client gets 429, 0 bytes, incomplete"
        );
        record.clear();
        record.set(Text::Method, b"GET");
        record.facts.set_took(Duration::from_secs(2));
        assert_eq!(
            told(&record),
            "0 us route: no route takes the request\n2.00 s response: no response: the client has gone"
        );
        record.clear();
        assert!(
            told(&record)
                .starts_with("0 us route: no route: the head of the request could not be read\n")
        );
    }

    #[test]
    fn hedges_are_told_in_the_order_in_which_they_began() {
        let mut record = ExchangeRecord::default();
        record.set(Text::Method, b"GET");
        let chosen =
            |endpoint| Chosen { upstream: "pool", endpoint, balance: "random", choices: 2 };
        record.begin_attempt(false, Duration::ZERO, chosen("a:1"));
        record.begin_attempt(true, Duration::from_millis(20), chosen("b:1"));
        record.attempt_at("a:1").unwrap().note_head(Duration::from_millis(30), Status::OK);
        record.decide_by("a:1");
        record.end_attempt("b:1", Duration::from_millis(31), None);
        record.facts.set_event(Event::TunnelOpened);
        assert_eq!(
            told(&record),
            "0 us route: no route takes the request\n\
             0 us endpoint: endpoint a:1 of upstream `pool`, by random of 2\n\
             0 us connect: over a connection that was open\n\
             30.0 ms attempt: a:1 responds with 200 after 30.0 ms\n\
             20.0 ms endpoint: hedge, because the one before takes long: endpoint b:1 of upstream `pool`, by random of 2\n\
             31.0 ms attempt: b:1: not waited for any more\n\
             0 us response: a tunnel opens"
        );
    }
}
