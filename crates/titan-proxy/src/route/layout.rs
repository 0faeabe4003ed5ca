//! Lays routes out for the search: hosts in tables, paths in a trie, equals in order of precedence.

use super::condition::Conditions;
use super::{Host, HostIndex, Node, Routes};
use std::cmp::Reverse;
use titan_config::{HostPattern, PathEnd, PathPattern, Segment};

/// What of a route decides which requests it takes.
pub(super) struct Spec<'a> {
    pub(super) hosts: &'a [HostPattern],
    pub(super) path: &'a PathPattern,
    pub(super) priority: i32,
    pub(super) conditions: Conditions,
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
        let mut priorities = Vec::new();
        for spec in specs {
            routes.add(&spec);
            priorities.push(spec.priority);
            routes.conditions.push(spec.conditions);
        }
        routes.sort_ends(&priorities);
        routes.sort_hosts();
        routes
    }

    fn add(&mut self, spec: &Spec<'_>) {
        let route = self.conditions.len();
        let any = spec.hosts.is_empty().then_some(None);
        for host in spec.hosts.iter().map(Some).chain(any) {
            let mut node = self.root(host);
            for segment in &spec.path.segments {
                node = self.child(node, segment);
            }
            let node = &mut self.nodes[node];
            match spec.path.end {
                PathEnd::Exact => node.exact.push(route),
                PathEnd::Rest(_) => node.rest.push(route),
                PathEnd::Prefix => node.prefix.push(route),
            }
        }
    }

    fn root(&mut self, pattern: Option<&HostPattern>) -> usize {
        let known = match pattern {
            Some(HostPattern::Exact(name)) => self.exact.get(name.as_bytes()).copied(),
            Some(HostPattern::Under(suffix)) => self.under.get(suffix.as_bytes()).copied(),
            None => self.any,
        };
        if let Some(known) = known {
            return self.hosts[known].root;
        }
        let root = self.new_node();
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

    fn child(&mut self, parent: usize, segment: &Segment) -> usize {
        match segment {
            Segment::Literal(text) => self.literal_child(parent, text.as_bytes()),
            Segment::Param(_) => match self.nodes[parent].param {
                Some(child) => child,
                None => {
                    let child = self.new_node();
                    self.nodes[parent].param = Some(child);
                    child
                }
            },
        }
    }

    fn literal_child(&mut self, parent: usize, text: &[u8]) -> usize {
        match self.nodes[parent].find_literal(text) {
            Ok(child) => child,
            Err(place) => {
                let child = self.new_node();
                self.nodes[parent].literals.insert(place, (text.into(), child));
                child
            }
        }
    }

    fn new_node(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    /// Puts the routes that end at the same place in order: points 3 to 5 of the order in [`super`].
    fn sort_ends(&mut self, priorities: &[i32]) {
        let conditions = &self.conditions;
        let order = |&route: &usize| (Reverse(priorities[route]), conditions[route].order(), route);
        for Node { exact, rest, prefix, literals: _, param: _ } in &mut self.nodes {
            [exact, rest, prefix].into_iter().for_each(|ends| ends.sort_by_key(order));
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
