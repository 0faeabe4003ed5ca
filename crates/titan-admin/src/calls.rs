//! The calls that the admin interface takes: where each is, and what right it needs. `openapi.json` describes them.

use crate::http::Request;
use titan_config::AdminRights;
use titan_config::bounds::MAX_FILE;
use titan_http::Method;

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Index,
    Health,
    Readiness,
    Metrics,
    Description,
    DashboardFolder,
    Dashboard,
    DashboardFile,
    SignIn,
    ReadSession,
    SignOut,
    ReadConfig,
    PutConfig,
    Plan,
    Reload,
    Confirm,
    Rollback,
    History,
    CompareHistory,
    ListSources,
    Explain,
    ListCertificates,
    Upgrade,
    ListUpstreams,
    ReadUpstream,
    OrderUpstream,
    ListMirrors,
    ReadLog,
    PutLog,
    Figures,
    FiguresNow,
    FiguresOfRoutes,
    FiguresOfUpstreams,
    LiveFigures,
    ListExchanges,
    ReadExchange,
    Tap,
    ListRevocations,
    Revoke,
    Restore,
}

/// A call with its place.
pub(crate) struct Entry {
    pub(crate) call: Call,
    /// What metrics and the description call it.
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    /// A segment in braces stands for any one.
    pub(crate) path: &'static str,
    /// What a caller needs; `None` where anybody may call it.
    pub(crate) right: Option<AdminRights>,
}

/// What there is for a request.
pub(crate) enum Found {
    Call(&'static Entry),
    /// Only calls with these methods.
    OtherMethods(String),
    Nothing,
}

const READ: Option<AdminRights> = Some(AdminRights::Read);
const FULL: Option<AdminRights> = Some(AdminRights::Full);

/// Every call. HEAD is allowed where GET is.
pub(crate) const CALLS: &[Entry] = &[
    Entry::new(Call::Index, "index", Method::GET, "/", None),
    Entry::new(Call::Health, "healthz", Method::GET, "/healthz", None),
    Entry::new(Call::Readiness, "readyz", Method::GET, "/readyz", None),
    Entry::new(Call::Metrics, "metrics", Method::GET, "/metrics", None),
    Entry::new(Call::Description, "openapi", Method::GET, "/openapi.json", None),
    Entry::new(Call::DashboardFolder, "dashboard_folder", Method::GET, "/dashboard", None),
    Entry::new(Call::Dashboard, "dashboard", Method::GET, "/dashboard/", None),
    Entry::new(Call::DashboardFile, "dashboard_file", Method::GET, "/dashboard/{file}", None),
    Entry::new(Call::SignIn, "sign_in", Method::POST, "/session", None),
    Entry::new(Call::ReadSession, "read_session", Method::GET, "/session", READ),
    Entry::new(Call::SignOut, "sign_out", Method::DELETE, "/session", READ),
    Entry::new(Call::ReadConfig, "read_config", Method::GET, "/config", READ),
    Entry::new(Call::PutConfig, "put_config", Method::PUT, "/config", FULL),
    // What it would read may be any file that the gateway can: that is more than a right to look.
    Entry::new(Call::Plan, "plan", Method::POST, "/plan", FULL),
    Entry::new(Call::Reload, "reload", Method::POST, "/reload", FULL),
    Entry::new(Call::Confirm, "confirm", Method::POST, "/confirm", FULL),
    Entry::new(Call::Rollback, "rollback", Method::POST, "/rollback", FULL),
    Entry::new(Call::History, "history", Method::GET, "/history", READ),
    Entry::new(Call::CompareHistory, "compare_history", Method::GET, "/history/{id}/plan", READ),
    Entry::new(Call::ListSources, "list_sources", Method::GET, "/sources", READ),
    Entry::new(Call::Explain, "explain", Method::POST, "/explain", READ),
    Entry::new(Call::ListCertificates, "list_certificates", Method::GET, "/certificates", READ),
    Entry::new(Call::Upgrade, "upgrade", Method::POST, "/upgrade", FULL),
    Entry::new(Call::ListUpstreams, "list_upstreams", Method::GET, "/upstreams", READ),
    Entry::new(Call::ReadUpstream, "read_upstream", Method::GET, "/upstreams/{name}", READ),
    Entry::new(Call::OrderUpstream, "order_upstream", Method::POST, "/upstreams/{name}", FULL),
    Entry::new(Call::ListMirrors, "list_mirrors", Method::GET, "/mirrors", READ),
    Entry::new(Call::ReadLog, "read_log", Method::GET, "/log", READ),
    Entry::new(Call::PutLog, "put_log", Method::PUT, "/log", FULL),
    Entry::new(Call::Figures, "figures", Method::GET, "/figures", READ),
    Entry::new(Call::FiguresNow, "figures_now", Method::GET, "/figures/now", READ),
    Entry::new(Call::FiguresOfRoutes, "figures_of_routes", Method::GET, "/figures/routes", READ),
    Entry::new(
        Call::FiguresOfUpstreams,
        "figures_of_upstreams",
        Method::GET,
        "/figures/upstreams",
        READ,
    ),
    Entry::new(Call::LiveFigures, "live_figures", Method::GET, "/figures/live", READ),
    Entry::new(Call::ListExchanges, "list_exchanges", Method::GET, "/recorder", READ),
    Entry::new(Call::ReadExchange, "read_exchange", Method::GET, "/recorder/{id}", READ),
    Entry::new(Call::Tap, "tap", Method::GET, "/tap", READ),
    Entry::new(Call::ListRevocations, "list_revocations", Method::GET, "/jwt/revocations", READ),
    Entry::new(Call::Revoke, "revoke", Method::POST, "/jwt/revocations", FULL),
    Entry::new(Call::Restore, "restore", Method::DELETE, "/jwt/revocations/{id}", FULL),
];

impl Entry {
    const fn new(
        call: Call,
        name: &'static str,
        method: Method,
        path: &'static str,
        right: Option<AdminRights>,
    ) -> Entry {
        Entry { call, name, method, path, right }
    }

    /// Whether it changes something.
    pub(crate) fn writes(&self) -> bool {
        self.right == FULL || matches!(self.call, Call::SignIn | Call::SignOut)
    }

    /// Whether it can be made over a Unix socket alone. What is executed is not for a token to say: whoever may use the socket could
    /// execute it anyway.
    pub(crate) fn is_local(&self) -> bool {
        self.call == Call::Upgrade
    }

    /// How large the body of a request for it may be. What anybody may call takes none or a small one: a connection that receives a
    /// larger one does not give way to others.
    pub(crate) fn max_body(&self) -> usize {
        match self.call {
            Call::PutConfig | Call::Plan => MAX_FILE,
            Call::SignIn => Request::SMALL_BODY,
            Call::Explain => Request::MAX_BODY,
            _ if self.writes() => Request::MAX_BODY,
            _ => 0,
        }
    }

    /// Whether a request with that path is for it.
    fn is_at(&self, path: &[u8]) -> bool {
        let mut segments = path.split(|byte| *byte == b'/');
        let is_same = self.path.split('/').all(|wanted| {
            let segment = segments.next();
            match wanted.starts_with('{') {
                false => segment == Some(wanted.as_bytes()),
                true => segment.is_some_and(|segment| !segment.is_empty()),
            }
        });
        is_same && segments.next().is_none()
    }
}

/// The call that a request is for.
pub(crate) fn find(method: Method, path: &[u8]) -> Found {
    let asked = if method == Method::HEAD { Method::GET } else { method };
    let here = || CALLS.iter().filter(|entry| entry.is_at(path));
    if let Some(entry) = here().find(|entry| entry.method == asked) {
        return Found::Call(entry);
    }
    let methods: Vec<_> = here().map(|entry| entry.method).collect();
    match methods.is_empty() {
        true => Found::Nothing,
        false => Found::OtherMethods(allowed(methods)),
    }
}

fn allowed(mut methods: Vec<Method>) -> String {
    if methods.contains(&Method::GET) {
        methods.insert(1, Method::HEAD);
    }
    methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ")
}

/// The segment of a path at that place, from 0.
pub(crate) fn segment(path: &[u8], place: usize) -> &[u8] {
    // In front of the first is nothing.
    path.split(|byte| *byte == b'/').nth(place + 1).unwrap_or_default()
}

/// The last segment of a path.
pub(crate) fn last_segment(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}
