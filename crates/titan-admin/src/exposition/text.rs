//! The page in either of the text formats that scrapers read. They differ in little, and only here.
//!
//! | | Prometheus text format 0.0.4 | OpenMetrics 1.0 |
//! |---|---|---|
//! | the family of a counter | is named as its samples are | has no `_total` |
//! | what is always 1, and only there for its labels | a gauge | an `info`, whose family has no `_info` |
//! | unit | - | `# UNIT`, which ends the name as well |
//! | quotes in a help text | as they are | escaped |
//! | exemplars of buckets | - | behind their counts |
//! | end | - | `# EOF` |

use super::family::{Family, Kind, Unit, whole};
use crate::hex::hex;
use std::fmt::{Arguments, Display, Write};
use std::time::UNIX_EPOCH;
use titan_proxy::{Exemplar, HistogramSum};

/// The page as far as it has come.
pub(super) struct Text {
    page: String,
    dialect: Dialect,
}

/// Which of the formats it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Prometheus,
    OpenMetrics,
}

impl Text {
    /// An empty page.
    pub(super) fn new(dialect: Dialect) -> Text {
        Text { page: String::new(), dialect }
    }

    /// The page, complete.
    pub(super) fn finish(mut self) -> String {
        if self.dialect == Dialect::OpenMetrics {
            self.page.push_str("# EOF\n");
        }
        self.page
    }

    /// Begins a family; its samples follow.
    pub(super) fn begin(&mut self, family: Family) {
        let (name, kind) = match (self.dialect, family.kind) {
            (Dialect::Prometheus, Kind::Info) => (family.name, "gauge"),
            (Dialect::Prometheus, kind) => (family.name, kind.as_str()),
            (Dialect::OpenMetrics, kind) => (family.bare_name(), kind.as_str()),
        };
        self.push(format_args!("# TYPE {name} {kind}\n"));
        if let (Dialect::OpenMetrics, Some(unit)) = (self.dialect, family.unit()) {
            self.push(format_args!("# UNIT {name} {unit}\n"));
        }
        self.push(format_args!("# HELP {name} "));
        self.escape(family.help, self.dialect == Dialect::OpenMetrics);
        self.page.push('\n');
    }

    /// A sample of the family that was begun last.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
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
        let start = self.page.len();
        self.labels(labels);
        // The same for each bucket, and short beside the page.
        let written = self.page.split_off(start);
        let open = written.strip_suffix('}').unwrap_or("{");
        let comma = if labels.is_empty() { "" } else { "," };
        let mut count = 0;
        let bounds = bounds.iter().map(|(_, words)| words.as_str()).chain(["+Inf"]);
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
        if self.dialect == Dialect::OpenMetrics {
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

#[cfg(test)]
mod tests {
    use super::*;
    use titan_proxy::{Durations, Sizes};

    #[test]
    fn special_bytes_are_escaped_where_the_format_says_so() {
        for (dialect, quote) in [(Dialect::Prometheus, "\""), (Dialect::OpenMetrics, "\\\"")] {
            let mut text = Text::new(dialect);
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
            let mut text = Text::new(Dialect::Prometheus);
            text.histogram(family, labels, &Unit::of::<Sizes>(), &all, &[]);
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
        let bounds = Unit::of::<Durations>().bounds.map(|(_, words)| words);
        assert_eq!(bounds[..4], ["0.00025", "0.0005", "0.001", "0.0025"]);
        assert_eq!(bounds.last().unwrap(), "10.0");
    }
}
