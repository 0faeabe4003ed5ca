//! How traffic is split between upstreams.

use crate::bounds::MAX_SHARES;
use crate::diagnostic::Diagnostic;
use crate::node::{Kind, Node};
use crate::problem::Problem;
use crate::read::{Read, Reading};
use crate::readers::{Named, mapping, whole};
use crate::shape::{Shape, TextShape};
use crate::token::NAME;
use crate::upstream_id::{UpstreamId, find_upstream, upstream_name};
use std::num::NonZeroU16;

/// One upstream of a route and how much of its traffic it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which upstream.
    pub upstream: UpstreamId,
    /// Its part of the sum of all weights.
    pub weight: NonZeroU16,
}

/// One upstream, or several with their weights.
pub(crate) fn shares() -> impl Read<Value = Vec<Share>> {
    SharesReader
}

struct SharesReader;

impl SharesReader {
    fn one() -> impl Read<Value = Vec<Share>> {
        upstream_name().map(|upstream| vec![Share { upstream, weight: NonZeroU16::MIN }])
    }

    fn several() -> impl Read<Value = Vec<Share>> {
        let shape = TextShape { what: "the name of an upstream", examples: "`api`", ..NAME };
        let name = |text: &str| Ok::<_, Problem>(text.to_owned());
        mapping(shape, name, whole::<u16>(0..=1_000), 1..=MAX_SHARES).then(|named, node, to| {
            let shares: Vec<_> = named.iter().map(|share| share_of(share, to)).collect();
            let shares: Vec<Share> =
                shares.into_iter().collect::<Option<Vec<_>>>()?.into_iter().flatten().collect();
            if shares.is_empty() && !named.is_empty() {
                let error = Diagnostic::error(node.span, "every weight is 0");
                return to.fail(error.label("no upstream would receive a request"));
            }
            Some(shares)
        })
    }
}

impl Read for SharesReader {
    type Value = Vec<Share>;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<Vec<Share>> {
        match node.kind {
            Kind::Text(_) => SharesReader::one().read(node, to),
            Kind::Map(_) => SharesReader::several().read(node, to),
            Kind::Null | Kind::List(_) => to.mismatch(node, self),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Either(vec![SharesReader::one().shape(), SharesReader::several().shape()])
    }
}

/// The share of an upstream; none when its weight is 0. It must exist all the same.
fn share_of(named: &Named<String, u16>, to: &mut Reading<'_>) -> Option<Option<Share>> {
    let upstream = find_upstream(&named.key, named.key_span, to)?;
    Some(NonZeroU16::new(named.value).map(|weight| Share { upstream, weight }))
}
