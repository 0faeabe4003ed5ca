//! Figures in lines: what they are about, and as many of them as fit.

use super::{Theme, Tone, put};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A line of figures.
pub(super) struct Fact {
    label: &'static str,
    /// Those that matter most come first.
    items: Vec<(String, Tone)>,
}

/// The columns of a label, with the blanks behind it.
const LABEL: u16 = 11;

impl Fact {
    pub(super) fn of(label: &'static str, items: impl IntoIterator<Item = (String, Tone)>) -> Fact {
        Fact { label, items: items.into_iter().collect() }
    }
}

/// Writes facts below each other, as many as fit.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, facts: &[Fact], theme: Theme) {
    for (y, Fact { label, items }) in (area.y..area.bottom()).zip(facts) {
        put(buffer, area, (area.x, y), label, theme.style(Tone::Title));
        let mut x = area.x + LABEL;
        for (index, (text, tone)) in items.iter().enumerate() {
            let end = usize::from(x) + super::width(text);
            // The first one is cut, the others are left out.
            if index > 0 && end > area.right().into() {
                break;
            }
            x = put(buffer, area, (x, y), text, theme.style(*tone)) + 2;
        }
    }
}
