//! Lays routes out for the search: hosts in tables, paths in a trie, equals in order of precedence.

use super::condition::Conditions;
use super::{Ends, Host, HostIndex, Node, Routes};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use titan_config::{HostPattern, PathEnd, PathPattern, Segment};

/// What of a route decides which requests it takes.
pub(super) struct Spec<'a> {
    pub(super) hosts: &'a [HostPattern],
    pub(super) path: &'a PathPattern,
    pub(super) priority: i32,
    pub(super) conditions: Conditions,
}

/// A node that grows. There is a root before any child, so that no child is the node at 0.
#[derive(Default)]
struct Draft<'a> {
    literals: BTreeMap<&'a [u8], u32>,
    param: Option<NonZeroU32>,
    exact: Vec<u32>,
    rest: Vec<u32>,
    prefix: Vec<u32>,
}

impl Routes {
    /// Lays out routes; their order is the index that a match names.
    pub(super) fn of<'a>(specs: impl Iterator<Item = Spec<'a>>) -> Routes {
        let mut routes = Routes {
            hosts: Vec::new(),
            exact: HostIndex::default(),
            under: HostIndex::default(),
            any: None,
            nodes: Vec::new(),
            conditions: Vec::new(),
        };
        let (mut drafts, mut orders) = (Vec::new(), Vec::new());
        for spec in specs {
            routes.add(&spec, orders.len(), &mut drafts);
            let Spec { priority, conditions, .. } = spec;
            orders.push((Reverse(priority), conditions.order()));
            let has_any = !conditions.is_empty();
            routes.conditions.push(has_any.then(|| Box::new(conditions)));
        }
        // Points 3 to 5 of the order in [`super`].
        let order = |&route: &u32| (&orders[route as usize], route);
        routes.nodes = drafts.into_iter().map(|draft| draft.finish(order)).collect();
        // It has the memory of the drafts.
        routes.nodes.shrink_to_fit();
        routes.conditions.shrink_to_fit();
        routes.sort_hosts();
        routes
    }

    fn add<'a>(&mut self, spec: &Spec<'a>, route: usize, drafts: &mut Vec<Draft<'a>>) {
        let any = spec.hosts.is_empty().then_some(None);
        for host in spec.hosts.iter().map(Some).chain(any) {
            let mut node = self.root(host, drafts);
            for segment in &spec.path.segments {
                node = child(node, segment, drafts);
            }
            let Draft { exact, rest, prefix, literals: _, param: _ } = &mut drafts[node];
            let ends = match spec.path.end {
                PathEnd::Exact => exact,
                PathEnd::Rest(_) => rest,
                PathEnd::Prefix => prefix,
            };
            ends.push(small(route));
        }
    }

    fn root(&mut self, pattern: Option<&HostPattern>, drafts: &mut Vec<Draft<'_>>) -> usize {
        let known = match pattern {
            Some(HostPattern::Exact(name)) => self.exact.get(name.as_bytes()).copied(),
            Some(HostPattern::Under(suffix)) => self.under.get(suffix.as_bytes()).copied(),
            None => self.any,
        };
        if let Some(known) = known {
            return self.hosts[known].root;
        }
        drafts.push(Draft::default());
        let root = drafts.len() - 1;
        self.hosts.push(Host { pattern: pattern.cloned(), root });
        self.index_host(self.hosts.len() - 1);
        root
    }

    fn index_host(&mut self, at: usize) {
        let key = |text: &str| Box::from(text.as_bytes());
        match &self.hosts[at].pattern {
            Some(HostPattern::Exact(name)) => drop(self.exact.insert(key(name), at)),
            Some(HostPattern::Under(suffix)) => drop(self.under.insert(key(suffix), at)),
            None => self.any = Some(at),
        }
    }

    fn sort_hosts(&mut self) {
        self.hosts.sort_by(|one, other| match (&one.pattern, &other.pattern) {
            (Some(one), Some(other)) => one.precedence(other),
            (one, other) => one.is_none().cmp(&other.is_none()),
        });
        (0..self.hosts.len()).for_each(|at| self.index_host(at));
    }
}

/// The child of a node for that segment, which is made where there is none.
fn child<'a>(parent: usize, segment: &'a Segment, drafts: &mut Vec<Draft<'a>>) -> usize {
    let new = small(drafts.len());
    let Draft { literals, param, .. } = &mut drafts[parent];
    let child = match segment {
        Segment::Literal(text) => *literals.entry(text.as_bytes()).or_insert(new),
        Segment::Param(_) => {
            let child = param.or(NonZeroU32::new(new));
            *param = child;
            child.map_or(new, NonZeroU32::get)
        }
    };
    if child == new {
        drafts.push(Draft::default());
    }
    child as usize
}

impl Draft<'_> {
    /// The node, with those that end at the same place in that order.
    fn finish<O: Ord>(self, order: impl Fn(&u32) -> O) -> Node {
        let Draft { literals, param, mut exact, mut rest, mut prefix } = self;
        for ends in [&mut exact, &mut rest, &mut prefix] {
            ends.sort_by_key(&order);
        }
        let rests = small(exact.len());
        let ends = Ends {
            rest: rests,
            prefix: rests + small(rest.len()),
            routes: [exact, rest, prefix].concat().into(),
        };
        let literals = literals.into_iter().map(|(text, child)| (text.into(), child));
        Node { literals: literals.collect(), param, ends }
    }
}

/// A place or a number of routes or nodes, of which a configuration cannot have as many.
fn small(place: usize) -> u32 {
    u32::try_from(place).expect("a configuration of so many bytes is refused")
}
