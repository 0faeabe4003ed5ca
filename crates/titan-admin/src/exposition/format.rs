//! The formats of the page, and which of them a client gets.

use titan_http::Fields;
use titan_http::media_range::Welcome;

/// A format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Messages `io.prometheus.client.MetricFamily` of Protocol Buffers, each behind its length: with native histograms.
    Messages,
}

impl Format {
    /// The first one is for clients that do not care. Of two that are as welcome the earlier one is meant.
    const ALL: [Format; 3] = [Format::Prometheus, Format::OpenMetrics, Format::Messages];

    /// The one that a client with these fields prefers.
    pub(crate) fn of(fields: &Fields) -> Format {
        let [mut best, others @ ..] = Format::ALL.map(|it| (it.welcome(fields), it));
        for other in others {
            if other.0 > best.0 {
                best = other;
            }
        }
        best.1
    }

    fn welcome(self, fields: &Fields) -> Welcome {
        match self {
            Format::Prometheus => Welcome::of(fields, "text/plain", &[("version", "0.0.4")]),
            Format::OpenMetrics => {
                Welcome::of(fields, "application/openmetrics-text", &[("version", "1.0.0")])
            }
            Format::Messages => {
                let parameters =
                    [("proto", "io.prometheus.client.MetricFamily"), ("encoding", "delimited")];
                Welcome::of(fields, "application/vnd.google.protobuf", &parameters)
            }
        }
    }

    /// What its page is, for `Content-Type`.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Messages => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_http::FieldName;

    #[test]
    fn clients_get_what_they_prefer() {
        let open = "application/openmetrics-text";
        let messages = "application/vnd.google.protobuf";
        let families = format!("{messages};proto=io.prometheus.client.MetricFamily");
        for (accept, wanted) in [
            (String::new(), Format::Prometheus),
            ("*/*".into(), Format::Prometheus),
            ("text/html, image/png".into(), Format::Prometheus),
            (open.into(), Format::OpenMetrics),
            (format!("{open}; version=1.0.0"), Format::OpenMetrics),
            (format!("{open}; version=\"1.0.0\"; charset=utf-8, */*"), Format::OpenMetrics),
            (format!("{open};version=0.0.1, text/plain;q=0.1"), Format::Prometheus),
            (format!("{open};version=2.0.0"), Format::Prometheus),
            (format!("{open};q=0.5, text/plain;q=0.6"), Format::Prometheus),
            (format!("{open};q=0.6, text/plain;q=0.5"), Format::OpenMetrics),
            (format!("{open};q=0, */*;q=0.1"), Format::Prometheus),
            ("application/*, text/plain;q=0.9".into(), Format::OpenMetrics),
            (format!("{families};encoding=delimited"), Format::Messages),
            (format!("{families}; encoding=\"delimited\"; escaping=allow-utf-8"), Format::Messages),
            (format!("{families};encoding=text, text/plain;q=0.1"), Format::Prometheus),
            (format!("{families};encoding=compact-text, {open};q=0.1"), Format::OpenMetrics),
            (format!("{messages};proto=other;encoding=delimited"), Format::Prometheus),
            (format!("{families};encoding=delimited;q=0.5, {open}"), Format::OpenMetrics),
            (format!("{families};encoding=delimited;q=0, */*;q=0.1"), Format::Prometheus),
            (format!("{families};encoding=delimited, {open};version=1.0.0"), Format::OpenMetrics),
            // What Prometheus 2.42 and 3.0 send.
            (
                format!(
                    "{open};version=1.0.0,{open};version=0.0.1;q=0.75,\
                     text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
                ),
                Format::OpenMetrics,
            ),
            (
                format!(
                    "{open};version=1.0.0;escaping=allow-utf-8;q=0.5,{open};version=0.0.1;q=0.4,\
                     text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
                ),
                Format::OpenMetrics,
            ),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1".into(), Format::Prometheus),
            // What they send if they are to have native histograms.
            (
                format!(
                    "{families};encoding=delimited,{open};version=1.0.0;q=0.8,{open};version=0.0.1;q=0.75,\
                     text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
                ),
                Format::Messages,
            ),
            (
                format!(
                    "{families};encoding=delimited;q=0.6,{open};version=1.0.0;escaping=allow-utf-8;q=0.5,\
                     {open};version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
                     text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
                ),
                Format::Messages,
            ),
        ] {
            let mut fields = Fields::default();
            if !accept.is_empty() {
                fields.append(FieldName::Accept, accept.as_bytes()).unwrap();
            }
            assert_eq!(Format::of(&fields), wanted, "{accept}");
        }
    }
}
