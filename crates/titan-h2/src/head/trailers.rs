//! Trailer sections (RFC 9113 section 8.1).

use super::facts::CONNECTION_FIELDS;
use super::{BadBlock, HeadReader, Size};
use crate::error::Fault;
use crate::hpack::{Key, Line};
use crate::limits::Limits;
use titan_http::{Fields, may_be_trailer};

/// What happens to trailers beyond their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
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

/// Reads a trailer section.
pub(super) fn read(
    reader: &mut HeadReader,
    block: &[u8],
    excess: Excess,
    fields: &mut Fields,
) -> Result<Result<(), Fault>, BadBlock> {
    fields.clear();
    let mut size = Size::new(reader.limits.trailers, &reader.limits);
    let mut room = Remaining::within(&reader.limits);
    let mut outcome = Ok(());
    reader.decoder.decode(block, |line| {
        size.add(&line)?;
        outcome = outcome.and_then(|()| match (room.take(&line), excess) {
            (true, _) => take(&line, fields),
            (false, Excess::Refused) => Err(Fault::TrailersTooLarge),
            (false, Excess::Dropped) if room.take_status(&line) => take(&line, fields),
            (false, Excess::Dropped) => Ok(()),
        });
        Ok(())
    })?;
    Ok(outcome)
}

/// What the limits still allow.
struct Remaining {
    bytes: usize,
    lines: usize,
    has_status: bool,
}

impl Remaining {
    fn within(limits: &Limits) -> Remaining {
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
