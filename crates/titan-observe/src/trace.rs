//! The trace that a request belongs to, as its client says (W3C Trace Context, section 3.2).

/// The id of the trace in a `traceparent` field; none where that is not valid.
pub fn trace_id(traceparent: &[u8]) -> Option<&[u8]> {
    let [version @ .., b'-'] = traceparent.get(..3)? else { return None };
    let (id, rest) = traceparent.get(3..)?.split_at_checked(32)?;
    let (parent, flags) = rest.strip_prefix(b"-")?.split_at_checked(16)?;
    let flags = flags.strip_prefix(b"-")?;
    // Later versions may have more to say.
    let (flags, more) = flags.split_at_checked(2)?;
    let is_whole = more.is_empty() || version != b"00" && more.starts_with(b"-");
    let is_hex = |text: &[u8]| text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_nonzero = |text: &[u8]| text.iter().any(|byte| *byte != b'0');
    let are_hex = [version, id, parent, flags].into_iter().all(is_hex);
    let is_valid = are_hex && version != b"ff" && is_nonzero(id) && is_nonzero(parent) && is_whole;
    is_valid.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_field_names_a_trace() {
        const ID: &str = "0af7651916cd43dd8448eb211c80319c";
        let whole = format!("00-{ID}-b7ad6b7169203331-01");
        assert_eq!(trace_id(whole.as_bytes()), Some(ID.as_bytes()));
        assert_eq!(trace_id(whole.replace("00-", "cc-").as_bytes()), Some(ID.as_bytes()));
        assert_eq!(trace_id(format!("cc{}-what", &whole[2..]).as_bytes()), Some(ID.as_bytes()));
        for bad in [
            format!("{whole}-what"),
            whole.to_ascii_uppercase(),
            whole.replace(ID, &"0".repeat(32)),
            whole.replace("b7ad6b7169203331", &"0".repeat(16)),
            whole.replace("00-", "ff-"),
            whole.replace('a', "g"),
            String::new(),
        ] {
            assert_eq!(trace_id(bad.as_bytes()), None, "{bad}");
        }
        for end in 0..whole.len() {
            assert_eq!(trace_id(&whole.as_bytes()[..end]), None, "{end}");
        }
    }
}
