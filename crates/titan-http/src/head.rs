//! Request and response heads as every version of HTTP sees them.

use crate::field_name::FieldName;
use crate::fields::{BadField, Fields};
use crate::method::Method;
use crate::status::Status;
use crate::text::{Span, is_target_byte};
use crate::version::Version;

/// The head of a request.
#[derive(Clone, Debug, Default)]
pub struct RequestHead {
    /// What is to be done with the target.
    pub method: Method,
    /// The version of the client.
    pub version: Version,
    /// The request target; its bytes lie in the text of `fields`.
    pub target: Target,
    /// The fields, which also own the text of the whole head.
    pub fields: Fields,
}

/// A request target, taken apart (RFC 9112 section 3.2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Target {
    /// Which of the four forms it has.
    pub form: TargetForm,
    /// The authority that the target names; empty where it names none.
    pub authority: Span,
    /// The path; empty for `*`, for CONNECT, and for an absolute-form without a path.
    pub path: Span,
    /// What follows the `?`, if there is one.
    pub query: Option<Span>,
}

/// The form of a request target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetForm {
    /// `/path?query`.
    #[default]
    Origin,
    /// `http://authority/path?query`.
    Absolute,
    /// `host:port`, for CONNECT only.
    Authority,
    /// `*`, for OPTIONS only. `http://authority` is the same with OPTIONS (RFC 9112 section 3.2.4).
    Asterisk,
}

/// The head of a response.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// How it went.
    pub status: Status,
    /// The version of the server.
    pub version: Version,
    /// The reason phrase; its bytes lie in the text of `fields`. May be empty.
    pub reason: Span,
    /// The fields, which also own the text of the whole head.
    pub fields: Fields,
}

impl RequestHead {
    /// Makes it an empty head for the next request; the memory stays.
    pub fn clear(&mut self) {
        self.method = Method::GET;
        self.version = Version::Http11;
        self.target = Target::default();
        self.fields.clear();
    }

    /// The authority that the request is for: the target's, else the `Host` field's.
    pub fn authority(&self) -> Option<&[u8]> {
        match self.target.authority.is_empty() {
            true => self.fields.get(FieldName::Host),
            false => Some(self.target.authority.of(self.fields.text())),
        }
    }

    /// The path of the target; `/` where an absolute-form target has none, `*` for asterisk-form.
    pub fn path(&self) -> &[u8] {
        match self.target.form {
            TargetForm::Asterisk => b"*",
            _ if self.target.path.is_empty() => b"/",
            _ => self.target.path.of(self.fields.text()),
        }
    }

    /// What follows the `?` of the target.
    pub fn query(&self) -> Option<&[u8]> {
        self.target.query.map(|query| query.of(self.fields.text()))
    }

    /// Gives the request another path. Refuses bytes that no target may have: a space or a line end
    /// would let the path write the rest of the request.
    pub fn set_path(&mut self, path: &[u8]) -> Result<(), BadField> {
        self.target.path = self.push_target(path)?;
        Ok(())
    }

    /// Gives the request another query, or none. Refuses the same bytes as [`RequestHead::set_path`].
    pub fn set_query(&mut self, query: Option<&[u8]>) -> Result<(), BadField> {
        self.target.query = query.map(|query| self.push_target(query)).transpose()?;
        Ok(())
    }

    fn push_target(&mut self, text: &[u8]) -> Result<Span, BadField> {
        match text.iter().all(|&byte| is_target_byte(byte)) {
            true => self.fields.push_text(text),
            false => Err(BadField::Value),
        }
    }
}

impl ResponseHead {
    /// A head with that status and no fields.
    pub fn with_status(status: Status) -> ResponseHead {
        ResponseHead { status, ..ResponseHead::default() }
    }

    /// Makes it an empty head for the next response; the memory stays.
    pub fn clear(&mut self) {
        self.status = Status::OK;
        self.version = Version::Http11;
        self.reason = Span::default();
        self.fields.clear();
    }

    /// The reason phrase to write: the one received, else the registry's.
    pub fn reason(&self) -> &[u8] {
        match self.reason.is_empty() {
            true => self.status.reason().as_bytes(),
            false => self.reason.of(self.fields.text()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_beats_the_host_field() {
        let mut head = RequestHead::default();
        head.fields.append(FieldName::Host, b"field").unwrap();
        assert_eq!(head.authority(), Some(b"field".as_slice()));
        head.target.authority = head.fields.push_text(b"target").unwrap();
        assert_eq!(head.authority(), Some(b"target".as_slice()));
    }

    #[test]
    fn no_line_end_can_be_put_into_a_target() {
        let mut head = RequestHead::default();
        for text in [b"/ HTTP/1.1\r\nX: 1".as_slice(), b"/a b", b"/\0", b"/#", b"/\xe9"] {
            assert_eq!(head.set_path(text), Err(BadField::Value));
            assert_eq!(head.set_query(Some(text)), Err(BadField::Value));
        }
        assert_eq!((head.path(), head.query()), (b"/".as_slice(), None));
    }

    #[test]
    fn an_absent_path_is_the_root() {
        let mut head = RequestHead::default();
        assert_eq!(head.path(), b"/");
        head.set_path(b"/a").unwrap();
        head.set_query(Some(b"b=c")).unwrap();
        assert_eq!((head.path(), head.query()), (b"/a".as_slice(), Some(b"b=c".as_slice())));
        head.target.form = TargetForm::Asterisk;
        assert_eq!(head.path(), b"*");
    }
}
