//! The cleaning simulator: write cost of any victim policy and placement under any workload, without a file system.
//!
//! It simulates only blocks and segments (Sprite LFS, section 3.5): no metadata, no reads by users, and no time but the
//! number of blocks written. Policies and placements are those of [`firnfs::clean`]. The same setup gives the same result,
//! bit for bit, however many threads [`batch::run`] uses.
//!
//! Read from the top: [`simulate()`] (one run), `engine` (writing and cleaning), `disk` (places of blocks, with `buckets` for the
//! greedy policy), `workload` (with `zipf`).
//!
//! - `scheme`: policies, placements and workloads by name. `oracle`: the placement that knows the future. `trace`: writes that
//!   were recorded.
//! - `batch`: many runs. `steady`: when a run has settled. `histogram`: segments by utilisation. `limits`: what theory says.
//!   `watched`: a run that somebody watches.
//! - `figures`: the figures of Sprite LFS. `crosscheck`: the simulator against the file system, whose side is `real`.

pub mod batch;
mod buckets;
pub mod crosscheck;
mod disk;
mod engine;
pub mod figures;
mod histogram;
pub mod limits;
mod oracle;
mod real;
pub mod scheme;
pub mod simulate;
pub mod steady;
pub mod trace;
mod watched;
pub mod workload;
mod zipf;

pub use engine::{Regime, Until, VictimOrder};
pub use histogram::{Bar, Histogram};
pub use simulate::{Outcome, Setup, simulate};
pub use watched::{SegmentLook, Totals, Use, Watched};

#[cfg(test)]
mod tests;
