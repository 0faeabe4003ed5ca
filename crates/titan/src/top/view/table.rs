//! Tables: sorted, filtered, and as wide as the screen: what matters least is left out first.

use super::{Theme, Tone, line, lines_of, put};
use crate::top::page::{Page, Place, Sort};
use crate::top::text::{cut, width};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use std::cmp::Ordering;

/// A table.
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    /// What is said in place of rows where there are none.
    pub(super) empty: &'static str,
    /// What is said below the rows.
    pub(super) note: Option<String>,
    /// Whether what there is to say about a row is worth a line where none is marked.
    pub(super) has_stories: bool,
}

/// A column.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// In characters. The first column gets what names need of what the others leave.
    pub(super) width: u16,
    /// 0 is shown always; of the others the highest goes first.
    pub(super) rank: u8,
    pub(super) is_text: bool,
}

/// A row, and those that belong below it.
#[derive(Clone, Default)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    /// What there is to say about it, when it is marked.
    pub(super) details: Option<String>,
    pub(super) members: Vec<Row>,
}

/// A part of a row.
#[derive(Clone, Default)]
pub(super) struct Cell {
    pub(super) text: String,
    pub(super) tone: Tone,
    /// What figures are sorted by; what is not known comes last.
    pub(super) order: Option<f64>,
}

/// A row as it stands in the table.
struct Line<'t> {
    row: &'t Row,
    is_member: bool,
}

/// What stands before the names of rows that belong to another one.
const INDENT: &str = "  ";
/// Lines for what there is to say about the marked row.
const DETAILS: u16 = 2;
/// A body below this height has no room for them.
const ENOUGH: u16 = 10;

impl Column {
    /// A column of figures.
    pub(super) const fn figure(title: &'static str, width: u16, rank: u8) -> Column {
        Column { title, width, rank, is_text: false }
    }

    /// A column of text.
    pub(super) const fn text(title: &'static str, width: u16, rank: u8) -> Column {
        Column { title, width, rank, is_text: true }
    }
}

impl Cell {
    pub(super) fn text(text: String) -> Cell {
        Cell { text, ..Cell::default() }
    }

    /// A figure, and how it is written.
    pub(super) fn figure(figure: Option<f64>, write: fn(Option<f64>) -> String) -> Cell {
        Cell { text: write(figure), tone: Tone::Plain, order: figure }
    }

    pub(super) fn with(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }

    /// The same where the figure is of a kind that should not be.
    pub(super) fn bad_above(self, bound: f64) -> Cell {
        let tone = if self.order.is_some_and(|it| it > bound) { Tone::Bad } else { self.tone };
        self.with(tone)
    }
}

impl Table {
    /// Draws it, with the row that is marked.
    pub(super) fn draw(self, buffer: &mut Buffer, area: Rect, page: &mut Page, theme: Theme) {
        let filter = page.filter.clone();
        let place = page.place();
        let table = self.sorted(place.sort);
        let lines = table.lines(&filter);
        let columns = table.fitting(area.width);
        let has_details = area.height >= ENOUGH;
        let note = table.note.as_deref();
        let below = if has_details { DETAILS + 1 } else { u16::from(note.is_some()) };
        let height = area.height.saturating_sub(1 + below);
        let indices = columns.iter().map(|(index, _)| *index).collect();
        place.fit(lines.len(), height.into(), indices);
        let Place { sort, row: marked, first, .. } = place.clone();
        table.draw_head(buffer, Rect { height: 1, ..area }, &columns, Some(sort), theme);
        let body = Rect { y: area.y + 1, height, ..area };
        let shown = lines.iter().enumerate().skip(first);
        for (y, (index, line)) in (body.y..body.bottom()).zip(shown) {
            line.draw(buffer, Rect { y, height: 1, ..area }, &columns, &table.columns, theme);
            if index == marked {
                buffer.set_style(
                    Rect { y, height: 1, ..area },
                    Style::new().add_modifier(Modifier::REVERSED),
                );
            }
        }
        if lines.is_empty() {
            let text = if filter.is_empty() { table.empty } else { "no name contains the filter" };
            put(buffer, area, (area.x, body.y), text, theme.style(Tone::Faint));
        }
        let below = Rect { y: area.bottom().saturating_sub(below), height: below, ..area };
        line(buffer, below, 0, note.unwrap_or_default(), theme.style(Tone::Warning));
        let details = lines.get(marked).and_then(|line| line.row.details.as_deref());
        if let Some(details) = details.filter(|_| has_details) {
            let below = Rect { y: below.y + 1, height: DETAILS, ..below };
            wrap(buffer, below, details, theme.style(Tone::Plain));
        }
    }

    /// The whole table as text, with all that there is to say about its rows.
    pub(super) fn text(self, width: u16) -> String {
        let theme = Theme { has_color: false };
        let table = self.sorted(Sort::default());
        let lines = table.lines("");
        let height = u16::try_from(lines.len().max(1)).unwrap_or(u16::MAX - 1);
        let area = Rect::new(0, 0, width, height + 1);
        let mut buffer = Buffer::empty(area);
        table.draw_plain(&mut buffer, area, theme);
        if lines.is_empty() {
            put(&mut buffer, area, (0, 1), table.empty, Style::new());
        }
        let mut text = lines_of(&buffer);
        let told = lines.iter().filter(|_| table.has_stories);
        let said = told.filter_map(|line| line.row.details.as_deref());
        for detail in said.chain(table.note.as_deref()) {
            text += detail;
            text += "\n";
        }
        text
    }

    /// The rows with the largest figures of that column first.
    pub(super) fn busiest(self, column: usize) -> Table {
        self.sorted(Sort { column, is_reversed: false })
    }

    /// Draws as many rows as fit, in their order; none of them is marked.
    pub(super) fn draw_plain(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let columns = self.fitting(area.width);
        self.draw_head(buffer, area, &columns, None, theme);
        for (y, line) in (area.y + 1..area.bottom()).zip(self.lines("")) {
            line.draw(buffer, Rect { y, height: 1, ..area }, &columns, &self.columns, theme);
        }
    }

    fn sorted(mut self, sort: Sort) -> Table {
        let is_text = self.columns.get(sort.column).is_none_or(|column| column.is_text);
        let compare = |one: &Row, other: &Row| compare(one, other, sort, is_text);
        self.rows.sort_by(compare);
        self.rows.iter_mut().for_each(|row| row.members.sort_by(compare));
        self
    }

    /// The rows whose names contain the filter, and those that belong to them.
    fn lines(&self, filter: &str) -> Vec<Line<'_>> {
        let filter = filter.to_lowercase();
        let mut lines = Vec::new();
        for row in &self.rows {
            let is_it = row.name().to_lowercase().contains(&filter);
            let members = row.members.iter();
            let members = members.filter(|it| is_it || it.name().to_lowercase().contains(&filter));
            let members: Vec<_> = members.map(|row| Line { row, is_member: true }).collect();
            if is_it || !members.is_empty() {
                lines.push(Line { row, is_member: false });
                lines.extend(members);
            }
        }
        lines
    }

    /// The columns that fit, with their widths.
    fn fitting(&self, width: u16) -> Vec<(usize, u16)> {
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let needed = |kept: &[usize]| {
            kept.iter().map(|index| self.columns[*index].width + 1).sum::<u16>().saturating_sub(1)
        };
        while needed(&kept) > width {
            let last = kept.iter().copied().max_by_key(|index| self.columns[*index].rank);
            match last.filter(|index| self.columns[*index].rank > 0) {
                Some(last) => kept.retain(|index| *index != last),
                None => break,
            }
        }
        let spare = width.saturating_sub(needed(&kept));
        let of_name =
            self.columns.first().map_or(0, |it| self.longest_name().saturating_sub(it.width));
        let width_of = |index: usize| {
            let more = if index == 0 { spare.min(of_name) } else { 0 };
            (index, self.columns[index].width + more)
        };
        kept.into_iter().map(width_of).collect()
    }

    fn longest_name(&self) -> u16 {
        let of_row = |row: &Row| {
            let members = row.members.iter().map(|it| width(it.name()) + INDENT.len());
            members.chain([width(row.name())]).max().unwrap_or(0)
        };
        let longest = self.rows.iter().map(of_row).max().unwrap_or(0);
        u16::try_from(longest).unwrap_or(u16::MAX)
    }

    fn draw_head(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        columns: &[(usize, u16)],
        sort: Option<Sort>,
        theme: Theme,
    ) {
        let mut x = area.x;
        for (index, width) in columns {
            let Column { title, is_text, .. } = self.columns[*index];
            let mark = sort.filter(|sort| sort.column == *index).map(|sort| {
                // Which way the rows go.
                if sort.is_reversed == is_text { "v" } else { "^" }
            });
            let title = format!("{title}{}", mark.unwrap_or_default());
            let style = theme.style(Tone::Title).add_modifier(Modifier::UNDERLINED);
            put_in(buffer, area, (x, *width), &title, is_text, style);
            x += width + 1;
        }
    }
}

impl Row {
    fn name(&self) -> &str {
        self.cells.first().map_or("", |cell| cell.text.as_str())
    }
}

impl Line<'_> {
    fn draw(
        &self,
        buffer: &mut Buffer,
        area: Rect,
        columns: &[(usize, u16)],
        all: &[Column],
        theme: Theme,
    ) {
        let mut x = area.x;
        for (index, width) in columns {
            let Some(cell) = self.row.cells.get(*index) else { continue };
            let is_indented = self.is_member && *index == 0;
            let indent = if is_indented { INDENT } else { "" };
            let text = format!("{indent}{}", cell.text);
            put_in(buffer, area, (x, *width), &text, all[*index].is_text, theme.style(cell.tone));
            x += width + 1;
        }
    }
}

/// Writes a text into a column: text from its left edge, figures up to its right one.
fn put_in(
    buffer: &mut Buffer,
    area: Rect,
    (x, columns): (u16, u16),
    text: &str,
    is_text: bool,
    style: Style,
) {
    let text = cut(text, columns.into());
    let spare = usize::from(columns) - width(&text);
    let shift = if is_text { 0 } else { u16::try_from(spare).unwrap_or(0) };
    if x + shift < area.right() {
        put(buffer, area, (x + shift, area.y), &text, style);
    }
}

/// Writes a text into a few lines, broken between words.
fn wrap(buffer: &mut Buffer, area: Rect, text: &str, style: Style) {
    let most = usize::from(area.width);
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is one from the start");
        let longer = if last.is_empty() { word.to_owned() } else { format!("{last} {word}") };
        match width(&longer) <= most || last.is_empty() || lines.len() == usize::from(area.height) {
            true => *lines.last_mut().expect("there is one from the start") = longer,
            false => lines.push(word.to_owned()),
        }
    }
    for (y, line) in (area.y..area.bottom()).zip(lines) {
        put(buffer, area, (area.x, y), &line, style);
    }
}

/// Names up, figures down, and what is not known last.
fn compare(one: &Row, other: &Row, sort: Sort, is_text: bool) -> Ordering {
    let at = sort.column;
    let (Some(a), Some(b)) = (one.cells.get(at), other.cells.get(at)) else {
        return Ordering::Equal;
    };
    let turned = |order: Ordering| if sort.is_reversed { order.reverse() } else { order };
    let order = match (is_text, a.order, b.order) {
        (true, ..) => turned(a.text.cmp(&b.text)),
        (false, Some(a), Some(b)) => turned(b.total_cmp(&a)),
        (false, Some(_), None) => Ordering::Less,
        (false, None, Some(_)) => Ordering::Greater,
        (false, None, None) => Ordering::Equal,
    };
    order.then_with(|| one.name().cmp(other.name()))
}
