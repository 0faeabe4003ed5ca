//! What a page says of metrics, whatever its format: families, units and figures.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;
use titan_proxy::{BUCKETS, Counted, Histogram, HistogramSum, PartSum, Scale};

/// Metrics of one name.
#[derive(Clone, Copy)]
pub(super) struct Family {
    /// That of its samples, to which a histogram adds.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) help: &'static str,
}

/// What metrics are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    #[default]
    Gauge,
    Histogram,
    Info,
}

/// The unit that a histogram is shown in.
pub(super) struct Unit {
    /// The bounds of its buckets in that unit, as numbers, and in words which are the same in both text formats.
    pub(super) bounds: [(f64, String); BUCKETS - 1],
    /// How much of what it counts in makes one.
    pub(super) per: f64,
}

/// A histogram of one thing, or of those that are added up.
pub(super) struct Distribution<'s, T, S> {
    /// By buckets.
    pub(super) sum: &'s HistogramSum,
    /// The thing, if it is one.
    pub(super) of: Option<&'s Counted<T>>,
    pub(super) which: fn(&T) -> &Histogram<S>,
}

/// The number of a sample.
pub(super) trait Figure: Display {
    fn as_float(&self) -> f64;
}

/// How many series a histogram is. A native one takes the place of its buckets.
pub(super) const SERIES: usize = BUCKETS + 2;

/// The units of metrics, by the ends of their names.
const UNITS: [&str; 3] = ["seconds", "bytes", "ratio"];

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
    pub(super) fn bare_name(self) -> &'static str {
        let end = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        self.name.strip_suffix(end).unwrap_or(self.name)
    }

    /// The unit, which is the end of its name.
    pub(super) fn unit(self) -> Option<&'static str> {
        let (_, last) = self.bare_name().rsplit_once('_')?;
        UNITS.into_iter().find(|unit| *unit == last)
    }
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        }
    }
}

impl Unit {
    /// That of a scale.
    pub(super) fn of<S: Scale>() -> Unit {
        let per = S::EXPONENTIAL.per;
        let bounds = S::BOUNDS.map(|bound| whole(bound) / per);
        Unit { bounds: bounds.map(|bound| (bound, format!("{bound:?}"))), per }
    }
}

impl<T: Default, S: Scale + 'static> Distribution<'_, T, S> {
    /// By the parts of its scale. Workers count by parts from then on, but for things that are added up: a page has only so many
    /// others, and that bounds the memory.
    pub(super) fn by_parts(&self) -> PartSum<S> {
        let Some(one) = self.of else { return PartSum::from(*self.sum) };
        one.divide(self.which);
        let mut sum = PartSum::default();
        one.workers().map(self.which).for_each(|it| sum.add(it));
        sum
    }
}

/// Things by their names. None of them has that of what is added up.
pub(super) fn by_name<T>(things: &[Arc<Counted<T>>]) -> HashMap<&str, &Counted<T>> {
    things.iter().map(|it| (it.name(), &**it)).collect()
}

impl Figure for f64 {
    fn as_float(&self) -> f64 {
        *self
    }
}

impl Figure for u64 {
    fn as_float(&self) -> f64 {
        whole(*self)
    }
}

impl Figure for usize {
    fn as_float(&self) -> f64 {
        whole(*self as u64)
    }
}

impl Figure for i64 {
    #[expect(clippy::cast_precision_loss, reason = "times of the next million years are exact")]
    fn as_float(&self) -> f64 {
        *self as f64
    }
}

impl Figure for u8 {
    fn as_float(&self) -> f64 {
        (*self).into()
    }
}

impl<F: Figure> Figure for &F {
    fn as_float(&self) -> f64 {
        F::as_float(self)
    }
}

/// A whole number as a figure.
#[expect(clippy::cast_precision_loss, reason = "a microsecond in 285 years does not matter")]
pub(super) fn whole(count: u64) -> f64 {
    count as f64
}

/// Microseconds as seconds.
pub(super) fn seconds(micros: u64) -> f64 {
    whole(micros) / 1e6
}
