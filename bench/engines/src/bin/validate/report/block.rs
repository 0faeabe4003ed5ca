//! The parts of a page, which can be written in HTML and in Markdown.

/// One of them. All texts are plain: whoever writes them takes the meaning from letters that have one.
#[derive(Debug)]
pub enum Block {
    Title(String),
    Heading(String),
    Verdict {
        passed: bool,
        text: String,
    },
    Text(String),
    Code(String),
    List(Vec<String>),
    /// One with a name may be long.
    Table {
        name: Option<String>,
        head: Vec<String>,
        rows: Vec<Vec<String>>,
    },
    Picture(Picture),
}

/// A chart.
#[derive(Debug)]
pub struct Picture {
    pub title: String,
    /// As `titan_bench::chart` draws it.
    pub svg: String,
    /// In the folder `pictures` beside the page.
    pub file: String,
}

impl Block {
    pub fn heading(text: &str) -> Self {
        Self::Heading(text.to_owned())
    }

    /// A table of names and values.
    pub fn facts(facts: Vec<(String, String)>) -> Self {
        let rows = facts.into_iter().map(|(name, value)| vec![name, value]).collect();
        Self::Table { name: None, head: vec![String::new(); 2], rows }
    }
}
