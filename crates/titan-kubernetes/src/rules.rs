//! From the rules of routes to what Titan's routes do.

use crate::backends::{Backend, Backends, Protocol};
use crate::credentials::{Unusable, Who};
use crate::duration;
use crate::filters::{self, Filters};
use crate::matches::{MatchPath, unsupported};
use crate::names::joined;
use crate::objects::{
    AuthService, BackendRef, Key, More, Redirect, ReferenceTo, Retry, Rewrite, Rule, Timeouts,
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is done with the requests of a rule.
pub(crate) struct Action<'r> {
    /// Fields of each of its routes.
    fields: Map<String, Value>,
    redirect: Option<&'r Redirect>,
    rewrite: Option<&'r Rewrite>,
    /// The policies that its routes apply, by name.
    pub(crate) policies: Map<String, Value>,
    /// Upstreams of its own, by name.
    pub(crate) upstreams: Map<String, Value>,
    /// What of it leads to nothing.
    pub(crate) unresolved: Option<Unusable>,
}

/// What an action is made with.
pub(crate) struct Making<'m, 'c> {
    pub(crate) who: Who<'m>,
    /// The gateways that the route is attached to.
    pub(crate) gateways: &'m BTreeSet<Key>,
    pub(crate) protocol: Protocol,
    pub(crate) backends: &'m mut Backends<'c>,
    /// How pods are chosen, where the rule says that.
    pub(crate) balance: Option<&'m Value>,
    /// What names of policies begin with.
    pub(crate) name: &'m str,
}

/// The largest share of an upstream.
const MAX_SHARE: u64 = 1000;
/// The longest time of anything.
const MAX_TIME: Duration = Duration::from_secs(86_400);
/// How often a request may be tried again.
const MAX_ATTEMPTS: u32 = 5;

/// What is done with the requests of a rule, or why it cannot be.
pub(crate) fn action<'r, M>(
    rule: &'r Rule<M>,
    making: &mut Making<'_, '_>,
) -> Result<Action<'r>, Unusable> {
    if rule.session_persistence.is_some() {
        return Err(unsupported("`sessionPersistence` is not supported".to_owned()));
    }
    let mut filters = Filters::of(&rule.filters)?;
    let mut action = Action {
        fields: Map::new(),
        redirect: filters.redirect,
        rewrite: filters.rewrite,
        policies: Map::new(),
        upstreams: Map::new(),
        unresolved: None,
    };
    if let Some(Value::Object(fields)) = &rule.more.respond {
        action.fields.clone_from(fields);
        return Ok(action);
    }
    if action.redirect.is_none() {
        action.serve(rule, making, &mut filters)?;
        action.mirror(&filters, making);
        action.bound(rule.timeouts.as_ref(), rule.retry.as_ref())?;
    }
    action.apply("headers", filters.transform(), making.name);
    action.apply("cors", filters.cors.map(filters::cors), making.name);
    action.add(&rule.more);
    Ok(action)
}

impl Action<'_> {
    /// The fields of a route with this path, for requests that come by a socket with this scheme and port.
    pub(crate) fn written(
        &self,
        path: &MatchPath,
        socket: (&str, u16),
    ) -> Result<Map<String, Value>, Unusable> {
        let mut fields = self.fields.clone();
        if let Some(redirect) = self.redirect {
            fields.insert("redirect".to_owned(), filters::redirect(redirect, path, socket)?);
        }
        if let Some(rewrite) = self.rewrite
            && fields.contains_key("upstream")
        {
            fields.extend(filters::rewrite(rewrite, path)?);
        }
        if !self.policies.is_empty() {
            fields.insert("apply".to_owned(), self.policies.keys().cloned().collect());
        }
        Ok(fields)
    }

    fn put(&mut self, key: &str, value: Value) {
        self.fields.insert(key.to_owned(), value);
    }

    fn apply(&mut self, kind: &str, policy: Option<Value>, name: &str) {
        if let Some(policy) = policy {
            self.policies.insert(joined(&[name, kind]), policy);
        }
    }

    /// Adds what Gateway API has no words for.
    fn add(&mut self, more: &More) {
        if self.fields.contains_key("upstream") {
            for (section, fields) in &more.fields {
                let own = self.fields.entry(section).or_insert_with(|| json!({}));
                fields.as_object().into_iter().flatten().for_each(|(key, value)| {
                    own[key] = value.clone();
                });
            }
        }
        let mut policies = more.policies.clone();
        if let Some(AuthService { endpoint, has_tls, policy }) = &more.auth {
            let name = joined(&[&more.scope, "auth"]);
            let mut upstream = json!({ "endpoints": [endpoint] });
            if *has_tls {
                upstream["tls"] = json!({});
            }
            self.upstreams.insert(name.clone(), upstream);
            let mut asked = policy.clone();
            asked["upstream"] = name.into();
            policies.entry("authorise").or_insert_with(|| json!({}))["forward_auth"] = asked;
        }
        for (kind, policy) in policies {
            let named = json!({ kind.clone(): policy });
            self.policies.insert(joined(&[&more.scope, "ingress", &kind]), named);
        }
    }

    /// Finds who serves the requests.
    fn serve<'r, M>(
        &mut self,
        rule: &'r Rule<M>,
        making: &mut Making<'_, '_>,
        filters: &mut Filters<'r>,
    ) -> Result<(), Unusable> {
        let mut shares: BTreeMap<String, u64> = BTreeMap::new();
        let (mut failing, mut without_pods, mut all) = (0, 0, 0);
        let mut of_backends: Vec<Filters<'r>> = Vec::new();
        for BackendRef { to, weight, filters } in &rule.backend_refs {
            let weight = u64::from(weight.unwrap_or(1));
            all += weight;
            match making.resolve(to) {
                Ok(Backend::Upstream(name)) => {
                    *shares.entry(name).or_default() += weight;
                    of_backends.push(Filters::of(filters)?);
                }
                Ok(Backend::NoPods) => without_pods += weight,
                Ok(Backend::Insecure) => failing += weight,
                Err(why) => {
                    failing += weight;
                    self.unresolved = Some(why);
                }
            }
        }
        shares.retain(|_, share| *share > 0);
        if shares.is_empty() {
            let status = if failing == 0 && without_pods > 0 { 503 } else { 500 };
            self.put("respond", json!({ "status": status }));
            return Ok(());
        }
        if let Some((first, others)) = of_backends.split_first() {
            if others.iter().any(|it| it != first) {
                let message = "in `backendRefs` of one rule, filters that differ are not supported";
                return Err(unsupported(message.to_owned()));
            }
            filters.add(first)?;
        }
        self.put("upstream", json!(scaled(shares)));
        let lost = failing + without_pods;
        if lost > 0 {
            let share = (lost * 100 / all).max(1);
            let status = if failing > 0 { 500 } else { 503 };
            let fault = json!({ "fault": { "share": format!("{share}%"), "status": status } });
            self.apply("unserved", Some(fault), making.name);
        }
        Ok(())
    }

    fn mirror(&mut self, filters: &Filters<'_>, making: &mut Making<'_, '_>) {
        // A backend gets one copy of a request, whatever names it again.
        let mut taken = BTreeSet::new();
        let mut mirrors = Vec::new();
        for mirror in &filters.mirrors {
            match making.resolve(&mirror.backend_ref) {
                Ok(Backend::Upstream(upstream)) => {
                    if let Some(share) = filters::mirrored_share(mirror)
                        && taken.insert(upstream.clone())
                    {
                        mirrors.push(json!({ "upstream": upstream, "share": share }));
                    }
                }
                Ok(Backend::NoPods | Backend::Insecure) => {}
                Err(why) => self.unresolved = Some(why),
            }
        }
        if self.fields.contains_key("upstream") && !mirrors.is_empty() {
            self.put("mirror", mirrors.into());
        }
    }

    fn bound(
        &mut self,
        timeouts: Option<&Timeouts>,
        retry: Option<&Retry>,
    ) -> Result<(), Unusable> {
        if !self.fields.contains_key("upstream") {
            return Ok(());
        }
        let Timeouts { request, backend_request } = timeouts.cloned().unwrap_or_default();
        let [request, attempt] = [parsed(request.as_deref())?, parsed(backend_request.as_deref())?];
        let mut fields = Map::new();
        if let Some(request) = request {
            let total = if request.is_zero() { "unlimited".to_owned() } else { written(request) };
            fields.insert("total".to_owned(), total.into());
        }
        // Without one of its own, an attempt may take as long as the request.
        let response = attempt.or(request).map(|it| if it.is_zero() { MAX_TIME } else { it });
        if let Some(response) = response {
            fields.insert("response".to_owned(), written(response).into());
        }
        if !fields.is_empty() {
            self.put("timeouts", Value::Object(fields));
        }
        if let Some(retry) = retry {
            self.put("retries", retries(retry, attempt)?);
        }
        Ok(())
    }
}

impl Making<'_, '_> {
    fn resolve(&mut self, to: &ReferenceTo) -> Result<Backend, Unusable> {
        self.backends.resolve(self.who, to, (self.protocol, self.gateways), self.balance)
    }
}

/// Shares as Titan takes them.
pub(crate) fn scaled(shares: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let most = shares.values().copied().max().unwrap_or_default();
    let scale =
        |share: u64| if most > MAX_SHARE { (share * MAX_SHARE / most).max(1) } else { share };
    shares.into_iter().map(|(name, share)| (name, scale(share))).collect()
}

fn parsed(text: Option<&str>) -> Result<Option<Duration>, Unusable> {
    let Some(text) = text else { return Ok(None) };
    let read = duration::parse(text).map(|it| it.min(MAX_TIME));
    read.map(Some).ok_or_else(|| unsupported(format!("{text} is no duration")))
}

fn written(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

fn retries(retry: &Retry, attempt: Option<Duration>) -> Result<Value, Unusable> {
    let Retry { codes, attempts, backoff } = retry;
    let mut on = vec!["connect", "refused_stream", "reset_before_response"];
    let mut fields = Map::new();
    if let Some(attempt) = attempt.filter(|it| !it.is_zero()) {
        on.push("timeout");
        fields.insert("per_try_timeout".to_owned(), written(attempt).into());
    }
    fields.insert("on".to_owned(), json!(on));
    fields.insert("attempts".to_owned(), attempts.unwrap_or(1).min(MAX_ATTEMPTS).into());
    if !codes.is_empty() {
        fields.insert("statuses".to_owned(), codes.iter().map(u16::to_string).collect());
    }
    if let Some(base) = parsed(backoff.as_deref())? {
        let base = base.min(Duration::from_secs(60));
        fields.insert("backoff".to_owned(), json!({ "base": written(base), "max": "60s" }));
    }
    Ok(Value::Object(fields))
}
