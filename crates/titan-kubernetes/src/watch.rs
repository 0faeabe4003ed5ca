//! Watches the objects of a cluster.

use crate::cluster::{Cluster, FOR_POLICIES, Kind};
use crate::objects::Key;
use futures_util::stream::{BoxStream, SelectAll, StreamExt, select_all};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Objects of one kind, in one namespace or in all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope {
    pub(crate) kind: Kind,
    pub(crate) namespace: Option<String>,
}

/// News of one scope.
pub(crate) struct News {
    scope: Scope,
    event: Result<Event<DynamicObject>, watcher::Error>,
}

/// What is watched, and what is known by now.
pub(crate) struct Watched {
    news: SelectAll<BoxStream<'static, News>>,
    pub(crate) cluster: Cluster,
    /// Those that have not been listed yet.
    missing: BTreeSet<Scope>,
    /// The objects of lists that are not complete.
    listing: BTreeMap<Scope, BTreeSet<Key>>,
    /// What was complained about last, of each scope.
    complaints: BTreeMap<Scope, Complaint>,
}

/// What is wrong with a scope.
#[derive(PartialEq, Eq)]
struct Complaint {
    text: String,
    /// Whether the API server has responded, and does not know the kind.
    is_unknown: bool,
}

/// What followed from news.
pub(crate) enum Followed {
    /// Something may be other than before.
    Changed,
    /// Nothing but where the pods of this service are.
    Moved(Key),
    /// Nothing.
    Nothing,
    /// Something went wrong, which is to be told.
    Trouble(String),
}

/// How the API names the objects of a kind.
pub(crate) fn resource(kind: Kind) -> ApiResource {
    let (group, version) = kind.group_version();
    let gvk = GroupVersionKind::gvk(group, version, kind.name());
    ApiResource::from_gvk_with_plural(&gvk, &kind.plural())
}

impl Watched {
    /// Watches these namespaces; none: all of them.
    pub(crate) fn new(client: &Client, namespaces: &[String]) -> Watched {
        let mut scopes = BTreeSet::new();
        for kind in Kind::ALL {
            let everywhere = Scope { kind, namespace: None };
            if kind.is_of_cluster() || namespaces.is_empty() {
                scopes.insert(everywhere);
                continue;
            }
            let within = |it: &String| Scope { kind, namespace: Some(it.clone()) };
            scopes.extend(namespaces.iter().map(within));
        }
        let streams = scopes.iter().map(|scope| stream(client, scope.clone()));
        Watched {
            news: select_all(streams),
            cluster: Cluster::default(),
            missing: scopes,
            listing: BTreeMap::new(),
            complaints: BTreeMap::new(),
        }
    }

    /// Whether all is known that there is.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Waits for news.
    pub(crate) async fn next(&mut self) -> Option<News> {
        self.news.next().await
    }

    /// Notes news.
    pub(crate) fn note(&mut self, News { scope, event }: News) -> Followed {
        let event = match event {
            Ok(event) => event,
            Err(error) => return self.note_trouble(scope, &error),
        };
        self.complaints.remove(&scope);
        match event {
            Event::Init => {
                self.listing.insert(scope, BTreeSet::new());
                Followed::Nothing
            }
            Event::InitApply(object) => {
                let key = key_of(&object);
                self.listing.entry(scope.clone()).or_default().insert(key);
                self.note_object(scope.kind, object)
            }
            Event::InitDone => {
                let listed = self.listing.remove(&scope).unwrap_or_default();
                self.cluster.keep(scope.kind, scope.namespace.as_deref(), &listed);
                self.missing.remove(&scope);
                Followed::Changed
            }
            Event::Apply(object) => self.note_object(scope.kind, object),
            Event::Delete(object) => {
                let key = key_of(&object);
                let service = self.service_of(scope.kind, &key);
                self.cluster.forget(scope.kind, &key);
                service.map_or(Followed::Changed, Followed::Moved)
            }
        }
    }

    /// The service whose pods a known slice says.
    fn service_of(&self, kind: Kind, key: &Key) -> Option<Key> {
        let slice = (kind == Kind::EndpointSlice).then(|| self.cluster.slices.get(key))??;
        Some(Key::new(&key.namespace, slice.service()?))
    }

    fn note_object(&mut self, kind: Kind, object: DynamicObject) -> Followed {
        let key = key_of(&object);
        let before = self.service_of(kind, &key);
        let noted = value_of(object).map_err(|error| error.to_string());
        let noted = noted.and_then(|object| self.cluster.note(kind, key.clone(), object));
        match noted {
            Ok(()) => match self.service_of(kind, &key) {
                // One that was for another service is rare.
                Some(service) if before.is_none_or(|it| it == service) => Followed::Moved(service),
                _ => Followed::Changed,
            },
            Err(why) => Followed::Trouble(format!("{} {key} cannot be read: {why}", kind.name())),
        }
    }

    /// What is known stays as it is while the API server cannot be reached. A kind that there is not has no objects.
    fn note_trouble(&mut self, scope: Scope, error: &watcher::Error) -> Followed {
        // Policies protect: one that does not know them any more is no reason to serve without those that are known.
        let may_be_gone = scope.kind != Kind::TitanPolicy || self.missing.contains(&scope);
        let (name, is_unknown) = (scope.kind.name(), may_be_gone && is_unknown(error));
        let text = if is_unknown {
            self.missing.remove(&scope);
            self.cluster.keep(scope.kind, scope.namespace.as_deref(), &BTreeSet::new());
            format!("the API server knows no {name}: its definition is not installed")
        } else {
            format!("{name} objects cannot be watched: {error}")
        };
        let complaint = Complaint { text: text.clone(), is_unknown };
        match self.complaints.insert(scope, complaint) {
            Some(before) if before.text == text => Followed::Nothing,
            _ => Followed::Trouble(text),
        }
    }

    /// Why something of the cluster cannot be watched, where that is so.
    pub(crate) fn trouble(&self) -> Option<&str> {
        let all = self.complaints.values().filter(|it| !it.is_unknown);
        all.map(|it| it.text.as_str()).next()
    }
}

fn stream(client: &Client, scope: Scope) -> BoxStream<'static, News> {
    let resource = resource(scope.kind);
    let api: Api<DynamicObject> = match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let config = match scope.kind {
        // No other secrets are read.
        Kind::Secret => watcher::Config::default().fields("type=kubernetes.io/tls"),
        Kind::PolicySecret => watcher::Config::default().labels(&format!("{FOR_POLICIES}=true")),
        _ => watcher::Config::default(),
    };
    let events = watcher::watcher(api, config).default_backoff();
    events.map(move |event| News { scope: scope.clone(), event }).boxed()
}

/// The object as it is read, without a copy of what is in it, nor who has written which part of it.
fn value_of(object: DynamicObject) -> Result<Value, serde_json::Error> {
    let DynamicObject { types: _, mut metadata, mut data } = object;
    metadata.managed_fields = None;
    if let Value::Object(members) = &mut data {
        members.insert("metadata".to_owned(), serde_json::to_value(metadata)?);
    }
    Ok(data)
}

fn key_of(object: &DynamicObject) -> Key {
    let meta = &object.metadata;
    Key::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// Whether the API server does not know the kind.
fn is_unknown(error: &watcher::Error) -> bool {
    let watcher::Error::InitialListFailed(kube::Error::Api(status)) = error else { return false };
    status.code == 404
}
