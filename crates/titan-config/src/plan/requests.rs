//! Which requests get to which route, before and after, for sets of requests and not for single ones.
//!
//! What two routes both match is again a host, a path, a method and conditions: a [`Region`]. The route that takes a
//! region is the first, in the order in which routes are tried, that matches all of it. So if any request went from one
//! route to another, the region of the two is found here. The reverse does not hold everywhere: several routes together
//! may take all of a region before it gets to one that matches it whole.

use super::effort::{Effort, Stop};
use super::regions::{Region, Shape};
use super::table::Table;
use crate::gateway::Config;
use crate::route::Route;
use std::collections::{BTreeMap, HashSet};

/// Pairs of routes that are told; where there are more, the rest is not compared.
const MAX_PAIRS: usize = 1 << 15;
/// Regions that are remembered, so that none of them is looked at twice.
const MAX_KNOWN: usize = 1 << 16;
/// What a region costs beside the search for the routes that take it.
const REGION: u64 = 4;

/// What requests do, as far as it was found.
#[derive(Default)]
pub(super) struct Requests {
    /// What each route took, and which takes it now: a region for each pair of routes, those that stay where they are
    /// among them.
    pub(super) moved: Vec<Moved>,
    /// The names of new routes that get no requests, though they did before or are new.
    pub(super) unreached: Vec<String>,
    /// Whether that is all.
    pub(super) is_complete: bool,
}

/// Requests, the route that took them, and the one that does now, by their places in the files.
pub(super) struct Moved {
    pub(super) requests: String,
    pub(super) from: Option<usize>,
    pub(super) to: Option<usize>,
}

/// Compares what becomes of requests, as long as that is wanted.
pub(super) fn compare(old: &Config, new: &Config, effort: &Effort<'_>) -> Option<Requests> {
    let (before, after) = (Table::new(&old.routes), Table::new(&new.routes));
    if match_alike(&old.routes, &new.routes) {
        return Some(Requests { moved: unmoved(&after), unreached: Vec::new(), is_complete: true });
    }
    let mut found =
        Found { before: &before, after: &after, pairs: BTreeMap::new(), known: HashSet::new() };
    let outcome = found.find(effort).and_then(|()| {
        let was: HashSet<_> = silent(&before, &old.routes, effort)?.into_iter().collect();
        let is = silent(&after, &new.routes, effort)?.into_iter();
        Ok(is.filter(|name| !was.contains(name)).collect())
    });
    let moved = found.pairs.into_iter().map(|((from, to), requests)| Moved { requests, from, to });
    let moved = moved.collect();
    match outcome {
        Ok(unreached) => Some(Requests { moved, unreached, is_complete: true }),
        Err(Stop::TooMuch) => Some(Requests { moved, ..Requests::default() }),
        Err(Stop::Unwanted) => None,
    }
}

/// Whether the routes match the same, one by one.
fn match_alike(old: &[Route], new: &[Route]) -> bool {
    fn matched(of: &Route) -> impl PartialEq + use<'_> {
        let conditions = (&of.headers, &of.query, &of.certificate);
        (&of.hosts, &of.path, &of.methods, of.head, conditions, of.priority)
    }
    old.len() == new.len()
        && old.iter().zip(new).all(|(before, after)| matched(before) == matched(after))
}

/// All requests stay with the routes that they get to.
fn unmoved(table: &Table<'_>) -> Vec<Moved> {
    let mut first = BTreeMap::new();
    for entry in &table.entries {
        first.entry(entry.route).or_insert_with(|| Region::all_of(entry));
    }
    let moved = first.into_iter().filter_map(|(route, regions)| {
        let requests = regions.first()?.to_string();
        Some(Moved { requests, from: Some(route), to: Some(route) })
    });
    moved.collect()
}

/// What was found so far.
struct Found<'t, 'c> {
    before: &'t Table<'c>,
    after: &'t Table<'c>,
    pairs: BTreeMap<(Option<usize>, Option<usize>), String>,
    known: HashSet<Shape<'c>>,
}

impl<'c> Found<'_, 'c> {
    fn find(&mut self, effort: &Effort<'_>) -> Result<(), Stop> {
        let (before, after) = (self.before, self.after);
        for entry in before.entries.iter().chain(&after.entries) {
            self.note_all(&Region::all_of(entry), effort)?;
        }
        for ours in &before.entries {
            for theirs in after.near(ours, effort)? {
                let theirs = &after.entries[theirs];
                effort.spend(ours.cost_beside(theirs))?;
                self.note_all(&Region::of_both(ours, theirs), effort)?;
            }
        }
        Ok(())
    }

    fn note_all(&mut self, regions: &[Region<'c>], effort: &Effort<'_>) -> Result<(), Stop> {
        regions.iter().try_for_each(|region| self.note(region, effort))
    }

    fn note(&mut self, region: &Region<'c>, effort: &Effort<'_>) -> Result<(), Stop> {
        effort.spend(REGION)?;
        let shape = region.shape();
        if self.known.contains(&shape) {
            return Ok(());
        }
        if self.known.len() < MAX_KNOWN {
            self.known.insert(shape);
        }
        let pair = (self.before.taker(region, effort)?, self.after.taker(region, effort)?);
        if self.pairs.len() == MAX_PAIRS && !self.pairs.contains_key(&pair) {
            return Err(Stop::TooMuch);
        }
        self.pairs.entry(pair).or_insert_with(|| region.to_string());
        Ok(())
    }
}

/// The names of routes that get no requests.
fn silent(table: &Table<'_>, routes: &[Route], effort: &Effort<'_>) -> Result<Vec<String>, Stop> {
    let mut is_heard = vec![false; routes.len()];
    for entry in &table.entries {
        for region in Region::all_of(entry) {
            if !is_heard[entry.route] {
                is_heard[entry.route] = table.taker(&region, effort)? == Some(entry.route);
            }
        }
    }
    let silent = routes.iter().zip(is_heard).filter(|(_, is_heard)| !is_heard);
    Ok(silent.map(|(route, _)| route.name.to_string()).collect())
}
