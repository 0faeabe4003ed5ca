//! What is decided of a request between its head and its policies, and what makes of it what an upstream sees.
//!
//! The exchange takes these steps, and so does explain: what it tells is what happens.

mod preflight;

use crate::forwarding::Refused;
use crate::guard::Guard;
use crate::origin::Origin;
use crate::route::{self, Allow, Match, NoMatch};
use crate::snapshot::{Proxy, Snapshot};
use crate::template::{BadResult, Parts};
use std::num::NonZeroU16;
use titan_http::path::{Normal, normalise};
use titan_http::{Fields, Method, RequestHead, TargetForm, remove_hop_by_hop};
use titan_io::error::{Error, Kind};
use titan_policies::buffered_response::BufferedResponse;
use titan_policies::state::PolicyState;

/// A request that the steps are taken with.
pub(crate) struct Steps<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) origin: &'a Origin,
    pub(crate) request: &'a mut RequestHead,
    /// A text that is being put together.
    pub(crate) text: &'a mut Vec<u8>,
}

/// Where a request goes.
pub(crate) enum Destination {
    /// To the policies of a route, and to what it does.
    Route(Match),
    /// To the same address over TLS, at that port.
    Https(NonZeroU16),
    /// Nowhere: a preflight request for what no route takes.
    Response(Box<BufferedResponse>),
}

/// Hears of the steps, with what each is about to look at or has found. The exchange notes some; explain tells all.
pub(crate) trait Observer {
    /// What policies note of the request.
    fn policies(&mut self) -> &mut PolicyState;
    /// A route takes the request.
    fn takes(&mut self, found: &Match, request: &RequestHead);
    /// Routes would take it with these methods.
    fn allows(&mut self, allow: Allow);
    /// A field has a name that is refused.
    fn bad_name(&mut self, _name: &[u8]) {}
    /// Fields that its sender may not write are about to be removed.
    fn strips(&mut self, _guard: &Guard, _fields: &Fields) {}
    /// Its path has been brought into normal form.
    fn normalised(&mut self, _received: &[u8], _path: Normal<'_>) {}
    /// A route is looked for.
    fn seeks_route(&mut self, _request: &RequestHead) {}
    /// It is a preflight request, for a route or for what none takes.
    fn is_preflight(&mut self, _for_route: bool) {}
}

/// Why a request cannot be sent upstream.
pub(crate) enum Unsendable {
    /// What the route makes of its path is not valid.
    Rewrite(BadResult),
    /// It has come through here before.
    Loop,
    /// There is no room for the fields that the gateway adds.
    Fields,
}

impl Steps<'_> {
    /// Takes the steps from the head to the route. A request without an id gets `fresh`.
    pub(crate) fn route(
        &mut self,
        fresh: u128,
        observer: &mut impl Observer,
    ) -> Result<Destination, Error> {
        let Steps { snapshot, origin, request, .. } = self;
        let bad_name = snapshot.guard.refused_name(&request.fields);
        let has_plain_names = bad_name.map(|name| observer.bad_name(name)).is_none();
        // First of all, so that no field the gateway writes itself can be taken away by a Connection list.
        let is_honest = remove_hop_by_hop(&mut request.fields);
        observer.strips(&snapshot.guard, &request.fields);
        snapshot.guard.strip_head(origin.is_trusted(), &mut request.fields);
        self.identify(fresh)?;
        if !has_plain_names {
            return Err(Kind::FieldName.into());
        }
        if !is_honest {
            return Err(Kind::ConnectionList.into());
        }
        self.origin.check_admitted()?;
        self.normalise_path(observer)?;
        if let Some(port) = self.origin.listener_policy.https() {
            return Ok(Destination::Https(port));
        }
        observer.seeks_route(self.request);
        let destination = self.find_route(observer)?;
        if let Destination::Route(found) = &destination {
            observer.takes(found, self.request);
            let Steps { snapshot, origin, request, text } = self;
            snapshot.look_alikes.judge(found, &view(request, origin), text)?;
        }
        Ok(destination)
    }

    /// Gives the request its id.
    pub(crate) fn identify(&mut self, fresh: u128) -> Result<(), Error> {
        let Steps { snapshot, origin, request, .. } = self;
        let identified = snapshot.forwarding.identify(origin, &mut request.fields, fresh);
        identified.map_err(|_| Kind::Internal.into())
    }

    /// Gives the path the one form that routes and upstreams see.
    fn normalise_path(&mut self, observer: &mut impl Observer) -> Result<(), Error> {
        let Steps { request, text, .. } = self;
        if request.method == Method::CONNECT {
            return Err(Kind::ConnectMethod.into());
        }
        if request.target.form == TargetForm::Asterisk {
            return Ok(());
        }
        let normal = normalise(request.path(), text).map_err(Kind::Path)?;
        observer.normalised(request.path(), normal);
        match normal {
            Normal::Same => Ok(()),
            Normal::Changed(path) => request.set_path(path).map_err(|_| Kind::Internal.into()),
        }
    }

    /// The route; for a preflight request that of the request which it asks leave for, where that can give it.
    fn find_route(&mut self, observer: &mut impl Observer) -> Result<Destination, Error> {
        let Steps { snapshot, origin, request, .. } = self;
        let view = view(request, origin);
        if let Some(found) = preflight::route_of(snapshot, request, view) {
            observer.is_preflight(true);
            return Ok(Destination::Route(found.of(request)));
        }
        let error = match snapshot.routes.find(&view) {
            Ok(found) => return Ok(Destination::Route(found.of(request))),
            Err(NoMatch::NotFound) => Kind::NoRoute,
            Err(NoMatch::MethodNotAllowed(allow)) => {
                observer.allows(allow);
                Kind::MethodNotAllowed
            }
        };
        // Refused, but not before its page has sent it.
        let response = preflight::for_no_route(snapshot, request, &view, observer.policies());
        let response = response.ok_or(error)?;
        observer.is_preflight(false);
        Ok(Destination::Response(Box::new(response)))
    }

    /// Turns the request into what an upstream gets.
    pub(crate) fn prepare(&mut self, proxy: &Proxy, found: &Match) -> Result<(), Unsendable> {
        let Steps { snapshot, origin, request, text } = self;
        if let Some(rewrite) = &proxy.rewrite {
            rewrite.apply(&Parts::of(request, found), text).map_err(Unsendable::Rewrite)?;
            request.set_path(text).map_err(|_| Unsendable::Fields)?;
        }
        let told = snapshot.forwarding.add_upstream_fields(origin, request, text);
        told.map_err(|refused| match refused {
            Refused::Loop => Unsendable::Loop,
            Refused::Field(_) => Unsendable::Fields,
        })
    }
}

/// What routes and balancers see of a request.
fn view<'r>(request: &'r RequestHead, origin: &'r Origin) -> route::Request<'r> {
    route::Request::new(request, origin)
}

impl From<Unsendable> for Error {
    fn from(unsendable: Unsendable) -> Error {
        match unsendable {
            Unsendable::Rewrite(bad) => Kind::from(bad).into(),
            Unsendable::Loop => Kind::Loop.into(),
            Unsendable::Fields => Kind::Internal.into(),
        }
    }
}

impl From<BadResult> for Kind {
    fn from(bad: BadResult) -> Kind {
        match bad {
            BadResult::NoHost => Kind::NoHost,
            BadResult::WrongPlace | BadResult::Path(_) => Kind::BadRewrite,
        }
    }
}
