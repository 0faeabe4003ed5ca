//! The page in messages of Protocol Buffers, `io.prometheus.client.MetricFamily`, each behind its length. They have what the text
//! has, and native histograms besides the buckets of others.

use super::family::{Family, Kind, Unit, whole};
use crate::hex::hex;
use std::time::UNIX_EPOCH;
use titan_io::protobuf::{bytes, delimit, double, message, number, signed};
use titan_proxy::{Exemplar, Native, PartSum, Scale};

/// The page as far as it has come.
#[derive(Default)]
pub(super) struct Messages {
    page: Vec<u8>,
    /// Where the fields of the family begin that was begun last: they go up to the end.
    family: usize,
    kind: Kind,
    /// Whether it has any metric.
    is_any: bool,
}

/// The fields of a `MetricFamily`, and of a `Metric`.
mod field {
    pub(super) const NAME: u64 = 1;
    pub(super) const HELP: u64 = 2;
    pub(super) const TYPE: u64 = 3;
    pub(super) const METRIC: u64 = 4;
    pub(super) const UNIT: u64 = 5;

    pub(super) const LABEL: u64 = 1;
    pub(super) const GAUGE: u64 = 2;
    pub(super) const COUNTER: u64 = 3;
    pub(super) const HISTOGRAM: u64 = 7;
}

/// The fields of a `Histogram`.
mod histogram {
    pub(super) const COUNT: u64 = 1;
    pub(super) const SUM: u64 = 2;
    pub(super) const BUCKET: u64 = 3;
    pub(super) const SCHEMA: u64 = 5;
    pub(super) const ZERO_THRESHOLD: u64 = 6;
    pub(super) const ZERO_COUNT: u64 = 7;
    pub(super) const SPAN: u64 = 12;
    pub(super) const DELTA: u64 = 13;
}

/// The fields of a `Bucket`.
mod bucket {
    pub(super) const COUNT: u64 = 1;
    pub(super) const BOUND: u64 = 2;
    pub(super) const EXEMPLAR: u64 = 3;
}

/// The fields of an `Exemplar`.
mod exemplar {
    pub(super) const LABEL: u64 = 1;
    pub(super) const VALUE: u64 = 2;
    pub(super) const TIME: u64 = 3;
}

impl Messages {
    /// The page, complete.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.end();
        self.page
    }

    /// Begins a family; its samples follow.
    pub(super) fn begin(&mut self, family: Family) {
        self.end();
        let out = &mut self.page;
        bytes(field::NAME, family.name.as_bytes(), out);
        bytes(field::HELP, family.help.as_bytes(), out);
        number(field::TYPE, of_type(family.kind), out);
        if let Some(unit) = family.unit() {
            bytes(field::UNIT, unit.as_bytes(), out);
        }
        self.kind = family.kind;
    }

    /// Ends the family that was begun last. One without metrics is left out: it would say nothing.
    fn end(&mut self) {
        match self.is_any {
            true => delimit(self.family, &mut self.page),
            false => self.page.truncate(self.family),
        }
        self.family = self.page.len();
        self.is_any = false;
    }

    /// A sample of the family that was begun last.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: f64) {
        let field = match self.kind {
            Kind::Counter => field::COUNTER,
            Kind::Gauge | Kind::Info | Kind::Histogram => field::GAUGE,
        };
        self.metric(labels, |out| message(field, out, |out| double(1, value, out)));
    }

    /// A histogram of the family that was begun last. Where there are exemplars, they are those of its buckets.
    pub(super) fn histogram<S: Scale>(
        &mut self,
        labels: &[(&str, &str)],
        unit: &Unit,
        all: &PartSum<S>,
        exemplars: &[Option<Exemplar>],
    ) {
        let (fixed, native) = (all.buckets(), all.native());
        self.metric(labels, |out| {
            message(field::HISTOGRAM, out, |out| {
                number(histogram::COUNT, fixed.buckets.iter().sum(), out);
                double(histogram::SUM, whole(fixed.sum) / unit.per, out);
                buckets(&fixed.buckets, unit, exemplars, out);
                native_buckets::<S>(&native, out);
            });
        });
    }

    fn metric(&mut self, labels: &[(&str, &str)], write: impl FnOnce(&mut Vec<u8>)) {
        self.is_any = true;
        message(field::METRIC, &mut self.page, |out| {
            labels.iter().for_each(|(name, value)| label(field::LABEL, name, value, out));
            write(out);
        });
    }
}

/// The number of a `MetricType`.
fn of_type(kind: Kind) -> u64 {
    match kind {
        Kind::Counter => 0,
        Kind::Gauge | Kind::Info => 1,
        Kind::Histogram => 4,
    }
}

fn label(field: u64, name: &str, value: &str, out: &mut Vec<u8>) {
    message(field, out, |out| {
        bytes(1, name.as_bytes(), out);
        bytes(2, value.as_bytes(), out);
    });
}

/// Those with fixed bounds, each with all below it.
fn buckets(counts: &[u64], unit: &Unit, exemplars: &[Option<Exemplar>], out: &mut Vec<u8>) {
    let bounds = unit.bounds.iter().map(|(bound, _)| *bound).chain([f64::INFINITY]);
    let mut count = 0;
    for (place, (bound, more)) in bounds.zip(counts).enumerate() {
        count += more;
        message(histogram::BUCKET, out, |out| {
            number(bucket::COUNT, count, out);
            double(bucket::BOUND, bound, out);
            if let Some(exemplar) = exemplars.get(place).copied().flatten() {
                message(bucket::EXEMPLAR, out, |out| of_exemplar(&exemplar, unit, out));
            }
        });
    }
}

fn of_exemplar(exemplar: &Exemplar, unit: &Unit, out: &mut Vec<u8>) {
    let Exemplar { trace, value, at } = *exemplar;
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    label(exemplar::LABEL, "trace_id", &hex(trace), out);
    double(exemplar::VALUE, whole(value) / unit.per, out);
    message(exemplar::TIME, out, |out| {
        number(1, at.as_secs(), out);
        number(2, at.subsec_nanos().into(), out);
    });
}

/// The exponential ones: a span for those that follow each other, and each count as its difference from the one before.
fn native_buckets<S: Scale>(native: &Native, out: &mut Vec<u8>) {
    let exponential = S::EXPONENTIAL;
    signed(histogram::SCHEMA, exponential.schema.into(), out);
    double(histogram::ZERO_THRESHOLD, exponential.zero_threshold(), out);
    number(histogram::ZERO_COUNT, native.zero, out);
    let mut next = 0;
    for span in native.buckets.chunk_by(|(one, _), (other, _)| one + 1 == *other) {
        let (first, length) = (span[0].0, span.len());
        message(histogram::SPAN, out, |out| {
            signed(1, i64::from(first - next), out);
            number(2, length as u64, out);
        });
        next = span[length - 1].0 + 1;
    }
    let mut before = 0_u64;
    for (_, count) in &native.buckets {
        signed(histogram::DELTA, count.wrapping_sub(before).cast_signed(), out);
        before = *count;
    }
}
