//! What policies tell `titan explain` about a hypothetical request.

use crate::context::PolicyContext;
use std::net::IpAddr;
use titan_config::PolicyKind;
use titan_http::{Field, RequestHead};
use titan_io::error::{Error, Kind};

/// What would be decided of a request, and why.
pub struct Story<'s> {
    /// Whether the client's address is not given: then nothing is decided by it.
    pub(crate) is_anybody: bool,
    /// Why the credentials of each policy cannot be read, of those whose cannot.
    unread: &'s [Option<String>],
    /// What was told.
    pub lines: Vec<String>,
    /// The policies that have begun to tell, in order.
    pub met: Vec<PolicyKind>,
    /// The place of the policy that tells.
    place: usize,
    /// What the request would be refused with first.
    refused: Option<Kind>,
}

impl<'s> Story<'s> {
    /// One that begins. What is `unread` is why the credentials of each policy cannot be read, of those whose cannot.
    pub fn new(is_anybody: bool, unread: &'s [Option<String>]) -> Story<'s> {
        Story { is_anybody, unread, lines: Vec::new(), met: Vec::new(), place: 0, refused: None }
    }

    /// A policy begins to tell.
    pub(crate) fn begin(&mut self, kind: PolicyKind, name: &str, place: usize) {
        self.lines.push(format!("{}: {name}", kind.as_str()));
        self.met.push(kind);
        self.place = place;
    }

    /// Adds what it does, or why.
    pub(crate) fn tell(&mut self, line: impl AsRef<str>) {
        self.lines.push(format!("  {}", line.as_ref()));
    }

    /// Adds a reason for which the request would be refused. What else the policy has to say may follow.
    pub(crate) fn refuse(&mut self, kind: Kind, why: impl AsRef<str>) {
        self.tell(why);
        self.refused = self.refused.or(Some(kind));
    }

    /// What the request is refused with, if it is.
    pub(crate) fn verdict(&self) -> Result<(), Error> {
        self.refused.map_or(Ok(()), |kind| Err(kind.into()))
    }

    /// Why the credentials of the policy that tells cannot be read.
    pub(crate) fn unread(&self) -> Option<&'s str> {
        self.unread.get(self.place)?.as_deref()
    }

    /// The address of the client, if it is given.
    pub(crate) fn client(&self, context: &PolicyContext<'_>) -> Option<IpAddr> {
        context.client().filter(|_| !self.is_anybody)
    }

    /// Adds what has become of a request that was `before`.
    pub(crate) fn tell_changes(&mut self, before: &RequestHead, context: &PolicyContext<'_>) {
        let changes = changes(before, context.request);
        changes.iter().for_each(|change| self.tell(change));
        let Some(stand_in) = context.client().filter(|_| self.is_anybody) else { return };
        let stand_in = stand_in.to_string();
        if changes.iter().any(|change| change.contains(&stand_in)) {
            self.tell(format!(
                "({stand_in} stands for the client's address; set it with `--from`)"
            ));
        }
    }
}

fn changes(before: &RequestHead, after: &RequestHead) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut changes = Vec::new();
    if before.path() != after.path() {
        changes.push(format!("path {}", text(after.path())));
    }
    if before.query() != after.query() {
        changes.push(format!("query {}", after.query().map_or("none".to_owned(), text)));
    }
    let has = |head: &RequestHead, field: Field<'_>| {
        head.fields.iter().any(|it| it.name == field.name && it.value == field.value)
    };
    let line = |field: Field<'_>| format!("{}: {}", text(field.name), text(field.value));
    let gone = before.fields.iter().filter(|field| !has(after, *field));
    changes.extend(gone.map(|field| format!("without {}", line(field))));
    let come = after.fields.iter().filter(|field| !has(before, *field));
    changes.extend(come.map(|field| format!("with {}", line(field))));
    changes
}
