//! How urgent a response is (RFC 9218).

use titan_http::stream::StreamId;

/// The priority of a request: of two responses that wait the more urgent one is sent, and of the equally urgent ones those that are of
/// use in part take turns, while the others are sent one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7 (section 4.1).
    pub urgency: u8,
    /// Whether a part of it is of use (section 4.2).
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { urgency: 3, incremental: false }
    }
}

/// Bytes of a field that is looked at: beyond that it says nothing.
pub const MAX_PRIORITY: usize = 256;

impl Priority {
    /// What a `priority` field says, or the field of a PRIORITY_UPDATE frame: a dictionary (RFC 9651 section 3.2), of which `u` and `i`
    /// count, each as it stands last. What is out of range, or of another type, is as if it were not there; a field that is too long says
    /// nothing.
    pub fn told(field: &[u8]) -> Priority {
        let mut priority = Priority::default();
        if field.len() > MAX_PRIORITY {
            return priority;
        }
        for member in members(field) {
            let member = member.trim_ascii();
            // Parameters mean nothing here.
            let member = member.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
            match member {
                [b'u', b'=', urgency @ b'0'..=b'7'] => priority.urgency = urgency - b'0',
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                _ => {}
            }
        }
        priority
    }
}

/// The levels of one urgency: below the requests that are of use only whole, one for each, is the one of those that take turns.
const LEVELS: i32 = 1 << 24;

impl Priority {
    /// The level of the response to that request: a greater one goes first, equal ones take turns. Of what is of use only whole the earlier
    /// request goes first (RFC 9218 section 10). A request that says nothing of its priority has level 0, that of the default urgency
    /// where responses take turns: who does not know of priorities does not mean to wait for others.
    pub(crate) fn level(self, request: StreamId) -> i32 {
        let urgency = (i32::from(Priority::default().urgency) - i32::from(self.urgency)) * LEVELS;
        let place = i32::try_from(request.number() / 4).unwrap_or(i32::MAX);
        urgency + if self.incremental { 0 } else { LEVELS - 1 - place.min(LEVELS - 2) }
    }
}

/// The members of a dictionary: between commas that are in no string.
fn members(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    field.split(move |&byte| {
        let is_comma = byte == b',' && !is_quoted;
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
        is_comma
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgency_and_increments_are_read_and_nothing_else() {
        for (field, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=5, i", 5, true),
            ("i,u=7", 7, true),
            ("i=?1", 3, true),
            ("i, i=?0", 3, false),
            ("u=1, u=2", 2, false),
            ("u=8", 3, false),
            ("u=-1", 3, false),
            ("u=3.0", 3, false),
            ("u=\"1\"", 3, false),
            ("i=1", 3, false),
            ("u=2;a=b, i;c", 2, true),
            ("x=\", u=0, \\\" i\", u=4", 4, false),
            ("U=1", 3, false),
        ] {
            assert_eq!(
                Priority::told(field.as_bytes()),
                Priority { urgency, incremental },
                "{field}"
            );
        }
        let long = format!("u=1, x={}", "1".repeat(MAX_PRIORITY));
        assert_eq!(Priority::told(long.as_bytes()), Priority::default());
    }
}
