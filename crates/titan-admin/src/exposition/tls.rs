//! TLS with clients: handshakes, and how long certificates are good.

use super::family::Family;
use super::folding::{Figures, Other, fold};
use super::page::Page;
use titan_proxy::{CertificateStatus, Metrics};

const HANDSHAKES: Family = Family::counter(
    "titan_tls_handshakes_total",
    "Complete TLS handshakes with clients, by version, and by whether an earlier session went on.",
);

const EXPIRY: Family = Family::gauge(
    "titan_tls_certificate_expiry_timestamp_seconds",
    "Unix time at which the certificate of a listener expires.",
);

/// When a certificate expires. Of several it is the first that counts.
#[derive(Clone, Copy)]
struct Expiry(i64);

impl Figures for Expiry {
    fn add(&mut self, other: &Expiry) {
        self.0 = self.0.min(other.0);
    }

    fn since(&self, _: &Expiry) -> Option<Expiry> {
        Some(*self)
    }

    fn count_on(&mut self, _: &Expiry) {}
}

impl Page {
    /// Those of listeners, by their files; so many with series of their own.
    pub(super) fn certificates(&mut self, certificates: &[CertificateStatus], own: usize) {
        if certificates.is_empty() {
            return;
        }
        let files: Vec<_> =
            certificates.iter().map(|it| it.validity.file.display().to_string()).collect();
        let all = certificates.iter().zip(&files).map(|(it, file)| {
            ([it.listener.as_str(), file.as_str()], Expiry(it.validity.expires()))
        });
        self.begin(EXPIRY);
        for ([listener, file], Expiry(expires)) in fold(all, own, &mut Other::default()) {
            let labels = [("listener", listener), ("certificate", file)];
            self.sample(EXPIRY.name, &labels, expires);
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
