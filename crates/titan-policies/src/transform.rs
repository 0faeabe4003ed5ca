//! Transforms: changes to requests on their way to upstreams, and to responses on their way back.
//!
//! Every value is built before anything changes. Values get into a head only through `Fields` and `set_query`, which
//! accept no line ends: a request cannot inject a field.

mod body;
mod condition;
mod cookies;
mod query;
mod replace;
mod value;

pub use body::Body;
pub use value::RequestParts;

use crate::context::{PolicyContext, Step};
use crate::policy::{OwnState, Policy, Response, Setting};
use crate::story::Story;
use condition::{Condition, PendingCondition};
use std::sync::Arc;
use titan_config::{Changes, CookieRule, HeaderName, PathPiece, PathRule, Route, ValueRule};
use titan_http::path::is_path_byte;
use titan_http::path::{escape, settle};
use titan_http::{
    BadField, FieldName, Fields, RequestHead, ResponseHead, Span, Status, TargetForm,
};
use titan_io::error::{Error, Kind};
use titan_io::refusals;
use value::{BuiltValues, Target, Value};

refusals! {
    /// What a transform makes of the request is not valid, or too long.
    BAD_TRANSFORM Gateway BAD_REQUEST "bad-transform" "The request could not be transformed as the route asks.";
}

/// A transform with all that is known of its values before a request comes.
pub(crate) struct Transform {
    /// What it was made of, where each route has values of its own.
    per_route: Option<titan_config::Transform>,
    when_request: Option<Condition>,
    when_response: Option<Condition>,
    path: Box<[PathRule]>,
    query: Edits<String>,
    request: Edits<HeaderName>,
    status: Box<[(Status, Status)]>,
    security: bool,
    response: Edits<HeaderName>,
    replace_request: Box<[(HeaderName, ValueRule)]>,
    replace_response: Box<[(HeaderName, ValueRule)]>,
    cookies: Box<[CookieRule]>,
}

/// Changes of named values.
struct Edits<N> {
    remove: Box<[N]>,
    rename: Box<[(N, N)]>,
    set: Box<[(N, Value)]>,
    append: Box<[(N, Value)]>,
    set_if_absent: Box<[(N, Value)]>,
}

/// What the response gets of its request; nothing where the request has not come as far as the transform.
pub type TransformState = Option<TransformRecord>;

/// What the response gets of its request.
pub struct TransformRecord {
    made: BuiltValues,
    /// What its condition still needs of the request, if it has one.
    kept: Option<PendingCondition>,
}

/// The fields that make browsers careful.
const SECURITY: [(&[u8], &[u8]); 8] = [
    (b"X-Content-Type-Options", b"nosniff"),
    (b"X-Frame-Options", b"DENY"),
    (b"Content-Security-Policy", b"frame-ancestors 'none'"),
    (b"Referrer-Policy", b"strict-origin-when-cross-origin"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
    (b"X-Permitted-Cross-Domain-Policies", b"none"),
    (b"Permissions-Policy", b"camera=(), geolocation=(), microphone=()"),
];

/// The fields that belong to some statuses.
const OF_STATUS: [FieldName; 6] = [
    FieldName::Allow,
    FieldName::ContentRange,
    FieldName::Location,
    FieldName::ProxyAuthenticate,
    FieldName::RetryAfter,
    FieldName::WwwAuthenticate,
];

/// Whether a field belongs to a status (RFC 9110 sections 10.2, 11 and 14.4).
fn fits(name: FieldName, status: u16) -> bool {
    let is_redirect = (300..400).contains(&status);
    match name {
        FieldName::Allow => status == 405,
        FieldName::ContentRange => status == 416,
        FieldName::Location => status == 201 || is_redirect,
        FieldName::ProxyAuthenticate => status == 407,
        FieldName::RetryAfter => matches!(status, 413 | 429 | 503) || is_redirect,
        FieldName::WwwAuthenticate => status == 401,
        _ => true,
    }
}

impl Policy for Transform {
    type Config = titan_config::Transform;
    type Credentials = ();
    type State = TransformState;
    type Shared = ();
    type PerWorker = ();
    type Cells = ();

    const REFUSALS: &'static [Kind] = REFUSALS;

    fn new(
        config: &titan_config::Transform,
        (): (),
        _setting: &Setting<'_, Transform>,
    ) -> Transform {
        let per_route = config.depends_on_route().then(|| config.clone());
        Transform { per_route, ..Transform::of(config, None) }
    }

    fn for_route(self: &Arc<Transform>, route: &Route) -> Arc<Transform> {
        match &self.per_route {
            Some(config) => Arc::new(Transform::of(config, Some(route))),
            None => Arc::clone(self),
        }
    }

    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, Transform>,
    ) -> Result<Step, Error> {
        *own.state = self.change_request(context)?;
        Ok(Step::Go)
    }

    fn on_response(
        &self,
        response: &mut Response<'_>,
        own: OwnState<'_, Transform>,
    ) -> Result<(), BadField> {
        self.change_response(own.state, response.sent, response.head)
    }

    fn explain<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, Transform>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error> {
        let before = context.request.clone();
        self.conditions(&before, &RequestParts::of(context)).iter().for_each(|it| story.tell(it));
        *own.state = self.change_request(context)?;
        story.tell_changes(&before, context);
        Ok(Step::Go)
    }
}

impl Transform {
    /// As it is for the requests of that route, or of those that are all alike for it.
    fn of(config: &titan_config::Transform, route: Option<&Route>) -> Transform {
        let titan_config::Transform { request, response } = config;
        Transform {
            per_route: None,
            when_request: request.when.as_ref().map(Condition::new),
            when_response: response.when.as_ref().map(Condition::new),
            path: request.path.clone().into(),
            query: Edits::new(&request.query, route, Target::Query),
            request: Edits::new(&request.headers, route, Target::Field),
            status: response.status.clone().into(),
            security: response.security,
            response: Edits::new(&response.headers, route, Target::Field),
            replace_request: request.replace.clone().into(),
            replace_response: response.replace.clone().into(),
            cookies: response.cookies.clone().into(),
        }
    }

    /// Changes a request. What its response will be given is put together too.
    fn change_request(&self, context: &mut PolicyContext<'_>) -> Result<TransformState, Error> {
        let PolicyContext { request, findings, client, found, .. } = context;
        let seen = &RequestParts { client: *client, found, claims: findings.shared_claims() };
        let made = self.response.make(request, seen, Target::Field)?;
        let kept = self.when_response.as_ref().map(|when| when.keep(request, seen));
        let kept = kept.transpose().map_err(|_| Kind::Internal)?;
        let holds = self.when_request.as_ref().map(|when| when.holds(request, seen));
        if holds.transpose().map_err(|_| BAD_TRANSFORM)?.unwrap_or(true) {
            self.change(request, seen)?;
        }
        Ok(Some(TransformRecord { made, kept }))
    }

    fn change(&self, request: &mut RequestHead, seen: &RequestParts<'_>) -> Result<(), Error> {
        let for_query = self.query.make(request, seen, Target::Query)?;
        let for_fields = self.request.make(request, seen, Target::Field)?;
        if request.target.form != TargetForm::Asterisk {
            self.change_path(request)?;
            self.change_query(request, &for_query)?;
        }
        let changed = self.request.apply(&mut request.fields, Some(&for_fields));
        let changed =
            changed.and_then(|()| replace::change(&self.replace_request, &mut request.fields));
        changed.map_err(|_| BAD_TRANSFORM.into())
    }

    /// Changes a response that goes out with the status `sent`.
    fn change_response(
        &self,
        note: &TransformState,
        sent: Status,
        head: &mut ResponseHead,
    ) -> Result<(), BadField> {
        if !self.changes(note, head.status) {
            return Ok(());
        }
        if sent != head.status {
            (head.status, head.reason) = (sent, Span::default());
        }
        if self.security {
            for (name, value) in SECURITY {
                if head.fields.named(name).next().is_none() {
                    head.fields.append_named(name, value)?;
                }
            }
        }
        self.response.apply(&mut head.fields, note.as_ref().map(|note| &note.made))?;
        replace::change(&self.replace_response, &mut head.fields)?;
        cookies::change(&self.cookies, &mut head.fields)
    }

    /// Whether a response with that status is to be changed.
    fn changes(&self, note: &TransformState, status: Status) -> bool {
        let kept = note.as_ref().and_then(|note| note.kept.as_ref());
        self.when_response.as_ref().is_none_or(|when| when.holds_for(kept, status))
    }

    /// What its conditions make of a request and of its response, in words.
    fn conditions(&self, request: &RequestHead, seen: &RequestParts<'_>) -> Vec<String> {
        let of_request = self.when_request.as_ref().map(|when| when.explain(request, seen));
        let of_response = self.when_response.as_ref();
        let of_response = of_response.map(|when| when.explain_response(request, seen));
        of_request.into_iter().chain(of_response).collect()
    }

    /// The status in place of that one.
    pub(super) fn status_for(&self, note: &TransformState, status: Status) -> Status {
        if self.status.is_empty() || !self.changes(note, status) {
            return status;
        }
        let given = self.status.iter().find(|(from, _)| *from == status);
        given.map_or(status, |(_, to)| *to)
    }

    /// Removes what other policies, the gateway and the upstream have said for the status that was there before, and
    /// what says nothing or something else with the new one.
    pub(crate) fn remove_misfits(&self, head: &mut ResponseHead) {
        let status = head.status.code();
        let is_ours = |name: FieldName| self.response.gives(name.as_str().as_bytes());
        let misfits = OF_STATUS.into_iter().filter(|name| !fits(*name, status) && !is_ours(*name));
        misfits.for_each(|name| head.fields.remove(name));
    }

    fn change_path(&self, request: &mut RequestHead) -> Result<(), Error> {
        let path = request.path();
        let matching = |rule: &PathRule| Some((rule.replace.clone(), rule.regex.captures(path)?));
        let Some((pieces, groups)) = self.path.iter().find_map(matching) else { return Ok(()) };
        let whole = groups[0].clone();
        let mut made = path[..whole.start].to_vec();
        for piece in &pieces {
            let bytes = match piece {
                PathPiece::Text(text) => text.as_bytes(),
                PathPiece::Group(group) => &path[groups[*group].clone()],
            };
            escape(bytes, is_path_byte, &mut made);
            check_length(made.len())?;
        }
        made.extend_from_slice(&path[whole.end..]);
        settle(&mut made).map_err(|_| Kind::BadRewrite)?;
        request.set_path(&made).map_err(|_| Kind::BadRewrite.into())
    }

    fn change_query(&self, request: &mut RequestHead, made: &BuiltValues) -> Result<(), Error> {
        if self.query.is_empty() {
            return Ok(());
        }
        let query = query::change(request.query(), &self.query, made);
        let query = (!query.is_empty()).then_some(query.as_slice());
        request.set_query(query).map_err(|_| BAD_TRANSFORM.into())
    }
}

/// A path must not become longer than upstreams accept.
fn check_length(length: usize) -> Result<(), Error> {
    match length > value::MAX_MADE {
        true => Err(Kind::BadRewrite.into()),
        false => Ok(()),
    }
}

impl<N: Clone> Edits<N> {
    fn new(changes: &Changes<N>, route: Option<&Route>, place: Target) -> Edits<N> {
        let mut made = 0;
        let mut values = |pairs: &[(N, titan_config::ValueTemplate)]| -> Box<[(N, Value)]> {
            let mut value = |template| Value::new(template, route, place, &mut made);
            pairs.iter().map(|(name, template)| (name.clone(), value(template))).collect()
        };
        // As `Changes::given` puts them in order.
        let (set, append) = (values(&changes.set), values(&changes.append));
        let set_if_absent = values(&changes.set_if_absent);
        let (remove, rename) = (changes.remove.clone().into(), changes.rename.clone().into());
        Edits { remove, rename, set, append, set_if_absent }
    }
}

impl<N> Edits<N> {
    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.rename.is_empty() && self.given().next().is_none()
    }

    /// What is given a value, in the order in which values are put together.
    fn given(&self) -> impl Iterator<Item = &(N, Value)> {
        self.set.iter().chain(&self.append).chain(&self.set_if_absent)
    }

    /// Puts the values together that depend on the request.
    fn make(
        &self,
        request: &RequestHead,
        seen: &RequestParts<'_>,
        place: Target,
    ) -> Result<BuiltValues, Error> {
        let mut made = BuiltValues::default();
        for (_, value) in self.given() {
            made.add(value, request, seen, place)?;
        }
        Ok(made)
    }
}

impl Edits<HeaderName> {
    /// Whether it gives a field that name.
    fn gives(&self, name: &[u8]) -> bool {
        let renamed = self.rename.iter().map(|(_, to)| to);
        let mut given = self.given().map(|(name, _)| name).chain(renamed);
        given.any(|it| it.as_str().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Without `made` what depends on the request stays as it is.
    fn apply(&self, fields: &mut Fields, made: Option<&BuiltValues>) -> Result<(), BadField> {
        let Edits { remove, rename, set, append, set_if_absent } = self;
        remove.iter().for_each(|name| fields.remove_named(name.as_str().as_bytes()));
        for (from, to) in rename {
            fields.rename(from.as_str().as_bytes(), to.as_str().as_bytes())?;
        }
        for (name, value) in set {
            match value.of(made) {
                Some([]) => fields.remove_named(name.as_str().as_bytes()),
                Some(value) => fields.set_named(name.as_str().as_bytes(), value)?,
                None => {}
            }
        }
        for (name, value) in append {
            add(fields, name, value.of(made))?;
        }
        for (name, value) in set_if_absent {
            if fields.named(name.as_str().as_bytes()).next().is_none() {
                add(fields, name, value.of(made))?;
            }
        }
        Ok(())
    }
}

/// Adds a field, where there is anything that it could say.
fn add(fields: &mut Fields, name: &HeaderName, value: Option<&[u8]>) -> Result<(), BadField> {
    match value {
        Some([]) | None => Ok(()),
        Some(value) => fields.append_named(name.as_str().as_bytes(), value),
    }
}

#[cfg(test)]
mod tests;
