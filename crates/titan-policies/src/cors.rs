//! Cross-origin resource sharing (the Fetch standard, section 3.2): which pages may read responses.

use crate::buffered_response::BufferedResponse;
use crate::context::{Client, PolicyContext, Step};
use crate::policy::{OwnState, Policy, Response, Setting};
use crate::story::Story;
use titan_config::{CorsHeaders, CorsMethods, CorsOrigin};
use titan_http::{
    BadField, FieldName, Fields, Method, RequestHead, ResponseHead, Status, is_token, list_members,
};
use titan_io::error::{Error, Kind};
use titan_io::refusals;

refusals! {
    /// A page asks leave for what its policy does not allow.
    CORS_REFUSED Gateway FORBIDDEN "cors-refused" "Pages from this origin may not make this request.";
    /// A page wants a WebSocket that pages of its origin may not have.
    ORIGIN_REFUSED Gateway FORBIDDEN "origin-refused" "Pages from this origin may not open WebSockets here.";
}

/// A policy, with what it writes put together once.
pub struct Cors {
    config: titan_config::Cors,
    methods: Box<[u8]>,
    headers: Box<[u8]>,
    expose: Box<[u8]>,
    max_age: Box<[u8]>,
    /// Whether the response is the same for every page.
    is_for_all: bool,
}

/// What the response says about the page.
#[derive(Default)]
pub struct CorsState {
    /// The page's origin, if it may read the response.
    origin: Option<Box<[u8]>>,
    /// What a preflight request asks permission for.
    asked: Option<PreflightRequest>,
}

struct PreflightRequest {
    method: Box<[u8]>,
    /// The fields, as the request lists them.
    headers: Box<[u8]>,
    /// Whether this gateway seems to be in a private network.
    private_network: bool,
}

const ALLOW_ORIGIN: &[u8] = b"Access-Control-Allow-Origin";
const ALLOW_CREDENTIALS: &[u8] = b"Access-Control-Allow-Credentials";
const ALLOW_METHODS: &[u8] = b"Access-Control-Allow-Methods";
const ALLOW_HEADERS: &[u8] = b"Access-Control-Allow-Headers";
const ALLOW_NETWORK: &[u8] = b"Access-Control-Allow-Private-Network";
const EXPOSE_HEADERS: &[u8] = b"Access-Control-Expose-Headers";
const MAX_AGE: &[u8] = b"Access-Control-Max-Age";
const ASKED_METHOD: &[u8] = b"Access-Control-Request-Method";
const ASKED_HEADERS: &[u8] = b"Access-Control-Request-Headers";
const ASKED_NETWORK: &[u8] = b"Access-Control-Request-Private-Network";
/// What all fields of a response begin with that are the gateway's alone.
const OURS: &[u8] = b"Access-Control-";

/// The method that a page asks leave for, if the request is a preflight request.
pub fn preflight(request: &RequestHead) -> Option<Method> {
    let is_asking =
        request.method == Method::OPTIONS && request.fields.names().has(FieldName::Origin);
    let asked = is_asking.then(|| request.fields.named(ASKED_METHOD).next())??;
    Method::parse(asked)
}

impl Policy for Cors {
    type Config = titan_config::Cors;
    type Credentials = ();
    type State = CorsState;
    type Shared = ();
    type PerWorker = ();
    type Cells = ();

    const REFUSALS: &'static [Kind] = REFUSALS;

    fn new(config: &titan_config::Cors, (): (), _setting: &Setting<'_, Cors>) -> Cors {
        let names = |names: &[titan_config::HeaderName]| {
            let names: Vec<_> = names.iter().map(titan_config::HeaderName::as_str).collect();
            names.join(", ").into_bytes().into_boxed_slice()
        };
        let methods = match &config.methods {
            CorsMethods::Any => Vec::new(),
            CorsMethods::These(these) => these.iter().map(Method::as_str).collect(),
        };
        let headers = match &config.headers {
            CorsHeaders::Any => Box::default(),
            CorsHeaders::These(these) => names(these),
        };
        Cors {
            methods: methods.join(", ").into_bytes().into(),
            headers,
            expose: names(&config.expose),
            max_age: config.max_age.as_secs().to_string().into_bytes().into(),
            is_for_all: config.origins.contains(&CorsOrigin::Any),
            config: config.clone(),
        }
    }

    async fn on_request<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, Cors>,
    ) -> Result<Step, Error> {
        self.judge(context, own.state)
    }

    /// What the page may know. An upstream's own word on that does not count.
    fn on_response(
        &self,
        response: &mut Response<'_>,
        own: OwnState<'_, Cors>,
    ) -> Result<(), BadField> {
        self.add_response_fields(own.state, &mut response.head.fields)
    }

    fn explain<'m>(
        &'m self,
        context: &mut PolicyContext<'m>,
        own: OwnState<'_, Cors>,
        story: &mut Story<'_>,
    ) -> Result<Step, Error> {
        story.tell(self.decision(context.request));
        self.judge(context, own.state)
    }
}

impl Cors {
    fn judge(&self, context: &PolicyContext<'_>, note: &mut CorsState) -> Result<Step, Error> {
        if context.is_websocket && self.refuses_handshake(context.request, context.client) {
            return Err(ORIGIN_REFUSED.into());
        }
        let request = &context.request;
        match self.grants(request) {
            Some(true) => {
                let response = self.accept_preflight(&request.fields, note);
                Ok(Step::Respond(Box::new(response)))
            }
            Some(false) => {
                self.note_page(&request.fields, note);
                Err(CORS_REFUSED.into())
            }
            None => {
                self.note_page(&request.fields, note);
                Ok(Step::Go)
            }
        }
    }

    /// Notes what page a request comes from, where it may read the response.
    pub(super) fn note_page(&self, fields: &Fields, note: &mut CorsState) {
        let origin = fields.get(FieldName::Origin).filter(|origin| self.allows(origin));
        note.origin = origin.map(Into::into);
    }

    /// The response to a preflight request that is allowed.
    pub(super) fn accept_preflight(
        &self,
        fields: &Fields,
        note: &mut CorsState,
    ) -> BufferedResponse {
        self.note_page(fields, note);
        let private_network = fields.named(ASKED_NETWORK).next().is_some();
        let method = fields.named(ASKED_METHOD).next().unwrap_or_default().into();
        let headers = requested_headers(fields);
        note.asked = Some(PreflightRequest { method, headers, private_network });
        BufferedResponse { head: ResponseHead::with_status(Status::NO_CONTENT), body: Vec::new() }
    }

    /// Whether the client is a page that may not open a WebSocket. Browsers send no preflight request for one, and a
    /// browser shows what comes through it to the page that has opened it, whatever the response says.
    pub(super) fn refuses_handshake(&self, request: &RequestHead, client: &dyn Client) -> bool {
        let page = request.fields.get(FieldName::Origin).filter(|_| self.config.websockets);
        let is_own = |page| client.is_same_origin(page, request);
        page.is_some_and(|page| !self.allows(page) && !is_own(page))
    }

    /// Whether a preflight request is allowed; nothing for other requests.
    pub(super) fn grants(&self, request: &RequestHead) -> Option<bool> {
        preflight(request).map(|method| self.refusal(request, Some(method)).is_none())
    }

    /// What is decided of a request, in words.
    fn decision(&self, request: &RequestHead) -> String {
        let asked = preflight(request);
        match (self.refusal(request, asked), asked) {
            (Some(refusal), _) => refusal,
            (None, Some(_)) => {
                "the page may send this request: the gateway responds to the preflight request"
                    .into()
            }
            (None, None) => "pages of this origin may read the response".into(),
        }
    }

    /// Why a page may not read the response, or may not ask what it asks leave for.
    fn refusal(&self, request: &RequestHead, asked: Option<Method>) -> Option<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let Some(origin) = request.fields.get(FieldName::Origin) else {
            return Some("no Origin: the request is not cross-origin".into());
        };
        if !self.allows(origin) {
            return Some(format!("pages of {} may not read the response", text(origin)));
        }
        let method = asked?;
        if !self.takes_method(method) {
            return Some(format!("pages may not use {}", method.as_str()));
        }
        let headers = requested_headers(&request.fields);
        let refused = list_members(&headers).find(|name| !self.takes(name));
        refused.map(|name| format!("pages may not send the field {}", text(name)))
    }

    fn add_response_fields(&self, note: &CorsState, fields: &mut Fields) -> Result<(), BadField> {
        fields.retain(|field| !begins_with(field.name, OURS));
        self.vary(fields)?;
        // What every origin may read says so in every response: a cache may give a page a response that was not
        // requested by a page.
        let for_all = self.is_for_all.then_some(b"*".as_slice());
        let Some(origin) = for_all.or(note.origin.as_deref()) else { return Ok(()) };
        fields.append_named(ALLOW_ORIGIN, origin)?;
        if self.config.credentials {
            fields.append_named(ALLOW_CREDENTIALS, b"true")?;
        }
        if !self.expose.is_empty() {
            fields.append_named(EXPOSE_HEADERS, &self.expose)?;
        }
        note.asked.as_ref().map_or(Ok(()), |asked| self.grant(asked, fields))
    }

    /// The response to a preflight request.
    fn grant(&self, asked: &PreflightRequest, fields: &mut Fields) -> Result<(), BadField> {
        let methods = match self.config.methods {
            CorsMethods::Any => &asked.method,
            CorsMethods::These(_) => &self.methods,
        };
        fields.append_named(ALLOW_METHODS, methods)?;
        let headers = match self.config.headers {
            // Named, for with credentials `*` would mean a field of that name.
            CorsHeaders::Any => &asked.headers,
            CorsHeaders::These(_) => &self.headers,
        };
        if !headers.is_empty() {
            fields.append_named(ALLOW_HEADERS, headers)?;
        }
        if asked.private_network && self.config.private_network {
            fields.append_named(ALLOW_NETWORK, b"true")?;
        }
        fields.append_named(MAX_AGE, &self.max_age)
    }

    /// Responses that differ from page to page must not be mixed up by caches.
    fn vary(&self, fields: &mut Fields) -> Result<(), BadField> {
        let is_told = |member: &[u8]| member == b"*" || member.eq_ignore_ascii_case(b"origin");
        match self.is_for_all || fields.members(FieldName::Vary).any(is_told) {
            true => Ok(()),
            false => fields.append(FieldName::Vary, b"Origin"),
        }
    }

    fn takes_method(&self, method: Method) -> bool {
        match &self.config.methods {
            CorsMethods::Any => true,
            CorsMethods::These(these) => these.contains(&method),
        }
    }

    fn takes(&self, name: &[u8]) -> bool {
        match &self.config.headers {
            _ if name.is_empty() => true,
            CorsHeaders::Any => is_token(name),
            CorsHeaders::These(these) => {
                these.iter().any(|it| it.as_str().as_bytes().eq_ignore_ascii_case(name))
            }
        }
    }

    fn allows(&self, origin: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(origin) else { return false };
        self.config.origins.iter().any(|allowed| match allowed {
            CorsOrigin::Any => true,
            CorsOrigin::Exact(exact) => exact == text,
            CorsOrigin::Below { before, behind } => text
                .strip_prefix(before.as_str())
                .and_then(|rest| rest.strip_suffix(behind.as_str()))
                .is_some_and(is_labels),
            CorsOrigin::Regex(pattern) => pattern.is_match(origin),
        })
    }
}

/// The fields that a preflight request asks leave for.
fn requested_headers(fields: &Fields) -> Box<[u8]> {
    fields.named(ASKED_HEADERS).collect::<Vec<_>>().join(b", ".as_slice()).into()
}

/// Whether it is what may stand before a domain, and nothing that could end the host.
fn is_labels(text: &str) -> bool {
    let is_label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
    !text.is_empty() && text.chars().all(is_label)
}

fn begins_with(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
