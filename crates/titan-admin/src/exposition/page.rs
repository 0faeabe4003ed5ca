//! The page as it grows: what is written once for all formats.

use super::family::{Distribution, Family, Figure, SERIES, Unit};
use super::format::Format;
use super::messages::Messages;
use super::text::{Dialect, Text};
use titan_proxy::{Exemplar, Scale};

/// The page as far as it has come.
pub(super) struct Page {
    written: Written,
    /// How many samples it has.
    series: usize,
}

/// It in its format.
enum Written {
    Text(Text),
    Messages(Messages),
}

impl Page {
    /// An empty page.
    pub(super) fn new(format: Format) -> Page {
        let written = match format {
            Format::Prometheus => Written::Text(Text::new(Dialect::Prometheus)),
            Format::OpenMetrics => Written::Text(Text::new(Dialect::OpenMetrics)),
            Format::Messages => Written::Messages(Messages::default()),
        };
        Page { written, series: 0 }
    }

    /// The page, complete.
    pub(super) fn finish(self) -> Vec<u8> {
        match self.written {
            Written::Text(text) => text.finish().into_bytes(),
            Written::Messages(messages) => messages.finish(),
        }
    }

    /// How many series it has so far.
    pub(super) fn series(&self) -> usize {
        self.series
    }

    /// Begins a family; its samples follow.
    pub(super) fn begin(&mut self, family: Family) {
        match &mut self.written {
            Written::Text(text) => text.begin(family),
            Written::Messages(messages) => messages.begin(family),
        }
    }

    /// A family of one sample.
    pub(super) fn single(&mut self, family: Family, value: impl Figure) {
        self.begin(family);
        self.sample(family.name, &[], value);
    }

    /// A sample of the family that was begun last, which has that name.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Figure) {
        self.series += 1;
        match &mut self.written {
            Written::Text(text) => text.sample(name, labels, value),
            Written::Messages(messages) => messages.sample(labels, value.as_float()),
        }
    }

    /// A histogram of the family that was begun last. Where there are exemplars, they are those of its buckets.
    pub(super) fn histogram<T: Default, S: Scale + 'static>(
        &mut self,
        family: Family,
        labels: &[(&str, &str)],
        unit: &Unit,
        all: &Distribution<'_, T, S>,
        exemplars: &[Option<Exemplar>],
    ) {
        self.series += SERIES;
        match &mut self.written {
            Written::Text(text) => text.histogram(family, labels, unit, all.sum, exemplars),
            Written::Messages(messages) => {
                messages.histogram(labels, unit, &all.by_parts(), exemplars);
            }
        }
    }
}
