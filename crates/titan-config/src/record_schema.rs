//! The JSON Schema of a record as access logs write it.

use crate::access_log::LogField;
use crate::json::Json;

/// The JSON Schema of a line of an access log in JSON: `docs/access-log.schema.json`.
pub fn access_log_schema() -> String {
    let described = |kind: &str, doc: &str| {
        Json::object([("type", Json::text(kind)), ("description", Json::text(doc))])
    };
    let field = |field: &LogField| (field.name().to_owned(), described(kind(*field), field.doc()));
    let mut properties: Vec<_> = LogField::ALL.iter().map(field).collect();
    for (name, doc) in [
        ("request_headers", "Header fields of the request that the log is to have."),
        ("response_headers", "Header fields of the response that the log is to have."),
        ("claims", "Claims of the verified token that the log is to have."),
    ] {
        let texts = [
            ("type", Json::text("object")),
            ("description", Json::text(doc)),
            ("additionalProperties", Json::object([("type", Json::text("string"))])),
        ];
        properties.push((name.to_owned(), Json::object(texts)));
    }
    let required = ALWAYS.iter().map(|field| Json::text(field.name()));
    Json::object([
        ("$schema", Json::text("https://json-schema.org/draft/2020-12/schema")),
        ("title", Json::text("Record of an exchange")),
        (
            "description",
            Json::text("A line of an access log. What there was not is not there. More may come."),
        ),
        ("type", Json::text("object")),
        ("properties", Json::Object(properties)),
        ("required", Json::List(required.collect())),
    ])
    .pretty()
}

/// What every record has.
const ALWAYS: &[LogField] = &[
    LogField::Time,
    LogField::Event,
    LogField::Protocol,
    LogField::Scheme,
    LogField::RequestBytes,
    LogField::ResponseBytes,
    LogField::DurationMs,
    LogField::Complete,
];

/// The type of a field in JSON.
fn kind(field: LogField) -> &'static str {
    match field {
        LogField::Attempts
        | LogField::Status
        | LogField::UpstreamStatus
        | LogField::RequestBytes
        | LogField::ResponseBytes => "integer",
        LogField::HeadMs
        | LogField::PoliciesMs
        | LogField::QueueMs
        | LogField::ConnectMs
        | LogField::TlsMs
        | LogField::UpstreamHeadMs
        | LogField::DurationMs => "number",
        LogField::Complete => "boolean",
        LogField::Time
        | LogField::Event
        | LogField::Listener
        | LogField::Protocol
        | LogField::TlsVersion
        | LogField::Sni
        | LogField::Client
        | LogField::Peer
        | LogField::Method
        | LogField::Scheme
        | LogField::Host
        | LogField::Path
        | LogField::Query
        | LogField::Route
        | LogField::Upstream
        | LogField::Endpoint
        | LogField::Error
        | LogField::CausedBy
        | LogField::RefusedBy
        | LogField::TokenCache
        | LogField::AuthCache
        | LogField::RequestId
        | LogField::TraceId
        | LogField::UserAgent
        | LogField::Referer => "string",
    }
}
