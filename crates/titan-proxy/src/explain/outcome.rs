//! What would come of a request, for programs.

use super::words::text;
use titan_config::{Action, PolicyKind, Route, Verdict};
use titan_http::{FieldName, Fields, RequestHead, Status};

/// What would come of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The name of the route that takes it.
    pub route: Option<String>,
    /// The key of the file that says what the route does: `upstream`, `redirect`, `respond` or `files`.
    pub action: Option<&'static str>,
    /// The upstreams that it may go to.
    pub upstreams: Vec<String>,
    /// Its header fields as the client sent them, without `Host`.
    pub received: Vec<(String, String)>,
    /// What an upstream gets, if it is sent on.
    pub forwarded: Option<Forwarded>,
    /// The status of the gateway's own response, if it has one.
    pub status: Option<Status>,
    /// The code of the problem, if the gateway refuses it.
    pub code: Option<&'static str>,
    /// Where a redirect leads.
    pub location: Option<String>,
    /// The policies of the route, in the order in which the request meets them.
    pub policies: Vec<(PolicyKind, Verdict)>,
}

/// What an upstream gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// The path.
    pub path: String,
    /// The query without the `?`; empty for none.
    pub query: String,
    /// The Host, or in words that it is the endpoint's.
    pub host: String,
    /// The header fields, without `Host`.
    pub fields: Vec<(String, String)>,
}

impl Outcome {
    pub(super) fn takes(&mut self, route: &Route) {
        self.route = Some(route.name.to_string());
        self.action = Some(match route.action {
            Action::Proxy(_) => "upstream",
            Action::Redirect(_) => "redirect",
            Action::Respond(_) => "respond",
            Action::Files(_) => "files",
        });
        let in_force = PolicyKind::ALL.iter().filter(|kind| route.policies.of(**kind).is_some());
        self.policies = in_force.map(|kind| (*kind, Verdict::NotReached)).collect();
    }

    /// Notes which policies the request has met; the last one has refused it, or none.
    pub(super) fn meets(&mut self, met: &[PolicyKind], is_refused: bool) {
        for (kind, verdict) in &mut self.policies {
            if met.contains(kind) {
                *verdict = match is_refused && met.last() == Some(kind) {
                    true => Verdict::Refuses,
                    false => Verdict::Passes,
                };
            }
        }
    }
}

impl Forwarded {
    pub(super) fn new(head: &RequestHead, host: String) -> Forwarded {
        let query = head.query().map_or(String::new(), text);
        Forwarded { path: text(head.path()), query, host, fields: fields(&head.fields) }
    }
}

pub(super) fn fields(fields: &Fields) -> Vec<(String, String)> {
    let fields = fields.iter().filter(|field| field.id != FieldName::Host);
    fields.map(|field| (text(field.name), text(field.value))).collect()
}
