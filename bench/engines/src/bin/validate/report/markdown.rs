//! The page as Markdown, whose charts are files beside it.

use super::block::{Block, Picture};

/// Letters that can mean something in Markdown.
const SPECIAL: &str = "\\`*_{}[]<>#|~&!";

/// The whole page.
pub fn page(blocks: &[Block]) -> String {
    blocks.iter().map(block).collect::<Vec<_>>().join("\n")
}

fn block(block: &Block) -> String {
    match block {
        Block::Title(title) => format!("# {}\n", text(title)),
        Block::Heading(heading) => format!("## {}\n", text(heading)),
        Block::Verdict { text: verdict, .. } => format!("**{}**\n", text(verdict)),
        Block::Text(paragraph) => format!("{}\n", text(paragraph)),
        Block::Code(code) => {
            let fence = fence(code);
            format!("{fence}\n{code}\n{fence}\n")
        }
        Block::List(items) => items.iter().map(|item| format!("- {}\n", text(item))).collect(),
        Block::Table { name, head, rows } => {
            let name = name.as_ref().map(|name| format!("{}\n\n", text(name)));
            name.unwrap_or_default() + &table(head, rows)
        }
        Block::Picture(Picture { title, file, .. }) => {
            format!("![{}](pictures/{file})\n", text(title))
        }
    }
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| text(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rows: String = rows.iter().map(|cells| row(cells)).collect();
    format!("{}|{}\n{rows}", row(head), "---|".repeat(head.len()))
}

/// A fence that is longer than any in the code.
fn fence(code: &str) -> String {
    let mut fence = "```".to_owned();
    while code.contains(&fence) {
        fence.push('`');
    }
    fence
}

/// Letters that mean something in Markdown, and line breaks, as text of one line.
fn text(content: &str) -> String {
    let mut text = String::new();
    for letter in content.chars() {
        if SPECIAL.contains(letter) {
            text.push('\\');
        }
        text.push(if letter.is_control() { ' ' } else { letter });
    }
    text
}
