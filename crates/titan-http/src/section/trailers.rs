//! Trailer sections (RFC 9113 section 8.1).

use super::facts::CONNECTION_FIELDS;
use super::fault::Fault;
use super::line::{Key, Line};
use super::size::{SectionLimits, Size, TooMuch};
use crate::fields::Fields;
use crate::trailer::may_be_trailer;

/// What happens to trailers beyond their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// They are a fault.
    Refused,
    /// They are left out: what stands in front of them is worth more.
    Dropped,
}

/// What tells how a gRPC call went. It stands behind whatever a server has put in front of it, and without it
/// the call has failed.
const STATUS: &[u8] = b"grpc-status";

/// What a line with a status may have to be kept beyond the limits.
const STATUS_SIZE: usize = 64;

/// A trailer section, on its way to fields.
pub struct TrailerSection<'a> {
    size: Size,
    room: Remaining,
    excess: Excess,
    outcome: Result<(), Fault>,
    fields: &'a mut Fields,
}

impl<'a> TrailerSection<'a> {
    /// One whose lines become `fields`.
    pub fn new(
        limits: &SectionLimits,
        excess: Excess,
        fields: &'a mut Fields,
    ) -> TrailerSection<'a> {
        fields.clear();
        let size = Size::new(limits.trailers, limits);
        TrailerSection { size, room: Remaining::within(limits), excess, outcome: Ok(()), fields }
    }

    /// Takes the next line.
    ///
    /// # Errors
    ///
    /// When there is so much that nothing more should be decoded.
    pub fn take(&mut self, line: Line<'_>) -> Result<(), TooMuch> {
        self.size.add(&line)?;
        let TrailerSection { room, excess, fields, .. } = self;
        self.outcome = self.outcome.and_then(|()| match (room.take(&line), *excess) {
            (true, _) => take(&line, fields),
            (false, Excess::Refused) => Err(Fault::TrailersTooLarge),
            (false, Excess::Dropped) if room.take_status(&line) => take(&line, fields),
            (false, Excess::Dropped) => Ok(()),
        });
        Ok(())
    }

    /// The section is complete.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn finish(self) -> Result<(), Fault> {
        self.outcome
    }
}

/// What the limits still allow.
struct Remaining {
    bytes: usize,
    lines: usize,
    has_status: bool,
}

impl Remaining {
    fn within(limits: &SectionLimits) -> Remaining {
        Remaining { bytes: limits.trailers, lines: limits.fields, has_status: false }
    }

    /// Whether there is room for the line, which then is taken.
    fn take(&mut self, line: &Line<'_>) -> bool {
        match (self.bytes.checked_sub(line.size()), self.lines.checked_sub(1)) {
            (Some(bytes), Some(lines)) => {
                self.has_status |= line.name == STATUS;
                (self.bytes, self.lines) = (bytes, lines);
                true
            }
            _ => false,
        }
    }

    /// Whether the line is the first with a status, which is kept without room.
    fn take_status(&mut self, line: &Line<'_>) -> bool {
        let is_status = line.name == STATUS && line.size() <= STATUS_SIZE;
        is_status && !std::mem::replace(&mut self.has_status, true)
    }
}

fn take(line: &Line<'_>, fields: &mut Fields) -> Result<(), Fault> {
    if let Some(fault) = line.fault {
        return Err(fault);
    }
    let Key::Field(id) = line.key else { return Err(Fault::PseudoInTrailers) };
    if CONNECTION_FIELDS.has(id) {
        return Err(Fault::ConnectionField);
    }
    if !may_be_trailer(id, line.name) {
        return Err(Fault::TrailerForbidden);
    }
    fields.push_checked(id, line.name, line.value).map_err(|_| Fault::TrailersTooLarge)
}
