//! When a gateway is ready.

use super::*;
use crate::reloads::SourceStatus;

#[test]
fn not_ready_before_each_source_has_delivered() {
    let desk = Desk::new();
    let source = |name: &str, revision: Option<&str>| SourceStatus {
        name: name.to_owned(),
        kind: "http",
        local_files: false,
        revision: revision.map(str::to_owned),
        succeeded: None,
        failure: None,
        documents: 0,
        held_back: Vec::new(),
    };
    desk.pages.reloads.note_sources(vec![source("a", Some("1")), source("b", None)]);
    let waits = (503, "a source has not delivered yet\n".to_owned());
    assert_eq!(desk.asks(Method::GET, "/readyz"), waits);
    desk.pages.reloads.note_sources(vec![source("a", Some("1")), source("b", Some("1"))]);
    assert_eq!(desk.asks(Method::GET, "/readyz").0, 200);
}
