//! The certificates, keys, lists and directories that a configuration names: which of them cannot be used.

use crate::fallback;
use crate::files::check_root;
use crate::named_files;
use titan_config::{Action, Config, Listener, Location, Protocols, Tls, TlsMode};
use titan_io::tls::{BadCredentials, ClientTls, Files, ServerTls};
use titan_policies::credentials;
use titan_store::stores::tls_of;

/// Every certificate, key, list and directory of a configuration that cannot be used, with the place of its
/// listener, upstream, policy or route.
pub fn check_credentials(config: &Config, files: &Files) -> Vec<(Location, BadCredentials)> {
    let mut found: Vec<(Location, BadCredentials)> = Vec::new();
    for (tls, protocols, location) in servers(config) {
        for bad in ServerTls::faults(tls, protocols, files) {
            let fault = (location, bad);
            // A file may be named twice.
            if !found.contains(&fault) {
                found.push(fault);
            }
        }
    }
    for upstream in config.connected() {
        found.extend(client_tls(upstream, files).err().map(|bad| (upstream.location, bad)));
    }
    for store in &config.stores {
        found.extend(tls_of(store, files).err().map(|bad| (store.location, bad)));
    }
    for policy in &config.policies {
        let faults = credentials::faults(&policy.policy, files);
        found.extend(faults.into_iter().map(|bad| (policy.location, bad)));
    }
    found.extend(fallback::unreadable(config, files));
    found.extend(bad_roots(config, files));
    found
}

/// What speaks TLS to clients: the listeners and the admin interface.
fn servers(config: &Config) -> impl Iterator<Item = (&Tls, Protocols, Location)> {
    let listeners = config.listeners.iter().filter_map(|listener| {
        Some((listener.tls.as_ref()?, listener.protocols, listener.location))
    });
    let admin = config.admin.iter().filter_map(|admin| {
        // Where the file says how TLS is spoken, there is a place.
        Some((admin.tls.as_ref()?, Protocols { h1: true, h2: false, h3: false }, admin.location?))
    });
    listeners.chain(admin)
}

/// Every directory that files cannot be served from, with the place of its route.
pub(super) fn bad_roots(
    config: &Config,
    files: &Files,
) -> impl Iterator<Item = (Location, BadCredentials)> {
    config.routes.iter().filter_map(|route| {
        let Action::Files(action) = &route.action else { return None };
        let file = files.folder().join(&action.root);
        let reason = check_root(&file).err()?;
        Some((route.location, BadCredentials { file, reason }))
    })
}

/// What there is to say of credentials that can be used, but not for long, and of other files that are probably not what
/// was meant; with the place of what names them.
pub fn warn_of_credentials(config: &Config, files: &Files) -> Vec<(Location, String)> {
    let warnings = servers(config).flat_map(|(tls, protocols, location)| {
        let tls = ServerTls::new(tls, protocols, files).ok();
        let warnings = tls.map_or_else(Vec::new, |tls| tls.warnings());
        warnings.into_iter().map(move |warning| (location, warning))
    });
    let uncovered = config.listeners.iter().flat_map(|it| uncovered(it, files));
    warnings.chain(uncovered).chain(named_files::warnings(config, files)).collect()
}

/// The names of TLS routes that the gateway decrypts, and that no certificate is for.
fn uncovered<'c>(
    listener: &'c Listener,
    files: &Files,
) -> impl Iterator<Item = (Location, String)> + use<'c> {
    let decrypted = listener.tls_routes.iter().filter(|it| it.mode != TlsMode::Passthrough);
    let names = decrypted.flat_map(|it| &it.names);
    let tls = listener.tls.as_ref();
    let uncovered = tls.map_or_else(Vec::new, |tls| ServerTls::uncovered(tls, files, names));
    uncovered.into_iter().map(move |name| {
        let text = format!(
            "the listener `{}` has no certificate for `{name}`, which a TLS route of it takes: clients that ask for it are shown \
             one for another name, or none",
            listener.name
        );
        (listener.location, text)
    })
}

/// What TLS is spoken with to an upstream.
pub(super) fn client_tls(
    upstream: &titan_config::Upstream,
    files: &Files,
) -> Result<Option<ClientTls>, BadCredentials> {
    let tls = upstream.tls.as_ref();
    tls.map(|tls| ClientTls::new(tls, upstream.protocol, files)).transpose()
}
