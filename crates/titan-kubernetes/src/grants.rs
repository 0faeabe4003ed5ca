//! Who may name objects of other namespaces.

use crate::cluster::{Cluster, GATEWAY_GROUP};
use crate::objects::Key;

/// Whether an object of Gateway API of this kind and namespace may name one. It always may in its own namespace.
pub(crate) fn allows(cluster: &Cluster, (kind, namespace): (&str, &str), to: (&str, &Key)) -> bool {
    let (to_kind, to) = to;
    if to.namespace == namespace {
        return true;
    }
    let grants = cluster.grants.iter().filter(|(key, _)| key.namespace == to.namespace);
    grants.map(|(_, grant)| &grant.spec).any(|grant| {
        let is_from = grant
            .from
            .iter()
            .any(|it| it.group == GATEWAY_GROUP && it.kind == kind && it.namespace == namespace);
        let is_named = |name: &Option<String>| name.as_ref().is_none_or(|name| *name == to.name);
        let is_to = grant
            .to
            .iter()
            .any(|it| it.group.is_empty() && it.kind == to_kind && is_named(&it.name));
        is_from && is_to
    })
}
