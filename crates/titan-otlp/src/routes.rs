//! The paths of routes, by their names: records have the names alone.

use std::collections::HashMap;
use titan_config::Route;

/// The pattern of each route's path.
#[derive(Debug, Default)]
pub struct RoutePaths(HashMap<String, String>);

impl RoutePaths {
    /// Those of a configuration. Records that are told under it may still be of requests that began under the one before.
    pub fn of(routes: &[Route]) -> RoutePaths {
        let named = |route: &Route| (route.name.as_str().to_owned(), route.path.template());
        RoutePaths(routes.iter().map(named).collect())
    }

    /// That of the route with that name.
    pub(crate) fn get(&self, route: &[u8]) -> Option<&[u8]> {
        let path = self.0.get(std::str::from_utf8(route).ok()?)?;
        Some(path.as_bytes())
    }
}
