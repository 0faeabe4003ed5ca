//! Changed queries, compared with what a query parser reads from them.

use super::Edits;
use super::query;
use super::value::{BuiltValues, Target};
use proptest::prelude::*;
use titan_config::{Changes, ValuePiece, ValueTemplate};

fn edits(remove: &[&str], rename: &[(&str, &str)], set: &[(&str, &str)]) -> Edits<String> {
    let text = |text: &str| ValueTemplate { pieces: vec![ValuePiece::Text(text.into())] };
    let changes = Changes {
        remove: remove.iter().map(|name| (*name).into()).collect(),
        rename: rename.iter().map(|&(from, to)| (from.into(), to.into())).collect(),
        set: set.iter().map(|&(name, value)| (name.into(), text(value))).collect(),
        append: Vec::new(),
        set_if_absent: Vec::new(),
    };
    Edits::new(&changes, None, Target::Query)
}

proptest! {
    #[test]
    fn a_query_says_what_its_changes_say(query in "[abc=&%6123+ ]{0,24}", value in "[a&=+%# \u{e9}]{1,6}") {
        let query = query.replace(' ', "%20");
        let of = |query: &[u8], name: &str| -> Vec<Vec<u8>> {
            titan_http::query::values(Some(query), name).map(std::borrow::Cow::into_owned).collect()
        };
        let set = [("c", value.as_str())];
        let edits = edits(&["a"], &[("b", "b & b")], &set);
        let changed = query::change(Some(query.as_bytes()), &edits, &BuiltValues::default());
        prop_assert!(changed.iter().all(|&byte| titan_http::is_target_byte(byte)));
        prop_assert_eq!(of(&changed, "a"), Vec::<Vec<u8>>::new());
        prop_assert_eq!(of(&changed, "b"), Vec::<Vec<u8>>::new());
        prop_assert_eq!(of(&changed, "b & b"), of(query.as_bytes(), "b"));
        prop_assert_eq!(of(&changed, "c"), vec![value.into_bytes()]);
        prop_assert_eq!(of(&changed, "12"), of(query.as_bytes(), "12"));
    }
}
