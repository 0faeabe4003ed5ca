//! Records as lines of text, one for each.

mod clock_time;
mod combined;
mod json;
mod template;
mod text;

pub use clock_time::Stamps;

use crate::record::Recorded;
use crate::secret::{JudgedName, SecretNames};
use json::Json;
use template::Template;
use titan_config::{Captures, LogFormat};

/// Makes of a record what a destination takes for a line.
pub trait WriteRecord: Send {
    /// Appends it.
    fn write(&mut self, record: &Recorded<'_>, out: &mut Vec<u8>);
}

impl WriteRecord for Formatter {
    fn write(&mut self, record: &Recorded<'_>, out: &mut Vec<u8>) {
        self.line(record, out);
    }
}

/// Writes records in the format of one log.
#[derive(Debug)]
pub struct Formatter {
    format: Format,
    memory: Memory,
}

#[derive(Debug)]
enum Format {
    Json(Json),
    Combined,
    Template(Template),
}

/// What the formatting of one record leaves for that of the next.
#[derive(Debug, Default)]
struct Memory {
    stamps: Stamps,
    secrets: SecretNames,
    /// A text that is being put together.
    scratch: Vec<u8>,
}

impl Formatter {
    /// The format of a log; of what was captured JSON has what the log is to have.
    pub fn new(format: &LogFormat, captures: &Captures) -> Formatter {
        let format = match format {
            LogFormat::Json => Format::Json(Json::new(captures)),
            LogFormat::Combined => Format::Combined,
            LogFormat::Template(template) => Format::Template(Template::new(template)),
        };
        Formatter { format, memory: Memory::default() }
    }

    /// Appends a record as a line of ASCII: as an object of JSON (RFC 8259), in the combined log format, or as a text with
    /// fields.
    pub fn line(&mut self, record: &Recorded<'_>, out: &mut Vec<u8>) {
        let Formatter { format, memory } = self;
        match format {
            Format::Json(json) => json.write(memory, record, out),
            Format::Combined => combined::write(memory, record, out),
            Format::Template(template) => template.write(memory, record, out),
        }
        out.push(b'\n');
    }
}

/// Writes records in full: what JSON logs have of them, both heads, claims, attempts and decisions.
#[derive(Debug, Default)]
pub struct FullFormatter {
    memory: Memory,
}

impl FullFormatter {
    /// Appends a record as an object of JSON, without the end of a line.
    pub fn object(&mut self, record: &Recorded<'_>, out: &mut Vec<u8>) {
        json::write_full(&mut self.memory, record, out);
    }

    /// The same with the beginning of both bodies, where they are kept: secrets are in it.
    pub fn object_with_bodies(&mut self, record: &Recorded<'_>, out: &mut Vec<u8>) {
        json::write_with_bodies(&mut self.memory, record, out);
    }
}

/// The names, and what is secret of what they name.
fn judged(names: impl Iterator<Item = impl ToString>) -> Vec<JudgedName> {
    names.map(|name| JudgedName::new(name.to_string())).collect()
}

#[cfg(test)]
mod tests;
