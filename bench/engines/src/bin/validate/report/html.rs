//! The page as one file that a browser shows without anything else.

use super::block::{Block, Picture};

const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; font-size: 13px; margin: 0.5rem 0; }
th, td { border: 1px solid #ddd; padding: 0.2rem 0.6rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
pre { background: #f5f5f5; padding: 0.6rem; overflow-x: auto; font-size: 13px; }
.passed, .failed { font-weight: 600; }
.passed { color: #2c6e3f; }
.failed { color: #b3261e; }
svg { max-width: 100%; height: auto; }
";

/// The whole page.
pub fn page(blocks: &[Block]) -> String {
    let title = blocks.iter().find_map(|block| match block {
        Block::Title(title) => Some(title.as_str()),
        _ => None,
    });
    let title = text(title.unwrap_or_default());
    let body: String = blocks.iter().map(block).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

fn block(block: &Block) -> String {
    match block {
        Block::Title(title) => format!("<h1>{}</h1>\n", text(title)),
        Block::Heading(heading) => format!("<h2>{}</h2>\n", text(heading)),
        Block::Verdict { passed, text: verdict } => {
            let class = if *passed { "passed" } else { "failed" };
            format!("<p class=\"{class}\">{}</p>\n", text(verdict))
        }
        Block::Text(paragraph) => format!("<p>{}</p>\n", text(paragraph)),
        Block::Code(code) => format!("<pre>{}</pre>\n", text(code)),
        Block::List(items) => {
            let items: String = items.iter().map(|it| format!("<li>{}</li>\n", text(it))).collect();
            format!("<ul>\n{items}</ul>\n")
        }
        Block::Table { name: None, head, rows } => table(head, rows),
        Block::Table { name: Some(name), head, rows } => {
            let (name, table) = (text(name), table(head, rows));
            format!("<details>\n<summary>{name}</summary>\n{table}</details>\n")
        }
        Block::Picture(Picture { svg, .. }) => svg.clone(),
    }
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells: String = cells.iter().map(|it| format!("<{tag}>{}</{tag}>", text(it))).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let has_head = head.iter().any(|cell| !cell.is_empty());
    let head = if has_head { row(head, "th") } else { String::new() };
    let rows: String = rows.iter().map(|cells| row(cells, "td")).collect();
    format!("<table>\n{head}{rows}</table>\n")
}

/// Letters that mean something in HTML, as text.
fn text(content: &str) -> String {
    content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
