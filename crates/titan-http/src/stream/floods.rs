//! The budget against floods: what a peer costs without getting anything done (RFC 9113 section 10.5, RFC 9114 section 10.5).
//!
//! Each frame that a peer can send at will and that achieves nothing costs points. Completed work gives points back,
//! and so does time. If a peer exceeds its budget, the connection ends.
//!
//! | what | points |
//! |---|---|
//! | a stream that is opened beyond the limit | 1 |
//! | a stream that is reset before its response | 1, or 1 of the credit that completed responses have earned |
//! | the same, if the driver says that there was a reason, such as a deadline | nothing |
//! | a stream that this side must reset because the peer broke a rule | 2 |
//! | a head that is refused with a response | 2 |
//! | PING, GOAWAY, interim responses beyond `FREE_INTERIM` of a stream | 1 |
//! | frames on closed streams, unless this side opened the stream and then reset it | 1 |
//! | the first reset of a closed stream, which may have crossed the response | nothing |
//! | SETTINGS | 2, and 1 for each 8 settings |
//! | CONTINUATION | 1; the number for one block is bounded as well |
//! | DATA without data | 1 |
//! | DATA of a few bytes | 1 for each `THIN_DEBT` bytes that frames fall short of `THIN` on average |
//! | DATA on closed streams | 1 for each `LOST_DEBT` bytes |
//! | WINDOW_UPDATE, PRIORITY, frames of unknown types | 1 for each beyond what streams and sent data have earned |

/// Bytes of data below which a frame is not worth its trouble. The smallest message of gRPC has 5, that of a
/// WebSocket 6: a stream of those is no flood.
const THIN: u32 = 4;

/// What frames may fall short of `THIN` for one point.
const THIN_DEBT: u32 = 12;

/// Bytes on streams that are over for one point. What is on its way when a stream ends is no fault.
const LOST_DEBT: usize = 16 << 10;

/// What a frame is counted as on a stream that is over, beside its data.
const LOST_FRAME: usize = 256;

/// Asides that may be earned in advance: enough for a peer that announces each 4 KiB of a window of 1 MiB,
/// for stream and connection.
const MOST_ASIDES: u32 = 512;

/// What may still come on a stream that this side has reset: heads, a reset, updates of windows.
const EXCUSED_FRAMES: u32 = 8;

/// Bytes of its window for one point more: data may come in small frames.
const EXCUSED_BYTES: usize = 1024;

/// Points that may be excused in advance: thousands of streams that are given up at once.
const MOST_EXCUSED: u32 = 1 << 20;

/// The part of the budget that leaks away in a second.
const LEAK: u32 = 10;

/// A peer has exceeded its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flood;

/// The account of one peer.
#[derive(Debug)]
pub struct Floods {
    flood_budget: u32,
    points: u32,
    /// Resets that are free because streams before them were responded: at most `flood_budget`.
    credit: u32,
    /// Bytes that frames have fallen short of being worth their trouble, below `THIN_DEBT`.
    thin: u32,
    /// Bytes that came on streams that are over, below `LOST_DEBT`.
    lost: usize,
    /// Frames that are free because they come along with messages.
    asides: u32,
    /// Points that are free because this side has given up streams that the peer was right to serve.
    excused: u32,
}

impl Floods {
    /// One that allows so many points.
    pub fn new(flood_budget: u32) -> Floods {
        Floods { flood_budget, points: 0, credit: 0, thin: 0, lost: 0, asides: 8, excused: 0 }
    }

    /// Charges so many points.
    ///
    /// # Errors
    ///
    /// When the budget is exceeded.
    pub fn charge(&mut self, points: u32) -> Result<(), Flood> {
        self.points = self.points.saturating_add(points);
        if self.points > self.flood_budget { Err(Flood) } else { Ok(()) }
    }

    /// Something got done.
    #[inline]
    pub fn relieve(&mut self, points: u32) {
        self.points = self.points.saturating_sub(points);
    }

    /// A stream got its response. A client that has had responses may change its mind for once.
    #[inline]
    pub fn responded(&mut self) {
        match self.points.checked_sub(1) {
            Some(left) => self.points = left,
            None => self.credit = (self.credit + 1).min(self.flood_budget),
        }
    }

    /// A stream was reset before it was responded.
    ///
    /// # Errors
    ///
    /// When the budget is exceeded.
    pub fn reset(&mut self) -> Result<(), Flood> {
        match self.credit.checked_sub(1) {
            Some(left) => {
                self.credit = left;
                Ok(())
            }
            None => self.charge(1),
        }
    }

    /// This side, which has asked, has given a stream up: what is on its way, among it that many bytes of data,
    /// is no fault of the peer's.
    pub fn excuse(&mut self, bytes: usize) {
        let points = u32::try_from(bytes / EXCUSED_BYTES).unwrap_or(MOST_EXCUSED);
        let sum = self.excused.saturating_add(EXCUSED_FRAMES).saturating_add(points);
        self.excused = sum.min(MOST_EXCUSED);
    }

    /// A frame has come that is of no use any more.
    ///
    /// # Errors
    ///
    /// When the budget is exceeded.
    pub fn stray(&mut self) -> Result<(), Flood> {
        match self.excused.checked_sub(1) {
            Some(left) => {
                self.excused = left;
                Ok(())
            }
            None => self.charge(1),
        }
    }

    /// DATA with that many bytes has come.
    ///
    /// # Errors
    ///
    /// When the budget is exceeded.
    #[inline]
    pub fn data(&mut self, length: usize) -> Result<(), Flood> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.thin = (self.thin + THIN).saturating_sub(length);
        if self.thin < THIN_DEBT {
            return Ok(());
        }
        self.thin -= THIN_DEBT;
        self.charge(1)
    }

    /// A frame of DATA has come on a stream that is over.
    ///
    /// # Errors
    ///
    /// When the budget is exceeded.
    pub fn lost_data(&mut self, length: usize) -> Result<(), Flood> {
        self.lost += length + LOST_FRAME;
        if self.lost < LOST_DEBT {
            return Ok(());
        }
        self.lost -= LOST_DEBT;
        self.stray()
    }

    /// A stream was opened, or that many bytes of data were sent: something to update windows and priorities
    /// for.
    #[inline]
    pub fn earn_asides(&mut self, length: usize) {
        let earned = 2 + u32::try_from(length / 1024).unwrap_or(MOST_ASIDES);
        self.asides = self.asides.saturating_add(earned).min(MOST_ASIDES);
    }

    /// A frame has come that goes along with messages: an update of a window, a priority, an extension.
    ///
    /// # Errors
    ///
    /// When the budget is exceeded.
    #[inline]
    pub fn aside(&mut self) -> Result<(), Flood> {
        match self.asides.checked_sub(1) {
            Some(left) => {
                self.asides = left;
                Ok(())
            }
            None => self.stray(),
        }
    }

    /// So many seconds have gone by: a part of what was charged is forgiven.
    pub fn calm(&mut self, seconds: u32) {
        let share = (self.flood_budget / LEAK).max(1);
        self.relieve(share.saturating_mul(seconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until_flood(mut step: impl FnMut() -> Result<(), Flood>) -> usize {
        (0..100_000).take_while(|_| step().is_ok()).count()
    }

    #[test]
    fn budget_ends_and_comes_back() {
        let mut floods = Floods::new(200);
        assert_eq!(until_flood(|| floods.charge(1)), 200);
        floods.relieve(2);
        assert_eq!(until_flood(|| floods.charge(1)), 1);
        floods.calm(1);
        assert_eq!(until_flood(|| floods.charge(1)), 19);
        floods.calm(u32::MAX);
        assert_eq!(until_flood(|| floods.charge(1)), 200);
    }

    #[test]
    fn responses_earn_resets_and_nothing_else() {
        let mut floods = Floods::new(200);
        (0..10).for_each(|_| floods.responded());
        assert_eq!(until_flood(|| floods.reset()), 210);
        (0..2).for_each(|_| floods.responded());
        assert_eq!(until_flood(|| floods.reset()), 1);
        let mut floods = Floods::new(200);
        (0..1000).for_each(|_| floods.responded());
        assert_eq!(until_flood(|| floods.charge(1)), 200);
        let mut floods = Floods::new(200);
        (0..1000).for_each(|_| floods.responded());
        assert_eq!(until_flood(|| floods.reset()), 400);
    }

    #[test]
    fn thin_data_costs_by_its_average() {
        let thin = |length| {
            let mut floods = Floods::new(200);
            until_flood(|| floods.data(length))
        };
        assert!(thin(1) < 1000);
        assert_eq!(thin(5), 100_000);
        let mut floods = Floods::new(200);
        let mixed = until_flood(|| floods.data(1).and_then(|()| floods.data(7)));
        assert_eq!(mixed, 100_000);
    }

    #[test]
    fn asides_are_free_while_data_is_sent() {
        let mut floods = Floods::new(200);
        let fine = until_flood(|| {
            floods.earn_asides(16_384);
            (0..8).try_for_each(|_| floods.aside())
        });
        assert_eq!(fine, 100_000);
        assert!(until_flood(|| floods.aside()) < 1000);
    }

    #[test]
    fn data_without_a_stream_costs_by_its_length() {
        let mut floods = Floods::new(200);
        assert!((190..=200).contains(&until_flood(|| floods.lost_data(16_384))));
        let mut floods = Floods::new(200);
        assert_eq!((0..64).filter(|_| floods.lost_data(1024).is_err()).count(), 0);
        assert!(floods.points <= 5);
    }
}
