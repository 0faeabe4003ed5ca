//! What users have names for, and where in the tree each of them is declared.

use crate::tidy::documented::{
    self, CODES, CONFIGURATION, METRICS, MORE_METRICS, POLICIES, codes, metrics,
};
use crate::tree::{File, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub(super) const COMMAND_LINE: &str = "crates/titan/src/cli.rs";

/// Something that users have a name for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Thing {
    /// The section of a field, the command of an option; empty where there is none.
    owner: String,
    pub(super) name: String,
}

/// Each thing, with the first place that declares it.
pub(super) type Things<'t> = BTreeMap<Thing, (&'t File, usize)>;

/// Finds the things in a text, each with the line that declares it.
type Find = fn(&str) -> Vec<(usize, Thing)>;

/// All of them.
pub(super) fn things(tree: &Tree) -> Things<'_> {
    let mut things = BTreeMap::new();
    let parts: [(&str, Find); 7] = [
        (CONFIGURATION, fields),
        (METRICS, |text| plain(text, metrics)),
        (MORE_METRICS, |text| plain(text, metrics)),
        (CODES, |text| plain(text, codes)),
        (POLICIES, |text| plain(text, metrics)),
        (POLICIES, |text| plain(text, codes)),
        (COMMAND_LINE, commands),
    ];
    for (path, find) in parts {
        for file in tree.under(path) {
            for (index, thing) in find(file.text.as_deref().unwrap_or_default()) {
                things.entry(thing).or_insert((file, index));
            }
        }
    }
    things
}

impl Thing {
    fn of(owner: &str, name: &str) -> Thing {
        Thing { owner: owner.to_owned(), name: name.to_owned() }
    }

    /// Whether one of the words says whose it is. Lists of sections go by their plural: `listeners[].protocols`, `policies.*.cors`.
    pub(super) fn is_owned(&self, words: &BTreeSet<&str>) -> bool {
        let singular = |word: &str| match word.strip_suffix("ies") {
            Some(stem) => format!("{stem}y"),
            None => word.trim_end_matches('s').to_owned(),
        };
        self.owner.is_empty() || words.iter().any(|word| singular(word) == singular(&self.owner))
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Thing { owner, name } = self;
        match owner.as_str() {
            "" => f.write_str(name),
            _ if name.starts_with('-') => write!(f, "{owner} {name}"),
            _ => write!(f, "{owner}.{name}"),
        }
    }
}

fn fields(page: &str) -> Vec<(usize, Thing)> {
    let fields = documented::fields(page).into_iter();
    fields.map(|(index, section, key)| (index, Thing::of(section, key))).collect()
}

/// Metrics or codes: names without an owner.
fn plain(text: &str, names: fn(&str) -> Vec<&str>) -> Vec<(usize, Thing)> {
    let lines = text.lines().enumerate();
    lines
        .flat_map(|(index, line)| names(line).into_iter().map(move |it| (index, Thing::of("", it))))
        .collect()
}

/// The commands, and the options that have a long form: variants of an `enum Command` and fields with
/// `#[arg(long)]`, as clap derives them.
fn commands(text: &str) -> Vec<(usize, Thing)> {
    let mut things = Vec::new();
    let (mut in_commands, mut command) = (false, String::new());
    let mut argument = String::new();
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if line.contains("enum Command {") {
            in_commands = true;
        } else if line == "}" {
            (in_commands, command) = (false, String::new());
        } else if trimmed.starts_with("#[arg(")
            || argument.starts_with("#[arg(") && !argument.ends_with(")]")
        {
            argument.push_str(trimmed);
        } else if trimmed.starts_with("//") || trimmed.starts_with('#') {
        } else if let Some(variant) =
            line.strip_prefix("    ").filter(|_| in_commands).and_then(variant)
        {
            command = variant.to_ascii_lowercase();
            things.push((index, Thing::of("", &command)));
        } else if let Some((field, _)) = trimmed.split_once(':') {
            let field = field.rsplit(' ').next().unwrap_or_default();
            things
                .extend(long(&argument, field).map(|option| (index, Thing::of(&command, &option))));
            argument.clear();
        }
    }
    things
}

fn variant(line: &str) -> Option<&str> {
    let name = line.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    name.starts_with(|c: char| c.is_ascii_uppercase()).then_some(name)
}

/// The long form of an option, where its attribute asks for one.
fn long(argument: &str, field: &str) -> Option<String> {
    let parts = argument.strip_prefix("#[arg(")?.strip_suffix(")]")?.split(',').map(str::trim);
    let name = parts.filter_map(|part| match part.split_once('=') {
        None => (part == "long").then(|| field.replace('_', "-")),
        Some((key, value)) => {
            (key.trim() == "long").then(|| value.trim().trim_matches('"').to_owned())
        }
    });
    name.map(|name| format!("--{name}")).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_options_are_those_of_clap() {
        let text = "\
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}
enum Command {
    /// Doc: of it.
    #[command(after_help = AFTER)]
    Run(ConfigOption),
    Explain {
        /// Doc: of it.
        method: String,
        #[arg(short = 'H', long = \"header\", value_name = \"NAME: VALUE\")]
        fields: Vec<String>,
        #[arg(
            long,
            default_value = \"a\"
        )]
        client_cert: Option<PathBuf>,
        #[arg(short)]
        quiet: bool,
    },
}
struct ConfigOption {
    #[arg(short, long)]
    pub(crate) config: Option<PathBuf>,
}
";
        let names: Vec<_> = commands(text).iter().map(|(_, thing)| thing.to_string()).collect();
        assert_eq!(
            names,
            ["run", "explain", "explain --header", "explain --client-cert", "--config"]
        );
    }
}
