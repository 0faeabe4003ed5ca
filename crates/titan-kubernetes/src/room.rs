//! A delivery has bounds. Routes that there is no room for are left out, and nothing else.

use std::collections::BTreeMap;
use titan_sources::delivery::{Document, MAX_DOCUMENTS, MAX_TEXTS};

/// The documents that a delivery has room for, and why others are left out. Routes that were delivered before come before new ones:
/// whoever adds one too many takes no other down.
pub(crate) fn fitting(
    documents: &BTreeMap<String, String>,
    was_delivered: impl Fn(&str) -> bool,
) -> (Vec<Document>, BTreeMap<String, String>) {
    fitting_in((MAX_DOCUMENTS, MAX_TEXTS), documents, was_delivered)
}

fn fitting_in(
    (most, mut bytes): (usize, usize),
    documents: &BTreeMap<String, String>,
    was_delivered: impl Fn(&str) -> bool,
) -> (Vec<Document>, BTreeMap<String, String>) {
    let mut all: Vec<_> = documents.iter().collect();
    all.sort_by_key(|(name, _)| (is_route(name), !was_delivered(name)));
    let (mut kept, mut left_out) = (Vec::new(), BTreeMap::new());
    for (name, text) in all {
        let rest = bytes.checked_sub(text.len()).filter(|_| kept.len() < most);
        match rest {
            Some(rest) => {
                bytes = rest;
                kept.push(Document { name: name.clone(), text: text.clone() });
            }
            // The delivery as a whole fails, and says why.
            None if !is_route(name) => {
                kept.push(Document { name: name.clone(), text: text.clone() });
            }
            None => {
                let why = format!(
                    "the cluster has more than a gateway takes: {most} documents, most of them routes, and {} MiB of them; \
                     delete routes, or share them out among several controllers",
                    MAX_TEXTS >> 20
                );
                left_out.insert(name.clone(), why);
            }
        }
    }
    (kept, left_out)
}

/// Whether a document says where requests or connections go.
fn is_route(name: &str) -> bool {
    name.split_once('/').is_some_and(|(kind, _)| kind.ends_with("route"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(documents: &[&str], room: (usize, usize), before: &[&str]) -> (String, String) {
        let documents =
            documents.iter().map(|name| ((*name).to_owned(), "12345".to_owned())).collect();
        let (kept, left_out) = fitting_in(room, &documents, |name| before.contains(&name));
        let kept: Vec<_> = kept.into_iter().map(|it| it.name).collect();
        (kept.join(" "), left_out.into_keys().collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_there_is_no_room_for_is_left_out() {
        let all = ["grpcroute/a/a", "httproute/a/b", "listener/a", "service/a"];
        let of = |room, before: &[&str]| names(&all, room, before);
        let (everything, nothing) = of((4, 20), &[]);
        assert_eq!(everything, "listener/a service/a grpcroute/a/a httproute/a/b");
        assert_eq!(nothing, "");
        let first = "listener/a service/a grpcroute/a/a";
        assert_eq!(of((3, 20), &[]), (first.to_owned(), "httproute/a/b".to_owned()));
        assert_eq!(of((4, 19), &[]), (first.to_owned(), "httproute/a/b".to_owned()));
        let kept = "listener/a service/a httproute/a/b";
        assert_eq!(of((3, 20), &["httproute/a/b"]), (kept.to_owned(), "grpcroute/a/a".to_owned()));
        // That there is too much of the rest is for the delivery to say.
        assert_eq!(of((1, 20), &[]).0, "listener/a service/a");
    }
}
