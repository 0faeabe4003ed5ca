//! `titan apply --to`: writes documents to where gateways follow them, if they fit what is there, and if nobody else writes meanwhile.

mod files;
mod place;

use crate::cli::{ApplyOptions, PublishOptions};
use crate::config_file;
use crate::delivered::{DocumentName, Texts};
use crate::documents::{Disk, Parsed};
use crate::failure::{BAD_INPUT, Failure};
use crate::fit::{Fitted, fit};
use crate::terminal;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use titan_config::{Config, Document, RemoteKind};
use titan_sources::etcd::{Change, Keys, Store};
use titan_sources::source::Source;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

/// What becomes of each document that is to change.
type Changes = BTreeMap<String, Change>;

/// What documents are checked with.
struct Main<'o> {
    /// The configuration with the source that they are written to alone.
    text: String,
    /// The file of gateways that follow them, where it was named.
    file: Option<&'o PathBuf>,
    /// What the source is called there.
    source: String,
}

/// Writes these documents to that place.
pub(crate) fn publish(to: &str, options: &ApplyOptions) -> Result<ExitCode, Failure> {
    let ApplyOptions { new, publish: PublishOptions { prune, dry_run, .. }, gateway, .. } = options;
    let documents = files::read(new)?;
    let text = place::configuration(to, &options.publish)?;
    let config = parse(&text, &Texts::new())?.config;
    terminal::warn(&config.warnings);
    let main = Main::of(text, gateway.config.as_ref(), &config)?;
    let mut store = store(&config)?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Runtime(error.to_string()))?;
    LocalSet::new().block_on(&runtime, async {
        let there = store.read().await.map_err(Failure::Runtime)?;
        let changes = changes(&documents, &there, *prune)?;
        if !check(&main, &documents, &there, &changes)? {
            return Ok(ExitCode::from(BAD_INPUT));
        }
        terminal::print(&told(&changes, &there))?;
        if *dry_run || changes.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        let revision = store.write(&there, &changes).await;
        let revision = revision.map_err(|unwritten| Failure::Runtime(unwritten.to_string()))?;
        terminal::print(&format!("written at revision {revision}\n"))?;
        Ok(ExitCode::SUCCESS)
    })
}

impl<'o> Main<'o> {
    fn of(text: String, file: Option<&'o PathBuf>, config: &Config) -> Result<Main<'o>, Failure> {
        let prefix = config.sources.first().and_then(|it| prefix_of(&it.kind)).unwrap_or_default();
        let source = match file {
            None => place::SOURCE.to_owned(),
            Some(file) => {
                let theirs = config_file::read(file)?;
                let mut sources = theirs.sources.iter();
                let source = sources.find(|it| prefix_of(&it.kind) == Some(prefix));
                let none = || {
                    format!("{}: it has no source in etcd with the prefix {prefix}", file.display())
                };
                source.ok_or_else(|| Failure::BadInput(none()))?.name.to_string()
            }
        };
        Ok(Main { text, file, source })
    }

    /// Whether it takes these documents.
    fn read(&self, texts: &Texts) -> Result<Parsed, Failure> {
        match self.file {
            Some(file) => config_file::read_with(file, texts).1,
            None => parse(&self.text, texts),
        }
    }
}

fn prefix_of(kind: &RemoteKind) -> Option<&str> {
    match kind {
        RemoteKind::Etcd(etcd) => Some(&etcd.prefix),
        RemoteKind::Http(_)
        | RemoteKind::Kubernetes(_)
        | RemoteKind::Consul(_)
        | RemoteKind::Docker(_) => None,
    }
}

/// The configuration of the command line, with these documents.
fn parse(text: &str, texts: &Texts) -> Result<Parsed, Failure> {
    let mut disk = Disk::around(Path::new("")).delivered(texts);
    disk.parse(Document::alone("the command line", text))
}

fn store(config: &Config) -> Result<Store, Failure> {
    let files = config_file::read_checked(config, Path::new(""))?;
    let source = config.sources.first().map(|it| Source::new(it, &config.resolver, &files));
    let source = source.transpose().map_err(|bad| Failure::Runtime(bad.to_string()))?;
    let store = source.as_ref().and_then(Source::store);
    store.ok_or_else(|| Failure::Runtime("there is nowhere to write to".to_owned()))
}

/// What is to change for these to be there.
fn changes(
    documents: &BTreeMap<String, String>,
    there: &Keys,
    is_pruned: bool,
) -> Result<Changes, Failure> {
    let delivery = there.documents().map_err(|bad| Failure::Runtime(bad.to_string()))?;
    let before: BTreeMap<_, _> =
        delivery.documents().iter().map(|it| (it.name.as_str(), it.text.as_str())).collect();
    let is_other =
        |(name, text): &(&String, &String)| before.get(name.as_str()) != Some(&text.as_str());
    let put = documents.iter().filter(is_other);
    let put = put.map(|(name, text)| (name.clone(), Change::Put(text.clone())));
    let gone = before.keys().filter(|name| is_pruned && !documents.contains_key(**name));
    let gone = gone.map(|name| ((*name).to_owned(), Change::Delete));
    Ok(put.chain(gone).collect())
}

/// Whether the documents fit, with what else will be there. Of that it is only told where it does not.
fn check(
    main: &Main<'_>,
    documents: &BTreeMap<String, String>,
    there: &Keys,
    changes: &Changes,
) -> Result<bool, Failure> {
    let delivery = there.documents().map_err(|bad| Failure::Runtime(bad.to_string()))?;
    let named = |name: &str, text: &str| (DocumentName::new(&main.source, name), Arc::from(text));
    let stays = delivery.documents().iter().filter(|it| !changes.contains_key(&it.name));
    let mut wanted: Texts = stays.map(|it| named(&it.name, &it.text)).collect();
    wanted.extend(documents.iter().map(|(name, text)| named(name, text)));
    let names = wanted.keys().map(|it| it.document.clone());
    let nameless =
        names.map(|name| titan_sources::delivery::Document { name, text: String::new() });
    titan_sources::delivery::Delivery::new("", nameless.collect())
        .map_err(|bad| Failure::BadInput(bad.to_string()))?;
    // As gateways do that have in force what is there: of two that exclude each other that one stays.
    let all = delivery.documents().iter().map(|it| named(&it.name, &it.text)).collect();
    let there = fit(&Texts::new(), &all, |texts| main.read(texts)).made.map(|(texts, _)| texts);
    let there = there.unwrap_or_default();
    let Fitted { made: _, held, failure } = fit(&there, &wanted, |texts| main.read(texts));
    if let Some(failure) = failure {
        return Err(failure);
    }
    let mut is_fine = true;
    for (DocumentName { document, .. }, why) in &held {
        let is_ours = documents.contains_key(document);
        is_fine &= !is_ours;
        terminal::complain(&match is_ours {
            true => format!("error: {document}: {why}\n"),
            false => format!("warning: {document}, which is there already, does not fit: {why}\n"),
        });
    }
    if !is_fine && main.file.is_none() {
        terminal::complain(
            "help: what the gateways' own file declares is known with `--config FILE`\n",
        );
    }
    Ok(is_fine)
}

/// A line for each change.
fn told(changes: &Changes, there: &Keys) -> String {
    if changes.is_empty() {
        return "nothing changes\n".to_owned();
    }
    let mut text = String::new();
    for (name, change) in changes {
        let (mark, size) = match change {
            Change::Put(text) if there.has(name) => ('~', Some(text.len())),
            Change::Put(text) => ('+', Some(text.len())),
            Change::Delete => ('-', None),
        };
        let size = size.map(|size| format!(" ({size} bytes)")).unwrap_or_default();
        writeln!(text, "{mark} {name}{size}").expect("a String takes everything");
    }
    text
}
