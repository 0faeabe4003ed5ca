//! What happens, step by step.

/// What happens to a connection. The data is a sequence of these, each with a byte that says which, one that says on which stream, and
/// one with the length of what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The peer sends bytes on the stream of a request.
    Says,
    /// The same, and ends it behind them.
    Ends,
    /// The peer sends bytes on a stream in one direction.
    SaysUni,
    /// The same, and ends it behind them.
    EndsUni,
    /// The peer resets a stream of either kind.
    Resets,
    /// The peer stops a stream of either kind.
    Stops,
    /// The peer takes more on a stream of either kind.
    Takes,
    /// The peer lets one more stream in one direction be opened.
    Grants,
    /// A client sends a request; a server responds, or goes on with that.
    Sends,
    /// The body that was told of is used, or some of it.
    Uses,
    /// Nobody is interested in a stream any more.
    Leaves,
    /// Seconds go by.
    Waits,
    /// The connection is to end in good order.
    Drains,
}

impl Step {
    /// All of them; the byte that says which one is its place here, or that and a multiple of how many there are.
    pub const ALL: [Step; 13] = [
        Step::Says,
        Step::Ends,
        Step::SaysUni,
        Step::EndsUni,
        Step::Resets,
        Step::Stops,
        Step::Takes,
        Step::Grants,
        Step::Sends,
        Step::Uses,
        Step::Leaves,
        Step::Waits,
        Step::Drains,
    ];

    /// The step as it stands in the data, cut off where it is too long.
    pub fn with(self, place: u8, bytes: &[u8]) -> Vec<u8> {
        let bytes = &bytes[..bytes.len().min(u8::MAX.into())];
        let length = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        [&[self as u8, place, length], bytes].concat()
    }

    /// The first step of the data.
    pub(super) fn split<'d>(data: &mut &'d [u8]) -> Option<(Step, u8, &'d [u8])> {
        let (&[step, place, length], rest) = data.split_first_chunk()?;
        let (bytes, rest) = rest.split_at(rest.len().min(length.into()));
        *data = rest;
        Some((Step::ALL[usize::from(step) % Step::ALL.len()], place, bytes))
    }
}
