//! The routes of a configuration in the order in which they are tried, laid out so that those are found quickly that
//! match something in common.

use super::effort::{Effort, Stop};
use super::regions::{Entry, Path, Region, both_hosts};
use crate::host::HostPattern;
use crate::listing::{by_host, rank};
use crate::path::Segment;
use crate::route::Route;
use std::collections::HashMap;

/// The routes of a configuration, in the order in which they are tried.
pub(super) struct Table<'c> {
    pub(super) entries: Vec<Entry<'c>>,
    /// Where the paths of a host begin.
    hosts: HashMap<Option<&'c HostPattern>, usize>,
    nodes: Vec<Node<'c>>,
}

/// A place in a path.
#[derive(Default)]
struct Node<'c> {
    literals: HashMap<&'c str, usize>,
    param: Option<usize>,
    /// The entries whose segments end here, in order.
    ends: Vec<usize>,
}

impl<'c> Table<'c> {
    pub(super) fn new(routes: &'c [Route]) -> Table<'c> {
        let all = routes.iter().enumerate();
        let mut entries: Vec<_> = all.flat_map(|(index, route)| Entry::all(index, route)).collect();
        entries.sort_by(|one, other| {
            by_host(one.host, other.host)
                .then_with(|| one.pattern.search_order().cmp(other.pattern.search_order()))
                .then_with(|| rank(one.of).cmp(&rank(other.of)))
                .then_with(|| other.lists_head().cmp(&one.lists_head()))
        });
        let mut table = Table { entries: Vec::new(), hosts: HashMap::new(), nodes: Vec::new() };
        for (index, entry) in entries.iter().enumerate() {
            table.add(index, entry);
        }
        Table { entries, ..table }
    }

    fn add(&mut self, index: usize, entry: &Entry<'c>) {
        let mut at = *self.hosts.entry(entry.host).or_insert(self.nodes.len());
        self.grow_to(at);
        for segment in &entry.path.segments {
            let next = self.nodes.len();
            let node = &mut self.nodes[at];
            at = match segment {
                Segment::Literal(text) => *node.literals.entry(text).or_insert(next),
                Segment::Param(_) => *node.param.get_or_insert(next),
            };
            self.grow_to(at);
        }
        self.nodes[at].ends.push(index);
    }

    /// Makes the node if it is the next one.
    fn grow_to(&mut self, node: usize) {
        if node == self.nodes.len() {
            self.nodes.push(Node::default());
        }
    }

    /// The entries that may match something that `other` matches, in order.
    pub(super) fn near(&self, other: &Entry<'_>, effort: &Effort<'_>) -> Result<Vec<usize>, Stop> {
        let mut found = Vec::new();
        for root in self.hosts_near(other.host, effort)? {
            self.overlapping(root, (&other.path, 0), effort, &mut found)?;
        }
        found.sort_unstable();
        Ok(found)
    }

    fn hosts_near(
        &self,
        host: Option<&HostPattern>,
        effort: &Effort<'_>,
    ) -> Result<Vec<usize>, Stop> {
        if let Some(HostPattern::Exact(_)) = host {
            return self.hosts_covering(host, effort);
        }
        effort.spend(self.hosts.len() as u64)?;
        let near = self.hosts.iter().filter(|(theirs, _)| both_hosts(host, **theirs).is_some());
        Ok(near.map(|(_, root)| *root).collect())
    }

    /// Where the hosts begin that cover this one, in the order in which they are tried.
    fn hosts_covering(
        &self,
        host: Option<&HostPattern>,
        effort: &Effort<'_>,
    ) -> Result<Vec<usize>, Stop> {
        let suffixes: Vec<_> = match host {
            Some(HostPattern::Exact(host) | HostPattern::Under(host)) => {
                let dots = host.char_indices().skip(1).filter(|(_, letter)| *letter == '.');
                dots.map(|(at, _)| HostPattern::Under(host[at..].to_owned())).collect()
            }
            None => Vec::new(),
        };
        let wider = suffixes.iter().map(Some).chain(host.is_some().then_some(None));
        let covering = std::iter::once(host).chain(wider);
        effort.spend(1 + suffixes.len() as u64)?;
        Ok(covering.filter_map(|host| self.hosts.get(&host).copied()).collect())
    }

    fn overlapping(
        &self,
        node: usize,
        (path, depth): (&Path<'_>, usize),
        effort: &Effort<'_>,
        found: &mut Vec<usize>,
    ) -> Result<(), Stop> {
        let node = &self.nodes[node];
        effort.spend(1 + node.ends.len() as u64)?;
        let segment = path.segments.get(depth);
        let fits = |index: &&usize| segment.is_none() || self.entries[**index].path.has_rest;
        found.extend(node.ends.iter().filter(fits));
        let next = (path, depth + 1);
        match segment {
            None if !path.has_rest => Ok(()),
            Some(Segment::Literal(text)) => {
                let literal = node.literals.get(text.as_str()).copied();
                let param = node.param.filter(|_| !text.is_empty());
                let mut children = literal.into_iter().chain(param);
                children.try_for_each(|child| self.overlapping(child, next, effort, found))
            }
            Some(Segment::Param(_)) | None => {
                let mut children = node.literals.values().copied().chain(node.param);
                children.try_for_each(|child| self.overlapping(child, next, effort, found))
            }
        }
    }

    /// The route that all requests of the region get to; none where some have none.
    pub(super) fn taker(
        &self,
        region: &Region<'_>,
        effort: &Effort<'_>,
    ) -> Result<Option<usize>, Stop> {
        for root in self.hosts_covering(region.host, effort)? {
            let mut first = None;
            self.covering((root, 0), region, effort, &mut first)?;
            if let Some(index) = first {
                return Ok(Some(self.entries[index].route));
            }
        }
        Ok(None)
    }

    /// The first entry below the node that matches all of the region.
    fn covering(
        &self,
        (node, depth): (usize, usize),
        region: &Region<'_>,
        effort: &Effort<'_>,
        first: &mut Option<usize>,
    ) -> Result<(), Stop> {
        let node = &self.nodes[node];
        let ends = node.ends.iter().map(|index| &self.entries[*index]);
        effort.spend(1 + ends.map(|entry| entry.cost_of(region)).sum::<u64>())?;
        let here = node.ends.iter().copied().find(|index| self.entries[*index].covers(region));
        *first = first.iter().copied().chain(here).min();
        let (literal, param) = match region.path.segments.get(depth) {
            Some(Segment::Literal(text)) => {
                let param = node.param.filter(|_| !text.is_empty());
                (node.literals.get(text.as_str()).copied(), param)
            }
            Some(Segment::Param(_)) => (None, node.param),
            None => (None, None),
        };
        let mut children = literal.into_iter().chain(param);
        children.try_for_each(|child| self.covering((child, depth + 1), region, effort, first))
    }
}
