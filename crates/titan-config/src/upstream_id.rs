//! How other parts of a file name an upstream.

use crate::address::parse_endpoint;
use crate::diagnostic::Diagnostic;
use crate::location::Span;
use crate::node::quote;
use crate::read::{Read, Reading};
use crate::readers::text;
use crate::shape::TextShape;
use crate::token::NAME;

/// The place of an upstream in [`crate::Config::upstreams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamId(u16);

impl UpstreamId {
    /// The index into [`crate::Config::upstreams`].
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The name of an upstream of the file.
pub(crate) fn upstream_name() -> impl Read<Value = UpstreamId> {
    let shape = TextShape { what: "the name of an upstream", examples: "`api`", ..NAME };
    text(shape, |text| Ok(text.to_owned()))
        .then(|name: String, node, to| find_upstream(&name, node.span, to))
}

/// The upstream of that name, which is used from now on.
pub(crate) fn find_upstream(name: &str, span: Span, to: &mut Reading<'_>) -> Option<UpstreamId> {
    let place = to.declared.upstreams.use_name(name);
    if let Some(place) = place.and_then(|place| u16::try_from(place).ok()) {
        return Some(UpstreamId(place));
    }
    let error = Diagnostic::error(span, format!("there is no upstream {}", quote(name)));
    let help = match parse_endpoint(name).is_ok() || name.contains("://") {
        true => {
            "define the upstream under a name in `upstreams`, and name it in the route: `upstream: api`".into()
        }
        false => help_for(name, to),
    };
    to.fail(error.label("not found in `upstreams`").help(help))
}

/// What to do about a name that no upstream has.
fn help_for(name: &str, to: &Reading<'_>) -> String {
    const SHOWN: usize = 8;
    let upstreams = &to.declared.upstreams;
    if let Some(help) = to.did_you_mean(name, upstreams.iter()) {
        return help;
    }
    let count = upstreams.iter().len();
    let names: Vec<_> = upstreams.iter().take(SHOWN).map(quote).collect();
    match count {
        0 => "the file defines no `upstreams`".to_owned(),
        1..=SHOWN => format!("the file defines {}", names.join(", ")),
        _ => format!("the file defines {} and {} more", names.join(", "), count - SHOWN),
    }
}
