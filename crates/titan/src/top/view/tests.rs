//! Pictures of a gateway that has seen much.

use super::*;
use crate::top::tests::{now, readings};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

fn picture() -> Picture {
    let [before, after] = readings();
    Picture {
        place: "unix:/run/titan/admin.sock".to_owned(),
        time: Some(now()),
        interval: Duration::from_secs(1),
        figures: Figures::of(&after, Some(&before)),
        lost: None,
        refused: None,
    }
}

/// The terminal after these keys. It is drawn after each.
fn after(
    picture: &Picture,
    (columns, rows): (u16, u16),
    keys: &[KeyCode],
    has_color: bool,
) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    let mut page = Page::default();
    let mut show = |page: &mut Page| {
        let theme = Theme { has_color };
        terminal.draw(|frame| draw(frame.buffer_mut(), page, picture, theme)).unwrap();
    };
    show(&mut page);
    for key in keys {
        page.on_key(KeyEvent::from(*key));
        show(&mut page);
    }
    terminal
}

fn shows(picture: &Picture, size: (u16, u16), keys: &str) -> String {
    let key = |c| match c {
        '>' => KeyCode::Down,
        '\n' => KeyCode::Enter,
        c => KeyCode::Char(c),
    };
    let keys: Vec<_> = keys.chars().map(key).collect();
    let terminal = after(picture, size, &keys, false);
    lines_of(terminal.backend().buffer())
}

const USUAL: (u16, u16) = (80, 24);
const WIDE: (u16, u16) = (120, 40);
const SMALL: (u16, u16) = (40, 10);

#[test]
fn the_overview() {
    insta::assert_snapshot!("overview-80x24", shows(&picture(), USUAL, ""));
    insta::assert_snapshot!("overview-120x40", shows(&picture(), WIDE, ""));
    insta::assert_snapshot!("overview-40x10", shows(&picture(), SMALL, ""));
}

#[test]
fn the_routes() {
    insta::assert_snapshot!("routes-80x24", shows(&picture(), USUAL, "2s>"));
    insta::assert_snapshot!("routes-120x40", shows(&picture(), WIDE, "2"));
    insta::assert_snapshot!("routes-40x10", shows(&picture(), SMALL, "2r"));
}

#[test]
fn the_upstreams() {
    insta::assert_snapshot!("upstreams-80x24", shows(&picture(), USUAL, "3>>>"));
    insta::assert_snapshot!("upstreams-120x40", shows(&picture(), WIDE, "3>"));
    insta::assert_snapshot!("upstreams-40x10", shows(&picture(), SMALL, "3/10.0\n"));
}

#[test]
fn the_workers() {
    insta::assert_snapshot!("workers-80x24", shows(&picture(), USUAL, "4"));
    insta::assert_snapshot!("workers-120x40", shows(&picture(), WIDE, "4"));
    insta::assert_snapshot!("workers-40x10", shows(&picture(), SMALL, "4"));
}

#[test]
fn the_help() {
    insta::assert_snapshot!("help-80x24", shows(&picture(), USUAL, "?"));
}

#[test]
fn all_of_it_as_text() {
    insta::assert_snapshot!("text", text(&picture(), 120));
}

#[test]
fn a_connection_that_is_lost_leaves_the_last_picture_marked() {
    let lost = Picture {
        lost: Some(("connection refused\u{1b}[2J".to_owned(), Duration::from_secs(75))),
        ..picture()
    };
    let (is, was) = (shows(&lost, USUAL, "4"), shows(&picture(), USUAL, "4"));
    let body = |text: &str| text.lines().skip(2).take(20).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(body(&is), body(&was));
    assert!(is.lines().next().unwrap().ends_with("NO CONNECTION"), "{is}");
    let foot = "no connection for 1m15s; old figures: connection refused\\u{1b}[2J";
    assert_eq!(is.lines().last(), Some(foot));
    for (has_color, style) in [
        (true, Style::new().fg(Color::DarkGray)),
        (false, Style::new().add_modifier(Modifier::DIM)),
    ] {
        let terminal = after(&lost, USUAL, &[], has_color);
        let cell = &terminal.backend().buffer()[(0, 2)];
        assert_eq!(cell.style().fg, style.fg.or(Some(Color::Reset)));
        assert!(cell.style().add_modifier.contains(style.add_modifier));
    }
}

#[test]
fn a_gateway_that_was_never_reached_shows_no_figures() {
    let none = Picture { time: None, figures: Figures::default(), ..picture() };
    assert!(shows(&none, USUAL, "").contains("asking the gateway"));
    let lost = Picture { lost: Some(("no".to_owned(), Duration::ZERO)), ..none };
    assert!(shows(&lost, USUAL, "").contains("no connection for 0s: no"));
}

/// The parts of a screen that are not plain, each with how it is drawn.
fn styles(buffer: &Buffer) -> String {
    let mut runs: Vec<(Style, String)> = Vec::new();
    for row in buffer.area.rows() {
        for cell in (row.x..row.right()).map(|x| &buffer[(x, row.y)]) {
            match runs.last_mut().filter(|(style, _)| *style == cell.style()) {
                Some((_, text)) => text.push_str(cell.symbol()),
                None => runs.push((cell.style(), cell.symbol().to_owned())),
            }
        }
    }
    let is_plain = |style: &Style| *style == ratatui::buffer::Cell::default().style();
    let runs = runs.iter().filter(|(style, text)| !is_plain(style) && !text.trim().is_empty());
    let line = |(style, text): &(Style, String)| {
        let color = style.fg.filter(|color| *color != Color::Reset);
        let color = color.map_or_else(String::new, |color| format!("{color} "));
        format!("{:30} {color}{:?}\n", text.trim(), style.add_modifier)
    };
    runs.map(line).collect()
}

#[test]
fn how_parts_are_drawn() {
    for (name, has_color) in [("with-colours", true), ("without-colours", false)] {
        for (view, keys) in [("overview", &[][..]), ("upstreams", &[KeyCode::Char('3')])] {
            let terminal = after(&picture(), USUAL, keys, has_color);
            insta::assert_snapshot!(format!("{view}-{name}"), styles(terminal.backend().buffer()));
        }
    }
}

#[test]
fn colours_are_used_where_they_may_be() {
    let colors = |has_color| {
        let mut found = Vec::new();
        for view in ['1', '2', '3', '4', '?'] {
            let terminal = after(&picture(), USUAL, &[KeyCode::Char(view)], has_color);
            found
                .extend(terminal.backend().buffer().content().iter().flat_map(|it| [it.fg, it.bg]));
        }
        found.retain(|color| *color != Color::Reset);
        found
    };
    assert!(colors(true).contains(&Color::Red) && colors(true).contains(&Color::Green));
    assert_eq!(colors(false), []);
}

#[test]
fn what_a_picture_says_does_not_depend_on_colours() {
    for view in ['1', '2', '3', '4', '?'] {
        for size in [USUAL, WIDE, SMALL] {
            let text = |has_color| {
                let terminal = after(&picture(), size, &[KeyCode::Char(view)], has_color);
                lines_of(terminal.backend().buffer())
            };
            assert_eq!(text(true), text(false));
        }
    }
}

#[test]
fn no_size_is_too_small_and_nothing_is_obeyed() {
    for columns in [1, 5, 19, 20, 21, 33, 39, 40, 41, 57, 60, 79, 80, 200] {
        for rows in [1, 4, 5, 6, 9, 12, 30] {
            for view in ["1", "2>>", "3>>>", "4s", "?", "/abc"] {
                let text = shows(&picture(), (columns, rows), view);
                assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text}");
            }
        }
    }
}

#[test]
fn what_is_not_told_has_a_reason() {
    let picture = Picture { refused: Some("a token is needed".to_owned()), ..picture() };
    let figures = Figures { has_states: false, ..picture.figures.clone() };
    let picture = Picture { figures, ..picture };
    let text = shows(&picture, USUAL, "3");
    assert!(
        text.contains("states, reasons and breakers are not known: a token is needed"),
        "{text}"
    );
}
