//! Connections of both roles: bytes in, events and bytes out.

#![expect(clippy::unwrap_used, reason = "a test may stop at a surprise")]
#![expect(clippy::cast_possible_truncation, reason = "the numbers of a test are small")]

mod floods;

mod leaving;

mod messages;

mod pair;

mod peer;

mod rules;

mod splits;

mod windows;
