//! Records as lines of text, one for each.

mod clock_time;
mod combined;
mod json;
mod template;
mod text;

pub use clock_time::Stamps;

use crate::record::Recorded;
use crate::secret::SecretNames;
use titan_config::{Captures, LogFormat, LogTemplate};

/// What the formatting of one record leaves for that of the next.
#[derive(Debug, Default)]
pub struct Formatter {
    stamps: Stamps,
    secrets: SecretNames,
    /// A text that is being put together.
    scratch: Vec<u8>,
}

impl Formatter {
    /// Appends a record as a line in that format; of what was captured with what a log is to have.
    pub fn line(
        &mut self,
        format: &LogFormat,
        captures: &Captures,
        record: &Recorded<'_>,
        out: &mut Vec<u8>,
    ) {
        match format {
            LogFormat::Json => self.json(captures, record, out),
            LogFormat::Combined => self.combined(record, out),
            LogFormat::Template(template) => self.template(template, record, out),
        }
    }

    /// Appends a record as one line of JSON (RFC 8259), of ASCII alone.
    pub fn json(&mut self, captures: &Captures, record: &Recorded<'_>, out: &mut Vec<u8>) {
        json::write(self, captures, record, out);
        out.push(b'\n');
    }

    /// Appends a record as a line with these fields.
    pub fn template(&mut self, template: &LogTemplate, record: &Recorded<'_>, out: &mut Vec<u8>) {
        template::write(self, template, record, out);
        out.push(b'\n');
    }

    /// Appends a record as a line of the combined log format.
    pub fn combined(&mut self, record: &Recorded<'_>, out: &mut Vec<u8>) {
        combined::write(self, record, out);
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests;
