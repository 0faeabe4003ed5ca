//! How long field sections may be.

use super::line::Line;

/// The bounds of field sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionLimits {
    /// Bytes of a head: names and values, with 32 for each line (RFC 9113 section 6.5.2, RFC 9114 section 4.2.2).
    pub head: usize,
    /// Bytes of a trailer section, counted like those of a head.
    pub trailers: usize,
    /// Field lines of a section.
    pub fields: usize,
    /// Bytes of `:path`.
    pub target: usize,
}

/// How large the list of a section is so far (RFC 9113 section 6.5.2, RFC 9114 section 4.2.2).
#[derive(Debug)]
pub struct Size {
    bytes: usize,
    /// What is kept.
    limit: usize,
    /// What is decoded at all: beyond it the section is a bomb.
    most: usize,
}

/// A section decodes to a multiple of what is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

/// How many times the limit of a head, or of trailers, a section may decode to, and still be refused with a response.
pub const OVERSIZE_FACTOR: usize = 4;

impl SectionLimits {
    /// The longest list of fields that is taken, be it a head or trailers.
    pub fn longest_list(&self) -> usize {
        self.head.max(self.trailers)
    }
}

impl Size {
    /// Nothing yet, of which so many bytes are kept.
    pub fn new(limit: usize, limits: &SectionLimits) -> Size {
        Size { bytes: 0, limit, most: limits.longest_list().saturating_mul(OVERSIZE_FACTOR) }
    }

    /// Counts a line; returns whether it is within the limit.
    ///
    /// # Errors
    ///
    /// When there is so much that nothing more should be decoded.
    #[inline]
    pub fn add(&mut self, line: &Line<'_>) -> Result<bool, TooMuch> {
        self.bytes += line.size();
        match self.bytes > self.most {
            true => Err(TooMuch),
            false => Ok(self.bytes <= self.limit),
        }
    }
}
