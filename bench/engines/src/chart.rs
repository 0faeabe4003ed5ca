//! Figures as a picture: panels of bars, drawn as plain SVG.

use std::fmt::Write as _;

const COLUMNS: usize = 2;
const PANEL_WIDTH: usize = 470;
const BAR_HEIGHT: usize = 22;
const BAR_STEP: usize = 30;
/// Room left of the bars, and what a letter of a longer name takes.
const NAME_WIDTH: usize = 70;
const LETTER_WIDTH: usize = 8;
/// Room right of the longest bar for its figure.
const FIGURE_WIDTH: usize = 165;
const MARGIN: usize = 24;
const HEAD: usize = 72;
const PANEL_HEAD: usize = 34;

/// Bars that are compared with each other.
pub struct Panel {
    /// What they are about.
    pub title: String,
    /// From the top.
    pub bars: Vec<Bar>,
}

/// A figure.
pub struct Bar {
    /// Whose it is; it decides the colour.
    pub name: String,
    /// How long it is, in the unit of its panel.
    pub length: f64,
    /// The figure as a text, with its unit.
    pub label: String,
}

/// Draws all panels below a title and what the figures depend on.
pub fn draw(title: &str, conditions: &str, panels: &[Panel]) -> String {
    let bars = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
    let panel_height = PANEL_HEAD + bars * BAR_STEP + 20;
    let width = COLUMNS * PANEL_WIDTH + 2 * MARGIN;
    let height = HEAD + panels.len().div_ceil(COLUMNS) * panel_height + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    svg.push_str(&text(MARGIN, 32, 18, "#1a1a1a", title));
    svg.push_str(&text(MARGIN, 54, 12, "#666666", conditions));
    for (index, panel) in panels.iter().enumerate() {
        let x = MARGIN + index % COLUMNS * PANEL_WIDTH;
        let y = HEAD + index / COLUMNS * panel_height;
        svg.push_str(&panel.draw(x, y));
    }
    svg.push_str("</svg>\n");
    svg
}

impl Panel {
    fn draw(&self, x: usize, y: usize) -> String {
        let mut svg = text(x, y + 20, 14, "#1a1a1a", &self.title);
        let longest = self.bars.iter().map(|bar| bar.length).fold(1e-9, f64::max);
        let letters = self.bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        let names = NAME_WIDTH.max(letters * LETTER_WIDTH).min(PANEL_WIDTH / 2);
        let room = (PANEL_WIDTH - names - FIGURE_WIDTH) as f64;
        for (index, bar) in self.bars.iter().enumerate() {
            let top = y + PANEL_HEAD + index * BAR_STEP;
            let length = (bar.length / longest * room).max(1.0);
            let baseline = top + BAR_HEIGHT - 6;
            let (start, colour) = (x + names, colour(&bar.name));
            svg.push_str(&text(x, baseline, 13, "#1a1a1a", &bar.name));
            let _ = writeln!(
                svg,
                "<rect x=\"{start}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\" fill=\"{colour}\"/>"
            );
            let behind = start + length as usize + 8;
            svg.push_str(&text(behind, baseline, 12, "#444444", &bar.label));
        }
        svg
    }
}

/// The same for a program in every chart.
fn colour(name: &str) -> &'static str {
    match name {
        "floor" => "#b8b8b8",
        "nginx" => "#7fa98c",
        "haproxy" => "#7d9cc0",
        "bare" => "#e8c39e",
        "titan" | "shockwave" => "#d9822b",
        _ => "#a79bb8",
    }
}

fn text(x: usize, y: usize, size: usize, colour: &str, content: &str) -> String {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{colour}\">{content}</text>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_room_and_names_are_text() {
        let bar =
            |length| Bar { name: "<a> & b".to_owned(), length, label: format!("{length} us") };
        let panel = Panel { title: "small".to_owned(), bars: vec![bar(1.0), bar(4.0)] };
        let svg = draw("Cost", "a machine", &[panel]);
        let room = (PANEL_WIDTH - NAME_WIDTH - FIGURE_WIDTH) as f64;
        for width in [room / 4.0, room] {
            assert!(svg.contains(&format!("width=\"{width:.1}\"")), "{svg}");
        }
        assert!(svg.contains("&lt;a> &amp; b"), "{svg}");
    }
}
