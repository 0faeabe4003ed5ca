//! The language as a whole: its sections in the order of a reader, found from the keys of the file.

use crate::gateway::ConfigFields;
use crate::section::Section;
use crate::shape::SectionInfo;
use std::sync::LazyLock;

/// Every section, each once, the file itself first.
pub(crate) fn sections() -> &'static [SectionInfo] {
    static SECTIONS: LazyLock<Vec<SectionInfo>> = LazyLock::new(|| {
        let mut found = Vec::new();
        collect(&ConfigFields::info(), &mut found);
        found
    });
    &SECTIONS
}

fn collect(section: &SectionInfo, found: &mut Vec<SectionInfo>) {
    if found.iter().any(|it| it.name == section.name) {
        return;
    }
    found.push(section.clone());
    for field in &section.fields {
        field.shape.sections().into_iter().for_each(|inner| collect(inner, found));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::{FieldInfo, Presence};

    #[test]
    fn every_field_says_what_it_does() {
        for SectionInfo { name, fields, .. } in sections() {
            for FieldInfo { key, doc, .. } in fields {
                let doc = doc.concat();
                assert!(doc.len() > 10 && doc.ends_with(['.', '`']), "{name}.{key}: {doc}");
            }
        }
    }

    #[test]
    fn fields_of_which_one_is_taken_have_no_default() {
        for section in sections().iter().filter(|it| it.pick == crate::shape::Pick::One) {
            let optional = |field: &FieldInfo| field.presence == Presence::Optional("");
            assert!(section.fields.iter().all(optional), "{}", section.name);
        }
    }
}
