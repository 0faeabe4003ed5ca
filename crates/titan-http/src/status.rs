//! Status codes (RFC 9110 section 15).

use std::fmt;

/// A three-digit status code from 100 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal $reason:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Status = Status($code);)*

            /// The reason phrase that the registry gives, or an empty one.
            pub fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    /// 100: the request body may be sent.
    CONTINUE = 100 "Continue";
    /// 101: what follows is another protocol.
    SWITCHING_PROTOCOLS = 101 "Switching Protocols";
    /// 103: fields that the final response will probably have.
    EARLY_HINTS = 103 "Early Hints";
    /// 200.
    OK = 200 "OK";
    /// 201.
    CREATED = 201 "Created";
    /// 202.
    ACCEPTED = 202 "Accepted";
    /// 204: no content, never a body.
    NO_CONTENT = 204 "No Content";
    /// 206.
    PARTIAL_CONTENT = 206 "Partial Content";
    /// 301.
    MOVED_PERMANENTLY = 301 "Moved Permanently";
    /// 302.
    FOUND = 302 "Found";
    /// 303.
    SEE_OTHER = 303 "See Other";
    /// 304: not modified, never a body.
    NOT_MODIFIED = 304 "Not Modified";
    /// 307.
    TEMPORARY_REDIRECT = 307 "Temporary Redirect";
    /// 308.
    PERMANENT_REDIRECT = 308 "Permanent Redirect";
    /// 400.
    BAD_REQUEST = 400 "Bad Request";
    /// 401.
    UNAUTHORIZED = 401 "Unauthorized";
    /// 403.
    FORBIDDEN = 403 "Forbidden";
    /// 404.
    NOT_FOUND = 404 "Not Found";
    /// 405.
    METHOD_NOT_ALLOWED = 405 "Method Not Allowed";
    /// 408: the request did not arrive in time.
    REQUEST_TIMEOUT = 408 "Request Timeout";
    /// 409.
    CONFLICT = 409 "Conflict";
    /// 412: the resource is not in the state that the request is for.
    PRECONDITION_FAILED = 412 "Precondition Failed";
    /// 413: the body exceeds its limit.
    CONTENT_TOO_LARGE = 413 "Content Too Large";
    /// 414: the target exceeds its limit.
    URI_TOO_LONG = 414 "URI Too Long";
    /// 415: the content is of a type, or in a coding, that is not taken.
    UNSUPPORTED_MEDIA_TYPE = 415 "Unsupported Media Type";
    /// 416: the content does not have that part.
    RANGE_NOT_SATISFIABLE = 416 "Range Not Satisfiable";
    /// 417: an expectation other than 100-continue.
    EXPECTATION_FAILED = 417 "Expectation Failed";
    /// 421.
    MISDIRECTED_REQUEST = 421 "Misdirected Request";
    /// 422: the content is well-formed, and wrong.
    UNPROCESSABLE_CONTENT = 422 "Unprocessable Content";
    /// 426.
    UPGRADE_REQUIRED = 426 "Upgrade Required";
    /// 429.
    TOO_MANY_REQUESTS = 429 "Too Many Requests";
    /// 431: the head or its fields exceed their limit.
    FIELDS_TOO_LARGE = 431 "Request Header Fields Too Large";
    /// 500.
    INTERNAL_SERVER_ERROR = 500 "Internal Server Error";
    /// 501: a method or transfer coding that is not understood.
    NOT_IMPLEMENTED = 501 "Not Implemented";
    /// 502: the upstream sent no valid response.
    BAD_GATEWAY = 502 "Bad Gateway";
    /// 503: no endpoint or no capacity for the request.
    SERVICE_UNAVAILABLE = 503 "Service Unavailable";
    /// 504: the upstream did not respond in time.
    GATEWAY_TIMEOUT = 504 "Gateway Timeout";
    /// 505: a major version that is not served.
    VERSION_NOT_SUPPORTED = 505 "HTTP Version Not Supported";
}

impl Status {
    /// A status from its code; `None` outside 100 to 599.
    pub fn from_code(code: u16) -> Option<Status> {
        (100..=599).contains(&code).then_some(Status(code))
    }

    /// The number.
    pub fn code(self) -> u16 {
        self.0
    }

    /// The three digits as they are written.
    pub fn digits(self) -> [u8; 3] {
        let digit = |n: u16| b'0' + (n % 10) as u8;
        [digit(self.0 / 100), digit(self.0 / 10), digit(self.0)]
    }

    /// 1xx: another response follows.
    pub fn is_informational(self) -> bool {
        self.0 < 200
    }

    /// 2xx.
    pub fn is_success(self) -> bool {
        self.0 / 100 == 2
    }

    /// The first digit: 1 to 5.
    #[expect(clippy::cast_possible_truncation, reason = "a status is below 600")]
    pub fn class(self) -> u8 {
        (self.0 / 100) as u8
    }
}

impl Default for Status {
    fn default() -> Self {
        Status::OK
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_outside_the_five_classes_do_not_exist() {
        assert_eq!(Status::from_code(99), None);
        assert_eq!(Status::from_code(600), None);
        assert_eq!(Status::from_code(599).map(Status::class), Some(5));
    }

    #[test]
    fn digits_are_those_of_the_code() {
        for code in 100..600 {
            let status = Status::from_code(code).unwrap();
            assert_eq!(status.digits().as_slice(), code.to_string().as_bytes());
        }
    }
}
