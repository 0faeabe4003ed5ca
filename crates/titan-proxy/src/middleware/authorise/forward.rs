//! Forward-auth: a service of the operator's decides about requests.

use super::{Meeting, Step};
use crate::error::{Error, Kind};
use crate::exchange::{Inquiry, Reply};
use crate::forwarding::Refused;
use crate::grpc::Dialect;
use crate::route::Split;
use crate::snapshot::Proxy;
use crate::worker::Scratch;
use std::num::NonZeroU16;
use titan_config::{Cap, Config, ForwardAuth, HeaderName, RouteTimeouts, SendHost, Share};
use titan_http::{BadField, FieldName, Fields, RequestHead, ResponseHead, Status};

/// A service and how it is asked.
pub(super) struct Forward {
    config: ForwardAuth,
    proxy: Box<Proxy>,
    /// What the upstream is called.
    name: Box<str>,
}

/// Further endpoints that are asked where one does not answer.
const RETRIES: u8 = 1;

impl Forward {
    pub(super) fn new(config: ForwardAuth, all: &Config) -> Forward {
        let ForwardAuth { upstream, timeout, .. } = config;
        let shares = vec![Share { upstream, weight: NonZeroU16::MIN }];
        let timeouts = RouteTimeouts {
            body: timeout,
            write: timeout,
            connect: timeout,
            response: timeout,
            response_body: timeout,
            tunnel: timeout,
        };
        let split = Split::new(&shares);
        let proxy = titan_config::Proxy {
            shares,
            rewrite: None,
            send_host: SendHost::Endpoint,
            retries: RETRIES,
            timeouts,
            body_limit: Cap::Unlimited,
            upgrades: Vec::new(),
            grpc_web: false,
        };
        let name = all.upstream(upstream).name.as_str().into();
        Forward { config, proxy: Box::new(Proxy { config: proxy, split, rewrite: None }), name }
    }

    /// Asks about a request. It goes on, or is answered with what the service answers.
    pub(super) async fn on_request(&self, meeting: &mut Meeting<'_>) -> Result<Step, Error> {
        let reply = self.ask(meeting).await?;
        let status = reply.head.status;
        if status.is_success() {
            let taken = self.take(&reply.head, &mut meeting.request.fields);
            return taken.map(|()| Step::Go).map_err(|_| Kind::Internal.into());
        }
        if Dialect::of_call(meeting.request).is_some() {
            return Err(kind_of(status).into());
        }
        let head = self.answer(&reply.head).map_err(|_| Kind::Internal)?;
        Ok(Step::Answer(Box::new(Reply { head, body: reply.body })))
    }

    /// What a request needs, in words.
    pub(super) fn explain(&self) -> String {
        let ForwardAuth { method, path, .. } = &self.config;
        let method = method.as_str();
        format!("needs leave of `{}`, which is asked with {method} {path}, but not here", self.name)
    }

    async fn ask(&self, meeting: &Meeting<'_>) -> Result<Reply, Error> {
        let mut loan = meeting.worker.scratch();
        let Scratch { request, work, .. } = &mut *loan;
        self.write_question(meeting, request, &mut work.text)?;
        let inquiry = Inquiry {
            worker: meeting.worker,
            snapshot: meeting.snapshot,
            origin: meeting.origin,
            proxy: &self.proxy,
            timeout: self.config.timeout,
            body_limit: self.config.body_limit.as_usize(),
        };
        // What went wrong there is counted with its upstream, and no business of the client's.
        inquiry.ask(request, work).await.map_err(|_| Kind::AuthService.into())
    }

    /// Writes the request that asks. What it says of the client is what upstreams are told, in the names that
    /// services of this kind read.
    fn write_question(
        &self,
        meeting: &Meeting<'_>,
        question: &mut RequestHead,
        text: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Meeting { request, snapshot, origin, .. } = meeting;
        let told = self.copy(request, question);
        told.map_err(|_| Kind::Internal)?;
        let told = snapshot.forwarding.tell_upstream(origin, question, text);
        told.map_err(|refused| match refused {
            Refused::Loop => Kind::Loop,
            Refused::Field(_) => Kind::Internal,
        })?;
        let client = meeting.client().map(|client| client.to_string());
        let named = name_client(request, origin.scheme.as_str(), client.as_deref(), question, text);
        named.map_err(|_| Kind::Internal)?;
        let id = snapshot.forwarding.pass_id(&request.fields, &mut question.fields);
        id.map_err(|_| Kind::Internal.into())
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
        copy(&self.config.send, &request.fields, &mut question.fields)
    }

    /// Gives the request the fields of a good answer, in place of what its client has sent.
    fn take(&self, head: &ResponseHead, fields: &mut Fields) -> Result<(), BadField> {
        let taken = self.config.take.iter().map(|name| name.as_str().as_bytes());
        taken.for_each(|name| fields.remove_named(name));
        copy(&self.config.take, &head.fields, fields)
    }

    /// The head that the client gets.
    fn answer(&self, from: &ResponseHead) -> Result<ResponseHead, BadField> {
        let mut head = ResponseHead::with_status(from.status);
        copy(&self.config.answer, &from.fields, &mut head.fields)?;
        for id in [FieldName::ContentType, FieldName::ContentEncoding] {
            if let Some(value) = from.fields.get(id) {
                head.fields.set(id, value)?;
            }
        }
        Ok(head)
    }
}

/// What proxies before have said of the way here.
const WAY: [FieldName; 5] = [
    FieldName::Via,
    FieldName::Forwarded,
    FieldName::XForwardedFor,
    FieldName::XForwardedProto,
    FieldName::XForwardedHost,
];

/// Copies the lines of these fields.
fn copy(names: &[HeaderName], from: &Fields, to: &mut Fields) -> Result<(), BadField> {
    for name in names.iter().map(|name| name.as_str().as_bytes()) {
        from.named(name).try_for_each(|value| to.append_named(name, value))?;
    }
    Ok(())
}

/// Says which request it is about, and whose.
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
    fields.append_named(b"X-Forwarded-Method", request.method.as_str().as_bytes())?;
    text.clear();
    text.extend_from_slice(request.path());
    if let Some(query) = request.query() {
        text.push(b'?');
        text.extend_from_slice(query);
    }
    fields.append_named(b"X-Forwarded-Uri", text)
}

/// What a call of gRPC is told that is answered with that status.
fn kind_of(status: Status) -> Kind {
    match status.code() {
        300..=399 | 401 | 407 => Kind::AuthAnonymous,
        429 | 500.. => Kind::AuthService,
        _ => Kind::AuthRefused,
    }
}
