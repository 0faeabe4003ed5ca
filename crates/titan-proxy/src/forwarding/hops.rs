//! How many gateways a request may still pass: `Max-Forwards`.

use titan_http::{BadField, FieldName, Fields, Method, RequestHead, Status};

/// How far a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// On to the upstream.
    Upstream,
    /// No further than here, where it gets a response with that status.
    Here(Status),
}

/// Counts this gateway among the hops that `Max-Forwards` allows OPTIONS and TRACE (RFC 9110 section
/// 7.6.2). What is no single number is no limit; with other methods the field means nothing.
pub(crate) fn count_hop(head: &mut RequestHead) -> Result<Reach, BadField> {
    let here = match head.method {
        Method::OPTIONS => Status::OK,
        // To echo the request would hand a script the cookies that it must not see.
        Method::TRACE => Status::NOT_IMPLEMENTED,
        _ => return Ok(Reach::Upstream),
    };
    match hops_left(&head.fields) {
        None => Ok(Reach::Upstream),
        Some(0) => Ok(Reach::Here(here)),
        Some(left) => {
            let left = (left - 1).to_string();
            head.fields.set(FieldName::MaxForwards, left.as_bytes())?;
            Ok(Reach::Upstream)
        }
    }
}

/// A number that is too large is as good as the largest one.
fn hops_left(fields: &Fields) -> Option<u64> {
    let mut lines = fields.all(FieldName::MaxForwards);
    let digits = lines.next().filter(|_| lines.next().is_none())?;
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = str::from_utf8(digits).ok().filter(|_| is_number)?;
    Some(number.parse().unwrap_or(u64::MAX))
}
