//! Paths that some upstreams confuse with others, and what happens to requests for them.
//!
//! A route matches a path byte for byte. An upstream that decodes `%2F`, or ignores letter case or what follows a
//! `;`, may serve such a path as one that another route protects. The settings of the route that matches the request
//! apply; if they refuse nothing, checking them is all it costs.

use super::{Match, Request, Routes};
use std::borrow::Cow;
use std::collections::HashMap;
use titan_config::{LookAlike, Paths, Route, Segment};
use titan_io::error::Kind;

/// What the routes say of look-alikes.
pub(crate) struct LookAlikes {
    /// By the index of the route.
    rules: Vec<Paths>,
    /// There if some route needs it.
    folded: Option<Folded>,
}

/// The routes as if the case of letters made no difference.
pub(crate) struct Folded {
    routes: Routes,
    /// By the index of the route a number that those have in common which differ in nothing but case.
    shapes: Vec<usize>,
}

impl LookAlikes {
    /// What the routes of a configuration say.
    pub(crate) fn new(routes: &[Route]) -> LookAlikes {
        let rules: Vec<_> = routes.iter().map(|route| route.paths.clone()).collect();
        let is_folded = rules.iter().any(|rules| refuses(rules.case));
        LookAlikes { rules, folded: is_folded.then(|| Folded::new(routes)) }
    }

    /// Whether the path of a request that `found` takes is refused. `scratch` is overwritten.
    pub(crate) fn judge(
        &self,
        found: &Match,
        request: &Request<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Kind> {
        let Paths { encoded_slashes, parameters, case } = &self.rules[found.route];
        if refuses(*encoded_slashes) && has_escape(request.path, b"%2F") {
            return Err(Kind::EncodedSlash);
        }
        if refuses(*parameters) && has_parameter(request.path) {
            return Err(Kind::PathParameter);
        }
        let folded = self.folded.as_ref().filter(|_| refuses(*case));
        match folded.and_then(|folded| folded.other_route(found.route, request, scratch)) {
            Some(_) => Err(Kind::PathCase),
            None => Ok(()),
        }
    }
}

impl Folded {
    /// Lays out the routes once more.
    pub(crate) fn new(routes: &[Route]) -> Folded {
        let folded: Vec<Route> = routes.iter().map(fold).collect();
        let mut known = HashMap::new();
        let shapes = folded.iter().map(|route| {
            let next = known.len();
            *known.entry((&route.path, &route.hosts)).or_insert(next)
        });
        let shapes = shapes.collect();
        Folded { routes: Routes::new(&folded), shapes }
    }

    /// The route that would take the request if case made no difference, where that is not `found` nor one with the
    /// same path.
    pub(crate) fn other_route(
        &self,
        found: usize,
        request: &Request<'_>,
        scratch: &mut Vec<u8>,
    ) -> Option<usize> {
        scratch.clear();
        scratch.extend(request.path.iter().map(u8::to_ascii_lowercase));
        let other = self.routes.find(&Request { path: scratch, ..*request }).ok()?.route;
        (self.shapes[other] != self.shapes[found]).then_some(other)
    }
}

/// A route as it would be if it were written in lower case.
fn fold(route: &Route) -> Route {
    let mut route = route.clone();
    for segment in &mut route.path.segments {
        match segment {
            Segment::Literal(text) => text.make_ascii_lowercase(),
            // What it is called is nothing that a path shows.
            Segment::Param(name) => name.clear(),
        }
    }
    route
}

/// The path that an upstream may see which takes an encoded slash for one, and drops parameters.
pub(crate) fn plain_reading(path: &[u8]) -> Cow<'_, [u8]> {
    if !has_escape(path, b"%2F") && !has_parameter(path) {
        return Cow::Borrowed(path);
    }
    let path = String::from_utf8_lossy(path).replace("%2F", "/").replace("%3B", ";");
    let segments = path.split('/').map(|it| it.split(';').next().unwrap_or_default());
    let is_directory = path.ends_with('/');
    let mut plain = String::new();
    for segment in segments.filter(|segment| !segment.is_empty()) {
        plain.push('/');
        plain.push_str(segment);
    }
    if is_directory || plain.is_empty() {
        plain.push('/');
    }
    Cow::Owned(plain.into_bytes())
}

fn refuses(rule: Option<LookAlike>) -> bool {
    rule == Some(LookAlike::Refuse)
}

fn has_parameter(path: &[u8]) -> bool {
    path.contains(&b';') || has_escape(path, b"%3B")
}

/// Whether a path in its normal form has that escape: its digits are in upper case.
fn has_escape(path: &[u8], escape: &[u8; 3]) -> bool {
    path.windows(escape.len()).any(|window| window == escape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_config::{Config, ListenerSet};
    use titan_http::{Fields, Method};

    const ROUTES: &str = "
listeners: [':0']
paths: { encoded_slashes: refuse, parameters: refuse, case: refuse }
routes:
  - { prefix: /admin, respond: 204 }
  - { prefix: /Mixed, respond: 204 }
  - { prefix: /a, respond: 204 }
  - { prefix: /A, respond: 204 }
  - { path: '/users/{id}', methods: POST, respond: 204 }
  - { prefix: /, respond: 204 }
  - { prefix: /kept, respond: 204, paths: { encoded_slashes: keep, parameters: keep, case: keep } }
";

    fn judge(method: Method, path: &str) -> Result<(), Kind> {
        let config = Config::parse("test", ROUTES).unwrap_or_else(|report| panic!("{report}"));
        let routes = Routes::new(&config.routes);
        let (path, fields) = (path.as_bytes(), &Fields::default());
        let (host, query, identity, listener) = (None, None, None, ListenerSet::NONE);
        let request = Request { method, host, path, query, fields, identity, listener };
        let found = routes.find(&request).unwrap();
        LookAlikes::new(&config.routes).judge(&found, &request, &mut b"stale".to_vec())
    }

    #[test]
    fn look_alikes_are_refused() {
        let get = |path: &str| judge(Method::GET, path);
        for path in ["/ADMIN", "/Admin/x", "/mixed", "/MIXED/"] {
            assert_eq!(get(path), Err(Kind::PathCase), "{path}");
        }
        for path in ["/admin%2Fx", "/%2Fadmin", "/other%2F"] {
            assert_eq!(get(path), Err(Kind::EncodedSlash), "{path}");
        }
        for path in ["/admin;x", "/admin%3Bx", "/other/;"] {
            assert_eq!(get(path), Err(Kind::PathParameter), "{path}");
        }
    }

    #[test]
    fn what_is_spelled_as_its_route_passes() {
        for path in [
            "/",
            "/admin",
            "/admin/X",
            "/Mixed/y",
            "/Other/Path",
            "/adminX",
            "/a",
            "/A",
            "/a/x",
            "/A/x",
            "/caf%C3%A9",
            "/kept%20/A",
            "/kept/a%2Fb;c",
        ] {
            assert_eq!(judge(Method::GET, path), Ok(()), "{path}");
        }
        assert_eq!(judge(Method::POST, "/users/Ann"), Ok(()));
        assert_eq!(judge(Method::POST, "/Users/Ann"), Err(Kind::PathCase));
        // That route would not have taken it in lower case either.
        assert_eq!(judge(Method::GET, "/Users/Ann"), Ok(()));
    }

    #[test]
    fn a_plain_reading_has_neither_parameters_nor_encoded_slashes() {
        for (path, plain) in [
            ("/a/b", "/a/b"),
            ("/%2Fadmin", "/admin"),
            ("/admin%2Fx;y/z", "/admin/x/z"),
            ("/admin%3Bx", "/admin"),
            ("/;x", "/"),
            ("/a;x/", "/a/"),
        ] {
            assert_eq!(plain_reading(path.as_bytes()), plain.as_bytes(), "{path}");
        }
    }
}
