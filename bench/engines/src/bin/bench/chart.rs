//! The costs as a picture: a panel for each scenario, a bar for each engine, drawn as plain SVG.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use titan_bench::machine::Machine;

use crate::engine::Engine;
use crate::figures::{Figures, Row};
use crate::origin::Origin;

const COLUMNS: usize = 2;
const PANEL_WIDTH: usize = 470;
const BAR_HEIGHT: usize = 22;
const BAR_STEP: usize = 30;
const NAME_WIDTH: usize = 70;
/// Room right of the longest bar for its figure.
const FIGURE_WIDTH: usize = 165;
const MARGIN: usize = 24;
const HEAD: usize = 72;
const PANEL_HEAD: usize = 34;

/// Draws all scenarios.
pub fn write(
    path: &Path,
    machine: &Machine,
    origin: Origin,
    figures: &[Figures],
) -> io::Result<()> {
    let conditions = format!("{machine}; origin: {}", origin.name());
    fs::write(path, draw(&conditions, figures))
}

fn draw(conditions: &str, figures: &[Figures]) -> String {
    let bars = figures.iter().map(|scenario| scenario.rows.len()).max().unwrap_or(0);
    let panel_height = PANEL_HEAD + bars * BAR_STEP + 20;
    let width = COLUMNS * PANEL_WIDTH + 2 * MARGIN;
    let height = HEAD + figures.len().div_ceil(COLUMNS) * panel_height + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"13\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    svg.push_str(&text(
        MARGIN,
        32,
        18,
        "#1a1a1a",
        "Processor time of the proxy per request; shorter is better",
    ));
    svg.push_str(&text(MARGIN, 54, 12, "#666666", conditions));
    for (index, scenario) in figures.iter().enumerate() {
        let x = MARGIN + index % COLUMNS * PANEL_WIDTH;
        let y = HEAD + index / COLUMNS * panel_height;
        svg.push_str(&panel(scenario, x, y));
    }
    svg.push_str("</svg>\n");
    svg
}

fn panel(figures: &Figures, x: usize, y: usize) -> String {
    let mut svg = text(x, y + 20, 14, "#1a1a1a", figures.scenario.title);
    let longest = figures.rows.iter().map(|row| row.cost).fold(1e-9, f64::max);
    let room = (PANEL_WIDTH - NAME_WIDTH - FIGURE_WIDTH) as f64;
    for (index, row) in figures.rows.iter().enumerate() {
        let top = y + PANEL_HEAD + index * BAR_STEP;
        let length = (row.cost / longest * room).max(1.0);
        let baseline = top + BAR_HEIGHT - 6;
        let start = x + NAME_WIDTH;
        let colour = colour(row.engine);
        svg.push_str(&text(x, baseline, 13, "#1a1a1a", row.engine.name()));
        let _ = writeln!(
            svg,
            "<rect x=\"{start}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\" fill=\"{colour}\"/>"
        );
        let label = label(row, figures.scenario.idle());
        svg.push_str(&text(start + length as usize + 8, baseline, 12, "#444444", &label));
    }
    svg
}

fn label(row: &Row, idle: bool) -> String {
    let cost = match row.cost {
        bytes if idle => format!("{bytes:.0} bytes"),
        micros if micros >= 100.0 => format!("{micros:.0} \u{b5}s"),
        micros => format!("{micros:.2} \u{b5}s"),
    };
    let ratio = row.to_nginx.map_or_else(String::new, |ratio| format!(", {ratio:.2} of nginx"));
    let mark = if row.errors > 0 { " (errors)" } else { "" };
    format!("{cost}{ratio}{mark}")
}

fn colour(engine: Engine) -> &'static str {
    match engine {
        Engine::Floor => "#b8b8b8",
        Engine::Nginx => "#7fa98c",
        Engine::Haproxy => "#7d9cc0",
        Engine::Bare => "#e8c39e",
        Engine::Titan => "#d9822b",
    }
}

fn text(x: usize, y: usize, size: usize, colour: &str, content: &str) -> String {
    let content = content.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{colour}\">{content}</text>\n")
}
