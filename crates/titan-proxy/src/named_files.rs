//! Warnings about files that can be used but are probably not what was meant.

use std::path::Path;
use titan_config::{
    Action, ApiKeys, Config, Location, LogDestination, LogTarget, Name, NamedPolicy, Policy,
    api_keys_in,
};
use titan_io::tls::Files;

/// What there is to say of pages, lists of keys and logs, with the place of what names them.
pub(crate) fn warnings(config: &Config, files: &Files) -> Vec<(Location, String)> {
    let of_pages = missing_pages(config, files);
    let of_lists = config.policies.iter().filter_map(|named| empty_list(named, files));
    let of_names = config.policies.iter().flat_map(|named| unknown_names(named, config, files));
    of_pages.chain(of_lists).chain(of_names).chain(homeless_logs(config, files)).collect()
}

/// The pages of routes with files that are not there.
fn missing_pages(config: &Config, files: &Files) -> impl Iterator<Item = (Location, String)> {
    config.routes.iter().flat_map(|route| {
        let Action::Files(action) = &route.action else { return Vec::new() };
        let root = files.folder().join(&action.root);
        if !root.is_dir() {
            return Vec::new();
        }
        let fallback = action.fallback.iter().map(|name| ("fallback", name));
        let pages = action.error_pages.iter().map(|(_, name)| ("error_pages", name));
        let missing = fallback.chain(pages).filter(|(_, name)| !root.join(name).is_file());
        let told = missing.map(|(key, name)| {
            let file = root.join(name);
            (route.location, format!("{}, which `{key}` names, is not a file", file.display()))
        });
        told.collect()
    })
}

/// The access logs whose files cannot be created, for want of a directory. No error: it may be on the machine that serves.
fn homeless_logs(config: &Config, files: &Files) -> impl Iterator<Item = (Location, String)> {
    config.access_log.iter().filter_map(|log| {
        let LogDestination::Lines(LogTarget::File { path, .. }) = &log.to else { return None };
        let file = files.folder().join(path);
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let told = || {
            let (folder, file) = (folder.display(), file.display());
            format!("there is no directory {folder} for the access log {file}: the gateway does not start without it")
        };
        (!folder.is_dir()).then(|| (log.location, told()))
    })
}

/// A policy whose only list of keys has none.
fn empty_list(named: &NamedPolicy, files: &Files) -> Option<(Location, String)> {
    let keys = api_keys(&named.policy)?;
    let file = keys.file.as_ref()?;
    let is_empty = known_names(keys, files)?.is_empty();
    let told = || format!("{} has no keys: every request would be refused", file.display());
    is_empty.then(|| (named.location, told()))
}

/// The API keys that a rate limit exempts and that no policy beside it knows.
fn unknown_names(limit: &NamedPolicy, config: &Config, files: &Files) -> Vec<(Location, String)> {
    let exempt = limit.policy.rate_limit().and_then(|it| it.exempt.as_ref());
    let Some(exempt) = exempt.filter(|it| !it.api_keys.is_empty()) else { return Vec::new() };
    let beside = config
        .routes
        .iter()
        .filter(|route| config.policies_of(&route.policies).any(|named| named.name == limit.name));
    let policies = beside.flat_map(|route| config.policies_of(&route.policies));
    let known: Option<Vec<Vec<Name>>> = policies
        .filter_map(|named| api_keys(&named.policy))
        .map(|keys| known_names(keys, files))
        .collect();
    // Where a list cannot be read there is an error already, and no route may have one.
    let Some(known) = known.filter(|known| !known.is_empty()) else { return Vec::new() };
    let unknown =
        exempt.api_keys.iter().filter(|name| !known.iter().flatten().any(|it| it == *name));
    let told = unknown.map(|name| {
        let policy = &limit.name;
        (limit.location, format!("`{policy}` exempts the API key `{name}`, which does not exist"))
    });
    told.collect()
}

fn api_keys(policy: &Policy) -> Option<&ApiKeys> {
    match policy {
        Policy::Authorise(authorise) => authorise.api_keys.as_ref(),
        _ => None,
    }
}

/// The names of all keys, where they can be read.
fn known_names(keys: &ApiKeys, files: &Files) -> Option<Vec<Name>> {
    let more = match &keys.file {
        Some(file) => api_keys_in(files.get(file).ok()?).ok()?,
        None => Vec::new(),
    };
    Some(keys.keys.iter().chain(&more).map(|key| key.name.clone()).collect())
}
