//! The real volume on a disk that fails: `errors` says what callers are told, `histories` that honest failures lose nothing
//! that was synced, `lies` that a disk which answers "done" without having done it is never believed.

// Hangs are told by the clock, and one test needs threads.
#![allow(clippy::disallowed_methods)]

mod errors;
mod histories;
mod lies;
