//! Which of several gateways writes statuses: the one that holds a Lease (`coordination.k8s.io`). All of them serve.
//!
//! A gateway that holds it renews it every [`AGAIN`]. One that does not takes it when nobody has renewed it for as long as it lasts, by
//! its own clock: those of other machines are never compared with it.

use crate::names::hash;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, PostParams};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

/// How long the lease lasts if nobody renews it.
const LASTS: Duration = Duration::from_secs(10);
/// How often it is looked at.
const AGAIN: Duration = Duration::from_secs(2);
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(4);
/// The longest time that the lease of another one is taken to last.
const LONGEST: u64 = 60;

/// A gateway that stands for election.
pub(crate) struct Election {
    api: Api<DynamicObject>,
    resource: ApiResource,
    name: String,
    /// Who this one is.
    who: String,
    seen: Option<Seen>,
    /// Until when this one holds the lease, whatever happens.
    until: Option<Instant>,
    /// What was complained about last.
    complaint: Option<String>,
}

/// The lease of another one.
struct Seen {
    version: String,
    since: Instant,
}

impl Election {
    /// Among the gateways with this controller name for these namespaces, in the namespace that the client is in.
    pub(crate) fn new(client: &Client, controller: &str, namespaces: &[String]) -> Election {
        let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
        let resource = ApiResource::from_gvk(&kind);
        let api = Api::default_namespaced_with(client.clone(), &resource);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let who = format!("{}-{}", host.trim(), std::process::id());
        let name = lease_name(controller, namespaces);
        Election { api, resource, name, who, seen: None, until: None, complaint: None }
    }

    /// Says whether this one is to write statuses, for as long as it runs. `complain` tells what goes wrong.
    pub(crate) async fn run(&mut self, leads: &watch::Sender<bool>, complain: impl Fn(String)) {
        loop {
            let now = Instant::now();
            if self.until.is_some_and(|until| until <= now) {
                self.until = None;
                leads.send_if_modified(|before| std::mem::replace(before, false));
            }
            let outcome = timeout_at(self.at_most(now + PATIENCE), self.try_to_hold(now)).await;
            let is_leading = match outcome {
                Ok(Ok(holds)) => {
                    self.complaint = None;
                    self.until = holds.then(|| now + LASTS);
                    holds
                }
                Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
                    let why = "this account may not use it, so that each gateway writes statuses";
                    self.complain(format!("{why}: {}", status.message), &complain);
                    true
                }
                Ok(Err(error)) => self.keeps(error.to_string(), &complain),
                Err(_) => self.keeps("no response in time".to_owned(), &complain),
            };
            leads.send_if_modified(|before| std::mem::replace(before, is_leading) != is_leading);
            sleep_until(self.at_most(Instant::now() + AGAIN)).await;
        }
    }

    /// Gives the lease to whoever wants it, if this one holds it.
    pub(crate) async fn resign(mut self) {
        if self.until.take().is_none() {
            return;
        }
        let given = async {
            let mut lease = self.api.get(&self.name).await?;
            if lease.data["spec"]["holderIdentity"] == self.who.as_str() {
                lease.data["spec"]["holderIdentity"] = "".into();
                self.api.replace(&self.name, &PostParams::default(), &lease).await?;
            }
            Ok::<(), kube::Error>(())
        };
        // Where that fails the lease ends by itself.
        let _ = timeout(PATIENCE, given).await;
    }

    /// A moment, or that at which the lease ends if it is before: nobody writes statuses beyond that.
    fn at_most(&self, moment: Instant) -> Instant {
        self.until.map_or(moment, |until| until.min(moment))
    }

    /// Whether this one still holds the lease although it could not renew it.
    fn keeps(&mut self, why: String, complain: &impl Fn(String)) -> bool {
        self.complain(why, complain);
        self.until.is_some_and(|until| Instant::now() < until)
    }

    fn complain(&mut self, why: String, complain: &impl Fn(String)) {
        if self.complaint.as_ref() != Some(&why) {
            complain(format!("the lease {} of who writes statuses: {why}", self.name));
            self.complaint = Some(why);
        }
    }

    async fn try_to_hold(&mut self, now: Instant) -> Result<bool, kube::Error> {
        let parameters = PostParams::default();
        let Some(lease) = self.api.get_opt(&self.name).await? else {
            let mut lease = DynamicObject::new(&self.name, &self.resource);
            lease.data = json!({ "spec": renewed(&Value::Null, &self.who, &moment()) });
            return taken(self.api.create(&parameters, &lease).await, false);
        };
        if !self.may_take(&lease.metadata, &lease.data["spec"], now) {
            return Ok(false);
        }
        let spec = renewed(&lease.data["spec"], &self.who, &moment());
        let is_own = lease.data["spec"]["holderIdentity"] == self.who.as_str();
        let lease = DynamicObject { data: json!({ "spec": spec }), ..lease };
        taken(self.api.replace(&self.name, &parameters, &lease).await, is_own)
    }

    /// Whether a lease is this one's, or nobody's any more.
    fn may_take(&mut self, metadata: &ObjectMeta, spec: &Value, now: Instant) -> bool {
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        if holder.is_empty() || holder == self.who {
            self.seen = None;
            return true;
        }
        let version = metadata.resource_version.clone().unwrap_or_default();
        let lasts = spec["leaseDurationSeconds"].as_u64().unwrap_or_default().min(LONGEST);
        match &self.seen {
            Some(seen) if seen.version == version => now >= seen.since + Duration::from_secs(lasts),
            _ => {
                self.seen = Some(Seen { version, since: now });
                false
            }
        }
    }
}

/// Somebody else may have been faster with a lease that this one did not have. All else is a failure: a namespace that is not
/// there, or a lease of this one that somebody changed.
fn taken(written: Result<DynamicObject, kube::Error>, is_own: bool) -> Result<bool, kube::Error> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 && !is_own => Ok(false),
        Err(error) => Err(error),
    }
}

/// What a lease says once this one has it.
fn renewed(before: &Value, who: &str, now: &str) -> Value {
    let is_same = before["holderIdentity"] == who;
    let acquired = before["acquireTime"].as_str().filter(|_| is_same).unwrap_or(now);
    let transitions = before["leaseTransitions"].as_u64();
    let transitions = transitions.map_or(0, |it| it + u64::from(!is_same));
    json!({
        "holderIdentity": who,
        "leaseDurationSeconds": LASTS.as_secs(),
        "acquireTime": acquired,
        "renewTime": now,
        "leaseTransitions": transitions,
    })
}

/// The time, as leases have it.
fn moment() -> String {
    format!("{:.6}", Timestamp::now())
}

/// Gateways with other namespaces have statuses of other objects to write.
fn lease_name(controller: &str, namespaces: &[String]) -> String {
    let plain = |char: char| {
        if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '-' }
    };
    let mut name: String = controller.chars().map(plain).take(200).collect();
    if !namespaces.is_empty() {
        let mut sorted = namespaces.to_vec();
        sorted.sort();
        name = format!("{name}-{}", &hash(sorted.join(",").as_bytes())[..8]);
    }
    name.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn election(server: &str) -> Election {
        let config = kube::Config::new(server.parse().unwrap());
        Election::new(&Client::try_from(config).unwrap(), "c", &[])
    }

    #[test]
    fn a_lease_is_named_by_what_its_holder_writes() {
        let of = |namespaces: &[&str]| {
            let namespaces: Vec<_> = namespaces.iter().map(ToString::to_string).collect();
            lease_name("Titan.test/gateway", &namespaces)
        };
        assert_eq!(of(&[]), "titan-test-gateway");
        assert_eq!(of(&["a", "b"]), of(&["b", "a"]));
        assert_ne!(of(&["a"]), of(&["b"]));
    }

    #[test]
    fn a_lease_says_since_when_it_is_whose() {
        let first = renewed(&Value::Null, "a", "1");
        assert_eq!([&first["acquireTime"], &first["renewTime"]], ["1", "1"]);
        let same = renewed(&first, "a", "2");
        assert_eq!([&same["acquireTime"], &same["renewTime"]], ["1", "2"]);
        assert_eq!(same["leaseTransitions"], 0);
        let other = renewed(&same, "b", "3");
        assert_eq!([&other["acquireTime"], &other["holderIdentity"]], ["3", "b"]);
        assert_eq!(other["leaseTransitions"], 1);
    }

    #[test]
    fn a_failure_is_not_taken_for_a_faster_one() {
        for (code, is_own, expected) in [
            (409, false, Some(false)),
            (409, true, None),
            (404, false, None),
            (404, true, None),
            (500, false, None),
        ] {
            let status = kube::core::Status { code, ..kube::core::Status::default() };
            let found = taken(Err(kube::Error::Api(Box::new(status))), is_own);
            assert_eq!(found.ok(), expected, "{code} {is_own}");
        }
        let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
        let lease = DynamicObject::new("a", &ApiResource::from_gvk(&kind));
        assert_eq!(taken(Ok(lease), true).ok(), Some(true));
    }

    #[tokio::test]
    async fn nobody_leads_beyond_the_lease() {
        // Takes connections and says nothing.
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", server.local_addr().unwrap());
        let mut election = election(&address);
        let now = Instant::now();
        assert_eq!(election.at_most(now + PATIENCE), now + PATIENCE);
        election.until = Some(now + Duration::from_millis(20));
        assert_eq!(election.at_most(now + PATIENCE), now + Duration::from_millis(20));
        let (leads, mut led) = watch::channel(true);
        tokio::select! {
            () = election.run(&leads, |_| {}) => {}
            changed = led.changed() => changed.unwrap(),
        }
        assert!(!*led.borrow());
        assert!(now.elapsed() < PATIENCE, "it waited for the server");
    }

    #[tokio::test]
    async fn the_lease_of_another_is_taken_when_it_was_not_renewed() {
        let mut election = election("http://127.0.0.1:1");
        let lease = |version: &str| ObjectMeta {
            resource_version: Some(version.to_owned()),
            ..ObjectMeta::default()
        };
        let spec = json!({ "holderIdentity": "other", "leaseDurationSeconds": 10 });
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(!election.may_take(&lease("1"), &spec, start));
        assert!(!election.may_take(&lease("1"), &spec, after(9)));
        assert!(!election.may_take(&lease("2"), &spec, after(10)), "it was renewed");
        assert!(!election.may_take(&lease("2"), &spec, after(19)));
        assert!(election.may_take(&lease("2"), &spec, after(20)));
        let free = json!({ "holderIdentity": "", "leaseDurationSeconds": 10 });
        assert!(election.may_take(&lease("3"), &free, after(20)));
        let own = json!({ "holderIdentity": election.who, "leaseDurationSeconds": 10 });
        assert!(election.may_take(&lease("4"), &own, after(20)));
    }
}
