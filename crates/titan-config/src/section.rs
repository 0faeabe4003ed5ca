//! Sections: mappings with known keys. The macro is where a field is declared, once, with its doc, type,
//! default and reader; reading, the detection of unknown keys, the schema and the reference come from it.

use crate::diagnostic::Diagnostic;
use crate::habits;
use crate::node::{Entry, Kind, Node, quote};
use crate::read::{Field, Read, Reading};
use crate::shape::{Pick, SectionInfo, Shape, alternatives};
use crate::suggest;
use std::borrow::Cow;

/// Declares a mapping with known keys.
///
/// `section! { "route": "a route" in words; one_of? /// doc  pub struct Route { /// doc  pub key: Type = field, } }`
macro_rules! section {
    (
        $name:literal, $what:literal, $pick:ident;
        $(#[doc = $doc:literal])+
        $visibility:vis struct $Section:ident {
            $(
                $(#[doc = $field_doc:literal])+
                $field_visibility:vis $field:ident: $Type:ty = $reader:expr,
            )+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        $visibility struct $Section {
            $(
                $(#[doc = $field_doc])+
                $field_visibility $field: $Type,
            )+
        }

        impl crate::section::Section for $Section {
            const PICK: crate::shape::Pick = crate::shape::Pick::$pick;
            const KEYS: &[&'static str] = &[$(stringify!($field)),+];

            fn info() -> crate::shape::SectionInfo {
                use crate::read::Field as _;
                crate::shape::SectionInfo {
                    name: $name,
                    what: $what,
                    doc: &[$($doc),+],
                    pick: Self::PICK,
                    fields: vec![$({
                        let field = crate::section::of_type::<$Type, _>($reader);
                        crate::shape::FieldInfo {
                            key: stringify!($field),
                            doc: &[$($field_doc),+],
                            presence: field.presence(),
                            shape: field.shape(),
                        }
                    }),+],
                }
            }

            fn read_fields(
                node: &crate::node::Node,
                to: &mut crate::read::Reading<'_>,
            ) -> Option<Self> {
                $(let $field = crate::section::field(&$reader, stringify!($field), node, to);)+
                Some($Section { $($field: $field?),+ })
            }
        }
    };
}
pub(crate) use section;

/// A mapping with known keys.
pub(crate) trait Section: Sized {
    const PICK: Pick;
    const KEYS: &[&'static str];

    fn info() -> SectionInfo;

    /// Reads every field, also after one that is wrong: all errors are wanted.
    fn read_fields(node: &Node, to: &mut Reading<'_>) -> Option<Self>;
}

/// Lets the compiler know the type of a reader where nothing is read.
pub(crate) fn of_type<T, F: Field<Value = T>>(field: F) -> F {
    field
}

/// The reader of a section.
pub(crate) fn section_of<S: Section>() -> SectionReader<S> {
    SectionReader(std::marker::PhantomData)
}

pub(crate) struct SectionReader<S>(std::marker::PhantomData<S>);

impl<S: Section> Read for SectionReader<S> {
    type Value = S;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<S> {
        if !node.is_map() {
            return to.mismatch(node, self);
        }
        let node = &*refuse_unknown::<S>(node, to);
        let section = S::read_fields(node, to);
        match S::PICK {
            Pick::Any => section,
            Pick::One => section.filter(|_| is_one(&S::info(), node, to)),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Section(S::info())
    }

    fn takes(&self, kind: &Kind) -> bool {
        matches!(kind, Kind::Map(_))
    }
}

/// Reads one field; one that is not there is the business of the field.
pub(crate) fn field<F: Field>(
    field: &F,
    key: &'static str,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<F::Value> {
    let Some(entry) = node.entry(key) else { return field.absent(key, node, to) };
    if matches!(entry.value.kind, Kind::Null) {
        let error = Diagnostic::error(entry.key_span, format!("`{key}` has no value"));
        if to.is_full() {
            return to.fail(error);
        }
        let expected = format!("expected {}", field.shape().describe());
        return to.fail(error.label(expected).help("give it a value, or remove the key"));
    }
    to.inside(key, |to| field.read(&entry.value, to))
}

/// Reports the keys that the section does not know. What is read further is the node without the slips, so
/// that a slip in a key does not hide what is wrong with its value, nor make it missing.
fn refuse_unknown<'n, S: Section>(node: &'n Node, to: &mut Reading<'_>) -> Cow<'n, Node> {
    let is_unknown = |entry: &&Entry| !S::KEYS.contains(&entry.key.as_str());
    let mut node = Cow::Borrowed(node);
    for (index, entry) in node.clone().entries().iter().enumerate() {
        if !is_unknown(&entry) {
            continue;
        }
        let meant = refuse_key::<S>(entry, to);
        if let Some(meant) = meant.filter(|meant| node.entry(meant).is_none())
            && let Kind::Map(entries) = &mut node.to_mut().kind
        {
            meant.clone_into(&mut entries[index].key);
        }
    }
    node
}

/// Reports one key; returns the one that was probably meant.
fn refuse_key<S: Section>(entry: &Entry, to: &mut Reading<'_>) -> Option<&'static str> {
    let Entry { key, key_span, value: _ } = entry;
    let error = Diagnostic::error(*key_span, format!("unknown key {}", quote(key)));
    if to.is_full() {
        return to.fail(error);
    }
    let info = S::info();
    let may_be_secret = info.may_be_secret(entry);
    let SectionInfo { name, what, .. } = info;
    let told = habits::explain_key(name, key);
    // What is explained is no slip, however near it is.
    let meant = suggest::nearest(key, S::KEYS.iter().copied()).filter(|_| told.is_none());
    let help = match (meant, told) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, Some(help)) => help.to_owned(),
        (None, None) => match to.sections_with(key).as_slice() {
            [] if may_be_secret => {
                // It is not repeated: a key of no section may be a secret.
                let error = Diagnostic::error(*key_span, "unknown key");
                let help = format!("{what} has the keys {}", key_list(S::KEYS));
                return to.fail(error.label(format!("not a key of {what}")).help(help));
            }
            [] => format!("{what} has the keys {}", key_list(S::KEYS)),
            homes => format!("`{key}` is a key of {}", alternatives(homes.to_vec())),
        },
    };
    to.add(error.label(format!("not a key of {what}")).help(help));
    meant
}

/// Whether some key is a slip, which has been reported.
pub(crate) fn has_unknown_keys<S: Section>(node: &Node) -> bool {
    node.entries().iter().any(|entry| !S::KEYS.contains(&entry.key.as_str()))
}

fn key_list(known: &[&str]) -> String {
    known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// Whether exactly one of the fields is there; reports it otherwise.
fn is_one(info: &SectionInfo, node: &Node, to: &mut Reading<'_>) -> bool {
    let is_field = |entry: &&Entry| info.fields.iter().any(|field| field.key == entry.key);
    let given: Vec<&Entry> = node.entries().iter().filter(is_field).collect();
    match given.as_slice() {
        [_] => true,
        [] => {
            let keys: Vec<_> = info.fields.iter().map(|field| format!("`{}`", field.key)).collect();
            let error = Diagnostic::error(node.span, format!("{} is incomplete", info.what));
            to.add(error.label(format!("expected {}", alternatives(keys))));
            false
        }
        [first, second, ..] => {
            exclude(first, second, to);
            false
        }
    }
}

/// Reports two keys of which only one can be there.
pub(crate) fn exclude(first: &Entry, second: &Entry, to: &mut Reading<'_>) {
    let message = format!("`{}` and `{}` exclude each other", first.key, second.key);
    let error = Diagnostic::error(second.key_span, message).label("remove one of them");
    to.add(error.also(first.key_span, "the other key is here"));
}
