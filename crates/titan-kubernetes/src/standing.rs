//! What the program says of documents.

use std::collections::BTreeMap;

/// What became of the documents of the latest delivery that was judged.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    in_force: BTreeMap<String, Result<(), String>>,
    /// How documents with protected routes cannot be delivered, for a while, each with the reason.
    refused_forms: BTreeMap<String, (Form, String)>,
}

/// How a document with protected routes is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    /// Tells what the cluster says from what it says at another time.
    pub digest: String,
    /// Whether its routes serve nothing.
    pub is_closed: bool,
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

    /// [`Standing::note`] for these documents, while all that is known of others stays as it is.
    pub(crate) fn note_some<'d>(
        &mut self,
        documents: impl Iterator<Item = &'d str>,
        refused: &BTreeMap<String, String>,
        is_in_force: bool,
    ) {
        let before = self.in_force.clone();
        self.note(documents, refused, is_in_force);
        for (document, became) in before {
            self.in_force.entry(document).or_insert(became);
        }
    }

    /// Notes that the program has refused a document with protected routes in this form. What was in force of it before may be open:
    /// while the cluster says the same, it is closed, or left out where that was refused as well.
    pub fn note_refused_form(&mut self, document: &str, form: Form, why: &str) {
        self.refused_forms.insert(document.to_owned(), (form, why.to_owned()));
    }

    /// Has a document delivered again as the cluster says it.
    pub fn forget_refused_form(&mut self, document: &str) {
        self.refused_forms.remove(document);
    }

    /// Why a document was refused that said this, and whether it was closed then.
    pub(crate) fn refused_form(&self, document: &str, digest: &str) -> Option<(&str, bool)> {
        let (form, why) = self.refused_forms.get(document)?;
        (form.digest == digest).then_some((why.as_str(), form.is_closed))
    }

    /// The same with what is known of documents before they are delivered.
    pub(crate) fn with(&self, told: &BTreeMap<String, String>) -> Standing {
        let mut standing = self.clone();
        let told = told.iter().map(|(document, why)| (document.clone(), Err(why.clone())));
        standing.in_force.extend(told);
        standing
    }

    /// Whether requests are served from a document, or from what it said before.
    pub(crate) fn is_served(&self, document: &str) -> bool {
        !matches!(self.of(document), Became::Pending)
    }

    pub(crate) fn of(&self, document: &str) -> Became<'_> {
        match self.in_force.get(document) {
            Some(Ok(())) => Became::InForce,
            Some(Err(why)) => Became::Refused(why),
            None => Became::Pending,
        }
    }
}
