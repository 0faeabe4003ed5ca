//! The fields of a record of an exchange, by which formats name them.

/// Declares the fields, each once: its name in formats and in JSON, and what it says.
macro_rules! log_fields {
    ($($Field:ident $name:literal $doc:literal;)+) => {
        /// A field of a record of an exchange.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum LogField {
            $(#[doc = $doc] $Field,)+
        }

        impl LogField {
            /// Every field, in the order in which records have them.
            pub const ALL: &[LogField] = &[$(LogField::$Field,)+];

            /// Its name, in formats and in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(LogField::$Field => $name,)+
                }
            }

            /// What it says, in words.
            pub(crate) fn doc(self) -> &'static str {
                match self {
                    $(LogField::$Field => $doc,)+
                }
            }
        }
    };
}

log_fields! {
    Time "time" "When the head of the request was complete, in UTC (RFC 3339).";
    Event "event" "`request`; for a tunnel `tunnel_opened`, and `tunnel_closed` when it has ended; `connection` when one without HTTP has.";
    Listener "listener" "The name of the listener.";
    Protocol "protocol" "The version of HTTP that the client uses, such as `HTTP/1.1`; `TLS` and `TCP` for connections without HTTP.";
    TlsVersion "tls_version" "The version of TLS that the client uses, such as `TLSv1.3`.";
    Sni "sni" "The server name of the client's TLS handshake.";
    Client "client" "The address of the client, as far as trusted proxies tell.";
    Peer "peer" "The address that the connection comes from.";
    Method "method" "The method. Not there if the head of the request could not be read.";
    Scheme "scheme" "`http` or `https`; `tls` and `tcp` for connections without HTTP.";
    Host "host" "The host that the request is for, with its port if it has one. Not there if the head of the request could not be read.";
    Path "path" "The path as the client sent it. Not there if the head of the request could not be read.";
    Query "query" "The query, in a text with its `?`; values of parameters whose name tells that they are secret are `***`.";
    Route "route" "The name of the route.";
    Upstream "upstream" "The name of the upstream.";
    Endpoint "endpoint" "The address of the endpoint that was tried last.";
    Attempts "attempts" "How many times the request was sent to an endpoint, or was to be.";
    Status "status" "The status that the client got.";
    UpstreamStatus "upstream_status" "The status that the endpoint gave.";
    Error "error" "The code of the failure, as in problem documents.";
    CausedBy "caused_by" "Which side caused the failure: `client`, `upstream` or `gateway`.";
    RefusedBy "refused_by" "The name of the policy that refused the request.";
    TokenCache "token_cache" "`hit` if the token was known to be valid already, `miss` if it was checked; without a token there is none.";
    AuthCache "auth_cache" "The same of the decision of an authorization service.";
    RequestBytes "request_bytes" "The bytes of the request, head and body; heads of HTTP/2 and HTTP/3 as they are compressed.";
    ResponseBytes "response_bytes" "The bytes of the response, head and body; heads of HTTP/2 and HTTP/3 as they are compressed.";
    HeadMs "head_ms" "Milliseconds that the head of the request took.";
    PoliciesMs "policies_ms" "Milliseconds that policies took.";
    QueueMs "queue_ms" "Milliseconds of waiting for the upstream or for one of its connections.";
    ConnectMs "connect_ms" "Milliseconds that connecting to the endpoint took.";
    TlsMs "tls_ms" "Milliseconds that the TLS handshake with the endpoint took.";
    UpstreamHeadMs "upstream_head_ms" "Milliseconds from the start of the last attempt to the head of its response.";
    DurationMs "duration_ms" "Milliseconds from the complete head of the request to the end of the response.";
    RequestId "request_id" "The id of the request.";
    TraceId "trace_id" "The id of the trace.";
    UserAgent "user_agent" "The `User-Agent` of the request.";
    Referer "referer" "The `Referer` of the request, without its query.";
    Complete "complete" "Whether the client has all of the response: `true` or `false`.";
}
