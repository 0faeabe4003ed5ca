//! Forward authentication: a service of the operator decides about requests.

mod decisions;

use super::OwnState;
use crate::authorise::{AUTH_ANONYMOUS, AUTH_REFUSED, AUTH_SERVICE};
use crate::buffered_response::BufferedResponse;
use crate::context::{Failure, PolicyContext, Step, Subrequest, SubrequestOutcome};
pub(crate) use decisions::Decisions;
use decisions::{Digest, Digests, Owner, lasts};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use titan_config::{
    AuthCache, AuthKey, ByteSize, Cap, Config, ForwardAuth, HeaderName, RouteTimeouts, SendHost,
};
use titan_http::{BadField, FieldName, Fields, Method, RequestHead, ResponseHead, Status};
use titan_io::clock::Clock;
use titan_io::error::{Error, Kind};
use titan_io::registry::Registry;

/// A service and how it is called.
pub(super) struct Forward {
    config: ForwardAuth,
    timeouts: RouteTimeouts,
    /// What the upstream is called.
    name: Box<str>,
    /// What its decisions are remembered by.
    owner: Arc<Owner>,
}

/// What identifies reusable decisions: the service, what it is sent, and what is used of its response.
#[derive(PartialEq, Eq)]
struct OwnerKey {
    policy: String,
    service: titan_config::Upstream,
    path: String,
    method: Method,
    /// Of the request, of responses that allow it, and of others.
    fields: [Vec<HeaderName>; 3],
    body_limit: ByteSize,
    cache: Option<AuthCache>,
}

impl OwnerKey {
    fn new(policy: &str, config: &ForwardAuth, service: &titan_config::Upstream) -> OwnerKey {
        let ForwardAuth {
            upstream: _,
            path,
            method,
            request_headers,
            upstream_headers,
            response_headers,
            timeout: _,
            body_limit,
            cache,
        } = config;
        OwnerKey {
            policy: policy.to_owned(),
            service: service.without_locations(),
            path: path.clone(),
            method: *method,
            fields: [request_headers, upstream_headers, response_headers].map(Vec::clone),
            body_limit: *body_limit,
            cache: cache.clone(),
        }
    }
}

impl Hash for OwnerKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.policy.hash(state);
    }
}

/// How many further endpoints to try if one does not respond.
const RETRIES: u8 = 1;

impl Forward {
    pub(super) fn new(
        (policy, config): (&str, ForwardAuth),
        all: &Config,
        registry: &Registry,
    ) -> Forward {
        let ForwardAuth { upstream, timeout, .. } = config;
        let timeouts = RouteTimeouts {
            body: timeout,
            write: timeout,
            connect: timeout,
            response: timeout,
            response_body: timeout,
            tunnel: timeout,
            // That of the request applies: its time runs while the service is asked.
            total: Cap::Unlimited,
            deadline_header: None,
        };
        let service = all.upstream(upstream);
        let owner = registry.shared(OwnerKey::new(policy, &config, service), Owner::new);
        Forward { config, timeouts, name: service.name.as_str().into(), owner }
    }

    /// Calls the service about a request. The request passes, or its client gets the response of the service.
    pub(super) async fn on_request(
        &self,
        context: &mut PolicyContext<'_>,
        own: &OwnState<'_>,
    ) -> Result<Step, Error> {
        let (response, is_cached) = self.ask(context, own).await?;
        context.findings.is_decision_cached = is_cached;
        let status = response.head.status;
        if status.is_success() {
            let taken = self.take(&response.head, &mut context.request.fields);
            return taken.map(|()| Step::Go).map_err(|_| Kind::Internal.into());
        }
        if context.is_grpc {
            let kind = kind_of(status);
            if kind == AUTH_ANONYMOUS {
                context.fail(Failure::Service);
            }
            return Err(kind.into());
        }
        if status == Status::UNAUTHORIZED {
            context.fail(Failure::Service);
        }
        let head = self.head_for_client(&response.head).map_err(|_| Kind::Internal)?;
        Ok(Step::Respond(Box::new(BufferedResponse { head, body: response.body })))
    }

    /// What a request needs, in words.
    pub(super) fn explain(&self) -> String {
        let ForwardAuth { method, path, .. } = &self.config;
        let method = method.as_str();
        let cache = self.config.cache.as_ref().map(|AuthCache { ttl, key, .. }| {
            let key = key.as_ref().map(|key| key.iter().map(ToString::to_string));
            let key = key.map(|parts| parts.collect::<Vec<_>>().join(", "));
            let key = key.unwrap_or_else(|| "everything that the service receives".to_owned());
            format!("; decisions are cached for {ttl:?} by {key}")
        });
        let cache = cache.unwrap_or_default();
        let name = &self.name;
        format!("sends {method} {path} to `{name}`, which `explain` does not do{cache}")
    }

    /// What the service says; and whether that was cached, where decisions are.
    async fn ask(
        &self,
        context: &PolicyContext<'_>,
        own: &OwnState<'_>,
    ) -> Result<(BufferedResponse, Option<bool>), Error> {
        let ForwardAuth { upstream, timeout, body_limit, cache, .. } = &self.config;
        let subrequest = Subrequest {
            request: context.request,
            upstream: *upstream,
            send_host: &SendHost::Endpoint,
            timeouts: &self.timeouts,
            timeout: *timeout,
            retries: RETRIES,
            body_limit: body_limit.as_usize(),
        };
        let mut asked = None;
        let mut write = |question: &mut RequestHead, text: &mut Vec<u8>| {
            self.write_question(context, question, text)?;
            asked = cache.as_ref().and_then(|cache| digests(cache, context, question, own));
            Ok(asked.and_then(|digests| self.recall(&digests, context, own)))
        };
        let response = match context.subrequests.ask(subrequest, &mut write)? {
            SubrequestOutcome::Known(response) => return Ok((response, Some(true))),
            // What went wrong there is counted with its upstream, and no business of the client's.
            SubrequestOutcome::Sent(response) => response.await.map_err(|_| AUTH_SERVICE)?,
        };
        if let (Some(cache), Some(digests)) = (cache, asked) {
            self.remember(cache, &digests, &response, (context.clock, own))
                .map_err(|_| Kind::Internal)?;
        }
        Ok((response, asked.map(|_| false)))
    }

    /// What was decided of such a request not long ago.
    fn recall(
        &self,
        digests: &Digests,
        context: &PolicyContext<'_>,
        own: &OwnState<'_>,
    ) -> Option<BufferedResponse> {
        let known = own.kept.decisions.get(&self.owner, digests, context.clock);
        let cells = own.cells;
        let counter =
            if known.is_some() { &cells.decisions_remembered } else { &cells.decisions_asked };
        counter.add(1);
        known.map(|response| (*response).clone())
    }

    /// Notes what was decided, as far as it is looked at, where the service does not say otherwise.
    fn remember(
        &self,
        cache: &AuthCache,
        digests: &Digests,
        response: &BufferedResponse,
        (clock, own): (&Clock, &OwnState<'_>),
    ) -> Result<(), BadField> {
        let Some(lasts) = lasts(&response.head, cache.ttl) else { return Ok(()) };
        let mut head = ResponseHead::with_status(response.head.status);
        if head.status.is_success() {
            copy(&self.config.upstream_headers, &response.head.fields, &mut head.fields)?;
        } else {
            head = self.head_for_client(&response.head)?;
        }
        let kept = BufferedResponse { head, body: response.body.clone() };
        let capacity = cache.capacity.try_into().unwrap_or(usize::MAX);
        own.kept.decisions.put((&self.owner, capacity), digests, kept, (clock, lasts));
        Ok(())
    }

    /// Writes the request to the service. It describes the client as upstreams get it, in the names that services of
    /// this kind read.
    fn write_question(
        &self,
        context: &PolicyContext<'_>,
        question: &mut RequestHead,
        text: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let PolicyContext { request, client, subrequests, .. } = context;
        self.copy(request, question).map_err(|_| Kind::Internal)?;
        subrequests.describe(question, text)?;
        let address = context.client().map(|client| client.to_string());
        let scheme = client.scheme().as_str();
        let named = name_client(request, scheme, address.as_deref(), question, text);
        named.map_err(|_| Kind::Internal.into())
    }

    /// What the service is to see of the request, and what proxies before have said of the way here.
    fn copy(&self, request: &RequestHead, question: &mut RequestHead) -> Result<(), BadField> {
        question.clear();
        question.method = self.config.method;
        let (path, query) = match self.config.path.split_once('?') {
            Some((path, query)) => (path, Some(query.as_bytes())),
            None => (self.config.path.as_str(), None),
        };
        question.set_path(path.as_bytes())?;
        question.set_query(query)?;
        if let Some(authority) = request.authority() {
            question.fields.append(FieldName::Host, authority)?;
        }
        for id in WAY {
            request.fields.all(id).try_for_each(|value| question.fields.append(id, value))?;
        }
        copy(&self.config.request_headers, &request.fields, &mut question.fields)
    }

    /// Gives the request the fields of a successful response, in place of what its client has sent.
    fn take(&self, head: &ResponseHead, fields: &mut Fields) -> Result<(), BadField> {
        let taken = self.config.upstream_headers.iter().map(|name| name.as_str().as_bytes());
        taken.for_each(|name| fields.remove_named(name));
        copy(&self.config.upstream_headers, &head.fields, fields)
    }

    /// The head that the client gets.
    fn head_for_client(&self, from: &ResponseHead) -> Result<ResponseHead, BadField> {
        let mut head = ResponseHead::with_status(from.status);
        copy(&self.config.response_headers, &from.fields, &mut head.fields)?;
        for id in [FieldName::ContentType, FieldName::ContentEncoding] {
            if let Some(value) = from.fields.get(id) {
                head.fields.set(id, value)?;
            }
        }
        Ok(head)
    }
}

/// Digests of what the decision about a request depends on.
fn digests(
    cache: &AuthCache,
    context: &PolicyContext<'_>,
    question: &RequestHead,
    own: &OwnState<'_>,
) -> Option<Digests> {
    let of_all = digest_all(question, own)?;
    let of_key = match &cache.key {
        Some(key) => digest_key(key, context, question, own)?,
        None => of_all,
    };
    Some(Digests { of_key, of_all })
}

/// Of all of the question, which has no id yet.
fn digest_all(question: &RequestHead, own: &OwnState<'_>) -> Option<Digest> {
    let mut digesting = own.kept.decisions.digest()?;
    for field in question.fields.iter() {
        digesting.add(field.name);
        digesting.add(field.value);
    }
    digesting.end()
}

/// Of what is configured.
fn digest_key(
    key: &[AuthKey],
    context: &PolicyContext<'_>,
    question: &RequestHead,
    own: &OwnState<'_>,
) -> Option<Digest> {
    let mut digesting = own.kept.decisions.digest()?;
    for part in key {
        let name = match part {
            AuthKey::Path => {
                digesting.add(context.request.path());
                continue;
            }
            AuthKey::Query => {
                let query = context.request.query();
                digesting.add(&[u8::from(query.is_some())]);
                digesting.add(query.unwrap_or_default());
                continue;
            }
            AuthKey::Method => FORWARDED_METHOD,
            AuthKey::Scheme => b"X-Forwarded-Proto",
            AuthKey::Host => b"X-Forwarded-Host",
            AuthKey::ClientAddress => b"X-Forwarded-For",
            AuthKey::Header(name) => name.as_str().as_bytes(),
        };
        let values = || question.fields.named(name);
        digesting.add(&values().count().to_be_bytes());
        values().for_each(|value| digesting.add(value));
    }
    digesting.end()
}

/// What proxies before have said of the way here.
const WAY: [FieldName; 5] = [
    FieldName::Via,
    FieldName::Forwarded,
    FieldName::XForwardedFor,
    FieldName::XForwardedProto,
    FieldName::XForwardedHost,
];

const FORWARDED_METHOD: &[u8] = b"X-Forwarded-Method";

/// Copies the lines of these fields.
fn copy(names: &[HeaderName], from: &Fields, to: &mut Fields) -> Result<(), BadField> {
    for name in names.iter().map(|name| name.as_str().as_bytes()) {
        from.named(name).try_for_each(|value| to.append_named(name, value))?;
    }
    Ok(())
}

/// Describes the request and its client to the service.
fn name_client(
    request: &RequestHead,
    scheme: &str,
    client: Option<&str>,
    question: &mut RequestHead,
    text: &mut Vec<u8>,
) -> Result<(), BadField> {
    let fields = &mut question.fields;
    match client {
        Some(client) => fields.set(FieldName::XForwardedFor, client.as_bytes())?,
        None => fields.remove(FieldName::XForwardedFor),
    }
    if fields.get(FieldName::XForwardedProto).is_none() {
        fields.append(FieldName::XForwardedProto, scheme.as_bytes())?;
    }
    if fields.get(FieldName::XForwardedHost).is_none()
        && let Some(authority) = request.authority()
    {
        fields.append(FieldName::XForwardedHost, authority)?;
    }
    fields.append_named(FORWARDED_METHOD, request.method.as_str().as_bytes())?;
    text.clear();
    text.extend_from_slice(request.path());
    if let Some(query) = request.query() {
        text.push(b'?');
        text.extend_from_slice(query);
    }
    fields.append_named(b"X-Forwarded-Uri", text)
}

/// The error of a gRPC call for which the service responded with that status.
fn kind_of(status: Status) -> Kind {
    match status.code() {
        300..=399 | 401 | 407 => AUTH_ANONYMOUS,
        429 | 500.. => AUTH_SERVICE,
        _ => AUTH_REFUSED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_config::Policy;

    const SERVICE: &str = "path: /ask, cache: { ttl: 1m }";

    /// What remembers the decisions of such a service in a policy of that name, and what `registry` has of them.
    fn owner(registry: &Registry, policy: &str, service: &str, upstreams: &str) -> Arc<Owner> {
        let section = format!("authorise: {{ forward_auth: {{ upstream: s, {service} }} }}");
        let text = format!(
            "listeners: [':0']\napply: {policy}\nroutes: [{{ respond: 204 }}]\n\
             upstreams: {{ {upstreams} }}\npolicies: {{ {policy}: {{ {section} }} }}"
        );
        let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
        let Policy::Authorise(own) = &config.policies[0].policy else { panic!("it is one") };
        let forward = own.forward_auth.as_deref().unwrap().clone();
        Forward::new((policy, forward), &config, registry).owner
    }

    #[test]
    fn decisions_are_those_of_the_same_policy_and_service() {
        let (registry, at) = (Registry::default(), "s: '127.0.0.1:1'");
        let before = owner(&registry, "p", SERVICE, at);
        for (service, upstreams) in [
            (SERVICE.to_owned(), format!("\n first: '127.0.0.1:9', {at}")),
            (format!("{SERVICE}, timeout: 9s"), at.to_owned()),
        ] {
            assert!(Arc::ptr_eq(&before, &owner(&registry, "p", &service, &upstreams)));
        }
        for (policy, service, upstreams) in [
            ("q", SERVICE.to_owned(), at),
            ("p", SERVICE.replace("/ask", "/other"), at),
            ("p", SERVICE.replace("ttl: 1m", "ttl: 1m, capacity: 9"), at),
            ("p", format!("{SERVICE}, upstream_headers: [X-User]"), at),
            ("p", SERVICE.to_owned(), "s: '127.0.0.1:2'"),
        ] {
            let other = owner(&registry, policy, &service, upstreams);
            assert!(!Arc::ptr_eq(&before, &other), "{policy} {service} {upstreams}");
        }
    }
}
