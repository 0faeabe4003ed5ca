//! Why a handshake of QUIC has failed. Alerts of TLS are codes of QUIC (RFC 9001 section 4.8).

use crate::tls::Refused;
use quinn_proto::ConnectionError;
use rustls::AlertDescription;
use std::ops::RangeInclusive;

/// Where alerts begin among the codes of QUIC.
const ALERTS: u64 = 0x100;
/// The alerts of RFC 8446 section 6.2: certificate_required, and bad_certificate to access_denied.
const CERTIFICATE_REQUIRED: u64 = ALERTS + 116;
const OF_CERTIFICATES: RangeInclusive<u64> = ALERTS + 42..=ALERTS + 49;

/// What the end of a connection says of its handshake.
pub(super) fn refused(lost: Option<&ConnectionError>) -> Refused {
    match lost {
        // This side has sent it.
        Some(ConnectionError::TransportError(error)) => match u64::from(error.code) {
            CERTIFICATE_REQUIRED => Refused::NoCertificate,
            code if OF_CERTIFICATES.contains(&code) => Refused::Certificate(error.reason.clone()),
            _ => Refused::Failed(error.to_string()),
        },
        // The client has. What it says of an alert is what TLS over TCP says.
        Some(ConnectionError::ConnectionClosed(close)) => {
            let alert = u64::from(close.error_code).checked_sub(ALERTS);
            Refused::Failed(match alert.and_then(|alert| u8::try_from(alert).ok()) {
                Some(alert) => format!("received fatal alert: {:?}", AlertDescription::from(alert)),
                None => format!("the client has closed the connection: {close}"),
            })
        }
        _ => Refused::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quinn_proto::{ConnectionClose, TransportError, TransportErrorCode};

    #[test]
    fn alerts_say_why_a_handshake_has_failed() {
        let told = |lost: ConnectionError| match refused(Some(&lost)) {
            Refused::NoCertificate => "none".to_owned(),
            Refused::Certificate(why) => format!("certificate: {why}"),
            Refused::Failed(why) => format!("failed: {why}"),
            _ => "gone".to_owned(),
        };
        let alert = |alert| {
            let (code, frame) = (TransportErrorCode::crypto(alert), None);
            let reason = "why".to_owned();
            ConnectionError::TransportError(TransportError { code, frame, reason })
        };
        assert_eq!(told(alert(116)), "none");
        assert_eq!([42, 45, 48].map(|it| told(alert(it))), ["certificate: why"; 3]);
        assert!(told(alert(40)).starts_with("failed: "), "handshake_failure");
        let (error_code, reason) = (TransportErrorCode::crypto(42), Bytes::from_static(b"yours"));
        let close = ConnectionClose { error_code, frame_type: None, reason };
        let of_client = told(ConnectionError::ConnectionClosed(close.clone()));
        assert_eq!(of_client, "failed: received fatal alert: BadCertificate");
        let close = ConnectionClose { error_code: TransportErrorCode::INTERNAL_ERROR, ..close };
        let of_client = told(ConnectionError::ConnectionClosed(close));
        assert!(
            of_client.starts_with("failed: the client has closed the connection: "),
            "{of_client}"
        );
        assert_eq!(told(ConnectionError::TimedOut), "gone");
    }
}
