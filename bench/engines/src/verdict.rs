//! A line for each bar: whether what is measured has reached it.

use std::fmt;

const MET: &str = "bar met: ";
const MISSED: &str = "bar MISSED: ";

/// What a bar is about, and whether it is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the figure is as good as it has to be.
    pub is_met: bool,
    /// The figure, and what it has to be.
    pub text: String,
}

impl Verdict {
    /// The verdict that a line tells, if it tells one.
    pub fn read(line: &str) -> Option<Self> {
        let verdict = |is_met, text: &str| Self { is_met, text: text.trim_end().to_owned() };
        let met = line.strip_prefix(MET).map(|text| verdict(true, text));
        met.or_else(|| line.strip_prefix(MISSED).map(|text| verdict(false, text)))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.is_met { MET } else { MISSED }, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for is_met in [true, false] {
            let verdict = Verdict { is_met, text: "small-64 to nginx 0.78".to_owned() };
            assert_eq!(Verdict::read(&verdict.to_string()), Some(verdict));
        }
        assert_eq!(Verdict::read("nginx  13.75  1.00"), None);
    }
}
