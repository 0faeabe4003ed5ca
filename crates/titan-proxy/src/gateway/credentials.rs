//! The certificates, keys, lists and directories that a configuration names: which of them cannot be used.

use crate::files::check_root;
use crate::named_files;
use titan_config::{Action, Config, Location};
use titan_io::tls::{BadCredentials, ClientTls, Files, ServerTls};
use titan_policies::credentials;

/// Every certificate, key, list and directory of a configuration that cannot be used, with the place of its
/// listener, upstream, policy or route.
pub fn check_credentials(config: &Config, files: &Files) -> Vec<(Location, BadCredentials)> {
    let mut found: Vec<(Location, BadCredentials)> = Vec::new();
    for listener in &config.listeners {
        let Some(tls) = &listener.tls else { continue };
        for bad in ServerTls::faults(tls, listener.protocols, files) {
            let fault = (listener.location, bad);
            // A file may be named twice.
            if !found.contains(&fault) {
                found.push(fault);
            }
        }
    }
    for upstream in &config.upstreams {
        found.extend(client_tls(upstream, files).err().map(|bad| (upstream.location, bad)));
    }
    for policy in &config.policies {
        let faults = credentials::faults(&policy.policy, files);
        found.extend(faults.into_iter().map(|bad| (policy.location, bad)));
    }
    found.extend(bad_roots(config, files));
    found
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
    let warnings = config.listeners.iter().flat_map(|listener| {
        let tls = listener.tls.as_ref();
        let tls = tls.and_then(|tls| ServerTls::new(tls, listener.protocols, files).ok());
        let warnings = tls.map_or_else(Vec::new, |tls| tls.warnings());
        warnings.into_iter().map(|warning| (listener.location, warning))
    });
    warnings.chain(named_files::warnings(config, files)).collect()
}

/// What TLS is spoken with to an upstream.
pub(super) fn client_tls(
    upstream: &titan_config::Upstream,
    files: &Files,
) -> Result<Option<ClientTls>, BadCredentials> {
    let tls = upstream.tls.as_ref();
    tls.map(|tls| ClientTls::new(tls, upstream.protocol, files)).transpose()
}
