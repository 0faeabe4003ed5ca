//! The page in messages, read by a reader of Protocol Buffers that follows the definition of `io.prometheus.client.MetricFamily`.

use super::folded::many;
use super::*;
use crate::exposition::folding::OTHER;
use prost::Message;
use titan_proxy::{Durations, Scale};

#[derive(Clone, PartialEq, Message)]
struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    metrics: Vec<Metric>,
    #[prost(string, optional, tag = "5")]
    unit: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
struct LabelPair {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Number {
    #[prost(double, optional, tag = "1")]
    value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    buckets: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    spans: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    deltas: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    bound: Option<f64>,
    #[prost(message, optional, tag = "3")]
    exemplar: Option<ExemplarOf>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(sint32, optional, tag = "1")]
    offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct ExemplarOf {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<LabelPair>,
    #[prost(double, optional, tag = "2")]
    value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    at: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
struct Timestamp {
    #[prost(int64, optional, tag = "1")]
    seconds: Option<i64>,
    #[prost(int32, optional, tag = "2")]
    nanos: Option<i32>,
}

impl MetricFamily {
    /// What the text has of it.
    fn given(&self) -> (String, Given) {
        let name = self.name.clone().unwrap();
        let kind = ["counter", "gauge", "", "", "histogram"][self.kind.unwrap() as usize];
        let mut samples = BTreeMap::new();
        for metric in &self.metrics {
            let Metric { labels, gauge, counter, histogram } = metric;
            let pair = |it: &LabelPair| {
                let [name, value] = [&it.name, &it.value].map(|it| it.clone().unwrap());
                format!("{name}=\"{value}\"")
            };
            let labels: Vec<_> = labels.iter().map(pair).collect();
            let series = |end: &str, labels: &[String]| match labels {
                [] => format!("{name}{end}"),
                _ => format!("{name}{end}{{{}}}", labels.join(",")),
            };
            let found = match (kind, gauge, counter, histogram) {
                ("gauge", Some(it), None, None) | ("counter", None, Some(it), None) => {
                    vec![(series("", &labels), it.value.unwrap())]
                }
                ("histogram", None, None, Some(it)) => {
                    let buckets = it.buckets.iter().map(|bucket| {
                        let bound = match bucket.bound.unwrap() {
                            f64::INFINITY => "le=\"+Inf\"".to_owned(),
                            bound => format!("le=\"{bound:?}\""),
                        };
                        let labels = [&labels[..], &[bound]].concat();
                        (series("_bucket", &labels), bucket.count.unwrap() as f64)
                    });
                    let sum = (series("_sum", &labels), it.sum.unwrap());
                    let count = (series("_count", &labels), it.count.unwrap() as f64);
                    buckets.chain([sum, count]).collect()
                }
                _ => panic!("{metric:?}"),
            };
            for (series, value) in found {
                assert!(samples.insert(series.clone(), value).is_none(), "{series}");
            }
        }
        (name, Given { kind: kind.to_owned(), samples })
    }

    /// The histogram of the thing that has this label alone.
    fn histogram(&self, label: &str) -> &Histogram {
        let of =
            |it: &&Metric| matches!(&it.labels[..], [one] if one.value.as_deref() == Some(label));
        self.metrics.iter().find(of).unwrap().histogram.as_ref().unwrap()
    }
}

impl Histogram {
    /// Its native buckets: their indices, and how much is in each.
    fn native(&self) -> Vec<(i32, u64)> {
        let (mut next, mut count) = (0, 0_i64);
        let mut deltas = self.deltas.iter();
        let mut native = Vec::new();
        for Span { offset, length } in &self.spans {
            next += offset.unwrap();
            for _ in 0..length.unwrap() {
                count += deltas.next().unwrap();
                native.push((next, u64::try_from(count).unwrap()));
                next += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        native
    }

    /// What Prometheus asks of it.
    fn check(&self) {
        assert!((-4..=8).contains(&self.schema.unwrap()) && self.zero_threshold.unwrap() > 0.0);
        assert!(self.spans.iter().skip(1).all(|span| span.offset.unwrap() > 0));
        let native: u64 = self.native().iter().map(|(_, count)| count).sum();
        let last = self.buckets.last().unwrap();
        assert_eq!(last.bound, Some(f64::INFINITY));
        assert_eq!([self.count, last.count], [Some(native + self.zero_count.unwrap()); 2]);
    }
}

fn families(gateway: &Gateway, most: usize) -> BTreeMap<String, MetricFamily> {
    families_after(gateway, most, &Mutex::default())
}

fn families_after(
    gateway: &Gateway,
    most: usize,
    others: &Mutex<Others>,
) -> BTreeMap<String, MetricFamily> {
    let page = written(gateway, &Reloads::new([0xa0; 32]), (Format::Messages, most), others);
    let mut rest = &page[..];
    let mut families = BTreeMap::new();
    while !rest.is_empty() {
        let family = MetricFamily::decode_length_delimited(&mut rest).unwrap();
        assert!(!family.metrics.is_empty() && !family.help.as_ref().unwrap().is_empty());
        family.metrics.iter().filter_map(|it| it.histogram.as_ref()).for_each(Histogram::check);
        assert!(families.insert(family.name.clone().unwrap(), family).is_none());
    }
    families
}

#[test]
fn all_formats_say_the_same() {
    let (gateway, reloads) = (served(), Reloads::new([0xa0; 32]));
    let pages = [Format::Prometheus, Format::OpenMetrics];
    let [one, other] = pages.map(|format| page(&gateway, &reloads, (format, usize::MAX)));
    let messages = families(&gateway, usize::MAX);
    let again = page(&gateway, &reloads, (Format::Prometheus, usize::MAX));
    // Time goes on between them.
    let figures = |families: BTreeMap<String, Given>| {
        let mut families: BTreeMap<_, _> = families
            .into_iter()
            .filter(|(_, it)| !it.samples.is_empty())
            .map(|(name, it)| (name, (it.kind, it.samples)))
            .collect();
        for passing in [
            "titan_worker_busy_seconds_total",
            "titan_worker_lag_seconds",
            "titan_process_cpu_seconds_total",
            "titan_process_resident_memory_bytes",
            "titan_process_open_fds",
            "titan_memory_bytes",
            "titan_pressure_ratio",
        ] {
            families.get_mut(passing).unwrap().1.values_mut().for_each(|value| *value = 0.0);
        }
        families
    };
    let one = figures(parse(&one));
    assert_eq!(one, figures(parse_open(&other)));
    assert_eq!(one, figures(messages.values().map(MetricFamily::given).collect()));
    assert_eq!(one, figures(parse(&again)), "now that workers count by parts");
    let units = |name: &str| messages[name].unit.as_deref();
    assert_eq!(units("titan_request_duration_seconds"), Some("seconds"));
    assert_eq!(units("titan_received_bytes_total"), Some("bytes"));
    assert_eq!(units("titan_requests_total"), None);
}

#[test]
fn histograms_are_native_and_exact_from_the_first_such_page_on() {
    let gateway = served();
    let of = |families: &BTreeMap<String, MetricFamily>, name: &str, label: &str| {
        families[name].histogram(label).clone()
    };
    let duration = "titan_request_duration_seconds";
    let first = families(&gateway, usize::MAX);
    let fixed = of(&first, duration, "fixed");
    let before = fixed.native();
    // What came before is known by its bucket alone.
    let [(index, 1)] = before[..] else { panic!("{before:?}") };
    let bounds = Durations::BOUNDS.map(|micros| (micros as f64 / 1e6).log2() * 8.0);
    assert!(bounds.iter().any(|bound| bound.ceil() == f64::from(index)), "{index}");
    assert_eq!((fixed.schema, fixed.zero_threshold), (Some(3), Some(2_f64.powi(-20))));
    let sizes = of(&first, "titan_response_size_bytes", "fixed");
    assert_eq!((sizes.schema, sizes.zero_threshold), (Some(1), Some(1.0)));

    (0..5).for_each(|_| request(&gateway, "/fixed"));
    let second = families(&gateway, usize::MAX);
    let fixed = of(&second, duration, "fixed");
    assert_eq!(fixed.count, Some(6));
    let bytes = |of: &Histogram| of.sum.unwrap();
    let response = bytes(&of(&second, "titan_response_size_bytes", "fixed")) - bytes(&sizes);
    let index = ((response / 5.0).log2() * 2.0).ceil();
    let now = of(&second, "titan_response_size_bytes", "fixed").native();
    assert!(
        now.iter().any(|(at, count)| f64::from(*at) == index && *count >= 5),
        "{now:?} {index}"
    );
}

#[test]
fn exemplars_are_those_of_the_buckets_with_bounds() {
    let gateway = served();
    let at = UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
    let exemplars = gateway.exemplars();
    exemplars.note(b"fixed", Exemplar { trace: [0xab; 16], value: 700, at });
    exemplars.note(b"fixed", Exemplar { trace: [0xcd; 16], value: 70_000_000, at });
    let families = families(&gateway, usize::MAX);
    let histogram = families["titan_request_duration_seconds"].histogram("fixed");
    let shown = histogram.buckets.iter().filter_map(|it| {
        let ExemplarOf { labels, value, at } = it.exemplar.clone()?;
        let [LabelPair { name, value: trace }] = &labels[..] else { panic!("{labels:?}") };
        assert_eq!(name.as_deref(), Some("trace_id"));
        let Timestamp { seconds, nanos } = at.unwrap();
        assert_eq!((seconds, nanos), (Some(1_700_000_000), Some(250_000_000)));
        Some((it.bound.unwrap(), trace.clone().unwrap(), value.unwrap()))
    });
    let wanted = [(0.001, "ab".repeat(16), 0.0007), (f64::INFINITY, "cd".repeat(16), 70.0)];
    assert_eq!(shown.collect::<Vec<_>>(), wanted);
}

/// There may be any number of them: only those that have a series of their own take memory.
#[test]
fn things_that_are_added_up_are_known_by_their_buckets() {
    let gateway = many(40);
    let few = families(&gateway, 2000);
    let other = few["titan_request_duration_seconds"].histogram(OTHER);
    assert_eq!((other.count, few["titan_metrics_series"].metrics.len()), (Some(3), 1));
    (0..4).for_each(|_| request(&gateway, "/r39"));
    let few = families(&gateway, 2000);
    let sizes = few["titan_response_size_bytes"].histogram(OTHER);
    assert_eq!(sizes.count, Some(7));
    // A power of four each.
    assert!(sizes.native().iter().all(|(index, _)| index % 4 == 0), "{sizes:?}");
}

/// What has had series of its own has counted by parts there.
#[test]
fn what_is_added_up_counts_on_from_page_to_page() {
    let (gateway, others) = (many(40), Mutex::default());
    let page = |most| families_after(&gateway, most, &others);
    let sizes = |most| page(most)["titan_response_size_bytes"].histogram(OTHER).clone();
    assert_eq!(sizes(2000).count, Some(3));
    page(usize::MAX);
    (0..2).for_each(|_| request(&gateway, "/r39"));
    page(usize::MAX);
    assert_eq!(sizes(2000).count, Some(3));
    (0..4).for_each(|_| request(&gateway, "/r39"));
    let others_now = sizes(2000);
    assert_eq!(others_now.count, Some(7));
    assert!(others_now.native().iter().all(|(index, _)| index % 4 == 0), "{others_now:?}");
}
