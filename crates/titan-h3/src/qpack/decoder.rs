//! Field sections to lines, by what the peer's encoder has put into the dynamic table (RFC 9204 sections 3 and 4).
//!
//! ```text
//! encoder stream --> instructions --> Table
//!                                       ^
//! request streams --> field sections ---+--> lines
//!                       | what they refer to has not come: they wait, as many as may
//!                       +--> acknowledgements --> decoder stream
//! ```

use super::error::Corrupt;
use super::integer::{Unread, integer, string, write_integer};
use super::static_table;
use titan_http::section::{Fault, Key, Line, Name, OVERHEAD, Table, check_name, check_value};

/// The decoder of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// Entries that the peer was told to have come.
    acknowledged: u64,
    /// Bytes of entries that were added, until that is asked for.
    added: usize,
    /// What waits to be written to the decoder stream.
    out: Vec<u8>,
    /// Where strings in Huffman code are decoded.
    name: Vec<u8>,
    value: Vec<u8>,
}

/// How far a field section has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All of it was told.
    Whole,
    /// Nothing was told: it refers to entries that have not come. So many must have: see [`Decoder::has_come`].
    Blocked(u64),
}

/// What a section says of the table, before its lines (section 4.5.1).
#[derive(Clone, Copy)]
struct Prefix {
    /// The entries that must have come.
    required: u64,
    base: u64,
}

/// What a literal line is called.
struct LineName<'a> {
    name: Name<'a>,
    key: Key,
    fault: Option<Fault>,
}

/// SETTINGS_QPACK_MAX_TABLE_CAPACITY.
pub const CAPACITY: usize = Table::MAX;
/// Entries that a table of that capacity can have at most (section 4.5.1.1).
const MAX_ENTRIES: u64 = (CAPACITY / OVERHEAD) as u64;
/// The longest string, as it is written: of one that fits into the table, each byte may have a code of 30 bits.
const MAX_STRING: usize = 4 * CAPACITY;
/// What a buffer for strings may keep between sections.
const KEPT: usize = 8 << 10;

/// A decoder whose table has no room yet (section 3.2.3).
impl Default for Decoder {
    fn default() -> Decoder {
        let mut table = Table::new();
        table.resize(0);
        let (out, name, value) = (Vec::new(), Vec::new(), Vec::new());
        Decoder { table, acknowledged: 0, added: 0, out, name, value }
    }
}

impl Decoder {
    /// Follows instructions of the encoder stream as far as they have come whole; tells how many bytes that were.
    ///
    /// # Errors
    ///
    /// QPACK_ENCODER_STREAM_ERROR.
    pub fn read_instructions(&mut self, input: &[u8]) -> Result<usize, Corrupt> {
        let mut rest = input;
        while !rest.is_empty() {
            let mut next = rest;
            match self.follow(&mut next) {
                Ok(()) => rest = next,
                Err(Unread::Partial) => break,
                Err(Unread::Wrong(what)) => return Err(Corrupt::EncoderStream(what)),
            }
        }
        Ok(input.len() - rest.len())
    }

    /// Follows an instruction (section 4.3). Nothing is decoded before it has come whole.
    fn follow(&mut self, input: &mut &[u8]) -> Result<(), Unread> {
        let Decoder { table, added, name, value, .. } = self;
        let &first = input.first().ok_or(Unread::Partial)?;
        if first & 0xe0 == 0x20 {
            let capacity = usize::try_from(integer(input, 5)?).unwrap_or(usize::MAX);
            let is_allowed = table.resize(capacity);
            return is_allowed.then_some(()).ok_or(Unread::Wrong(ABOVE_CAPACITY));
        }
        if first & 0xe0 == 0 {
            let place = usize::try_from(integer(input, 5)?).unwrap_or(usize::MAX);
            let Line { key, value: copied, fault, .. } =
                table.get(place).ok_or(Unread::Wrong(NO_ENTRY))?;
            value.clear();
            value.extend_from_slice(copied);
            *added += insert(table, Name::OfEntry(place), value, key, fault)?;
            return Ok(());
        }
        let (named, value) = match first {
            0x80.. => {
                let index = usize::try_from(integer(input, 6)?).unwrap_or(usize::MAX);
                let named = match first & 0x40 {
                    0 => {
                        let (key, fault) = table.name(index).ok_or(Unread::Wrong(NO_ENTRY))?;
                        LineName { name: Name::OfEntry(index), key, fault }
                    }
                    _ => of_static(index).ok_or(Unread::Wrong(NO_ENTRY))?,
                };
                (named, string(input, 7, MAX_STRING)?.decode(value)?)
            }
            _ => {
                let coded = string(input, 5, MAX_STRING)?;
                let value = string(input, 7, MAX_STRING)?.decode(value)?;
                (of_bytes(coded.decode(name)?), value)
            }
        };
        let fault = named.fault.or_else(|| check_value(value));
        *added += insert(table, named.name, value, named.key, fault)?;
        Ok(())
    }

    /// Decodes the field section of a stream, and tells its lines one by one.
    ///
    /// # Errors
    ///
    /// QPACK_DECOMPRESSION_FAILED, or what `tell` has had enough by.
    pub fn decode(
        &mut self,
        stream: u64,
        section: &[u8],
        mut tell: impl FnMut(Line<'_>) -> Result<(), Corrupt>,
    ) -> Result<Decoded, Corrupt> {
        let mut input = section;
        let prefix = self.prefix(&mut input).map_err(in_section)?;
        if prefix.required > self.table.inserted() {
            return Ok(Decoded::Blocked(prefix.required));
        }
        while !input.is_empty() {
            self.line(&mut input, prefix, &mut tell)?;
        }
        if prefix.required > 0 {
            // Section acknowledgement (section 4.4.1).
            write_integer(&mut self.out, 0x80, 7, stream);
            self.acknowledged = self.acknowledged.max(prefix.required);
        }
        for buffer in [&mut self.name, &mut self.value] {
            if buffer.len() > KEPT {
                *buffer = Vec::new();
            }
        }
        Ok(Decoded::Whole)
    }

    /// Whether as many entries have come as a section needs that was blocked.
    ///
    /// # Errors
    ///
    /// QPACK_DECOMPRESSION_FAILED: so many have come that what it needs is gone, and what it says of that would be read as another number.
    pub fn has_come(&self, required: u64) -> Result<bool, Corrupt> {
        let inserted = self.table.inserted();
        if inserted >= required.saturating_add(MAX_ENTRIES) {
            return Err(Corrupt::Section(NO_ENTRY));
        }
        Ok(inserted >= required)
    }

    fn prefix(&self, input: &mut &[u8]) -> Result<Prefix, Unread> {
        let required = self.required(integer(input, 8)?)?;
        let is_negative = input.first().ok_or(Unread::Partial)? & 0x80 != 0;
        let delta = integer(input, 7)?;
        let base = match is_negative {
            false => required.checked_add(delta),
            true => required.checked_sub(delta).and_then(|base| base.checked_sub(1)),
        };
        Ok(Prefix { required, base: base.ok_or(Unread::Wrong(NO_BASE))? })
    }

    /// The entries that must have come, of which a section says what tells them from those of others that are near (section 4.5.1.1).
    fn required(&self, written: u64) -> Result<u64, Unread> {
        if written == 0 {
            return Ok(0);
        }
        let range = 2 * MAX_ENTRIES;
        if written > range {
            return Err(Unread::Wrong(NO_COUNT));
        }
        let most = self.table.inserted() + MAX_ENTRIES;
        let wrapped = most / range * range;
        let required = wrapped + written - 1;
        let required = match required > most {
            true => required.checked_sub(range).ok_or(Unread::Wrong(NO_COUNT))?,
            false => required,
        };
        if required == 0 { Err(Unread::Wrong(NO_COUNT)) } else { Ok(required) }
    }

    /// The next line (sections 4.5.2 to 4.5.6).
    fn line(
        &mut self,
        input: &mut &[u8],
        prefix: Prefix,
        tell: &mut impl FnMut(Line<'_>) -> Result<(), Corrupt>,
    ) -> Result<(), Corrupt> {
        let Decoder { table, name, value, .. } = self;
        let &first = input.first().ok_or(Corrupt::Section(CUT))?;
        let named = match first {
            0xc0.. => {
                let index = integer(input, 6).map_err(in_section)?;
                let line = usize::try_from(index).ok().and_then(static_table::get);
                return tell(line.ok_or(Corrupt::Section(NO_ENTRY))?);
            }
            0x80.. => {
                let back = integer(input, 6).map_err(in_section)?;
                let place = place_of(table, prefix, before(prefix, back))?;
                return tell(table.get(place).ok_or(Corrupt::Section(NO_ENTRY))?);
            }
            0x10..0x20 => {
                let on = integer(input, 4).map_err(in_section)?;
                let place = place_of(table, prefix, prefix.base.checked_add(on))?;
                return tell(table.get(place).ok_or(Corrupt::Section(NO_ENTRY))?);
            }
            0x40.. => {
                let index = integer(input, 4).map_err(in_section)?;
                match first & 0x10 {
                    0 => of_entry(table, place_of(table, prefix, before(prefix, index))?)?,
                    _ => {
                        let index = usize::try_from(index).ok();
                        index.and_then(of_static).ok_or(Corrupt::Section(NO_ENTRY))?
                    }
                }
            }
            0x20.. => {
                let most = input.len();
                let coded = string(input, 3, most).map_err(in_section)?;
                of_bytes(coded.decode(name).map_err(in_section)?)
            }
            _ => {
                let on = integer(input, 3).map_err(in_section)?;
                of_entry(table, place_of(table, prefix, prefix.base.checked_add(on))?)?
            }
        };
        let most = input.len();
        let coded = string(input, 7, most).map_err(in_section)?;
        let value = coded.decode(value).map_err(in_section)?;
        let fault = named.fault.or_else(|| check_value(value));
        tell(Line { key: named.key, name: table.bytes_of(named.name), value, fault })
    }

    /// The stream of a section that was not read to its end, or whose reading was given up (section 4.4.2).
    pub fn cancel(&mut self, stream: u64) {
        write_integer(&mut self.out, 0x40, 6, stream);
    }

    /// What is to be written to the decoder stream, also that entries have come (section 4.4.3). Empty when taken.
    pub fn take_output(&mut self, out: &mut Vec<u8>) {
        let news = self.table.inserted() - self.acknowledged;
        if news > 0 {
            write_integer(&mut self.out, 0, 6, news);
            self.acknowledged = self.table.inserted();
        }
        out.append(&mut self.out);
    }

    /// Bytes of entries that were added since this was asked last: an instruction of one byte may repeat an entry of any length.
    pub fn take_added(&mut self) -> usize {
        std::mem::take(&mut self.added)
    }

    /// Bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.out.len()
    }
}

/// Adds an entry; how many bytes it has.
fn insert(
    table: &mut Table,
    name: Name<'_>,
    value: &[u8],
    key: Key,
    fault: Option<Fault>,
) -> Result<usize, Unread> {
    let name_len = table.bytes_of(name).len();
    if !table.fits(name_len, value.len()) {
        return Err(Unread::Wrong(TOO_LARGE));
    }
    table.insert(name, value, key, fault);
    Ok(name_len + value.len())
}

fn of_bytes(name: &[u8]) -> LineName<'_> {
    let key = Key::of(name);
    LineName { name: Name::Bytes(name), key, fault: check_name(key, name) }
}

fn of_static(index: usize) -> Option<LineName<'static>> {
    let line = static_table::get(index)?;
    Some(LineName { name: Name::Bytes(line.name), key: line.key, fault: None })
}

fn of_entry(table: &Table, place: usize) -> Result<LineName<'static>, Corrupt> {
    let (key, fault) = table.name(place).ok_or(Corrupt::Section(NO_ENTRY))?;
    Ok(LineName { name: Name::OfEntry(place), key, fault })
}

/// The absolute index of an entry so far before the base.
fn before(prefix: Prefix, back: u64) -> Option<u64> {
    prefix.base.checked_sub(back)?.checked_sub(1)
}

/// The place in the table of the entry with that absolute index: one that the section says it needs.
fn place_of(table: &Table, prefix: Prefix, index: Option<u64>) -> Result<usize, Corrupt> {
    let index = index.filter(|index| *index < prefix.required);
    let place = index.and_then(|index| (table.inserted() - 1).checked_sub(index));
    place.and_then(|place| usize::try_from(place).ok()).ok_or(Corrupt::Section(NO_ENTRY))
}

fn in_section(unread: Unread) -> Corrupt {
    Corrupt::Section(match unread {
        Unread::Partial => CUT,
        Unread::Wrong(what) => what,
    })
}

const ABOVE_CAPACITY: &str = "the table is to be larger than was allowed (RFC 9204 section 4.3.1)";
const NO_ENTRY: &str = "a reference to an entry that does not exist (RFC 9204 section 3.2)";
const NO_BASE: &str = "the base of a section is below zero (RFC 9204 section 4.5.1.2)";
const NO_COUNT: &str = "no such number of entries can be required (RFC 9204 section 4.5.1.1)";
const TOO_LARGE: &str = "an entry is larger than the table (RFC 9204 section 3.2.2)";
const CUT: &str = "a section ends within a line (RFC 9204 section 4.5)";

#[cfg(test)]
mod tests;
