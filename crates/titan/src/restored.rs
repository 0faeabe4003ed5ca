//! The start of a gateway with sources: with what was in force of them last, whether they respond or not.

use crate::config_file;
use crate::delivered::Texts;
use crate::documents::{Documents, Parsed};
use crate::failure::Failure;
use crate::fit::{Fitted, fit};
use crate::kept::Restored;
use std::path::Path;

/// Reads a file, and joins to it what was in force of its sources, as far as that fits.
pub(crate) fn read(file: &Path) -> Result<(Parsed, Restored), Failure> {
    let parsed = config_file::read_whole(file).1?;
    if parsed.config.sources.is_empty() {
        return Ok((parsed, Restored::default()));
    }
    let mut restored = Restored::read(&parsed.config, file);
    let attempt = |texts: &Texts| join(&parsed.documents, texts, file);
    let Fitted { made, held, failure } = fit(&Texts::new(), &restored.texts(), attempt);
    let held = held.iter().map(|(name, why)| format!("{name} is left out: {why}"));
    let failed = failure.map(|failure| {
        format!("what was in force of sources is left out: {}", failure.text(false).trim_end())
    });
    restored.news.extend(held.chain(failed));
    let (texts, parsed) = made.unwrap_or((Texts::new(), parsed));
    let with = |name: &str| texts.keys().filter(|it| it.source == name).count();
    for source in &parsed.config.sources {
        let name = source.name.as_str();
        restored.news.push(match with(name) {
            0 => format!("nothing was in force of the source {name} before: it is served when it has been delivered"),
            count => format!("the source {name}: {count} documents are in force as they were before"),
        });
    }
    Ok((parsed, restored))
}

/// The same documents with those of sources; an error too where a file that they name cannot be used.
fn join(documents: &Documents, texts: &Texts, file: &Path) -> Result<Parsed, Failure> {
    let mut parsed = config_file::parse_past(&documents.with_delivered(texts), file)?;
    config_file::read_checked(&parsed.config, file)?;
    // Those of the file itself, which is watched.
    parsed.documents.origins = documents.origins.clone();
    Ok(parsed)
}
