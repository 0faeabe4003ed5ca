//! The marks belong to fields that exist, and all of them.

use super::*;
use crate::language::sections;
use crate::shape::Shape;
use std::collections::BTreeSet;

fn words(shape: &Shape) -> Vec<&str> {
    match shape {
        Shape::Words(words) => words.clone(),
        Shape::Boolean => vec!["true", "false"],
        Shape::Either(shapes) => shapes.iter().flat_map(words).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn each_field_says_when_it_is_weaker() {
    let declared = sections()
        .iter()
        .flat_map(|section| section.fields.iter().map(|it| (section.name, it.key)));
    let declared = BTreeSet::from_iter(declared);
    let marked: Vec<_> = MARKS
        .iter()
        .flat_map(|(section, fields)| fields.iter().map(|(key, _)| (*section, *key)))
        .collect();
    let marked = BTreeSet::from_iter(marked);
    let missing: Vec<_> = declared.difference(&marked).collect();
    let gone: Vec<_> = marked.difference(&declared).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "decide in plan/marks.rs when these fields are weaker (`Mark::Neutral`: never): {missing:?}; \
         entries of fields that are gone: {gone:?}"
    );
    assert!(ORDERED.iter().all(|field| declared.contains(field)));
}

#[test]
fn scales_have_all_words_of_their_fields() {
    for section in sections() {
        for field in &section.fields {
            let Mark::Scale(scale) = mark(section.name, field.key) else { continue };
            let missing: Vec<_> =
                words(&field.shape).into_iter().filter(|word| !scale.contains(word)).collect();
            assert!(missing.is_empty(), "{}.{}: {missing:?}", section.name, field.key);
        }
    }
}
