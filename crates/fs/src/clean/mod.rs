//! Cleaning decisions as pure functions: which segments to clean ([`Policy`]), which parts of them to read ([`reading`]), to
//! which open log a block goes ([`Placement`]), and when it pays to put blocks in order ([`scatter`]). The cleaner in the file
//! system and the cleaning simulator run this code, and no other.
//!
//! Nothing in this module reads a clock or draws random numbers: times, ages and feedback are parameters. Units of
//! age are the caller's (the file system's are times, the simulator's are blocks written by users); policies only
//! compare them.
//!
//! `policy` has the policies, `candidate` what they know about a segment, `estimate` the best victim by how fast blocks die;
//! `placement` has the placements, `facts` what they may know about a block, `dac` and `lifespan` (SepBIT) are two of them;
//! `medium` says how long a device takes to read; `names` knows policies and placements by name.

mod candidate;
mod dac;
mod estimate;
mod facts;
mod lifespan;
mod medium;
pub mod names;
mod placement;
#[cfg(test)]
mod placement_tests;
mod policy;
pub mod reading;
pub mod scatter;

pub use candidate::{Candidate, Terms};
pub use dac::{Dac, LeapingDac};
pub use facts::{BlockFacts, Cleaned, Writer};
pub use lifespan::SepBit;
pub use medium::Medium;
pub use names::PlacementName;
pub use placement::{MAX_OPEN_LOGS, Mida, OneLog, Placement, Split};
pub use policy::Policy;
