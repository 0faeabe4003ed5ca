//! What the fields of a message say about it, gathered line by line: the rules that requests and
//! responses share.

use super::fault::Fault;
use super::line::Key;
use crate::field_name::{FieldName, FieldSet};
use crate::length::parse_length;

/// The facts of one message so far.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// What `content-length` declares.
    pub(super) length: Option<u64>,
    /// The pseudo fields that have been there, a bit for each.
    seen: u8,
    has_field: bool,
    fault: Option<Fault>,
    refusal: Option<Fault>,
}

impl Facts {
    /// Notes what is wrong. What breaks the rules of the protocol counts before what is merely too
    /// much, and of each the first.
    #[inline]
    pub(super) fn note(&mut self, fault: Fault) {
        let place = if fault.gets_response() { &mut self.refusal } else { &mut self.fault };
        place.get_or_insert(fault);
    }

    /// Notes what was wrong with a line, if anything was.
    #[inline]
    pub(super) fn note_outcome(&mut self, outcome: Result<(), Fault>) {
        if let Err(fault) = outcome {
            self.note(fault);
        }
    }

    /// What was wrong, now that the block is complete.
    pub(super) fn check(&self) -> Result<(), Fault> {
        self.fault.or(self.refusal).map_or(Ok(()), Err)
    }

    /// Whether a pseudo field has been there.
    pub(super) fn has(&self, key: Key) -> bool {
        self.seen & bit(key) != 0
    }

    /// A pseudo field, which has to stand in front, and once.
    #[inline]
    pub(super) fn read_pseudo(&mut self, key: Key) -> Result<(), Fault> {
        if self.has_field {
            return Err(Fault::PseudoLate);
        }
        if self.has(key) {
            return Err(Fault::PseudoTwice);
        }
        self.seen |= bit(key);
        Ok(())
    }

    /// A regular field.
    #[inline]
    pub(super) fn read_field(&mut self, id: FieldName, value: &[u8]) {
        self.has_field = true;
        if !HEEDED.has(id) {
            return;
        }
        match id {
            FieldName::ContentLength => self.content_length(value),
            FieldName::Te if value.eq_ignore_ascii_case(b"trailers") => {}
            FieldName::Te => self.note(Fault::Te),
            _ => self.note(Fault::ConnectionField),
        }
    }

    fn content_length(&mut self, value: &[u8]) {
        match parse_length(value) {
            _ if self.length.is_some() => self.note(Fault::SecondContentLength),
            None => self.note(Fault::ContentLength),
            length => self.length = length,
        }
    }
}

/// The fields that speak of the connection: RFC 9113 section 8.2.2.
pub const CONNECTION_FIELDS: FieldSet = FieldSet::of(&[
    FieldName::Connection,
    FieldName::KeepAlive,
    FieldName::ProxyConnection,
    FieldName::TransferEncoding,
    FieldName::Upgrade,
]);

/// What `Facts::read_field` checks.
const HEEDED: FieldSet = CONNECTION_FIELDS.with(&[FieldName::ContentLength, FieldName::Te]);

fn bit(key: Key) -> u8 {
    match key {
        Key::Method => 1,
        Key::Scheme => 2,
        Key::Authority => 4,
        Key::Path => 8,
        Key::Protocol => 16,
        Key::Status => 32,
        Key::UnknownPseudo | Key::Field(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_rule_counts_before_an_excess() {
        let mut facts = Facts::default();
        assert_eq!(facts.check(), Ok(()));
        facts.note(Fault::HeadTooLarge);
        facts.note(Fault::TargetTooLong);
        assert_eq!(facts.check(), Err(Fault::HeadTooLarge));
        facts.note(Fault::Te);
        facts.note(Fault::NoPath);
        assert_eq!(facts.check(), Err(Fault::Te));
    }
}
