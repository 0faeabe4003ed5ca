//! TLS with clients: handshakes, and how long certificates are good.

use super::text::{Family, Text};
use titan_proxy::{CertificateStatus, Metrics};

const HANDSHAKES: Family = Family::counter(
    "titan_tls_handshakes_total",
    "Complete TLS handshakes with clients, by version, and by whether an earlier session went on.",
);

const EXPIRY: Family = Family::gauge(
    "titan_tls_certificate_expiry_timestamp_seconds",
    "Unix time at which the certificate of a listener expires.",
);

impl Text {
    /// Those of listeners, by their files.
    pub(super) fn certificates(&mut self, certificates: &[CertificateStatus]) {
        if certificates.is_empty() {
            return;
        }
        self.begin(EXPIRY);
        for CertificateStatus { listener, expiry } in certificates {
            let file = expiry.file.display().to_string();
            let labels = [("listener", listener.as_str()), ("certificate", file.as_str())];
            self.sample(EXPIRY.name, &labels, expiry.expires);
        }
    }

    /// The handshakes of each worker.
    pub(super) fn handshakes(&mut self, metrics: &Metrics) {
        self.begin(HANDSHAKES);
        for (worker, cells) in metrics.workers().iter().enumerate() {
            let worker = worker.to_string();
            for (version, of_version) in ["1.2", "1.3"].into_iter().zip(&cells.handshakes) {
                for (resumption, count) in ["full", "resumed"].into_iter().zip(of_version) {
                    let labels = [
                        ("worker", worker.as_str()),
                        ("version", version),
                        ("resumption", resumption),
                    ];
                    self.sample(HANDSHAKES.name, &labels, count.get());
                }
            }
        }
    }
}
