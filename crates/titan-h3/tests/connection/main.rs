//! A connection against peers written by hand, and against its other role.

#![expect(clippy::unwrap_used, reason = "a test may stop at a surprise")]
#![expect(clippy::cast_possible_truncation, reason = "the numbers of a test are small")]

mod bounds;
mod floods;
mod leaving;
mod pair;
mod peer;
mod rules;
