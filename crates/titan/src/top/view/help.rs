//! The keys, and what columns mean.

use super::{Theme, Tone, line};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

const LINES: [&str; 20] = [
    "q, Ctrl-C   leave              1 2 3 4     overview, routes, upstreams, workers",
    "space       pause, go on       Tab, < >    the next view, and the one before",
    "s, r        sort by the next column, reverse",
    "/           show only names that contain a text: Enter keeps it, Esc removes it",
    "arrows      move; PgUp, PgDn, Home, End too; more of the marked row is below",
    "",
    "Rates are a second, of the time between the last two samples. - is not known.",
    "ERRORS      the share of 5xx and of requests that ended without a whole response",
    "none        requests that ended without a whole response",
    "P50 P90 P99 half, nine tenths, 99 % of requests took at most that, by buckets:",
    "            >10s is above the last one. ~ is an endpoint's mean until a response",
    "FAILED      the share of attempts that got no whole response",
    "STATE       of an upstream: healthy endpoints, or what its breaker (br.) is in",
    "SINCE       for how long it has been so",
    "ACTIVE WAIT requests in progress, and those that wait for a connection",
    "RETRY HEDGE EJECT SHED",
    "            retries, second tries, ejections, requests refused: all a second",
    "BUSY        the share of a core that a worker uses; at 100% it is saturated",
    "LAG         how late the last tick of its clock was",
    "",
];

pub(super) fn draw(buffer: &mut Buffer, area: Rect, theme: Theme) {
    for (row, text) in (0..).zip(LINES) {
        line(buffer, area, row, text, theme.style(Tone::Plain));
    }
}
