//! The trace that a request belongs to: what its client says (W3C Trace Context, Zipkin's B3), and what upstreams are told.

use std::ops::ControlFlow;
use titan_http::{BadField, FieldName, Fields};

/// A trace, and the place in it that a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; never 0.
    pub trace_id: u128,
    /// The span that the request comes from; 0 where the trace begins here.
    pub parent: u64,
    /// The span of the request in this gateway; never 0.
    pub span: u64,
    /// Whether it is traced.
    pub sampling: Sampling,
}

/// Whether a request is traced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampling {
    /// That is not decided yet.
    #[default]
    Undecided,
    /// It is not.
    Dropped,
    /// It is.
    Sampled,
}

/// What a client says of the trace of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteParent {
    /// The trace; never 0.
    pub trace_id: u128,
    /// The span that the request comes from; never 0.
    pub span: u64,
    /// Whether it is traced, where that is said.
    pub sampling: Sampling,
}

/// The id of the trace in a `traceparent` field; none where that is not valid.
pub fn trace_id(traceparent: &[u8]) -> Option<&[u8]> {
    parts(traceparent).map(|(id, ..)| id)
}

/// The id of the trace, that of the span, and the flags of a `traceparent` field, in digits.
fn parts(traceparent: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let [version @ .., b'-'] = traceparent.get(..3)? else { return None };
    let (id, rest) = traceparent.get(3..)?.split_at_checked(32)?;
    let (parent, flags) = rest.strip_prefix(b"-")?.split_at_checked(16)?;
    let flags = flags.strip_prefix(b"-")?;
    // Later versions may have more to say.
    let (flags, more) = flags.split_at_checked(2)?;
    let is_whole = more.is_empty() || version != b"00" && more.starts_with(b"-");
    let is_hex = |text: &[u8]| text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_nonzero = |text: &[u8]| text.iter().any(|byte| *byte != b'0');
    let are_hex = [version, id, parent, flags].into_iter().all(is_hex);
    let is_valid = are_hex && version != b"ff" && is_nonzero(id) && is_nonzero(parent) && is_whole;
    is_valid.then_some((id, parent, flags))
}

impl From<bool> for Sampling {
    fn from(is_sampled: bool) -> Sampling {
        if is_sampled { Sampling::Sampled } else { Sampling::Dropped }
    }
}

impl RemoteParent {
    /// What `traceparent` says; none where it is not valid.
    pub fn of_w3c(fields: &Fields) -> Option<RemoteParent> {
        let mut all = fields.all(FieldName::Traceparent);
        let field = all.next()?;
        let (id, span, flags) = parts(field).filter(|_| all.next().is_none())?;
        let is_sampled = number(flags)? & 1 == 1;
        RemoteParent::new(trace_number(id)?, number(span)?, is_sampled.into())
    }

    /// What Zipkin's single field says. `Break` if it says only that the request is not to be traced, or that it is.
    pub fn of_b3(fields: &Fields) -> Option<ControlFlow<Sampling, RemoteParent>> {
        let field = fields.named(B3).next()?;
        let mut parts = field.split(|byte| *byte == b'-');
        let first = parts.next()?;
        let (span, sampled) = (parts.next(), parts.next());
        let Some(span) = span else { return b3_decision(b3_sampling(first)) };
        let sampling = sampled.map_or(Sampling::Undecided, b3_sampling);
        RemoteParent::new(trace_number(first)?, b3_span(span)?, sampling).map(ControlFlow::Continue)
    }

    /// What its several fields say.
    pub fn of_b3_multi(fields: &Fields) -> Option<ControlFlow<Sampling, RemoteParent>> {
        let value = |name: &'static [u8]| fields.named(name).next();
        let is_debug = value(B3_FLAGS) == Some(b"1");
        let sampling = match value(B3_SAMPLED) {
            _ if is_debug => Sampling::Sampled,
            Some(sampled) => b3_sampling(sampled),
            None => Sampling::Undecided,
        };
        let ids = value(B3_TRACE).and_then(trace_number).zip(value(B3_SPAN).and_then(b3_span));
        match ids {
            Some((trace_id, span)) => {
                RemoteParent::new(trace_id, span, sampling).map(ControlFlow::Continue)
            }
            None => b3_decision(sampling),
        }
    }

    fn new(trace_id: u128, span: u64, sampling: Sampling) -> Option<RemoteParent> {
        (trace_id != 0 && span != 0).then_some(RemoteParent { trace_id, span, sampling })
    }
}

impl TraceContext {
    /// The span of the attempt with that number, which comes from the request's own: no two of a request have the same.
    pub fn attempt_span(&self, number: u16) -> u64 {
        // Each step can be undone (splitmix64), so that different numbers give different ids.
        let mut id =
            self.span.wrapping_add((u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        id = (id ^ id >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id = (id ^ id >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (id ^ id >> 31).max(1)
    }

    /// Whether it is traced.
    pub fn is_sampled(&self) -> bool {
        self.sampling == Sampling::Sampled
    }

    /// Tells an upstream of a span, by W3C's field.
    pub fn write_w3c(&self, span: u64, fields: &mut Fields) -> Result<(), BadField> {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        digits(&self.trace_id.to_be_bytes(), &mut text[3..35]);
        digits(&span.to_be_bytes(), &mut text[36..52]);
        text[54] += u8::from(self.is_sampled());
        let id = FieldName::Traceparent;
        fields.remove(id);
        fields.push_checked(id, id.as_str().as_bytes(), &text)
    }

    /// The same, by Zipkin's single field.
    pub fn write_b3(&self, span: u64, fields: &mut Fields) -> Result<(), BadField> {
        let mut text = *b"00000000000000000000000000000000-0000000000000000-0";
        digits(&self.trace_id.to_be_bytes(), &mut text[..32]);
        digits(&span.to_be_bytes(), &mut text[33..49]);
        text[50] += u8::from(self.is_sampled());
        fields.set_named(B3, &text)
    }

    /// The same, by its several fields.
    pub fn write_b3_multi(&self, span: u64, fields: &mut Fields) -> Result<(), BadField> {
        let (mut trace, mut own) = ([0; 32], [0; 16]);
        digits(&self.trace_id.to_be_bytes(), &mut trace);
        digits(&span.to_be_bytes(), &mut own);
        fields.remove_named(B3_FLAGS);
        fields.remove_named(B3_PARENT);
        fields.set_named(B3_TRACE, &trace)?;
        fields.set_named(B3_SPAN, &own)?;
        fields.set_named(B3_SAMPLED, if self.is_sampled() { b"1" } else { b"0" })
    }

    /// The id of the trace in digits.
    pub fn trace_digits(&self) -> [u8; 32] {
        let mut text = [0; 32];
        digits(&self.trace_id.to_be_bytes(), &mut text);
        text
    }
}

/// Removes all fields of Zipkin.
pub fn remove_b3(fields: &mut Fields) {
    let is_one_of_several = |name: &[u8]| {
        name.get(..B3_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(B3_PREFIX))
    };
    fields.retain(|field| !field.name.eq_ignore_ascii_case(B3) && !is_one_of_several(field.name));
}

const B3: &[u8] = b"b3";
const B3_PREFIX: &[u8] = b"x-b3-";
const B3_TRACE: &[u8] = b"x-b3-traceid";
const B3_SPAN: &[u8] = b"x-b3-spanid";
const B3_PARENT: &[u8] = b"x-b3-parentspanid";
const B3_SAMPLED: &[u8] = b"x-b3-sampled";
const B3_FLAGS: &[u8] = b"x-b3-flags";

/// The bytes of a number in hexadecimal digits.
fn digits(number: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in number.iter().zip(out.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// What each byte stands for as a hexadecimal digit; beyond 15 for none.
const VALUES: [u8; 256] = {
    const LOWER: &[u8; 16] = b"0123456789abcdef";
    let (mut values, mut value, mut place) = ([0xff; 256], 0, 0);
    while place < 16 {
        values[LOWER[place] as usize] = value;
        values[LOWER[place].to_ascii_uppercase() as usize] = value;
        (value, place) = (value + 1, place + 1);
    }
    values
};

/// The number that sixteen hexadecimal digits stand for, or fewer.
fn number(text: &[u8]) -> Option<u64> {
    let (mut number, mut all) = (0, 0);
    for byte in text {
        let value = VALUES[usize::from(*byte)];
        all |= value;
        number = number << 4 | u64::from(value & 15);
    }
    (all < 16 && text.len() <= 16).then_some(number)
}

/// The number of an id of a trace. Zipkin's older ones have half as many digits.
fn trace_number(text: &[u8]) -> Option<u128> {
    let (high, low) = match text.len() {
        32 => text.split_at(16),
        16 => (&[][..], text),
        _ => return None,
    };
    Some(u128::from(number(high)?) << 64 | u128::from(number(low)?))
}

fn b3_span(text: &[u8]) -> Option<u64> {
    if text.len() == 16 { number(text) } else { None }
}

/// What is said without a trace: nothing, if it is neither.
fn b3_decision(sampling: Sampling) -> Option<ControlFlow<Sampling, RemoteParent>> {
    (sampling != Sampling::Undecided).then_some(ControlFlow::Break(sampling))
}

fn b3_sampling(text: &[u8]) -> Sampling {
    match text {
        b"1" | b"d" | b"true" => Sampling::Sampled,
        b"0" | b"false" => Sampling::Dropped,
        _ => Sampling::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const ID: &str = "0af7651916cd43dd8448eb211c80319c";
    const TRACE: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
    const SPAN: u64 = 0xb7ad_6b71_6920_3331;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::default();
        for (name, value) in lines {
            fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        fields
    }

    fn context(sampling: Sampling) -> TraceContext {
        TraceContext { trace_id: TRACE, parent: 0, span: SPAN, sampling }
    }

    #[test]
    fn only_a_valid_field_names_a_trace() {
        let whole = format!("00-{ID}-b7ad6b7169203331-01");
        assert_eq!(trace_id(whole.as_bytes()), Some(ID.as_bytes()));
        assert_eq!(trace_id(whole.replace("00-", "cc-").as_bytes()), Some(ID.as_bytes()));
        assert_eq!(trace_id(format!("cc{}-what", &whole[2..]).as_bytes()), Some(ID.as_bytes()));
        for bad in [
            format!("{whole}-what"),
            whole.to_ascii_uppercase(),
            whole.replace(ID, &"0".repeat(32)),
            whole.replace("b7ad6b7169203331", &"0".repeat(16)),
            whole.replace("00-", "ff-"),
            whole.replace('a', "g"),
            String::new(),
        ] {
            assert_eq!(trace_id(bad.as_bytes()), None, "{bad}");
        }
        for end in 0..whole.len() {
            assert_eq!(trace_id(&whole.as_bytes()[..end]), None, "{end}");
        }
    }

    #[test]
    fn what_clients_say_is_read_in_each_form() {
        let parent = |sampling| RemoteParent { trace_id: TRACE, span: SPAN, sampling };
        for (flags, sampling) in
            [("01", Sampling::Sampled), ("00", Sampling::Dropped), ("03", Sampling::Sampled)]
        {
            let line = format!("00-{ID}-b7ad6b7169203331-{flags}");
            let read = RemoteParent::of_w3c(&fields(&[("traceparent", &line)]));
            assert_eq!(read, Some(parent(sampling)), "{flags}");
            let twice = fields(&[("traceparent", &line), ("traceparent", &line)]);
            assert_eq!(RemoteParent::of_w3c(&twice), None);
        }
        let read = |text: &str| RemoteParent::of_b3(&fields(&[("b3", text)]));
        let ids = format!("{ID}-b7ad6b7169203331");
        let goes_on = |sampling| Some(ControlFlow::Continue(parent(sampling)));
        assert_eq!(read(&ids), goes_on(Sampling::Undecided));
        assert_eq!(read(&format!("{ids}-1")), goes_on(Sampling::Sampled));
        assert_eq!(read(&format!("{ids}-d-05e3ac9a4f6e3b90")), goes_on(Sampling::Sampled));
        assert_eq!(read(&format!("{ids}-0")), goes_on(Sampling::Dropped));
        assert_eq!(read("0"), Some(ControlFlow::Break(Sampling::Dropped)));
        assert_eq!(read("d"), Some(ControlFlow::Break(Sampling::Sampled)));
        for bad in
            ["garbage", "x-y", &format!("{ID}-1"), "-", &ids.replace('f', "g"), &"0".repeat(200)]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
        let multi = |lines: &[(&str, &str)]| RemoteParent::of_b3_multi(&fields(lines));
        let (trace, span) = (("X-B3-TraceId", ID), ("X-B3-SpanId", "b7ad6b7169203331"));
        assert_eq!(multi(&[trace, span]), goes_on(Sampling::Undecided));
        assert_eq!(multi(&[trace, span, ("X-B3-Sampled", "0")]), goes_on(Sampling::Dropped));
        assert_eq!(multi(&[trace, span, ("X-B3-Flags", "1")]), goes_on(Sampling::Sampled));
        assert_eq!(multi(&[("X-B3-Sampled", "0")]), Some(ControlFlow::Break(Sampling::Dropped)));
        assert_eq!(multi(&[trace]), None);
        let short = multi(&[("X-B3-TraceId", "8448eb211c80319c"), span]);
        let Some(ControlFlow::Continue(short)) = short else { panic!("{short:?}") };
        assert_eq!(short.trace_id, 0x8448_eb21_1c80_319c);
    }

    #[test]
    fn what_is_written_is_read_again() {
        for sampling in [Sampling::Sampled, Sampling::Dropped] {
            let (context, mut fields) = (context(sampling), Fields::default());
            let wanted = RemoteParent { trace_id: TRACE, span: 5, sampling };
            context.write_w3c(5, &mut fields).unwrap();
            context.write_b3(5, &mut fields).unwrap();
            context.write_b3_multi(5, &mut fields).unwrap();
            assert_eq!(RemoteParent::of_w3c(&fields), Some(wanted));
            assert_eq!(RemoteParent::of_b3(&fields), Some(ControlFlow::Continue(wanted)));
            assert_eq!(RemoteParent::of_b3_multi(&fields), Some(ControlFlow::Continue(wanted)));
            context.write_w3c(6, &mut fields).unwrap();
            assert_eq!(
                fields.all(FieldName::Traceparent).count(),
                1,
                "it takes the place of the one before"
            );
            assert_eq!(&context.trace_digits(), ID.as_bytes());
            fields.append_named(b"B3x", b"1").unwrap();
            remove_b3(&mut fields);
            let names: Vec<_> = fields.iter().map(|field| field.name.to_vec()).collect();
            assert_eq!(names, [&b"traceparent"[..], b"B3x"], "no other field goes");
        }
    }

    #[test]
    fn no_two_attempts_have_the_same_span() {
        let context = context(Sampling::Sampled);
        let spans: HashSet<_> = (0..=u16::MAX).map(|number| context.attempt_span(number)).collect();
        assert_eq!(spans.len(), 1 << 16);
        assert!(!spans.contains(&0));
    }
}
