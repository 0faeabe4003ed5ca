//! Flow control (RFC 9113 section 5.2): what may still be received, and what may still be sent.

use crate::frame::MAX_31;

/// The initial size of every window.
pub(crate) const FIRST_WINDOW: i64 = 65_535;

/// What the peer may still send.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inflow {
    /// Bytes that the peer may send now. Below zero for a while after the window was compressed.
    window: i64,
    /// Bytes that were used or set aside, and not given back yet.
    due: i64,
    /// Bytes that were used since the window grew last.
    used: i64,
    /// What `window` is when nothing is on its way or waits to be used.
    size: i64,
    /// What `size` may grow to.
    most: i64,
}

impl Inflow {
    pub(crate) fn of(size: i64) -> Inflow {
        Inflow::growing(size, size)
    }

    /// A window that grows to `most` as what comes is used: one whose data lies about stays as it is.
    pub(crate) fn growing(size: i64, most: i64) -> Inflow {
        Inflow { window: size, due: 0, used: 0, size, most: most.max(size) }
    }

    /// Bytes that may come now.
    pub(crate) fn available(self) -> usize {
        usize::try_from(self.window).unwrap_or(0)
    }

    /// Counts bytes that have arrived; `false` when they are more than was allowed.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> bool {
        self.window -= whole(count);
        self.window >= 0
    }

    /// Counts bytes that were used. Returns what to give back now, if that is worth a frame: half a
    /// window.
    #[inline]
    pub(crate) fn release(&mut self, count: usize) -> Option<u32> {
        self.used += whole(count);
        self.set_aside(count)
    }

    /// The same for bytes that are unused so far: room for them was found elsewhere, and the window does not grow for
    /// that.
    #[inline]
    pub(crate) fn set_aside(&mut self, count: usize) -> Option<u32> {
        self.due += whole(count);
        debug_assert!(self.window + self.due <= self.size, "released more than was received");
        if self.due * 2 < self.size || self.due == 0 {
            return None;
        }
        let mut growth = 0;
        if self.used * 2 >= self.size {
            (growth, self.used) = (self.size.min(self.most - self.size), 0);
        }
        self.size += growth;
        let due = (self.due + growth).min(i64::from(MAX_31));
        self.due += growth - due;
        self.window += due;
        u32::try_from(due).ok()
    }

    /// Grows or shrinks the window by a change that was announced to the peer.
    pub(crate) fn shift(&mut self, by: i64) {
        self.window += by;
        self.size += by;
        self.most = self.most.max(self.size);
    }
}

/// What may still be sent to the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outflow(i64);

impl Outflow {
    pub(crate) fn of(size: i64) -> Outflow {
        Outflow(size)
    }

    /// Bytes that may go now.
    #[inline]
    pub(crate) fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Counts bytes that go: at most as many as are available.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) {
        debug_assert!(count <= self.available());
        self.0 -= whole(count);
    }

    /// The peer allows so many more, or fewer. `false` when the window becomes larger than any may be.
    pub(crate) fn shift(&mut self, by: i64) -> bool {
        self.0 += by;
        self.0 <= i64::from(MAX_31)
    }
}

impl Default for Outflow {
    fn default() -> Outflow {
        Outflow(FIRST_WINDOW)
    }
}

#[expect(clippy::cast_possible_wrap, reason = "counts are lengths of slices")]
fn whole(count: usize) -> i64 {
    count as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_window_is_given_back_at_once() {
        let mut inflow = Inflow::of(100);
        assert!(inflow.take(100));
        assert_eq!(inflow.release(49), None);
        assert_eq!(inflow.release(1), Some(50));
        assert_eq!(inflow.release(50), Some(50));
        assert!(inflow.take(100) && !inflow.take(1));
    }

    #[test]
    fn a_window_grows_as_it_is_used() {
        let mut inflow = Inflow::growing(100, 350);
        assert!(inflow.take(100));
        assert_eq!(inflow.release(50), Some(150));
        assert!(inflow.take(150) && !inflow.take(1));
        let mut inflow = Inflow::growing(100, 350);
        let mut given = 0;
        for _ in 0..100 {
            assert!(inflow.take(60));
            given += i64::from(inflow.release(60).unwrap_or(0));
        }
        assert!(inflow.take(350 - 60) && !inflow.take(61));
        assert!((250 + 6_000 - 175..=250 + 6_000).contains(&given), "{given}");
    }

    #[test]
    fn a_window_does_not_grow_with_what_is_set_aside() {
        let mut inflow = Inflow::growing(100, 350);
        for _ in 0..10 {
            assert!(inflow.take(100));
            assert_eq!(inflow.set_aside(100), Some(100));
        }
        assert!(inflow.take(100));
        assert_eq!((inflow.release(20), inflow.set_aside(40)), (None, Some(60)));
        assert_eq!((inflow.release(10), inflow.set_aside(30)), (None, None));
        assert!(inflow.take(60));
        assert_eq!(inflow.release(60), Some(200), "half of a window was used in all");
    }

    #[test]
    fn a_window_of_one_byte_still_moves() {
        let mut inflow = Inflow::of(1);
        assert!(inflow.take(1));
        assert_eq!(inflow.release(0), None);
        assert_eq!(inflow.release(1), Some(1));
    }

    #[test]
    fn a_window_may_be_below_zero() {
        let mut outflow = Outflow::of(10);
        outflow.take(10);
        assert!(outflow.shift(-5));
        assert_eq!(outflow.available(), 0);
        assert!(outflow.shift(6));
        assert_eq!(outflow.available(), 1);
        assert!(!outflow.shift(i64::from(MAX_31)));
    }
}
