//! Configurations: any bytes as files, with other files and variables around them.

use crate::CHOICES;
use std::path::{Path, PathBuf};
use titan_config::{Cases, Composed, Document, Plan, Report, Resolved, Surroundings};

/// What stands between files.
pub const NEXT_FILE: u8 = 0;

/// Files are read to their end or refused, and what comes of them can be shown.
pub fn config(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let around = Around::new(*choices, input);
    let main = || around.document_of(0);
    match Composed::read(main(), &mut around.clone()) {
        Err(report) => show(&report),
        Ok(composed) => {
            show(&composed.config.warnings);
            assert!(!composed.config.summary().is_empty());
            assert!(!composed.masked().is_empty());
            let resolved = Resolved::from(composed);
            assert!(!resolved.to_string().is_empty());
            assert!(Plan::new(&resolved, &resolved).is_empty(), "it differs from itself");
        }
    }
    if let Err(report) = Cases::parse(main(), &mut around.clone()) {
        show(&report);
    }
}

fn show(report: &Report) {
    let (plain, colored) = (report.to_string(), report.colored().to_string());
    assert_eq!(plain.is_empty(), report.is_empty());
    assert_eq!(colored.is_empty(), report.is_empty());
    assert!(!format!("{report:?}").is_empty());
}

/// Files by their numbers, and variables of which the data chooses the values.
#[derive(Clone)]
struct Around {
    choices: [u8; CHOICES],
    files: Vec<String>,
}

impl Around {
    fn new(choices: [u8; CHOICES], input: &[u8]) -> Around {
        let files = input.split(|byte| *byte == NEXT_FILE);
        let files = files.map(|file| String::from_utf8_lossy(file).into_owned());
        Around { choices, files: files.collect() }
    }

    /// The file with that number; the number of one that is not there leads to one that is.
    fn document_of(&self, number: usize) -> Document {
        let number = number % self.files.len();
        let text = self.files[number].clone();
        // Some are in a directory of their own.
        let directory = ["", "a", "a/b"][number % 3];
        let name = PathBuf::from(directory).join(format!("{number}.yaml"));
        Document {
            name: name.display().to_string(),
            directory: directory.into(),
            identity: name,
            text,
        }
    }

    /// The number that the name of a file has.
    fn number(file: &Path) -> Result<usize, String> {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        name.parse().map_err(|_| format!("{} does not exist", file.display()))
    }
}

impl Surroundings for Around {
    fn matching(&mut self, directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
        match pattern.contains('*') {
            true => Ok((1..self.files.len()).map(|it| directory.join(it.to_string())).collect()),
            false => Ok(vec![directory.join(pattern)]),
        }
    }

    fn document(&mut self, file: &Path) -> Result<Document, String> {
        Ok(self.document_of(Around::number(file)?))
    }

    fn variable(&mut self, name: &str) -> Result<Option<String>, String> {
        let chosen = self.choices[name.len() % CHOICES];
        Ok(match chosen % 6 {
            0 => None,
            1 => Some(String::new()),
            2 => Some(chosen.to_string()),
            3 => Some("a: [${A}, #b".to_owned()),
            4 => Some("true".to_owned()),
            _ => return Err("its value is not UTF-8".to_owned()),
        })
    }

    fn secret(&mut self, file: &Path) -> Result<String, String> {
        let number = Around::number(file)?;
        Ok(self.files[number % self.files.len()].clone())
    }

    /// All files but the first one, where the data wants that.
    fn delivered(&mut self, source: &str) -> Vec<Document> {
        let is_wanted = self.choices[source.len() % CHOICES] % 2 == 1;
        let files = self.files.iter().enumerate().skip(1).filter(|_| is_wanted);
        files
            .map(|(number, text)| Document::alone(&format!("source://{source}/{number}"), text))
            .collect()
    }
}
