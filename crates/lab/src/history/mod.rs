//! What a past costs: a simulator of cleaning on volumes that keep points in time, for two designs of the format.
//!
//! As in [`crate::cleaning`] there are only blocks and segments, and policies, placements and workloads are the same code. In
//! addition blocks have a birth and a death, points are made at regular intervals and dropped oldest first when the past takes
//! more than its share, and a dead block that a retained point sees is moved like a live one. The tables that a design needs to
//! find moved blocks again are blocks of the same log: they are written, die, take space and are cleaned.
//!
//! The designs ([`Design`]) are those of `docs/decisions/0207`.
//!
//! Read from the top: [`simulate()`] (one run), `engine` (writes, points, cleaning), `tables` (what each design writes), `log`
//! (places of versions). Caller: `firn sim history`.

mod engine;
mod log;
mod simulate;
mod tables;

pub use simulate::{Design, Outcome, Setup, run_all, simulate};

#[cfg(test)]
mod tests;
