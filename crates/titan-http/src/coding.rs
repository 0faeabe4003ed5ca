//! Content codings (RFC 9110 section 8.4.1): which a client accepts, and with which preference (section 12.5.3).

use crate::field_name::FieldName;
use crate::fields::Fields;

/// A way to compress content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

impl Coding {
    /// Its name in `Content-Encoding` and `Accept-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }
}

/// What `Accept-Encoding` says: weights in thousandths of those that are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    gzip: Option<u16>,
    brotli: Option<u16>,
    zstd: Option<u16>,
    identity: Option<u16>,
    /// Of all that are not named.
    others: Option<u16>,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The best coding; none where content is best as it is.
    pub coding: Option<Coding>,
    /// Whether the client cannot read content as it is.
    pub insists: bool,
}

impl Accepted {
    /// That of a request with these fields.
    pub fn of(fields: &Fields) -> Accepted {
        let mut accepted = Accepted::default();
        fields.members(FieldName::AcceptEncoding).for_each(|member| accepted.add(member));
        accepted
    }

    /// The coding of the highest weight, of several the first in `order`.
    pub fn choose(&self, order: &[Coding]) -> Choice {
        let mut best = (0, None);
        for coding in order {
            let weight = self.weight(*coding);
            if weight > best.0 {
                best = (weight, Some(*coding));
            }
        }
        let insists = best.1.is_some() && self.identity.or(self.others) == Some(0);
        match self.identity {
            Some(identity) if identity > best.0 => Choice::default(),
            _ => Choice { coding: best.1, insists },
        }
    }

    fn weight(&self, coding: Coding) -> u16 {
        let named = match coding {
            Coding::Gzip => self.gzip,
            Coding::Brotli => self.brotli,
            Coding::Zstd => self.zstd,
        };
        named.or(self.others).unwrap_or(0)
    }

    /// A member that is malformed says nothing. Of one that is there twice the lower weight counts.
    fn add(&mut self, member: &[u8]) {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let Some(weight) = parts.next().map_or(Some(1000), parse_weight) else { return };
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let place = match name {
            b"*" => &mut self.others,
            _ if is("gzip") || is("x-gzip") => &mut self.gzip,
            _ if is("br") => &mut self.brotli,
            _ if is("zstd") => &mut self.zstd,
            _ if is("identity") => &mut self.identity,
            _ => return,
        };
        *place = Some(place.map_or(weight, |before| before.min(weight)));
    }
}

/// `q=0.5` in thousandths.
pub fn parse_weight(parameter: &[u8]) -> Option<u16> {
    let (name, value) = parameter.split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let (whole, fraction) = match value {
        [whole] => (whole, [].as_slice()),
        [whole, b'.', fraction @ ..] if fraction.len() <= 3 => (whole, fraction),
        _ => return None,
    };
    let digits = fraction.iter().chain(b"000").take(3);
    let fraction = digits.copied().try_fold(0_u16, |sum, byte| {
        byte.is_ascii_digit().then(|| sum * 10 + u16::from(byte - b'0'))
    })?;
    match (whole, fraction) {
        (b'0', fraction) => Some(fraction),
        (b'1', 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: [Coding; 3] = [Coding::Zstd, Coding::Brotli, Coding::Gzip];

    fn choice(lines: &[&str]) -> Choice {
        let mut fields = Fields::default();
        for line in lines {
            fields.append(FieldName::AcceptEncoding, line.as_bytes()).unwrap();
        }
        Accepted::of(&fields).choose(&ORDER)
    }

    #[test]
    fn the_best_coding_is_taken() {
        let cases: &[(&[&str], Option<Coding>)] = &[
            (&[], None),
            (&[""], None),
            (&["gzip"], Some(Coding::Gzip)),
            (&["X-GZIP"], Some(Coding::Gzip)),
            (&["gzip, br, zstd"], Some(Coding::Zstd)),
            (&["gzip, br", "deflate"], Some(Coding::Brotli)),
            (&["gzip;q=0.9, br;q=0.899"], Some(Coding::Gzip)),
            (&["gzip;q=1.0, br;q=1.000, zstd;q=0.999"], Some(Coding::Brotli)),
            (&["*"], Some(Coding::Zstd)),
            (&["*, zstd;q=0"], Some(Coding::Brotli)),
            (&["gzip;q=0"], None),
            (&["gzip;q=0", "gzip"], None),
            (&["*;q=0"], None),
            (&["identity"], None),
            (&["identity;q=0.5, gzip;q=0.4"], None),
            (&["identity;q=0.5, gzip;q=0.5"], Some(Coding::Gzip)),
            (&["gzip ; Q=0.001"], Some(Coding::Gzip)),
            (&["gzip;q=2, br;q=0.1234, zstd;q=, zstd;q=.5, zstd;level=1, gzip;q=1.001"], None),
            (&["compress, deflate"], None),
        ];
        for (lines, coding) in cases {
            assert_eq!(choice(lines).coding, *coding, "{lines:?}");
        }
    }

    #[test]
    fn some_clients_read_nothing_else() {
        for lines in ["gzip, identity;q=0", "gzip, *;q=0"] {
            assert_eq!(choice(&[lines]), Choice { coding: Some(Coding::Gzip), insists: true });
        }
        for lines in ["gzip", "identity;q=0", "*;q=0", "gzip, *;q=0, identity;q=0.1"] {
            assert!(!choice(&[lines]).insists, "{lines}");
        }
    }
}
