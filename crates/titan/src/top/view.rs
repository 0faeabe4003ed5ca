//! The picture: from figures to the cells of a screen, or to lines of text.

mod facts;
mod help;
mod table;

mod overview;
mod routes;
mod upstreams;
mod workers;

#[cfg(test)]
mod tests;

use super::figures::Figures;
use super::page::{Page, View};
use super::text::{age, cut, shown, width};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use std::time::{Duration, SystemTime};
use table::Table;
use titan_admin::history::rfc3339;

/// What is to be shown beside what the user has chosen.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    /// Where the gateway is.
    pub(super) place: String,
    /// When the figures were taken; nothing before there are any.
    pub(super) time: Option<SystemTime>,
    pub(super) interval: Duration,
    pub(super) figures: Figures,
    /// Why the gateway does not respond, and for how long that has been so.
    pub(super) lost: Option<(String, Duration)>,
    /// Why it does not tell how its upstreams are doing.
    pub(super) refused: Option<String>,
}

/// Whether colours may be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    pub(super) has_color: bool,
}

/// What a text is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Tone {
    #[default]
    Plain,
    Good,
    /// Not as usual.
    Warning,
    Bad,
    /// Of less weight than others.
    Faint,
    Title,
}

/// Less than this shows nothing that is of use.
const LEAST: (u16, u16) = (20, 5);

impl Theme {
    fn style(self, tone: Tone) -> Style {
        let style = Style::new();
        let color = |color| if self.has_color { style.fg(color) } else { style };
        match tone {
            Tone::Plain => style,
            Tone::Good => color(Color::Green),
            Tone::Warning => color(Color::Yellow),
            Tone::Bad => color(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Faint => style.add_modifier(Modifier::DIM),
            Tone::Title => color(Color::Cyan).add_modifier(Modifier::BOLD),
        }
    }

    /// Of figures that are not of now.
    fn stale(self) -> Style {
        match self.has_color {
            true => Style::new().fg(Color::DarkGray),
            false => Style::new().add_modifier(Modifier::DIM),
        }
    }
}

/// Draws the whole page.
pub(super) fn draw(buffer: &mut Buffer, page: &mut Page, picture: &Picture, theme: Theme) {
    let area = buffer.area;
    if area.width < LEAST.0 || area.height < LEAST.1 {
        line(buffer, area, 0, "too small", theme.style(Tone::Plain));
        return;
    }
    draw_title(buffer, area, page, picture, theme);
    draw_tabs(buffer, area, page, theme);
    let body = Rect { y: area.y + 2, height: area.height - 3, ..area };
    match page.has_help {
        true => help::draw(buffer, body, theme),
        false => draw_body(buffer, body, page, picture, theme),
    }
    draw_foot(buffer, area, page, picture, theme);
}

fn draw_body(buffer: &mut Buffer, body: Rect, page: &mut Page, picture: &Picture, theme: Theme) {
    let figures = &picture.figures;
    if picture.time.is_some() {
        match table_of(page.view, picture) {
            None => overview::draw(buffer, body, figures, theme),
            Some(table) => table.draw(buffer, body, page, theme),
        }
    } else if picture.lost.is_none() {
        line(buffer, body, 0, "asking the gateway", theme.style(Tone::Faint));
    }
    if picture.lost.is_some() {
        buffer.set_style(body, theme.stale());
    }
}

fn table_of(view: View, picture: &Picture) -> Option<Table> {
    let figures = &picture.figures;
    match view {
        View::Overview => None,
        View::Routes => Some(routes::table(&figures.routes)),
        View::Upstreams => Some(upstreams::table(figures, picture.refused.as_deref())),
        View::Workers => Some(workers::table(&figures.workers)),
    }
}

fn draw_title(buffer: &mut Buffer, area: Rect, page: &Page, picture: &Picture, theme: Theme) {
    let right = match (&picture.lost, page.is_paused) {
        (Some(_), _) => "NO CONNECTION".to_owned(),
        (None, true) => "PAUSED".to_owned(),
        (None, false) => format!("every {}", interval(picture.interval)),
    };
    let left = usize::from(area.width).saturating_sub(width(&right) + 1);
    line(buffer, area, 0, &cut(&title(picture, left), left), theme.style(Tone::Title));
    let tone = if picture.lost.is_some() { Tone::Bad } else { Tone::Faint };
    let x = area.right().saturating_sub(columns(&right));
    buffer.set_string(x, area.y, &right, theme.style(tone));
}

/// As much of what names the gateway as fits.
fn title(picture: &Picture, most: usize) -> String {
    let figures = &picture.figures;
    let version = figures.version.as_deref().map(|it| format!("version {}", shown(it)));
    let parts = [
        Some(shown(&picture.place)),
        picture.time.map(|time| rfc3339(time).get(11..).unwrap_or_default().to_owned()),
        figures.uptime.map(|it| format!("up {}", age(it))),
        version,
    ];
    let mut title = "titan top".to_owned();
    for part in parts.into_iter().flatten() {
        let longer = format!("{title}  {part}");
        let has_place = title.contains("  ");
        if has_place && width(&longer) > most {
            break;
        }
        title = longer;
    }
    title
}

fn interval(interval: Duration) -> String {
    match interval.subsec_millis() {
        0 => age(interval),
        _ => format!("{}ms", interval.as_millis()),
    }
}

fn draw_tabs(buffer: &mut Buffer, area: Rect, page: &Page, theme: Theme) {
    let mut x = area.x;
    let is_wide = area.width >= 60;
    for (index, view) in View::ALL.into_iter().enumerate() {
        let is_chosen = view == page.view;
        let title = view.title();
        let title = if is_wide || is_chosen { title } else { &title[..2] };
        let text = match is_chosen {
            true => format!("[{} {title}]", index + 1),
            false => format!(" {} {title} ", index + 1),
        };
        let style = if is_chosen {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            theme.style(Tone::Plain)
        };
        x = put(buffer, area, (x, area.y + 1), &text, style);
    }
    if page.is_typing || !page.filter.is_empty() {
        let cursor = if page.is_typing { "_" } else { "" };
        let text = format!(" /{}{cursor}", shown(&page.filter));
        put(buffer, area, (x, area.y + 1), &text, theme.style(Tone::Warning));
    }
}

fn draw_foot(buffer: &mut Buffer, area: Rect, page: &Page, picture: &Picture, theme: Theme) {
    let last = area.height - 1;
    let Some((why, lasted)) = &picture.lost else {
        let keys = match page.is_typing {
            true => "Enter keep  Esc remove",
            false => "q leave  ? help  space pause  Tab view  s sort  r reverse  / filter",
        };
        line(buffer, area, last, keys, theme.style(Tone::Faint));
        return;
    };
    let old = if picture.time.is_some() { "; old figures" } else { "" };
    let text = format!("no connection for {}{old}: {}", age(*lasted), shown(why));
    line(buffer, area, last, &text, theme.style(Tone::Bad));
}

/// Writes a line of the area, as much of it as fits.
fn line(buffer: &mut Buffer, area: Rect, row: u16, text: &str, style: Style) {
    if row < area.height {
        put(buffer, area, (area.x, area.y + row), &cut(text, area.width.into()), style);
    }
}

/// Writes a text from a place on, as much of it as fits. Returns where it ends.
fn put(buffer: &mut Buffer, area: Rect, (x, y): (u16, u16), text: &str, style: Style) -> u16 {
    let left = usize::from(area.right().saturating_sub(x));
    buffer.set_stringn(x, y, cut(text, left), left, style).0
}

/// The columns of a text that is short.
fn columns(text: &str) -> u16 {
    u16::try_from(width(text)).unwrap_or(u16::MAX)
}

/// The same page as lines of text: all views, whole.
pub(super) fn text(picture: &Picture, columns: u16) -> String {
    let theme = Theme { has_color: false };
    let mut text = cut(&title(picture, columns.into()), columns.into()) + "\n\n";
    let facts = overview::facts(&picture.figures);
    let area = Rect::new(0, 0, columns, u16::try_from(facts.len()).unwrap_or(u16::MAX));
    let mut buffer = Buffer::empty(area);
    facts::draw(&mut buffer, area, &facts, theme);
    text += &lines_of(&buffer);
    for view in [View::Routes, View::Upstreams, View::Workers] {
        text += "\n";
        text += &table_of(view, picture).map_or_else(String::new, |it| it.text(columns));
    }
    text
}

/// What a screen shows, without blanks at the ends of lines.
fn lines_of(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in buffer.area.rows().map(|row| row.y) {
        let mut line = String::new();
        let mut x = buffer.area.x;
        while x < buffer.area.right() {
            let symbol = buffer[(x, y)].symbol();
            line += symbol;
            x += columns(symbol).max(1);
        }
        text += line.trim_end();
        text += "\n";
    }
    text
}
