//! The fields of retries and deadlines.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    (
        "retries",
        "attempts",
        "routes: [{ upstream: a, retries: { attempts: 3 } }]",
        "attempts: 3, on: RetryConditions { connect: true",
    ),
    (
        "retries",
        "on",
        "routes: [{ upstream: a, retries: { on: [timeout] } }]",
        "on: RetryConditions { connect: false, refused_stream: false, reset_before_response: false, timeout: true }",
    ),
    (
        "retries",
        "statuses",
        "routes: [{ upstream: a, retries: { statuses: [5xx, 429] } }]",
        "statuses: Statuses(429, 5xx)",
    ),
    (
        "retries",
        "grpc",
        "routes: [{ upstream: a, retries: { grpc: [unavailable, cancelled] } }]",
        "grpc: [GrpcStatus(14), GrpcStatus(1)]",
    ),
    (
        "retries",
        "header",
        "routes: [{ upstream: a, retries: { header: X-Retry } }]",
        "header: Some(",
    ),
    (
        "retries",
        "methods",
        "routes: [{ upstream: a, retries: { methods: GET } }]",
        "methods: Some([GET])",
    ),
    (
        "retries",
        "idempotency_key",
        "routes: [{ upstream: a, retries: { idempotency_key: X-Key } }]",
        "idempotency_key: Some(",
    ),
    (
        "retries",
        "per_try_timeout",
        "routes: [{ upstream: a, retries: { on: timeout, per_try_timeout: 7s } }]",
        "per_try_timeout: Some(7s)",
    ),
    (
        "retries",
        "backoff",
        "routes: [{ upstream: a, retries: { backoff: { max: 7s } } }]",
        "backoff: Backoff { base: 25ms, max: 7s }",
    ),
    (
        "retries",
        "max_retry_after",
        "routes: [{ upstream: a, retries: { max_retry_after: 7s } }]",
        "max_retry_after: 7s",
    ),
    (
        "backoff",
        "base",
        "routes: [{ upstream: a, retries: { backoff: { base: 7ms } } }]",
        "base: 7ms",
    ),
    ("backoff", "max", "routes: [{ upstream: a, retries: { backoff: { max: 7s } } }]", "max: 7s"),
    (
        "upstream",
        "hedge",
        "upstreams: { a: { endpoints: a:1, hedge: {} } }",
        "hedge: Some(Hedge { after: Percentile(Percent(9500)), min_delay: 10ms, methods: [GET, HEAD, OPTIONS] })",
    ),
    (
        "hedge",
        "after",
        "upstreams: { a: { endpoints: a:1, hedge: p99.9 } }",
        "after: Percentile(Percent(9990)), min_delay: 10ms",
    ),
    (
        "hedge",
        "min_delay",
        "upstreams: { a: { endpoints: a:1, hedge: { min_delay: 7ms } } }",
        "after: Percentile(Percent(9500)), min_delay: 7ms",
    ),
    (
        "hedge",
        "methods",
        "upstreams: { a: { endpoints: a:1, hedge: { methods: PUT } } }",
        "min_delay: 10ms, methods: [PUT]",
    ),
    ("timeouts", "total", "timeouts: { total: 7s }", "total: AtMost(7s)"),
    (
        "timeouts",
        "deadline_header",
        "timeouts: { deadline_header: X-D }",
        "deadline_header: Some(HeaderName(\"X-D\"))",
    ),
    (
        "route_timeouts",
        "total",
        "timeouts: { total: 9s }\nroutes: [{ upstream: a, timeouts: { total: unlimited } }]",
        "tunnel: 3600s, total: Unlimited",
    ),
    (
        "route_timeouts",
        "deadline_header",
        "timeouts: { deadline_header: X-D }\nroutes: [{ upstream: a, timeouts: { deadline_header: X-E } }]",
        "deadline_header: Some(HeaderName(\"X-E\")) }",
    ),
];
