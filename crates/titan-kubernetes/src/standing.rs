//! What the program says of documents.

use std::collections::BTreeMap;

/// What became of the documents of the latest delivery that was judged.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    in_force: BTreeMap<String, Result<(), String>>,
}

/// What became of one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Became<'s> {
    /// Requests are served from it, or from what it said before.
    InForce,
    /// It is held back, for this reason.
    Refused(&'s str),
    /// That is not known yet.
    Pending,
}

impl Standing {
    /// Notes the verdict on a delivery of these documents: those that were refused, by name, and whether the others are in force.
    pub fn note<'d>(
        &mut self,
        documents: impl Iterator<Item = &'d str>,
        refused: &BTreeMap<String, String>,
        is_in_force: bool,
    ) {
        let before = std::mem::take(&mut self.in_force);
        for document in documents {
            let became = match (refused.get(document), before.get(document)) {
                (Some(why), _) => Err(why.clone()),
                (None, _) if is_in_force => Ok(()),
                (None, Some(before)) => before.clone(),
                (None, None) => continue,
            };
            self.in_force.insert(document.to_owned(), became);
        }
    }

    pub(crate) fn of(&self, document: &str) -> Became<'_> {
        match self.in_force.get(document) {
            Some(Ok(())) => Became::InForce,
            Some(Err(why)) => Became::Refused(why),
            None => Became::Pending,
        }
    }
}
