//! Trailer sections (RFC 9113 section 8.1).

use super::facts::CONNECTION_FIELDS;
use super::{BadBlock, HeadReader, Size};
use crate::Fault;
use crate::hpack::{Key, Line};
use titan_http::{Fields, may_be_trailer};

/// Reads a trailer section.
pub(super) fn read(
    reader: &mut HeadReader,
    block: &[u8],
    fields: &mut Fields,
) -> Result<Result<(), Fault>, BadBlock> {
    fields.clear();
    let mut size = Size::new(reader.limits.trailers, &reader.limits);
    let most = reader.limits.fields;
    let mut outcome = Ok(());
    reader.decoder.decode(block, |line| {
        let fits = size.add(&line)? && fields.len() < most;
        outcome = outcome.and_then(|()| match fits {
            true => take(&line, fields),
            false => Err(Fault::TrailersTooLarge),
        });
        Ok(())
    })?;
    Ok(outcome)
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
