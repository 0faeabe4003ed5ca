//! The fields of the limits.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("limits", "tunnels", "limits: { tunnels: 7 }", "tunnels: 7"),
    (
        "limits",
        "decoding_memory",
        "limits: { decoding_memory: 64MiB }",
        "decoding_memory: ByteSize(67108864)",
    ),
    ("limits", "head", "limits: { head: 9KiB }", "Limits { head: ByteSize(9216)"),
    ("limits", "target", "limits: { target: 1024 }", "target: ByteSize(1024)"),
    ("limits", "fields", "limits: { fields: 7 }", "fields: 7, body: AtMost(ByteSize(67108864))"),
    ("limits", "body", "limits: { body: unlimited }", "body: Unlimited, field_names"),
    ("limits", "field_names", "limits: { field_names: strict }", "field_names: Strict"),
    ("limits", "chunk_line", "limits: { chunk_line: 16B }", "chunk_line: ByteSize(16)"),
    ("limits", "trailers", "limits: { trailers: 1KB }", "trailers: ByteSize(1000)"),
    (
        "limits",
        "requests_per_connection",
        "limits: { requests_per_connection: unlimited }",
        "requests_per_connection: Unlimited",
    ),
    ("limits", "pipeline", "limits: { pipeline: 7 }", "pipeline: 7"),
    ("limits", "streams", "limits: { streams: 7 }", "streams: 7"),
    (
        "limits",
        "stream_window",
        "limits: { stream_window: 80KiB }",
        "stream_window: ByteSize(81920)",
    ),
    (
        "limits",
        "connection_window",
        "limits: { connection_window: 80KiB }",
        "connection_window: ByteSize(81920)",
    ),
    ("limits", "body_rate", "limits: { body_rate: off }", "body_rate: None"),
    ("limits", "request_buffer", "limits: { request_buffer: off }", "request_buffer: None"),
    ("limits", "retry_body", "limits: { retry_body: 1KB }", "retry_body: Some(ByteSize(1000))"),
    (
        "limits",
        "request_memory",
        "limits: { request_memory: 8MiB }",
        "request_memory: ByteSize(8388608)",
    ),
    (
        "limits",
        "mirror_memory",
        "limits: { mirror_memory: 8MiB }",
        "mirror_memory: ByteSize(8388608)",
    ),
    (
        "limits",
        "response_rate",
        "limits: { response_rate: 1KiB }",
        "response_rate: Some(ByteSize(1024))",
    ),
    (
        "limits",
        "response_head",
        "limits: { response_head: 1MiB }",
        "response_head: ByteSize(1048576)",
    ),
    ("limits", "response_fields", "limits: { response_fields: 7 }", "response_fields: 7"),
    (
        "limits",
        "response_trailers",
        "limits: { response_trailers: 1KB }",
        "response_trailers: ByteSize(1000)",
    ),
    ("limits", "response_buffer", "limits: { response_buffer: off }", "response_buffer: None"),
    (
        "limits",
        "response_memory",
        "limits: { response_memory: 8MiB }",
        "response_memory: ByteSize(8388608)",
    ),
];
