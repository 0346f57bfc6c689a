//! Cleaning policies: pure functions from what is known of the segments to the ones to clean. The cleaner in the file
//! system and the simulator run the same code.

mod policy;

pub use policy::{Candidate, CostBenefit, Greedy, Policy};
