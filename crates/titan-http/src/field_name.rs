//! The field names that a gateway itself uses, as an enum: compared once, when the head is read.

macro_rules! field_names {
    ($($name:ident $text:literal,)*) => {
        /// A field name that has a meaning here; every other is [`FieldName::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FieldName {
            /// A name without a variant of its own.
            Other,
            $(#[doc = concat!("`", $text, "`.")] $name,)*
        }

        impl FieldName {
            /// The name as this side writes it; empty for [`FieldName::Other`].
            pub fn as_str(self) -> &'static str {
                match self {
                    FieldName::Other => "",
                    $(FieldName::$name => $text,)*
                }
            }

            /// Every known name.
            pub const ALL: &[FieldName] = &[$(FieldName::$name,)*];
        }
    };
}

field_names! {
    Accept "Accept",
    AcceptEncoding "Accept-Encoding",
    Age "Age",
    Allow "Allow",
    Authorization "Authorization",
    CacheControl "Cache-Control",
    Connection "Connection",
    ContentEncoding "Content-Encoding",
    ContentLength "Content-Length",
    ContentRange "Content-Range",
    ContentType "Content-Type",
    Cookie "Cookie",
    Date "Date",
    Expect "Expect",
    Forwarded "Forwarded",
    Host "Host",
    KeepAlive "Keep-Alive",
    Location "Location",
    MaxForwards "Max-Forwards",
    Origin "Origin",
    Pragma "Pragma",
    ProxyAuthenticate "Proxy-Authenticate",
    ProxyAuthorization "Proxy-Authorization",
    ProxyConnection "Proxy-Connection",
    Range "Range",
    RetryAfter "Retry-After",
    Server "Server",
    SetCookie "Set-Cookie",
    Te "TE",
    Traceparent "traceparent",
    Tracestate "tracestate",
    Trailer "Trailer",
    TransferEncoding "Transfer-Encoding",
    Upgrade "Upgrade",
    UserAgent "User-Agent",
    Vary "Vary",
    Via "Via",
    Warning "Warning",
    WwwAuthenticate "WWW-Authenticate",
    XForwardedFor "X-Forwarded-For",
    XForwardedHost "X-Forwarded-Host",
    XForwardedProto "X-Forwarded-Proto",
    XRequestId "X-Request-Id",
}

/// A set of known names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u64);

impl FieldSet {
    /// The set of those names.
    pub const fn of(names: &[FieldName]) -> FieldSet {
        FieldSet(0).with(names)
    }

    /// The set with those names too.
    pub const fn with(self, names: &[FieldName]) -> FieldSet {
        let mut bits = self.0;
        let mut at = 0;
        while at < names.len() {
            bits |= 1 << names[at] as u64;
            at += 1;
        }
        FieldSet(bits)
    }

    /// Adds a name.
    #[inline]
    pub(crate) fn insert(&mut self, name: FieldName) {
        self.0 |= 1 << name as u64;
    }

    /// Takes a name out.
    #[inline]
    pub(crate) fn remove(&mut self, name: FieldName) {
        self.0 &= !(1 << name as u64);
    }

    /// Whether both sets have a name in common.
    #[inline]
    pub fn meets(self, other: FieldSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the name is in the set.
    #[inline]
    pub fn has(self, name: FieldName) -> bool {
        self.0 >> name as u64 & 1 != 0
    }
}

impl FieldName {
    /// Which of the known names `text` is, in any case.
    #[inline]
    pub fn of(text: &[u8]) -> FieldName {
        let Some(&first) = text.first() else { return FieldName::Other };
        for &candidate in FieldName::beginning_with(first | 0x20, text.len()) {
            if equals_name(candidate.as_str().as_bytes(), text) {
                return candidate;
            }
        }
        FieldName::Other
    }

    /// The names of that length with that first letter, in lower case: there is hardly ever a second.
    #[inline]
    fn beginning_with(first: u8, length: usize) -> &'static [FieldName] {
        use FieldName::*;
        match (length, first) {
            (2, b't') => &[Te],
            (3, b'a') => &[Age],
            (3, b'v') => &[Via],
            (4, b'd') => &[Date],
            (4, b'h') => &[Host],
            (4, b'v') => &[Vary],
            (5, b'a') => &[Allow],
            (5, b'r') => &[Range],
            (6, b'a') => &[Accept],
            (6, b'c') => &[Cookie],
            (6, b'e') => &[Expect],
            (6, b'o') => &[Origin],
            (6, b'p') => &[Pragma],
            (6, b's') => &[Server],
            (7, b't') => &[Trailer],
            (7, b'u') => &[Upgrade],
            (7, b'w') => &[Warning],
            (8, b'l') => &[Location],
            (9, b'f') => &[Forwarded],
            (10, b'c') => &[Connection],
            (10, b'k') => &[KeepAlive],
            (10, b's') => &[SetCookie],
            (10, b't') => &[Tracestate],
            (10, b'u') => &[UserAgent],
            (11, b'r') => &[RetryAfter],
            (11, b't') => &[Traceparent],
            (12, b'c') => &[ContentType],
            (12, b'm') => &[MaxForwards],
            (12, b'x') => &[XRequestId],
            (13, b'a') => &[Authorization],
            (13, b'c') => &[CacheControl, ContentRange],
            (14, b'c') => &[ContentLength],
            (15, b'a') => &[AcceptEncoding],
            (15, b'x') => &[XForwardedFor],
            (16, b'c') => &[ContentEncoding],
            (16, b'p') => &[ProxyConnection],
            (16, b'w') => &[WwwAuthenticate],
            (16, b'x') => &[XForwardedHost],
            (17, b't') => &[TransferEncoding],
            (17, b'x') => &[XForwardedProto],
            (18, b'p') => &[ProxyAuthenticate],
            (19, b'p') => &[ProxyAuthorization],
            _ => &[],
        }
    }
}

/// Whether `text`, of the same length, is `known` in any case. Eight bytes at a step, or four; the last
/// step looks at some bytes again instead of at fewer.
#[inline]
fn equals_name(known: &[u8], text: &[u8]) -> bool {
    let Some(last) = known.len().checked_sub(8) else { return equals_short(known, text) };
    let equal_at = |at: usize| match (known[at..].first_chunk(), text[at..].first_chunk()) {
        (Some(known), Some(text)) => equals_word(*known, *text),
        _ => false,
    };
    (0..last).step_by(8).all(equal_at) && equal_at(last)
}

fn equals_short(known: &[u8], text: &[u8]) -> bool {
    let halves = |bytes: &[u8]| Some((*bytes.first_chunk::<4>()?, *bytes.last_chunk::<4>()?));
    match (halves(known), halves(text)) {
        (Some(known), Some(text)) => equals_word(joined(known), joined(text)),
        _ => known.eq_ignore_ascii_case(text),
    }
}

fn joined((first, last): ([u8; 4], [u8; 4])) -> [u8; 8] {
    let [a, b, c, d] = first;
    let [e, f, g, h] = last;
    [a, b, c, d, e, f, g, h]
}

/// Letters may differ in their case, which is bit 5; the names have nothing else but hyphens, whose
/// bit 6 is clear.
#[inline]
fn equals_word(known: [u8; 8], text: [u8; 8]) -> bool {
    const BIT_6: u64 = 0x4040_4040_4040_4040;
    let known = u64::from_ne_bytes(known);
    let case = (known & BIT_6) >> 1;
    (known ^ u64::from_ne_bytes(text)) & !case == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_place_in_a_set() {
        for &name in FieldName::ALL {
            let set = FieldSet::of(&[name]);
            assert!(set.has(name) && !set.has(FieldName::Other));
            assert_eq!(FieldName::ALL.iter().filter(|&&other| set.has(other)).count(), 1);
        }
        assert!(FieldName::ALL.len() < 64);
    }

    #[test]
    fn every_name_is_found_in_any_case() {
        for &name in FieldName::ALL {
            assert_eq!(FieldName::of(name.as_str().as_bytes()), name);
            assert_eq!(FieldName::of(name.as_str().to_ascii_lowercase().as_bytes()), name);
            assert_eq!(FieldName::of(name.as_str().to_ascii_uppercase().as_bytes()), name);
        }
        assert_eq!(FieldName::of(b"X-Host"), FieldName::Other);
        assert_eq!(FieldName::of(b""), FieldName::Other);
    }

    #[test]
    fn a_name_with_one_other_byte_is_another_name() {
        for &name in FieldName::ALL {
            let known = name.as_str().as_bytes();
            for (at, byte) in (0..known.len()).flat_map(|at| (0..=255).map(move |it| (at, it))) {
                let mut text = known.to_vec();
                text[at] = byte;
                let naive = text.eq_ignore_ascii_case(known);
                assert_eq!(FieldName::of(&text) == name, naive, "{text:?}");
            }
        }
    }
}
