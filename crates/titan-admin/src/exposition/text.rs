//! The page as it grows, in either of the formats that scrapers read. They differ in little, and only here.
//!
//! | | Prometheus text format 0.0.4 | OpenMetrics 1.0 |
//! |---|---|---|
//! | the family of a counter | is named as its samples are | has no `_total` |
//! | what is always 1, and only there for its labels | a gauge | an `info`, whose family has no `_info` |
//! | unit | - | `# UNIT`, which ends the name as well |
//! | quotes in a help text | as they are | escaped |
//! | exemplars of buckets | - | behind their counts |
//! | end | - | `# EOF` |

use crate::hex::hex;
use std::fmt::{Arguments, Display, Write};
use std::time::UNIX_EPOCH;
use titan_http::Fields;
use titan_http::media_range::Welcome;
use titan_proxy::{BUCKETS, Durations, Exemplar, HistogramSum, Scale, Sizes};

/// A format of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// The Prometheus text format 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

/// Metrics of one name.
#[derive(Clone, Copy)]
pub(super) struct Family {
    /// That of its samples, to which a histogram adds.
    pub(super) name: &'static str,
    kind: Kind,
    help: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// What a histogram is shown in.
pub(super) struct Unit {
    /// The bounds of its buckets, in the same words in both formats.
    bounds: Vec<String>,
    /// How much of what it counts in makes one.
    per: f64,
}

/// The page as far as it has come.
pub(super) struct Text {
    page: String,
    format: Format,
    /// How many samples it has.
    series: usize,
}

/// How many series a histogram is.
pub(super) const SERIES: usize = BUCKETS + 2;

/// The units of metrics, by the ends of their names.
const UNITS: [&str; 3] = ["seconds", "bytes", "ratio"];

impl Format {
    /// The one that a client with these fields prefers: that of Prometheus, unless it asks for the other one.
    pub(crate) fn of(fields: &Fields) -> Format {
        let welcome = |it: Format| {
            let (media_type, version) = it.names();
            Welcome::of(fields, media_type, &[("version", version)])
        };
        match welcome(Format::OpenMetrics) > welcome(Format::Prometheus) {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        }
    }

    /// What its page is, for `Content-Type`.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Its media type, and its version.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Format::Prometheus => ("text/plain", "0.0.4"),
            Format::OpenMetrics => ("application/openmetrics-text", "1.0.0"),
        }
    }
}

impl Family {
    /// What only grows; its name ends in `_total`.
    pub(super) const fn counter(name: &'static str, help: &'static str) -> Family {
        Family { name, kind: Kind::Counter, help }
    }

    /// What grows and shrinks.
    pub(super) const fn gauge(name: &'static str, help: &'static str) -> Family {
        Family { name, kind: Kind::Gauge, help }
    }

    /// What is sorted into buckets.
    pub(super) const fn histogram(name: &'static str, help: &'static str) -> Family {
        Family { name, kind: Kind::Histogram, help }
    }

    /// What is always 1, and tells something by its labels; its name ends in `_info`.
    pub(super) const fn info(name: &'static str, help: &'static str) -> Family {
        Family { name, kind: Kind::Info, help }
    }

    /// What OpenMetrics calls the family.
    fn bare_name(self) -> &'static str {
        let end = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.name.strip_suffix(end).unwrap_or(self.name)
    }

    fn unit(self) -> Option<&'static str> {
        let (_, last) = self.bare_name().rsplit_once('_')?;
        UNITS.into_iter().find(|unit| *unit == last)
    }
}

impl Unit {
    /// Seconds.
    pub(super) fn seconds() -> Unit {
        Unit::of::<Durations>(1e6)
    }

    /// Bytes.
    pub(super) fn bytes() -> Unit {
        Unit::of::<Sizes>(1.0)
    }

    fn of<S: Scale>(per: f64) -> Unit {
        let bounds = S::BOUNDS.iter().map(|&bound| format!("{:?}", whole(bound) / per));
        Unit { bounds: bounds.collect(), per }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a microsecond in 285 years does not matter")]
fn whole(count: u64) -> f64 {
    count as f64
}

/// Microseconds as seconds.
pub(super) fn seconds(micros: u64) -> f64 {
    whole(micros) / 1e6
}

impl Text {
    /// An empty page.
    pub(super) fn new(format: Format) -> Text {
        Text { page: String::new(), format, series: 0 }
    }

    /// The page, complete.
    pub(super) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.page.push_str("# EOF\n");
        }
        self.page
    }

    /// How many series it has so far.
    pub(super) fn series(&self) -> usize {
        self.series
    }

    /// Begins a family; its samples follow.
    pub(super) fn begin(&mut self, family: Family) {
        let (name, kind) = match (self.format, family.kind) {
            (Format::Prometheus, Kind::Info) => (family.name, "gauge"),
            (Format::Prometheus, kind) => (family.name, kind.as_str()),
            (Format::OpenMetrics, kind) => (family.bare_name(), kind.as_str()),
        };
        self.push(format_args!("# TYPE {name} {kind}\n"));
        if let (Format::OpenMetrics, Some(unit)) = (self.format, family.unit()) {
            self.push(format_args!("# UNIT {name} {unit}\n"));
        }
        self.push(format_args!("# HELP {name} "));
        self.escape(family.help, self.format == Format::OpenMetrics);
        self.page.push('\n');
    }

    /// A family of one sample.
    pub(super) fn single(&mut self, family: Family, value: impl Display) {
        self.begin(family);
        self.sample(family.name, &[], value);
    }

    /// A sample of the family that was begun last.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.series += 1;
        self.page.push_str(name);
        self.labels(labels);
        self.push(format_args!(" {value}\n"));
    }

    /// A histogram of the family that was begun last. Where there are exemplars, they are those of its buckets.
    pub(super) fn histogram(
        &mut self,
        family: Family,
        labels: &[(&str, &str)],
        unit: &Unit,
        all: &HistogramSum,
        exemplars: &[Option<Exemplar>],
    ) {
        let (Family { name, .. }, Unit { bounds, per }) = (family, unit);
        self.series += SERIES;
        let start = self.page.len();
        self.labels(labels);
        // The same for each bucket, and short beside the page.
        let written = self.page.split_off(start);
        let open = written.strip_suffix('}').unwrap_or("{");
        let comma = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        let bounds = bounds.iter().map(String::as_str).chain(["+Inf"]);
        for (bucket, (bound, more)) in bounds.zip(all.buckets).enumerate() {
            count += more;
            for part in [name, "_bucket", open, comma, "le=\"", bound] {
                self.page.push_str(part);
            }
            self.push(format_args!("\"}} {count}"));
            self.exemplar(exemplars.get(bucket).copied().flatten(), *per);
            self.page.push('\n');
        }
        let sum = whole(all.sum) / per;
        self.push(format_args!("{name}_sum{written} {sum}\n{name}_count{written} {count}\n"));
    }

    /// Behind the count of a bucket, in the format that has them.
    fn exemplar(&mut self, exemplar: Option<Exemplar>, per: f64) {
        let Some(Exemplar { trace, value, at }) = exemplar else { return };
        if self.format == Format::OpenMetrics {
            let (value, at) = (whole(value) / per, at.duration_since(UNIX_EPOCH));
            let (trace, at) = (hex(trace), at.unwrap_or_default().as_secs_f64());
            self.push(format_args!(" # {{trace_id=\"{trace}\"}} {value} {at:.3}"));
        }
    }

    fn labels(&mut self, labels: &[(&str, &str)]) {
        for (place, (label, text)) in labels.iter().enumerate() {
            self.page.push(if place == 0 { '{' } else { ',' });
            self.page.push_str(label);
            self.page.push_str("=\"");
            self.escape(text, true);
            self.page.push('"');
        }
        if !labels.is_empty() {
            self.page.push('}');
        }
    }

    fn escape(&mut self, text: &str, quotes: bool) {
        let mut rest = text;
        while let Some(at) = rest.find(|c| matches!(c, '\\' | '\n') || c == '"' && quotes) {
            let (plain, special) = rest.split_at(at);
            self.page.push_str(plain);
            self.page.push_str(match special.as_bytes()[0] {
                b'\\' => "\\\\",
                b'\n' => "\\n",
                _ => "\\\"",
            });
            rest = &special[1..];
        }
        self.page.push_str(rest);
    }

    fn push(&mut self, text: Arguments<'_>) {
        self.page.write_fmt(text).expect("a String takes everything");
    }
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_http::FieldName;

    #[test]
    fn special_bytes_are_escaped_where_the_format_says_so() {
        for (format, quote) in [(Format::Prometheus, "\""), (Format::OpenMetrics, "\\\"")] {
            let mut text = Text::new(format);
            text.begin(Family::gauge("a", "b\\c\"d\ne"));
            text.sample("a", &[("b", "c\\d\"e\nfü")], 1);
            let help = format!("# TYPE a gauge\n# HELP a b\\\\c{quote}d\\ne\n");
            assert_eq!(text.page, help + "a{b=\"c\\\\d\\\"e\\nfü\"} 1\n");
        }
    }

    #[test]
    fn a_histogram_counts_on_from_bucket_to_bucket() {
        let family = Family::histogram("a_bytes", "b");
        let mut all = HistogramSum { sum: 7, ..HistogramSum::default() };
        (all.buckets[0], all.buckets[2]) = (1, 2);
        for (labels, open, without) in
            [(&[("b", "c")][..], "{b=\"c\",", "{b=\"c\"}"), (&[], "{", "")]
        {
            let mut text = Text::new(Format::Prometheus);
            text.histogram(family, labels, &Unit::bytes(), &all, &[]);
            let buckets = ["64.0\"} 1", "256.0\"} 1", "1024.0\"} 3"];
            let lines = buckets.map(|it| format!("a_bytes_bucket{open}le=\"{it}\n"));
            assert!(text.page.starts_with(&lines.concat()), "{}", text.page);
            let end = format!(
                "a_bytes_bucket{open}le=\"4294967296.0\"}} 3\na_bytes_bucket{open}le=\"+Inf\"}} 3\n\
                 a_bytes_sum{without} 7\na_bytes_count{without} 3\n"
            );
            assert!(text.page.ends_with(&end), "{}", text.page);
        }
    }

    #[test]
    fn bounds_are_written_exactly() {
        let Unit { bounds, .. } = Unit::seconds();
        assert_eq!(bounds[..4], ["0.00025", "0.0005", "0.001", "0.0025"]);
        assert_eq!(bounds.last().unwrap(), "10.0");
    }

    #[test]
    fn clients_get_what_they_prefer() {
        let open = "application/openmetrics-text";
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
        ] {
            let mut fields = Fields::default();
            if !accept.is_empty() {
                fields.append(FieldName::Accept, accept.as_bytes()).unwrap();
            }
            assert_eq!(Format::of(&fields), wanted, "{accept}");
        }
    }
}
