//! What the user has chosen: a view, an order, a filter; and what keys change of that.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What is chosen.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    pub(super) view: View,
    /// By view.
    places: [Place; View::ALL.len()],
    /// Only names that contain it are shown.
    pub(super) filter: String,
    /// Whether keys change the filter.
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    pub(super) has_help: bool,
}

/// What can be looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum View {
    #[default]
    Overview,
    Routes,
    Upstreams,
    Workers,
}

/// Where the user is in a view.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) sort: Sort,
    /// The row that is marked, and the first one that is shown.
    pub(super) row: usize,
    pub(super) first: usize,
    /// What was drawn last: how many rows there are, how many fit, and which columns.
    pub(super) rows: usize,
    pub(super) fitting: usize,
    pub(super) columns: Vec<usize>,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) column: usize,
    /// Names go up and figures go down, or the other way round.
    pub(super) is_reversed: bool,
}

/// Whether the user stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Stay,
    Leave,
}

/// Characters of a filter.
const MAX_FILTER: usize = 60;

impl View {
    pub(super) const ALL: [View; 4] =
        [View::Overview, View::Routes, View::Upstreams, View::Workers];

    pub(super) fn title(self) -> &'static str {
        match self {
            View::Overview => "Overview",
            View::Routes => "Routes",
            View::Upstreams => "Upstreams",
            View::Workers => "Workers",
        }
    }

    fn at(self, steps: usize) -> View {
        View::ALL[(self as usize + steps) % View::ALL.len()]
    }
}

impl Page {
    /// Where the user is in the view that is shown.
    pub(super) fn place(&mut self) -> &mut Place {
        &mut self.places[self.view as usize]
    }

    /// Does what a key is for.
    pub(super) fn on_key(&mut self, key: KeyEvent) -> Next {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if key.kind == KeyEventKind::Release => {}
            KeyCode::Char('c') if is_control => return Next::Leave,
            _ if self.is_typing => self.type_key(key.code, is_control),
            _ if is_control => {}
            // Any key closes the help, and does nothing else.
            _ if self.has_help => self.has_help = false,
            KeyCode::Char('q') => return Next::Leave,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(digit @ '1'..='4') => {
                self.view = View::ALL[digit as usize - '1' as usize];
            }
            KeyCode::Tab | KeyCode::Right => self.view = self.view.at(1),
            KeyCode::BackTab | KeyCode::Left => self.view = self.view.at(View::ALL.len() - 1),
            other => self.place().on_key(other),
        }
        Next::Stay
    }

    fn type_key(&mut self, key: KeyCode, is_control: bool) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char('u') if is_control => self.filter.clear(),
            KeyCode::Char(c) if !is_control && self.filter.chars().count() < MAX_FILTER => {
                self.filter.push(c);
            }
            _ => {}
        }
    }
}

impl Place {
    fn on_key(&mut self, key: KeyCode) {
        let last = self.rows.saturating_sub(1);
        let screen = self.fitting.max(1);
        match key {
            KeyCode::Down | KeyCode::Char('j') => self.row = (self.row + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.row = self.row.saturating_sub(1),
            KeyCode::PageDown => self.row = (self.row + screen).min(last),
            KeyCode::PageUp => self.row = self.row.saturating_sub(screen),
            KeyCode::Home => self.row = 0,
            KeyCode::End => self.row = last,
            KeyCode::Char('r') => self.sort.is_reversed = !self.sort.is_reversed,
            KeyCode::Char('s') => {
                let at = self.columns.iter().position(|it| *it == self.sort.column);
                let next = at.map_or(0, |at| (at + 1) % self.columns.len());
                let column = self.columns.get(next).copied().unwrap_or_default();
                self.sort = Sort { column, is_reversed: false };
            }
            _ => {}
        }
    }

    /// Notes what is drawn, and keeps the marked row in sight.
    pub(super) fn fit(&mut self, rows: usize, fitting: usize, columns: Vec<usize>) {
        (self.rows, self.fitting, self.columns) = (rows, fitting, columns);
        self.row = self.row.min(rows.saturating_sub(1));
        let lowest = (self.row + 1).saturating_sub(fitting);
        let most = rows.saturating_sub(fitting);
        self.first = self.first.min(most).clamp(lowest.min(self.row), self.row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keys: &[KeyCode]) -> Page {
        let mut page = Page::default();
        for view in View::ALL {
            page.view = view;
            page.place().fit(10, 4, vec![0, 2, 3]);
        }
        page.view = View::Routes;
        for key in keys {
            assert_eq!(page.on_key(KeyEvent::from(*key)), Next::Stay);
        }
        page
    }

    const fn char(c: char) -> KeyCode {
        KeyCode::Char(c)
    }

    #[test]
    fn keys_lead_to_views() {
        for (keys, view) in [
            (&[char('1')][..], View::Overview),
            (&[char('4')], View::Workers),
            (&[KeyCode::Tab], View::Upstreams),
            (&[KeyCode::Tab, KeyCode::Tab, KeyCode::Tab], View::Overview),
            (&[KeyCode::BackTab], View::Overview),
            (&[char('?'), char('4')], View::Routes),
            (&[char('/'), char('4')], View::Routes),
        ] {
            assert_eq!(page(keys).view, view, "{keys:?}");
        }
    }

    #[test]
    fn the_marked_row_stays_in_sight() {
        for (keys, row, first) in [
            (&[KeyCode::Up][..], 0, 0),
            (&[KeyCode::Down; 3], 3, 0),
            (&[KeyCode::Down; 4], 4, 1),
            (&[KeyCode::End], 9, 6),
            (&[KeyCode::End, KeyCode::Up, KeyCode::PageUp], 4, 4),
            (&[KeyCode::PageDown, KeyCode::Home], 0, 0),
        ] {
            let mut page = page(&[]);
            for key in keys {
                page.on_key(KeyEvent::from(*key));
                page.place().fit(10, 4, vec![0]);
            }
            assert_eq!((page.place().row, page.place().first), (row, first), "{keys:?}");
        }
        let mut page = page(&[KeyCode::End]);
        page.place().fit(3, 4, vec![0]);
        assert_eq!((page.place().row, page.place().first), (2, 0));
        page.place().fit(0, 0, vec![0]);
        assert_eq!((page.place().row, page.place().first), (0, 0));
    }

    #[test]
    fn the_order_goes_through_the_columns_that_are_shown() {
        for (keys, column, is_reversed) in [
            (&[char('s')][..], 2, false),
            (&[char('r')], 0, true),
            (&[char('s'), char('r')], 2, true),
            (&[char('s'), char('r'), char('s')], 3, false),
            (&[char('s'), char('s'), char('s')], 0, false),
        ] {
            assert_eq!(page(keys).place().sort, Sort { column, is_reversed }, "{keys:?}");
        }
    }

    #[test]
    fn a_filter_is_typed_kept_and_removed() {
        let typed = [char('/'), char('a'), char('q'), char('x'), KeyCode::Backspace];
        let typing = page(&typed);
        assert_eq!((typing.filter.as_str(), typing.is_typing), ("aq", true));
        let kept = page(&[&typed[..], &[KeyCode::Enter]].concat());
        assert_eq!((kept.filter.as_str(), kept.is_typing), ("aq", false));
        for keys in [&[KeyCode::Esc][..], &[KeyCode::Enter, KeyCode::Esc]] {
            assert_eq!(page(&[&typed[..], keys].concat()).filter, "");
        }
        let long = page(&[&[char('/')][..], &[char('a'); MAX_FILTER + 1]].concat());
        assert_eq!(long.filter.len(), MAX_FILTER);
    }

    #[test]
    fn there_is_a_way_out() {
        let control = |c| KeyEvent::new(char(c), KeyModifiers::CONTROL);
        assert_eq!(page(&[]).on_key(char('q').into()), Next::Leave);
        assert_eq!(page(&[char('/')]).on_key(control('c')), Next::Leave);
        assert_eq!(page(&[char('?')]).on_key(control('c')), Next::Leave);
        assert!(page(&[char(' ')]).is_paused && !page(&[char(' '), char(' ')]).is_paused);
    }
}
